// SPDX-License-Identifier: GPL-2.0-only
//! Holes in TCP's sequence, as this end sees them: the first that is known of a loss.

use super::cruise::{much_slower, patience_us};
use super::drain::Drain;
use super::{Notify, Phase, RECOVERY_TRIPS};
use crate::Input;
use crate::rate::per_second;

/// By how much a path may become slower from one hole to the next.
const SLOWER: u64 = 4;
/// Those who take more each time do not leave 7/8 of A for so many round trips.
const TAKER_TRIPS: u64 = 16;

/// What one read's holes have shown.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// Something came while something before it was missing, which has not come yet; and when that was last so.
    open: bool,
    pub(super) last_us: Option<u64>,
    /// When the first was seen of those that one overflow has made, and what came just before it, in bytes/s. It is over when
    /// so much has been received.
    pub(super) first: Option<(u64, u64)>,
    recovered_bytes: u64,
    /// When a full pipe, for a hole, last let nothing through.
    pub(super) blocked_us: Option<u64>,
    /// When C was last made what came before such a hole, or behind it.
    slowed_us: Option<u64>,
    /// Since when, in Cruise, not much less arrives than ever in this read, nor has the path seemed to be slower.
    pub(super) whole_us: Option<u64>,
}

impl Notify {
    /// One look at what the connection has received, with so much asked for.
    pub(super) fn look_for_holes(&mut self, input: &Input<'_>, asked_bytes: u64) {
        self.counts_packets = input.received.is_some();
        let Some(received) = input.received else { return };
        let before = std::mem::replace(&mut self.received, received);
        let pause_us = self.rtt_us() / 2;
        let mut overflows = false;
        let holes = &mut self.read.holes;
        if received.bytes < before.bytes || received.out_of_order_pkts < before.out_of_order_pkts {
            // Another connection, which has lost nothing yet.
            (*holes, self.read.drain) = (Holes::default(), Drain::default());
        } else if received.out_of_order_pkts != before.out_of_order_pkts {
            if received.bytes >= holes.recovered_bytes {
                let rate = self.meter.before_pause(pause_us);
                holes.first = rate.map(|rate| (input.now_us, rate));
                holes.recovered_bytes = received.bytes.saturating_add(asked_bytes);
                overflows = true;
            }
            (holes.open, holes.last_us) = (true, Some(input.now_us));
        } else if holes.open && self.done_bytes > 0 {
            (holes.open, holes.last_us) = (false, Some(input.now_us));
        }
        self.look_without_page(input, overflows, asked_bytes);
    }

    /// A full pipe lets nothing through, for a hole: what that holds back completes all at once, and must not be asked for
    /// again in one burst, unless cwnd makes none of it, or this loss may be by chance as well as the one before.
    pub(super) fn stalled(&mut self, input: &Input<'_>, asked: u64, done: u64) -> bool {
        let pipe_full = self.capacity > 0 && asked / 3 >= self.bdp_bytes() / 4;
        if done > 0 || !pipe_full {
            self.moving_us = input.now_us;
        }
        // Where nobody tells of holes, each pause of a full pipe may be one; disks and slots make pauses as well.
        let hole = input.received.is_none() || self.read.holes.open;
        if !hole || input.now_us - self.moving_us <= self.rtt_us() / 2 {
            return false;
        }
        // A long queue is to become shorter first.
        let held = self.read.holes.open && self.alone(input) && !self.overflows();
        let cut = held && self.cut_holds_back();
        if !(cut || held && self.has_lost_by_chance(input.now_us)) {
            (self.filled_bytes, self.bucket_bytes) = (self.filled_bytes.min(self.lump()), self.lump());
        }
        // Else what came before may be all that cwnd let through, and no slower path.
        if !cut {
            self.slow_down(input, asked);
        }
        self.read.holes.blocked_us = self.read.holes.open.then_some(input.now_us);
        true
    }

    /// cwnd, cut for a loss as CUBIC does (RFC 9438, section 4.6), is no more than the path holds: TCP paces what it sends, lets
    /// no more through than that, and would soon have nothing to send if no more were asked for.
    fn cut_holds_back(&self) -> bool {
        let cwnd_bytes = self.path.cwnd_bytes();
        let cut_bytes = if self.lost { cwnd_bytes } else { cwnd_bytes / 10 * 7 };
        self.phase == Phase::Cruise && (1..=self.bdp_bytes()).contains(&cut_bytes)
    }

    /// A hole lets nothing through. Where much less than C came before, or comes behind it, and all of W had been asked for and
    /// fitted into cwnd, that is what the path carries by now, or what other flows leave of it: which the next such hole tells.
    fn slow_down(&mut self, input: &Input<'_>, asked: u64) {
        let trip_us = self.rtt_us();
        let fills = self.path.cwnd_bytes() >= self.path_bytes() && self.phase == Phase::Cruise;
        // Where nobody tells of holes, this pause is all that is known of one.
        let before = if input.received.is_some() {
            self.read.holes.first.map(|(since_us, rate)| (since_us, rate.min(self.behind_hole(input.now_us, since_us))))
        } else {
            self.meter.before_pause(trip_us / 2).map(|rate| (self.moving_us, rate))
        };
        let Some((since_us, rate)) = before else { return };
        let full = fills && since_us.saturating_sub(self.read.short_us) >= 2 * trip_us;
        let most = self.capacity.min(per_second(asked, trip_us + self.read.late_us));
        // One overflow, or pause, tells once.
        let told = self.read.holes.slowed_us.is_some_and(|us| us >= since_us);
        // While a change of the request size drains the path, less comes for that.
        let drains = input.changing();
        let own = self.lost_by_itself(input.now_us);
        if told || !full || drains || own || !much_slower(rate, most) || !self.alone(input) {
            return;
        }
        self.slow_to(input, rate);
    }

    /// C is what came before a loss, unless others take more each time.
    pub(super) fn slow_to(&mut self, input: &Input<'_>, rate: u64) {
        // A change of the request size waits for all that is asked for.
        (self.request_changed_us, self.trial) = (input.now_us, None);
        if self.slows_again(input.now_us) {
            self.capacity = self.others(input.now_us, self.capacity);
            self.reason = format!("{} kB/s before one more loss: others take the rest", rate / 1000);
            return;
        }
        // The pause of an earlier hole may be a part of that.
        self.capacity = rate.max(self.capacity / SLOWER);
        self.window_bytes = self.window_for(self.capacity);
        self.reason = format!("{} kB/s before a loss", self.capacity / 1000);
    }

    /// What has come behind a hole, in bytes/s, `u64::MAX` where that says nothing. Some of what came before it may be of before
    /// the path became slower; within a round trip what comes was sent before TCP knew of the hole, through a full queue.
    fn behind_hole(&self, now_us: u64, since_us: u64) -> u64 {
        let for_us = now_us.saturating_sub(since_us);
        let tells = for_us <= self.path.min_rtt_us.into() && !self.in_slots();
        self.meter.before_pause(for_us).filter(|_| tells).unwrap_or(u64::MAX)
    }

    /// The path seems to have become slower. What W was made for when it did before loses nothing on a path that has only become
    /// so: then C was not that path's, and others take more each time.
    pub(super) fn slows_again(&mut self, now_us: u64) -> bool {
        let settles_us = RECOVERY_TRIPS * self.rtt_us() + self.rate_span_us();
        let again = self.read.holes.slowed_us.take().is_some_and(|us| now_us - us > settles_us);
        (self.read.holes.slowed_us, self.read.holes.whole_us) = ((!again).then_some(now_us), None);
        again
    }

    /// Others, who take more each time that they make the path seem slower, take something all the time: where nobody has for so
    /// long, nobody did.
    pub(super) fn look_for_takers(&mut self, now_us: u64, rate: u64) {
        let long_us = patience_us(TAKER_TRIPS, self.trip_us().max(self.late_trip_us()));
        let holes = &mut self.read.holes;
        let whole = !much_slower(rate, self.read.reached);
        holes.whole_us = holes.whole_us.or(Some(now_us)).filter(|_| whole);
        if holes.whole_us.is_some_and(|us| now_us - us >= long_us) {
            holes.slowed_us = None;
        }
    }

    /// Within so long there was a hole in TCP's sequence.
    pub(super) fn held_back(&self, now_us: u64, for_us: u64) -> bool {
        self.read.holes.last_us.is_some_and(|hole_us| now_us - hole_us <= for_us)
    }

    /// What came before the first hole of the latest overflow, if TCP's cut for it is a part of what the rate is taken over: half
    /// a round trip before it errs by a packet.
    pub(super) fn before_hole(&self, now_us: u64) -> Option<u64> {
        let held_back = self.held_back(now_us, self.rate_span_us());
        self.read.holes.first.filter(|_| held_back).map(|(_, rate)| rate + self.packet_rate())
    }

    /// Within so many round trips a hole has let nothing through.
    pub(super) fn blocked(&self, now_us: u64, trips: u64) -> bool {
        self.read.holes.blocked_us.is_some_and(|blocked_us| now_us - blocked_us <= trips * self.trip_us())
    }

    /// One that has, was for a loss by chance, as a later page tells.
    pub(super) fn blocked_by_chance(&self) -> bool {
        self.read.holes.blocked_us.is_some_and(|blocked_us| blocked_us <= self.path.asked_us) && self.lost_by_chance()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fill::tests::{HOLE, RATE, RTT_US, holed};
    use super::*;
    use crate::rate::carried;
    use crate::{DiskState, Limits, PathState, Received, Strategy};

    /// In the round trip that follows the first half of one without anything. 173 packets fill the path; of 247 as many are left.
    #[test]
    fn a_hole_leaves_most_of_w_where_cwnd_lets_no_burst_through_or_the_last_was_by_chance() {
        for (snd_cwnd_pkts, told, queue_us, others, chance, keeps) in [
            (240, false, 0, false, false, true),
            (250, false, 0, false, false, false),
            (240, true, 0, false, false, false), // it has been cut
            (170, true, 0, false, false, true),
            (0, false, 0, false, false, false), // no page has told
            (240, false, RTT_US / 2, false, false, false),
            (240, false, 0, true, false, false),
            (250, false, 0, false, true, true),
            (250, false, RTT_US / 2, false, true, false),
            (250, false, 0, true, true, false),
        ] {
            let mut law = holed(RATE, snd_cwnd_pkts);
            law.path.srtt_us += queue_us as u32;
            law.read.losses.chance_us = chance.then_some(HOLE.now_us - RTT_US);
            law.rivals.until_us = if others { u64::MAX } else { 0 };
            (law.lost, law.read.holes.open, law.filled_bytes) = (told, true, law.window_bytes);
            let (in_flight, request_bytes) = ((law.window_bytes / law.request()) as u32, law.request_bytes);
            let disks = [DiskState { reading: true, in_flight, request_bytes, max_depth: 512, ..DiskState::default() }];
            for now_us in [HOLE.now_us, HOLE.now_us + RTT_US] {
                law.readers.look(now_us, RTT_US, &disks);
                law.fill(&Input { now_us, received: Some(Received::default()), disks: &disks, ..HOLE });
            }
            let filled_bytes = if keeps { law.window_bytes / 8 * 7 } else { law.request() };
            assert_eq!(
                law.filled_bytes, filled_bytes,
                "{snd_cwnd_pkts} packets, {told}, {queue_us} us, others {others}, chance {chance}"
            );
        }
    }

    /// F is little then, and what is in flight is still what is advertised.
    #[test]
    fn a_hole_lets_nothing_through_until_it_is_filled_also_of_what_is_advertised() {
        for advertises in [false, true] {
            let mut law = holed(RATE, 400);
            (law.advertises, law.read.holes.open) = (advertises, true);
            (law.filled_bytes, law.read.advertised.most_bytes) = (law.window_bytes, law.window_bytes);
            let request_bytes = law.request_bytes;
            let in_flight = (law.window_bytes / law.request_size()) as u32;
            let disks = [DiskState { reading: true, in_flight, request_bytes, max_depth: 512, ..DiskState::default() }];
            for look in 0..20 {
                let now_us = HOLE.now_us + look * RTT_US / 16;
                law.readers.look(now_us, RTT_US, &disks);
                law.fill(&Input { now_us, received: Some(Received::default()), disks: &disks, ..HOLE });
                law.last_tick_us = now_us;
                assert_eq!(law.filled_bytes, 16 << 10, "{advertises}, look {look}");
            }
        }
    }

    #[test]
    fn what_came_before_a_hole_is_what_the_path_carries() {
        assert_eq!(capacity_after_a_hole(RATE, 400), RATE);
        assert_eq!(capacity_after_a_hole(RATE / 4, 400), RATE / 4);
        // It was cwnd that let no more through.
        assert_eq!(capacity_after_a_hole(RATE / 4, 60), RATE);
    }

    /// Since when F was W counts up to that hole.
    #[test]
    fn what_came_before_the_first_of_an_overflows_holes_counts() {
        for (rate, first_us, capacity) in
            [(RATE / 2, 48 * RTT_US, RATE / 2), (RATE, 48 * RTT_US, RATE), (RATE / 2, 47 * RTT_US, RATE)]
        {
            let mut law = holed(RATE / 4, 400);
            law.read.holes.first = Some((first_us, rate));
            let received = Some(Received { out_of_order_pkts: 1, ..Received::default() });
            law.slow_down(&Input { received, ..HOLE }, law.window_bytes);
            assert_eq!(law.capacity, capacity, "{rate} B/s, {first_us} us");
        }
    }

    #[test]
    fn what_comes_behind_a_hole_within_a_round_trip_counts_if_it_is_less() {
        for (behind, before, ago_us, slots, capacity) in [
            (RATE / 2, RATE / 4 * 3, RTT_US, false, RATE / 2),
            (RATE / 2, RATE, RTT_US, false, RATE / 2),
            (RATE / 2, RATE / 4 * 3, RTT_US + 1, false, RATE / 4 * 3), // what is repaired takes room
            (RATE, RATE / 2, RTT_US, false, RATE / 2),
            (RATE / 2, RATE / 4 * 3, RTT_US, true, RATE / 4 * 3),
        ] {
            let mut law = holed(behind, 400);
            law.slots.trip_us = if slots { RTT_US } else { 0 };
            law.read.holes.first = Some((HOLE.now_us - ago_us, before));
            let received = Some(Received { out_of_order_pkts: 1, ..Received::default() });
            law.slow_down(&Input { received, ..HOLE }, law.window_bytes);
            assert_eq!(law.capacity, capacity, "{behind} B/s behind {before}, {ago_us} us, {slots}");
        }
    }

    #[test]
    fn what_comes_while_the_request_size_changes_is_not_what_the_path_carries() {
        let mut law = holed(RATE / 4, 400);
        let disks = [DiskState { reading: true, changing: true, ..DiskState::default() }];
        law.slow_down(&Input { disks: &disks, ..HOLE }, law.window_bytes);
        assert_eq!(law.capacity, RATE);
    }

    #[test]
    fn what_comes_before_a_hole_of_a_path_that_loses_by_itself_is_not_what_it_carries() {
        // For a second that it did counts.
        for (until_us, capacity) in
            [(HOLE.now_us, RATE), (HOLE.now_us - 999_999, RATE), (HOLE.now_us - 1_000_000, RATE / 4)]
        {
            let mut law = holed(RATE / 4, 400);
            law.read.losses.lossy_until_us = Some(until_us);
            law.slow_down(&HOLE, law.window_bytes);
            assert_eq!(law.capacity, capacity, "{until_us} us");
        }
    }

    #[test]
    fn one_pause_tells_once() {
        let mut law = holed(RATE / 8, 400);
        law.slow_down(&HOLE, law.window_bytes);
        assert_eq!(law.capacity, RATE / 4);
        law.slow_down(&Input { now_us: HOLE.now_us + 100, ..HOLE }, law.window_bytes);
        assert_eq!(law.capacity, RATE / 4);
    }

    #[test]
    fn who_takes_more_each_time_is_no_slower_path() {
        for (trips, others) in [(5, false), (40, true)] {
            let mut law = holed(RATE / 2, 400);
            law.slow_down(&HOLE, law.window_bytes);
            law.read.reached = RATE;
            let (now_us, asked) = (HOLE.now_us + trips * RTT_US, law.window_bytes);
            law.meter.clear();
            law.meter.push(now_us - 2 * RTT_US, 0);
            law.meter.push(now_us - RTT_US - 1, carried(RATE / 8, RTT_US));
            law.meter.push(now_us - RTT_US, carried(RATE / 8, RTT_US) + 1);
            law.moving_us = now_us;
            law.slow_down(&Input { now_us, ..HOLE }, asked);
            assert_eq!(law.rivals.until_us > now_us, others, "{trips} round trips later");
            let least = if others { RATE } else { RATE / 8 };
            assert!((least..=least + 1_000).contains(&law.capacity), "{}", law.capacity);
            // The next one tells of a slower path again.
            assert_eq!(law.read.holes.slowed_us.is_some(), !others);
        }
    }

    /// 16 round trips, a second at least; the rate is that of all looks but one.
    #[test]
    fn where_all_has_arrived_for_long_nobody_takes_more_each_time() {
        for (rtt_us, late_us, rate, once, us, forgotten) in [
            (20_000, 0, RATE / 8 * 7, RATE, 1_000_000, true),
            (20_000, 0, RATE / 8 * 7, RATE, 999_999, false),
            (20_000, 0, RATE / 8 * 7 - 1, RATE, 1_000_000, false),
            (20_000, 0, RATE, RATE / 8 * 7 - 1, 1_000_000, false),
            (100_000, 0, RATE, RATE, 1_600_000, true),
            (100_000, 0, RATE, RATE, 1_599_999, false),
            (100_000, 50_000, RATE, RATE, 2_400_000, true),
            (100_000, 50_000, RATE, RATE, 2_399_999, false),
        ] {
            let mut law = holed(RATE / 2, 400);
            law.read.reached = RATE;
            law.look_for_takers(0, RATE);
            law.slow_down(&HOLE, law.window_bytes);
            (law.path.min_rtt_us, law.path.srtt_us, law.read.late_us) = (rtt_us, rtt_us, late_us);
            // What arrived before does not count.
            law.look_for_takers(HOLE.now_us, rate);
            law.look_for_takers(HOLE.now_us + us / 2, once);
            law.look_for_takers(HOLE.now_us + us, rate);
            assert_eq!(
                law.read.holes.slowed_us.is_none(),
                forgotten,
                "{rate} {once} B/s for {us} us of {rtt_us} and {late_us}"
            );
        }
    }

    fn capacity_after_a_hole(rate: u64, snd_cwnd_pkts: u32) -> u64 {
        let mut law = holed(rate, snd_cwnd_pkts);
        law.slow_down(&HOLE, law.window_bytes);
        assert_eq!(law.window_bytes, law.window_for(law.capacity));
        law.capacity
    }

    /// A trickle between two of an overflow's holes is not what came before it; reordering makes holes, and fills them.
    #[test]
    fn what_came_before_the_first_hole_counts_until_what_was_asked_for_then_has_come() {
        let mut law = Notify::new(Limits::default());
        law.note(PathState {
            min_rtt_us: 10_000,
            srtt_us: 10_000,
            command_window: 512,
            mss_bytes: 1_000,
            ..PathState::default()
        });
        (law.capacity, law.request_bytes) = (10_000_000, 16 << 10);
        let look = |law: &mut Notify, ms: u64, received: Option<Received>| {
            let (request_bytes, max_depth) = (16 << 10, 512);
            let disk = DiskState { reading: true, in_flight: 6, request_bytes, max_depth, ..DiskState::default() };
            law.tick(&Input { now_us: 1_000 * ms, path: None, received, share: None, disks: &[disk] });
            law.read.holes.first
        };
        let mut received = Received::default();
        let mut come = |pkts: u32, hole: bool| {
            received.bytes += 1_000 * u64::from(pkts);
            (received.pkts, received.out_of_order_pkts) =
                (received.pkts + pkts.max(u32::from(hole)), received.out_of_order_pkts + u32::from(hole));
            Some(received)
        };
        (0..100).for_each(|ms| assert_eq!(look(&mut law, ms, come(10, false)), None));
        let first = Some((100_000, 10_000_000));
        assert_eq!(look(&mut law, 100, come(1, true)), first);
        (101..150).for_each(|ms| assert_eq!(look(&mut law, ms, come(u32::from(ms % 30 == 0), false)), first));
        assert_eq!(look(&mut law, 150, come(0, true)), first, "a trickle");
        (151..200).for_each(|ms| assert!(look(&mut law, ms, come(5, ms % 5 == 0)).is_some()));
        assert_eq!(law.read.holes.first.map(|(_, rate)| rate), Some(5_000_000), "the path has become slower");
    }

    #[test]
    fn holes_are_those_of_one_connection() {
        let mut law = Notify::new(Limits::default());
        law.note(PathState { min_rtt_us: 10_000, srtt_us: 10_000, command_window: 512, ..PathState::default() });
        (law.capacity, law.request_bytes) = (10_000_000, 16 << 10);
        for (ms, bytes, out_of_order_pkts, recovered_bytes) in [
            (1, 100_000, 7, 200_000),
            (2, 110_000, 8, 200_000),
            (3, 0, 0, 200_000), // nobody tells
            (4, 120_000, 8, 200_000),
            (5, 1_000, 0, 0), // another connection
            (6, 2_000, 1, 102_000),
        ] {
            law.meter.push(1_000 * ms, bytes);
            let received = (bytes > 0).then_some(Received { bytes, out_of_order_pkts, ..Received::default() });
            law.look_for_holes(&Input { now_us: 1_000 * ms, received, ..HOLE }, 100_000);
            assert_eq!(law.read.holes.recovered_bytes, recovered_bytes, "{ms} ms");
            assert_eq!(law.read.holes.last_us.is_some(), recovered_bytes > 0, "{ms} ms");
        }
    }
}
