// SPDX-License-Identifier: GPL-2.0-only
//! What connections advertise.
//!
//! The kernel's initiator has its sockets from iscsid, which keeps them open. `TCP_WINDOW_CLAMP` is set on a duplicate of
//! iscsid's descriptor (`pidfd_getfd(2)`, which needs `CAP_SYS_PTRACE`).

use super::open_files::io_error;
use nix::sys::socket::setsockopt;
use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};
use procfs::process::{FDTarget, all_processes};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;

/// More than any connection advertises (65,535 << 14, RFC 7323): none of it is kept back.
const UNBOUNDED_BYTES: usize = 1 << 30;

sockopt_impl!(WindowClamp, Both, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, usize);

/// Who has a socket open, and as which descriptor.
struct Holder {
    process: OwnedFd,
    fd: i32,
}

/// By the inodes of sockets.
#[derive(Default)]
pub struct Holders(HashMap<u64, Holder>);

impl Holders {
    /// Has the connection advertise no more than so many bytes (the kernel rounds up, by the window scale); `None` undoes it.
    /// It takes back nothing that was advertised before. The kernel may set what it likes in its place, so this is not for
    /// ever.
    pub fn advertise(&mut self, inode: u64, most_bytes: Option<u64>) -> io::Result<()> {
        let most_bytes = most_bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(UNBOUNDED_BYTES);
        let socket = match self.0.get(&inode).map(|holder| holder.socket(inode)) {
            Some(Ok(socket)) => socket,
            // Not known, or no longer so; nor may others be.
            _ => {
                self.0.retain(|&inode, holder| holder.socket(inode).is_ok());
                let holder = find(inode)?;
                let socket = holder.socket(inode)?;
                self.0.insert(inode, holder);
                socket
            }
        };
        Ok(setsockopt(&socket, WindowClamp, &most_bytes.min(UNBOUNDED_BYTES))?)
    }
}

impl Holder {
    fn socket(&self, inode: u64) -> io::Result<File> {
        let socket = File::from(pidfd_getfd(&self.process, self.fd, PidfdGetfdFlags::empty())?);
        // It may be another one by now.
        if socket.metadata()?.st_ino() == inode { Ok(socket) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

fn find(inode: u64) -> io::Result<Holder> {
    let mut denied = false;
    for process in all_processes().map_err(io_error)?.flatten() {
        let files = match process.fd() {
            Ok(files) => files,
            Err(error) => {
                // What ends meanwhile is no error.
                denied |= io_error(error).kind() == io::ErrorKind::PermissionDenied;
                continue;
            }
        };
        if let Some(info) = files.flatten().find(|info| info.target == FDTarget::Socket(inode)) {
            let pid = Pid::from_raw(process.pid).ok_or(io::ErrorKind::NotFound)?;
            return Ok(Holder { process: pidfd_open(pid, PidfdFlags::empty())?, fd: info.fd });
        }
    }
    Err(if denied { io::ErrorKind::PermissionDenied } else { io::ErrorKind::NotFound }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::getsockopt;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_socket_is_bounded_by_its_inode_until_it_is_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (bounded, other) = (connect(), connect());
        let inode =
            |stream: &TcpStream| std::fs::metadata(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap().st_ino();
        let most = |stream: &TcpStream| getsockopt(stream, WindowClamp).unwrap();
        let (mut holders, before, number) = (Holders::default(), most(&other), inode(&bounded));
        for (most_bytes, bytes) in [(Some(16_384), 16_384), (Some(32_768), 32_768), (None, 1 << 30)] {
            holders.advertise(number, most_bytes).unwrap();
            assert_eq!((most(&bounded), most(&other)), (bytes, before));
        }
        // Its descriptor is another socket's by now.
        drop(bounded);
        let _another = connect();
        let kind = holders.advertise(number, Some(16_384)).unwrap_err().kind();
        // Others' processes may not be looked into.
        assert!([io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&kind), "{kind}");
        assert!(holders.0.is_empty());
    }
}
