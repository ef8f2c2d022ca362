// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's word that an idle disk is read or written: its tracepoint at each SCSI command, in an instance of tracefs of the
//! daemon's own (Documentation/trace/ftrace.rst, "Instances"). It costs nothing while nothing is used, and the start is not
//! late by the time between two looks.

use nix::libc::O_NONBLOCK;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where it is mounted below sysfs; the second is by the kernel itself.
const MOUNTS: [&str; 2] = ["kernel/tracing", "kernel/debug/tracing"];
const EVENT: &str = "events/scsi/scsi_dispatch_cmd_start";
/// READ and WRITE (6), (10) and (16) of SBC-4: sd uses no other.
const OPCODES: [u8; 6] = [0x08, 0x28, 0x88, 0x0a, 0x2a, 0x8a];

/// Removed after what is open in it was closed.
struct Instance(PathBuf);

impl Instance {
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.0.join(file);
        let with_path = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        fs::write(&path, text).map_err(with_path)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

pub struct Trace {
    pipe: File,
    filter: String,
    armed: bool,
    instance: Instance,
}

impl Trace {
    /// `sysfs`: where that is.
    pub fn open(sysfs: &Path) -> io::Result<Self> {
        let mounts = MOUNTS.map(|mount| sysfs.join(mount).join("instances"));
        let instances = mounts.iter().find(|dir| dir.is_dir()).ok_or_else(|| io::Error::other("no tracefs"))?;
        let dir = instances.join("iscsi-cwndd");
        fs::create_dir(&dir).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()), // left by a crash
            _ => Err(error),
        })?;
        let instance = Instance(dir);
        instance.write("tracing_on", "0")?;
        instance.write("buffer_size_kb", "4")?;
        // Readable from the first byte on.
        instance.write("buffer_percent", "0")?;
        let pipe = File::options().read(true).custom_flags(O_NONBLOCK).open(instance.0.join("trace_pipe"))?;
        Ok(Self { pipe, filter: String::new(), armed: false, instance })
    }

    /// Becomes readable with the next read or write of any of these SCSI hosts; with `None` it does not.
    pub fn follow(&mut self, scsi_hosts: Option<&[u32]>) -> io::Result<()> {
        let filter = scsi_hosts.map(filter);
        if let Some(filter) = filter.as_ref().filter(|filter| **filter != self.filter) {
            self.instance.write(&format!("{EVENT}/filter"), filter)?;
            self.instance.write(&format!("{EVENT}/enable"), "1")?;
            self.filter.clone_from(filter);
        }
        if self.armed != filter.is_some() {
            self.instance.write("tracing_on", if filter.is_some() { "1" } else { "0" })?;
            self.armed = filter.is_some();
            self.drain();
        }
        Ok(())
    }

    pub fn armed(&self) -> bool {
        self.armed
    }

    /// What it says does not matter; the buffer is small.
    fn drain(&mut self) {
        let mut text = [0; 4096];
        while self.pipe.read(&mut text).is_ok_and(|length| length > 0) {}
    }
}

impl AsFd for Trace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// In the language of Documentation/trace/events.rst.
fn filter(scsi_hosts: &[u32]) -> String {
    let hosts = scsi_hosts.iter().map(|host| format!("host_no == {host}")).collect::<Vec<_>>().join(" || ");
    let opcodes = OPCODES.map(|opcode| format!("opcode == {opcode}")).join(" || ");
    format!("({hosts}) && ({opcodes})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in the place of tracefs: what is written where.
    #[test]
    fn follows_idle_hosts_only() {
        let dir = tempfile::tempdir().unwrap();
        let instance = dir.path().join("kernel/tracing/instances/iscsi-cwndd");
        fs::create_dir_all(instance.join(EVENT)).unwrap();
        fs::write(instance.join("trace_pipe"), "").unwrap();
        let written = |file: &str| fs::read_to_string(instance.join(file)).unwrap();
        let mut trace = Trace::open(dir.path()).unwrap();
        trace.follow(None).unwrap();
        assert_eq!(written("tracing_on"), "0");
        trace.follow(Some(&[2, 7])).unwrap();
        assert_eq!(written("tracing_on"), "1");
        let filter = "(host_no == 2 || host_no == 7) && (opcode == 8 || opcode == 40 || opcode == 136 || \
                      opcode == 10 || opcode == 42 || opcode == 138)";
        assert_eq!(written(&format!("{EVENT}/filter")), filter);
        assert_eq!(written(&format!("{EVENT}/enable")), "1");
        trace.follow(None).unwrap();
        assert!(!trace.armed());
        assert_eq!(written("tracing_on"), "0");
    }

    #[test]
    fn without_tracefs_it_says_so() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Trace::open(dir.path()).err().unwrap().to_string(), "no tracefs");
    }
}
