// SPDX-License-Identifier: GPL-2.0-only
//! One session under control: when its target is asked, when its strategy is, and what follows.
//!
//! A login starts with one question, idle or not: it tells whether the target has the page at all. From then on the
//! target is asked only while a disk of the session reads. A strategy that needs no pages never has it asked.

use crate::config::Config;
use crate::crew::{Crew, Done, Job};
use crate::disk::{TunedDisk, whole_blocks_kb};
use crate::host::{AskError, Begun, Host, Session, TcpSocket};
use crate::record::Recorder;
use crate::store::Store;
use crate::throttle::Throttle;
use cwnd_control::{DiskState, Input, Output, PathState, Strategy};
use cwnd_log_page::{Connection, Page};

/// After a question that failed, or a page that was refused.
const RETRY_US: u64 = 1_000_000;
/// Between two looks at a session that is only written to: its disks have room for as many writes as they use.
const WRITE_LOOK_US: u64 = 10_000;
/// A disk without reads for this long leaves its share of the window to the session's others.
const SHARE_US: u64 = 100_000;
/// Bounds of what a strategy may ask for as its next time.
const MIN_TICK_US: u64 = 100;
const MAX_TICK_US: u64 = 10_000_000;

/// How much work there may be a second, whatever the number of disks and sessions: a look at a disk takes some
/// microseconds, a question and its two switches of threads some tens.
const LOOK_US: u64 = 2_500;
const FREE_DISKS: u64 = 8;
const IDLE_LOOK_US: u64 = 2_000;
const QUESTION_US: u64 = 5_000;
/// Looks at a session that may come as early as the strategy wants: a start has to be watched closely.
const FREE_LOOKS: u64 = 200;

/// The least time between two looks at a session, and between two questions, so that all sessions keep within that.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    look_us: u64,
    idle_look_us: u64,
    question_us: u64,
}

impl Pace {
    pub fn new(sessions: &[TunedSession]) -> Self {
        let watched = || sessions.iter().filter(|session| !matches!(session.feedback, Feedback::NotOffered(_)));
        let disks = |busy| watched().filter(|s| s.busy() == busy).map(|s| s.disks.len() as u64).sum::<u64>();
        Self {
            look_us: LOOK_US * disks(true).saturating_sub(FREE_DISKS),
            idle_look_us: IDLE_LOOK_US * disks(false),
            question_us: QUESTION_US * watched().filter(|session| session.active).count() as u64,
        }
    }
}

/// A time at which several sessions are looked at, since each waking costs as well.
fn together(due_us: u64, pace_us: u64) -> u64 {
    due_us.checked_next_multiple_of((pace_us / 4).max(1)).unwrap_or(due_us)
}

/// What the daemon owns and a session uses.
pub struct World<'a> {
    pub host: &'a dyn Host,
    pub crew: &'a mut dyn Crew,
    pub store: &'a mut Store,
    pub log: &'a mut Throttle,
    pub recorder: &'a mut Recorder,
    pub config: &'a Config,
    pub pace: Pace,
    /// Between two looks at an idle session.
    pub idle_us: u64,
    /// Of one disk, whatever the strategy wants.
    pub max_read_ahead_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feedback {
    /// Not asked yet since the login.
    Unknown,
    /// Never asked: the strategy does without.
    Unneeded,
    Good,
    /// No setting moves until a good page comes.
    Trouble(String),
    /// Left alone until the next login.
    NotOffered(String),
}

impl Feedback {
    /// What the strategy needs is there, and settings may move.
    fn suffices(&self) -> bool {
        matches!(self, Self::Good | Self::Unneeded)
    }
}

/// A page with the times of its question and answer.
pub struct Answer {
    pub connection: Connection,
    pub clock_us: u64,
    pub asked_us: u64,
    pub answered_us: u64,
}

pub struct TunedSession {
    pub info: Session,
    pub disks: Vec<TunedDisk>,
    pub feedback: Feedback,
    pub active: bool,
    /// Disks are written to, or were a moment ago.
    writing: bool,
    /// It was idle, and what its first reads ask for is still to be heard.
    pub begins: bool,
    pub answer: Option<Answer>,
    pub output: Option<Output>,
    /// As the strategy's input.
    pub share: Option<u64>,
    strategy: Box<dyn Strategy>,
    /// The page not yet shown to the strategy.
    fresh: Option<PathState>,
    /// The login that was asked and has not answered yet.
    asking: Option<String>,
    asked_us: u64,
    /// What the connection advertises is bounded; or cannot be, until the next login.
    bounded: bool,
    unboundable: bool,
    /// The disk asked last: they take turns, since a question takes the place of one of its reads.
    questioned: usize,
    ask_due_us: u64,
    /// When the next look would be due had all been a pace apart.
    paced_us: u64,
    due_us: u64,
}

impl TunedSession {
    pub fn new(info: Session, disks: Vec<TunedDisk>, strategy: Box<dyn Strategy>) -> Self {
        Self {
            info,
            disks,
            feedback: Feedback::Unknown,
            active: false,
            writing: false,
            begins: false,
            answer: None,
            output: None,
            share: None,
            strategy,
            fresh: None,
            asking: None,
            asked_us: 0,
            bounded: false,
            unboundable: false,
            questioned: 0,
            ask_due_us: 0,
            paced_us: 0,
            due_us: 0,
        }
    }

    /// Another login of the same session: everything about the path is to be learnt anew.
    pub fn logged_in_again(&mut self, info: Session, strategy: Box<dyn Strategy>) {
        if self.feedback != Feedback::Unknown {
            log::info!("session {}: logged in again", info.sid);
        }
        let disks = std::mem::take(&mut self.disks);
        let asking = self.asking.take();
        *self = Self { asking, ..Self::new(info, disks, strategy) };
    }

    /// It is looked at again and again.
    pub fn busy(&self) -> bool {
        self.active || self.writing
    }

    /// A disk of some session that was idle is read or written, and these are the latest reads.
    pub fn use_began(&mut self, begun: &[Begun]) {
        if self.begins || !self.busy() {
            self.disks.iter_mut().for_each(|disk| disk.use_began(begun));
            self.begins = self.disks.iter().any(TunedDisk::begins);
        }
        self.due_us = 0;
    }

    /// The SCSI host whose reads and writes this session is to be told of; none while it is left alone.
    pub fn host_to_watch(&self) -> Option<u32> {
        let left_alone = matches!(self.feedback, Feedback::Unknown | Feedback::NotOffered(_));
        let waits = self.info.logged_in && !left_alone;
        self.disks.first().filter(|_| waits)?.disk.scsi_host()
    }

    /// News of the session, with the same disks, that change nothing but what is due.
    pub fn set_info(&mut self, info: Session) {
        for tuned in &mut self.disks {
            tuned.disk = info.disks.iter().find(|disk| disk.id == tuned.disk.id).unwrap_or(&tuned.disk).clone();
        }
        (self.info, self.due_us) = (info, 0);
    }

    /// Other disks: a new strategy, because it knows them by their order.
    pub fn set_disks(&mut self, info: Session, disks: Vec<TunedDisk>, strategy: Box<dyn Strategy>) {
        (self.info, self.disks, self.strategy) = (info, disks, strategy);
        (self.output, self.active, self.begins) = (None, false, false);
        self.due_us = 0;
    }

    /// Has its settings made again, also where nothing is read.
    pub fn settle(&mut self) {
        if !self.active {
            (self.output, self.due_us) = (None, 0);
        }
    }

    /// The request size that the strategy wants of a device above, which has its own while this session is left alone; None
    /// to leave it as it is.
    pub fn request_kb(&self, own_kb: u32) -> Option<u32> {
        match self.feedback {
            _ if !self.info.logged_in => None,
            Feedback::NotOffered(_) => Some(own_kb),
            Feedback::Good | Feedback::Unneeded => {
                let request_bytes = self.output.as_ref()?.request_bytes;
                (request_bytes > 0).then(|| whole_blocks_kb(request_bytes))
            }
            Feedback::Unknown | Feedback::Trouble(_) => None,
        }
    }

    /// Does what is due and returns when something is due next.
    pub fn step(&mut self, world: &mut World<'_>, now_us: u64) -> u64 {
        if now_us < self.due_us {
            return self.due_us;
        }
        let (paced_us, idle_us) = (world.pace.idle_look_us, world.idle_us);
        let idle_due_us = if paced_us > idle_us { together(now_us + paced_us, paced_us) } else { now_us + idle_us };
        self.due_us = match self.feedback {
            _ if !self.info.logged_in || self.disks.is_empty() => u64::MAX,
            Feedback::NotOffered(_) => u64::MAX,
            Feedback::Unknown if !world.config.strategy.needs_pages() => {
                self.feedback = Feedback::Unneeded;
                self.watch(world, now_us, idle_due_us)
            }
            Feedback::Unknown => {
                self.ask(world, now_us);
                idle_due_us
            }
            Feedback::Good | Feedback::Unneeded | Feedback::Trouble(_) => self.watch(world, now_us, idle_due_us),
        };
        self.due_us
    }

    fn watch(&mut self, world: &mut World<'_>, now_us: u64, idle_due_us: u64) -> u64 {
        self.paced_us = self.paced_us.max(now_us) + world.pace.look_us;
        let mut reading_now = false;
        for disk in &mut self.disks {
            reading_now |= disk.look(world.host, now_us);
        }
        self.begins &= self.feedback.suffices() && !self.disks.iter().any(|disk| disk.completed || disk.writing());
        let wrote = std::mem::replace(&mut self.writing, self.disks.iter().any(TunedDisk::writing));
        if !self.active && reading_now {
            self.active = true;
            (self.ask_due_us, self.output) = (now_us.min(self.ask_due_us), None);
            if self.feedback == Feedback::Good {
                self.ask_due_us = now_us;
            }
        } else if self.active && !self.disks.iter().any(|disk| disk.reading(now_us, world.config.idle_after_us())) {
            self.active = false;
            self.output = None;
            world.crew.dismiss(self.info.sid);
        }
        self.ask_due_us = self.ask_due_us.max(self.asked_us.saturating_add(world.pace.question_us));
        if reading_now && now_us >= self.ask_due_us && self.feedback != Feedback::Unneeded {
            self.ask(world, now_us);
        }
        if !self.feedback.suffices() {
            return idle_due_us;
        }
        if self.active {
            let next_us = self.output.as_ref().map_or(0, |output| output.next_us);
            if now_us >= next_us || self.fresh.is_some() {
                self.consult(world, now_us);
            }
            let next_us = self.output.as_ref().map_or(idle_due_us, |output| output.next_us);
            let asks = self.feedback == Feedback::Good && self.asking.is_none();
            let ask_us = if asks { self.ask_due_us } else { u64::MAX };
            return self.paced(world, next_us.min(ask_us).clamp(now_us + MIN_TICK_US, now_us + MAX_TICK_US));
        }
        if self.output.is_none() || self.fresh.is_some() {
            self.consult(world, now_us);
        } else if wrote || self.writing {
            self.apply(world);
        }
        if self.writing { self.paced(world, now_us + WRITE_LOOK_US) } else { idle_due_us }
    }

    /// No sooner than the pace allows.
    fn paced(&self, world: &World<'_>, due_us: u64) -> u64 {
        let free_us = self.free_us(world);
        if free_us > due_us { together(free_us, world.pace.look_us) } else { due_us }
    }

    /// From when on a look keeps to the pace.
    fn free_us(&self, world: &World<'_>) -> u64 {
        self.paced_us.saturating_sub(FREE_LOOKS * world.pace.look_us)
    }

    fn ask(&mut self, world: &mut World<'_>, now_us: u64) {
        if self.asking.is_some() {
            return;
        }
        let (idle_after_us, count) = (world.config.idle_after_us(), self.disks.len());
        let reads = |&n: &usize| self.disks.get(n).is_some_and(|disk| disk.reading(now_us, idle_after_us));
        let answers = |&n: &usize| self.disks.get(n).is_some_and(|disk| disk.freezing.is_none());
        let mut next = (1..=count).map(|n| (self.questioned + n) % count).filter(reads);
        self.questioned = next.clone().find(answers).or_else(|| next.next()).unwrap_or(0);
        let Some(disk) = self.disks.get(self.questioned) else { return };
        self.asking = Some(self.info.login.clone());
        self.asked_us = now_us;
        world.crew.submit(self.info.sid, Job::Ask(disk.disk.clone()));
    }

    /// Takes the result of a job.
    pub fn done(&mut self, world: &mut World<'_>, now_us: u64, done: Done) {
        match done {
            Done::Asked(answer) => {
                let asked = self.asking.take();
                if asked.as_ref() == Some(&self.info.login) {
                    self.answered(world, now_us, answer);
                }
                if !self.active {
                    world.crew.dismiss(self.info.sid);
                }
                self.due_us = self.due_us.min(self.free_us(world));
            }
            Done::SetMaxSectors { id, kb, read_back } => {
                if let Some(disk) = self.disks.iter_mut().find(|disk| disk.disk.id == id) {
                    disk.frozen(world.store, kb, read_back);
                    // The page may have turned bad while the queue was frozen.
                    if self.feedback.suffices() {
                        self.apply(world);
                    }
                }
                if matches!(self.feedback, Feedback::NotOffered(_)) {
                    self.put_back(world);
                }
                if !self.active && self.asking.is_none() {
                    world.crew.dismiss(self.info.sid);
                }
            }
            // Of all sessions.
            Done::RenewedReadAhead(_) => {}
        }
    }

    fn answered(&mut self, world: &mut World<'_>, now_us: u64, answer: Result<Vec<u8>, AskError>) {
        let page = match answer {
            Ok(bytes) => match Page::parse(&bytes) {
                Ok(page) if page.connections.is_empty() => Err("the page has no connection".into()),
                parsed => parsed.map_err(|error| format!("log page refused: {error}")),
            },
            Err(AskError::NotOffered) => return self.leave_alone(world, AskError::NotOffered.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match page {
            Ok(page) => match page.connections.into_iter().find(|connection| connection.tcp) {
                Some(connection) => self.learnt(now_us, page.clock_us, page.command_window, connection),
                None => self.leave_alone(world, "the session has no TCP connection".into()),
            },
            Err(trouble) => {
                if !matches!(self.feedback, Feedback::Trouble(_)) {
                    log::warn!("session {}: {trouble}; nothing is changed until a good page comes", self.info.sid);
                    self.feedback = Feedback::Trouble(trouble);
                    self.advertise_freely(world.host);
                }
                self.ask_due_us = now_us + RETRY_US;
            }
        }
    }

    fn learnt(&mut self, now_us: u64, clock_us: u64, command_window: u16, connection: Connection) {
        if self.feedback != Feedback::Good {
            log::info!("session {}: {} tells of its TCP connection", self.info.sid, self.info.target_iqn);
            self.feedback = Feedback::Good;
        }
        self.fresh = Some(path_state(self.asked_us, command_window, &connection));
        let page_us = self.output.as_ref().map_or(0, |output| output.page_us);
        self.ask_due_us = now_us.max(self.asked_us.saturating_add(page_us));
        self.answer = Some(Answer { connection, clock_us, asked_us: self.asked_us, answered_us: now_us });
    }

    /// Not offered: once said, and settings changed while it was are put back.
    fn leave_alone(&mut self, world: &mut World<'_>, why: String) {
        log::info!("session {}: {why}; left alone until its next login", self.info.sid);
        self.feedback = Feedback::NotOffered(why);
        (self.active, self.output, self.answer) = (false, None, None);
        self.put_back(world);
    }

    fn put_back(&mut self, world: &mut World<'_>) {
        self.advertise_freely(world.host);
        for disk in self.disks.iter_mut().filter(|disk| disk.freezing.is_none()) {
            disk.put_back(world.host, world.store);
        }
    }

    /// Asks the strategy and does what it says.
    fn consult(&mut self, world: &mut World<'_>, now_us: u64) {
        let share_us = SHARE_US.min(world.config.idle_after_us());
        let states: Vec<DiskState> = self.disks.iter().map(|disk| disk.state(disk.reading(now_us, share_us))).collect();
        let path = self.fresh.take();
        let socket = self.info.ends.and_then(|ends| world.host.tcp_socket(ends).ok());
        let mut received = socket.map(|socket| socket.received);
        if let Some(received) = received.as_mut().filter(|_| self.unboundable || !world.config.bound_advertised_window)
        {
            received.window_unit_bytes = 0;
        }
        let input = Input { now_us, path, received, share: self.share, disks: &states };
        let output = if self.active { self.strategy.tick(&input) } else { self.strategy.rest(&input) };
        if self.active && path.is_some() {
            self.ask_due_us = self.ask_due_us.max(self.asked_us.saturating_add(output.page_us));
        }
        if let Some(TcpSocket { inode, .. }) = socket {
            self.advertise(world.host, inode, output.advertised_bytes);
        }
        self.output = Some(output);
        self.apply(world);
        world.recorder.tick(now_us, self, path.is_some());
    }

    /// At each look: the kernel's receive autotuning forgets it. What cannot be let go is tried again with the next.
    fn advertise(&mut self, host: &dyn Host, inode: u64, most_bytes: Option<u64>) {
        if !self.bounded && most_bytes.is_none() {
            return;
        }
        match host.advertise(inode, most_bytes) {
            Ok(()) => self.bounded = most_bytes.is_some(),
            Err(error) if !self.unboundable => {
                log::info!("session {}: what it advertises cannot be bounded: {error}", self.info.sid);
                self.unboundable = true;
            }
            Err(_) => {}
        }
    }

    /// A bound that nobody moves is for a path that may be another one by then.
    fn advertise_freely(&mut self, host: &dyn Host) {
        if let Some(Ok(socket)) = self.info.ends.map(|ends| host.tcp_socket(ends)) {
            self.advertise(host, socket.inode, None);
        }
    }

    fn apply(&mut self, world: &mut World<'_>) {
        let Some(output) = &self.output else { return };
        let read_ahead_bytes = output.read_ahead_bytes.min(world.max_read_ahead_bytes);
        // Those that read one after the other, and between two of them the page may be asked for.
        let mut freezing = self.disks.iter().any(|disk| disk.freezing.is_some() && disk.in_use());
        for (disk, depth) in self.disks.iter_mut().zip(&output.depths) {
            let wanted = disk.wanted(output.request_bytes, read_ahead_bytes, *depth);
            let may_freeze = !freezing || !disk.in_use();
            if let Some(job) = disk.apply(world.host, world.store, &wanted, may_freeze, &output.reason, world.log) {
                freezing |= disk.in_use();
                world.crew.submit(self.info.sid, job);
            }
        }
    }
}

fn path_state(asked_us: u64, command_window: u16, connection: &Connection) -> PathState {
    let figures = &connection.figures;
    PathState {
        asked_us,
        command_window: command_window.into(),
        mss_bytes: figures.mss_bytes,
        snd_cwnd_pkts: figures.snd_cwnd_pkts,
        ssthresh_pkts: figures.ssthresh_pkts,
        prior_cwnd_pkts: figures.prior_cwnd_pkts,
        reduced_rtt_us: figures.reduced_rtt_us,
        srtt_us: figures.srtt_us,
        min_rtt_us: figures.min_rtt_us,
        snd_wnd_bytes: figures.snd_wnd_bytes,
        cwr_ecn: figures.cwr_ecn.count,
        recovery: figures.recovery.count,
        loss: figures.loss.count,
        sndbuf_bytes: figures.sndbuf_bytes,
        notsent_bytes: figures.notsent_bytes,
        bytes_acked: figures.bytes_acked,
        cwr_tlp: figures.cwr_tlp_count,
    }
}
