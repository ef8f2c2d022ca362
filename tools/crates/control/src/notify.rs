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
//! the pipe has gaps. Without pages W keeps its value: silence is no evidence. `docs/control.md` has the equations, the
//! reasons and what is known to be weak.

use std::collections::VecDeque;

use crate::rate::{Ages, Meter, carried, per_second};
use crate::readers::{Readers, commands, sharing};
use crate::{Input, Limits, Output, PathState, Strategy};

/// The path that settings at rest are made for until one was measured, in bytes/s: 1 Gbit/s. On a faster one requests
/// grow once, at the cost of a drain; on a much slower one they must not be so coarse that the first few overrun it. So
/// their size is that for the rate at which the 256 requests that Linux gives a disk still carry 1 Gbit/s, rounded as it is.
const ASSUMED_RATE: u64 = 125_000_000;
const ASSUMED_REQUEST_RATE: u64 = ASSUMED_RATE / 14 * 5;
/// Requests that make up a bandwidth-delay product: enough to meter W finely, few enough for the command window.
const REQUESTS_PER_BDP: u64 = 60;
/// Smaller requests than this cost more than fine metering gains, but where fewer than [`LEAST_REQUESTS`] of them fill the
/// path, and not more than [`SMALL_PER_S`] arrive in a second.
const SMALL_REQUEST_BYTES: u64 = 16 << 10;
const LEAST_REQUESTS: u64 = 3;
const SMALL_PER_S: u64 = 2000;
/// Requests asked for beyond the bandwidth-delay product: one is on its way to the target while the last is still being
/// received.
const SLACK_REQUESTS: u64 = 2;
/// Least read-ahead, of all disks that read; and of one of them, the kernel's own (`VM_READAHEAD_PAGES`).
const MIN_READ_AHEAD_BYTES: u64 = 512 << 10;
const KERNEL_READ_AHEAD_BYTES: u64 = 128 << 10;
/// Asked for while nothing is known of the path: what the kernel's own read-ahead asks for.
const FIRST_BYTES: u64 = 128 << 10;
/// Round trips without a faster train after which the start is over: a paced sender's trains double with its cwnd.
const SETTLE_TRIPS: u64 = 2;
/// Round trips after which it is over though less arrives: TCP recovers from losses.
const PATIENCE_TRIPS: u64 = 10;
/// Round trips until a hole in TCP's sequence is filled.
const REPAIR_TRIPS: u64 = 2;
/// Round trips over which the rate is taken once the start is over, and the least time: whole requests make a shorter one
/// uneven, and what a disk takes for them.
const RATE_TRIPS: u64 = 4;
const RATE_US: u64 = 80_000;
/// Round trips in which W does not grow: after a loss, whose recovery looks like an idle pipe, and after one that showed
/// the threshold. Shown again soon after W grew once more, it holds for twice as long, up to [`MAX_THRESHOLD_US`].
const RECOVERY_TRIPS: u64 = 8;
const THRESHOLD_TRIPS: u64 = 50;
/// To lose, to tell of it by duplicate acknowledgements, and to ask; which is not done all the time.
const BLAME_TRIPS: u64 = 3;
const MAX_THRESHOLD_US: u64 = 10_000_000;
/// Other flows that fill the queue lose something at least so often, and so does this one.
const LOST_US: u64 = 5_000_000;
/// Least time between two changes of the request size once the start is over.
const CHANGE_US: u64 = 1_000_000;
/// LIO's `default_cmdsn_depth`, where the target does not tell; and what is left of the commands for the page.
const ASSUMED_COMMANDS: u32 = 64;
const SPARE_COMMANDS: u32 = 2;
/// Least time between two pages: a question takes the place of a read, which counts where W is a few requests.
const START_PAGE_US: u64 = 10_000;
const CRUISE_PAGE_US: u64 = 40_000;
/// Questions that take the place of a read cost no more than one part in so many of W.
const QUESTION_SHARE: u64 = 20;
/// Finest look at the counters.
const LOOK_US: u64 = 100;
/// The same in Cruise while readers use all of W; and while they do, but have not for so long.
const FULL_LOOK_US: u64 = 10_000;
const RETURN_LOOK_US: u64 = 500;
const RETURN_US: u64 = 2_000_000;
/// The start asks for requests in bunches, at most so many in a round trip, of at least so many requests, where so many fill
/// the path; far away from fewer on.
const BUNCHES: u64 = 10;
const BUNCH_REQUESTS: u64 = 2;
const BUNCHES_FROM: u64 = 24;
const FAR_BUNCHES_FROM: u64 = 8;
/// From this round-trip time on the start keeps up with TCP's slow start. Nearer, as many bytes come in less time than looks
/// and TCP's own bursts tell apart: on short queues that lost more than it won.
const FAR_US: u64 = 55_000;
/// Requests that it asks for beyond cwnd before there are bunches: one is the page's question, one has come in part, and one
/// is on its way to the target.
const AHEAD_REQUESTS: u64 = 3;
/// Round trips for which it looks more finely, and fills W with care, after they have shown something.
const FINE_TRIPS: u64 = 5;
/// Round-trip time before any is known.
const ASSUMED_RTT_US: u64 = 20_000;
/// No longer round trip is believed.
const MAX_RTT_US: u64 = 10_000_000;
/// The start does not wait for older requests than this to tell its rate: at the finest look the meter holds no more.
const MOST_AGE_US: u64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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

/// What a change of W is to bring.
#[derive(Clone, Copy, Debug)]
enum Aim {
    /// It should empty this much of the queue, and no less arrives.
    Shorter { queue_us: u64, emptied_us: u64 },
    /// More arrives.
    More,
}

/// What there was before a change of W, to come back to.
#[derive(Clone, Copy, Debug)]
struct Before {
    rate: u64,
    window_bytes: u64,
    capacity: u64,
    late_us: u64,
}

impl Aim {
    fn emptied_us(&self) -> u64 {
        match *self {
            Self::Shorter { emptied_us, .. } => emptied_us.min(MAX_RTT_US),
            Self::More => 0,
        }
    }
}

/// What failed is tried again later and later.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    until_us: u64,
    wait_us: u64,
}

impl Patience {
    fn at_least(&mut self, until_us: u64) {
        self.until_us = self.until_us.max(until_us);
    }

    /// Soon after the last time it is for twice as long, up to [`MAX_THRESHOLD_US`].
    fn lose(&mut self, now_us: u64, rtt_us: u64) {
        let least_us = THRESHOLD_TRIPS * rtt_us;
        let soon = now_us < self.until_us.saturating_add(self.wait_us);
        self.wait_us = if soon { 2 * self.wait_us } else { 0 }.clamp(least_us, MAX_THRESHOLD_US.max(least_us));
        self.until_us = now_us + self.wait_us;
    }
}

/// Trials of a greater W.
#[derive(Debug, Default)]
struct Steps {
    /// None before that: one has brought nothing, or there was a loss.
    patience: Patience,
    /// Since when less arrives than there could.
    short_us: Option<u64>,
    /// That have brought more, one after another.
    gained: u32,
    /// Until then a loss may be of one that was taken back.
    blamed_until_us: u64,
}

impl Steps {
    /// Bytes, twice as much after each that has gained.
    fn doubled(&self, bytes: u64) -> u64 {
        bytes << self.gained.min(3)
    }
}

/// By more than a measurement's error.
fn slower(rate: u64, capacity: u64) -> bool {
    rate < capacity / 64 * 63
}

/// By more than requests that bunch explain.
fn much_slower(rate: u64, capacity: u64) -> bool {
    rate < capacity / 8 * 7
}

/// The strategy's whole state.
#[derive(Debug)]
pub struct Notify {
    limits: Limits,
    phase: Phase,
    meter: Meter,
    ages: Ages,
    path: PathState,
    readers: Readers,
    /// Commands that the disks take that share the window.
    disk_commands: u32,
    /// W, and what of it is let through so far.
    window_bytes: u64,
    filled_bytes: u64,
    /// When something last arrived, or the pipe was not full.
    moving_us: u64,
    /// A bucket filled by C and the clock, emptied by what arrives; what is above a lump may be let through.
    bucket_bytes: u64,
    /// The same at [`Self::pace`], while the start asks in bunches; between two of them nothing is let through.
    credit_bytes: u64,
    paused: bool,
    /// When C last grew so that bunches may show more.
    grown_us: Option<u64>,
    /// When F was last less than W by a request or more.
    unfilled_us: u64,
    /// When readers last left some of W unused.
    left_us: Option<u64>,
    /// The request size in force, and the one asked for.
    request_bytes: u32,
    wanted_request_bytes: u32,
    /// The path's rate C in bytes/s, 0 until known; kept across rests.
    capacity: u64,
    /// What the latest start's trains have shown of it.
    proven: u64,
    /// The most of it that has arrived since this read began.
    reached: u64,
    /// (time in us, C) of the start's latest one and a half round trips.
    found: VecDeque<(u64, u64)>,
    /// Of all disks that read: what the readers ask for ahead.
    read_ahead_bytes: u64,
    /// Successive pages with too long a queue.
    queued_trips: u32,
    last_queue_us: u64,
    /// The latest change of W, to be undone if it does not bring what it should.
    trial: Option<(Aim, Before)>,
    /// Others fill the queue: W is TCP's cwnd, or for half of the path, if they have taken what had arrived before.
    rivals: Patience,
    gives: bool,
    /// Of cuts for a queue.
    cuts: Patience,
    steps: Steps,
    /// What a request takes beyond the round trip and the queue: at the target's disk, and until busy hosts look.
    late_us: u64,
    /// Whether pages have told of that since this read began.
    late_known: bool,
    /// The fastest train of the latest start.
    train: u64,
    /// The least round-trip time since a queue was found not to be this session's; 0 before that.
    floor_us: u64,
    /// A loss was told of, and not yet answered.
    congested: bool,
    /// When a loss was told of last, once the start was over.
    lost_us: Option<u64>,
    /// W does not grow: after a loss, and after one that showed the threshold.
    quiet: Patience,
    /// Since this read began a loss has shown that the queue holds no more than the slack.
    shallow: bool,
    /// Since when W has been what the trains ask for.
    full_us: Option<u64>,
    /// Something came while something before it was missing, which has not come yet; and when that was last so.
    hole: bool,
    hole_us: Option<u64>,
    /// When a full pipe, for a hole, last let nothing through.
    blocked_us: Option<u64>,
    out_of_order_pkts: u32,
    /// What the connection has received since it was made, where that is known.
    received_bytes: Option<u64>,
    request_changed_us: u64,
    window_changed_us: u64,
    last_tick_us: u64,
    reason: String,
}

impl Notify {
    pub fn new(limits: Limits) -> Self {
        let mut law = Self {
            limits,
            phase: Phase::Rest,
            meter: Meter::default(),
            ages: Ages::default(),
            path: PathState::default(),
            readers: Readers::default(),
            disk_commands: u32::MAX,
            window_bytes: 0,
            filled_bytes: 0,
            moving_us: 0,
            bucket_bytes: 0,
            credit_bytes: 0,
            paused: false,
            grown_us: None,
            unfilled_us: 0,
            left_us: None,
            last_tick_us: 0,
            found: VecDeque::new(),
            request_bytes: 0,
            wanted_request_bytes: 0,
            capacity: 0,
            proven: 0,
            reached: 0,
            read_ahead_bytes: 0,
            queued_trips: 0,
            last_queue_us: 0,
            trial: None,
            rivals: Patience::default(),
            gives: false,
            cuts: Patience::default(),
            steps: Steps::default(),
            late_us: 0,
            late_known: false,
            train: 0,
            floor_us: 0,
            congested: false,
            lost_us: None,
            quiet: Patience::default(),
            shallow: false,
            full_us: None,
            hole: false,
            hole_us: None,
            blocked_us: None,
            out_of_order_pkts: 0,
            received_bytes: None,
            request_changed_us: 0,
            window_changed_us: 0,
            reason: String::new(),
        };
        law.rest_settings();
        law
    }

    fn rest_settings(&mut self) {
        self.request_bytes = self.request_for(if self.capacity > 0 { self.capacity } else { ASSUMED_REQUEST_RATE });
        self.wanted_request_bytes = self.request_bytes;
        self.window_bytes = self.model_bytes(self.capacity);
        self.filled_bytes = self.window_bytes;
        self.read_ahead_bytes = self.window_for(if self.capacity > 0 { self.capacity } else { ASSUMED_RATE });
        self.meter.clear();
        self.ages.clear();
        (self.late_us, self.reached, self.rivals.until_us, self.steps.gained) = (0, 0, 0, 0);
        (self.late_known, self.congested, self.shallow) = (false, false, false);
        (self.hole, self.hole_us, self.blocked_us) = (false, None, None);
        (self.paused, self.credit_bytes) = (false, 0);
        (self.grown_us, self.left_us) = (None, None);
        self.enter(Phase::Rest, "nothing reads".into());
    }

    /// The round-trip time of the path without a queue that this session could empty.
    fn rtt_us(&self) -> u64 {
        match self.path.min_rtt_us {
            0 | u32::MAX => ASSUMED_RTT_US,
            us => u64::from(us).max(self.floor_us).min(MAX_RTT_US),
        }
    }

    /// With the queue that there is.
    fn trip_us(&self) -> u64 {
        self.rtt_us().max(self.path.srtt_us.into()).min(MAX_RTT_US)
    }

    fn request(&self) -> u64 {
        u64::from(self.request_bytes)
    }

    fn slack_bytes(&self) -> u64 {
        SLACK_REQUESTS * self.request()
    }

    /// The request size for a rate: a power of two, [`REQUESTS_PER_BDP`] to the bandwidth-delay product.
    fn request_for(&self, rate: u64) -> u32 {
        let path_bytes = carried(rate, self.rtt_us());
        let least = (path_bytes / LEAST_REQUESTS).max(rate / SMALL_PER_S).min(SMALL_REQUEST_BYTES);
        let ideal = least.max(path_bytes / REQUESTS_PER_BDP);
        // The nearest power of two: the one above from 3/4 of it on.
        let nearest = 1u64 << (ideal * 4 / 3).max(1).ilog2();
        nearest.clamp(self.limits.min_request_bytes.into(), self.limits.max_request_bytes.into()) as u32
    }

    /// What the window should be if the path carries `rate`.
    fn window_for(&self, rate: u64) -> u64 {
        carried(rate, self.rtt_us() + self.late_us).saturating_add(self.slack_bytes()).min(self.bound())
    }

    /// The same for a rate that may not be known yet.
    fn model_bytes(&self, rate: u64) -> u64 {
        self.window_for(rate).max(FIRST_BYTES).min(self.bound())
    }

    /// What arrives, in bytes/s, once enough has to tell.
    fn rate(&self) -> Option<u64> {
        self.meter.average(self.rate_span_us())
    }

    fn rate_span_us(&self) -> u64 {
        (RATE_TRIPS * (self.rtt_us() + self.late_us)).max(RATE_US)
    }

    /// Commands that may be outstanding: what the target's command window and the disks take, less what the page needs.
    fn max_commands(&self) -> u64 {
        let window = if self.path.command_window == 0 { ASSUMED_COMMANDS } else { self.path.command_window };
        window.min(self.disk_commands).saturating_sub(SPARE_COMMANDS).clamp(1, self.limits.max_commands).into()
    }

    fn bound(&self) -> u64 {
        self.limits.max_window_bytes.min(self.max_commands() * self.request())
    }

    /// Finest look at the counters that is worth while: a hundredth of a round trip, a tenth of a bunch of requests, and no
    /// load on the machine.
    fn fine_us(&self) -> u64 {
        (self.rtt_us() / if self.fine() { 200 } else { 100 }).clamp(LOOK_US, 5_000)
    }

    /// Bunches have shown a faster path lately.
    fn fine(&self) -> bool {
        let lately_us = FINE_TRIPS * self.rtt_us();
        self.phase == Phase::Start && self.grown_us.is_some_and(|us| self.last_tick_us.saturating_sub(us) <= lately_us)
    }

    /// C has grown by an eighth in one and a half round trips, and bunches of requests can show more: there are enough
    /// requests, each packet counts, and looks are fine enough.
    fn grows(&self) -> bool {
        self.capacity / 9 > self.capacity_before() / 8
            && carried(self.capacity, self.rtt_us()) >= self.bunches_from()
            && self.rtt_us() / BUNCHES >= 6 * LOOK_US
            && self.received_bytes.is_some()
    }

    /// The same while F follows readers that come and go: as often as a request may be let through.
    fn refill_us(&self) -> u64 {
        self.request_us().clamp(self.fine_us(), (self.rtt_us() / 32).max(self.fine_us()))
    }

    /// The same while they use all of W. Those that leave and come back are to be seen before W has left the path, or all of
    /// it would be asked for at once.
    fn return_us(&self, now_us: u64) -> u64 {
        let returns = self.left_us.is_some_and(|left_us| now_us - left_us <= RETURN_US);
        let least_us = if returns { (self.rtt_us() / 2).clamp(RETURN_LOOK_US, FULL_LOOK_US) } else { FULL_LOOK_US };
        least_us.max(self.rtt_us() / 4)
    }

    fn note(&mut self, path: PathState) {
        let entries = |path: &PathState| [path.recovery, path.loss, path.cwr_ecn, path.cwr_tlp];
        self.congested |= entries(&path) != entries(&self.path);
        self.floor_us = self.floor_us.min(path.srtt_us.into());
        self.path = path;
    }

    fn queue_us(&self) -> u64 {
        u64::from(self.path.srtt_us).saturating_sub(self.rtt_us())
    }

    /// The time the bottleneck takes for one request.
    fn request_us(&self) -> u64 {
        self.request() * 1_000_000 / self.capacity.max(1)
    }

    /// A queue this long is more than the slack explains.
    fn queue_high_us(&self) -> u64 {
        SLACK_REQUESTS * self.request_us() + self.rtt_us() / 16
    }

    /// A queue this short may run empty.
    fn queue_low_us(&self) -> u64 {
        self.request_us() / 4 + self.rtt_us() / 256
    }

    fn enter(&mut self, phase: Phase, reason: String) {
        self.phase = phase;
        if phase == Phase::Start {
            self.proven = self.capacity;
            self.train = 0;
        }
        self.full_us = None;
        self.found.clear();
        (self.queued_trips, self.trial) = (0, None);
        self.reason = reason;
    }

    /// Where nothing waits for TCP, what completes is older than the page by what it has waited elsewhere. The least counts:
    /// a disk that is slow, not late, takes the longer the more it is asked.
    fn fit_late(&mut self, now_us: u64) {
        let page_us = now_us.saturating_sub(self.path.asked_us);
        let waits = u64::from(self.path.notsent_bytes) >= self.request()
            || self.queue_us() >= self.queue_low_us()
            || page_us > self.trip_us() / 8 * 9 + self.request_us();
        if let Some(age_us) = self.ages.latest_us().filter(|_| !waits) {
            let late_us = age_us.min(MAX_RTT_US).saturating_sub(page_us.saturating_add(self.request_us()));
            self.late_us = if self.late_known { self.late_us.min(late_us) } else { late_us };
            self.late_known = true;
        }
    }

    fn start(&mut self, input: &Input<'_>) {
        if input.path.is_some() && self.capacity > 0 {
            self.fit_late(input.now_us);
        }
        // What a hole in TCP's sequence held back comes all at once, and shows no rate.
        if self.hole_us.is_none_or(|hole_us| input.now_us - hole_us > REPAIR_TRIPS * self.trip_us()) {
            let rtt_us = self.rtt_us();
            let part_us = self.bunch_us() / 4;
            let (pause_us, least_us) = if self.fine() { (part_us, part_us) } else { (rtt_us / 8, rtt_us / 16) };
            let train = self.meter.train(pause_us, least_us, rtt_us / 4, self.path.mss_bytes.into());
            self.train = self.train.max(train.unwrap_or(0));
            let seen = train.max(self.meter.average(rtt_us)).unwrap_or(0);
            if seen > self.capacity {
                (self.capacity, self.proven, self.full_us) = (seen, seen, None);
            }
        }
        let span_us = self.rtt_us() * 3 / 2;
        self.found.push_back((input.now_us, self.capacity));
        while self.found.front().is_some_and(|&(t, _)| input.now_us - t > span_us) {
            self.found.pop_front();
        }
        if self.grows() {
            self.grown_us = Some(input.now_us);
        }
        let goal = self.window_for(self.capacity);
        // While C doubles, what trains have shown of it is a part of a round trip old.
        let ahead = if self.doubles() && !self.fine() { self.capacity / 8 } else { 0 };
        self.window_bytes = self.model_bytes(self.capacity + ahead);
        self.fill(input);
        self.reason = format!("filling {} kB at {} kB/s", goal / 1000, self.capacity / 1000);

        if input.path.is_some() {
            self.queued_trips = if self.queue_us() > self.queue_high_us() { self.queued_trips + 1 } else { 0 };
        }
        let congested = std::mem::take(&mut self.congested);
        if congested {
            self.quiet.at_least(input.now_us + RECOVERY_TRIPS * self.rtt_us());
            if 2 * self.filled_bytes > goal {
                self.shallow = true;
                self.quiet.lose(input.now_us, self.rtt_us());
            }
        }
        let filled =
            self.filled_bytes + self.request() > goal || congested && self.blocked(input.now_us, RECOVERY_TRIPS);
        if self.capacity == 0 || !filled || input.changing() {
            return; // A loss from less is the path's own.
        }
        let trip_us = self.rtt_us().max(self.ages.latest_us().unwrap_or(0).min(MOST_AGE_US));
        let rate = self.meter.average(trip_us);
        let full_trips = (input.now_us - *self.full_us.get_or_insert(input.now_us)) / trip_us.max(1);
        if congested {
            // A step too far is taken back.
            self.capacity = self.capacity.min(self.proven.max(rate.unwrap_or(0)));
            self.window_bytes = self.window_for(self.capacity);
            self.enter(Phase::Cruise, format!("loss at {} kB while starting", goal / 1000));
        } else if self.queued_trips >= 2 {
            self.enter(Phase::Cruise, format!("a queue of {} us while starting", self.queue_us()));
        } else if full_trips >= SETTLE_TRIPS && self.idle(input, self.queue_us(), rate) {
            // The trains were no faster than they were asked for.
            let step = self.capacity / 8;
            self.capacity += if self.shallow { step.min(per_second(self.request(), self.rtt_us())) } else { step };
            self.full_us = None;
        } else if full_trips >= SETTLE_TRIPS && rate.is_some_and(|rate| !much_slower(rate, self.capacity))
            || full_trips >= PATIENCE_TRIPS
        {
            self.enter(Phase::Cruise, format!("full at {} kB/s", self.capacity / 1000));
        }
    }

    /// W is on the path, all of it, and makes no queue: the path carries more, and W may be more.
    fn idle(&self, input: &Input<'_>, queue_us: u64, rate: Option<u64>) -> bool {
        if self.window_bytes >= self.bound() {
            return false;
        }
        // Bytes asked for that are not on the path. Whole requests account for about one.
        let waiting = rate.map_or(0, |rate| self.window_bytes.saturating_sub(carried(rate, self.rtt_us())));
        // A path that is full at C brings no more than C, W or no W.
        let more = self.window_bytes < self.window_for(self.capacity)
            || rate.is_some_and(|rate| rate > self.capacity.saturating_add(self.capacity / 128));
        queue_us < self.queue_low_us() && 2 * waiting < 5 * self.request() && more && self.asked_in_full(input)
    }

    /// Lets W through at the rate C: at once, it would leave the target in one burst. What the readers left unused is
    /// let through anew when they come back. Before C is known each byte that arrives lets two through.
    fn fill(&mut self, input: &Input<'_>) {
        self.paused = false;
        let done = self.meter.latest_bytes();
        let lump = self.request();
        // Where the kernel is late to use a greater depth, an unused one says nothing about the readers.
        let prompt = input.disks.iter().all(|d| d.prompt || !d.reading);
        let asked = self.readers.asked_bytes(input.disks);
        let overflowed = self.blocked(input.now_us, THRESHOLD_TRIPS);
        let bunches = self.phase == Phase::Start
            && self.grown_us == Some(input.now_us)
            && prompt
            && asked <= self.window_bytes / 8 * 7
            && !overflowed
            && !input.changing();
        let used = if prompt { asked.saturating_add(lump) } else { u64::MAX };
        let left = self.filled_bytes > used;
        if left {
            self.left_us = Some(input.now_us);
        }
        if !bunches && (left || std::mem::take(&mut self.credit_bytes) > 0) {
            self.bucket_bytes = lump;
        }
        // TCP's cwnd is less by then, too; sessions that share a path give way by their shares.
        let careful = self.blocked(input.now_us, RECOVERY_TRIPS) && input.share.is_none();
        let window_bytes = if careful { self.window_bytes / 8 * 7 } else { self.window_bytes };
        // What waits for cwnd leaves at twice the rate of the acknowledgements.
        let ahead = if self.fine() { 0 } else { AHEAD_REQUESTS * lump };
        let slow_start_bytes = self.slow_start_bytes();
        let most = slow_start_bytes.map_or(u64::MAX, |b| b.saturating_add(self.late_bytes() + ahead).max(FIRST_BYTES));
        let window_bytes = window_bytes.min(most);
        self.filled_bytes = self.filled_bytes.min(used).min(window_bytes);
        // What a hole in TCP's sequence holds back completes all at once, and must not be asked for again in one burst.
        // Where nobody tells of holes, each pause of a full pipe may be one; disks and slots make pauses as well.
        let full = self.capacity > 0 && asked / 3 >= carried(self.capacity, self.rtt_us()) / 4;
        if done > 0 || !full {
            self.moving_us = input.now_us;
        }
        let hole = input.received.is_none() || self.hole;
        if hole && input.now_us - self.moving_us > self.rtt_us() / 2 {
            self.filled_bytes = self.filled_bytes.min(lump);
            self.bucket_bytes = lump;
            self.blocked_us = self.hole.then_some(input.now_us);
            return;
        }
        if self.capacity == 0 {
            self.filled_bytes = (self.filled_bytes + done).min(window_bytes);
            return;
        }
        if bunches {
            self.bunch(input.now_us, asked, window_bytes);
            return;
        }
        // A little more than C and than what arrives: where C errs low, F must still reach W to show that. While C still
        // doubles with a paced sender's cwnd, requests must be ahead of it.
        let rate = self.capacity.max(self.rate().unwrap_or(0));
        // What is sent again needs room as well, and what has overflowed once, care.
        let fill = if self.blocked(input.now_us, REPAIR_TRIPS) {
            rate / 4 * 3
        } else if self.fine() && !overflowed {
            if self.far() { rate + rate / 64 } else { self.pace() }
        } else if let Some(bytes) = slow_start_bytes.filter(|_| self.doubles()) {
            // What arrives, or arrived before readers paused: in slow start half of cwnd.
            let arriving = self.meter.average(self.rtt_us()).unwrap_or(0).max(per_second(bytes / 2, self.rtt_us()));
            (rate / 2 * 3).min(arriving / 4 * 7)
        } else if self.doubles() {
            rate / 2 * 3
        } else {
            rate + rate / if overflowed { 64 } else { 16 }
        };
        let allowed = carried(fill, input.now_us - self.last_tick_us);
        self.bucket_bytes = self.bucket_bytes.saturating_add(allowed).saturating_sub(done);
        if self.doubles() && !self.fine() && !overflowed && slow_start_bytes.is_some_and(|b| b < self.bunches_from()) {
            // Slow start is not to wait for requests while they are few, nor for the question's place.
            self.filled_bytes = used.min(window_bytes);
        }
        let pending = self.bucket_bytes.saturating_sub(lump);
        if pending >= lump || self.filled_bytes + lump > window_bytes {
            self.filled_bytes = (self.filled_bytes + pending).min(window_bytes);
            self.bucket_bytes = self.bucket_bytes.min(lump);
        }
    }

    /// Lets requests through faster than C, and then for as long none: asked for evenly at C they come evenly at C, whatever
    /// the path carries. On average it is less, so that what that makes of a queue empties.
    fn bunch(&mut self, now_us: u64, asked: u64, window_bytes: u64) {
        let every_us = self.bunch_us();
        let (rate, average) = if self.far() {
            (2 * self.capacity, self.capacity / 16 * 15)
        } else {
            (self.capacity / 2 * 3, self.pace())
        };
        let elapsed_us = now_us - self.last_tick_us;
        let most = carried(self.capacity, every_us) / 3 * 5;
        let left =
            |bytes: u64, rate| (bytes + carried(rate, elapsed_us)).saturating_sub(self.ages.new_bytes()).min(most);
        self.credit_bytes = left(self.credit_bytes, average);
        self.paused = now_us % every_us >= every_us / 2;
        let more = if self.paused {
            self.bucket_bytes = self.request();
            0
        } else {
            self.bucket_bytes = left(self.bucket_bytes, rate);
            self.bucket_bytes.min(self.credit_bytes)
        };
        self.filled_bytes = (asked + more).min(window_bytes);
    }

    /// A path that carries so many bytes in a round trip is asked in bunches.
    fn bunches_from(&self) -> u64 {
        self.request() * if self.far() { FAR_BUNCHES_FROM } else { BUNCHES_FROM }
    }

    /// From one bunch of requests to the next.
    fn bunch_us(&self) -> u64 {
        let requests = carried(self.capacity, self.rtt_us()) / self.request().max(1);
        self.rtt_us() / (requests / BUNCH_REQUESTS).clamp(1, BUNCHES)
    }

    /// The start keeps up with slow start: each round trip counts, and so does each packet.
    fn far(&self) -> bool {
        self.rtt_us() >= FAR_US && self.received_bytes.is_some()
    }

    /// What the start asks for on average: C, but no more than twice what arrives, as TCP's slow start, and half as much
    /// again in the end. Then cwnd is ahead of F; what waits for cwnd leaves at twice the rate of the acknowledgements.
    fn pace(&self) -> u64 {
        let arriving = self.meter.average(self.rtt_us()).unwrap_or(0);
        let most = if arriving > self.capacity / 2 { arriving / 2 * 3 } else { 2 * arriving };
        (self.capacity + self.capacity / 64).min(most.max(self.capacity / 8))
    }

    /// Within so many round trips a hole has let nothing through.
    fn blocked(&self, now_us: u64, trips: u64) -> bool {
        self.blocked_us.is_some_and(|blocked_us| now_us - blocked_us <= trips * self.trip_us())
    }

    /// C has grown by half in one and a half round trips.
    fn doubles(&self) -> bool {
        self.phase == Phase::Start && self.capacity / 3 >= self.capacity_before() / 2
    }

    /// C one and a half round trips ago, or when the start began.
    fn capacity_before(&self) -> u64 {
        self.found.front().map_or(self.capacity, |&(_, capacity)| capacity)
    }

    /// Read-ahead follows W, ahead of it while that doubles; not its every breath, since all files that are open have to
    /// be told.
    fn fit_read_ahead(&mut self) {
        let doubles = self.doubles();
        let window_bytes =
            self.window_bytes.max(self.window_for(if doubles { 2 * self.capacity } else { self.capacity }));
        // The reader comes for the next one a little late.
        let fit = window_bytes + window_bytes / 8;
        if fit > self.read_ahead_bytes / 8 * 9 || fit < self.read_ahead_bytes / 8 * 7 && (!doubles || self.far()) {
            self.read_ahead_bytes = fit;
        }
    }

    fn cruise(&mut self, input: &Input<'_>) {
        let before = self.window_bytes;
        // The target has seen what came of a change of W when it is asked a round trip later, with the queue that there
        // is; of a cut once what it took away has left the queue.
        let answer_us = self.trip_us() + self.trial.map_or(0, |(aim, _)| aim.emptied_us());
        if input.path.is_some() && self.path.asked_us.saturating_sub(self.window_changed_us) > answer_us {
            self.adjust(input);
        }
        if self.window_bytes != before {
            self.window_changed_us = input.now_us;
        }
    }

    fn adjust(&mut self, input: &Input<'_>) {
        let rtt_us = self.rtt_us();
        // A burst of requests makes a queue for a moment, or hides one; only what two pages show is standing.
        let queue_us = self.queue_us();
        let before_us = std::mem::replace(&mut self.last_queue_us, queue_us);
        let (standing_us, longest_us) = (queue_us.min(before_us), queue_us.max(before_us));
        let rate = self.rate();
        self.reached = self.reached.max(rate.unwrap_or(0).min(self.capacity));

        if let Some((aim, before)) = self.trial.take() {
            if self.undone(aim, before, input.now_us, rate, input.share.is_some()) {
                return;
            }
        }
        let goal = self.window_for(self.capacity);
        let mut congested = std::mem::take(&mut self.congested);
        if congested {
            self.lost_us = Some(input.now_us);
        }
        if congested && input.now_us < self.steps.blamed_until_us {
            self.quiet.at_least(input.now_us + RECOVERY_TRIPS * rtt_us);
            congested = false;
        }
        if input.now_us < self.rivals.until_us && input.share.is_none() {
            let most = self.path_cwnd_bytes().saturating_add(self.late_bytes() + self.slack_bytes());
            let alone =
                self.path.srtt_us.saturating_sub(self.path.min_rtt_us) < self.queue_low_us().min(MAX_RTT_US) as u32;
            // Who was there first keeps more for long: half of the path it is, however long the others make the queue.
            let half = self.capacity.max(self.reached) / 2;
            let half_bytes = carried(half, self.trip_us() + self.late_us).saturating_add(self.slack_bytes());
            self.gives = rate.is_some_and(|rate| self.taken(input.now_us, rate));
            let goal = if self.gives { goal.min(half_bytes) } else { goal };
            // A queue that stays as it is, whatever W, is the path's length.
            let longer = self.window_bytes <= goal && goal < most && longest_us < self.queue_low_us();
            if alone || longer {
                self.rivals.until_us = input.now_us;
            }
            self.window_bytes = most.min(goal);
            return;
        }
        if std::mem::take(&mut self.gives) {
            self.window_bytes = self.window_bytes.max(goal);
        }
        let elsewhere = rate.is_some_and(|rate| self.elsewhere(rate));
        if congested {
            self.quiet.at_least(input.now_us + RECOVERY_TRIPS * rtt_us);
            if !elsewhere {
                self.steps.patience.lose(input.now_us, rtt_us);
            }
        }
        // A long queue that lost something is no burst.
        let proven_us = if congested { queue_us } else { standing_us };
        if congested && proven_us <= self.queue_high_us() && !elsewhere {
            if self.window_bytes > goal {
                self.shallow = true;
                self.quiet.lose(input.now_us, self.rtt_us());
                self.reason = format!("loss at {} kB", self.window_bytes / 1000);
                self.capacity = self.capacity.max(rate.unwrap_or(0));
                self.window_bytes = self.window_bytes.min(self.window_for(self.capacity));
                return;
            }
            if standing_us > self.queue_low_us() {
                let lost_at = u64::from(self.path.prior_cwnd_pkts) * u64::from(self.path.mss_bytes);
                self.window_bytes = self.window_bytes.min(lost_at.max(self.slack_bytes()));
                self.quiet.at_least(input.now_us + THRESHOLD_TRIPS * rtt_us);
                self.reason = format!("loss at {} kB", lost_at / 1000);
                return;
            }
        }
        let long = proven_us > self.queue_high_us() && (congested || input.now_us >= self.cuts.until_us);
        if let Some(rate) = rate.filter(|_| long) {
            // The link is busy all the time: what arrives is what it carries, but for what a hole held back.
            let held_back = self.hole_us.is_some_and(|hole_us| input.now_us - hole_us <= self.rate_span_us());
            let drained = per_second(self.path_bytes().saturating_sub(self.request()), self.path.srtt_us.into());
            let rate = if held_back { rate.max(drained.min(self.capacity)) } else { rate };
            // Of that sessions on one path take equal shares: each keeps the same 2R in the queue.
            let capacity = input.share.unwrap_or(rate);
            let before = self.before(rate.min(capacity));
            // Late is what W is made for beyond the path and the queue.
            let loop_us = self.window_bytes.saturating_sub(self.request()) * 1_000_000 / rate.max(1);
            self.late_us = loop_us.saturating_sub(self.rtt_us() + proven_us).min(self.late_us);
            self.capacity = capacity;
            self.window_bytes = self.window_for(self.capacity);
            let emptied_us = before.window_bytes.saturating_sub(self.window_bytes) * 1_000_000 / capacity.max(1);
            let aim = Aim::Shorter { queue_us: proven_us, emptied_us };
            self.trial = (emptied_us > 0).then_some((aim, before));
            self.last_queue_us = 0;
            self.reason = format!("a queue of {proven_us} us");
        } else if let Some(share) = input.share.filter(|&share| share > self.capacity / 8 * 9 && self.asked(input)) {
            // The others have more than their part, and give way to the queue that this makes.
            self.capacity = share;
            self.window_bytes = self.window_for(share);
            self.reason = format!("an equal share of the path is {} kB/s", share / 1000);
        } else if input.now_us >= self.quiet.until_us && self.trial.is_none() {
            if self.idle(input, longest_us, rate) {
                if self.window_bytes >= goal {
                    // The path carries more than C: its trains tell how much.
                    self.enter(Phase::Start, format!("no queue at {} kB", self.window_bytes / 1000));
                } else {
                    self.window_bytes += ((goal - self.window_bytes) / 2).max(self.request());
                    self.reason = format!("no queue at {} kB", self.window_bytes / 1000);
                }
            } else if let Some(rate) = rate.filter(|_| self.asked_in_full(input)) {
                self.grow(input.now_us, goal, rate, longest_us);
            }
        }
    }

    /// Less than C arrives: bursts may hide gaps, or requests take longer than the path explains.
    fn grow(&mut self, now_us: u64, goal: u64, rate: u64, queue_us: u64) {
        let slack = self.slack_bytes();
        let most = if self.shallow { goal.saturating_sub(slack) } else { goal.saturating_add(slack).min(self.bound()) };
        let slow = slower(rate, self.capacity);
        if self.window_bytes < most && slow {
            // The rate is that of all of W.
            if now_us - self.unfilled_us > self.rate_span_us() + self.trip_us() {
                self.window_bytes = (self.window_bytes + self.request()).min(most);
                self.reason = format!("less than the {} kB/s of the trains", self.capacity / 1000);
            }
            return;
        }
        let unproven = much_slower(self.train, self.capacity);
        let far = much_slower(rate, self.capacity);
        let empty = queue_us < self.queue_low_us() || self.elsewhere(rate);
        let gaining = self.steps.gained > 0 && queue_us < self.request_us();
        // The slack should always make some.
        let none = queue_us < self.request_us() / 4;
        let long = queue_us > self.queue_high_us();
        let may = far || !long && (gaining || !self.shallow && (slow || unproven || none));
        if !may || self.window_bytes >= self.bound() {
            self.steps.short_us = None;
            return;
        }
        // Another flow's start passes; it makes a queue.
        let short_us = *self.steps.short_us.get_or_insert(now_us);
        let settled = empty || self.steps.gained > 0 || now_us - short_us >= RECOVERY_TRIPS * self.rtt_us();
        if settled && now_us >= self.steps.patience.until_us {
            // Half of what is missing; where there is some queue, as far as steps have gained before.
            let missing = carried(self.window_bytes, self.capacity.saturating_sub(rate) * 1_000_000 / rate.max(1));
            let most = if empty { self.window_bytes } else { self.steps.doubled(self.path_bytes() / 8) };
            let step = (missing / 2).min(most);
            self.trial = Some((Aim::More, self.before(rate)));
            // Where C arrives, or something waits, a short queue may be all there is.
            let eighth = self.path_bytes() / 8;
            let least = if empty && (slow || unproven) { eighth } else { eighth.min(self.steps.doubled(slack)) };
            self.window_bytes += step.max(least).max(self.request());
            self.window_bytes = self.window_bytes.min(self.bound());
            self.reason = format!("{} kB, for more than {} kB/s", self.window_bytes / 1000, rate / 1000);
        }
    }

    /// What there is; `rate` arrives.
    fn before(&self, rate: u64) -> Before {
        let Self { window_bytes, capacity, late_us, .. } = *self;
        Before { rate, window_bytes, capacity, late_us }
    }

    /// Undoes a change of W that has not brought what it should; one that may yet do so goes on.
    fn undone(&mut self, aim: Aim, before: Before, now_us: u64, rate: Option<u64>, shared: bool) -> bool {
        let queue_us = self.queue_us();
        let settled = now_us - self.window_changed_us > self.rate_span_us() + self.rtt_us() + aim.emptied_us();
        let rate = rate.unwrap_or(0);
        let mut capacity = before.capacity;
        // Half of what W changed by, if all were for nothing.
        let changed_by = self.window_bytes.abs_diff(before.window_bytes);
        let half = carried(before.rate, changed_by * 1_000_000 / before.window_bytes.max(1)) / 2;
        match aim {
            Aim::Shorter { queue_us: before_us, emptied_us } => {
                if queue_us + emptied_us.min(before_us) / 2 > before_us {
                    // It stayed: the path has become longer, or others fill the queue.
                    self.floor_us = self.path.srtt_us.into();
                    self.reason = format!("a queue of {queue_us} us that is not ours");
                    if !shared {
                        self.rivals.lose(now_us, self.rtt_us());
                    }
                } else if !settled || queue_us > self.queue_high_us() {
                    self.trial = Some((aim, before));
                    return false;
                } else if rate < before.rate.saturating_sub(half.max(before.rate / 32)) {
                    if !shared && self.taken(now_us, before.rate) {
                        self.rivals.lose(now_us, self.rtt_us());
                        let (ours, all) = (before.rate / 1000, self.reached / 1000);
                        self.reason = format!("{ours} of {all} kB/s: others take the rest");
                    } else {
                        self.cuts.lose(now_us, self.rtt_us());
                        self.reason = format!("a queue of {before_us} us that {} kB/s need", before.rate / 1000);
                    }
                } else {
                    return false;
                }
                self.last_queue_us = 0;
            }
            Aim::More => {
                let lost = self.congested && !self.elsewhere(before.rate);
                if !settled && !lost {
                    self.trial = Some((aim, before));
                    return true;
                }
                // C may leave room for less than that.
                let room = before.capacity.saturating_sub(before.rate) / 2;
                let gain = if slower(before.rate, before.capacity) { half.min(room) } else { half };
                if rate > before.rate.saturating_add(gain) && !lost {
                    self.capacity = self.capacity.max(rate);
                    let loop_us =
                        self.window_bytes.saturating_sub(self.slack_bytes()) * 1_000_000 / self.capacity.max(1);
                    self.late_us = loop_us.saturating_sub(self.rtt_us());
                    self.steps.patience = Patience::default();
                    self.steps.gained += 1;
                    return false;
                }
                // A loss is the step's, also one that is told of a little later; what there was before it the queue held.
                if std::mem::take(&mut self.congested) {
                    self.quiet.at_least(now_us + RECOVERY_TRIPS * self.rtt_us());
                }
                self.steps.blamed_until_us = now_us + BLAME_TRIPS * self.trip_us() + CRUISE_PAGE_US;
                self.steps.patience.lose(now_us, self.rtt_us());
                self.steps.gained = 0;
                // The trains were a little too fast.
                capacity = if much_slower(before.rate, capacity) { capacity } else { capacity.min(before.rate) };
                self.reason = format!("no more than {} kB/s", before.rate / 1000);
            }
        }
        (self.window_bytes, self.capacity, self.late_us) = (before.window_bytes, capacity, before.late_us);
        true
    }

    /// Less arrives, `rate`, than did in this read, and something was lost lately: other flows that fill the queue have it.
    fn taken(&self, now_us: u64, rate: u64) -> bool {
        let lately = self.lost_us.is_some_and(|lost_us| now_us - lost_us < LOST_US);
        lately && much_slower(rate, self.reached) && !self.elsewhere(rate)
    }

    /// Most of W is neither on the path nor waits for it, at that rate: with a late disk, whose answers come in bunches. What
    /// a bunch makes wait, or loses, says little of W.
    fn elsewhere(&self, rate: u64) -> bool {
        let of_path = carried(rate, self.trip_us()).saturating_add(self.path.notsent_bytes.into());
        2 * of_path < self.window_bytes
    }

    /// What of W is with the disk, or waits for a host to look; the rest is TCP's to carry.
    fn late_bytes(&self) -> u64 {
        carried(self.capacity, self.late_us)
    }

    fn path_bytes(&self) -> u64 {
        self.window_bytes.saturating_sub(self.late_bytes())
    }

    fn path_cwnd_bytes(&self) -> u64 {
        u64::from(self.path.snd_cwnd_pkts) * u64::from(self.path.mss_bytes)
    }

    /// S: cwnd when what is asked for now gets to the target, if TCP is in slow start, which a far start keeps up with: each
    /// byte that has arrived since the page was made lets one more through.
    fn slow_start_bytes(&self) -> Option<u64> {
        if self.phase != Phase::Start || !self.far() {
            return None;
        }
        let ssthresh_bytes = u64::from(self.path.ssthresh_pkts) * u64::from(self.path.mss_bytes);
        let acked = self.received_bytes?.saturating_sub(self.path.bytes_acked);
        let bytes = self.path_cwnd_bytes().saturating_add(acked);
        (bytes < ssthresh_bytes).then_some(bytes)
    }

    /// The readers want more than the window lets through, and TCP lets the window through.
    fn asked_in_full(&self, input: &Input<'_>) -> bool {
        // A cwnd a little below W may never be filled, and then never grows: there W has to go first.
        let cwnd_bytes = self.path_cwnd_bytes().saturating_add(self.slack_bytes());
        self.asked(input) && (cwnd_bytes >= self.path_bytes() || u64::from(self.path.notsent_bytes) < self.request())
    }

    fn asked(&self, input: &Input<'_>) -> bool {
        let request = self.request().max(1);
        (self.readers.asked_bytes(input.disks) / request).saturating_add(1) >= self.window_bytes / request
    }

    /// Changes the request size when W has no room for more commands, or when requests turn out to be much too coarse
    /// for the path; rarely, since each change drains the queue.
    fn fit_request(&mut self, input: &Input<'_>) {
        let now_us = input.now_us;
        let best = self.request_for(self.capacity);
        let crowded = self.window_for(self.capacity) + self.request() > self.max_commands() * self.request();
        // Few of them fill the path, or two are more than a short queue holds.
        let coarse = u64::from(best) < SMALL_REQUEST_BYTES
            || self.shallow && carried(self.capacity, self.rtt_us()) < 4 * self.request();
        let request = if crowded {
            let twice = 1 << (self.request_bytes.max(1).ilog2() + 1).min(31);
            best.max(twice).clamp(self.limits.min_request_bytes, self.limits.max_request_bytes)
        } else if self.phase == Phase::Cruise
            && self.trial.is_none()
            && (best < self.request_bytes / 4 || best < self.request_bytes && coarse)
        {
            best
        } else {
            self.request_bytes
        };
        let settled_us = if self.phase == Phase::Start { 2 * self.rtt_us() } else { CHANGE_US.max(10 * self.rtt_us()) };
        if !input.changing() && request != self.request_bytes && now_us - self.request_changed_us > settled_us {
            self.wanted_request_bytes = request;
            self.request_changed_us = now_us;
            self.reason = format!("requests of {} KiB fit {} kB/s", request >> 10, self.capacity / 1000);
        }
    }

    /// In words. What is asked for, does not arrive and does not wait for TCP either is with the target's disk.
    fn limit(&self, input: &Input<'_>, rate: Option<u64>) -> &'static str {
        let wanted = carried(self.capacity, self.rtt_us()).saturating_add(self.slack_bytes());
        let arriving = carried(rate.unwrap_or(u64::MAX), self.path.srtt_us.into());
        match self.phase {
            Phase::Rest => "application",
            _ if u64::from(self.path.snd_wnd_bytes) < self.window_bytes => "advertised window",
            _ if u64::from(self.path.sndbuf_bytes) < self.window_bytes => "send buffer",
            _ if self.asked(input)
                && u64::from(self.path.notsent_bytes) < self.request()
                && arriving < self.window_bytes / 2 =>
            {
                "disk"
            }
            _ if self.path_cwnd_bytes() < self.path_bytes() => "cwnd",
            _ if wanted > self.limits.max_window_bytes => "depth",
            _ if wanted > self.bound() => "request size",
            _ if self.capacity > 0 && self.window_bytes >= wanted => "link",
            _ if self.asked_in_full(input) => "depth",
            _ => "application",
        }
    }

    /// From one question for the page to the next; `spare`: there is a command for it beyond those of the reads.
    fn page_us(&self, now_us: u64, spare: bool) -> u64 {
        if self.phase != Phase::Cruise {
            return self.rtt_us().max(START_PAGE_US);
        }
        let least_us = self.rtt_us().max(CRUISE_PAGE_US);
        // Others are to be answered, whatever that costs.
        if spare || now_us < self.rivals.until_us {
            return least_us;
        }
        let request = self.request().max(1);
        least_us.max(QUESTION_SHARE * self.trip_us() * request / self.window_bytes.max(request))
    }

    fn output(&self, input: &Input<'_>, next_us: u64) -> Output {
        let (reading, rate) = (sharing(input.disks), self.rate());
        let in_use = self.readers.asked_bytes(input.disks) >= self.window_bytes / 2;
        // Where a question is always on its way, it does not take the place of a read; but where a loss has shown a
        // short queue, that one more read would lose. Of several disks the shares are rounded up.
        let always = self.phase == Phase::Cruise && self.rtt_us() >= CRUISE_PAGE_US;
        let spare = always && !self.shallow && reading == 1;
        Output {
            phase: self.phase.name(),
            limit: self.limit(input, rate),
            window_bytes: self.filled_bytes,
            request_bytes: self.wanted_request_bytes,
            depths: self.readers.depths(
                |bytes| if self.paused { 1 } else { self.filled_bytes / bytes + u64::from(spare) },
                self.request(),
                self.max_commands(),
                input.disks,
            ),
            read_ahead_bytes: (self.read_ahead_bytes.max(MIN_READ_AHEAD_BYTES) / reading)
                .clamp(KERNEL_READ_AHEAD_BYTES, self.limits.max_read_ahead_bytes),
            rate: rate.filter(|_| in_use),
            next_us,
            page_us: self.page_us(input.now_us, spare),
            reason: self.reason.clone(),
        }
    }
}

impl Strategy for Notify {
    fn rest(&mut self, input: &Input<'_>) -> Output {
        if let Some(path) = input.path {
            self.note(path);
        }
        self.disk_commands = commands(input.disks);
        self.out_of_order_pkts = input.out_of_order_pkts();
        self.rest_settings();
        self.output(input, u64::MAX)
    }

    fn tick(&mut self, input: &Input<'_>) -> Output {
        if let Some(path) = input.path {
            self.note(path);
        }
        self.disk_commands = commands(input.disks);
        if self.phase == Phase::Rest {
            self.enter(Phase::Start, "a read began".into());
            self.request_changed_us = input.now_us;
            (self.last_tick_us, self.moving_us) = (input.now_us, input.now_us);
        }
        if let Some(request_bytes) = input.request_bytes() {
            if self.request_bytes != request_bytes {
                // The means were of requests of the other size.
                self.request_bytes = request_bytes;
                self.readers.clear();
            }
            self.window_bytes = self.window_bytes.min(self.bound());
        }
        self.readers.look(input.disks);
        let read_bytes = input.read_bytes();
        self.meter.push(input.now_us, input.received.map_or(read_bytes, |received| received.bytes));
        self.ages.push(input.now_us, self.readers.asked_bytes(input.disks), read_bytes);
        self.received_bytes = input.received.map(|received| received.bytes);
        let out_of_order_pkts = input.out_of_order_pkts();
        if std::mem::replace(&mut self.out_of_order_pkts, out_of_order_pkts) != out_of_order_pkts {
            (self.hole, self.hole_us) = (true, Some(input.now_us));
        } else if self.hole && self.meter.latest_bytes() > 0 {
            (self.hole, self.hole_us) = (false, Some(input.now_us));
        }
        let wait_us = match self.phase {
            Phase::Rest | Phase::Start => {
                self.start(input);
                self.fine_us()
            }
            Phase::Cruise => {
                self.cruise(input);
                self.fill(input);
                if self.filled_bytes < self.window_bytes { self.refill_us() } else { self.return_us(input.now_us) }
            }
        };
        if self.filled_bytes + self.request() <= self.window_bytes {
            self.unfilled_us = input.now_us;
        }
        self.fit_request(input);
        self.fit_read_ahead();
        self.last_tick_us = input.now_us;
        self.output(input, input.now_us + wait_us)
    }
}
