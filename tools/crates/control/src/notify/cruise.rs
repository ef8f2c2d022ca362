// SPDX-License-Identifier: GPL-2.0-only
//! **Cruise**: each move of W is judged by what it was made for.

use super::losses::LOST_US;
use super::requests::SMALL_REQUEST_BYTES;
use super::{MAX_RTT_US, Notify, Phase, RECOVERY_TRIPS, SLACK_REQUESTS, THRESHOLD_TRIPS};
use crate::Input;
use crate::rate::{carried, per_second};

/// The least and the longest time without what has failed before: near by fifty round trips are over before much is seen.
const LEAST_PATIENCE_US: u64 = 1_000_000;
const MAX_PATIENCE_US: u64 = 10_000_000;

/// What arrives by now is of no less time than this: looks may be ten milliseconds apart, and hosts late.
const LATELY_US: u64 = 20_000;

/// What a change of W is to bring.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    /// It should empty this much of the queue, and no less arrives. Of a small one whole packets make something else: it tells
    /// of a longer path, and of nothing else.
    Shorter { queue_us: u64, emptied_us: u64, small: bool },
    /// More arrives.
    More,
    /// One more request hides gaps, though a queue stands.
    Gaps,
}

/// What there was before a change of W, to come back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    rate: u64,
    window_bytes: u64,
    capacity: u64,
    late_us: u64,
    srtt_us: u32,
}

/// What there was before W went to half of the path, which leaves others the rest; how much of the queue that should empty, 0
/// where it tells nothing (any more), and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halved {
    before: Before,
    emptied_us: u64,
    since_us: u64,
}

/// A cut that is too small to tell whose the queue is, or several in a row: the queue and all else before the first, and the W
/// and C that the last has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallCut {
    queue_us: u64,
    before: Before,
    left: (u64, u64),
}

impl Aim {
    fn emptied_us(&self) -> u64 {
        match *self {
            Self::Shorter { emptied_us, .. } => emptied_us.min(MAX_RTT_US),
            Self::More | Self::Gaps => 0,
        }
    }
}

/// What failed is tried again later and later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    pub(super) until_us: u64,
    wait_us: u64,
    pub(super) lost_us: u64,
}

impl Patience {
    pub(super) fn at_least(&mut self, until_us: u64) {
        self.until_us = self.until_us.max(until_us);
    }

    /// For once, and not for long.
    pub(super) fn lose_little(&mut self, now_us: u64) {
        (self.wait_us, self.lost_us) = (0, now_us);
    }

    /// Soon after the last time, as is returned, it is for twice as long, up to [`MAX_PATIENCE_US`].
    pub(super) fn lose(&mut self, now_us: u64, rtt_us: u64) -> bool {
        let least_us = patience_us(THRESHOLD_TRIPS, rtt_us);
        let soon = now_us < self.lost_us.saturating_add(2 * self.wait_us);
        self.wait_us = if soon { 2 * self.wait_us } else { 0 }.clamp(least_us, MAX_PATIENCE_US.max(least_us));
        (self.until_us, self.lost_us) = (now_us + self.wait_us, now_us);
        soon
    }
}

/// Trials of a greater W.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// None before that: one has brought nothing, or there was a loss.
    pub(super) patience: Patience,
    /// Since when less arrives than there could.
    pub(super) short_us: Option<u64>,
    /// That have brought more, one after another.
    pub(super) gained: u32,
}

impl Steps {
    /// Bytes, twice as much after each that has gained.
    fn doubled(&self, bytes: u64) -> u64 {
        bytes << self.gained.min(3)
    }
}

/// So many round trips, but no less than [`LEAST_PATIENCE_US`].
pub(super) fn patience_us(trips: u64, trip_us: u64) -> u64 {
    (trips * trip_us).max(LEAST_PATIENCE_US)
}

/// By more than a measurement's error.
pub(super) fn slower(rate: u64, capacity: u64) -> bool {
    rate < capacity / 64 * 63
}

/// By more than requests that bunch explain.
pub(super) fn much_slower(rate: u64, capacity: u64) -> bool {
    rate < capacity / 8 * 7
}

impl Notify {
    pub(super) fn cruise(&mut self, input: &Input<'_>) {
        // At each look: while a change of the request size drains the queue pages are few, or none.
        let rate = self.rate().unwrap_or(0);
        self.read.reached = self.read.reached.max(rate.min(self.capacity));
        self.look_for_takers(input.now_us, rate);
        // The target has seen what came of a change of W when it is asked a round trip later, with the queue that there
        // is; of a cut once what it took away has left the queue.
        let answer_us = self.trip_us() + self.trial.map_or(0, |(aim, _)| aim.emptied_us());
        let told_us = if input.path.is_some() { Some(self.path.asked_us) } else { self.own_round_trip(input) };
        let answers = !self.read.advertised.closing
            && told_us.is_some_and(|us| us.saturating_sub(self.window_changed_us) > answer_us);
        // W that is made for cwnd is no reason for what that is.
        let follows = input.path.is_some() && self.lossy(input.now_us);
        if follows || answers && !(self.choked(input.now_us) && self.read.losses.unanswered == 0) {
            self.adjust(input);
        }
    }

    /// TCP lets less than half of W through, for a moment: after a timeout, or while BBR looks for the least round trip, with four
    /// packets for a fifth of a second. What waits is not W's then, and what arrives not all that the path carries. A path that
    /// has become slower stays so.
    fn choked(&mut self, now_us: u64) -> bool {
        if !self.cwnd_less_than_half_of(self.path_bytes()) {
            self.read.choked_us = None;
            return false;
        }
        let since_us = *self.read.choked_us.get_or_insert(now_us);
        now_us - since_us < patience_us(RECOVERY_TRIPS, self.trip_us())
    }

    pub(super) fn adjust(&mut self, input: &Input<'_>) {
        // A burst of requests makes a queue for a moment, or hides one; only what two pages show is standing.
        let queue_us = self.queue_us();
        let before_us = std::mem::replace(&mut self.last_queue_us, queue_us);
        let (standing_us, longest_us) = (queue_us.min(before_us), queue_us.max(before_us));
        let rate = self.rate();

        // What is tried, or cut, needs pages to be judged by, and a rate that no disk's drain is part of.
        let judged = self.undrained(input);
        if let Some((aim, before)) = self.trial.take_if(|_| judged) {
            if self.undone(aim, before, input.now_us, rate, input.share.is_some()) {
                if let Some(halved) = &mut self.read.gives {
                    halved.emptied_us = 0;
                }
                return;
            }
        }
        if longest_us <= self.queue_long_us() {
            self.read.small_cut = None;
        }
        let goal = self.window_for(self.capacity);
        if self.read.losses.unanswered == 0 && input.now_us >= self.rivals.until_us {
            self.read.losses.held_us = self.read.losses.held_us.max(standing_us);
        }
        let (congested, slower) = self.congested(input);
        if self.beside_rivals(input) {
            self.compete(input.now_us, goal, rate);
            return;
        }
        let gave = self.read.gives.take().is_some();
        // A long queue that lost something is no burst.
        let overflowed = congested && !self.lost_by_chance();
        let proven_us = if overflowed { queue_us } else { standing_us };
        if self.overflows() {
            self.read.losses.own.clear();
            self.read.losses.lossy_until_us = self.read.losses.lossy_until_us.map(|us| us.min(input.now_us));
        }
        if let Some(rate) = slower {
            self.read.losses.lossy_until_us = None;
            self.read.losses.own.clear();
            self.pause_growth(input.now_us);
            self.slow_to(input, rate);
            return;
        }
        if self.lossy(input.now_us) {
            (self.trial, self.read.losses.lost_much) = (None, true);
            self.capacity = self.capacity.max(rate.unwrap_or(0));
            self.window_bytes = self.lossy_bytes();
            self.reason = "the path loses by itself".into();
            return;
        }
        if std::mem::take(&mut self.read.losses.lost_much) {
            self.window_bytes = goal;
        }
        if gave {
            self.window_bytes = self.window_bytes.max(goal);
        }
        let fills = self.alone(input) && self.lengthened(input.now_us);
        if fills && !congested && standing_us <= self.queue_high_us() {
            let window_bytes = self.lengthened_bytes();
            if window_bytes > self.window_bytes {
                self.window_bytes = window_bytes;
                return;
            }
        }
        if congested && self.give_way(input, goal, rate, before_us, proven_us) {
            return;
        }
        // A cut that is not yet judged is not the next one's measure.
        let long_us = if self.trial.is_some() {
            self.queue_high_us()
        } else if self.outgrown(input, rate) {
            self.queue_long_us().min(self.slack_us() + self.rtt_us() / 32)
        } else {
            self.queue_long_us()
        };
        let long = proven_us > long_us && judged && (overflowed || input.now_us >= self.cuts.until_us);
        if let Some(rate) = rate.filter(|_| long) {
            self.shorten(input, rate, proven_us);
            return;
        }
        if self.shares_path(input, rate, standing_us) {
            return;
        }
        if self.trial.is_none() && (input.now_us >= self.quiet.until_us || self.threshold_gone(input, rate)) {
            let idle = self.idle(longest_us, rate);
            if idle && self.window_bytes < goal {
                self.widen(((goal - self.window_bytes) / 2).max(self.request()));
                self.reason = format!("no queue at {} kB", self.window_bytes / 1000);
            } else if idle && judged && input.share.is_some() {
                self.grow_among(input, rate);
            } else if idle && judged {
                // The path carries more than C: its trains tell how much.
                self.enter(Phase::Start, format!("no queue at {} kB", self.window_bytes / 1000));
            } else if let Some(rate) = rate.filter(|_| judged && self.asked_in_full()) {
                self.grow(input.now_us, goal, rate, standing_us, longest_us, input.share.is_some());
            }
        }
    }

    /// W does not grow for eight round trips.
    pub(super) fn pause_growth(&mut self, since_us: u64) {
        self.quiet.at_least(since_us + RECOVERY_TRIPS * self.rtt_us());
    }

    /// Less than C arrives of all of W, and nothing was lost lately: a queue that has been short does not hold what makes up for
    /// that, so the path has become longer, or slower. (What is advertised is too fine for a cut to tell that.)
    fn outgrown(&self, input: &Input<'_>, rate: Option<u64>) -> bool {
        let lost_us = self.read.losses.last_us.unwrap_or(0);
        self.read.losses.shallow
            && !self.advertises
            && input.share.is_none()
            && input.now_us - lost_us >= THRESHOLD_TRIPS * self.trip_us()
            && self.rate_is_of_window(input.now_us)
            && self.asked_in_full()
            && rate.is_some_and(|rate| slower(rate.saturating_add(self.packet_rate()), self.capacity))
    }

    /// What overflowed at much less than the path has held in this read may have been others', who have gone; and where more than
    /// C arrives of W as it is, for long enough to tell, the path has become faster: no threshold then. True once nothing was lost
    /// for long, each time for twice as long.
    fn threshold_gone(&mut self, input: &Input<'_>, rate: Option<u64>) -> bool {
        let lost_us = self.lost_us().unwrap_or(0).max(self.quiet.lost_us);
        let least_us = patience_us(RECOVERY_TRIPS, self.trip_us()) << self.read.losses.forgotten.min(4);
        let little = much_slower(self.path_bytes(), carried(self.read.reached, self.path.min_rtt_us.into()));
        let faster = self.rate_is_of_window(input.now_us)
            && rate.is_some_and(|rate| slower(self.capacity, rate.saturating_sub(self.packet_rate())));
        let gone = (little || faster) && input.share.is_none() && input.now_us - lost_us > least_us;
        if gone {
            self.quiet.until_us = input.now_us;
            self.read.losses.forgotten += 1;
        }
        gone
    }

    /// W where TCP's congestion control decides: so many cwnd of so many bytes, and slacks.
    pub(super) fn tcp_bytes(&self, cwnd_bytes: u64, times: u64) -> u64 {
        // Small requests are for a short queue; none of this waits on the path.
        let slack = self.slack_bytes().max(SLACK_REQUESTS * SMALL_REQUEST_BYTES);
        cwnd_bytes.saturating_add(slack).saturating_mul(times).saturating_add(self.late_bytes())
    }

    /// Others have taken what had arrived before, and TCP decides. What C is then, in bytes/s: cuts before were for what they left.
    pub(super) fn others(&mut self, now_us: u64, capacity: u64) -> u64 {
        self.rivals.lose(now_us, self.rtt_us());
        capacity.max(self.read.reached)
    }

    /// Others fill the queue: TCP's congestion control decides.
    fn compete(&mut self, now_us: u64, goal: u64, rate: Option<u64>) {
        let queue_us = self.whole_queue_us();
        let mut gave = self.read.gives.take();
        if let Some(Halved { before, emptied_us, since_us }) = &mut gave {
            let seen = self.path.asked_us.saturating_sub(*since_us) > self.trip_us() + *emptied_us;
            if seen && self.longer(now_us, *before, queue_us, *emptied_us) {
                self.lengthen(now_us, *before, queue_us);
                return;
            }
            // While something was lost lately it may be others' who overflow it.
            if !self.unmoved(now_us, *before, *emptied_us) {
                *emptied_us = 0;
            }
        }
        let most = self.tcp_bytes(self.path.cwnd_bytes(), 1);
        let alone = queue_us < self.queue_low_us();
        // Who was there first keeps more for long: half of the path it is, however long the others make the queue.
        let half = self.capacity.max(self.read.reached) / 2;
        let half_bytes = carried(half, self.trip_us() + self.read.late_us).saturating_add(self.slack_bytes());
        let gives = rate.is_some_and(|rate| self.taken(now_us, rate));
        let goal = if gives { half_bytes.min(self.bound()) } else { goal };
        if alone {
            self.rivals.until_us = now_us;
        }
        let before = self.before(rate.unwrap_or(0));
        self.window_bytes = most.min(goal);
        // Of what was in flight, not what W would have let through; what waits for slots is no queue.
        let asked_bytes = self.filled_bytes.min(self.readers.claimed_bytes());
        let was_bytes = if self.in_slots() { 0 } else { before.window_bytes.min(most).min(asked_bytes) };
        let cut_bytes = was_bytes.saturating_sub(self.window_bytes);
        let emptied_us = (cut_bytes * 1_000_000 / (2 * half).max(1)).min(queue_us);
        self.read.gives = gives.then(|| gave.unwrap_or(Halved { before, emptied_us, since_us: now_us }));
    }

    /// The link is busy all the time: what arrives is what it carries.
    fn shorten(&mut self, input: &Input<'_>, rate: u64, queue_us: u64) {
        // What a hole has held back is no slower path if the start, whose W is for more than C, may have made it.
        let before_hole = self.before_hole(input.now_us).filter(|_| self.has_started(input.now_us));
        let rate = self.lately(rate).max(before_hole.unwrap_or(0).min(self.capacity));
        let known = self.capacity.min(self.read.reached);
        let (less, own) = (input.share.is_none() && much_slower(rate, known), self.lost_by_itself(input.now_us));
        // A longer path loses nothing, or does so by itself; and a cut that is not judged yet may have been too little.
        let lost = self.read.losses.last_us == Some(input.now_us) && !self.lost_by_chance() && self.trial.is_none();
        if lost && less && !own && self.slows_again(input.now_us) {
            self.capacity = self.others(input.now_us, self.capacity);
            self.forget_queues();
            self.reason = format!("{} kB/s again: others take the rest", rate / 1000);
            return;
        }
        // Of that sessions on one path take equal shares: each keeps the same 2R in the queue.
        let capacity = input.share.unwrap_or(rate);
        // What several small cuts in a row have cut together may tell.
        let left = (self.window_bytes, self.capacity);
        let row = self.read.small_cut.take().filter(|cut| cut.left == left && input.share.is_none());
        let (before_us, before) =
            row.map_or_else(|| (queue_us, self.before(rate.min(capacity))), |cut| (cut.queue_us, cut.before));
        // Late is what W is made for beyond the path and the queue.
        let loop_us = self.window_bytes.saturating_sub(self.request()) * 1_000_000 / rate.max(1);
        self.read.late_us = loop_us.saturating_sub(self.rtt_us() + queue_us).min(self.read.late_us);
        self.capacity = capacity;
        self.window_bytes = self.window_for(self.capacity);
        if less && own {
            // cwnd let no more through: of a longer path the target is to know as well.
            self.window_bytes = self.window_bytes.min(self.repaired_bytes() / 8 * 5 + self.late_bytes());
        }
        let cut_bytes = self.bound_for(before.window_bytes).saturating_sub(self.bound_for(self.window_bytes));
        let emptied_us = cut_bytes * 1_000_000 / capacity.max(1);
        let small = cut_bytes <= self.untold_bytes();
        // Nor is a longer path looked for where another session of this host may have filled the queue.
        let tells = !small || input.share.is_none() && cut_bytes >= self.path.mss_bytes.into();
        self.trial =
            (emptied_us > 0 && tells).then_some((Aim::Shorter { queue_us: before_us, emptied_us, small }, before));
        self.forget_queues();
        self.reason = format!("a queue of {queue_us} us");
    }

    /// What arrives by now, in bytes/s: where the path has become slower, much of what the rate is taken over is of before. But
    /// others, once they were found, take less and more by turns; and TCP that waits for a timeout has half of W all the same.
    fn lately(&self, rate: u64) -> u64 {
        let others = self.rivals.lost_us >= self.read.began_us.max(1);
        let span_us = (2 * self.trip_us()).max(LATELY_US);
        let lately = self.average(span_us).map(|lately| lately + self.packet_rate());
        let lately =
            lately.filter(|&lately| self.counts_packets && !others && much_slower(lately, rate)).unwrap_or(rate);
        let least = per_second(self.path_bytes() / 2, self.trip_us());
        lately.max(least.min(self.capacity))
    }

    /// Less than C arrives: bursts may hide gaps, or requests take longer than the path explains. Or much more:
    /// C is too little.
    fn grow(&mut self, now_us: u64, goal: u64, rate: u64, standing_us: u64, queue_us: u64, shared: bool) {
        let slack = self.slack_bytes();
        let most = if self.read.losses.shallow {
            self.least_full_bytes().max(goal.saturating_sub(slack))
        } else {
            goal.saturating_add(slack)
        };
        let most = most.min(self.bound());
        // What a round trip's packets show of C errs by one.
        let packet = self.packet_rate().min(self.capacity / 16);
        let slow = slower(rate.saturating_add(packet), self.capacity);
        let far = much_slower(rate, self.capacity);
        let no_queue = queue_us < self.queue_low_us();
        let full = self.rate_is_since(now_us, self.unfilled_us);
        let same = self.rate_is_of_window(now_us);
        // Near by a start that a loss has ended may have seen few trains.
        if same && !shared && !self.looks_finely() && much_slower(self.capacity, rate) {
            self.enter(Phase::Start, format!("{} kB/s arrive, more than {}", rate / 1000, self.capacity / 1000));
            return;
        }
        // Nor is the latest round trip any better.
        let lately = self.average(self.trip_us()).unwrap_or(0);
        let lacks = far && full && no_queue && much_slower(lately, self.capacity);
        if self.queue_us() > self.queue_high_us() && standing_us <= self.queue_high_us() {
            // The next page may show that it stands, unless W changes.
            if !far {
                self.steps.short_us = None;
            }
            return;
        }
        if self.window_bytes < most && slow && !lacks {
            // Where a request more brought nothing, more of them would take what others have.
            let busy = standing_us > self.slack_us();
            let may = !busy || now_us >= self.gaps.until_us;
            if may && same {
                // With such a queue there may be none, and C be too much.
                self.trial = busy.then(|| (Aim::Gaps, self.before(rate)));
                self.window_bytes = (self.window_bytes + self.request()).min(most);
                self.reason = format!("less than the {} kB/s of the trains", self.capacity / 1000);
            }
            return;
        }
        let unproven = much_slower(self.found.train, self.capacity);
        let empty = no_queue || self.elsewhere(rate);
        // The slack should always make some.
        let none = queue_us < self.none_us();
        // More has arrived in this read, before the path became slower for some time, or others came, who have gone.
        let alone = !shared && self.read.losses.last_us.is_none_or(|lost_us| now_us - lost_us >= LOST_US);
        let had_more = alone && much_slower(self.capacity, self.read.reached) && queue_us < self.request_us();
        let long = queue_us > self.queue_high_us();
        // More arrives than a link that is full at C brings: what waits may wait for no link. Near by it has no time to tell.
        let more = !shared && self.looks_finely() && rate > self.capacity.saturating_add(self.capacity / 128 + packet);
        let unsure = slow || unproven || none || more;
        // A step of what is advertised fits into a short queue.
        let fits = !self.read.losses.shallow && unsure || self.advertises && none;
        let may = far || !long && (had_more || fits);
        if !may || self.window_bytes >= self.bound() {
            self.steps.short_us = None;
            return;
        }
        // Another flow's start passes; it makes a queue.
        let short_us = *self.steps.short_us.get_or_insert(now_us);
        // The rate is one of most of W, not of what a change of the request size has left to be filled.
        let filled_us = self.read.short_us + self.rate_span_us();
        let gained = self.steps.gained > 0 && now_us >= filled_us;
        let waited = now_us.saturating_sub(short_us.max(filled_us)) >= RECOVERY_TRIPS * self.rtt_us();
        let settled = empty && full || gained || waited;
        if settled && now_us >= self.steps.patience.until_us {
            // Half of what is missing; where there is some queue, as far as steps have gained before.
            let missing = carried(self.window_bytes, self.capacity.saturating_sub(rate) * 1_000_000 / rate.max(1));
            let most = if empty { self.window_bytes } else { self.steps.doubled(self.path_bytes() / 8) };
            let step = (missing / 2).min(most);
            self.trial = Some((Aim::More, self.before(rate)));
            // Where C arrives, or something waits, a short queue may be all there is.
            let eighth = self.path_bytes() / 8;
            let requests = if self.advertises && self.has_lost() { 1 } else { SLACK_REQUESTS };
            let few = self.steps.doubled(requests * self.request());
            let least = if empty && (slow || unproven) { eighth } else { eighth.min(few) };
            self.widen(step.max(least).max(self.request()));
            self.reason = format!("{} kB, for more than {} kB/s", self.window_bytes / 1000, rate / 1000);
        }
    }

    /// All that the rate is taken over came of what was asked for since then.
    fn rate_is_since(&self, now_us: u64, us: u64) -> bool {
        now_us - us > self.rate_span_us() + self.trip_us()
    }

    /// The rate is that of all of W, as it is.
    fn rate_is_of_window(&self, now_us: u64) -> bool {
        self.rate_is_since(now_us, self.unfilled_us.max(self.window_changed_us))
    }

    /// By so many bytes, as far as W may go.
    fn widen(&mut self, bytes: u64) {
        self.window_bytes = (self.window_bytes + bytes).min(self.bound());
    }

    /// What there is; `rate` arrives.
    pub(super) fn before(&self, rate: u64) -> Before {
        let Self { window_bytes, capacity, .. } = *self;
        Before { rate, window_bytes, capacity, late_us: self.read.late_us, srtt_us: self.path.srtt_us }
    }

    /// srtt is as it was before W was cut, to a sixteenth of what that should have emptied. Where the path loses by itself TCP has
    /// tried more, and a part of that was a queue.
    fn unmoved(&self, now_us: u64, before: Before, emptied_us: u64) -> bool {
        let differs_us = u64::from(self.path.srtt_us.abs_diff(before.srtt_us));
        differs_us < emptied_us / if self.lost_by_itself(now_us) { 4 } else { 16 }
    }

    /// A cut has left the queue as it is, and nothing was lost lately, but as the path does by itself: no queue is, unless most of
    /// it is others', who overflow it. Nor is one that is much longer than one that a loss has shown to be short.
    fn longer(&self, now_us: u64, before: Before, queue_us: u64, emptied_us: u64) -> bool {
        let slack_us = SLACK_REQUESTS * self.request_size() * 1_000_000 / before.capacity.max(1);
        let short_us = 2 * slack_us + u64::from(self.path.srtt_us).saturating_sub(queue_us) / 2;
        let overflows = !self.read.losses.shallow || queue_us < short_us;
        let told = self.read.losses.unanswered > 0 || self.read.losses.last_us == Some(now_us);
        let lost = told || overflows && self.lost_lately(now_us);
        let own = self.lost_by_itself(now_us) && !self.read.losses.marked;
        self.unmoved(now_us, before, emptied_us) && (!lost || own)
    }

    /// The path has become longer: what seemed to be a queue is its length.
    fn lengthen(&mut self, now_us: u64, before: Before, queue_us: u64) {
        self.rivals.until_us = self.rivals.until_us.min(now_us);
        self.read.gives = None;
        // Trains err by a few parts in a hundred: of a longer path that is more than a queue may hold. What is as near to them was
        // a busy link, which brings what it carries.
        let packet = per_second(self.path.mss_bytes.into(), self.rate_span_us());
        let (capacity, reached) = (before.capacity, self.read.reached + packet);
        self.capacity = if reached > capacity / 32 * 31 { capacity.min(reached) } else { capacity };
        self.path.min_rtt_us = self.path.srtt_us;
        (self.longer_us, self.read.lengthened_us) = (self.path.srtt_us, Some(now_us));
        self.read.held_requests = before.window_bytes / self.request_size().max(1);
        self.read.late_us = before.late_us;
        if self.lost_by_itself(now_us) {
            self.let_tcp_decide(now_us);
        }
        self.reason = format!("the path has become {queue_us} us longer");
        self.forget_queues();
        self.window_bytes = self.lengthened_bytes();
    }

    /// W where the path has become longer: for all that it holds, and half of the slack, since its queue has to hold what is uneven
    /// of what fills it as well; but no further than cwnd goes, or what has waited for cwnd would leave faster than the path
    /// carries.
    fn lengthened_bytes(&self) -> u64 {
        let goal = self.window_with(self.capacity, self.slack_bytes() / 2);
        // A queue that was short is shorter for it.
        let goal = if self.read.losses.shallow { self.least_full_bytes().min(goal) } else { goal };
        self.path.cwnd_bytes().saturating_add(self.late_bytes() + self.request()).min(goal).max(self.window_bytes)
    }

    /// The path has become longer, and lost nothing since.
    pub(super) fn lengthened(&self, now_us: u64) -> bool {
        let lately = |us| now_us - us < THRESHOLD_TRIPS * self.rtt_us();
        self.cruises_alone(now_us) && self.read.lengthened_us.is_some_and(lately)
    }

    /// Undoes a change of W that has not brought what it should; one that may yet do so goes on.
    fn undone(&mut self, aim: Aim, before: Before, now_us: u64, rate: Option<u64>, shared: bool) -> bool {
        let queue_us = self.queue_us();
        let settled = now_us - self.window_changed_us > self.rate_span_us() + self.rtt_us() + aim.emptied_us();
        let rate = rate.unwrap_or(0);
        let mut capacity = before.capacity;
        // What has arrived tells C.
        let clear = self.read.losses.unanswered == 0 && !shared;
        // Half of what W changed by, if all were for nothing.
        let changed_by = self.window_bytes.abs_diff(before.window_bytes);
        let half = carried(before.rate, changed_by * 1_000_000 / before.window_bytes.max(1)) / 2;
        match aim {
            Aim::Shorter { queue_us: before_us, emptied_us, small } => {
                let long_us = if self.advertises { self.queue_high_us() } else { self.slack_us() + self.rtt_us() / 64 };
                let more = queue_us > long_us;
                // What was more than the queue held was lost.
                let emptied_us = emptied_us.min(before_us.saturating_sub(self.slack_us()));
                let stays = more && queue_us + emptied_us / 2 > before_us;
                if stays && !shared && !self.elsewhere(rate) && self.longer(now_us, before, queue_us, emptied_us) {
                    self.lengthen(now_us, before, queue_us);
                    return true;
                }
                if small {
                    let left = (self.window_bytes, self.capacity);
                    self.read.small_cut = Some(SmallCut { queue_us: before_us, before, left });
                    return false;
                }
                if stays {
                    // It stayed: others fill the queue, or the path has become longer.
                    self.floor_us = self.path.srtt_us.into();
                    self.reason = format!("a queue of {queue_us} us that is not ours");
                    if !shared && self.taken(now_us, rate) {
                        capacity = self.others(now_us, capacity);
                    } else if !shared {
                        self.rivals.lose(now_us, self.rtt_us());
                    }
                } else if !settled || queue_us > self.queue_high_us() {
                    self.trial = Some((aim, before));
                    return false;
                } else if rate < before.rate.saturating_sub(half.max(before.rate / 32)) {
                    if !shared && self.taken(now_us, before.rate) {
                        capacity = self.others(now_us, capacity);
                        let (ours, all) = (before.rate / 1000, self.read.reached / 1000);
                        self.reason = format!("{ours} of {all} kB/s: others take the rest");
                    } else {
                        self.cuts.lose(now_us, self.rtt_us());
                        self.reason = format!("a queue of {before_us} us that {} kB/s need", before.rate / 1000);
                    }
                } else {
                    return false;
                }
                self.forget_queues();
            }
            Aim::More | Aim::Gaps => {
                let lost = self.read.losses.unanswered > 0 && !self.elsewhere(before.rate);
                if !settled && !lost {
                    self.trial = Some((aim, before));
                    return true;
                }
                // C may leave room for less than that.
                let room = before.capacity.saturating_sub(before.rate) / 2;
                let gain = if slower(before.rate, before.capacity) { half.min(room) } else { half };
                let gaps = matches!(aim, Aim::Gaps);
                if rate > before.rate.saturating_add(gain) && !lost {
                    if gaps {
                        return false;
                    }
                    self.capacity = self.capacity.max(rate);
                    let waits_us = u64::from(self.path.srtt_us.saturating_sub(before.srtt_us));
                    if !shared && carried(4 * rate, waits_us) < changed_by {
                        // The path had room, and little waits of what W has more: what waited before was no queue.
                        self.floor_us = self.path.srtt_us.min(before.srtt_us).into();
                    }
                    let loop_us =
                        self.window_bytes.saturating_sub(self.slack_bytes()) * 1_000_000 / self.capacity.max(1);
                    self.read.late_us = loop_us.saturating_sub(self.rtt_us());
                    self.steps.patience = Patience::default();
                    self.steps.gained += 1;
                    return false;
                }
                self.blame(now_us);
                if gaps {
                    self.gaps.lose(now_us, self.rtt_us());
                } else {
                    self.steps.patience.lose(now_us, self.rtt_us());
                    self.steps.gained = 0;
                }
                // The trains were a little too fast, or too slow.
                let most = if clear {
                    before.rate.max(rate)
                } else if gaps && (!lost || shared) {
                    capacity
                } else {
                    before.rate
                };
                capacity = if much_slower(most, capacity) { capacity } else { most };
                self.reason = format!("no more than {} kB/s", before.rate / 1000);
            }
        }
        (self.window_bytes, self.capacity, self.read.late_us) = (before.window_bytes, capacity, before.late_us);
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{DiskState, Limits, PathState};

    pub(in super::super) const RTT_US: u64 = 20_000;

    /// In Cruise on a path where TCP, for its losses, lets 12 packets through.
    pub(in super::super) fn cruising(queue_us: u32) -> Notify {
        let mut law = Notify::new(Limits::default());
        (law.phase, law.capacity, law.request_bytes) = (Phase::Cruise, 800_000, 32 << 10);
        let (min_rtt_us, mss_bytes) = (RTT_US as u32, 1448);
        law.note(PathState {
            min_rtt_us,
            srtt_us: min_rtt_us + queue_us,
            snd_cwnd_pkts: 12,
            mss_bytes,
            ..PathState::default()
        });
        law
    }

    /// One that takes greater depths at once, and has so many requests in flight.
    pub(in super::super) fn prompt_disk(in_flight: u32, request_bytes: u32) -> DiskState {
        DiskState { reading: true, prompt: true, in_flight, request_bytes, max_depth: 512, ..DiskState::default() }
    }

    pub(in super::super) fn at(trip: u64) -> Input<'static> {
        Input { now_us: trip * RTT_US, path: None, received: None, share: None, disks: &[] }
    }

    #[test]
    fn what_has_arrived_counts_though_no_page_tells_of_it() {
        let mut law = cruising(0);
        for trip in 0..10 {
            law.meter.push(trip * RTT_US, trip * 14_000);
        }
        law.cruise(&at(10));
        assert_eq!(law.read.reached, 700_000);
    }

    #[test]
    fn questions_have_their_part_of_a_command_but_among_sessions_and_where_a_queue_is_short() {
        const HALF: u64 = (32 << 10) / 2;
        for (shared, shallow, others, bytes) in [
            (false, false, false, HALF),
            (true, false, false, 0),
            (false, true, false, 0),
            (false, false, true, HALF),
            (false, true, true, HALF), // TCP decides
            (true, true, true, 0),
        ] {
            let mut law = cruising(0);
            law.read.losses.shallow = shallow;
            law.rivals.until_us = if others { 20 * RTT_US } else { 0 };
            let input = Input { share: shared.then_some(400_000), ..at(10) };
            assert_eq!(
                law.question_bytes(&input, 2 * RTT_US),
                bytes,
                "shared {shared}, shallow {shallow}, others {others}"
            );
        }
    }

    #[test]
    fn a_queue_that_the_window_is_made_for_is_not_anothers() {
        for (queue_us, others) in [(2_880, false), (3_500, true)] {
            let mut law = cruising(queue_us);
            (law.capacity, law.request_bytes, law.window_bytes) = (11_961_000, 16 << 10, 270_000);
            let before =
                Before { rate: 11_900_000, window_bytes: 307_000, capacity: 12_066_000, late_us: 0, srtt_us: 0 };
            let aim = Aim::Shorter { queue_us: 4_250, emptied_us: 3_080, small: false };
            law.undone(aim, before, 20 * RTT_US, Some(11_900_000), false);
            assert_eq!(law.rivals.until_us > 0, others, "{queue_us} us");
        }
    }

    /// Else it is others'.
    #[test]
    fn a_queue_that_a_cut_leaves_as_it_is_is_the_paths_length() {
        for (less_us, lost, own, marked, short, shared, longer) in [
            (0, None, None, false, false, false, true),
            (2_383, None, None, false, false, false, true),
            (2_384, None, None, false, false, false, false),
            (0, Some(1), None, false, false, false, false),
            (0, Some(1), Some(1), false, false, false, true), // as the path did before
            (0, Some(1), Some(199), false, false, false, true),
            (0, Some(1), Some(200), false, false, false, false),
            (0, Some(1), Some(1), true, false, false, false),
            (9_538, Some(1), Some(1), false, false, false, true),
            (9_539, Some(1), Some(1), false, false, false, false),
            (0, Some(199), None, false, false, false, false), // fifty of the longer ones
            (0, Some(200), None, false, false, false, true),
            (0, Some(1), None, false, true, false, true), // no queue of two requests is as long
            (0, Some(0), None, false, true, false, false), // the page tells of it
            (0, None, None, false, false, true, false),
        ] {
            let mut law = cruising(60_000 - less_us);
            law.read.losses.lossy_until_us = own.map(|trips| (300 - trips) * RTT_US);
            (law.read.losses.unanswered, law.read.losses.marked) =
                (u32::from(own.is_some() || lost == Some(0)), marked);
            (law.capacity, law.window_bytes, law.window_changed_us) = (3_000_000, 90_000, 290 * RTT_US);
            (law.read.losses.last_us, law.read.losses.shallow) = (lost.map(|trips| (300 - trips) * RTT_US), short);
            let before =
                Before { rate: 3_000_000, window_bytes: 270_000, capacity: 12_000_000, late_us: 0, srtt_us: 80_000 };
            // No more than the queue can be emptied, down to 2R.
            let aim = Aim::Shorter { queue_us: 60_000, emptied_us: 120_000, small: false };
            law.read.gives = Some(Halved { before, emptied_us: 0, since_us: 0 });
            assert!(law.undone(aim, before, 300 * RTT_US, Some(800_000), shared));
            assert_eq!(law.read.gives.is_none(), longer);
            let others = !longer && !shared;
            assert_eq!(
                (law.lengthened(300 * RTT_US), law.rivals.until_us > 0),
                (longer, others),
                "{less_us} us, {lost:?} {own:?} {marked} {short} {shared}"
            );
            // It loses by itself as before.
            assert_eq!(law.lossy(300 * RTT_US), own.is_some() && longer);
            assert_eq!(law.read.held_requests, if longer { 8 } else { 0 });
            law.note(PathState { min_rtt_us: RTT_US as u32, ..law.path });
            assert_eq!(law.whole_queue_us() == 0, longer);
            assert_eq!(law.capacity, 12_000_000);
        }
    }

    /// So that the target sees a longer path as well, what is in flight has to be less than three quarters of what it was.
    #[test]
    fn where_a_path_loses_by_itself_a_cut_is_one_of_cwnd() {
        for (own, snd_cwnd_pkts, share, rate, bytes) in [
            (true, 100, None, 6_250_000, 90_500),
            (true, 1, None, 6_250_000, 45_250), // TCP repairs a loss: ssthresh
            (true, 200, None, 6_250_000, 157_768),
            (true, 100, None, 9_000_000, 212_768), // all of C arrives
            (true, 100, Some(6_250_000), 6_250_000, 157_768),
            (false, 100, None, 6_250_000, 157_768),
        ] {
            let mut law = cruising(20_000);
            (law.request_bytes, law.path.snd_cwnd_pkts) = (16 << 10, snd_cwnd_pkts);
            (law.path.ssthresh_pkts, law.path.prior_cwnd_pkts) = (50, 100);
            (law.capacity, law.read.reached, law.window_bytes) = (10_000_000, 10_000_000, 500_000);
            law.read.losses.lossy_until_us = own.then_some(99 * RTT_US);
            // Nor are others found for a loss.
            law.read.losses.last_us = own.then_some(100 * RTT_US);
            law.slows_again(50 * RTT_US);
            law.shorten(&Input { share, ..at(100) }, rate, 20_000);
            assert_eq!(law.window_bytes, bytes, "{own}, {snd_cwnd_pkts} packets, {share:?}, {rate} B/s");
            assert_eq!(law.rivals.until_us, 0);
        }
    }

    /// The slack is 1.4 ms, a high queue 2.6; a packet in a round trip is 72 kB/s.
    #[test]
    fn a_short_queue_does_not_hold_what_makes_up_for_less_than_c() {
        for (short, rate, queue_us, unfilled_trips, lost_trips, in_flight, advertises, share, cut) in [
            (true, 11_700_000, 2_000, 100, 55, 64, false, None, true),
            (true, 11_700_000, 1_950, 100, 55, 64, false, None, false),
            (false, 11_700_000, 2_000, 100, 55, 64, false, None, false),
            (true, 11_780_000, 2_000, 100, 55, 64, false, None, false),
            (true, 11_700_000, 2_000, 2, 55, 64, false, None, false),
            (true, 11_700_000, 2_000, 100, 54, 64, false, None, false),
            (true, 11_700_000, 2_000, 100, 55, 10, false, None, false), // readers leave some
            (true, 11_700_000, 2_000, 100, 55, 64, true, None, false),
            (true, 11_700_000, 2_000, 100, 55, 64, false, Some(12_000_000), false),
        ] {
            let mut law = cruising(queue_us);
            (law.capacity, law.request_bytes, law.read.losses.shallow) = (12_000_000, 8 << 10, short);
            (law.path.snd_cwnd_pkts, law.path.command_window, law.path.mss_bytes) = (400, 512, 1448);
            (law.quiet.until_us, law.read.losses.last_us) = (u64::MAX, Some((100 - lost_trips) * RTT_US));
            (law.counts_packets, law.advertises) = (true, advertises);
            law.window_bytes = law.window_for(law.capacity);
            law.readers.look(100 * RTT_US, RTT_US, &[prompt_disk(in_flight, 8 << 10)]);
            (90..=100).for_each(|trip| law.meter.push(trip * RTT_US, carried(rate, trip * RTT_US)));
            law.unfilled_us = (100 - unfilled_trips) * RTT_US;
            law.last_queue_us = queue_us.into();
            let before = law.window_bytes;
            law.adjust(&Input { share, ..at(100) });
            assert_eq!(law.trial.is_some(), cut, "{short} {rate} {queue_us} {unfilled_trips} {lost_trips} {in_flight}");
            assert_eq!(law.window_bytes < before, cut, "{advertises} {share:?}");
        }
    }

    /// What came in the latest two round trips, and a packet in each; but no less than half of W. Once others were found it may be
    /// theirs.
    #[test]
    fn a_path_that_has_become_slower_is_cut_for_what_it_carries_by_now() {
        for (now, others, capacity) in [
            (5_000_000, false, 5_072_400),
            (1_000_000, false, 3_819_200),
            (5_000_000, true, 11_400_000),
            (11_000_000, false, 11_400_000),
        ] {
            let mut law = cruising(20_000);
            (law.capacity, law.path.mss_bytes, law.counts_packets) = (12_000_000, 1448, true);
            law.window_bytes = law.window_for(law.capacity);
            law.rivals.lost_us = u64::from(others);
            let mut bytes = 0;
            for trip in 90..=100 {
                law.meter.push(trip * RTT_US, bytes);
                bytes += carried(if trip < 96 { 12_000_000 } else { now }, RTT_US);
            }
            law.shorten(&at(100), 11_400_000, 20_000);
            assert_eq!(law.capacity, capacity, "{now} B/s, {others}");
        }
    }

    /// What came just before it is, and a packet; unless the hole, or the start, is long ago.
    #[test]
    fn what_a_hole_has_held_back_just_after_the_start_is_no_slower_path() {
        for (over, hole, before, capacity) in [
            (96, None, 12_000_000, 5_000_000),
            (96, Some(99), 12_000_000, 12_000_000),
            (96, Some(99), 6_000_000, 6_072_400),
            (96, Some(99), 4_000_000, 5_000_000),
            (96, Some(60), 12_000_000, 5_000_000),
            (80, Some(99), 12_000_000, 5_000_000),
        ] {
            let mut law = cruising(20_000);
            (law.capacity, law.path.mss_bytes) = (12_000_000, 1448);
            law.window_bytes = law.window_for(law.capacity);
            law.found.lately.push_back((over * RTT_US, law.capacity));
            law.read.holes.last_us = hole.map(|trip| trip * RTT_US);
            law.read.holes.first = hole.map(|trip| (trip * RTT_US, before));
            law.shorten(&at(100), 5_000_000, 20_000);
            assert_eq!(law.capacity, capacity, "{over}, {hole:?}, {before} B/s");
        }
    }

    /// Others, who have nothing more to take from a path that has only become slower.
    #[test]
    fn what_becomes_much_slower_again_has_others_on_it() {
        for (trips, lost, shared, others) in
            [(11, true, false, false), (13, true, false, true), (13, false, false, false), (13, true, true, false)]
        {
            let mut law = cruising(20_000);
            (law.capacity, law.read.reached) = (12_000_000, 12_000_000);
            law.window_bytes = law.window_for(law.capacity);
            law.read.losses.last_us = Some(100 * RTT_US);
            law.shorten(&at(100), 6_000_000, 20_000);
            assert_eq!(law.rivals.until_us, 0, "only once");
            let share = shared.then_some(2_000_000);
            law.read.losses.last_us = lost.then_some((100 + trips) * RTT_US);
            law.trial = None;
            law.shorten(&Input { share, ..at(100 + trips) }, 3_000_000, 20_000);
            let capacity = if others {
                12_000_000
            } else if shared {
                2_000_000
            } else {
                3_000_000
            };
            assert_eq!(
                (law.rivals.until_us > 0, law.capacity),
                (others, capacity),
                "{trips} round trips, {lost} {shared}"
            );
        }
    }

    /// What W was beyond what the queue holds was lost: the cut empties no more of it than down to two requests' time.
    #[test]
    fn a_queue_that_had_overflowed_is_ours_if_the_cut_leaves_two_requests() {
        for (after_us, others) in [(21_900, false), (50_000, true)] {
            let mut law = cruising(after_us);
            (law.capacity, law.window_bytes, law.window_changed_us) = (3_000_000, 125_000, 290 * RTT_US);
            law.read.losses.last_us = Some(290 * RTT_US);
            let before =
                Before { rate: 3_000_000, window_bytes: 400_000, capacity: 12_000_000, late_us: 0, srtt_us: 80_000 };
            let aim = Aim::Shorter { queue_us: 42_000, emptied_us: 91_000, small: false };
            law.undone(aim, before, 300 * RTT_US, Some(3_000_000), false);
            assert_eq!(law.rivals.until_us > 0, others, "{after_us} us");
        }
    }

    /// RTT 1.5 ms at 4 MB/s, and then 6.1 ms, with what is advertised.
    fn few_packets(window_bytes: u64) -> Notify {
        let mut law = cruising(0);
        (law.path.min_rtt_us, law.path.srtt_us) = (1_530, 6_120);
        (law.advertises, law.received.window_unit_bytes) = (true, 2048);
        (law.capacity, law.window_bytes, law.window_changed_us) = (3_800_000, window_bytes, 290 * RTT_US);
        law
    }

    /// W is five packets, and then four, which is less than a cut that tells more. What a reader that pauses leaves says nothing
    /// either.
    #[test]
    fn a_small_cut_tells_of_a_longer_path_alone() {
        for (less_us, rate, longer) in
            [(0, Some(1_000_000), true), (200, Some(1_000_000), false), (0, Some(400_000), false), (0, None, false)]
        {
            let mut law = few_packets(7_900);
            law.shorten(&at(290), 1_350_000, 4_590);
            let (aim, before) = law.trial.take().expect("a packet less");
            law.path.srtt_us -= less_us;
            assert_eq!(law.undone(aim, before, 300 * RTT_US, rate, false), longer);
            assert_eq!((law.lengthened(300 * RTT_US), law.rivals.until_us > 0), (longer, false), "{less_us} us");
            assert_eq!(law.capacity, if longer { 3_800_000 } else { 1_350_000 });
        }
    }

    /// But for a packet in what the rate is taken over. What is less by a thirty-second was not the link.
    #[test]
    fn a_longer_path_is_filled_with_what_a_busy_link_brought() {
        for (reached, capacity) in
            [(12_000_000, 12_000_000), (11_700_000, 11_718_100), (11_606_900, 12_000_000), (0, 12_000_000)]
        {
            let mut law = cruising(60_000);
            (law.capacity, law.read.reached, law.window_bytes) = (12_000_000, reached, 60_000);
            (law.path.mss_bytes, law.path.snd_cwnd_pkts) = (1_448, 1_000);
            let before =
                Before { rate: 3_000_000, window_bytes: 260_000, capacity: 12_000_000, late_us: 0, srtt_us: 80_000 };
            let aim = Aim::Shorter { queue_us: 60_000, emptied_us: 60_000, small: false };
            assert!(law.undone(aim, before, 300 * RTT_US, Some(750_000), false), "the path is longer");
            assert_eq!(law.capacity, capacity, "{reached}");
            assert_eq!(law.window_bytes, carried(capacity, 80_000) + law.request(), "half of the slack");
        }
    }

    #[test]
    fn a_small_cut_is_not_judged_among_sessions_nor_where_no_packet_less_is_in_flight() {
        for (window_bytes, share, judged) in [
            (7_900, None, true),
            (7_900, Some(2_000_000), false),
            (6_600, None, false),
            (20_000, Some(2_000_000), true),
        ] {
            let mut law = few_packets(window_bytes);
            law.shorten(&Input { share, ..at(290) }, 1_350_000, 4_590);
            assert_eq!(law.trial.is_some(), judged, "{window_bytes} bytes, {share:?}");
        }
    }

    /// Each takes a packet or two away. The queue stays, and the others take the rest; or it becomes shorter by that, or for a
    /// moment, or something else has moved W meanwhile.
    #[test]
    fn small_cuts_in_a_row_are_judged_together() {
        for (emptied_us, taken, short_trip, moved_trip, others) in [
            (0, 300_000, 0, 0, true),
            (1_300, 0, 0, 0, false),
            (0, 300_000, 292, 0, false),
            (0, 300_000, 0, 293, false),
        ] {
            let mut law = few_packets(9_900);
            (law.path.srtt_us, law.read.reached, law.read.losses.last_us) = (6_530, 3_800_000, Some(288 * RTT_US));
            law.quiet.until_us = u64::MAX;
            let disk = prompt_disk(32, 16 << 10);
            for (look, trip) in (290..297).enumerate() {
                let (now_us, rate) = (trip * RTT_US, 2_500_000 - look as u64 * taken);
                law.readers.look(now_us, RTT_US, &[disk]);
                law.meter.clear();
                (0..=20).for_each(|n| law.meter.push(now_us - (20 - n) * 10_000, carried(rate, n * 10_000)));
                law.path.asked_us = now_us - 1_000;
                let srtt_us = law.path.srtt_us;
                law.path.srtt_us = if trip == short_trip { 1_600 } else { srtt_us };
                law.window_bytes += u64::from(trip == moved_trip);
                let before = law.window_bytes;
                law.adjust(&Input { path: Some(law.path), disks: &[disk], ..at(trip) });
                law.path.srtt_us = srtt_us;
                if law.window_bytes < before {
                    law.window_changed_us = now_us;
                    law.path.srtt_us -= emptied_us;
                }
            }
            assert_eq!(law.rivals.until_us > 0, others, "{emptied_us} us, {taken} B/s, {short_trip} {moved_trip}");
        }
    }

    /// 4R/C are 10.9 ms, and half of the path 10.
    #[test]
    fn a_loss_tells_how_long_a_queue_may_be() {
        for (queue_us, short, longer) in [(20_900, true, false), (21_000, true, true), (21_000, false, false)] {
            let mut law = cruising(queue_us);
            (law.read.losses.shallow, law.read.losses.last_us) = (short, Some(299 * RTT_US));
            law.capacity = 12_000_000;
            let before = law.before(law.capacity);
            assert_eq!(law.longer(300 * RTT_US, before, queue_us.into(), 40_000), longer, "{queue_us} us, {short}");
        }
    }

    /// And what was longer for a time only is measured anew.
    #[test]
    fn on_a_longer_path_the_window_goes_as_far_as_cwnd() {
        let mut law = cruising(0);
        (law.capacity, law.longer_us, law.read.lengthened_us) = (12_000_000, 80_000, Some(0));
        (law.path.srtt_us, law.window_bytes) = (80_000, 90_000);
        for (cwnd_pkts, shallow, window_bytes) in [
            (50, false, 72_400 + 32_768),
            (200, false, 289_600 + 32_768),
            (1_000, true, 950_272),           // as requests, 15/16 of the path and one more
            (1_000, false, 960_000 + 32_768), // half of the slack
            (50, false, 960_000 + 32_768),
        ] {
            (law.path.snd_cwnd_pkts, law.read.losses.shallow) = (cwnd_pkts, shallow);
            law.note(PathState { min_rtt_us: 20_000, ..law.path });
            law.adjust(&at(10));
            assert_eq!(law.window_bytes, window_bytes, "{cwnd_pkts} packets");
        }
        // Nor does the slack go beyond what may be asked for, or half of it stay below that.
        law.limits.max_window_bytes = 900_000;
        law.window_bytes = 90_000;
        law.path.snd_cwnd_pkts = 1_000;
        assert_eq!(law.lengthened_bytes(), law.bound());
        // The least since, or TCP's where that is less than ever.
        for (min_rtt_us, srtt_us, rtt_us) in
            [(20_000, 70_000, 70_000), (20_000, 80_000, 70_000), (20_000, 30_000, 30_000), (15_000, 80_000, 15_000)]
        {
            law.note(PathState { min_rtt_us, srtt_us, ..law.path });
            assert_eq!(law.rtt_us(), rtt_us);
        }
    }

    #[test]
    fn a_capacity_that_was_more_is_tried_again() {
        for (reached, queue_us, tries) in
            [(4_000_000, 10_000, true), (4_000_000, 20_000, false), (2_100_000, 10_000, false)]
        {
            let mut law = cruising(queue_us);
            (law.capacity, law.found.train, law.read.losses.shallow, law.read.reached) =
                (2_000_000, 2_000_000, true, reached);
            law.window_bytes = law.window_for(law.capacity);
            law.grow(100 * RTT_US, law.window_bytes, 2_000_000, 0, queue_us.into(), false);
            law.grow(200 * RTT_US, law.window_bytes, 2_000_000, 0, queue_us.into(), false);
            assert_eq!(law.trial.is_some(), tries, "{reached} {queue_us}");
        }
    }

    /// Where looks are too coarse for trains; among this host's sessions, or before W has told, it may be of a moment.
    #[test]
    fn much_more_than_c_near_by_starts_again() {
        for (rtt_us, rate, shared, trip, phase) in [
            (2_000, 2_400_000, false, 100, Phase::Start),
            (2_000, 2_200_000, false, 100, Phase::Cruise),
            (4_000, 2_400_000, false, 100, Phase::Cruise),
            (2_000, 2_400_000, true, 100, Phase::Cruise),
            (2_000, 2_400_000, false, 2, Phase::Cruise),
        ] {
            let mut law = cruising(0);
            law.note(PathState { min_rtt_us: rtt_us, srtt_us: rtt_us, ..law.path });
            law.capacity = 2_000_000;
            law.window_bytes = law.window_for(law.capacity);
            law.grow(trip * RTT_US, law.window_bytes, rate, 1_000, 1_000, shared);
            assert_eq!(law.phase, phase, "{rtt_us} us, {rate} B/s, {shared}, {trip}");
        }
    }

    /// And where the step brings more, and little more waits, what waited before it waits for no link.
    #[test]
    fn more_than_a_full_link_brings_is_tried() {
        let tried = |rate, shared| {
            let mut law = cruising(6_000);
            (law.capacity, law.found.train) = (2_000_000, 2_000_000);
            law.window_bytes = law.window_for(law.capacity);
            law.grow(100 * RTT_US, law.window_bytes, rate, 0, 6_000, shared);
            law.grow(200 * RTT_US, law.window_bytes, rate, 0, 6_000, shared);
            law
        };
        assert!(tried(2_050_000, false).trial.is_none() && tried(2_100_000, true).trial.is_none());
        for (waits_us, queue_us) in [(0, 0), (1_000, 1_000), (2_000, 8_000)] {
            let mut law = tried(2_100_000, false);
            let (aim, before) = law.trial.expect("a step");
            law.path.srtt_us += waits_us;
            law.undone(aim, before, 300 * RTT_US, Some(4_200_000), false);
            assert_eq!((law.queue_us(), law.capacity), (queue_us, 4_200_000));
        }
    }

    /// What waits of the slack is no sign of a full path, which brings C.
    #[test]
    fn a_path_may_be_idle_where_the_slack_waits() {
        for (rate, idle) in [(40_000_000, false), (40_320_000, true)] {
            let mut law = cruising(0);
            law.note(PathState { snd_cwnd_pkts: 600, ..law.path });
            (law.capacity, law.advertises) = (40_000_000, true);
            (law.window_bytes, law.filled_bytes) = (law.window_for(law.capacity), law.window_for(law.capacity));
            law.readers.look(0, RTT_US, &[prompt_disk(30, 32 << 10)]);
            assert_eq!(law.idle(0, Some(rate)), idle, "{rate} B/s");
        }
    }

    /// By a request, of which W has half less than it may.
    #[test]
    fn no_queue_lets_w_grow_no_further_than_it_may() {
        let max_window_bytes = 200 << 10;
        let mut law = Notify { limits: Limits { max_window_bytes, ..Limits::default() }, ..cruising(0) };
        law.note(PathState { snd_cwnd_pkts: 600, command_window: 512, ..law.path });
        law.capacity = 40_000_000;
        law.window_bytes = max_window_bytes - (16 << 10);
        law.readers.look(0, RTT_US, &[prompt_disk(7, 32 << 10)]);
        law.adjust(&at(100));
        assert_eq!(law.window_bytes, max_window_bytes, "{}", law.reason);
    }

    /// What the slack holds for TCP is more than a short queue may be.
    #[test]
    fn of_what_is_advertised_where_c_arrives_two_steps_are_tried() {
        let mut law = cruising(0);
        (law.capacity, law.found.train, law.advertises) = (12_000_000, 12_000_000, true);
        law.path.mss_bytes = 1448;
        let window_bytes = law.window_for(law.capacity);
        law.window_bytes = window_bytes;
        law.grow(100 * RTT_US, window_bytes, 12_000_000, 0, 0, false);
        assert_eq!((law.window_bytes - window_bytes, law.slack_bytes()), (4_096, 6_000));
    }

    #[test]
    fn a_step_needs_the_rate_of_a_filled_window() {
        for (filled_trips, gained, trip) in [(96, 0, 108), (97, 0, 109), (110, 0, 122), (96, 1, 100), (110, 1, 114)] {
            // No train has shown C, and something waits.
            let mut law = cruising(18_000);
            (law.capacity, law.steps.gained) = (2_000_000, gained);
            law.window_bytes = law.window_for(law.capacity);
            law.read.short_us = filled_trips * RTT_US;
            let tried = (100..200).find(|&trip| {
                law.grow(trip * RTT_US, law.window_bytes, 2_000_000, 18_000, 18_000, false);
                law.trial.is_some()
            });
            assert_eq!(tried, Some(trip), "filled at {filled_trips}");
        }
    }

    #[test]
    fn a_request_more_where_a_queue_stands_is_taken_back_if_it_brings_nothing() {
        for (standing_us, brings, losses, shared, capacity) in [
            (0, 0, 0, false, None),
            (40_000, 0, 0, false, Some(1_850_000)),
            (40_000, 500_000, 0, false, None),
            (40_000, 500_000, 1, false, Some(1_850_000)),
            (40_000, 500_000, 1, true, Some(2_000_000)),
            (40_000, 0, 0, true, Some(2_000_000)),
        ] {
            let mut law = cruising(34_000);
            law.capacity = 2_000_000;
            let goal = law.window_for(law.capacity);
            law.window_bytes = goal;
            law.grow(100 * RTT_US, goal, 1_850_000, standing_us, 40_000, shared);
            assert_eq!((law.window_bytes, law.trial.is_some()), (goal + law.request(), standing_us > 0));
            law.read.losses.unanswered = losses;
            if let Some((aim, before)) = law.trial.take() {
                law.undone(aim, before, 200 * RTT_US, Some(1_850_000 + brings), shared);
            }
            assert_eq!((law.window_bytes > goal, law.capacity), (capacity.is_none(), capacity.unwrap_or(2_000_000)));
            assert_eq!(law.gaps.until_us == 0, capacity.is_none());
        }
    }

    /// The next page may show that it stands, of a request more and of steps. High is more than 34 ms here.
    #[test]
    fn nothing_is_tried_at_a_high_queue_that_one_page_shows() {
        for (rate, most, before_us, queue_us, grows) in [
            (1_850_000, false, 30_000, 34_100, false),
            (1_850_000, false, 30_000, 34_000, true),
            (1_850_000, false, 34_100, 30_000, true),
            (1_850_000, false, 34_100, 34_100, true),
            (1_000_000, true, 30_000, 34_100, false),
            (1_000_000, true, 34_100, 34_100, true),
        ] {
            let mut law = cruising(queue_us);
            (law.capacity, law.steps.gained) = (2_000_000, 1);
            let goal = law.window_for(law.capacity);
            law.window_bytes = goal + if most { law.slack_bytes() } else { 0 };
            let (window_bytes, queue_us) = (law.window_bytes, u64::from(queue_us));
            law.grow(100 * RTT_US, goal, rate, queue_us.min(before_us), queue_us.max(before_us), false);
            assert_eq!(law.window_bytes > window_bytes, grows, "{rate} B/s, {most}, {before_us} {queue_us} us");
        }
    }

    /// In parts of a hundred of W; whatever trains have shown.
    #[test]
    fn a_step_without_a_queue_is_an_eighth_or_half_of_what_is_missing() {
        for (train, rate, step) in [(2_000_000, 1_850_000, 12), (0, 1_850_000, 12), (2_000_000, 1_400_000, 21)] {
            let mut law = cruising(0);
            (law.capacity, law.found.train, law.request_bytes) = (2_000_000, train, 1 << 10);
            let goal = law.window_for(law.capacity);
            let before = goal + law.slack_bytes();
            law.window_bytes = before;
            law.grow(100 * RTT_US, goal, rate, 0, 0, false);
            assert_eq!((law.window_bytes - before) * 100 / before, step, "{rate} of {train} B/s");
        }
    }

    /// And never while readers do not use all of W.
    #[test]
    fn where_much_less_than_c_arrives_of_all_of_w_a_step_is_next() {
        for (queue_us, unfilled_trips, lately, first, ever) in [
            (0, 100, 0, true, true),
            (0, 1, 0, false, false),
            (6_000, 100, 0, false, true),
            (0, 100, 1_900_000, false, true),
        ] {
            let mut law = cruising(queue_us);
            (law.capacity, law.found.train) = (2_000_000, 2_000_000);
            let goal = law.window_for(law.capacity);
            law.window_bytes = goal;
            (90..100).for_each(|trip| law.meter.push(trip * RTT_US, carried(lately, trip * RTT_US)));
            let step = (100..130).position(|trip| {
                let now_us = trip * RTT_US;
                law.meter.push(now_us, carried(lately, now_us));
                law.unfilled_us = now_us - unfilled_trips * RTT_US;
                law.grow(now_us, goal, 1_500_000, queue_us.into(), queue_us.into(), false);
                law.trial.is_some()
            });
            assert_eq!((step == Some(0), step.is_some()), (first, ever), "{queue_us} us, {unfilled_trips}, {lately}");
        }
    }

    #[test]
    fn behind_a_loss_the_window_grows_to_what_fills_the_path() {
        for (kib, max_window_bytes, requests) in [(4, 1 << 30, 11), (1, 1 << 30, 39), (4, 32 << 10, 8)] {
            let limits = Limits { max_window_bytes, ..Limits::default() };
            let mut law = Notify { limits, ..cruising(0) };
            (law.capacity, law.found.train, law.request_bytes, law.read.losses.shallow) =
                (2_000_000, 2_000_000, kib << 10, true);
            let goal = law.window_for(law.capacity);
            law.window_bytes = 20_000;
            for trip in (100..500).step_by(10) {
                law.grow(trip * RTT_US, goal, 1_850_000, 3_000, 3_000, false);
            }
            // As many as fill the path, and one on its way; or no less than it holds.
            assert_eq!(law.window_bytes / law.request(), requests, "{kib} KiB");
        }
    }

    /// The path has held 40 kB, or 400 of the longer one; a second is 50 round trips, and five of the longer ones.
    #[test]
    fn w_does_not_stay_at_a_threshold_that_others_have_made() {
        for (window_bytes, lost_trip, rtt_us, started, forgotten, share, grows) in [
            (20_000, 100, RTT_US, false, 0, None, Some(151)),
            (20_000, 100, 10 * RTT_US, false, 0, None, Some(181)),
            (20_000, 120, RTT_US, false, 0, None, Some(171)),
            (20_000, 120, RTT_US, true, 0, None, Some(171)), // the latest start has lost it
            (20_000, 100, RTT_US, false, 1, None, Some(201)),
            (20_000, 100, RTT_US, false, 0, Some(1_000_000), None),
            (35_000, 100, RTT_US, false, 0, None, None),
        ] {
            let mut law = competing(0);
            (law.capacity, law.window_bytes, law.request_bytes) = (50 * window_bytes, window_bytes, 2 << 10);
            (law.path.min_rtt_us, law.path.srtt_us) = (rtt_us as u32, rtt_us as u32);
            let lost_us = lost_trip * RTT_US;
            if started {
                law.quiet.lost_us = lost_us;
            } else {
                law.read.losses.last_us = Some(lost_us);
            }
            (law.quiet.until_us, law.read.losses.forgotten) = (600 * RTT_US, forgotten);
            let (in_flight, request_bytes, max_depth) = (20, 2 << 10, 512);
            let disk = DiskState { reading: true, in_flight, request_bytes, max_depth, ..DiskState::default() };
            let grown = (lost_trip..250).find(|&trip| {
                let now_us = trip * RTT_US;
                law.readers.look(now_us, RTT_US, &[disk]);
                law.meter.push(now_us, window_bytes * trip);
                law.path.asked_us = now_us - rtt_us;
                law.cruise(&Input { path: Some(law.path), share, ..at(trip) });
                law.window_bytes > window_bytes || law.phase == Phase::Start
            });
            assert_eq!(grown, grows, "{window_bytes} bytes, {lost_trip} {rtt_us} us {started} {forgotten} {share:?}");
        }
    }

    /// For a second; what a link brings when it is full is no more than C, and a packet.
    #[test]
    fn w_does_not_stay_at_the_threshold_of_a_path_that_has_become_faster() {
        for (rate, unfilled, share, forgotten, started) in [
            (1_080_000, false, None, 0, None),
            (1_250_000, false, None, 0, Some(151)),
            (1_250_000, false, None, 1, Some(201)),
            (1_250_000, true, None, 0, None),
            (1_250_000, false, Some(1_000_000), 0, None),
        ] {
            let mut law = competing(0);
            law.read.losses.forgotten = forgotten;
            (law.capacity, law.request_bytes) = (1_000_000, 2 << 10);
            law.read.reached = law.capacity;
            law.window_bytes = carried(rate, RTT_US);
            (law.read.losses.last_us, law.quiet.until_us) = (Some(100 * RTT_US), 600 * RTT_US);
            let (in_flight, request_bytes, max_depth) = (12, 2 << 10, 512);
            let disk = DiskState { reading: true, in_flight, request_bytes, max_depth, ..DiskState::default() };
            let found = (80..250).find(|&trip| {
                let now_us = trip * RTT_US;
                law.readers.look(now_us, RTT_US, &[disk]);
                law.meter.push(now_us, carried(rate, now_us));
                law.path.asked_us = now_us - RTT_US;
                law.unfilled_us = if unfilled { now_us } else { 0 };
                trip >= 100 && {
                    law.cruise(&Input { path: Some(law.path), share, ..at(trip) });
                    law.phase == Phase::Start
                }
            });
            assert_eq!(found, started, "{rate} B/s {unfilled} {share:?} {forgotten}");
        }
    }

    /// With more W would grow where only cwnd has to.
    #[test]
    fn w_may_be_a_request_more_than_cwnd() {
        for (more, notsent_bytes, in_full) in [(1, 100_000, true), (2, 100_000, false), (2, 0, true)] {
            let mut law = competing(0);
            let disk = DiskState { reading: true, in_flight: 20, request_bytes: 32 << 10, ..DiskState::default() };
            law.readers.look(RTT_US, RTT_US, &[disk]);
            (law.path.snd_cwnd_pkts, law.path.mss_bytes, law.path.notsent_bytes) = (1 << 9, 1 << 10, notsent_bytes);
            law.window_bytes = (1 << 19) + more * law.request();
            assert_eq!(law.asked_in_full(), in_full, "{more} requests, {notsent_bytes} bytes");
        }
    }

    /// BBR looks for the least round trip with four packets; a path that has become slower has a cwnd of a few for good.
    #[test]
    fn what_little_cwnd_lets_through_for_a_moment_is_not_what_the_path_carries() {
        // The rate is known from trip 104 on.
        for (snd_cwnd_pkts, cut_trip) in [(4, 150), (30, 104)] {
            let mut law = cruising(20_000);
            (law.capacity, law.request_bytes, law.path.snd_cwnd_pkts) = (2_000_000, 4 << 10, snd_cwnd_pkts);
            let before = law.window_for(law.capacity);
            law.window_bytes = before;
            let cut = (100..200).find(|&trip| {
                law.meter.push(trip * RTT_US, carried(500_000, trip * RTT_US));
                (law.last_queue_us, law.path.asked_us) = (20_000, (trip - 1) * RTT_US);
                law.cruise(&Input { path: Some(law.path), ..at(trip) });
                law.window_bytes < before
            });
            assert_eq!(cut, Some(cut_trip), "{snd_cwnd_pkts} packets");
        }
    }

    #[test]
    fn a_step_that_fails_tells_what_arrives() {
        for (rate, losses, capacity) in
            [(2_030_000, 0, 2_030_000), (1_980_000, 0, 2_000_000), (2_030_000, 1, 2_000_000), (1_500_000, 0, 2_000_000)]
        {
            let mut law = cruising(2_000);
            (law.capacity, law.window_bytes, law.read.losses.unanswered) = (2_010_000, 80_000, losses);
            let before =
                Before { rate: 2_000_000, window_bytes: 70_000, capacity: 2_010_000, late_us: 0, srtt_us: 22_000 };
            assert!(law.undone(Aim::More, before, 200 * RTT_US, Some(rate), false));
            assert_eq!((law.capacity, law.window_bytes), (capacity, 70_000), "{rate} B/s, {losses} losses");
        }
    }

    #[test]
    fn patience_near_by_is_a_second_and_doubles() {
        let mut patience = Patience::default();
        patience.lose(20_000_000, 2_000);
        assert_eq!(patience.until_us, 21_000_000);
        patience.lose(21_500_000, 2_000);
        assert_eq!(patience.until_us, 23_500_000);
        patience.at_least(29_999_000);
        patience.lose(30_000_000, 100_000);
        assert_eq!(patience.until_us, 35_000_000, "not soon after it failed");
    }

    /// Among others, who had nothing when 2 MB/s arrived; neither cwnd nor commands are few.
    fn competing(queue_us: u32) -> Notify {
        let mut law = cruising(queue_us);
        law.read.reached = 2_000_000;
        (law.path.snd_cwnd_pkts, law.path.command_window, law.path.notsent_bytes) = (200, 512, 100_000);
        law.readers.look(0, RTT_US, &[DiskState { reading: true, max_depth: 512, ..DiskState::default() }]);
        law
    }

    #[test]
    fn who_has_lost_some_of_the_path_asks_for_half_of_it() {
        for (rate, lost) in [(1_000_000, true), (2_000_000, true), (1_000_000, false)] {
            let mut law = competing(2 * RTT_US as u32);
            (law.capacity, law.floor_us) = (2_000_000, 3 * RTT_US);
            let now_us = 100 * RTT_US;
            law.read.losses.last_us = lost.then_some(now_us);
            let goal = law.window_for(law.capacity);
            law.compete(now_us, goal, Some(rate));
            // Half of what the path and its queue hold.
            let half = carried(1_000_000, 3 * RTT_US) + law.slack_bytes();
            assert_eq!(law.window_bytes, if rate < 2_000_000 && lost { half } else { goal });
        }
    }

    /// 54 ms of it are what W has less, of the 40 that wait: others' queue would be gone; and 21 ms of what 60 packets of cwnd, or
    /// readers, had let through before. Fifty of the longer round trips are 150.
    #[test]
    fn a_queue_that_half_of_the_path_leaves_as_it_is_is_the_paths_length() {
        let all = (200, 512, 185_000, 0);
        for (was, meanwhile, told_trip, less_us, lost_trip, own, short, longer) in [
            (all, (0, 1_000_000), 250, 0, 100, false, false, true),
            (all, (0, 1_000_000), 250, 2_499, 100, false, false, true),
            (all, (0, 1_000_000), 250, 2_500, 100, false, false, false),
            ((60, 512, 185_000, 0), (0, 1_000_000), 250, 1_351, 100, false, false, true),
            ((60, 512, 185_000, 0), (0, 1_000_000), 250, 1_352, 100, false, false, false),
            ((200, 14, 185_000, 0), (0, 1_000_000), 250, 1_196, 100, false, false, true),
            ((200, 14, 185_000, 0), (0, 1_000_000), 250, 1_197, 100, false, false, false),
            ((200, 512, 114_688, 0), (0, 1_000_000), 250, 1_197, 100, false, false, false),
            ((200, 512, 185_000, 2), (0, 1_000_000), 250, 0, 100, false, false, false), // what waits, waits for a slot
            (all, (0, 1_000_000), 249, 0, 100, false, false, false),                    // others may overflow it
            (all, (5_000, 1_000_000), 250, 0, 100, false, false, false),                // it was shorter
            (all, (0, 2_000_000), 250, 0, 100, false, false, false),                    // W was for more
            (all, (0, 1_000_000), 106, 0, 100, false, true, true), // no queue of two requests is as long
            (all, (0, 1_000_000), 105, 0, 100, false, true, false), // what was cut away may still be in it
            (all, (0, 1_000_000), 106, 0, 106, false, true, false), // the page tells of it
            (all, (0, 1_000_000), 106, 9_999, 106, true, false, true),
            (all, (0, 1_000_000), 106, 10_000, 106, true, false, false),
        ] {
            let (snd_cwnd_pkts, in_flight, filled_bytes, slots) = was;
            let mut law = competing(2 * RTT_US as u32);
            (law.capacity, law.floor_us, law.request_bytes) = (2_000_000, 3 * RTT_US, 8 << 10);
            (law.path.snd_cwnd_pkts, law.window_bytes, law.filled_bytes) = (snd_cwnd_pkts, 185_000, filled_bytes);
            (law.read.losses.shallow, law.read.losses.lossy_until_us) = (short, own.then_some(105 * RTT_US));
            law.slots.trip_us = slots * RTT_US;
            law.readers.look(0, RTT_US, &[prompt_disk(in_flight, 8 << 10)]);
            for trip in 100..=told_trip {
                law.read.losses.last_us = Some(if trip == told_trip { lost_trip } else { 100 } * RTT_US);
                law.rivals.until_us = 300 * RTT_US;
                let (less_us, rate) = match trip {
                    _ if trip == told_trip => (less_us, 1_000_000),
                    120.. => meanwhile,
                    _ => (0, 1_000_000),
                };
                (law.path.srtt_us, law.path.asked_us) = (3 * RTT_US as u32 - less_us, trip * RTT_US);
                law.compete(trip * RTT_US, law.window_for(law.capacity), Some(rate));
            }
            let now_us = told_trip * RTT_US;
            assert_eq!(law.lengthened(now_us), longer, "{was:?} {meanwhile:?} {told_trip} {less_us} us, {own} {short}");
            assert_eq!(law.rivals.until_us > now_us, !longer);
            assert_eq!((law.whole_queue_us() == 0, law.lossy(now_us)), (longer, own && longer));
            assert!(!longer || law.read.gives.is_none());
        }
    }

    /// W is for all of the path again then, and a queue that it leaves as it was tells nothing.
    #[test]
    fn a_queue_that_stays_once_others_are_gone_is_no_longer_path() {
        let tells = |law: &Notify| law.read.gives.is_some_and(|halved| halved.emptied_us > 0);
        let mut law = competing(2 * RTT_US as u32);
        (law.capacity, law.floor_us, law.request_bytes) = (2_000_000, 3 * RTT_US, 8 << 10);
        (law.window_bytes, law.filled_bytes, law.quiet.until_us) = (185_000, 185_000, u64::MAX);
        law.read.losses.last_us = Some(100 * RTT_US);
        law.readers.look(0, RTT_US, &[prompt_disk(512, 8 << 10)]);
        for (trip, rivals) in [(100, true), (101, false), (250, true)] {
            law.rivals.until_us = if rivals { 300 * RTT_US } else { 0 };
            law.meter.clear();
            (0..=20).for_each(|n| law.meter.push((trip - 20 + n) * RTT_US, carried(1_000_000, n * RTT_US)));
            law.path.asked_us = trip * RTT_US;
            law.adjust(&at(trip));
            assert_eq!((law.read.gives.is_some(), tells(&law)), (rivals, rivals));
        }
        assert!(!law.lengthened(250 * RTT_US));
        // Nor if something else has changed W.
        law.trial = Some((Aim::More, law.before(1_000_000)));
        law.adjust(&at(251));
        assert!(!tells(&law));
    }

    #[test]
    fn half_of_the_path_counts_with_the_queue_that_others_make() {
        let mut law = competing(4 * RTT_US as u32);
        law.capacity = 500_000;
        law.read.losses.last_us = Some(100 * RTT_US);
        law.capacity = law.others(100 * RTT_US, law.capacity);
        assert_eq!(law.capacity, 2_000_000);
        law.compete(100 * RTT_US, law.window_for(law.capacity), Some(500_000));
        assert_eq!(law.window_bytes, carried(1_000_000, 5 * RTT_US) + law.slack_bytes());
    }
}
