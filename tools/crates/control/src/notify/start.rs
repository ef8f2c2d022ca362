// SPDX-License-Identifier: GPL-2.0-only
//! **Start**: the path's rate C, from the trains in which packets arrive.

use std::collections::VecDeque;

use super::bunches::BUNCH_LOOKS;
use super::cruise::{much_slower, slower};
use super::{MAX_RTT_US, Notify, Phase, RECOVERY_TRIPS, REPAIR_TRIPS, START_PAGE_US};
use crate::Input;

/// Round trips without a faster train after which the start is over: a paced sender's trains double with its cwnd.
const SETTLE_TRIPS: u64 = 2;
/// In slots: one to ask, one for it to come, and up to two over which the rate is taken.
const SLOTS_TRIPS: u64 = 4;
/// So many times as long after which it is over though less arrives: TCP recovers from losses.
const PATIENCE_TIMES: u64 = 5;
/// Finest look at the counters.
pub(super) const LOOK_US: u64 = 100;
/// So many of these in a round trip are fine enough for trains, and so many bytes are enough.
const BLIND_LOOKS: u64 = 40;
const BLIND_BYTES: u64 = 32 << 10;
/// Where so many requests or more fill a path that is too near for that, trains do not tell all of it.
const COARSE_REQUESTS: u64 = 4;
/// From this round-trip time on the start keeps up with TCP's slow start. Nearer, as many bytes come in less time than looks
/// and TCP's own bursts tell apart: on short queues that lost more than it won.
const FAR_US: u64 = 55_000;
/// The start does not wait for older requests than this to tell its rate: at the finest look the meter holds no more.
const MOST_AGE_US: u64 = 100_000;

/// What the latest start has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// C when it began.
    pub(super) known: u64,
    /// What its trains have shown of C, and the fastest of them.
    proven: u64,
    pub(super) train: u64,
    /// (time in us, C) of its latest one and a half round trips.
    pub(super) lately: VecDeque<(u64, u64)>,
    /// Since when W has been what the trains ask for.
    full_us: Option<u64>,
    /// Successive pages with too long a queue.
    queued_trips: u32,
    /// C still doubled before the latest hole.
    pub(super) doubled: bool,
}

impl Found {
    /// With C as it is known so far.
    pub(super) fn new(capacity: u64) -> Self {
        Self { known: capacity, proven: capacity, ..Self::default() }
    }
}

impl Notify {
    /// One look: C, W for it, and whether the start is over.
    pub(super) fn start(&mut self, input: &Input<'_>) {
        if input.path.is_some() && self.capacity > 0 {
            self.fit_late(input.now_us);
        }
        self.find(input.now_us);
        if input.path.is_some() && self.capacity > 0 {
            self.fit_slots(input);
        }
        let goal = self.window_for(self.capacity);
        // Where trains show nothing, more than C arrives only if it is asked for. While C doubles, what they have shown of it is
        // a part of a round trip old; and far away a question is always on its way, in the place of a request of a few. What
        // is advertised beyond C a short queue has to hold.
        let (ahead, question_bytes) = if self.advertises {
            (self.capacity / 16, 0)
        } else if self.blind() {
            (if self.coarse() { self.request_rate().max(self.capacity / 8) } else { self.capacity / 4 }, 0)
        } else if self.doubles() && !self.fine() {
            (self.capacity / 8, if self.far() { self.request() } else { 0 })
        } else {
            (0, 0)
        };
        self.window_bytes = (self.model_bytes(self.capacity + ahead) + question_bytes).min(self.bound());
        self.fill(input);
        let slots = if self.in_slots() { format!(", slots of {} us", self.slot_us()) } else { String::new() };
        self.reason = format!("filling {} kB at {} kB/s{slots}", goal / 1000, self.capacity / 1000);

        if input.path.is_some() {
            if self.blind() && !self.coarse() && self.capacity / 5 >= self.capacity_before() / 4 {
                // The path had room: what made packets wait was no queue, but for the half of the request they came with.
                self.floor_us = u64::from(self.path.srtt_us).saturating_sub(self.request_us() / 2);
            }
            self.found.queued_trips =
                if self.queue_us() > self.queue_high_us() { self.found.queued_trips + 1 } else { 0 };
        }
        let losses = std::mem::take(&mut self.read.losses.unanswered);
        let congested = losses > 0;
        let overdrawn = self.overdrawn(input.now_us);
        let overflowed = congested && (overdrawn || !self.lost_by_chance());
        if congested {
            self.pause_growth(input.now_us);
        }
        if congested && !overdrawn {
            self.own_losses(input, losses);
            if !overflowed {
                self.interrupted(input);
            } else if 2 * self.filled_bytes > goal {
                // No queue holds less than has waited in it.
                self.read.losses.shallow |= self.queue_us() <= self.slack_us();
                if self.bursts() {
                    self.quiet.lose_little(input.now_us);
                } else {
                    self.quiet.lose(input.now_us, self.rtt_us());
                }
            }
        }
        if self.lossy(input.now_us) && self.capacity > 0 {
            self.enter(Phase::Cruise, "losses while starting".into());
            return;
        }
        // In slots all that is ahead of C is to show it.
        let full_bytes = if self.in_slots() && self.asked() { self.window_bytes } else { goal };
        let filled =
            self.filled_bytes + self.request() > full_bytes || overflowed && self.blocked(input.now_us, RECOVERY_TRIPS);
        if self.capacity == 0 || !filled || !self.undrained(input) {
            return; // A loss from less is the path's own.
        }
        let trip_us = self.rtt_us().max(self.ages.latest_us().unwrap_or(0).min(MOST_AGE_US));
        let rate = self.average(trip_us);
        let full_us = input.now_us - *self.found.full_us.get_or_insert(input.now_us);
        // Near by some round trips are less than what a host or a disk is late now and then; and pages tell of a queue.
        let least_us = if self.looks_finely() { 0 } else { 2 * START_PAGE_US };
        let (settle_trips, held) =
            if self.in_slots() { (SLOTS_TRIPS, !self.let_through()) } else { (SETTLE_TRIPS, false) };
        let settle_us = (settle_trips * trip_us).max(least_us);
        let settled = full_us >= settle_us && !held;
        if overflowed {
            // A step too far is taken back.
            self.capacity = self.capacity.min(self.found.proven.max(rate.unwrap_or(0)));
            self.enter(Phase::Cruise, format!("loss at {} kB while starting", goal / 1000));
            if !overdrawn {
                self.window_bytes = self.backed_off(input.now_us);
            }
        } else if self.found.queued_trips >= 2 {
            self.enter(Phase::Cruise, format!("a queue of {} us while starting", self.queue_us()));
        } else if settled && rate.is_some_and(|rate| !much_slower(rate, self.capacity) || !self.recovers())
            || full_us >= PATIENCE_TIMES * settle_us
        {
            self.correct(rate);
            self.enter(Phase::Cruise, format!("full at {} kB/s", self.capacity / 1000));
        }
    }

    /// C is what came of a request of each of several disks, all at once, which may be far less than the path carries; no train has
    /// told, and it was not known before.
    fn bursts(&self) -> bool {
        self.read.advertised.several && self.has_grown() && much_slower(self.found.train, self.capacity)
    }

    /// C has grown by a third since Start began.
    fn has_grown(&self) -> bool {
        self.found.known < self.capacity / 4 * 3
    }

    /// Less may arrive than trains have shown, if they have, for what TCP has lost in this read, or does not let through yet.
    fn recovers(&self) -> bool {
        let told = self.counts_packets && self.path.asked_us >= self.read.began_us;
        !told
            || much_slower(self.found.train, self.capacity)
            || self.read.holes.last_us.is_some()
            || self.path.cwnd_bytes() < self.path_bytes()
    }

    /// A link that is busy all the time, with a request or more waiting for it, brings what it carries, give or take a packet
    /// and what a round trip leaves open; trains may err by more, but by no sixteenth. Where they show nothing, all comes in
    /// slots, and no round trip is like the other; where what is asked for is late, less may come than the link carries.
    fn correct(&mut self, rate: Option<u64>) {
        let busy = self.queue_us() > self.request_us() && !self.late();
        let Some(rate) = rate.filter(|_| busy && self.counts_packets && !much_slower(self.found.train, self.capacity))
        else {
            return;
        };
        let most = rate.saturating_add(rate / 64).saturating_add(self.packet_rate());
        if slower(most, self.capacity) && most >= self.capacity / 16 * 15 {
            self.capacity = most;
        }
    }

    /// Where nothing waits for TCP, what completes is older than the page by what it has waited elsewhere. The least counts: a
    /// disk that is slow, not late, takes the longer the more it is asked. Far away a request may be more than cwnd, and wait
    /// for it from page to page: there only one counts that was asked for since pages tell of nothing that waits.
    pub(super) fn fit_late(&mut self, now_us: u64) {
        let page_us = now_us.saturating_sub(self.path.asked_us).max(self.slots.trip_us);
        let part = if self.far() { self.request().min(self.path.cwnd_bytes() / 4) } else { self.request() };
        let waits = self.advertises
            || u64::from(self.path.notsent_bytes) >= part
            || self.queue_us() >= self.queue_low_us()
            || page_us > self.trip_us() / 8 * 9 + self.request_us();
        if waits {
            self.read.clear_us = None;
            return;
        }
        let clear_us = now_us - *self.read.clear_us.get_or_insert(now_us);
        if let Some(age_us) = self.ages.latest_us().filter(|&age_us| !self.far() || age_us <= clear_us) {
            let late_us = age_us.min(MAX_RTT_US).saturating_sub(page_us.saturating_add(self.request_us()));
            self.read.late_us = if self.read.late_known { self.read.late_us.min(late_us) } else { late_us };
            self.read.late_known = true;
        }
    }

    /// C, from the trains in which packets arrive.
    fn find(&mut self, now_us: u64) {
        let span_us = self.rtt_us() * 3 / 2;
        // Whoever shares the path has lost something as well, and takes less for a moment.
        if !self.held_back(now_us, (REPAIR_TRIPS + 1) * self.trip_us()) {
            let rtt_us = self.rtt_us();
            let part_us = self.bunch_us() / 4;
            let bunch_looks = 2 * part_us / LOOK_US.max(now_us - self.last_tick_us);
            let (pause_us, least_us) = if self.fine() { (part_us, part_us) } else { (rtt_us / 8, rtt_us / 16) };
            // TCP sends two packets at once, at least; nearer what that is of a train is no more than it errs by.
            let burst_bytes = if self.far() { 2 } else { 1 } * u64::from(self.path.mss_bytes);
            let train = self.meter.train(pause_us, least_us, rtt_us / 4, burst_bytes);
            self.found.train = self.found.train.max(train.unwrap_or(0));
            let average = self.average(rtt_us).unwrap_or(0).saturating_sub(self.packet_rate());
            let unseen = now_us - self.read.bunches.train_us > span_us;
            if train.is_some() {
                self.read.bunches.train_us = now_us;
            } else if self.fine() && unseen && bunch_looks >= BUNCH_LOOKS && average > self.capacity / 2 {
                // Bunches show nothing either.
                (self.read.bunches.slots, self.read.bunches.grown_us) = (true, None);
            }
            // A packet is little in the longer time that this is taken over; a round trip may hold no more.
            let seen = train.unwrap_or(0).max(average).max(self.rate().unwrap_or(0));
            if seen > self.capacity {
                (self.capacity, self.found.proven, self.found.full_us) = (seen, seen, None);
            }
            self.found.doubled = self.doubles();
        } else {
            self.read.bunches.train_us = now_us;
        }
        self.found.lately.push_back((now_us, self.capacity));
        while self.found.lately.front().is_some_and(|&(t, _)| now_us - t > span_us) {
            self.found.lately.pop_front();
        }
        if self.grows() {
            self.read.bunches.grown_us = Some(now_us);
        }
    }

    /// Trains have not shown half of a C that has grown by a third, or bunches none at all, though looks are fine enough, and
    /// packets were enough: all comes in slots. Or looks are too coarse.
    pub(super) fn blind(&self) -> bool {
        self.phase == Phase::Start
            && self.has_grown()
            && self.counts_packets
            && (self.coarse()
                || (self.found.train < self.capacity / 2 || self.read.bunches.slots)
                    && self.looks_finely()
                    && self.bdp_bytes() >= BLIND_BYTES)
    }

    /// Looks are too coarse for trains to tell all of a path that holds some requests. On a fast one what the slack asks for
    /// beyond C is all with responses that wait for each other, at the pace that the target sends them: nothing tells that it
    /// carries more.
    fn coarse(&self) -> bool {
        !self.looks_finely()
            && self.read.late_us < self.rtt_us() / 2
            && self.bdp_bytes() >= COARSE_REQUESTS * self.request()
    }

    /// Trains have told C, and all that is asked for is on the path.
    pub(super) fn trains_tell(&self) -> bool {
        self.looks_finely() && !self.late() && !much_slower(self.found.train, self.capacity)
    }

    /// Looks are fine enough for trains.
    pub(super) fn looks_finely(&self) -> bool {
        self.rtt_us() >= BLIND_LOOKS * LOOK_US
    }

    /// C has grown by half in one and a half round trips.
    pub(super) fn doubles(&self) -> bool {
        self.phase == Phase::Start && self.capacity / 3 >= self.capacity_before() / 2
    }

    /// The start has just ended.
    pub(super) fn has_started(&self, now_us: u64) -> bool {
        self.found.lately.back().is_some_and(|&(us, _)| now_us - us <= RECOVERY_TRIPS * self.trip_us())
    }

    /// C one and a half round trips ago, or when the start began.
    pub(super) fn capacity_before(&self) -> u64 {
        self.found.lately.front().map_or(self.capacity, |&(_, capacity)| capacity)
    }

    /// Finest look at the counters that is worth while: a hundredth of a round trip, a tenth of a bunch of requests, and no
    /// load on the machine.
    pub(super) fn fine_us(&self) -> u64 {
        (self.rtt_us() / if self.fine() { self.fine_looks() } else { 100 }).clamp(LOOK_US, 5_000)
    }

    /// The start keeps up with slow start: each round trip counts, and so does each packet.
    pub(super) fn far(&self) -> bool {
        self.rtt_us() >= FAR_US && self.counts_packets
    }

    /// S: cwnd when what is asked for now gets to the target, if TCP is in slow start, which a far start keeps up with: each
    /// byte that has arrived since the page was made lets one more through.
    pub(super) fn slow_start_bytes(&self) -> Option<u64> {
        if self.phase != Phase::Start || !self.far() {
            return None;
        }
        let ssthresh_bytes = u64::from(self.path.ssthresh_pkts) * u64::from(self.path.mss_bytes);
        let acked = self.received.bytes.saturating_sub(self.path.bytes_acked);
        let bytes = self.path.cwnd_bytes().saturating_add(acked);
        (bytes < ssthresh_bytes).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cruise::tests::prompt_disk;
    use super::*;
    use crate::rate::carried;
    use crate::{Limits, PathState};

    const TRIP_US: u64 = 200_000;
    const REQUEST_BYTES: u32 = 128 << 10;

    /// Pages of (how much waits for TCP, the age of what has completed last, in round trips), a round trip apart.
    fn late_trips(pages: &[(u32, u64)]) -> u64 {
        let mut law = Notify::new(Limits::default());
        (law.phase, law.capacity, law.request_bytes, law.counts_packets) =
            (Phase::Start, 12_500_000, REQUEST_BYTES, true);
        for (now_us, &(notsent_bytes, age)) in (10 * TRIP_US..).step_by(TRIP_US as usize).zip(pages) {
            let (min_rtt_us, srtt_us) = (TRIP_US as u32, TRIP_US as u32);
            let (snd_cwnd_pkts, mss_bytes) = (100, 1448);
            let asked_us = now_us - TRIP_US;
            law.note(PathState {
                asked_us,
                min_rtt_us,
                srtt_us,
                snd_cwnd_pkts,
                mss_bytes,
                notsent_bytes,
                ..PathState::default()
            });
            law.ages.clear();
            law.ages.push(now_us - age * TRIP_US, 2, 0);
            law.ages.push(now_us, 1, 1);
            law.fit_late(now_us);
        }
        law.read.late_us.div_ceil(TRIP_US)
    }

    #[test]
    fn a_path_that_holds_a_packet_is_found() {
        let (min_rtt_us, mss_bytes) = (1_000, 1448);
        let mut law = Notify::new(Limits::default());
        law.phase = Phase::Start;
        law.note(PathState { min_rtt_us, srtt_us: min_rtt_us, mss_bytes, ..PathState::default() });
        for us in (0..200_000).step_by(100) {
            law.meter.push(us + 1, us / 1_158 * 1448);
            law.find(us + 1);
        }
        assert!((1_200_000..1_300_000).contains(&law.capacity), "{}", law.capacity);
    }

    #[test]
    fn what_trains_err_by_is_corrected_by_what_arrives() {
        let capacity = |train, rate, queue_us, late_us| {
            let mut law = Notify::new(Limits::default());
            let (min_rtt_us, srtt_us) = (TRIP_US as u32, TRIP_US as u32 + queue_us);
            law.note(PathState { min_rtt_us, srtt_us, ..PathState::default() });
            (law.capacity, law.found.train, law.request_bytes) = (10_500_000, train, REQUEST_BYTES);
            (law.read.late_us, law.counts_packets) = (late_us, true);
            law.correct(Some(rate));
            law.capacity
        };
        assert_eq!(capacity(10_500_000, 10_000_000, 20_000, 0), 10_156_250);
        for (train, rate, queue_us, late_us, what) in [
            (10_500_000, 10_300_000, 20_000, 0, "as trains tell"),
            (10_500_000, 9_500_000, 20_000, 0, "no error of trains"),
            (5_000_000, 10_000_000, 20_000, 0, "no trains"),
            (10_500_000, 10_000_000, 5_000, 0, "not busy"),
            (10_500_000, 10_000_000, 20_000, TRIP_US / 8, "late"),
        ] {
            assert_eq!(capacity(train, rate, queue_us, late_us), 10_500_000, "{what}");
        }
    }

    /// What is with a late disk is found in Cruise; TCP that recovers, or grows, is waited for.
    #[test]
    fn less_than_trains_tell_is_waited_for_while_tcp_is_the_reason() {
        let began_us = 1_000_000;
        for (snd_cwnd_pkts, hole_us, asked_us, train, trips) in [
            (300, None, began_us, 12_500_000, 2),
            (100, None, began_us, 12_500_000, 10),
            (300, Some(0), began_us, 12_500_000, 10),
            (300, None, 0, 12_500_000, 10),
            (300, None, began_us, 8_000_000, 10),
        ] {
            let (rtt_us, mss_bytes, request_bytes) = (20_000, 1448, 16 << 10);
            let mut law = Notify::new(Limits::default());
            let (min_rtt_us, srtt_us, command_window) = (rtt_us, rtt_us, 512);
            law.note(PathState {
                asked_us,
                min_rtt_us,
                srtt_us,
                snd_cwnd_pkts,
                mss_bytes,
                command_window,
                ..PathState::default()
            });
            (law.capacity, law.request_bytes) = (12_500_000, request_bytes);
            law.enter(Phase::Start, String::new());
            law.found.train = train;
            law.filled_bytes = law.window_for(law.capacity);
            (law.read.holes.last_us, law.counts_packets) = (hole_us, true);
            let disk = prompt_disk((law.filled_bytes / law.request()) as u32, request_bytes);
            (law.read.began_us, law.moving_us, law.last_tick_us) = (began_us, began_us, began_us);
            let over_us = (began_us..).step_by(1_000).find(|&now_us| {
                law.meter.push(now_us, carried(10_000_000, now_us));
                law.done_bytes = 10_000;
                law.readers.look(now_us, rtt_us.into(), &[disk]);
                law.start(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
                law.last_tick_us = now_us;
                law.phase == Phase::Cruise
            });
            let over_trips = (over_us.unwrap_or(0) - began_us) / u64::from(rtt_us);
            assert_eq!(over_trips, trips, "{snd_cwnd_pkts} packets, {hole_us:?}, {asked_us} us, {train} B/s");
        }
    }

    /// Slots make a round trip of 5 ms one of 20: in one all that is let through is asked for, in the next it comes, and over two
    /// the rate is taken. What cwnd does not let through tells nothing of the path, but that is waited for no longer than five
    /// times as long.
    #[test]
    fn in_slots_a_start_lasts_until_what_was_asked_for_has_come() {
        for (trip_us, snd_cwnd_pkts, trips) in [(0, 300, 2), (20_000, 300, 4), (20_000, 100, 20)] {
            let (min_rtt_us, srtt_us, command_window) = (5_000, 12_500, 512);
            let mut law = Notify::new(Limits::default());
            law.note(PathState {
                min_rtt_us,
                srtt_us,
                snd_cwnd_pkts,
                command_window,
                mss_bytes: 1448,
                ..PathState::default()
            });
            (law.capacity, law.request_bytes, law.slots.trip_us) = (12_500_000, 16 << 10, trip_us);
            law.enter(Phase::Start, String::new());
            law.counts_packets = true;
            let began_us = 1_000_000;
            (law.read.began_us, law.moving_us, law.last_tick_us) = (began_us, began_us, began_us);
            let over_us = (began_us..began_us + 1_000_000).step_by(1_000).find(|&now_us| {
                law.meter.push(now_us, carried(12_500_000, now_us));
                (law.filled_bytes, law.done_bytes) = (law.model_bytes(law.capacity), 10_000);
                let disk = prompt_disk((law.filled_bytes / law.request()) as u32, law.request_bytes);
                law.readers.look(now_us, law.rtt_us(), &[disk]);
                law.start(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
                law.last_tick_us = now_us;
                law.phase == Phase::Cruise
            });
            let over_trips = (over_us.unwrap_or(0) - began_us) / law.rtt_us().max(5_000);
            assert_eq!(over_trips, trips, "{trip_us} us, {snd_cwnd_pkts} packets");
        }
    }

    /// The slack is 2.6 ms.
    #[test]
    fn a_loss_of_most_of_w_shows_a_queue_that_holds_no_more_than_what_waits() {
        for (requests, before, queue_us, overflows, shallow) in [
            (15, false, 1_000, true, true),
            (15, false, 3_000, true, false),
            (15, true, 3_000, true, true),
            (1, false, 1_000, false, false),
        ] {
            let (now_us, rtt_us, request_bytes) = (1_000_000, 20_000, 16 << 10);
            let mut law = Notify::new(Limits::default());
            let (min_rtt_us, srtt_us, command_window) = (rtt_us, rtt_us + queue_us, 512);
            law.note(PathState { min_rtt_us, srtt_us, command_window, mss_bytes: 1448, ..PathState::default() });
            (law.capacity, law.request_bytes, law.counts_packets) = (12_500_000, request_bytes, true);
            law.enter(Phase::Start, String::new());
            (law.filled_bytes, law.last_tick_us, law.moving_us) = (requests * law.request(), now_us, now_us);
            (law.read.losses.unanswered, law.read.losses.shallow) = (1, before);
            let disk = prompt_disk(requests as u32, request_bytes);
            law.readers.look(now_us, rtt_us.into(), &[disk]);
            law.start(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
            let waits = law.quiet.until_us >= now_us + 1_000_000;
            assert_eq!(
                (waits, law.read.losses.shallow),
                (overflows, shallow),
                "{requests} requests, {before}, {queue_us} us"
            );
        }
    }

    /// What several disks asked for at once is no threshold for long, where nothing else has told C.
    #[test]
    fn a_loss_of_a_burst_is_waited_for_as_long_as_its_repair() {
        for (several, known, train, trips) in [
            (true, 5_000_000, 0, 8),
            (true, 5_000_000, 10_900_000, 8),
            (true, 5_000_000, 11_000_000, 50),
            (true, 9_400_000, 0, 50),
            (false, 5_000_000, 0, 50),
        ] {
            let (now_us, rtt_us, request_bytes) = (1_000_000, 50_000, 16 << 10);
            let mut law = Notify::new(Limits::default());
            let (min_rtt_us, srtt_us, command_window) = (rtt_us, rtt_us, 512);
            law.note(PathState { min_rtt_us, srtt_us, command_window, mss_bytes: 1448, ..PathState::default() });
            law.enter(Phase::Start, String::new());
            (law.capacity, law.request_bytes, law.counts_packets) = (12_500_000, request_bytes, true);
            (law.read.advertised.several, law.found.known, law.found.train) = (several, known, train);
            law.filled_bytes = law.window_for(law.capacity);
            (law.last_tick_us, law.moving_us, law.read.losses.unanswered) = (now_us, now_us, 1);
            if trips == 8 {
                law.quiet.lose(0, 200_000); // long ago, and for long
                law.quiet.until_us = 0;
            }
            let disk = prompt_disk(45, request_bytes);
            law.readers.look(now_us, rtt_us.into(), &[disk]);
            law.start(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
            let waited_us = law.quiet.until_us - now_us;
            assert_eq!((waited_us / law.rtt_us(), law.quiet.lost_us), (trips, now_us), "{several} {known} {train}");
            assert!(trips == 50 || !law.quiet.lose(now_us + rtt_us as u64, 1), "nor is the next one soon after it");
        }
    }

    /// And is no threshold; but where C doubled TCP decides. The slack is 2.6 ms, a queue of 0.4 ms may run empty.
    #[test]
    fn a_loss_by_chance_does_not_end_it_unless_it_ended_slow_start() {
        for (lost_us, doubled, shared, starts, tcp_decides) in [
            (20_000, true, false, false, true),
            (20_000, true, true, true, false),
            (20_000, false, false, true, false),
            (20_800, true, false, false, false),
        ] {
            let (now_us, rtt_us, request_bytes) = (1_000_000, 20_000, 16 << 10);
            let mut law = Notify::new(Limits::default());
            let (min_rtt_us, srtt_us, command_window) = (rtt_us, rtt_us, 512);
            let reduced_rtt_us = lost_us;
            law.note(PathState {
                min_rtt_us,
                srtt_us,
                reduced_rtt_us,
                command_window,
                mss_bytes: 1448,
                ..PathState::default()
            });
            (law.capacity, law.request_bytes, law.counts_packets) = (12_500_000, request_bytes, true);
            law.enter(Phase::Start, String::new());
            (law.found.train, law.found.doubled) = (law.capacity, doubled);
            law.filled_bytes = law.window_for(law.capacity);
            (law.last_tick_us, law.moving_us) = (now_us, now_us);
            (law.read.losses.unanswered, law.read.holes.last_us) = (1, Some(now_us));
            let disk = prompt_disk(17, request_bytes);
            law.readers.look(now_us, rtt_us.into(), &[disk]);
            let share = shared.then_some(law.capacity);
            law.start(&Input { now_us, path: None, received: None, share, disks: &[disk] });
            let waits = law.quiet.until_us >= now_us + 1_000_000;
            let threshold = !starts && !tcp_decides;
            let found = (law.phase == Phase::Start, law.read.losses.shallow, waits, law.lossy(now_us));
            let expected = (starts, threshold, threshold, tcp_decides);
            assert_eq!(found, expected, "{lost_us} us, doubled {doubled}, shared {shared}");
        }
    }

    #[test]
    fn what_comes_soon_after_a_hole_tells_nothing() {
        for (trips, tells) in [(1, false), (3, false), (4, true)] {
            let mut law = Notify::new(Limits::default());
            let (min_rtt_us, srtt_us) = (TRIP_US as u32, TRIP_US as u32);
            law.note(PathState { min_rtt_us, srtt_us, mss_bytes: 1448, ..PathState::default() });
            (law.request_bytes, law.counts_packets) = (REQUEST_BYTES, true);
            law.enter(Phase::Start, String::new());
            law.read.holes.last_us = Some(10 * TRIP_US);
            let now_us = (10 + trips) * TRIP_US;
            for us in (now_us - 2 * TRIP_US..=now_us).step_by(1_000) {
                law.meter.push(us, carried(12_500_000, us));
            }
            law.last_tick_us = now_us - 1_000;
            law.find(now_us);
            assert_eq!(law.capacity > 0, tells, "{trips} round trips");
        }
    }

    /// Trains have shown nothing of 12.5 MB/s, and C still doubles; half of a request takes 0.66 ms.
    #[test]
    fn what_waits_while_c_grows_is_the_path_but_for_half_a_request() {
        let (now_us, rtt_us, request_bytes) = (1_000_000, 20_000, 16 << 10);
        let mut law = Notify::new(Limits::default());
        let (min_rtt_us, srtt_us, command_window) = (rtt_us, rtt_us + 5_000, 512);
        let path = PathState { min_rtt_us, srtt_us, command_window, mss_bytes: 1448, ..PathState::default() };
        law.note(path);
        (law.request_bytes, law.counts_packets) = (request_bytes, true);
        law.enter(Phase::Start, String::new());
        law.capacity = 12_500_000;
        law.found.lately.push_back((now_us - 1, 6_000_000));
        law.last_tick_us = now_us - 200;
        law.start(&Input { now_us, path: Some(path), received: None, share: None, disks: &[] });
        assert_eq!(law.rtt_us(), 25_000 - 655);
    }

    #[test]
    fn far_away_what_has_waited_for_slow_start_is_not_late() {
        let some = REQUEST_BYTES / 2;
        assert_eq!(late_trips(&[(some, 3)]), 0);
        assert_eq!(late_trips(&[(some, 3), (0, 3), (0, 2)]), 0, "asked for before");
        assert_eq!(late_trips(&[(some, 3), (0, 3), (0, 2), (0, 2)]), 1);
        assert_eq!(late_trips(&[(0, 3), (0, 3), (some, 3), (0, 3)]), 0);
    }
}
