// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own uevents (no udev needed): they only say when to look at sysfs again.

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const KERNEL_GROUP: u32 = 1;

pub struct Uevents(OwnedFd);

impl Uevents {
    pub fn open() -> nix::Result<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkKObjectUEvent)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, KERNEL_GROUP))?;
        Ok(Self(socket))
    }

    /// Takes what has arrived; true if something of it concerns SCSI disks or iSCSI sessions, or was lost.
    pub fn drain(&self) -> bool {
        let mut concerned = false;
        let mut message = [0; 8192];
        loop {
            match recv(self.0.as_raw_fd(), &mut message, MsgFlags::empty()) {
                Ok(length) => concerned |= concerns_disks(message.get(..length).unwrap_or_default()),
                Err(Errno::ENOBUFS) => concerned = true,
                Err(Errno::EINTR) => {}
                Err(_) => return concerned,
            }
        }
    }
}

impl AsFd for Uevents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn concerns_disks(message: &[u8]) -> bool {
    let subsystem = message.split(|&byte| byte == 0).find_map(|line| line.strip_prefix(b"SUBSYSTEM="));
    matches!(subsystem, Some(b"block" | b"scsi" | b"iscsi_session" | b"iscsi_connection"))
}

#[cfg(test)]
mod tests {
    use super::concerns_disks;

    #[test]
    fn only_disks_and_sessions_concern_us() {
        assert!(concerns_disks(b"add@/devices/x\0ACTION=add\0SUBSYSTEM=block\0SEQNUM=1\0"));
        assert!(concerns_disks(b"add@/devices/x\0SUBSYSTEM=iscsi_session\0"));
        assert!(!concerns_disks(b"add@/devices/x\0SUBSYSTEM=net\0"));
        assert!(!concerns_disks(b""));
    }
}
