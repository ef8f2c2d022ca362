// SPDX-License-Identifier: GPL-2.0-only
//! The control law, without I/O and without a clock.
//!
//! The caller owns the world: it hands in what it saw ([`Input`]) and applies what comes back ([`Output`]).
//! One [`Strategy`] serves one session, which with open-iscsi is one TCP connection. `docs/control.md` derives the law.
//!
//! Contract with the caller:
//! * [`Strategy::rest`] while no disk of the session reads: at discovery, and again when reading stops.
//! * [`Strategy::tick`] from the first read on, whenever [`Output::next_us`] is reached, *also while a page is
//!   outstanding*: the answer to a page takes a round trip, and the ramp is finer than that.
//! * [`Input::path`] holds a page only on the first tick after it arrived; [`Output::page_us`] is how long to wait
//!   between two askings.

mod notify;
mod rate;
mod readers;
mod search;

pub use notify::Notify;
pub use readers::FIRST_READS;
pub use search::{Method, Search};

/// What the law uses of what the log page said of the session's connection. Field meanings: `docs/log-page.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathState {
    /// When the target was asked, by the initiator's clock; it says what was so half a round trip later.
    pub asked_us: u64,
    /// Commands that the session may have outstanding; 0 if not told.
    pub command_window: u32,
    pub mss_bytes: u32,
    pub snd_cwnd_pkts: u32,
    pub ssthresh_pkts: u32,
    pub prior_cwnd_pkts: u32,
    /// Round trip when cwnd was reduced last; 0: never.
    pub reduced_rtt_us: u32,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    pub snd_wnd_bytes: u32,
    pub cwr_ecn: u32,
    pub cwr_tlp: u32,
    pub recovery: u32,
    pub loss: u32,
    pub sndbuf_bytes: u32,
    pub notsent_bytes: u32,
    /// Since the connection was made.
    pub bytes_acked: u64,
}

impl PathState {
    fn cwnd_bytes(&self) -> u64 {
        u64::from(self.snd_cwnd_pkts) * u64::from(self.mss_bytes)
    }
}

/// One disk (LUN) of the session, from its block statistics and queue limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskState {
    /// Bytes of completed reads since boot.
    pub read_bytes: u64,
    /// Completed reads since boot.
    pub read_ios: u64,
    /// Reads that have begun since the disk was idle, as far as the caller has seen them, before any completes.
    pub begun_bytes: u64,
    pub begun_ios: u64,
    pub in_flight: u32,
    /// The caller's judgement that this disk is reading now.
    pub reading: bool,
    /// The request size in force (`max_sectors_kb`), and whether another one is being set, which drains the queue.
    pub request_bytes: u32,
    pub changing: bool,
    /// A greater depth is used at once; otherwise when the next request completes.
    pub prompt: bool,
    /// A device above makes its requests, and chooses which of its disks has the next (dm-multipath).
    pub below: bool,
    /// `max_hw_sectors_kb`, the upper bound of the request size.
    pub max_request_bytes: u32,
    /// Commands it can have in flight at most (the host's `can_queue`, the disk's `nr_requests`).
    pub max_depth: u32,
}

/// What the kernel's socket diagnostics say of the session's connection; the counters since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// In sequence.
    pub bytes: u64,
    /// In sequence or not.
    pub pkts: u32,
    /// What came while something before it was missing.
    pub out_of_order_pkts: u32,
    /// The mean round trip of what this end sends, 0 if unknown.
    pub srtt_us: u32,
    /// What it advertises is a multiple of this, by its window scale (RFC 7323, 2.3); 0 where that cannot be bounded.
    pub window_unit_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The initiator's monotonic clock.
    pub now_us: u64,
    /// The page, if one arrived since the last call.
    pub path: Option<PathState>,
    /// What the connection has received; where that is not known, the disks' completed reads have to do.
    pub received: Option<Received>,
    /// Bytes/s that would be this session's if all that use the path to its target's address had the same; `None` if it
    /// is alone with that.
    pub share: Option<u64>,
    pub disks: &'a [DiskState],
}

impl Input<'_> {
    /// Of all disks.
    fn read_bytes(&self) -> u64 {
        self.disks.iter().fold(0, |sum, d| sum.saturating_add(d.read_bytes))
    }

    /// The request size in force, of the disks that read; while it changes the largest.
    fn request_bytes(&self) -> Option<u32> {
        self.disks.iter().filter(|d| d.reading && d.request_bytes > 0).map(|d| d.request_bytes).max()
    }

    /// A request size is being set, which drains the queue.
    fn changing(&self) -> bool {
        self.disks.iter().any(|d| d.changing)
    }
}

/// The settings asked for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub phase: &'static str,
    /// Which limit binds, in words.
    pub limit: &'static str,
    /// The session's budget of bytes in flight.
    pub window_bytes: u64,
    pub request_bytes: u32,
    /// `queue_depth`, one for each disk of the input, in its order.
    pub depths: Vec<u32>,
    pub read_ahead_bytes: u64,
    /// What the connection may advertise at most, in whole [`Received::window_unit_bytes`]; `None`: as its TCP sees fit.
    pub advertised_bytes: Option<u64>,
    /// What has been arriving lately, in bytes/s, once that is known; `None` also while the readers leave much of the
    /// window unused: then it says nothing of the path.
    pub rate: Option<u64>,
    /// Tick again at this time of the initiator's clock.
    pub next_us: u64,
    /// Ask for the page this long after the previous asking, or when it is answered if that is later.
    pub page_us: u64,
    /// One clause for the log.
    pub reason: String,
}

/// Bounds from the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub min_request_bytes: u32,
    pub max_request_bytes: u32,
    /// Commands the session may have outstanding, if the target allows as many.
    pub max_commands: u32,
    pub max_window_bytes: u64,
    pub max_read_ahead_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_request_bytes: 4 << 10,
            max_request_bytes: 1 << 20,
            max_commands: 510,
            max_window_bytes: 64 << 20,
            max_read_ahead_bytes: 64 << 20,
        }
    }
}

pub trait Strategy: Send {
    /// Settings while nothing reads. `input.path` helps to choose them when a page is at hand.
    fn rest(&mut self, input: &Input<'_>) -> Output;
    /// Settings while at least one disk reads.
    fn tick(&mut self, input: &Input<'_>) -> Output;
}

/// Strategies by the name the configuration file uses. `off` is the daemon's: no strategy at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyName {
    Off,
    Notify,
    Linear,
    Binary,
}

impl StrategyName {
    pub const ALL: [(&'static str, Self); 4] =
        [("off", Self::Off), ("notify", Self::Notify), ("linear", Self::Linear), ("binary", Self::Binary)];

    /// Without pages it does nothing good.
    pub fn needs_pages(self) -> bool {
        self == Self::Notify
    }
}

impl std::str::FromStr for StrategyName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .find_map(|&(known, value)| (known == name).then_some(value))
            .ok_or_else(|| format!("{name:?} is not a strategy; allowed: {}", Self::ALL.map(|(n, _)| n).join(", ")))
    }
}

/// A new strategy, or `None` for [`StrategyName::Off`].
pub fn strategy(name: StrategyName, limits: Limits) -> Option<Box<dyn Strategy>> {
    match name {
        StrategyName::Off => None,
        StrategyName::Notify => Some(Box::new(Notify::new(limits))),
        StrategyName::Linear => Some(Box::new(Search::new(Method::Linear, limits))),
        StrategyName::Binary => Some(Box::new(Search::new(Method::Binary, limits))),
    }
}
