// SPDX-License-Identifier: GPL-2.0-only
//! Files that are open already.
//!
//! The kernel gives a file its disk's read-ahead when it is opened, and anew at `posix_fadvise(POSIX_FADV_NORMAL)`. That
//! is called here on a duplicate of the reader's own descriptor (`pidfd_getfd(2)`, which needs `CAP_SYS_PTRACE`).

use nix::sys::stat::{major, minor};
use procfs::ProcError;
use procfs::process::{FDTarget, Process, all_processes};
use rustix::fs::Advice;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;

/// Mount points by mount namespace: thousands of processes share one.
type Mounts = HashMap<PathBuf, Vec<PathBuf>>;

/// Gives each file that is open on one of the block devices (`major:minor`), or on a file system there, the read-ahead
/// of now; returns how many there were. An error is what kept some of them from it; the others have theirs.
pub fn renew_read_ahead(devices: &HashSet<String>) -> io::Result<usize> {
    let (mut count, mut failed) = (0, None);
    if devices.is_empty() {
        return Ok(count);
    }
    let mut mounts = Mounts::new();
    // What ends meanwhile is no error.
    for process in all_processes().map_err(io_error)?.flatten() {
        match renew_of(&process, devices, &mut mounts) {
            Ok(renewed) => count += renewed,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => failed = Some(error),
            Err(_) => {}
        }
    }
    failed.map_or(Ok(count), Err)
}

fn renew_of(process: &Process, devices: &HashSet<String>, mounts: &mut Mounts) -> io::Result<usize> {
    let (mut count, mut pidfd) = (0, None);
    let files = process.fd().map_err(io_error)?;
    let mount_points = mount_points(process, devices, mounts);
    for info in files.flatten() {
        // By name at first: a descriptor of any other kind is not touched, nor a file system that may hang.
        let FDTarget::Path(path) = &info.target else { continue };
        let ours = if path.starts_with("/dev") {
            let link = format!("/proc/{}/fd/{}", process.pid, info.fd);
            fs::metadata(link).is_ok_and(|file| devices.contains(&number(file.st_rdev())))
        } else {
            mount_points.iter().any(|mount_point| path.starts_with(mount_point))
        };
        if !ours {
            continue;
        }
        let pidfd = match &pidfd {
            Some(pidfd) => pidfd,
            None => {
                let pid = Pid::from_raw(process.pid).ok_or(io::ErrorKind::NotFound)?;
                pidfd.insert(pidfd_open(pid, PidfdFlags::empty())?)
            }
        };
        let file = File::from(pidfd_getfd(pidfd, info.fd, PidfdGetfdFlags::empty())?);
        // The process, or the file, may be another one by now.
        let metadata = file.metadata()?;
        if devices.contains(&number(metadata.st_dev())) || devices.contains(&number(metadata.st_rdev())) {
            rustix::fs::fadvise(&file, 0, None, Advice::Normal)?;
            count += 1;
        }
    }
    Ok(count)
}

fn mount_points<'a>(process: &Process, devices: &HashSet<String>, mounts: &'a mut Mounts) -> &'a [PathBuf] {
    let Ok(namespace) = fs::read_link(format!("/proc/{}/ns/mnt", process.pid)) else { return &[] };
    mounts.entry(namespace).or_insert_with(|| {
        let all = process.mountinfo().map(|mounts| mounts.0).unwrap_or_default();
        all.into_iter().filter(|mount| devices.contains(&mount.majmin)).map(|mount| mount.mount_point).collect()
    })
}

fn number(device: u64) -> String {
    format!("{}:{}", major(device), minor(device))
}

pub(super) fn io_error(error: ProcError) -> io::Error {
    match error {
        ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_open_file_is_found_by_its_file_system_and_no_other_is_touched() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mounts = Process::myself().unwrap().mountinfo().unwrap().0;
        let mount = mounts.into_iter().rfind(|mount| file.path().starts_with(&mount.mount_point)).unwrap();
        let mut reader = Command::new("sleep")
            .arg("60")
            .stdin(file.reopen().unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Process::new(reader.id().try_into().unwrap()).unwrap();
        // Until it sleeps its loader has files open as well.
        while process.stat().unwrap().state != 'S' {
            std::thread::yield_now();
        }
        let renewed = |device: String| renew_of(&process, &HashSet::from([device]), &mut Mounts::new());
        let found = (renewed(mount.majmin), renewed("4095:0".into()));
        reader.kill().unwrap();
        reader.wait().unwrap();
        assert_eq!((found.0.unwrap(), found.1.unwrap()), (1, 0));
    }
}
