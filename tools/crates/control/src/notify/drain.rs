// SPDX-License-Identifier: GPL-2.0-only
//! A change of the request size drains a disk's queue, in which the question for the page waits as well, if no other disk can
//! be asked: until then W goes by what this end sees. It backs off for losses, and grows no further than to the model: what is
//! tried needs a page, and a rate that no drain is part of.

use super::{Notify, Phase};
use crate::Input;

/// What is known without a page.
#[derive(Debug, Default)]
pub(super) struct Drain {
    looked_us: u64,
    /// Holes have shown an overflow since the change began.
    overflowed: bool,
    /// Overflows that no page has told of yet, and that count already; and when the latest was seen.
    counted: u32,
    counted_us: u64,
}

impl Notify {
    /// The round trip, as this end's TCP sees it: of the commands that it sends, and of what is sent with an acknowledgement of
    /// them. Returns when it was so.
    pub(super) fn own_round_trip(&mut self, input: &Input<'_>) -> Option<u64> {
        let now_us = input.now_us;
        let srtt_us = input.received.filter(|_| input.changing())?.srtt_us;
        let last_us = self.read.drain.looked_us.max(self.path.asked_us).max(self.request_changed_us);
        let trips_us = 2 * self.trip_us();
        let due = now_us.saturating_sub(last_us) >= self.page_us(now_us).max(trips_us);
        // Where a disk is late acknowledgements may be; and where others fill the queue W is for cwnd, which only pages tell.
        let none = srtt_us == 0 || self.late() || now_us < self.rivals.until_us;
        if none || !due {
            return None;
        }
        (self.read.drain.looked_us, self.path.srtt_us) = (now_us, srtt_us);
        Some(now_us.saturating_sub(trips_us))
    }

    /// One look, which may show an overflow with so much asked for. The first may be of what was asked for before the change, but
    /// a W that overflows the path again would do so until the drain is over.
    pub(super) fn look_without_page(&mut self, input: &Input<'_>, overflows: bool, asked_bytes: u64) {
        if !input.changing() {
            self.read.drain.overflowed = false;
            return;
        }
        let overflows = overflows && self.phase == Phase::Cruise && !self.overdrawn(input.now_us);
        if !overflows || !std::mem::replace(&mut self.read.drain.overflowed, true) {
            return;
        }
        self.read.drain.counted = self.read.drain.counted.saturating_add(1);
        self.read.drain.counted_us = input.now_us;
        self.read.losses.add(1, input.now_us);
        let path_bytes = asked_bytes.saturating_sub(self.late_bytes());
        let pkts = path_bytes.div_ceil(u64::from(self.path.mss_bytes).max(1));
        (self.path.prior_cwnd_pkts, self.path.reduced_rtt_us) = (pkts.min(u32::MAX.into()) as u32, 0);
    }

    /// Of the losses that a page tells of, those which are news. It may have been asked for before the target knew of one.
    pub(super) fn news(&mut self, losses: u32, asked_us: u64) -> u32 {
        let trip_us = self.trip_us();
        let drain = &mut self.read.drain;
        let known = losses.min(drain.counted);
        drain.counted = if asked_us > drain.counted_us.saturating_add(trip_us) { 0 } else { drain.counted - known };
        losses - known
    }
}

#[cfg(test)]
mod tests {
    use super::super::fill::tests::{HOLE, RATE, RTT_US, holed};
    use super::*;
    use crate::rate::carried;
    use crate::{DiskState, PathState, Received};

    const R: u32 = 16 << 10;
    const TRIP_US: u32 = RTT_US as u32;

    /// One look, while the request size changes or with a page, at a W that readers ask all of: nothing waits but for so long.
    fn look(law: &mut Notify, changing: bool, srtt_us: u32) {
        let in_flight = (law.window_bytes / law.request()) as u32;
        let disk = DiskState { reading: true, changing, request_bytes: R, max_depth: 512, ..DiskState::default() };
        let disks = [DiskState { in_flight, ..disk }];
        law.readers.look(HOLE.now_us, RTT_US, &disks);
        let path = PathState { asked_us: HOLE.now_us - RTT_US, srtt_us, ..law.path };
        law.path = if changing { law.path } else { path };
        let received = Some(Received { srtt_us, ..Received::default() });
        law.cruise(&Input { path: (!changing).then_some(path), received, disks: &disks, ..HOLE });
    }

    /// W, four requests below the model, in requests below it after a look.
    #[test]
    fn w_grows_to_the_model_where_this_end_sees_no_queue() {
        for (srtt_us, asked_us, changed_us, late_us, others, below) in [
            (TRIP_US, 0, 0, 0, false, 2),
            (TRIP_US + 1_000, 0, 0, 0, false, 4),
            (0, 0, 0, 0, false, 4),
            (TRIP_US, HOLE.now_us - RTT_US, 0, 0, false, 4), // a page has told
            (TRIP_US, 0, HOLE.now_us - 3 * RTT_US, 0, false, 4), // of another W
            (TRIP_US, 0, 0, RTT_US / 16, false, 4),
            (TRIP_US, 0, 0, 0, true, 4),
        ] {
            let mut law = holed(RATE, 400);
            (law.path.command_window, law.path.asked_us, law.read.late_us) = (512, asked_us, late_us);
            law.window_bytes = law.window_for(RATE) - 4 * law.request();
            law.window_changed_us = changed_us;
            law.rivals.until_us = if others { u64::MAX } else { 0 };
            look(&mut law, true, srtt_us);
            let bytes = law.window_for(RATE) - law.window_bytes;
            assert_eq!(bytes / law.request(), below, "{srtt_us} {asked_us} {changed_us} {late_us} us {others}");
            let looked_us = if below == 2 || srtt_us > TRIP_US || changed_us > 0 { HOLE.now_us } else { 0 };
            assert_eq!(law.read.drain.looked_us, looked_us);
        }
    }

    #[test]
    fn a_queue_that_holds_waits_for_a_page() {
        for changing in [true, false] {
            let mut law = holed(RATE, 400);
            (law.path.command_window, law.last_queue_us) = (512, 8_000);
            let window_bytes = law.window_for(RATE);
            law.window_bytes = window_bytes;
            look(&mut law, changing, TRIP_US + 8_000);
            assert_eq!(law.window_bytes < window_bytes, !changing, "{}", law.reason);
        }
    }

    /// More than C arrives, and nothing waits.
    #[test]
    fn no_start_without_pages() {
        for (changing, phase) in [(true, "cruise"), (false, "start")] {
            let mut law = holed(RATE, 400);
            (law.path.command_window, law.capacity) = (512, RATE / 100 * 98);
            law.window_bytes = law.window_for(law.capacity);
            law.meter.clear();
            (0..=50).for_each(|trip| law.meter.push(trip * RTT_US, trip * carried(RATE, RTT_US)));
            look(&mut law, changing, TRIP_US);
            assert_eq!(law.phase.name(), phase, "{}", law.reason);
        }
    }

    /// The first overflow may be of what was asked for before the change; one that was answered is no news to the page.
    #[test]
    fn what_overflows_while_no_page_tells_is_answered_once() {
        for (changing, unanswered, news) in [
            ([true; 3], [0, 1, 2], 2),
            ([false; 3], [0; 3], 4),
            ([true, false, true], [0; 3], 4), // the first of another change
        ] {
            let mut law = holed(RATE, 400);
            for ((n, unanswered), changing) in (1..).zip(unanswered).zip(changing) {
                let disks = [DiskState { reading: true, changing, ..DiskState::default() }];
                let received =
                    Some(Received { bytes: u64::from(n) << 20, out_of_order_pkts: n, ..Received::default() });
                law.look_for_holes(&Input { received, disks: &disks, ..HOLE }, 10 << 14);
                assert_eq!(law.read.losses.unanswered, unanswered, "{changing}, overflow {n}");
            }
            if unanswered[2] > 0 {
                assert_eq!(law.path.prior_cwnd_pkts, 114, "all that was asked for, of 1448 bytes");
            }
            law.read.losses.unanswered = 0;
            law.note(PathState { recovery: 4, asked_us: HOLE.now_us, ..law.path });
            assert_eq!((law.read.losses.unanswered, law.lost), (news, true), "it tells of a loss all the same");
            law.note(PathState { recovery: 5, asked_us: HOLE.now_us, ..law.path });
            assert_eq!(law.read.losses.unanswered, news + 1, "the next page tells of its own");
        }
    }

    #[test]
    fn a_loss_that_a_hole_has_told_of_is_no_news_until_a_page_that_could_know() {
        // Pages of (round trips from the hole to the question, losses), and the losses that are news.
        for (pages, news) in [
            (&[(0, 0), (1, 1), (2, 1)][..], [0, 0, 1]),
            (&[(0, 1), (1, 1), (2, 0)], [0, 1, 0]),
            (&[(0, 0), (2, 0), (3, 1)], [0, 0, 1]),
        ] {
            let mut law = holed(RATE, 100);
            (law.read.drain.counted, law.read.drain.counted_us) = (1, HOLE.now_us);
            let told = pages.iter().map(|&(trips, losses)| law.news(losses, HOLE.now_us + trips * RTT_US));
            assert_eq!(told.collect::<Vec<_>>(), news, "{pages:?}");
        }
    }
}
