// SPDX-License-Identifier: GPL-2.0-only
//! The real machine: open-iscsi's sessions, their disks and settings in sysfs, and SG_IO.
//!
//! Read-ahead is written to the backing device (`bdi/read_ahead_kb`), because the file of the same name under `queue/`
//! freezes the queue.

use super::advertised::Holders;
use super::sock_diag::SockDiag;
use super::{
    AskError, Disk, DiskId, Ends, Host, Knob, Reads, Session, StackedDevice, Statistics, TcpSocket, Trace, open_files,
    scsi,
};
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub struct Sysfs {
    root: PathBuf,
    timeout: Duration,
    sock_diag: io::Result<SockDiag>,
    holders: Mutex<Holders>,
}

impl Sysfs {
    /// `root`: where sysfs is. `timeout`: after which the kernel gives a question up, and resets the connection for it.
    pub fn new(root: &str, timeout: Duration) -> Self {
        Self { root: root.into(), timeout, sock_diag: SockDiag::open(), holders: Mutex::default() }
    }

    fn session(&self, class_dir: &Path) -> Option<Session> {
        let name = file_name(class_dir)?;
        let sid = name.strip_prefix("session")?.parse().ok()?;
        let target_iqn = read(&class_dir.join("targetname")).ok()?;
        let connection = self.root.join(format!("class/iscsi_connection/connection{sid}:0"));
        let address = read(&connection.join("persistent_address")).unwrap_or_default();
        let host = entries(&class_dir.join("device/../iscsi_host")).next();
        let port = read(&connection.join("persistent_port")).unwrap_or_default();
        // …/hostH/sessionN/iscsi_session/sessionN
        let device = fs::canonicalize(class_dir.join("device")).ok()?;
        let mut disks: Vec<Disk> = entries(&device)
            .filter(|path| file_name(path).is_some_and(|name| name.starts_with("target")))
            .flat_map(|target| entries(&target).collect::<Vec<_>>())
            .filter_map(|scsi_device| self.disk(&scsi_device, &target_iqn))
            .collect();
        disks.sort_by_key(|disk| disk.id.lun);
        Some(Session {
            sid,
            target_iqn,
            portal: format!("{address}:{port}"),
            login: read(&connection.join("local_port")).unwrap_or_default(),
            ends: host.and_then(|host| ends(&connection, &host)),
            logged_in: read(&class_dir.join("state")).is_ok_and(|state| state == "LOGGED_IN"),
            disks,
        })
    }

    /// `scsi_device`: …/targetH:B:T/H:B:T:L
    fn disk(&self, scsi_device: &Path, target_iqn: &str) -> Option<Disk> {
        let hctl = file_name(scsi_device)?;
        let (host, lun) = (hctl.split(':').next()?, hctl.split(':').nth(3)?.parse().ok()?);
        let block = entries(&scsi_device.join("block")).next()?;
        let max_hw_sectors_kb: u32 = number(&block.join("queue/max_hw_sectors_kb")).ok()?;
        let can_queue: u32 = number(&self.root.join(format!("class/scsi_host/host{host}/can_queue"))).ok()?;
        Some(Disk {
            id: DiskId {
                device: scsi_device.to_owned(),
                target_iqn: target_iqn.to_owned(),
                lun,
                wwid: read(&scsi_device.join("wwid")).unwrap_or_default(),
            },
            name: file_name(&block)?,
            number: read(&block.join("dev")).ok()?,
            block_bytes: number(&block.join("queue/logical_block_size")).ok()?,
            max_request_bytes: max_hw_sectors_kb.saturating_mul(1024),
            max_depth: number(&block.join("queue/nr_requests"))
                .map_or(can_queue, |requests: u32| requests.min(can_queue)),
        })
    }
}

impl Host for Sysfs {
    fn sessions(&self) -> Vec<Session> {
        let mut sessions: Vec<Session> =
            entries(&self.root.join("class/iscsi_session")).filter_map(|dir| self.session(&dir)).collect();
        sessions.sort_by_key(|session| session.sid);
        sessions
    }

    fn reads(&self, disk: &Disk, statistics: &mut Statistics) -> io::Result<Reads> {
        let open = |name| File::open(block_dir(disk).join(name));
        // Not kept after an error.
        let files = statistics.0.take().map_or_else(|| Ok::<_, io::Error>([open("stat")?, open("inflight")?]), Ok)?;
        let [ios, _, sectors, _, write_ios, _, _, _, in_flight] = leading_numbers(&files[0])?;
        // Who has none in flight need not be asked how many are reads, and how many writes.
        let in_flight = if in_flight > 0 { leading_numbers(&files[1])? } else { [0; 2] };
        statistics.0 = Some(files);
        let [in_flight, writes_in_flight] = in_flight.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Ok(Reads { ios, bytes: sectors.wrapping_mul(512), in_flight, write_ios, writes_in_flight })
    }

    fn get(&self, disk: &Disk, knob: Knob) -> io::Result<u32> {
        if disk.is_stacked() && knob == Knob::QueueDepth {
            return Ok(0);
        }
        number(&knob_path(disk, knob))
    }

    fn set(&self, disk: &Disk, knob: Knob, value: u32) -> io::Result<()> {
        fs::write(knob_path(disk, knob), value.to_string())
    }

    fn takes(&self, disk: &Disk, request_kb: u32) -> bool {
        let dir = block_dir(disk);
        let kb = |dir: &Path| number::<u32>(&dir.join("queue/max_sectors_kb"));
        if !disk.is_stacked() {
            let mut above = entries(&dir.join("holders")).filter(|holder| makes_requests(holder));
            return above.all(|holder| kb(&holder).is_ok_and(|kb| kb <= request_kb));
        }
        // Not `inflight`: it leaves out what dm has taken back from a path that failed, as this does in older kernels.
        let stat = File::open(dir.join("stat")).and_then(|file| leading_numbers(&file));
        let idle = stat.is_ok_and(|[_, _, _, _, _, _, _, _, in_flight]| in_flight == 0);
        let running = |path: &PathBuf| read(&path.join("device/state")).is_ok_and(|state| state == "running");
        let paths = entries(&dir.join("slaves")).collect::<Vec<_>>();
        idle && paths.iter().any(running) && paths.iter().all(|path| kb(path).is_ok_and(|kb| kb >= request_kb))
    }

    fn stacked_devices(&self) -> Vec<StackedDevice> {
        entries(&self.root.join("devices/virtual/block")).filter_map(|dir| stacked_device(&dir)).collect()
    }

    fn run_queue(&self, disk: &Disk) -> io::Result<()> {
        fs::write(self.root.join("kernel/debug/block").join(&disk.name).join("state"), "run")
    }

    fn renew_read_ahead(&self, disks: &[Disk]) -> io::Result<usize> {
        let partitions = |disk| entries(&block_dir(disk)).filter_map(|entry| read(&entry.join("dev")).ok());
        let devices = disks.iter().flat_map(|disk| partitions(disk).chain([disk.number.clone()])).collect();
        open_files::renew_read_ahead(&devices)
    }

    fn tcp_socket(&self, ends: Ends) -> io::Result<TcpSocket> {
        match &self.sock_diag {
            Ok(sock_diag) => sock_diag.tcp_socket(ends),
            Err(error) => Err(error.kind().into()),
        }
    }

    fn advertise(&self, inode: u64, most_bytes: Option<u64>) -> io::Result<()> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).advertise(inode, most_bytes)
    }

    fn trace(&self) -> io::Result<Trace> {
        Trace::open(&self.root)
    }

    fn available_bytes(&self) -> u64 {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kb.map_or(u64::MAX, |kb| kb.saturating_mul(1024))
    }

    fn ask(&self, disk: &Disk) -> Result<Vec<u8>, AskError> {
        let device = scsi::open(&Path::new("/dev").join(&disk.name))?;
        let number = device.metadata()?.st_rdev();
        if format!("{}:{}", nix::sys::stat::major(number), nix::sys::stat::minor(number)) != disk.number {
            return Err(AskError::Failed(format!("/dev/{} is another disk now", disk.name)));
        }
        scsi::log_sense(&device, self.timeout)
    }
}

/// None for a connection that is not TCP's, or not the kernel's.
fn ends(connection: &Path, host: &Path) -> Option<Ends> {
    let end =
        |ip: PathBuf, port| Some(SocketAddr::new(number::<IpAddr>(&ip).ok()?, number(&connection.join(port)).ok()?));
    Some(Ends { local: end(host.join("ipaddress"), "local_port")?, remote: end(connection.join("address"), "port")? })
}

/// `dir`: its place in sysfs, …/virtual/block/dm-0
fn stacked_device(dir: &Path) -> Option<StackedDevice> {
    let kind = ["dm", "md"].into_iter().find(|kind| dir.join(kind).is_dir())?;
    let device = fs::canonicalize(dir).ok()?;
    let (mut below, mut dirs) = (Vec::new(), vec![device.clone()]);
    while let Some(dir) = dirs.pop() {
        for slave in entries(&dir.join("slaves")).filter_map(|slave| fs::canonicalize(slave).ok()) {
            if !below.contains(&slave) {
                below.push(slave.clone());
                dirs.push(slave);
            }
        }
    }
    let wwid = read(&device.join(kind).join("uuid")).unwrap_or_default();
    let disk = Disk {
        name: file_name(&device)?,
        number: read(&device.join("dev")).ok()?,
        id: DiskId { device, target_iqn: String::new(), lun: 0, wwid },
        block_bytes: 0,
        max_request_bytes: 0,
        max_depth: 0,
    };
    Some(StackedDevice { makes_requests: makes_requests(&disk.id.device), disk, below })
}

/// Who makes requests has queues for them.
fn makes_requests(dir: &Path) -> bool {
    dir.join("mq").exists()
}

fn block_dir(disk: &Disk) -> PathBuf {
    if disk.is_stacked() { disk.id.device.clone() } else { disk.id.device.join("block").join(&disk.name) }
}

fn knob_path(disk: &Disk, knob: Knob) -> PathBuf {
    match knob {
        Knob::MaxSectorsKb => block_dir(disk).join("queue/max_sectors_kb"),
        Knob::ReadAheadKb => block_dir(disk).join("bdi/read_ahead_kb"),
        Knob::QueueDepth => disk.id.device.join("queue_depth"),
    }
}

/// What is in a directory; nothing where there is no such directory.
fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

fn read(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim_end().to_owned())
}

/// The first numbers of a file of them.
fn leading_numbers<const N: usize>(file: &File) -> io::Result<[u64; N]> {
    let mut text = [0; 256];
    let length = file.read_at(&mut text, 0)?;
    let mut words = text[..length].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut numbers = [0; N];
    for number in &mut numbers {
        let word = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        *number = word.ok_or(io::ErrorKind::InvalidData)?;
    }
    Ok(numbers)
}

fn number<T: std::str::FromStr>(path: &Path) -> io::Result<T> {
    read(path)?
        .parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{}: not a number", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::put;

    #[test]
    fn a_disk_takes_no_more_commands_than_its_queue_has_requests() {
        let dir = tempfile::tempdir().unwrap();
        let scsi_device = dir.path().join("class/iscsi_session/session1/device/target2:0:0/2:0:0:1");
        let queue = scsi_device.join("block/sda/queue");
        put(queue.join("logical_block_size"), "4096\n");
        put(queue.join("max_hw_sectors_kb"), "32767\n");
        put(scsi_device.join("block/sda/dev"), "8:0\n");
        put(dir.path().join("class/scsi_host/host2/can_queue"), "512\n");
        let sysfs = Sysfs::new(dir.path().to_str().unwrap(), Duration::ZERO);
        let disk = sysfs.disk(&scsi_device, "iqn").unwrap();
        assert_eq!((disk.block_bytes, disk.max_depth, disk.scsi_device()), (4096, 512, Some("2:0:0:1")));
        put(queue.join("nr_requests"), "256\n");
        assert_eq!(sysfs.disk(&scsi_device, "iqn").unwrap().max_depth, 256);
    }

    #[test]
    fn no_disk_is_to_take_less_than_dm_multipath_makes_and_that_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let device = |name: &str, path: &str, max_depth| Disk {
            id: DiskId { device: root.join(path), target_iqn: String::new(), lun: 0, wwid: String::new() },
            name: name.into(),
            number: String::new(),
            block_bytes: 0,
            max_request_bytes: 0,
            max_depth,
        };
        let (sda, dm) = (device("sda", "2:0:0:1", 128), device("dm-0", "dm-0", 0));
        let other = root.join("sdz");
        for (dir, kb) in [(block_dir(&sda), 256), (other.clone(), 128), (block_dir(&dm), 64)] {
            put(dir.join("queue/max_sectors_kb"), &format!("{kb}\n"));
        }
        for (dir, link, to) in [(&sda, "holders", &dm), (&dm, "slaves", &sda)] {
            fs::create_dir_all(block_dir(dir).join(link)).unwrap();
            std::os::unix::fs::symlink(block_dir(to), block_dir(dir).join(link).join(&to.name)).unwrap();
        }
        std::os::unix::fs::symlink(&other, block_dir(&dm).join("slaves/sdz")).unwrap();
        put(block_dir(&dm).join("mq/0/cpu_list"), "0\n");
        let stat = |in_flight: u32| put(block_dir(&dm).join("stat"), &format!("1 0 8 0 0 0 0 0 {in_flight} 0 0\n"));
        let state = |state: &str| put(block_dir(&sda).join("device/state"), state);
        let sysfs = Sysfs::new(root.to_str().unwrap(), Duration::ZERO);
        assert_eq!([32, 64].map(|kb| sysfs.takes(&sda, kb)), [false, true]);
        stat(0);
        state("running\n");
        assert_eq!([32, 128, 256].map(|kb| sysfs.takes(&dm, kb)), [true, true, false]);
        stat(1);
        assert!(!sysfs.takes(&dm, 32));
        stat(0);
        state("transport-offline\n");
        assert!(!sysfs.takes(&dm, 32));
    }

    #[test]
    fn devices_are_stacked_on_disks_on_partitions_and_on_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let scsi_device = root.join("target2:0:0/2:0:0:1");
        let (block, virtual_dir) = (scsi_device.join("block/sda"), root.join("devices/virtual/block"));
        put(block.join("queue/logical_block_size"), "512\n");
        put(block.join("queue/max_hw_sectors_kb"), "32767\n");
        put(block.join("dev"), "8:0\n");
        put(block.join("sda1/dev"), "8:1\n");
        put(root.join("class/scsi_host/host2/can_queue"), "512\n");
        put(root.join("other/sdz/dev"), "8:9\n");
        put(virtual_dir.join("loop0/dev"), "7:0\n");
        let below = [block.clone(), block.join("sda1"), virtual_dir.join("dm-0"), root.join("other/sdz")];
        for (n, below) in below.iter().enumerate() {
            let device = virtual_dir.join(format!("dm-{n}"));
            put(device.join("dev"), "254:0\n");
            put(device.join("dm/uuid"), "LVM-1\n");
            put(device.join("bdi/read_ahead_kb"), "128\n");
            put(device.join("queue/max_sectors_kb"), "1280\n");
            fs::create_dir_all(device.join("slaves")).unwrap();
            if n == 1 {
                put(device.join("mq/0/cpu_list"), "0\n");
            }
            std::os::unix::fs::symlink(below, device.join("slaves").join(below.file_name().unwrap())).unwrap();
        }
        let sysfs = Sysfs::new(root.to_str().unwrap(), Duration::ZERO);
        let disk = sysfs.disk(&scsi_device, "iqn").unwrap();
        let mut found = sysfs.stacked_devices();
        found.sort_by_key(|stacked| stacked.disk.name.clone());
        let above: Vec<_> = found.iter().map(|stacked| (&*stacked.disk.name, stacked.is_above(&disk))).collect();
        assert_eq!(above, [("dm-0", true), ("dm-1", true), ("dm-2", true), ("dm-3", false)]);
        let make: Vec<_> = found.iter().map(|stacked| stacked.makes_requests).collect();
        assert_eq!(make, [false, true, false, false]);
        let knobs = Knob::ALL.map(|knob| sysfs.get(&found[0].disk, knob).unwrap());
        assert_eq!((knobs, &*found[0].disk.id.wwid), ([1280, 128, 0], "LVM-1"));
    }
}
