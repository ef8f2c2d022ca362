// SPDX-License-Identifier: GPL-2.0-only
//! **Shares**: of this host's sessions that read from one address who has more than the others gives way first.

use super::Notify;
use super::cruise::{much_slower, slower};
use crate::Input;
use crate::rate::{carried, per_second};

/// Such a part of C more is tried at once: a start would overrun the others.
const GROWTH: u64 = 16;

impl Notify {
    /// An equal share, in bytes/s, if this session gets more than that, and might get much more: W is for C, which TCP may hold
    /// it back from for a moment. What readers leave to others for a while is no share of theirs.
    fn surplus(&self, input: &Input<'_>, rate: u64) -> Option<u64> {
        let might = if self.returns(input.now_us) { rate.min(self.capacity) } else { self.capacity };
        input.share.filter(|&share| slower(share, rate) && much_slower(share, might))
    }

    /// Something was lost of a queue, before which `rate` arrived: who has more goes half of the way to an equal share, and who
    /// has less stays. True if it is either.
    pub(super) fn shares_loss(&mut self, input: &Input<'_>, rate: u64) -> bool {
        let Some(share) = input.share else { return false };
        let part = if self.surplus(input, rate).is_some() {
            self.take(self.capacity.midpoint(share));
            "more"
        } else if much_slower(rate, share) && self.window_bytes <= self.window_for(self.capacity) {
            "less"
        } else {
            return false;
        };
        self.reason = format!("a loss, and {part} than an equal share, {} kB/s", share / 1000);
        true
    }

    /// W is for another part of the path now: one that leaves room, with so long a queue, or for an equal share.
    pub(super) fn shares_path(&mut self, input: &Input<'_>, rate: Option<u64>, queue_us: u64) -> bool {
        let settled = self.trial.is_none() && self.undrained(input) && input.now_us >= self.cuts.until_us;
        settled && rate.is_some_and(|rate| self.leaves_room(input, rate, queue_us)) || self.takes_share(input)
    }

    /// So much waits: who has more asks for that much less, down to an equal share, and finds for eight round trips how much of
    /// it the others take. Not near by, where any burst is as long, nor with a late disk, behind which it would not get that back.
    fn leaves_room(&mut self, input: &Input<'_>, rate: u64, queue_us: u64) -> bool {
        let waits = queue_us > self.least_queue_us() + self.slot_us() / 2;
        let may = waits && self.looks_finely() && !self.late();
        let Some(share) = self.surplus(input, rate).filter(|_| may) else { return false };
        let less = per_second(carried(self.capacity, queue_us), self.trip_us());
        self.take(self.capacity.saturating_sub(less).max(share));
        self.forget_queues();
        self.pause_growth(input.now_us);
        self.reason = format!("{queue_us} us wait, and more than an equal share, {} kB/s", share / 1000);
        true
    }

    /// W is made for less.
    fn take(&mut self, capacity: u64) {
        (self.capacity, self.trial) = (capacity, None);
        self.window_bytes = self.window_bytes.min(self.window_for(capacity));
    }

    /// The others have more than their part, and give way to the queue that this makes.
    fn takes_share(&mut self, input: &Input<'_>) -> bool {
        let more = |&share: &u64| share > self.capacity / 8 * 9 && self.asked();
        let Some(share) = input.share.filter(more) else { return false };
        self.capacity = share;
        self.window_bytes = self.window_for(share);
        self.reason = format!("an equal share of the path is {} kB/s", share / 1000);
        true
    }

    /// Nothing waits, and more than C arrives. But after a loss the others' cwnd needs time: a target waits for 32 round trips
    /// before it tries more, and what this session overflows loses theirs as well. So who has more leaves it to them.
    pub(super) fn grow_among(&mut self, input: &Input<'_>, rate: Option<u64>) {
        if self.lost_lately(input.now_us) && rate.is_some_and(|rate| self.surplus(input, rate).is_some()) {
            return;
        }
        self.capacity = self.capacity.saturating_add(self.capacity / GROWTH);
        self.window_bytes = self.window_for(self.capacity);
        self.reason = format!("no queue at {} kB", self.window_bytes / 1000);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cruise::tests::{RTT_US, at, cruising, prompt_disk};
    use super::super::{Aim, Phase};
    use super::*;
    use crate::DiskState;

    /// At 12 MB/s, in requests of 8 KiB, and with cwnd for more.
    fn sharing(queue_us: u32) -> Notify {
        let mut law = cruising(queue_us);
        (law.capacity, law.request_bytes) = (12_000_000, 8 << 10);
        (law.path.snd_cwnd_pkts, law.path.command_window, law.path.mss_bytes) = (400, 512, 1448);
        law.window_bytes = law.window_for(law.capacity);
        law.readers.look(100 * RTT_US, RTT_US, &[prompt_disk(64, 8 << 10)]);
        law
    }

    #[test]
    fn at_a_loss_who_has_more_goes_half_of_the_way_and_who_has_less_stays() {
        for (share, rate, left, answered, capacity) in [
            (None, 12_000_000, false, false, 12_000_000),
            (Some(6_000_000), 12_000_000, false, true, 9_000_000),
            (Some(6_000_000), 6_100_000, false, true, 9_000_000), // TCP holds it back
            (Some(6_000_000), 6_090_000, false, false, 12_000_000), // as all others
            (Some(6_000_000), 6_800_000, true, false, 12_000_000), // readers do
            (Some(6_000_000), 8_000_000, true, true, 9_000_000),
            (Some(10_499_000), 12_000_000, false, true, 11_249_500),
            (Some(10_500_000), 12_000_000, false, false, 12_000_000),
            (Some(12_000_000), 10_499_000, false, true, 12_000_000),
            (Some(12_000_000), 10_500_000, false, false, 12_000_000),
        ] {
            let mut law = sharing(0);
            law.read.left_us = left.then_some(99 * RTT_US);
            law.trial = Some((Aim::More, law.before(rate)));
            assert_eq!(law.shares_loss(&Input { share, ..at(100) }, rate), answered, "{share:?} {rate} {left}");
            assert_eq!((law.capacity, law.window_bytes), (capacity, law.window_for(capacity)), "{share:?} {rate}");
            assert_eq!(law.trial.is_none(), capacity < 12_000_000, "it is of another W");
            law.window_bytes = 50_000;
            law.shares_loss(&Input { share, ..at(100) }, rate);
            assert_eq!(law.window_bytes, 50_000, "for another loss");
        }
    }

    /// Of a queue, and by what arrived before the hole: TCP's own cut is in the rest.
    #[test]
    fn a_page_that_tells_of_a_loss_is_answered_by_the_shares() {
        for (queue_us, before, capacity) in
            [(1_000, 12_000_000, 9_000_000), (0, 12_000_000, 12_000_000), (1_000, 6_000_000, 12_000_000)]
        {
            let mut law = sharing(queue_us);
            law.read.losses.unanswered = 1;
            (law.path.mss_bytes, law.read.holes.last_us) = (0, Some(99 * RTT_US));
            law.read.holes.first = Some((99 * RTT_US, before));
            (90..=100).for_each(|trip| law.meter.push(trip * RTT_US, carried(7_000_000, trip * RTT_US)));
            law.adjust(&Input { share: Some(6_000_000), ..at(100) });
            assert_eq!(law.capacity, capacity, "{queue_us} us, {before} B/s");
        }
    }

    /// What made W more is answered as without others.
    #[test]
    fn who_has_less_but_tries_more_gives_way() {
        for (more, stays) in [(0, true), (1, false)] {
            let mut law = sharing(1_000);
            law.window_bytes += more;
            assert_eq!(law.shares_loss(&Input { share: Some(12_000_000), ..at(100) }, 6_000_000), stays);
        }
    }

    #[test]
    fn who_has_less_asks_for_an_equal_share_if_readers_do() {
        for (share, in_flight, capacity) in [
            (Some(13_500_001), 64, 13_500_001),
            (Some(13_500_000), 64, 12_000_000),
            (Some(13_500_001), 8, 12_000_000),
            (None, 64, 12_000_000),
        ] {
            let mut law = sharing(0);
            law.readers.look(101 * RTT_US, RTT_US, &[prompt_disk(in_flight, 8 << 10)]);
            law.adjust(&Input { share, ..at(101) });
            let window_bytes = law.window_for(capacity);
            assert_eq!((law.capacity, law.window_bytes), (capacity, window_bytes), "{share:?} {in_flight}");
        }
    }

    /// How a case differs.
    type But = fn(&mut Notify);

    /// Low is 0.248 ms.
    #[test]
    fn who_has_more_leaves_what_waits_to_the_others() {
        let whole: But = |_| ();
        let late: But = |law| law.read.late_us = RTT_US / 16;
        let near: But = |law| (law.path.min_rtt_us, law.path.srtt_us) = (3_000, 3_400);
        let tried: But = |law| {
            let aim = Aim::Shorter { queue_us: 30_000, emptied_us: 10_000, small: false };
            law.trial = Some((aim, law.before(12_000_000)));
        };
        let needed: But = |law| law.cuts.until_us = 101 * RTT_US;
        let one_page: But = |law| law.last_queue_us = 0;
        let in_slots: But = |law| {
            (law.slots.trip_us, law.path.srtt_us) = (RTT_US + 2_000, 23_000 + law.path.srtt_us - 21_000);
        };
        let cases = [
            (Some(6_000_000), 1_000, whole, false, 11_428_572),
            (Some(6_000_000), 249, whole, false, 11_852_438),
            (Some(6_000_000), 248, whole, false, 12_000_000),
            (Some(6_000_000), 1_000, whole, true, 12_000_000),
            (Some(6_000_000), 1_000, late, false, 12_000_000),
            (Some(6_000_000), 1_000, near, false, 12_000_000),
            (Some(6_000_000), 1_000, tried, false, 12_000_000),
            (Some(6_000_000), 1_000, needed, false, 12_000_000),
            (Some(6_000_000), 1_000, one_page, false, 12_000_000),
            (Some(6_000_000), 1_000, in_slots, false, 12_000_000),
            (Some(10_499_000), 1_000, whole, false, 11_428_572),
            (Some(10_500_000), 1_000, whole, false, 12_000_000),
            (None, 1_000, whole, false, 12_000_000),
        ];
        for (n, (share, queue_us, but, changing, capacity)) in cases.into_iter().enumerate() {
            let mut law = sharing(queue_us);
            law.last_queue_us = queue_us.into();
            law.read.losses.shallow = true;
            (90..=100).for_each(|trip| law.meter.push(trip * RTT_US, carried(12_000_000, trip * RTT_US)));
            but(&mut law);
            law.window_bytes = law.window_for(law.capacity);
            (law.window_changed_us, law.quiet.until_us) = (100 * RTT_US, 0);
            let disks = [DiskState { changing, ..prompt_disk(64, 8 << 10) }];
            law.adjust(&Input { share, disks: &disks, ..at(100) });
            assert_eq!(
                (law.capacity, law.window_bytes),
                (capacity, law.window_for(capacity)),
                "{n}: {share:?} {queue_us}"
            );
            let left = capacity < 12_000_000;
            assert_eq!((law.quiet.until_us == 108 * RTT_US, law.last_queue_us == 0), (left, left || queue_us == 0));
        }
    }

    #[test]
    fn who_has_more_leaves_no_more_than_an_equal_share() {
        let mut law = sharing(10_000);
        assert!(law.leaves_room(&Input { share: Some(10_000_000), ..at(100) }, 12_000_000, 10_000));
        assert_eq!(law.capacity, 10_000_000);
    }

    #[test]
    fn a_path_that_carries_more_is_found_in_steps_among_sessions() {
        for (rate, share, phase, capacity) in [
            (12_200_000, Some(12_000_000), Phase::Cruise, 12_750_000),
            (12_000_000, Some(12_000_000), Phase::Cruise, 12_000_000),
            (12_200_000, None, Phase::Start, 12_000_000),
        ] {
            let mut law = sharing(0);
            law.read.losses.shallow = true;
            (90..=100).for_each(|trip| law.meter.push(trip * RTT_US, carried(rate, trip * RTT_US)));
            law.adjust(&Input { share, ..at(100) });
            let window_bytes = law.window_for(capacity);
            assert_eq!(
                (law.phase, law.capacity, law.window_bytes),
                (phase, capacity, window_bytes),
                "{rate} {share:?}"
            );
        }
    }

    #[test]
    fn who_has_more_leaves_the_others_time_after_a_loss() {
        for (share, lost_trip, grows) in [
            (Some(6_000_000), Some(51), false),
            (Some(6_000_000), Some(50), true),
            (Some(6_000_000), None, true),
            (Some(10_499_000), Some(99), false),
            (Some(10_500_000), Some(99), true),
        ] {
            let mut law = sharing(0);
            law.read.losses.shallow = true;
            law.read.losses.last_us = lost_trip.map(|trip: u64| trip * RTT_US);
            (90..=100).for_each(|trip| law.meter.push(trip * RTT_US, carried(12_200_000, trip * RTT_US)));
            law.adjust(&Input { share, ..at(100) });
            assert_eq!(law.capacity > 12_000_000, grows, "{share:?} {lost_trip:?}");
        }
    }

    /// For eight round trips: what is known of the others must not come and go with each hole.
    #[test]
    fn a_session_is_one_of_those_that_share_while_its_window_is_filled_anew() {
        let mut law = sharing(0);
        (0..=200).for_each(|trip| law.meter.push(trip * RTT_US, carried(12_000_000, trip * RTT_US)));
        assert_eq!(law.output(&at(100), 0).rate, Some(12_000_000));
        law.readers.look(101 * RTT_US, RTT_US, &[prompt_disk(1, 8 << 10)]);
        assert_eq!(law.output(&at(108), 0).rate, Some(12_000_000));
        assert_eq!(law.output(&at(109), 0).rate, None);
        let disks = [DiskState { below: true, ..prompt_disk(1, 8 << 10) }];
        assert_eq!(law.output(&Input { disks: &disks, ..at(108) }, 0).rate, None, "by another path");
    }
}
