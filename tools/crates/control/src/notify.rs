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
//! **Start.** Requests are answered in trains, and a train leaves the bottleneck at the bottleneck's rate C even while
//! the window W is far too small ([`Meter::train`]). So C is known after a few round trips, and W is filled up to
//! C·RTTmin + slack by asking at rate C altogether: what completes is asked for again at once, and the gaps between
//! trains are filled at rate C. At no time is more asked for than the path carries, so no queue builds; and W never
//! outruns what TCP's slow start can send (twice what the last round trip delivered).
//!
//! **Cruise.** W stays at the bandwidth-delay product and the slack that whole requests need. Too little is
//! noticed as an empty queue (srtt = RTTmin): W grows, the faster the longer this lasts. Too much is noticed as a
//! standing queue: W returns to the model. A loss that comes with a queue marks the threshold: W stays below it for a
//! while. A loss without a queue is the path's own and moves nothing.
//!
//! Without pages (an answer that is late or refused) W keeps its value: silence is no evidence.

use crate::rate::{carried, Meter};
use crate::{Input, Limits, Output, PathState, Strategy};

/// The path that settings at rest are made for, until one was measured: 1 Gbit/s in bytes/s.
const ASSUMED_RATE: u64 = 125_000_000;
/// Requests that make up a bandwidth-delay product: enough to meter W finely, few enough for the command window.
const REQUESTS_PER_BDP: u64 = 48;
/// Requests asked for at rest and beyond the bandwidth-delay product in motion: one is on its way to the target while
/// the last is still being received.
const REST_REQUESTS: u64 = 4;
const SLACK_REQUESTS: u64 = 2;
/// Requests that must arrive in one stretch to be believed as a train.
const TRAIN_REQUESTS: u64 = 8;
/// Round-trip time before any is known.
const ASSUMED_RTT_US: u32 = 20_000;

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

/// The strategy's whole state.
#[derive(Debug)]
pub struct Notify {
    limits: Limits,
    phase: Phase,
    meter: Meter,
    path: PathState,
    window_bytes: u64,
    request_bytes: u32,
    /// The path's rate C in bytes/s, 0 until known; kept across rests.
    capacity: u64,
    /// W that lost last, and when: the threshold of the papers.
    threshold_bytes: u64,
    /// Successive round trips with an empty queue.
    idle_queue_trips: u32,
    request_changed_us: u64,
    last_tick_us: u64,
    reason: String,
}

impl Notify {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Rest,
            meter: Meter::default(),
            path: PathState::default(),
            window_bytes: 0,
            request_bytes: 0,
            capacity: 0,
            threshold_bytes: u64::MAX,
            idle_queue_trips: 0,
            request_changed_us: 0,
            last_tick_us: 0,
            reason: String::new(),
        }
    }

    fn rtt_us(&self) -> u64 {
        match self.path.min_rtt_us {
            0 | u32::MAX => u64::from(ASSUMED_RTT_US),
            us => u64::from(us),
        }
    }

    fn request(&self) -> u64 {
        u64::from(self.request_bytes)
    }

    /// The request size for a rate: a power of two, [`REQUESTS_PER_BDP`] to the bandwidth-delay product.
    fn request_for(&self, rate: u64) -> u32 {
        let ideal = carried(rate, self.rtt_us()) / REQUESTS_PER_BDP;
        let floor = if ideal == 0 { 1 } else { 1u64 << ideal.ilog2() };
        floor.clamp(self.limits.min_request_bytes.into(), self.limits.max_request_bytes.into()) as u32
    }

    /// What the window should be if the path carries `rate`.
    fn window_for(&self, rate: u64) -> u64 {
        (carried(rate, self.rtt_us()) + SLACK_REQUESTS * self.request()).min(self.bound())
    }

    fn bound(&self) -> u64 {
        self.limits.max_window_bytes.min(u64::from(self.limits.max_commands) * self.request()).min(self.threshold_bytes)
    }

    /// Finest look at the counters that is worth while: a fiftieth of a round trip, and no load on the machine.
    fn fine_us(&self) -> u64 {
        (self.rtt_us() / 50).clamp(1_000, 5_000)
    }

    fn note(&mut self, path: PathState) -> bool {
        let congested = path.recovery != self.path.recovery || path.loss != self.path.loss || path.cwr_ecn != self.path.cwr_ecn;
        self.path = path;
        congested
    }

    fn queue_us(&self) -> u64 {
        u64::from(self.path.srtt_us.saturating_sub(self.path.min_rtt_us))
    }

    /// A queue this long is more than the slack explains.
    fn queue_high_us(&self) -> u64 {
        let slack_us = if self.capacity == 0 { 0 } else { SLACK_REQUESTS * self.request() * 1_000_000 / self.capacity };
        slack_us + self.rtt_us() / 16
    }

    fn enter(&mut self, phase: Phase, reason: String) {
        self.phase = phase;
        self.idle_queue_trips = 0;
        self.reason = reason;
    }

    fn start(&mut self, input: &Input<'_>, congested: bool) {
        let delta_us = input.now_us - self.last_tick_us;
        let done = self.meter.latest_bytes();
        let trip = self.meter.average(self.rtt_us()).map_or(0, |rate| carried(rate, self.rtt_us()));
        if let Some(rate) = self.meter.train(TRAIN_REQUESTS.min(self.window_bytes / self.request() - 1) * self.request()) {
            self.capacity = self.capacity.max(rate);
        }
        let known = self.capacity > 0;
        let goal = if known { self.window_for(self.capacity) } else { self.bound() };
        let fill = if known { carried(self.capacity, delta_us).saturating_sub(done) } else { done };
        let reach = (2 * trip + REST_REQUESTS * self.request()).max(self.window_bytes);
        self.window_bytes = (self.window_bytes + fill).min(reach).min(goal);
        self.reason = format!("filling {} kB at {} kB/s", goal / 1000, self.capacity / 1000);

        if congested {
            self.enter(Phase::Cruise, "loss while starting".into());
        } else if input.path.is_some() && known && self.queue_us() > self.queue_high_us() {
            self.window_bytes = self.window_bytes.min(goal);
            self.enter(Phase::Cruise, format!("a queue of {} us while starting", self.queue_us()));
        } else if known && self.window_bytes >= goal && trip + 2 * self.request() >= carried(self.capacity, self.rtt_us()) {
            self.enter(Phase::Cruise, format!("full at {} kB/s", self.capacity / 1000));
        }
    }

    fn cruise(&mut self, input: &Input<'_>, congested: bool) {
        if input.path.is_none() {
            return;
        }
        let Some(rate) = self.meter.average(self.rtt_us()) else { return };
        self.capacity = self.capacity.max(rate);
        let queue_us = self.queue_us();
        if congested && queue_us > self.rtt_us() / 32 {
            let lost_at = u64::from(self.path.prior_cwnd_pkts) * u64::from(self.path.mss_bytes);
            self.window_bytes = self.window_bytes.min(lost_at.max(REST_REQUESTS * self.request()));
            self.reason = format!("loss at {} kB", lost_at / 1000);
        } else if queue_us > self.queue_high_us() {
            self.capacity = rate.max(1);
            self.window_bytes = self.window_for(rate);
            self.idle_queue_trips = 0;
            self.reason = format!("queue of {queue_us} us at {} kB/s", rate / 1000);
        } else if queue_us < self.rtt_us() / 64 && self.asked_in_full(input) {
            self.idle_queue_trips += 1;
            let step = (self.request() << self.idle_queue_trips.min(8)).min(self.window_bytes / 8).max(self.request());
            self.window_bytes = (self.window_bytes + step).min(self.bound());
            self.reason = format!("no queue at {} kB/s", rate / 1000);
        } else {
            self.idle_queue_trips = 0;
        }
    }

    /// The readers want more than the window lets through, and TCP lets the window through.
    fn asked_in_full(&self, input: &Input<'_>) -> bool {
        let in_flight: u64 = input.disks.iter().map(|d| u64::from(d.in_flight)).sum();
        let cwnd_bytes = u64::from(self.path.snd_cwnd_pkts) * u64::from(self.path.mss_bytes);
        in_flight * self.request() >= self.window_bytes && cwnd_bytes >= self.window_bytes
    }

    /// Rewrites the request size at most once a second: each change drains the queue.
    fn fit_request(&mut self, now_us: u64) {
        let best = self.request_for(self.capacity);
        let crowded = self.window_for(self.capacity) >= u64::from(self.limits.max_commands) * self.request();
        let coarse = best < self.request_bytes / 2;
        if (crowded || coarse) && best != self.request_bytes && now_us - self.request_changed_us > 1_000_000.max(10 * self.rtt_us()) {
            self.request_bytes = best;
            self.request_changed_us = now_us;
            self.reason = format!("requests of {} KiB fit {} kB/s", best >> 10, self.capacity / 1000);
        }
    }

    fn limit(&self, input: &Input<'_>) -> &'static str {
        let cwnd_bytes = u64::from(self.path.snd_cwnd_pkts) * u64::from(self.path.mss_bytes);
        match self.phase {
            Phase::Rest => "application",
            _ if u64::from(self.path.snd_wnd_bytes) < self.window_bytes => "advertised window",
            _ if u64::from(self.path.sndbuf_bytes) < self.window_bytes => "send buffer",
            _ if cwnd_bytes < self.window_bytes => "cwnd",
            _ if self.capacity > 0 && self.window_bytes >= self.window_for(self.capacity) => "link",
            _ if self.asked_in_full(input) => "depth",
            _ => "application",
        }
    }

    fn output(&self, input: &Input<'_>, next_us: u64) -> Output {
        let commands = self.window_bytes.div_ceil(self.request().max(1)).max(1);
        let reading = input.disks.iter().filter(|d| d.reading).count().max(1) as u64;
        let depth = |max_depth: u32| (commands.div_ceil(reading)).min(max_depth.max(1).into()) as u32;
        let expected = self.window_for(if self.capacity > 0 { self.capacity } else { ASSUMED_RATE });
        Output {
            phase: self.phase.name(),
            limit: self.limit(input),
            window_bytes: self.window_bytes,
            request_bytes: self.request_bytes,
            depths: input.disks.iter().map(|d| depth(d.max_depth)).collect(),
            read_ahead_bytes: (2 * expected).clamp(1 << 20, self.limits.max_read_ahead_bytes),
            next_us,
            page_us: self.rtt_us().max(10_000),
            reason: self.reason.clone(),
        }
    }
}

impl Strategy for Notify {
    fn rest(&mut self, input: &Input<'_>) -> Output {
        if let Some(path) = input.path {
            self.note(path);
        }
        let rate = if self.capacity > 0 { self.capacity } else { ASSUMED_RATE };
        self.request_bytes = self.request_for(rate);
        self.window_bytes = REST_REQUESTS * self.request();
        self.threshold_bytes = u64::MAX;
        self.meter.clear();
        self.enter(Phase::Rest, "nothing reads".into());
        self.output(input, u64::MAX)
    }

    fn tick(&mut self, input: &Input<'_>) -> Output {
        let congested = input.path.is_some_and(|path| self.note(path));
        if self.phase == Phase::Rest {
            self.enter(Phase::Start, "a read began".into());
            self.last_tick_us = input.now_us;
        }
        self.meter.push(input.now_us, input.disks.iter().map(|d| d.read_bytes).sum());
        let wait_us = match self.phase {
            Phase::Rest | Phase::Start => {
                self.start(input, congested);
                self.fine_us()
            }
            Phase::Cruise => {
                self.cruise(input, congested);
                self.rtt_us().max(10_000)
            }
        };
        self.fit_request(input.now_us);
        self.last_tick_us = input.now_us;
        self.output(input, input.now_us + wait_us)
    }
}
