// SPDX-License-Identifier: GPL-2.0-only
//! What the target tells of losses: whose they are, and what follows.

use super::cruise::{much_slower, patience_us};
use super::{CRUISE_PAGE_US, Notify, Phase, THRESHOLD_TRIPS};
use crate::Input;
use crate::rate::carried;

/// To lose, to tell of it by duplicate acknowledgements, and to ask; which is not done all the time.
const BLAME_TRIPS: u64 = 3;
/// Other flows that fill the queue lose something at least so often, and so does this one.
pub(super) const LOST_US: u64 = 5_000_000;
/// A path that loses so often within [`THRESHOLD_TRIPS`], or a second, and not for a queue, loses by itself.
const OWN_LOSSES: usize = 3;
/// So many cwnd are asked for on it: until a loss is repaired all that came behind it is held back, and would be asked for again
/// too late; what repairs it may be lost as well, and the next before that.
pub(super) const LOSSY_CWNDS: u64 = 4;
/// So many packets are no long queue, however slow or near the path.
const ROOM_PKTS: u64 = 16;

/// One that may be the path's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    told_us: u64,
    /// What came just before it, in bytes/s, where something waited.
    rate: Option<u64>,
}

/// What one read has lost.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// That were told of, and not yet answered; and when the page before the first of these was asked for.
    pub(super) unanswered: u32,
    pub(super) since_us: u64,
    /// The latest were told of as marks, or as tails that a probe has repaired.
    pub(super) marked: bool,
    /// When one by chance was last told of, if the latest was.
    pub(super) chance_us: Option<u64>,
    /// When one was told of last, once the start was over.
    pub(super) last_us: Option<u64>,
    /// Until then one may be of a step that was taken back.
    blamed_until_us: u64,
    /// One has shown that the queue holds no more than the slack.
    pub(super) shallow: bool,
    /// Thresholds that others, or a slower path, may have made, and no longer count.
    pub(super) forgotten: u32,
    /// The longest queue that has stood and lost nothing, since it is measured from there and at that rate; 0 if none.
    pub(super) held_us: u64,
    /// The latest that may be the path's own; and until when it is, or was, one that loses by itself.
    pub(super) own: Vec<Own>,
    pub(super) lossy_until_us: Option<u64>,
    /// W was made for such a path last.
    pub(super) lost_much: bool,
}

impl Losses {
    /// So many more are known of, none of them from before then.
    pub(super) fn add(&mut self, losses: u32, since_us: u64) {
        if losses > 0 && self.unanswered == 0 {
            self.since_us = since_us;
        }
        self.unanswered = self.unanswered.saturating_add(losses);
    }
}

impl Notify {
    /// A loss was told of that may be of W as it is; and what the path carries, in bytes/s, if it is one of a slower path.
    pub(super) fn congested(&mut self, input: &Input<'_>) -> (bool, Option<u64>) {
        let now_us = input.now_us;
        let losses = std::mem::take(&mut self.read.losses.unanswered);
        if losses == 0 {
            return (false, None);
        }
        self.read.losses.last_us = Some(now_us);
        let slower = self.own_losses(input, losses);
        let blamed = now_us < self.read.losses.blamed_until_us;
        if blamed {
            self.pause_growth(now_us);
        }
        (!blamed, slower)
    }

    /// Losses were told of; without a queue, other sessions or flows they may be the path's own. What one overflow lost may be
    /// told of in several pages; and where pages are rare, one may tell of several losses. What the path carries, in bytes/s, if
    /// it is a slower one, which overflows.
    pub(super) fn own_losses(&mut self, input: &Input<'_>, losses: u32) -> Option<u64> {
        let now_us = input.now_us;
        let apart_us = BLAME_TRIPS * self.trip_us();
        let last_us = self.read.losses.own.last().map(|own| own.told_us);
        let again = last_us.is_some_and(|us| now_us - us <= apart_us);
        // Once TCP decides it is what fills the path; but a queue that is known to be short overflows, and near by any may in each
        // of the many round trips for which that lasts.
        let decides = self.lossy(now_us) && !self.read.losses.shallow && self.looks_finely();
        let brims = !decides && self.brimful() && !self.lost_by_chance();
        let full = self.overflows() || brims;
        // What this host's sessions overflow is told from it by the queue.
        let own = self.alone(input) || input.share.is_some() && self.lost_by_chance();
        if again || full || !own {
            return None;
        }
        let since_us = self.read.losses.since_us.max(self.read.began_us).max(last_us.unwrap_or(0));
        let span_us = self.path.asked_us.saturating_sub(since_us);
        let losses = u64::from(losses).min(1 + span_us / apart_us) as usize;
        let long_us = self.own_losses_us();
        let another = self.read.holes.first.is_some_and(|(us, _)| us > last_us.unwrap_or(0));
        // While a change of the request size drains a queue less arrives for that; and where no more is asked for.
        let claimed_bytes = self.readers.claimed_bytes().saturating_add(self.request());
        let asked = claimed_bytes >= self.filled_bytes.min(self.window_bytes);
        let tells = self.phase == Phase::Cruise && another && asked && !input.changing();
        let rate = self.before_hole(now_us).filter(|_| tells && self.lost_at_a_queue());
        self.read.losses.own.retain(|own| now_us - own.told_us <= long_us);
        // One page alone does not make it such a path.
        self.read.losses.own.extend(std::iter::repeat_n(Own { told_us: now_us, rate }, losses.min(OWN_LOSSES - 1)));
        if self.read.losses.own.len() < OWN_LOSSES - usize::from(self.lossy(now_us)) {
            return None;
        }
        let slower = self.overflows_at();
        if slower.is_none() {
            self.let_tcp_decide(now_us);
        }
        slower
    }

    /// What the path carries, in bytes/s, where something waited at each of the losses that would make it one that loses by
    /// itself, and much less than C came before: it has become slower, and its queue, which is short, overflows.
    fn overflows_at(&self) -> Option<u64> {
        let own = &self.read.losses.own;
        let most = own.iter().try_fold(0, |most, own| Some(own.rate?.max(most)))?;
        (own.len() >= OWN_LOSSES && much_slower(most, self.capacity)).then_some(most)
    }

    /// For so long losses make a path one that loses by itself.
    fn own_losses_us(&self) -> u64 {
        patience_us(THRESHOLD_TRIPS, self.trip_us())
    }

    /// As long, unless there is a queue.
    pub(super) fn let_tcp_decide(&mut self, now_us: u64) {
        self.read.losses.lossy_until_us = Some(now_us + self.own_losses_us());
    }

    /// A loss by chance was told of in Start. Where C still doubled by then the path may carry much more, which trains no longer
    /// show, as cwnd grows by less: TCP finds it.
    pub(super) fn interrupted(&mut self, input: &Input<'_>) {
        if self.found.doubled && self.alone(input) {
            self.let_tcp_decide(input.now_us);
        }
    }

    /// A loss that makes no long queue shorter; true if W or cwnd was the threshold, or it is others'.
    pub(super) fn give_way(
        &mut self,
        input: &Input<'_>,
        goal: u64,
        rate: Option<u64>,
        before_us: u64,
        proven_us: u64,
    ) -> bool {
        let (now_us, shared) = (input.now_us, input.share.is_some());
        self.pause_growth(now_us);
        if self.lost_by_chance() || rate.is_some_and(|rate| self.elsewhere(rate)) {
            return false;
        }
        self.steps.patience.lose(now_us, self.rtt_us());
        if proven_us > self.queue_high_us() {
            return false;
        }
        // TCP's own cut is in what arrives by now.
        let before_hole = self.before_hole(now_us);
        let waited = self.waited_us().max(before_us) > self.least_queue_us();
        if waited && before_hole.or(rate).is_some_and(|rate| self.shares_loss(input, rate)) {
            return true;
        }
        // While a change of the request size drains a queue less arrives for that.
        let taken = !input.changing() && before_hole.or(rate).is_some_and(|rate| self.taken(now_us, rate));
        // A queue that is taken for the path's length, and others'.
        if !shared && self.whole_queue_us() > self.queue_high_us() && taken {
            self.capacity = self.others(now_us, self.capacity);
            self.reason = "others fill the queue".into();
            return true;
        }
        if self.window_bytes > goal {
            self.read.losses.shallow = true;
            self.quiet.lose(now_us, self.rtt_us());
            self.reason = format!("loss at {} kB", self.window_bytes / 1000);
            self.capacity = self.capacity.max(rate.unwrap_or(0));
            self.window_bytes = self.window_bytes.min(self.window_for(self.capacity));
            return true;
        }
        // All of W overflowed a queue, if none that held was longer: a page that is in time tells of more than before.
        let queue_us = self.queue_us();
        let rose = before_us > 0 && self.read.losses.held_us > 0 && queue_us > before_us + self.queue_low_us();
        let told = now_us - self.quiet.lost_us <= BLAME_TRIPS * self.trip_us();
        let brimmed = self.filled_path() && !told && self.longest(before_us) && (rose || self.read.losses.shallow);
        let waited_us = if brimmed { queue_us.max(before_us) } else { queue_us.min(before_us) };
        if waited_us > self.queue_low_us() {
            let lost_at = self.lost_bytes();
            // A cwnd that is less than the path holds after other losses is no threshold.
            let least = if self.gentle(now_us) { self.least_full_bytes() } else { 0 };
            let most = lost_at.max(self.slack_bytes()).saturating_add(self.late_bytes()).max(least);
            // W itself was the threshold; but what others take is answered by them.
            self.window_bytes =
                if most >= self.window_bytes && !taken { self.backed_off(now_us) } else { self.window_bytes.min(most) };
            if brimmed {
                // One such loss may be the path's own.
                self.read.losses.shallow |= self.quiet.lose(now_us, self.rtt_us());
            } else {
                self.quiet.at_least(now_us + THRESHOLD_TRIPS * self.rtt_us());
            }
            self.reason = format!("loss at {} kB", lost_at / 1000);
            return true;
        }
        false
    }

    /// A loss is that of a trial that is taken back, also one that is told of a little later; what there was before it the queue
    /// held.
    pub(super) fn blame(&mut self, now_us: u64) {
        if std::mem::take(&mut self.read.losses.unanswered) > 0 {
            self.read.losses.last_us = Some(now_us);
            self.pause_growth(now_us);
        }
        self.read.losses.blamed_until_us = now_us + BLAME_TRIPS * self.trip_us() + CRUISE_PAGE_US;
    }

    /// Something was lost within fifty round trips.
    pub(super) fn lost_lately(&self, now_us: u64) -> bool {
        self.read.losses.last_us.is_some_and(|lost_us| now_us - lost_us < THRESHOLD_TRIPS * self.trip_us())
    }

    /// The path loses by itself: TCP's congestion control decides.
    pub(super) fn lossy(&self, now_us: u64) -> bool {
        self.read.losses.lossy_until_us.is_some_and(|us| now_us < us) && now_us >= self.rivals.until_us
    }

    /// The path loses, or lost lately, by itself: a loss tells of no queue.
    pub(super) fn lost_by_itself(&self, now_us: u64) -> bool {
        self.read.losses.lossy_until_us.is_some_and(|us| now_us < us + self.own_losses_us())
    }

    /// What cwnd is, or comes to once a loss is repaired: up to ssthresh, and no more than it was.
    pub(super) fn repaired_bytes(&self) -> u64 {
        let pkts = self.path.ssthresh_pkts.min(self.path.prior_cwnd_pkts);
        self.path.cwnd_bytes().max(u64::from(pkts) * u64::from(self.path.mss_bytes))
    }

    /// W where the path loses by itself.
    pub(super) fn lossy_bytes(&self) -> u64 {
        self.tcp_bytes(self.repaired_bytes(), LOSSY_CWNDS).max(self.window_for(self.capacity)).min(self.bound())
    }

    /// There is a queue that may have lost something.
    pub(super) fn overflows(&self) -> bool {
        let room_bytes = ROOM_PKTS * u64::from(self.path.mss_bytes);
        let room_us = (room_bytes * 1_000_000).checked_div(self.capacity).unwrap_or(0);
        self.whole_queue_us() > (self.rtt_us() / 4).max(room_us)
    }

    /// The queue that there is, or was as TCP began to reduce cwnd last.
    fn waited_us(&self) -> u64 {
        self.queue_us().max(u64::from(self.path.reduced_rtt_us).saturating_sub(self.rtt_us()))
    }

    /// All of the path was in flight, and something waited, no less than has stood and lost nothing: the queue may be short, and
    /// gone by the time that a page tells of it.
    fn brimful(&self) -> bool {
        let queue_us = self.waited_us();
        queue_us > self.least_queue_us() && self.longest(queue_us) && self.filled_path()
    }

    /// None that has stood and lost nothing was longer, by half a request's time.
    fn longest(&self, queue_us: u64) -> bool {
        queue_us + self.request_us() / 2 >= self.read.losses.held_us
    }

    /// All of the path was in flight when something was lost last.
    fn filled_path(&self) -> bool {
        self.path_bytes().min(self.lost_bytes()) >= self.brim_bytes()
    }

    /// What waited when something was lost last, as the target tells. But a mark is asked for; and of a tail that was lost it
    /// tells a round trip later.
    fn told_queue_us(&self) -> Option<u64> {
        let tells = !self.read.losses.marked && self.path.reduced_rtt_us > 0;
        tells.then_some(self.path.reduced_rtt_us.saturating_sub(self.path.min_rtt_us).into())
    }

    /// There was no queue then, not even one that is taken for the path's length; or a shorter one than has stood and lost
    /// nothing, as what overflows is the longest there is.
    pub(super) fn lost_by_chance(&self) -> bool {
        self.told_queue_us().is_some_and(|us| us < self.least_queue_us().max(self.read.losses.held_us))
    }

    /// There was one.
    fn lost_at_a_queue(&self) -> bool {
        self.told_queue_us().is_some() && !self.lost_by_chance()
    }

    /// The latest loss that was told of was by chance, and lately.
    pub(super) fn has_lost_by_chance(&self, now_us: u64) -> bool {
        self.read.losses.chance_us.is_some_and(|us| now_us - us <= THRESHOLD_TRIPS * self.trip_us())
    }

    /// Nearly all that the path holds.
    pub(super) fn brim_bytes(&self) -> u64 {
        self.bdp_bytes() / 16 * 15
    }

    /// cwnd when something was lost last.
    fn lost_bytes(&self) -> u64 {
        u64::from(self.path.prior_cwnd_pkts) * u64::from(self.path.mss_bytes)
    }

    /// Less than W, which has lost something, but whole requests for nearly all that the path holds, where trains have told C.
    pub(super) fn backed_off(&self, now_us: u64) -> u64 {
        if !self.gentle(now_us) {
            return self.window_bytes;
        }
        self.less_but(self.least_full_bytes())
    }

    /// Less than W, but no less than so many bytes.
    pub(super) fn less_but(&self, least_bytes: u64) -> u64 {
        let less = self.window_bytes.saturating_sub(self.request().max(self.window_bytes / 32));
        less.max(least_bytes).min(self.window_bytes)
    }

    /// Whole requests for nearly all that the path holds; one more is on its way to the target.
    pub(super) fn least_full_bytes(&self) -> u64 {
        (self.brim_bytes() + self.late_bytes() + self.request()).next_multiple_of(self.request())
    }

    /// Less arrives, `rate`, than did in this read, and something was lost lately: other flows that fill the queue have it.
    pub(super) fn taken(&self, now_us: u64, rate: u64) -> bool {
        let lately = self.read.losses.last_us.is_some_and(|lost_us| now_us - lost_us < LOST_US);
        lately && much_slower(rate, self.read.reached) && !self.elsewhere(rate)
    }

    /// Most of W is neither on the path nor waits for it, at that rate: with a late disk, whose answers come in bunches. What
    /// a bunch makes wait, or loses, says little of W.
    pub(super) fn elsewhere(&self, rate: u64) -> bool {
        let of_path = carried(rate, self.trip_us()).saturating_add(self.path.notsent_bytes.into());
        2 * of_path < self.window_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::cruise::tests::{RTT_US, at, cruising};
    use super::*;
    use crate::{DiskState, PathState};

    /// W for the model when something was lost; the queues are the longest that has held, that of the page before and the
    /// latest one's.
    fn lost(held_us: u64, before_us: u64, queue_us: u32, prior_cwnd_pkts: u32) -> Notify {
        let mut law = cruising(queue_us);
        law.request_bytes = 4 << 10;
        (law.capacity, law.read.reached, law.found.train) = (1_900_000, 1_900_000, 1_900_000);
        law.window_bytes = law.window_for(law.capacity);
        (law.path.prior_cwnd_pkts, law.path.notsent_bytes) = (prior_cwnd_pkts, 100_000);
        (law.read.losses.held_us, law.last_queue_us) = (held_us, before_us);
        law
    }

    /// Whether W or cwnd was the threshold, and W in requests.
    fn given_way(law: &mut Notify, trip: u64, rate: u64) -> (bool, u64) {
        let goal = law.window_for(law.capacity);
        law.read.losses.last_us = Some(trip * RTT_US);
        let threshold = law.give_way(&at(trip), goal, Some(rate), law.last_queue_us, 4_000);
        (threshold, law.window_bytes / law.request())
    }

    #[test]
    fn a_loss_at_the_model_is_a_shorter_queue() {
        for (rate, before_hole, requests) in [
            (1_900_000, None, 10),
            (1_000_000, None, 11),            // others'
            (1_000_000, Some(1_900_000), 10), // TCP's cut is in it
            (1_000_000, Some(1_000_000), 11),
        ] {
            let mut law = lost(4_000, 4_000, 4_000, 100);
            law.read.holes.last_us = before_hole.map(|_| 99 * RTT_US);
            law.read.holes.first = before_hole.map(|rate| (99 * RTT_US, rate));
            assert_eq!(given_way(&mut law, 100, rate), (true, requests), "{rate} B/s, {before_hole:?}");
        }
    }

    /// In requests: two of cwnd, or what nearly all of the path holds where trains have told what that is.
    #[test]
    fn a_cwnd_that_is_less_than_the_path_is_no_threshold() {
        for (train, requests) in [(0, 2), (1_900_000, 10)] {
            let mut law = lost(4_000, 4_000, 4_000, 8);
            law.found.train = train;
            assert_eq!(given_way(&mut law, 100, 1_900_000), (true, requests), "trains of {train} B/s");
        }
    }

    /// Where it is known to be short, F may have fallen since the queue was that long.
    #[test]
    fn a_queue_that_overflows_is_longer_than_before_and_than_any_that_held() {
        for (held_us, before_us, queue_us, prior_cwnd_pkts, shallow, overflows) in [
            (300, 300, 4_000, 100, false, true),
            (300, 300, 0, 100, false, false),
            (4_000, 4_000, 0, 100, true, true),
            (4_000, 300, 4_000, 100, false, false),
            (4_000, 1_000, 0, 100, true, false),
            (0, 0, 4_000, 100, false, false), // nothing is known
            (300, 300, 4_000, 20, false, false),
        ] {
            let mut law = lost(held_us, before_us, queue_us, prior_cwnd_pkts);
            law.read.losses.shallow = shallow;
            let requests = if overflows { 10 } else { 11 };
            let found = given_way(&mut law, 100, 1_900_000);
            assert_eq!(found, (overflows, requests), "{held_us} {before_us} {queue_us} us {shallow}");
        }
    }

    /// However long the queue is by the time that a page tells of it. One of 0.6 ms may run empty.
    #[test]
    fn a_loss_at_no_queue_is_by_chance() {
        for (reduced_us, floor_us, marked, chance) in [
            (0, 0, false, false),
            (20_000, 0, false, true),
            (20_600, 0, false, true),
            (20_700, 0, false, false),
            (20_700, 20_700, false, false), // a queue that is taken for the path's length
            (20_000, 0, true, false),
        ] {
            let mut law = lost(300, 300, 4_000, 100);
            (law.path.reduced_rtt_us, law.floor_us, law.read.losses.marked) = (reduced_us, floor_us, marked);
            assert_eq!(law.lost_by_chance(), chance, "{reduced_us} us");
            assert_eq!(given_way(&mut law, 100, 1_900_000).0, !chance, "{reduced_us} us");
            law.own_losses(&at(100), 1);
            assert_eq!(!law.read.losses.own.is_empty(), chance, "{reduced_us} us");
        }
    }

    #[test]
    fn a_loss_at_a_shorter_queue_than_has_stood_is_by_chance() {
        for (held_us, chance) in [(0, false), (700, false), (701, true)] {
            let mut law = lost(held_us, 300, 4_000, 100);
            law.path.reduced_rtt_us = 20_700;
            assert_eq!(law.lost_by_chance(), chance, "{held_us} us");
        }
    }

    /// Of one no longer than a packet or two, or from RTT 4 ms on, what the page shows has to do.
    #[test]
    fn the_queue_that_was_full_may_be_gone_by_the_page() {
        for (rtt_us, queue_us, reduced_us, full) in [
            (2_000, 0, 100, true),
            (2_000, 0, 80, false),
            (2_000, 100, 0, true),
            (4_000, 0, 110, true),
            (4_000, 0, 80, false),
            (4_000, 110, 0, true),
        ] {
            let mut law = cruising(0);
            (law.capacity, law.request_bytes) = (50_000_000, 16 << 10);
            (law.path.min_rtt_us, law.path.srtt_us) = (rtt_us, rtt_us + queue_us);
            law.path.reduced_rtt_us = if reduced_us > 0 { rtt_us + reduced_us } else { 0 };
            (law.window_bytes, law.path.prior_cwnd_pkts) = (law.window_for(law.capacity), 200);
            assert_eq!(law.brimful(), full, "RTT {rtt_us}, {queue_us} and {reduced_us} us");
        }
    }

    #[test]
    fn a_loss_by_chance_is_known_for_fifty_round_trips_or_until_another_is_not() {
        for (reduced_us, trips, known) in [(20_000, 50, true), (20_000, 51, false), (20_700, 1, false)] {
            let mut law = lost(300, 300, 300, 100);
            law.read.losses.chance_us = Some(99 * RTT_US);
            let recovery = law.path.recovery + 1;
            law.note(PathState { asked_us: 100 * RTT_US, recovery, reduced_rtt_us: reduced_us, ..law.path });
            law.note(PathState { asked_us: 101 * RTT_US, ..law.path });
            let now_us = 100 * RTT_US + trips * law.trip_us();
            assert_eq!(law.has_lost_by_chance(now_us), known, "{reduced_us} us, {trips} round trips");
        }
    }

    /// And each time W waits for twice as long.
    #[test]
    fn what_overflows_again_is_short() {
        let mut law = lost(300, 300, 4_000, 100);
        for (trip, until, shallow) in [(100, 150, false), (102, 150, false), (160, 260, true), (250, 450, true)] {
            given_way(&mut law, trip, 1_900_000);
            assert_eq!((law.quiet.until_us / RTT_US, law.read.losses.shallow), (until, shallow), "{trip}");
        }
    }

    /// In requests: what nearly all of the path holds, one more, and what makes them whole.
    #[test]
    fn losses_leave_what_fills_the_path() {
        for (kib, train, late_us, rivals_us, least) in [
            (4, 2_000_000, 0, 0, 11),
            (32, 2_000_000, 0, 0, 3),
            (1, 2_000_000, 0, 0, 38),
            (4, 0, 0, 0, 100),
            (4, 2_000_000, 0, u64::MAX, 100),
            (4, 2_000_000, 2_000, 0, 100),
        ] {
            let mut law = cruising(6_000);
            (law.capacity, law.found.train, law.read.late_us) = (2_000_000, train, late_us);
            (law.request_bytes, law.window_bytes) = (kib << 10, 100 * (u64::from(kib) << 10));
            law.rivals.until_us = rivals_us;
            (0..99).for_each(|_| law.window_bytes = law.backed_off(10 * RTT_US));
            assert_eq!(law.window_bytes / law.request(), least, "{kib} KiB, {train} B/s, {late_us} us, {rivals_us}");
        }
    }

    #[test]
    fn a_path_that_was_full_when_it_lost_does_not_lose_by_itself() {
        // Nor any longer, if the queue is short; else what TCP decides may fill it.
        for (prior_cwnd_pkts, was, shallow, own) in
            [(100, false, false, false), (12, false, false, true), (100, true, false, true), (100, true, true, false)]
        {
            let mut law = cruising(5_000);
            law.capacity = 2_000_000;
            (law.window_bytes, law.path.prior_cwnd_pkts) = (law.window_for(law.capacity), prior_cwnd_pkts);
            (law.read.losses.lossy_until_us, law.read.losses.shallow) = (was.then_some(25 * RTT_US), shallow);
            for trip in [10, 20, 30] {
                law.own_losses(&at(trip), 1);
            }
            assert_eq!(law.lossy(31 * RTT_US), own, "{prior_cwnd_pkts} packets, {was}, {shallow}");
        }
        // Near by it may overflow in each of the many round trips of a second.
        let mut law = cruising(600);
        (law.path.min_rtt_us, law.path.srtt_us, law.path.prior_cwnd_pkts) = (2_000, 2_600, 100);
        (law.capacity, law.request_bytes) = (20_000_000, 4 << 10);
        law.window_bytes = law.window_for(law.capacity);
        law.read.losses.lossy_until_us = Some(25 * RTT_US);
        for trip in [10, 20, 30] {
            law.own_losses(&at(trip), 1);
        }
        assert!(!law.overflows() && !law.lossy(31 * RTT_US));
    }

    /// The queue was taken for the path's length, which it is if all that came before still comes.
    #[test]
    fn a_loss_behind_a_queue_that_stays_is_others_if_less_arrives() {
        for (rate, queue_us, proven_us, shared, others) in [
            (1_000_000, 100_000, 0, false, true),
            (1_000_000, 100_000, 100_000, false, false), // the path may have become slower
            (1_000_000, 100_000, 0, true, false),
            (1_900_000, 100_000, 0, false, false),
            (1_000_000, 1_000, 0, false, false),
        ] {
            let mut law = cruising(queue_us);
            let now_us = 100 * RTT_US;
            (law.capacity, law.read.reached, law.floor_us) = (1_000_000, 2_000_000, law.path.srtt_us.into());
            (law.window_bytes, law.read.losses.last_us) = (60_000, Some(now_us));
            let input = Input { share: shared.then_some(1_000_000), ..at(100) };
            law.give_way(&input, 60_000, Some(rate), 0, proven_us);
            assert_eq!(law.rivals.until_us > now_us, others, "{rate} B/s, {queue_us} us, shared {shared}");
            assert_eq!(law.capacity, if others { 2_000_000 } else { 1_000_000 });
        }
    }

    #[test]
    fn a_cwnd_that_lost_says_nothing_of_what_is_late() {
        let mut law = cruising(RTT_US as u32);
        law.path.prior_cwnd_pkts = 20;
        (law.read.late_us, law.window_bytes) = (50_000, 200_000);
        assert!(law.give_way(&at(10), 200_000, None, RTT_US, RTT_US));
        assert_eq!(law.window_bytes, (20 * 1448).max(law.slack_bytes()) + 40_000);
    }

    #[test]
    fn three_losses_in_fifty_round_trips_are_the_paths_own() {
        let mut law = cruising(500);
        for trip in [10, 20, 100, 110, 112] {
            law.own_losses(&at(trip), 1);
            assert!(!law.lossy(trip * RTT_US), "trip {trip}");
        }
        law.own_losses(&at(120), 1);
        assert!(law.lossy(160 * RTT_US) && !law.lossy(180 * RTT_US));
        // Two of them keep it so.
        law.own_losses(&at(150), 1);
        assert!(law.lossy(190 * RTT_US) && !law.lossy(210 * RTT_US));
        // W is to last until a loss is repaired, by a second try, and one meanwhile; of what cwnd comes to by then.
        for (ssthresh_pkts, prior_cwnd_pkts, pkts) in [(10, 100, 12), (90, 100, 90), (u32::MAX, 100, 100), (100, 0, 12)]
        {
            (law.path.ssthresh_pkts, law.path.prior_cwnd_pkts) = (ssthresh_pkts, prior_cwnd_pkts);
            assert_eq!(law.lossy_bytes(), 4 * (pkts * 1448 + law.slack_bytes()), "{ssthresh_pkts}, {prior_cwnd_pkts}");
        }
    }

    /// What came before each, in kB/s, and the queue as TCP began to reduce cwnd; the round trip in which the latest hole was seen
    /// at most, what is let through, and nobody asks for.
    #[test]
    fn three_losses_at_a_queue_where_much_less_than_c_comes_are_of_a_slower_path() {
        let (less, three) = ([1_000, 1_200, 1_100], [3_000; 3]);
        for (rates, queues_us, hole, unasked_bytes, marked, slower) in [
            (less, three, 30, 0, false, Some(1_200)),
            (less, three, 10, 0, false, None),
            (less, three, 30, 100_000, false, None),
            (less, three, 30, 0, true, None),
            (less, [3_000, 0, 3_000], 30, 0, false, None),
            ([1_000, 1_800, 1_100], three, 30, 0, false, None),
        ] {
            let mut law = cruising(500);
            (law.capacity, law.request_bytes, law.path.prior_cwnd_pkts) = (2_000_000, 4 << 10, 20);
            (law.window_bytes, law.filled_bytes, law.read.losses.marked) = (100_000, unasked_bytes, marked);
            for (i, trip) in [10, 20, 30].into_iter().enumerate() {
                law.path.reduced_rtt_us = RTT_US as u32 + queues_us[i];
                (law.read.holes.last_us, law.read.losses.unanswered) = (Some(trip * RTT_US), 1);
                law.read.holes.first = Some((trip.min(hole) * RTT_US, 1_000 * rates[i]));
                law.adjust(&at(trip));
                assert!(i == 2 || !law.lossy(trip * RTT_US) && law.capacity == 2_000_000, "{rates:?}, loss {i}");
            }
            let carried = slower.map_or(2_000_000, |rate| 1_000 * rate + law.packet_rate());
            assert_eq!((law.capacity, law.lossy(30 * RTT_US)), (carried, slower.is_none()), "{rates:?} {queues_us:?}");
            // And W is for that.
            assert!(slower.is_none() || law.window_bytes == law.window_for(carried) && law.read.losses.own.is_empty());
        }
    }

    /// Where the target does not tell of it, while starting, among sessions, or while the request size changes; nor do two, as
    /// are enough for a path that has lost by itself.
    #[test]
    fn losses_that_may_not_have_been_at_a_queue_tell_of_no_slower_path() {
        for (queue_us, phase, share, changing, trips, slower) in [
            (Some(3_000), Phase::Cruise, None, false, [10, 20, 30], true),
            (None, Phase::Cruise, None, false, [10, 20, 30], false),
            (Some(3_000), Phase::Start, None, false, [10, 20, 30], false),
            (Some(3_000), Phase::Cruise, Some(1_000_000), false, [10, 20, 30], false),
            (Some(3_000), Phase::Cruise, None, true, [10, 20, 30], false),
            (Some(3_000), Phase::Cruise, None, false, [10, 20, 80], false),
            (Some(3_000), Phase::Cruise, None, false, [10, 80, 90], false),
        ] {
            let mut law = cruising(500);
            (law.capacity, law.request_bytes, law.path.prior_cwnd_pkts) = (2_000_000, 4 << 10, 20);
            (law.phase, law.filled_bytes) = (phase, 0);
            law.path.reduced_rtt_us = queue_us.map_or(0, |us| RTT_US as u32 + us);
            law.read.losses.lossy_until_us = (trips[1] == 80).then_some(100 * RTT_US);
            let disks = [DiskState { changing, ..DiskState::default() }];
            let mut found = None;
            for trip in trips {
                law.read.holes.last_us = Some(trip * RTT_US);
                law.read.holes.first = Some((trip * RTT_US, 1_000_000));
                found = law.own_losses(&Input { share, disks: &disks, ..at(trip) }, 1);
            }
            assert_eq!(found.is_some(), slower, "{queue_us:?} {phase:?} {share:?} {changing} {trips:?}");
        }
    }

    #[test]
    fn readers_may_claim_more_than_there_are_bytes() {
        let mut law = cruising(500);
        let disk = DiskState { reading: true, in_flight: u32::MAX, request_bytes: u32::MAX, ..DiskState::default() };
        law.readers.look(9 * RTT_US, RTT_US, &[disk; 2]);
        assert_eq!(law.readers.claimed_bytes(), u64::MAX);
        assert_eq!(law.own_losses(&at(10), 1), None);
    }

    /// As the target tells.
    #[test]
    fn beside_sessions_of_this_host_losses_by_chance_are_the_paths_own() {
        for (share, reduced_us, others, own) in [
            (None, 0, false, true),
            (Some(400_000), 20_100, false, true),
            (Some(400_000), 0, false, false), // it does not tell
            (Some(400_000), 40_000, false, false),
            (None, 20_100, true, false),
        ] {
            let mut law = cruising(500);
            law.path.reduced_rtt_us = reduced_us;
            law.rivals.until_us = if others { 200 * RTT_US } else { 0 };
            for trip in [10, 20, 30] {
                law.own_losses(&Input { share, ..at(trip) }, 1);
            }
            law.rivals.until_us = 0;
            assert_eq!(law.lossy(31 * RTT_US), own, "{share:?} {reduced_us} us {others}");
        }
    }

    /// Which is always less than half of W, and may become less.
    #[test]
    fn w_follows_cwnd_where_a_path_loses_by_itself() {
        let mut law = cruising(500);
        law.read.losses.lossy_until_us = Some(1_000 * RTT_US);
        for (trip, snd_cwnd_pkts) in [(100, 40), (101, 20), (102, 80)] {
            law.note(PathState { asked_us: (trip - 1) * RTT_US, snd_cwnd_pkts, ..law.path });
            law.cruise(&Input { path: Some(law.path), ..at(trip) });
            assert_eq!(law.window_bytes, 4 * (u64::from(snd_cwnd_pkts) * 1448 + law.slack_bytes()));
            law.window_changed_us = trip * RTT_US;
        }
    }

    /// Pages so many round trips apart, the first of which tells of what was before the read.
    #[test]
    fn a_page_that_is_rare_tells_of_several() {
        for (trips, pages, lossy) in [(2, 3, false), (30, 1, false), (30, 2, true)] {
            let mut law = cruising(500);
            law.read.began_us = 98 * RTT_US;
            for page in 0..pages {
                let asked_us = (100 + page * trips) * RTT_US;
                law.note(PathState { asked_us, recovery: 9 + 3 * page as u32, ..law.path });
                let losses = std::mem::take(&mut law.read.losses.unanswered);
                law.own_losses(&Input { now_us: asked_us + RTT_US, ..at(0) }, losses);
            }
            assert_eq!(law.read.losses.lossy_until_us.is_some(), lossy, "{pages} pages each {trips} round trips");
        }
    }

    #[test]
    fn losses_that_a_queue_explains_are_not() {
        // Sixteen packets take 29 ms.
        for (queue_us, own) in [(28_000, true), (30_000, false)] {
            let mut law = cruising(queue_us);
            for trip in (10..100).step_by(20) {
                law.own_losses(&at(trip), 1);
            }
            assert_eq!(law.lossy(100 * RTT_US), own, "{queue_us} us");
        }
    }
}
