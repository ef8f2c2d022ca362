// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon costs, in real time: its whole loop, its threads, and its reads and writes of files, on a copy of
//! sysfs in memory: with 100 sessions of 4 disks, and with one disk near by that is read at random. Only SG_IO is left out: a
//! page is slept for.
//!
//! `cargo test --release -p iscsi-cwndd cost -- --ignored --nocapture`

use super::put;
use crate::config::Config;
use crate::daemon;
use crate::host::sim::page;
use crate::host::sysfs::Sysfs;
use crate::host::{AskError, Disk, Ends, Host, Knob, Reads, Session, StackedDevice, Statistics, TcpSocket, Trace};
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(20);
/// Of each session's path, bytes per second.
const RATE: u64 = 12_500_000;
const SETTLE_S: u64 = 10;
const MEASURE_S: u64 = 20;
const MOST_READING: f64 = 0.02;
const MOST_IDLE: f64 = 0.002;
const MOST_KB: u64 = 16 << 10;

/// Who reads what.
#[derive(Clone, Copy)]
struct Load {
    sessions: usize,
    luns: usize,
    rtt_us: u64,
    /// Requests of 4 KiB at once, at random; else each disk is read in sequence, as fast as it may.
    random: Option<u64>,
}

/// A disk's files.
struct Fake {
    queue_depth: File,
    max_sectors_kb: File,
    stat: File,
    inflight: File,
}

/// The copy of sysfs, and the paths behind its disks.
struct Tree {
    load: Load,
    sysfs: Sysfs,
    disks: Vec<Vec<Fake>>,
    _connections: (TcpListener, Vec<TcpStream>),
    /// The initiator's, of each session.
    ports: Vec<u16>,
    reading: AtomicBool,
    /// Of each session, as its target would say them.
    srtt_us: Vec<AtomicU64>,
    sent_bytes: Vec<AtomicU64>,
    pages: AtomicU64,
}

impl Tree {
    fn new(root: &Path, load: Load) -> Self {
        let Load { sessions, luns, .. } = load;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = listener.local_addr().unwrap();
        let (mut streams, mut ports) = (Vec::new(), Vec::new());
        let disks = (0..sessions).map(|n| {
            let session = root.join(format!("class/iscsi_session/session{n}"));
            put(session.join("targetname"), "iqn.2026-11.lab.example:t\n");
            put(session.join("state"), "LOGGED_IN\n");
            let stream = TcpStream::connect(portal).unwrap();
            let port = |end: SocketAddr| format!("{}\n", end.port());
            let connection = root.join(format!("class/iscsi_connection/connection{n}:0"));
            put(connection.join("address"), "127.0.0.1\n");
            put(connection.join("port"), &port(portal));
            put(connection.join("local_port"), &port(stream.local_addr().unwrap()));
            put(session.join(format!("iscsi_host/host{n}/ipaddress")), "127.0.0.1\n");
            ports.push(stream.local_addr().unwrap().port());
            streams.push(stream);
            put(root.join(format!("class/scsi_host/host{n}/can_queue")), "128\n");
            let disk = |lun| {
                let device = session.join(format!("device/target{n}:0:0/{n}:0:0:{lun}"));
                let name = format!("sd{}", luns * n + lun);
                let block = device.join("block").join(&name);
                put(block.join("queue/logical_block_size"), "512\n");
                put(block.join("queue/max_hw_sectors_kb"), "32767\n");
                put(block.join("bdi/read_ahead_kb"), "128\n");
                put(block.join("dev"), "8:0\n");
                put(root.join("kernel/debug/block").join(&name).join("state"), "");
                Fake {
                    queue_depth: put(device.join("queue_depth"), "32\n"),
                    max_sectors_kb: put(block.join("queue/max_sectors_kb"), "1280\n"),
                    stat: put(block.join("stat"), ""),
                    inflight: put(block.join("inflight"), ""),
                }
            };
            (0..luns).map(disk).collect()
        });
        let disks = disks.collect();
        let zeros = || (0..sessions).map(|_| AtomicU64::new(0)).collect();
        let tree = Self {
            load,
            disks,
            _connections: (listener, streams),
            ports,
            sysfs: Sysfs::new(root.to_str().unwrap(), Duration::from_secs(30)),
            reading: AtomicBool::new(false),
            srtt_us: zeros(),
            sent_bytes: zeros(),
            pages: AtomicU64::new(0),
        };
        tree.pass(Duration::ZERO);
        tree
    }

    /// Each session's path carries what is asked for, as the settings in force let it.
    fn pass(&self, span: Duration) {
        let number = |file: &File| {
            let mut text = [0; 16];
            let length = file.read_at(&mut text, 0).unwrap();
            // Just being written, it is empty.
            std::str::from_utf8(&text[..length]).unwrap().trim().parse::<u64>().unwrap_or(1)
        };
        for (n, disks) in self.disks.iter().enumerate() {
            let asked = disks.iter().map(|disk| match self.load.random {
                Some(reads) => (reads, reads << 12),
                None => {
                    let depth = number(&disk.queue_depth);
                    (depth, depth * number(&disk.max_sectors_kb) * 1024)
                }
            });
            let asked = asked.collect::<Vec<_>>();
            let reading = self.reading.load(Relaxed);
            let window = if reading { asked.iter().map(|asked| asked.1).sum::<u64>() } else { 0 };
            let rtt_us = self.load.rtt_us;
            self.srtt_us[n].store((window * 1_000_000 / RATE).max(rtt_us), Relaxed);
            let rate = (window * 1_000_000 / rtt_us).min(RATE);
            let done = rate * u64::try_from(span.as_micros()).unwrap() / 1_000_000;
            let sent = self.sent_bytes[n].fetch_add(done, Relaxed) + done;
            for (disk, (depth, bytes)) in disks.iter().zip(asked) {
                let sectors = sent / disks.len() as u64 / 512;
                let ios = sectors * 512 / (bytes / depth);
                let reads = if done > 0 { depth } else { 0 };
                let stat = format!("{ios:8} 0 {sectors:8} 0 0 0 0 0 {reads:8} 0 0 0 0 0 0 0 0\n");
                disk.stat.write_all_at(stat.as_bytes(), 0).unwrap();
                disk.inflight.write_all_at(format!("{reads:8} {:8}\n", 0).as_bytes(), 0).unwrap();
            }
        }
    }
}

impl Host for Tree {
    fn sessions(&self) -> Vec<Session> {
        self.sysfs.sessions()
    }

    fn reads(&self, disk: &Disk, statistics: &mut Statistics) -> io::Result<Reads> {
        self.sysfs.reads(disk, statistics)
    }

    fn get(&self, disk: &Disk, knob: Knob) -> io::Result<u32> {
        self.sysfs.get(disk, knob)
    }

    fn set(&self, disk: &Disk, knob: Knob, value: u32) -> io::Result<()> {
        self.sysfs.set(disk, knob, value)
    }

    fn run_queue(&self, disk: &Disk) -> io::Result<()> {
        self.sysfs.run_queue(disk)
    }

    fn renew_read_ahead(&self, disks: &[Disk]) -> io::Result<usize> {
        self.sysfs.renew_read_ahead(disks)
    }

    fn tcp_socket(&self, ends: Ends) -> io::Result<TcpSocket> {
        let n = self.ports.iter().position(|&port| port == ends.local.port()).unwrap();
        let mut socket = self.sysfs.tcp_socket(ends)?;
        let bytes = self.sent_bytes[n].load(Relaxed);
        (socket.received.bytes, socket.received.pkts) = (bytes, (bytes / 1448) as u32);
        Ok(socket)
    }

    fn advertise(&self, inode: u64, most_bytes: Option<u64>) -> io::Result<()> {
        self.sysfs.advertise(inode, most_bytes)
    }

    fn takes(&self, disk: &Disk, request_kb: u32) -> bool {
        self.sysfs.takes(disk, request_kb)
    }

    fn stacked_devices(&self) -> Vec<StackedDevice> {
        self.sysfs.stacked_devices()
    }

    fn trace(&self) -> io::Result<Trace> {
        self.sysfs.trace()
    }

    fn available_bytes(&self) -> u64 {
        self.sysfs.available_bytes()
    }

    fn ask(&self, disk: &Disk) -> Result<Vec<u8>, AskError> {
        let n = disk.name[2..].parse::<usize>().unwrap() / self.load.luns;
        let srtt_us = self.srtt_us[n].load(Relaxed);
        thread::sleep(Duration::from_micros(srtt_us));
        self.pages.fetch_add(1, Relaxed);
        let mut page = page();
        let figures = &mut page.connections[0].figures;
        (figures.srtt_us, figures.min_rtt_us) =
            (u32::try_from(srtt_us).unwrap(), u32::try_from(self.load.rtt_us).unwrap());
        figures.snd_cwnd_pkts = 400;
        figures.delivery_rate_bytes_per_s = RATE;
        figures.bytes_sent = self.sent_bytes[n].load(Relaxed);
        Ok(page.encode())
    }
}

/// CPU time of `who` so far, user and system.
fn cpu_us(who: UsageWho) -> i64 {
    let usage = getrusage(who).unwrap();
    (usage.user_time() + usage.system_time()).num_microseconds()
}

fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The daemon's share of a core while the paths carry on for some seconds; this thread's own work is left out.
fn share(tree: &Tree, seconds: u64) -> f64 {
    let daemons_us = || cpu_us(UsageWho::RUSAGE_SELF) - cpu_us(UsageWho::RUSAGE_THREAD);
    let (begin, before_us, mut last) = (Instant::now(), daemons_us(), Instant::now());
    while begin.elapsed() < Duration::from_secs(seconds) {
        thread::sleep(STEP);
        let now = Instant::now();
        tree.pass(now - std::mem::replace(&mut last, now));
    }
    (daemons_us() - before_us) as f64 / begin.elapsed().as_micros() as f64
}

/// Shares of a core, before and after a read began, and behind its start; pages a second and session; memory.
struct Cost {
    idle: f64,
    starting: f64,
    reading: f64,
    pages: f64,
    kb: u64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [idle, starting, reading] = [self.idle, self.starting, self.reading].map(|share| 100.0 * share);
        write!(
            f,
            "idle {idle:.2} % of a core, starting {starting:.2} %, reading {reading:.2} % with {:.1} pages/s a session, \
             {} KiB resident",
            self.pages, self.kb
        )
    }
}

fn cost(load: Load) -> Cost {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let tree = Arc::new(Tree::new(&dir.path().canonicalize().unwrap().join("sys"), load));
    let mut config = Config::default();
    (config.state_dir, config.runtime_dir) = (dir.path().join("state"), dir.path().join("run"));
    let host: Arc<dyn Host> = tree.clone();
    let me = Arc::new(Mutex::new(None));
    let its = Arc::clone(&me);
    let run = move || {
        *its.lock().unwrap() = Some(pthread_self());
        daemon::run(host, config, None).map_err(|error| error.to_string())
    };
    let daemon = thread::Builder::new().name("iscsi-cwndd".into()).spawn(run).unwrap();
    share(&tree, SETTLE_S);
    let idle = share(&tree, SETTLE_S);
    tree.reading.store(true, Relaxed);
    let starting = share(&tree, 2 * SETTLE_S);
    let pages = tree.pages.load(Relaxed);
    let reading = share(&tree, MEASURE_S);
    let pages = (tree.pages.load(Relaxed) - pages) as f64 / (MEASURE_S as f64 * load.sessions as f64);
    let kb = resident_kb();
    pthread_kill(me.lock().unwrap().unwrap(), Signal::SIGTERM).unwrap();
    daemon.join().unwrap().unwrap();
    Cost { idle, starting, reading, pages, kb }
}

/// One test, since a process has one account of its time.
#[test]
#[ignore = "takes two minutes, and wants a machine that is not busy"]
fn cost_of_a_random_reader_and_of_100_sessions_of_4_disks() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let near = cost(Load { sessions: 1, luns: 1, rtt_us: 1_000, random: Some(2) });
    println!("one disk read at random, RTT 1 ms: {near}");
    let many = cost(Load { sessions: 100, luns: 4, rtt_us: 20_000, random: None });
    println!("100 sessions of 4 disks: {many}");
    for Cost { idle, reading, kb, .. } in [near, many] {
        assert!(idle <= MOST_IDLE && reading <= MOST_READING && kb <= MOST_KB);
    }
}
