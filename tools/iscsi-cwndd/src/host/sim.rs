// SPDX-License-Identifier: GPL-2.0-only
//! A simulated initiator with one session: disks, their settings and statistics, and a target that answers as told.

use super::{
    AskError, Disk, DiskId, Ends, Host, Knob, Knobs, Reads, Session, StackedDevice, Statistics, TcpSocket, Trace,
};
use crate::crew::{Crew, Done, Job};
use cwnd_log_page::{CaState, Connection, Figures, MIN_RTT_NOT_SET, Page, SSTHRESH_NOT_SET};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

pub const STOCK: Knobs<u32> = Knobs { max_sectors_kb: 1280, read_ahead_kb: 128, queue_depth: 32 };
/// What the block layer raises a read-ahead to when it applies new limits.
const KERNEL_READ_AHEAD_KB: u32 = 128;

pub struct State {
    pub session: Option<Session>,
    pub knobs: BTreeMap<String, Knobs<u32>>,
    pub reads: BTreeMap<String, Reads>,
    /// The read-ahead of each disk's open file, once renewed.
    pub open_read_ahead_kb: BTreeMap<String, u32>,
    /// `None`: ILLEGAL REQUEST.
    pub answer: Option<Vec<u8>>,
    /// The disks asked for the page.
    pub asked: Vec<String>,
    /// Looks at a disk's statistics.
    pub looks: u32,
    pub available_bytes: u64,
    /// Whether the kernel has debugfs.
    pub debugfs: bool,
    pub stacked_devices: Vec<StackedDevice>,
    /// Of the session's connection; whether none but its owner may have it; and what it was to advertise, in order.
    pub socket: Option<TcpSocket>,
    pub kept: bool,
    pub advertised: Vec<Option<u64>>,
    /// A setting that cannot be written.
    pub unwritable: Option<Knob>,
    /// What the kernel takes at most, whatever it says.
    pub max_sectors_kb: u32,
    /// Every write, in order.
    pub writes: Vec<(String, Knob, u32)>,
    /// Called at each write, with the state before it.
    pub on_write: Option<fn(&State, &std::path::Path)>,
    pub state_dir: PathBuf,
}

pub struct Sim(Mutex<State>);

impl Sim {
    pub fn new(state_dir: PathBuf) -> Arc<Self> {
        let disks = ["sda", "sdb"].into_iter().zip(0..).map(|(name, lun)| disk(1, name, lun)).collect::<Vec<_>>();
        let session = Session {
            sid: 1,
            target_iqn: "iqn.2026-11.lab.example:t".into(),
            portal: "10.0.0.1:3260".into(),
            login: "40000".into(),
            logged_in: true,
            ends: None,
            disks,
        };
        Arc::new(Self(Mutex::new(State {
            knobs: session.disks.iter().map(|disk| (disk.name.clone(), STOCK)).collect(),
            reads: session.disks.iter().map(|disk| (disk.name.clone(), Reads::default())).collect(),
            session: Some(session),
            open_read_ahead_kb: BTreeMap::new(),
            answer: Some(page().encode()),
            asked: Vec::new(),
            looks: 0,
            available_bytes: 1 << 30,
            debugfs: true,
            stacked_devices: Vec::new(),
            socket: None,
            kept: false,
            advertised: Vec::new(),
            unwritable: None,
            max_sectors_kb: u32::MAX,
            writes: Vec::new(),
            on_write: None,
            state_dir,
        })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Some reads of a disk are done.
    pub fn read(&self, disk: &str) {
        let mut state = self.state();
        let reads = state.reads.get_mut(disk).unwrap();
        reads.ios += 10;
        reads.bytes += 10 << 17;
    }
}

pub fn disk(sid: u32, name: &str, lun: u64) -> Disk {
    Disk {
        id: DiskId {
            device: format!("/sys/devices/platform/host2/session{sid}/target2:0:0/2:0:0:{lun}").into(),
            target_iqn: "iqn.2026-11.lab.example:t".into(),
            lun,
            wwid: format!("naa.600140{lun}"),
        },
        name: name.into(),
        number: format!("8:{}", lun * 16),
        block_bytes: 512,
        max_request_bytes: 32 << 20,
        max_depth: 128,
    }
}

/// A young connection at RTT 20 ms.
pub fn page() -> Page {
    Page {
        tsih: 1,
        command_window: 64,
        clock_us: 1_000_000,
        read_outstanding_bytes: 0,
        connections: vec![Connection {
            cid: 0,
            tcp: true,
            delivery_rate_app_limited: true,
            events_kept: true,
            ca_state: CaState::Open,
            figures: Figures {
                mss_bytes: 1448,
                snd_cwnd_pkts: 10,
                ssthresh_pkts: SSTHRESH_NOT_SET,
                srtt_us: 20_000,
                rttvar_us: 1000,
                min_rtt_us: MIN_RTT_NOT_SET,
                snd_wnd_bytes: 16 << 20,
                delivery_rate_bytes_per_s: 12_500_000,
                sndbuf_bytes: 4 << 20,
                ..Figures::default()
            },
        }],
    }
}

impl Host for Sim {
    fn sessions(&self) -> Vec<Session> {
        self.state().session.iter().cloned().collect()
    }

    fn reads(&self, disk: &Disk, _: &mut Statistics) -> io::Result<Reads> {
        let mut state = self.state();
        state.looks += 1;
        state.reads.get(&disk.name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn get(&self, disk: &Disk, knob: Knob) -> io::Result<u32> {
        self.state().knobs.get(&disk.name).map(|knobs| *knobs.get(knob)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn set(&self, disk: &Disk, knob: Knob, value: u32) -> io::Result<()> {
        let mut state = self.state();
        if let Some(on_write) = state.on_write {
            on_write(&state, &state.state_dir);
        }
        if state.unwritable == Some(knob) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let max_sectors_kb = state.max_sectors_kb;
        state.writes.push((disk.name.clone(), knob, value));
        let knobs = state.knobs.get_mut(&disk.name).ok_or(io::ErrorKind::NotFound)?;
        // The kernel keeps whole pages of read-ahead.
        *knobs.get_mut(knob) = match knob {
            Knob::MaxSectorsKb => value.min(max_sectors_kb),
            Knob::ReadAheadKb => value & !3,
            Knob::QueueDepth => value,
        };
        if knob == Knob::MaxSectorsKb {
            knobs.read_ahead_kb = knobs.read_ahead_kb.max(KERNEL_READ_AHEAD_KB);
        }
        Ok(())
    }

    fn takes(&self, disk: &Disk, request_kb: u32) -> bool {
        let state = self.state();
        let kb = |disk: &Disk| state.knobs.get(&disk.name).unwrap().max_sectors_kb;
        let disks = state.session.iter().flat_map(|session| &session.disks);
        let mut above = state.stacked_devices.iter().filter(|stacked| stacked.makes_requests);
        match above.clone().find(|stacked| stacked.disk.id == disk.id) {
            Some(stacked) => {
                let mut below = disks.filter(|disk| stacked.is_above(disk)).peekable();
                let reads = state.reads.get(&disk.name).unwrap();
                let path = state.session.as_ref().is_some_and(|session| session.logged_in) && below.peek().is_some();
                path && reads.in_flight == 0 && below.all(|disk| kb(disk) >= request_kb)
            }
            None => above.all(|stacked| !stacked.is_above(disk) || kb(&stacked.disk) <= request_kb),
        }
    }

    fn stacked_devices(&self) -> Vec<StackedDevice> {
        self.state().stacked_devices.clone()
    }

    fn run_queue(&self, _: &Disk) -> io::Result<()> {
        self.state().debugfs.then_some(()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn renew_read_ahead(&self, disks: &[Disk]) -> io::Result<usize> {
        let mut state = self.state();
        for disk in disks {
            let knobs = state.knobs.get(&disk.name).copied().ok_or(io::ErrorKind::NotFound)?;
            state.open_read_ahead_kb.insert(disk.name.clone(), knobs.read_ahead_kb);
        }
        Ok(disks.len())
    }

    fn tcp_socket(&self, _: Ends) -> io::Result<TcpSocket> {
        self.state().socket.ok_or(io::ErrorKind::NotFound.into())
    }

    fn advertise(&self, inode: u64, most_bytes: Option<u64>) -> io::Result<()> {
        let mut state = self.state();
        state.socket.filter(|socket| socket.inode == inode && !state.kept).ok_or(io::ErrorKind::PermissionDenied)?;
        state.advertised.push(most_bytes);
        Ok(())
    }

    fn trace(&self) -> io::Result<Trace> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn available_bytes(&self) -> u64 {
        self.state().available_bytes
    }

    fn ask(&self, disk: &Disk) -> Result<Vec<u8>, AskError> {
        let mut state = self.state();
        state.asked.push(disk.name.clone());
        state.answer.clone().ok_or(AskError::NotOffered)
    }
}

/// Jobs that take [`SimCrew::JOB_US`], without threads; the test takes the results when their time has come.
#[derive(Clone)]
pub struct SimCrew {
    host: Arc<Sim>,
    clock_us: Arc<Mutex<u64>>,
    jobs: Arc<Mutex<VecDeque<(u64, u32, Job)>>>,
}

impl SimCrew {
    pub const JOB_US: u64 = 20_000;

    pub fn new(host: Arc<Sim>) -> Self {
        Self { host, clock_us: Arc::default(), jobs: Arc::default() }
    }

    /// The next result, if its time has come by `now_us`.
    pub fn result(&self, now_us: u64) -> Option<(u32, Done)> {
        *self.clock_us.lock().unwrap() = now_us;
        let mut jobs = self.jobs.lock().unwrap();
        if jobs.front()?.0 > now_us {
            return None;
        }
        jobs.pop_front().map(|(_, sid, job)| (sid, job.run(&*self.host)))
    }

    pub fn due_us(&self) -> u64 {
        self.jobs.lock().unwrap().front().map_or(u64::MAX, |job| job.0)
    }
}

impl Crew for SimCrew {
    fn submit(&mut self, sid: u32, job: Job) {
        let due_us = *self.clock_us.lock().unwrap() + Self::JOB_US;
        self.jobs.lock().unwrap().push_back((due_us, sid, job));
    }

    fn dismiss(&mut self, _sid: u32) {}

    fn stop(&mut self) {
        self.jobs.lock().unwrap().clear();
    }
}
