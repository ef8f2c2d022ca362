// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's word that an idle disk is read or written, and how much its first reads ask for: its tracepoint at each SCSI
//! command, in an instance of tracefs of the daemon's own (Documentation/trace/ftrace.rst, "Instances"). It costs nothing
//! while nothing is used, and the start is not late by the time between two looks.

use nix::libc::O_NONBLOCK;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where it is mounted below sysfs; the second is by the kernel itself.
const MOUNTS: [&str; 2] = ["kernel/tracing", "kernel/debug/tracing"];
const EVENT: &str = "events/scsi/scsi_dispatch_cmd_start";
/// Of 4 KiB, as the buffer is, that are read at once.
const MOST_PARTS: usize = 16;
/// READ and WRITE (6), (10) and (16) of SBC-4: sd uses no other.
const OPCODES: [u8; 6] = [0x08, 0x28, 0x88, 0x0a, 0x2a, 0x8a];

/// A read that the kernel has told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// H:B:T:L
    pub scsi_device: String,
    pub blocks: u32,
}

impl Begun {
    /// A line of include/trace/events/scsi.h and drivers/scsi/scsi_trace.c; nothing of what is not a read.
    fn parse(line: &str) -> Option<Self> {
        let (_, event) = line.split_once("scsi_dispatch_cmd_start: ")?;
        let words = || event.split([' ', '(', ')']);
        let field = |name: &str| words().find_map(|word| word.strip_prefix(name)?.parse::<u32>().ok());
        words().find(|word| word.starts_with("READ_"))?;
        let [host, channel, id, lun] = [field("host_no=")?, field("channel=")?, field("id=")?, field("lun=")?];
        Some(Self { scsi_device: format!("{host}:{channel}:{id}:{lun}"), blocks: field("txlen=")? })
    }
}

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
            self.begun();
        }
        Ok(())
    }

    pub fn armed(&self) -> bool {
        self.armed
    }

    /// The reads it has told of; what is left, if they come faster than that, makes the pipe readable again.
    pub fn begun(&mut self) -> Vec<Begun> {
        let mut text = Vec::new();
        let mut part = [0; 4096];
        for _ in 0..MOST_PARTS {
            let Ok(length @ 1..) = self.pipe.read(&mut part) else { break };
            text.extend_from_slice(&part[..length]);
        }
        String::from_utf8_lossy(&text).lines().filter_map(Begun::parse).collect()
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

    /// As the kernel prints them, and some that it never would.
    #[test]
    fn tells_how_much_reads_ask_for() {
        let dir = tempfile::tempdir().unwrap();
        let instance = dir.path().join("kernel/tracing/instances/iscsi-cwndd");
        fs::create_dir_all(&instance).unwrap();
        let line = |lun, cmnd| {
            format!(
                "   kworker/0:1H-53   [000] ..... 1.220000: scsi_dispatch_cmd_start: host_no=2 channel=0 id=0 lun={lun} \
                 data_sgl=1 prot_sgl=0 prot_op=SCSI_PROT_NORMAL driver_tag=3 scheduler_tag=9 cmnd=({cmnd})\n"
            )
        };
        let text = [
            line("0", "READ_10 lba=2048 txlen=8 protect=0 raw=28 00 00 00 08 00 00 00 08 00"),
            line("1", "READ_16 lba=9 txlen=256 protect=0 raw=88 00"),
            line("1", "WRITE_10 lba=9 txlen=8 protect=0 raw=2a 00"),
            line("0", "READ_10 lba=9 txlen=-8 protect=0 raw=28"),
            line("x", "READ_10 lba=9 txlen=8 protect=0 raw=28"),
            "CPU:0 [LOST 7 EVENTS]\n scsi_dispatch_cmd_start: \u{fffd}".into(),
        ];
        fs::write(instance.join("trace_pipe"), text.concat()).unwrap();
        let begun = Trace::open(dir.path()).unwrap().begun();
        let read = |scsi_device: &str, blocks| Begun { scsi_device: scsi_device.into(), blocks };
        assert_eq!(begun, [read("2:0:0:0", 8), read("2:0:0:1", 256)]);
    }

    #[test]
    fn without_tracefs_it_says_so() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Trace::open(dir.path()).err().unwrap().to_string(), "no tracefs");
    }
}
