// SPDX-License-Identifier: GPL-2.0-only
//! `notify`: the window follows what the target says of the path.
//!
//! ```text
//!            first read              W reached C·RTTmin + slack,
//!   Rest ----------------> Start     or the queue shows, or a loss
//!    ^                       |  ------------------------------------> Cruise
//!    +---------- no disk reads any more <------------------------------+
//! ```
//!
//! **Start** finds the path's rate C from the trains in which packets arrive ([`Meter::train`]), and fills W up to
//! C·RTTmin + slack at that rate. **Cruise** keeps it there, by what the pages show of the queue, and starts again where
//! the pipe has gaps. Without pages W keeps its value, silence is no evidence; but while the request size changes it goes by
//! what this end sees. `docs/control.md` has the equations and the reasons, `docs/results.md` what it comes to and where it is
//! weak.

mod advertised;
mod bunches;
mod cruise;
mod drain;
mod fill;
mod holes;
mod losses;
mod requests;
mod shares;
mod slots;
mod start;

use self::advertised::Advertised;
use self::bunches::Bunches;
use self::cruise::{Aim, Before, Halved, Patience, SmallCut, Steps, slower};
use self::drain::Drain;
use self::holes::Holes;
use self::losses::Losses;
use self::slots::{FirstTrips, Slots};
use self::start::Found;
use crate::rate::{Ages, Arrivals, Meter, carried, per_second};
use crate::readers::{Readers, Steady};
use crate::{Input, Limits, Output, PathState, Received, Strategy};

/// Requests asked for beyond the bandwidth-delay product: one is on its way to the target while the last is still being
/// received.
const SLACK_REQUESTS: u64 = 2;
/// Least read-ahead, of all disks that read; and of one of them, the kernel's own (`VM_READAHEAD_PAGES`).
const MIN_READ_AHEAD_BYTES: u64 = 512 << 10;
const KERNEL_READ_AHEAD_BYTES: u64 = 128 << 10;
/// Asked for while nothing is known of the path: what the kernel's own read-ahead asks for, but near by no more than for 100
/// Mbit/s, as 128 KiB are several times what a path carries in a millisecond or two.
const FIRST_BYTES: u64 = 128 << 10;
const FIRST_RATE: u64 = 12_500_000;
/// Round trips over which the rate is taken once the start is over, and the least time: whole requests make a shorter one
/// uneven, and what a disk takes for them.
const RATE_TRIPS: u64 = 4;
const RATE_US: u64 = 80_000;
/// Round trips until a hole in TCP's sequence is filled.
const REPAIR_TRIPS: u64 = 2;
/// Round trips in which W does not grow: after a loss, whose recovery looks like an idle pipe, and after one that showed
/// the threshold. Shown again soon after W grew once more, it holds for longer ([`Patience::lose`]).
const RECOVERY_TRIPS: u64 = 8;
const THRESHOLD_TRIPS: u64 = 50;
/// Readers that for this long, and for [`THRESHOLD_TRIPS`], have asked for the same but for so many requests, and for less
/// than they may, are left to themselves.
const STEADY_US: u64 = 2_000_000;
const STEADY_REQUESTS: u64 = 2;
/// LIO's `default_cmdsn_depth`, where the target does not tell; and what is left of the commands for the page.
const ASSUMED_COMMANDS: u32 = 64;
const SPARE_COMMANDS: u32 = 2;
/// Least time between two pages: a question takes the place of a read, which counts where W is a few requests.
const START_PAGE_US: u64 = 10_000;
const CRUISE_PAGE_US: u64 = 40_000;
/// Questions that take the place of a read cost no more than one part in so many of W.
const QUESTION_SHARE: u64 = 20;
/// Round trips between two pages where a path loses by itself, at most.
const LOSSY_PAGE_TRIPS: u64 = 4;
/// Round-trip time before any is known.
const ASSUMED_RTT_US: u64 = 20_000;
/// Of TCP's clock (`TCP_TS_HZ`).
const TIMESTAMP_US: u32 = 1000;
/// No longer round trip is believed.
const MAX_RTT_US: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Rest,
    Start,
    Cruise,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Start => "start",
            Self::Cruise => "cruise",
        }
    }
}

/// What is known of one read, and forgotten when it is over.
#[derive(Debug, Default)]
struct ThisRead {
    began_us: u64,
    /// What a request takes beyond the round trip and the queue: at the target's disk, and until busy hosts look; and whether
    /// pages have told of that.
    late_us: u64,
    late_known: bool,
    /// Since when pages tell of nothing that waits for TCP.
    clear_us: Option<u64>,
    /// The most of C that has arrived.
    reached: u64,
    advertised: Advertised,
    bunches: Bunches,
    holes: Holes,
    losses: Losses,
    drain: Drain,
    first_trips: FirstTrips,
    /// Cuts that were each too small to tell whose the queue is, which is long since.
    small_cut: Option<SmallCut>,
    /// Since when cwnd has been less than half of W.
    choked_us: Option<u64>,
    /// Others have taken what had arrived before, and W is for half of the path.
    gives: Option<Halved>,
    /// When the path was found to have become longer.
    lengthened_us: Option<u64>,
    /// The requests of W before, which both ends' cwnd has held.
    held_requests: u64,
    /// The request size has been changed.
    changed: bool,
    /// Cruise's W has been asked for, all of it: C is no less than the path's for want of readers.
    used: bool,
    /// F is all that it may be, give or take a request.
    full: bool,
    /// When F was last less than 7/8 of W by a request or more, or no more after a hole.
    short_us: u64,
    /// The most that readers have had in flight.
    most_asked_bytes: u64,
    /// When readers last left some of W unused; and when they last asked for half of it.
    left_us: Option<u64>,
    in_use_us: Option<u64>,
    /// What they ask for; and that this is less than they may, and all that they want.
    steady: Steady,
    leisure: bool,
}

/// The strategy's whole state.
#[derive(Debug, Default)]
pub struct Notify {
    limits: Limits,
    phase: Phase,
    arrivals: Arrivals,
    meter: Meter,
    /// What has come in sequence, none before the first look at a read; and since the last.
    done: Option<u64>,
    done_bytes: u64,
    ages: Ages,
    path: PathState,
    readers: Readers,
    read: ThisRead,
    /// W, and what of it is let through so far.
    window_bytes: u64,
    filled_bytes: u64,
    /// When something last arrived, or the pipe was not full.
    moving_us: u64,
    /// A bucket filled by C and the clock, emptied by what arrives; what is above a lump may be let through.
    bucket_bytes: u64,
    /// When F was last less than W by a request or more.
    unfilled_us: u64,
    /// The request size in force, and the one asked for.
    request_bytes: u32,
    wanted_request_bytes: u32,
    /// The path's rate C in bytes/s, 0 until known; kept across rests.
    capacity: u64,
    found: Found,
    /// Of all disks that read: what the readers ask for ahead.
    read_ahead_bytes: u64,
    /// The queue that the latest page showed.
    last_queue_us: u64,
    /// The latest page told of a loss.
    lost: bool,
    /// The least round-trip time since one was found to be no queue of this session's: others fill it, or slots make packets
    /// wait; 0 before that.
    floor_us: u64,
    /// All waits for its slot.
    slots: Slots,
    /// The least round-trip time since the path was found to have become longer, 0 before that; and TCP's.
    longer_us: u32,
    tcp_min_rtt_us: u32,
    /// The latest change of W, to be undone if it does not bring what it should.
    trial: Option<(Aim, Before)>,
    /// This end advertises W, or F.
    advertises: bool,
    steps: Steps,
    /// Others fill the queue: W is TCP's cwnd, or for half of the path.
    rivals: Patience,
    /// No request more for gaps where a queue stands.
    gaps: Patience,
    /// No cuts for a queue.
    cuts: Patience,
    /// W does not grow: after a loss, and after one that showed the threshold.
    quiet: Patience,
    /// What the connection has received since it was made, as it was known last; and that it is known.
    received: Received,
    counts_packets: bool,
    request_changed_us: u64,
    window_changed_us: u64,
    last_tick_us: u64,
    reason: String,
}

impl Notify {
    pub fn new(limits: Limits) -> Self {
        let mut law = Self { limits, ..Self::default() };
        law.rest_settings();
        law
    }

    fn rest_settings(&mut self) {
        let unused = self.phase == Phase::Cruise && !self.read.used;
        let least = if unused { self.nearest_request(self.request_size()) } else { 0 };
        (self.read, self.advertises) = (ThisRead::default(), false);
        self.rivals.until_us = 0;
        (self.steps.gained, self.steps.short_us) = (0, None);
        self.meter.clear();
        self.done = None;
        self.ages.clear();
        self.request_bytes =
            if self.capacity > 0 { self.request_for(self.capacity).max(least) } else { self.first_request() };
        self.wanted_request_bytes = self.request_bytes;
        self.window_bytes = self.model_bytes(self.capacity);
        self.filled_bytes = self.window_bytes;
        self.read_ahead_bytes = read_ahead_for(self.window_for(self.capacity));
        self.enter(Phase::Rest, "nothing reads".into());
    }

    /// The round-trip time of the path without a queue that this session could empty.
    fn rtt_us(&self) -> u64 {
        match self.path.min_rtt_us {
            0 | u32::MAX => ASSUMED_RTT_US,
            us => u64::from(us).max(self.floor_us).max(self.slots.trip_us).min(MAX_RTT_US),
        }
    }

    /// With the queue that there is.
    fn trip_us(&self) -> u64 {
        self.rtt_us().max(self.path.srtt_us.into()).min(MAX_RTT_US)
    }

    /// Of a request, without a queue.
    fn late_trip_us(&self) -> u64 {
        self.rtt_us() + self.read.late_us
    }

    fn request_size(&self) -> u64 {
        self.request_bytes.into()
    }

    /// What W has beyond the path: whole requests need it, and what TCP leaves unused of what is advertised.
    fn slack_bytes(&self) -> u64 {
        (SLACK_REQUESTS * self.request()).max(carried(self.capacity, self.unused_us()))
    }

    /// What the window should be if the path carries `rate`.
    fn window_for(&self, rate: u64) -> u64 {
        self.window_with(rate, self.slack_bytes())
    }

    /// The same, with so much beyond what is on the path and late.
    fn window_with(&self, rate: u64, slack_bytes: u64) -> u64 {
        carried(rate, self.late_trip_us()).saturating_add(slack_bytes).min(self.bound())
    }

    /// The same for a rate that may not be known yet.
    fn model_bytes(&self, rate: u64) -> u64 {
        let first_bytes = self.window_for(FIRST_RATE).min(FIRST_BYTES);
        self.window_for(rate).max(first_bytes)
    }

    /// What arrives, in bytes/s, once enough has to tell.
    fn rate(&self) -> Option<u64> {
        self.average(self.rate_span_us())
    }

    /// The same over that time; of what comes in slots, of whole ones.
    fn average(&self, span_us: u64) -> Option<u64> {
        let between = if self.in_slots() { self.meter.between(span_us) } else { None };
        between.or_else(|| self.meter.average(span_us))
    }

    /// A packet in a round trip, in bytes/s.
    fn packet_rate(&self) -> u64 {
        per_second(self.path.mss_bytes.into(), self.rtt_us())
    }

    /// A request in a round trip, in bytes/s.
    fn request_rate(&self) -> u64 {
        per_second(self.request(), self.rtt_us())
    }

    fn rate_span_us(&self) -> u64 {
        (RATE_TRIPS * self.late_trip_us()).max(RATE_US)
    }

    /// Commands that may be outstanding: what the target's command window and the disks take, less what the page needs.
    fn max_commands(&self) -> u64 {
        let window = if self.path.command_window == 0 { ASSUMED_COMMANDS } else { self.path.command_window };
        window.min(self.readers.commands()).saturating_sub(SPARE_COMMANDS).clamp(1, self.limits.max_commands).into()
    }

    fn bound(&self) -> u64 {
        self.limits.max_window_bytes.min(self.max_commands() * self.request_size())
    }

    fn note(&mut self, mut path: PathState) {
        let entries = |path: &PathState| [path.recovery, path.loss, path.cwr_ecn, path.cwr_tlp];
        // One loss may be told of by several of them.
        let (now, before) = (entries(&path), entries(&self.path));
        let [recovery, loss, cwr_ecn, cwr_tlp] = std::array::from_fn(|i| now[i].wrapping_sub(before[i]));
        let told = recovery.max(loss).max(cwr_ecn).max(cwr_tlp);
        // What was lost before the read, while its disks were looked for, tells nothing of it.
        let early = path.asked_us <= self.read.began_us + self.rtt_us();
        let losses = if early { 0 } else { self.news(told, path.asked_us) };
        let lost_before = std::mem::replace(&mut self.lost, told > 0);
        if path.min_rtt_us < std::mem::replace(&mut self.tcp_min_rtt_us, path.min_rtt_us) {
            // TCP's own least one is less than any before: it is no longer path any more.
            self.longer_us = 0;
        } else {
            self.longer_us = self.longer_us.min(path.srtt_us);
        }
        path.min_rtt_us = least_rtt_us(self.path.min_rtt_us, &path, told > 0 || lost_before).max(self.longer_us);
        if self.phase == Phase::Cruise && self.overdrawn(path.asked_us) {
            self.pause_growth(path.asked_us);
        } else {
            self.read.losses.add(losses, self.path.asked_us);
        }
        if self.advertises && path.cwnd_bytes() + self.request() >= self.window_bytes {
            // It waits for what is advertised, not for cwnd.
            path.notsent_bytes = 0;
        }
        self.floor_us = self.floor_us.min(path.srtt_us.into());
        self.path = path;
        self.shorten_slots();
        if told > 0 {
            self.read.lengthened_us = None;
            self.read.losses.marked = cwr_ecn.max(cwr_tlp) > 0;
            self.read.losses.chance_us = (!early && self.lost_by_chance()).then_some(self.path.asked_us);
        }
    }

    /// One look at what has come; where nobody tells of packets, what disks have read has to do.
    fn look_at_arrivals(&mut self, input: &Input<'_>, read_bytes: u64) {
        let another = input.received.is_some_and(|received| received.bytes < self.received.bytes);
        if another || self.counts_packets != input.received.is_some() {
            // One connection's counters, or a disk's, say nothing of another's.
            self.meter.clear();
            self.done = None;
        }
        let done = input.received.map_or(read_bytes, |received| received.bytes);
        self.done_bytes = self.done.replace(done).map_or(0, |before| done.saturating_sub(before));
        let arrived = input.received.map(|received| {
            let before = if another { received } else { self.received };
            self.arrivals.add(&before, &received, self.path.mss_bytes.into());
            self.arrivals.bytes()
        });
        self.meter.push(input.now_us, arrived.unwrap_or(read_bytes));
    }

    fn queue_us(&self) -> u64 {
        u64::from(self.path.srtt_us).saturating_sub(self.rtt_us())
    }

    /// The same of everyone, above the least round trip of all.
    fn whole_queue_us(&self) -> u64 {
        self.path.srtt_us.saturating_sub(self.path.min_rtt_us).into()
    }

    /// What waits is that of another W, or measured anew.
    fn forget_queues(&mut self) {
        (self.last_queue_us, self.read.losses.held_us) = (0, 0);
    }

    /// The time the bottleneck takes for one request.
    fn request_us(&self) -> u64 {
        self.request() * 1_000_000 / self.capacity.max(1)
    }

    /// The queue that the slack makes.
    fn slack_us(&self) -> u64 {
        (SLACK_REQUESTS * self.request_us()).max(self.unused_us())
    }

    /// A queue this long is more than the slack explains.
    fn queue_high_us(&self) -> u64 {
        self.slack_us() + self.slot_us() / 2 + self.rtt_us() / if self.advertises { 8 } else { 16 }
    }

    /// The same where the slack makes a long queue: whole requests make it longer than one of them needs.
    fn queue_long_us(&self) -> u64 {
        (self.request_us() + self.rtt_us() / 16).max(self.rtt_us() / 4).min(self.queue_high_us())
    }

    /// A queue this short is none. Of what is advertised TCP's own bursts make as much.
    fn none_us(&self) -> u64 {
        (self.request_us() / 4).max(if self.advertises { self.rtt_us() / 32 } else { 0 })
    }

    /// A queue shorter than this shows nothing that waits.
    fn least_queue_us(&self) -> u64 {
        self.queue_low_us().max(self.none_us())
    }

    /// A queue this short may run empty.
    fn queue_low_us(&self) -> u64 {
        self.request_us() / 4 + self.rtt_us() / 256
    }

    fn enter(&mut self, phase: Phase, reason: String) {
        self.phase = phase;
        match phase {
            Phase::Rest => (),
            Phase::Start => {
                self.found = Found::new(self.capacity);
                (self.read.bunches.grown_us, self.read.choked_us, self.read.holes.whole_us) = (None, None, None);
            }
            Phase::Cruise => self.window_bytes = self.window_for(self.capacity),
        }
        (self.read.losses.held_us, self.trial) = (0, None);
        self.reason = reason;
    }

    /// W is on the path, all of it, and makes no queue: the path carries more, and W may be more.
    fn idle(&self, queue_us: u64, rate: Option<u64>) -> bool {
        if self.window_bytes >= self.bound() {
            return false;
        }
        // Bytes asked for that are not on the path. Whole requests account for about one, and so do bursts for steps.
        let waiting = rate.map_or(0, |rate| self.window_bytes.saturating_sub(carried(rate, self.rtt_us())));
        let most_waiting = if self.advertises { 2 * self.slack_bytes() } else { self.request() / 2 * 5 };
        // Of what is advertised less than the model may bring all of C.
        let short = !self.advertises || rate.is_some_and(|rate| slower(rate + self.packet_rate(), self.capacity));
        // A path that is full at C brings no more than C, W or no W.
        let more = short && self.window_bytes < self.window_for(self.capacity)
            || rate.is_some_and(|rate| rate > self.capacity.saturating_add(self.capacity / 128));
        let none = queue_us < self.least_queue_us();
        none && waiting < most_waiting && more && self.asked_in_full()
    }

    /// No more than what comes in about an eighth of a second: a reader waits for all of a portion, and what is ahead when it
    /// ends is for nothing. Where the path loses by itself that is what cwnd lets through.
    fn least_read_ahead_bytes(&self, now_us: u64) -> u64 {
        let rate = match self.capacity {
            0 => u64::MAX,
            rate if self.lossy(now_us) => rate.min(per_second(self.repaired_bytes(), self.trip_us())),
            rate => rate,
        };
        MIN_READ_AHEAD_BYTES.min(1 << (rate / 8).max(1).ilog2())
    }

    /// Read-ahead follows W; not its every breath, since all files that are open have to be told. Nor is it ahead of a C that
    /// doubles, which is ahead of cwnd: the kernel makes no file's window smaller again.
    fn fit_read_ahead(&mut self) {
        let fit = read_ahead_for(self.window_bytes.max(self.window_for(self.capacity)));
        if fit > self.read_ahead_bytes / 8 * 9 || fit < self.read_ahead_bytes / 8 * 7 {
            self.read_ahead_bytes = fit;
        }
    }

    /// Requests take clearly longer than the path explains: a disk is late, or a busy host.
    fn late(&self) -> bool {
        self.read.late_us >= self.rtt_us() / 16
    }

    /// What of W is with the disk, or waits for a host to look; the rest is TCP's to carry.
    fn late_bytes(&self) -> u64 {
        carried(self.capacity, self.read.late_us)
    }

    fn path_bytes(&self) -> u64 {
        self.window_bytes.saturating_sub(self.late_bytes())
    }

    /// The bandwidth-delay product C·RTTmin.
    fn bdp_bytes(&self) -> u64 {
        carried(self.capacity, self.rtt_us())
    }

    fn cwnd_less_than_half_of(&self, bytes: u64) -> bool {
        self.path.cwnd_bytes() < bytes.div_ceil(2)
    }

    /// The readers want more than the window lets through, and TCP lets the window through.
    fn asked_in_full(&self) -> bool {
        // A cwnd a little below W may never be filled, and then never grows: there W has to go first.
        self.asked() && (self.let_through() || u64::from(self.path.notsent_bytes) < self.request())
    }

    /// cwnd holds all of W but a request.
    fn let_through(&self) -> bool {
        self.path.cwnd_bytes().saturating_add(self.request()) >= self.path_bytes()
    }

    /// cwnd holds all of W, give or take a request of the disk's.
    fn cwnd_holds_window(&self) -> bool {
        self.path.cwnd_bytes().saturating_add(self.request_size()) >= self.window_bytes
    }

    /// Something was lost in this read.
    fn has_lost(&self) -> bool {
        self.lost_us().is_some()
    }

    /// When a hole, or a page, has told of the latest loss in this read.
    fn lost_us(&self) -> Option<u64> {
        self.read.holes.last_us.max(self.read.losses.last_us)
    }

    fn asked(&self) -> bool {
        self.asked_but_for(1)
    }

    /// Readers ask for all of W, or so many requests less.
    fn asked_but_for(&self, requests: u64) -> bool {
        let request = self.request().max(1);
        (self.readers.claimed_bytes() / request).saturating_add(requests) >= self.window_bytes / request
    }

    /// In words. What is asked for, does not arrive and does not wait for TCP either is with the target's disk.
    fn limit(&self, rate: Option<u64>) -> &'static str {
        let wanted = self.bdp_bytes().saturating_add(self.slack_bytes());
        let arriving = carried(rate.unwrap_or(u64::MAX), self.path.srtt_us.into());
        match self.phase {
            Phase::Rest => "application",
            _ if self.read.leisure => "application",
            // Its own bound is W.
            _ if !self.advertises && u64::from(self.path.snd_wnd_bytes) < self.window_bytes => "advertised window",
            _ if u64::from(self.path.sndbuf_bytes) < self.window_bytes => "send buffer",
            _ if self.asked()
                && u64::from(self.path.notsent_bytes) < self.request()
                && arriving < self.window_bytes / 2 =>
            {
                "disk"
            }
            _ if self.path.cwnd_bytes() < self.path_bytes() => "cwnd",
            _ if wanted > self.limits.max_window_bytes => "depth",
            _ if wanted > self.bound() => "request size",
            _ if self.capacity > 0 && self.window_bytes >= wanted => "link",
            _ if self.asked_in_full() => "depth",
            _ => "application",
        }
    }

    /// Neither other sessions of this host nor other flows are known to be on the path.
    fn alone(&self, input: &Input<'_>) -> bool {
        input.share.is_none() && input.now_us >= self.rivals.until_us
    }

    /// Far away a question is always on its way.
    fn far_pages(&self) -> bool {
        self.rtt_us() >= CRUISE_PAGE_US
    }

    /// TCP decides, for others that fill the queue.
    fn beside_rivals(&self, input: &Input<'_>) -> bool {
        input.share.is_none() && input.now_us < self.rivals.until_us
    }

    /// For the reads that questions take the place of; but where a loss has shown a short queue, more reads would lose, and
    /// near by, among this host's sessions, they would make its queue longer. Beside others neither counts: what cwnd does not
    /// let through waits at the target, and where W is less than that it is for a part of the path, all of which is to be
    /// used. While a request size is being changed there are few questions, or none.
    fn question_bytes(&self, input: &Input<'_>, page_us: u64) -> u64 {
        let shallow = self.read.losses.shallow && !self.beside_rivals(input);
        let none = self.phase != Phase::Cruise || shallow || self.lossy(input.now_us) || input.changing();
        if none || input.share.is_some() && !self.far_pages() {
            return 0;
        }
        self.request_size() * self.trip_us().min(page_us) / page_us.max(1)
    }

    /// What makes the number of requests the nearest to F, not the next below it, where TCP decides, or nothing is known to be
    /// lost; but where looks are too coarse for trains, one request more would make a long queue, other sessions are on the
    /// path, or it is so long that a request is much, a short queue may not hold it.
    fn nearest_bytes(&self, input: &Input<'_>) -> u64 {
        let short = self.queue_us() + self.request_us() <= self.rtt_us() / 4;
        let held = !self.has_lost() && short && self.trains_tell() && self.alone(input) && !self.far_pages();
        let may = self.phase == Phase::Cruise && (held || self.beside_rivals(input));
        if may { self.request_size() / 2 } else { 0 }
    }

    /// From one question for the page to the next.
    fn page_us(&self, now_us: u64) -> u64 {
        if self.phase != Phase::Cruise && !self.read.leisure {
            return self.rtt_us().max(START_PAGE_US);
        }
        let least_us = self.rtt_us().max(CRUISE_PAGE_US);
        if self.lossy(now_us) {
            // cwnd, which bounds W, changes in each; but of one that holds few requests each question takes much.
            let trip_us = self.trip_us();
            let share_us = QUESTION_SHARE * trip_us * self.request() / self.repaired_bytes().max(1);
            return share_us.clamp(least_us.max(trip_us), least_us.max(LOSSY_PAGE_TRIPS * trip_us));
        }
        // Others are to be answered, and a longer path filled, whatever that costs.
        let far = self.far_pages() && !self.read.losses.shallow;
        if far || now_us < self.rivals.until_us || self.lengthened(now_us) {
            return least_us;
        }
        let cut = matches!(self.trial, Some((Aim::Shorter { .. }, _)));
        let share = if self.read.losses.shallow && !cut { 4 * QUESTION_SHARE } else { QUESTION_SHARE };
        let request = self.request().max(1);
        least_us.max(share * self.trip_us() * request / self.window_bytes.max(request))
    }

    fn output(&mut self, input: &Input<'_>, next_us: u64) -> Output {
        let rate = self.rate();
        let hungry = self.readers.hungry(self.rate_span_us());
        if self.readers.asked_bytes() >= self.window_bytes / 2 {
            self.read.in_use_us = Some(input.now_us);
        }
        // Readers want no less while F is filled anew, but a device above may use another path.
        let below = input.disks.iter().any(|disk| disk.below);
        let for_us = if below { 0 } else { RECOVERY_TRIPS * self.trip_us() };
        let in_use = self.read.in_use_us.is_some_and(|us| input.now_us - us <= for_us);
        let page_us = self.page_us(input.now_us);
        let more_bytes =
            self.ahead_bytes().unwrap_or_else(|| self.question_bytes(input, page_us) + self.nearest_bytes(input));
        let (paused, request_bytes, max_commands) =
            (self.read.bunches.paused, self.request_size(), self.max_commands());
        Output {
            phase: self.phase.name(),
            limit: self.limit(rate),
            window_bytes: self.filled_bytes,
            request_bytes: self.wanted_request_bytes,
            depths: self.readers.depths(
                self.filled_bytes,
                |window_bytes, bytes| if paused { 1 } else { (window_bytes + more_bytes) / bytes },
                request_bytes,
                max_commands,
            ),
            advertised_bytes: self.advertised_bytes(),
            read_ahead_bytes: (self.read_ahead_bytes.max(self.least_read_ahead_bytes(input.now_us)) / hungry)
                .clamp(KERNEL_READ_AHEAD_BYTES, self.limits.max_read_ahead_bytes),
            rate: rate.filter(|_| in_use),
            next_us,
            page_us,
            reason: self.reason.clone(),
        }
    }
}

/// The reader comes for the next one a little late.
fn read_ahead_for(window_bytes: u64) -> u64 {
    window_bytes + window_bytes / 8
}

/// The least round trip of a page after one of `before_us`, 0 if there was none. Of what was sent again the target's TCP knows
/// it by timestamps alone, in whole milliseconds rounded down (`tcp_rtt_tsopt_us()`): near by most of it may be lost. Where
/// something was lately, the mean is of such as well.
fn least_rtt_us(before_us: u32, path: &PathState, lost: bool) -> u32 {
    let rounded = path.min_rtt_us % TIMESTAMP_US == 0 && before_us.saturating_sub(path.min_rtt_us) < TIMESTAMP_US;
    let most_us = if lost { before_us } else { before_us.min(path.srtt_us) };
    if rounded { path.min_rtt_us.max(most_us) } else { path.min_rtt_us }
}

impl Strategy for Notify {
    fn rest(&mut self, input: &Input<'_>) -> Output {
        if let Some(path) = input.path {
            self.note(path);
        }
        self.readers.look(input.now_us, self.trip_us(), input.disks);
        self.received = input.received.unwrap_or(self.received);
        self.rest_settings();
        self.output(input, u64::MAX)
    }

    fn tick(&mut self, input: &Input<'_>) -> Output {
        if self.phase == Phase::Rest {
            self.read.began_us = input.now_us;
        }
        if let Some(path) = input.path {
            self.note(path);
        }
        if self.phase == Phase::Rest {
            self.enter(Phase::Start, "a read began".into());
            (self.request_changed_us, self.last_tick_us, self.moving_us) = (input.now_us, input.now_us, input.now_us);
        }
        let (lump, request, slack_bytes) = (self.lump(), self.request(), self.slack_bytes());
        self.request_bytes = input.request_bytes().unwrap_or(self.request_bytes);
        self.look_at_readers(input);
        if self.lump() < lump {
            // What waited may have been the larger ones.
            self.floor_us = 0;
        }
        if self.request() != request && self.phase == Phase::Cruise {
            // W that is less than the model has no such slack.
            let least = self.window_bytes.min(self.window_for(self.capacity));
            self.window_bytes = (self.window_bytes.saturating_sub(slack_bytes) + self.slack_bytes()).max(least);
            (self.window_changed_us, self.trial) = (input.now_us, None);
            self.forget_queues();
        }
        let window_bytes = self.window_bytes;
        self.window_bytes = window_bytes.min(self.bound());
        let read_bytes = input.read_bytes();
        self.look_at_arrivals(input, read_bytes);
        let asked = self.readers.asked_bytes();
        self.ages.push(input.now_us, asked, read_bytes);
        self.read.steady.look(input.now_us, asked, STEADY_REQUESTS * self.lump());
        self.look_for_holes(input, self.asked_of_path());
        self.look_for_slots(input.now_us, asked);
        if self.phase == Phase::Cruise && input.path.is_some() {
            self.fit_slots(input);
        }
        let starts = self.phase != Phase::Cruise;
        if starts {
            self.start(input);
        } else {
            self.cruise(input);
            self.fill(input);
        }
        if self.window_bytes != window_bytes {
            self.window_changed_us = input.now_us;
        }
        let next_us = input.now_us + self.look_us(input.now_us, starts);
        if self.filled_bytes + self.request() <= self.window_bytes {
            self.unfilled_us = input.now_us;
        }
        if self.filled_bytes + self.request() <= self.window_bytes / 8 * 7 {
            self.read.short_us = input.now_us;
        }
        self.fit_request(input);
        self.fit_read_ahead();
        self.last_tick_us = input.now_us;
        self.output(input, next_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskState;

    #[test]
    fn whole_milliseconds_are_a_round_trip_rounded_down() {
        let page = |min_rtt_us, srtt_us| PathState { min_rtt_us, srtt_us, ..PathState::default() };
        let least = |before_us, min_rtt_us, srtt_us| least_rtt_us(before_us, &page(min_rtt_us, srtt_us), false);
        assert_eq!((least(1_640, 1_000, 1_900), least(1_640, 1_000, 1_500)), (1_640, 1_500));
        assert_eq!((least(42_100, 42_000, 60_000), least(42_100, 41_000, 60_000)), (42_100, 41_000));
        assert_eq!((least(1_640, 1_500, 1_900), least(0, 1_000, 1_900)), (1_500, 1_000));
        assert_eq!(least(1_500, 2_000, 2_500), 2_000, "a longer path");
        assert_eq!(least_rtt_us(1_640, &page(1_000, 1_500), true), 1_640, "the mean is of such as well");
    }

    /// A page that was asked for within a round trip of the first read tells of nothing that this has lost.
    #[test]
    fn what_was_lost_before_a_read_tells_nothing_of_it() {
        let page = PathState { min_rtt_us: 20_000, srtt_us: 20_000, reduced_rtt_us: 20_000, ..PathState::default() };
        let at = |now_us, path| Input { now_us, path, received: None, share: None, disks: &[] };
        // The first look at the read may bring one that was asked for before.
        for (asked_us, told) in [(990_000, false), (1_020_000, false), (1_020_001, true)] {
            let mut law = Notify::new(Limits::default());
            law.note(page);
            let lost = PathState { recovery: 1, asked_us, ..page };
            law.tick(&at(1_000_000, (asked_us < 1_000_000).then_some(lost)));
            if asked_us >= 1_000_000 {
                law.note(lost);
            }
            let losses = &law.read.losses;
            assert_eq!((losses.unanswered > 0, losses.chance_us.is_some()), (told, told), "asked for at {asked_us} us");
            // But that it was a mark is known of the latest.
            law.note(PathState { cwr_ecn: 1, ..lost });
            assert!(law.read.losses.marked && law.read.losses.chance_us.is_none(), "asked for at {asked_us} us");
        }
    }

    /// In microseconds, of requests of so many KiB at 12.5 MB/s.
    #[test]
    fn where_two_requests_are_a_long_queue_less_is_long() {
        for (rtt_us, kib, long_us) in [(2_000, 8, 780), (4_000, 8, 1_000), (20_000, 16, 3_870), (1_000, 4, 389)] {
            let mut law = Notify::new(Limits::default());
            law.note(PathState { min_rtt_us: rtt_us, srtt_us: rtt_us, ..PathState::default() });
            (law.capacity, law.request_bytes) = (12_500_000, kib << 10);
            assert_eq!(law.queue_long_us(), long_us, "RTT {rtt_us} us");
        }
    }

    #[test]
    fn a_window_has_the_slack_of_its_requests() {
        // As large as the model of the larger requests; less for a loss; and less than the model of the smaller ones.
        for (less, keeps) in [(0, false), (12 << 10, false), (20 << 10, true)] {
            let mut law = Notify::new(Limits::default());
            law.note(PathState { min_rtt_us: 10_000, srtt_us: 10_000, command_window: 512, ..PathState::default() });
            (law.phase, law.capacity, law.request_bytes) = (Phase::Cruise, 7_500_000, 16 << 10);
            let before = law.window_for(law.capacity) - less;
            law.window_bytes = before;
            let disk = DiskState { reading: true, request_bytes: 8 << 10, max_depth: 512, ..DiskState::default() };
            law.tick(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[disk] });
            let after = if keeps { before } else { law.window_for(law.capacity) };
            assert_eq!((law.request_bytes, law.window_bytes), (8 << 10, after));
        }
    }

    /// A start has taken what the larger requests made of a queue for the path.
    #[test]
    fn smaller_requests_have_the_round_trip_measured_anew() {
        for (kib, rtt_us) in [(4, 7_370), (16, 8_680), (32, 8_680)] {
            let mut law = Notify::new(Limits::default());
            law.note(PathState { min_rtt_us: 7_370, srtt_us: 9_770, command_window: 512, ..PathState::default() });
            (law.phase, law.capacity, law.request_bytes, law.floor_us) = (Phase::Cruise, 5_581_000, 16 << 10, 8_680);
            let disk = DiskState { reading: true, request_bytes: kib << 10, max_depth: 512, ..DiskState::default() };
            law.tick(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[disk] });
            assert_eq!((law.request_bytes, law.rtt_us()), (kib << 10, rtt_us));
        }
    }

    #[test]
    fn requests_are_rounded_to_the_nearest_where_tcp_decides_or_a_short_queue_holds_one_more() {
        for (rtt_us, queue_us, train, hole, shared, others, rounded) in [
            (20_000, 700, 12_500_000, false, false, false, true),
            (20_000, 3_600, 12_500_000, false, false, false, true),
            (20_000, 3_800, 12_500_000, false, false, false, false),
            (20_000, 700, 6_000_000, false, false, false, false), // trains have not told C
            (20_000, 700, 12_500_000, true, false, false, false),
            (20_000, 700, 12_500_000, false, true, false, false),
            (40_000, 700, 12_500_000, false, false, false, false),
            (40_000, 30_000, 6_000_000, true, false, true, true),
            (20_000, 700, 12_500_000, false, true, true, false),
        ] {
            let mut law = Notify::new(Limits::default());
            law.note(PathState { min_rtt_us: rtt_us, srtt_us: rtt_us + queue_us, ..PathState::default() });
            (law.phase, law.capacity, law.found.train, law.request_bytes) =
                (Phase::Cruise, 12_500_000, train, 16 << 10);
            law.read.holes.last_us = hole.then_some(1);
            law.rivals.until_us = if others { u64::MAX } else { 0 };
            let share = shared.then_some(1);
            let bytes = law.nearest_bytes(&Input { now_us: 1 << 40, path: None, received: None, share, disks: &[] });
            assert_eq!(
                bytes,
                if rounded { 8 << 10 } else { 0 },
                "{rtt_us} {queue_us} us, {train} B/s, {hole} {shared} {others}"
            );
        }
    }

    #[test]
    fn where_a_path_loses_by_itself_pages_take_a_twentieth_of_cwnd() {
        let rtt_us = 100_000;
        for (snd_cwnd_pkts, ssthresh_pkts, page_ms) in
            [(10, 10, 400), (76, 10, 297), (226, 10, 100), (1_000, 10, 100), (10, 1_000, 100)]
        {
            let mut law = Notify::new(Limits::default());
            let (min_rtt_us, srtt_us, mss_bytes, prior_cwnd_pkts) = (rtt_us, rtt_us, 1448, 1_000);
            law.note(PathState {
                min_rtt_us,
                srtt_us,
                mss_bytes,
                snd_cwnd_pkts,
                ssthresh_pkts,
                prior_cwnd_pkts,
                ..PathState::default()
            });
            (law.phase, law.request_bytes, law.read.losses.lossy_until_us) = (Phase::Cruise, 16 << 10, Some(1));
            assert_eq!(law.page_us(0) / 1_000, page_ms, "{snd_cwnd_pkts} packets, {ssthresh_pkts}");
        }
    }

    #[test]
    fn half_is_exact_and_a_page_may_tell_of_any_cwnd() {
        let mut law = Notify::new(Limits::default());
        for (pkts, mss_bytes, bytes, less) in
            [(1, 1, 2, false), (1, 1, 3, true), (u32::MAX, u32::MAX, u64::MAX, false), (0, u32::MAX, 0, false)]
        {
            (law.path.snd_cwnd_pkts, law.path.mss_bytes) = (pkts, mss_bytes);
            assert_eq!(law.cwnd_less_than_half_of(bytes), less, "{pkts} packets, {bytes} bytes");
        }
    }

    #[test]
    fn read_ahead_is_for_the_path_that_was_found() {
        let mut law = Notify::new(Limits::default());
        let rest = law.rest(&Input { now_us: 0, path: None, received: None, share: None, disks: &[] });
        assert_eq!(rest.read_ahead_bytes, MIN_READ_AHEAD_BYTES, "nothing is known");
        assert!(law.read_ahead_bytes < MIN_READ_AHEAD_BYTES);
        law.note(PathState { min_rtt_us: 50_000, srtt_us: 50_000, command_window: 512, ..PathState::default() });
        (law.phase, law.request_bytes) = (Phase::Start, 16 << 10);
        // C doubles.
        for (rate, kib) in [(3_000_000, 200), (6_000_000, 365), (12_000_000, 695), (11_500_000, 695), (6_000_000, 365)]
        {
            law.capacity = rate;
            law.fit_read_ahead();
            assert_eq!(law.read_ahead_bytes >> 10, kib, "{rate} B/s");
        }
        law.rest_settings();
        assert_eq!(law.read_ahead_bytes >> 10, 365);
    }
}
