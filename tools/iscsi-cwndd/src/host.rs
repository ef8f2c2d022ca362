// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon needs of the machine, as a trait: [`sysfs::Sysfs`] is the real one, `sim::Sim` the tests'.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::PathBuf;

pub use sock_diag::{Ends, TcpSocket};
pub use trace::{Begun, Trace};

pub mod advertised;
pub mod open_files;
pub mod scsi;
#[cfg(test)]
pub mod sim;
pub mod sock_diag;
pub mod sysfs;
pub mod trace;
pub mod uevent;

/// A setting of a disk that the daemon may change, in the order in which it must be done: writing `max_sectors_kb`
/// freezes the queue (all in flight drains first) and may raise the read-ahead; the other two do neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    MaxSectorsKb,
    ReadAheadKb,
    QueueDepth,
}

impl Knob {
    pub const ALL: [Self; 3] = [Self::MaxSectorsKb, Self::ReadAheadKb, Self::QueueDepth];

    pub fn name(self) -> &'static str {
        match self {
            Self::MaxSectorsKb => "max_sectors_kb",
            Self::ReadAheadKb => "read_ahead_kb",
            Self::QueueDepth => "queue_depth",
        }
    }
}

/// One value for each [`Knob`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knobs<T> {
    pub max_sectors_kb: T,
    pub read_ahead_kb: T,
    pub queue_depth: T,
}

impl<T> Knobs<T> {
    pub fn try_new<E>(mut value: impl FnMut(Knob) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self {
            max_sectors_kb: value(Knob::MaxSectorsKb)?,
            read_ahead_kb: value(Knob::ReadAheadKb)?,
            queue_depth: value(Knob::QueueDepth)?,
        })
    }

    pub fn get(&self, knob: Knob) -> &T {
        match knob {
            Knob::MaxSectorsKb => &self.max_sectors_kb,
            Knob::ReadAheadKb => &self.read_ahead_kb,
            Knob::QueueDepth => &self.queue_depth,
        }
    }

    pub fn get_mut(&mut self, knob: Knob) -> &mut T {
        match knob {
            Knob::MaxSectorsKb => &mut self.max_sectors_kb,
            Knob::ReadAheadKb => &mut self.read_ahead_kb,
            Knob::QueueDepth => &mut self.queue_depth,
        }
    }
}

/// What makes a disk the same one: its place in sysfs (session numbers are not reused before the next boot), the
/// target, the LUN, and the name the LUN gives itself, if it has one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DiskId {
    pub device: PathBuf,
    pub target_iqn: String,
    pub lun: u64,
    pub wwid: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub id: DiskId,
    /// `sda`
    pub name: String,
    /// Device number as `major:minor`.
    pub number: String,
    /// `logical_block_size`; 0 of a device stacked on disks, as the next two.
    pub block_bytes: u32,
    /// `max_hw_sectors_kb`
    pub max_request_bytes: u32,
    /// The host's `can_queue`, or the disk's `nr_requests` if that is less.
    pub max_depth: u32,
}

impl Disk {
    /// Not a disk of a session, but a device above one.
    pub fn is_stacked(&self) -> bool {
        self.max_depth == 0
    }

    /// H:B:T:L, the last part of a SCSI device's place in sysfs.
    pub fn scsi_device(&self) -> Option<&str> {
        self.id.device.file_name()?.to_str()
    }

    /// The H of that.
    pub fn scsi_host(&self) -> Option<u32> {
        self.scsi_device()?.split(':').next()?.parse().ok()
    }
}

/// Who reads through it has its read-ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackedDevice {
    pub disk: Disk,
    /// It sends whole requests on (dm-multipath), made by its own limits; LVM and the like pass bios on, which are split again.
    pub makes_requests: bool,
    /// Places in sysfs of the disks and partitions below it, and below those that are themselves stacked.
    pub below: Vec<PathBuf>,
}

impl StackedDevice {
    pub fn is_above(&self, disk: &Disk) -> bool {
        self.below.iter().any(|dir| dir.starts_with(&disk.id.device))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The number in `sessionN`, unique until the next boot.
    pub sid: u32,
    pub target_iqn: String,
    pub portal: String,
    /// Changes with each login: the connection's local port.
    pub login: String,
    pub logged_in: bool,
    /// Of its TCP connection, where it has one.
    pub ends: Option<Ends>,
    pub disks: Vec<Disk>,
}

/// A disk's statistics, kept open by the host that has them in files.
#[derive(Default)]
pub struct Statistics(Option<[File; 2]>);

/// Reads of one disk, since boot and now, and its writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    pub ios: u64,
    pub bytes: u64,
    pub in_flight: u32,
    pub write_ios: u64,
    pub writes_in_flight: u32,
}

/// Why a question for the log page was not answered with a page.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// ILLEGAL REQUEST: an unpatched target, or one that has the page turned off.
    #[error("the target does not offer log page 3Ch")]
    NotOffered,
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

pub trait Host: Send + Sync {
    /// All iSCSI sessions, by number, each with its disks by LUN.
    fn sessions(&self) -> Vec<Session>;
    fn reads(&self, disk: &Disk, statistics: &mut Statistics) -> io::Result<Reads>;
    fn get(&self, disk: &Disk, knob: Knob) -> io::Result<u32>;
    /// For [`Knob::MaxSectorsKb`] this blocks until all that is in flight has come back.
    fn set(&self, disk: &Disk, knob: Knob, value: u32) -> io::Result<()>;
    /// A disk or device may be given this request size now. What is larger than a disk takes is refused, and the path with
    /// it: so no disk may take less than a device above makes ([`StackedDevice::makes_requests`]). And such a device is not
    /// to be waited for: nothing of it may be in flight, and there must be a path.
    fn takes(&self, disk: &Disk, request_kb: u32) -> bool;
    /// All devices that are stacked on others (LVM, dm-multipath, MD).
    fn stacked_devices(&self) -> Vec<StackedDevice>;
    /// Has a greater depth used at once. By itself the kernel looks for room in the queue when a request completes, and
    /// with a mostly empty pipe the next one is most of a round trip away.
    fn run_queue(&self, disk: &Disk) -> io::Result<()>;
    /// Gives the files that are open on the disks the read-ahead set now: each keeps what it was opened with. Returns how
    /// many there were.
    fn renew_read_ahead(&self, disks: &[Disk]) -> io::Result<usize>;
    /// This host's end of a connection, and what it has received, packet by packet.
    fn tcp_socket(&self, ends: Ends) -> io::Result<TcpSocket>;
    /// Bounds what a socket advertises, by its inode; `None`: as TCP sees fit.
    fn advertise(&self, inode: u64, most_bytes: Option<u64>) -> io::Result<()>;
    /// The kernel's word that an idle disk is read or written.
    fn trace(&self) -> io::Result<Trace>;
    /// Memory that can be had without swapping.
    fn available_bytes(&self) -> u64;
    /// The page as the target sent it. Blocks for a round trip and for the data asked for before.
    fn ask(&self, disk: &Disk) -> Result<Vec<u8>, AskError>;
}
