// SPDX-License-Identifier: GPL-2.0-only
//! The start asks in bunches: requests that are asked for evenly at C come evenly at C, whatever the path carries.

use super::start::LOOK_US;
use super::{Notify, Phase};
use crate::Input;
use crate::rate::carried;

/// The start asks for requests in bunches, at most so many in a round trip, of at least so many requests, where so many fill
/// the path; far away from fewer on.
const BUNCHES: u64 = 10;
const BUNCH_REQUESTS: u64 = 2;
const BUNCHES_FROM: u64 = 24;
const FAR_BUNCHES_FROM: u64 = 8;
/// Far away more, of at least so many requests: a bunch is asked for at twice C, and must fit into a short queue.
const FAR_BUNCHES: u64 = 20;
const FAR_BUNCH_REQUESTS: u64 = 4;
/// The same, of each disk.
const DISK_BUNCHES_FROM: u64 = 2;
/// Looks from one bunch to the next: a tenth of a bunch apart.
const LOOKS: u64 = 20;
/// So many looks at a bunch of requests tell whether it is a train.
pub(super) const BUNCH_LOOKS: u64 = 6;
/// Round trips for which it looks more finely, and fills W with care, after they have shown something.
const FINE_TRIPS: u64 = 5;

/// What may be asked for, or what more has been than might.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credit {
    bytes: u64,
    debt_bytes: u64,
}

impl Credit {
    /// Either is no more than `most_bytes`.
    fn settle(&mut self, allowed_bytes: u64, asked_bytes: u64, most_bytes: u64) {
        let (bytes, debt) = (self.bytes.saturating_add(allowed_bytes), self.debt_bytes.saturating_add(asked_bytes));
        self.bytes = bytes.saturating_sub(debt).min(most_bytes);
        self.debt_bytes = debt.saturating_sub(bytes).min(most_bytes);
    }
}

/// What one read's bunches have shown.
#[derive(Debug, Default)]
pub(super) struct Bunches {
    /// On average, and in the latest; between two of them nothing is let through.
    pub(super) credit: Credit,
    latest: Credit,
    pub(super) paused: bool,
    /// The latest look has asked in bunches.
    pub(super) asks: bool,
    /// When C last grew so that bunches may show more.
    pub(super) grown_us: Option<u64>,
    /// When a train was last seen, or a hole held one back; and that bunches have shown none for one and a half round trips:
    /// data come in slots.
    pub(super) train_us: u64,
    pub(super) slots: bool,
}

impl Notify {
    /// Bunches may show more, and there is room for one; or far away one has begun, and the pause behind it is not over.
    pub(super) fn asks_in_bunches(&self, input: &Input<'_>, asked: u64) -> bool {
        if self.phase != Phase::Start || input.changing() {
            return false;
        }
        let period = |us| us / self.bunch_us();
        let goes_on = self.far() && self.read.bunches.asks && period(self.last_tick_us) == period(input.now_us);
        goes_on
            || self.read.bunches.grown_us == Some(input.now_us)
                && asked <= self.window_bytes / 8 * 7
                && !self.saturated(input.now_us)
    }

    /// Far away: TCP has sent faster than C for an eighth of a round trip, and no train was faster: C is the path's.
    fn saturated(&self, now_us: u64) -> bool {
        let ahead = self.slow_start_bytes().is_none_or(|bytes| bytes > self.bdp_bytes() / 8 * 9);
        self.far() && ahead && self.growth(now_us) <= self.capacity / 32
    }

    /// Lets requests through faster than C, and then for as long none: asked for evenly at C they come evenly at C, whatever
    /// the path carries. On average it is less, so that what that makes of a queue empties. What more begins is made up for: a
    /// depth that was made smaller is no count of commands, as each keeps its place in a bitmap, which may be beyond it.
    pub(super) fn bunch(&mut self, now_us: u64, asked: u64, window_bytes: u64) {
        let every_us = self.bunch_us();
        let (rate, average) = if self.far() {
            let average = self.capacity / 16 * 15 + self.growth(now_us) / 4 * 3;
            (2 * average.max(self.capacity), average)
        } else if self.far_pages() {
            // A bunch is many requests, and one or two more than were meant are little beside it.
            (self.capacity / 4 * 7, self.pace() / 16 * 17)
        } else {
            (self.capacity / 2 * 3, self.pace())
        };
        let elapsed_us = now_us - self.last_tick_us;
        let most_bytes = carried(self.capacity, every_us) / 3 * 5;
        let new_bytes = self.ages.new_bytes();
        self.bucket_bytes = self.request();
        self.read.bunches.credit.settle(carried(average, elapsed_us), new_bytes, most_bytes);
        let between = now_us % every_us >= every_us / 2;
        if between {
            self.read.bunches.latest = Credit { bytes: self.request(), debt_bytes: 0 };
        } else {
            self.read.bunches.latest.settle(carried(rate, elapsed_us), new_bytes, most_bytes);
        }
        let more_bytes = self.read.bunches.latest.bytes.min(self.read.bunches.credit.bytes);
        self.read.bunches.paused = between || more_bytes < self.request();
        self.filled_bytes =
            asked.saturating_add(if self.read.bunches.paused { 0 } else { more_bytes }).min(window_bytes);
    }

    /// A path that carries so many bytes in a round trip is asked in bunches. A pause leaves each disk a request.
    pub(super) fn bunches_from(&self) -> u64 {
        let least = if self.far() { FAR_BUNCHES_FROM } else { BUNCHES_FROM };
        self.request() * least.max(DISK_BUNCHES_FROM * self.readers.sharing())
    }

    /// From one bunch of requests to the next.
    pub(super) fn bunch_us(&self) -> u64 {
        let requests = self.bdp_bytes() / self.request().max(1);
        let most = (requests / FAR_BUNCH_REQUESTS).clamp(BUNCHES, self.most_bunches());
        self.rtt_us() / (requests / BUNCH_REQUESTS).clamp(1, most)
    }

    fn most_bunches(&self) -> u64 {
        if self.far() { FAR_BUNCHES } else { BUNCHES }
    }

    /// Looks in a round trip, while bunches show something.
    pub(super) fn fine_looks(&self) -> u64 {
        LOOKS * self.most_bunches()
    }

    /// What the start asks for on average: C, but no more than twice what arrives, as TCP's slow start, and half as much
    /// again in the end. Then cwnd is ahead of F; what waits for cwnd leaves at twice the rate of the acknowledgements.
    pub(super) fn pace(&self) -> u64 {
        let arriving = self.average(self.rtt_us()).unwrap_or(0);
        let most = if arriving > self.capacity / 2 { arriving / 2 * 3 } else { 2 * arriving };
        (self.capacity + self.capacity / 64).min(most.max(self.capacity / 8))
    }

    /// C has grown by an eighth in one and a half round trips, and bunches of requests can show more: there are enough
    /// requests, each packet counts, and looks are fine enough.
    pub(super) fn grows(&self) -> bool {
        self.capacity / 9 > self.capacity_before() / 8
            && !self.read.bunches.slots
            && !self.in_slots()
            && self.bdp_bytes() >= self.bunches_from()
            && self.rtt_us() / BUNCHES >= BUNCH_LOOKS * LOOK_US
            && self.counts_packets
    }

    /// Bunches have shown a faster path lately.
    pub(super) fn fine(&self) -> bool {
        let lately_us = FINE_TRIPS * self.rtt_us();
        self.phase == Phase::Start
            && self.read.bunches.grown_us.is_some_and(|us| self.last_tick_us.saturating_sub(us) <= lately_us)
    }

    /// By how much C has grown in a quarter of a round trip.
    fn growth(&self, now_us: u64) -> u64 {
        let ago_us = self.rtt_us() / 4;
        let before = self.found.lately.iter().rev().find(|&&(t, _)| now_us - t >= ago_us);
        before.map_or(0, |&(_, capacity)| self.capacity.saturating_sub(capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::per_second;
    use crate::{DiskState, Limits, PathState};

    #[test]
    fn many_disks_ask_in_bunches_once_a_pause_is_one() {
        for (rtt_us, disks, requests) in
            [(20_000, 1, 24), (20_000, 8, 24), (20_000, 16, 32), (80_000, 4, 8), (80_000, 16, 32)]
        {
            let mut law = Notify::new(Limits::default());
            law.note(PathState { min_rtt_us: rtt_us, srtt_us: rtt_us, ..PathState::default() });
            law.counts_packets = true;
            let disk = DiskState { reading: true, in_flight: 1, max_depth: 32, ..DiskState::default() };
            law.readers.look(0, rtt_us.into(), &vec![disk; disks]);
            assert_eq!(law.bunches_from(), requests * law.request(), "{disks} disks, {rtt_us} us");
        }
    }

    /// On a path that so many requests of 64 KiB fill.
    fn starting(rtt_us: u32, requests: u64) -> Notify {
        let mut law = Notify::new(Limits::default());
        (law.phase, law.counts_packets, law.request_bytes) = (Phase::Start, true, 64 << 10);
        law.note(PathState { min_rtt_us: rtt_us, srtt_us: rtt_us, mss_bytes: 1024, ..PathState::default() });
        law.capacity = per_second(requests * law.request() + 1, law.rtt_us()) + 1;
        law
    }

    /// So many requests fill the path; a bunch has at least two of them, far away four where it is one of many.
    #[test]
    fn far_away_bunches_are_shorter() {
        for (rtt_us, requests, bunches) in [
            (50_000, 12, 6),
            (50_000, 400, 10),
            (100_000, 12, 6),
            (100_000, 40, 10),
            (100_000, 60, 15),
            (100_000, 400, 20),
        ] {
            let law = starting(rtt_us, requests);
            assert_eq!(law.bunch_us(), law.rtt_us() / bunches, "{requests} requests, {rtt_us} us");
        }
    }

    /// Of a path of 400 requests: cwnd is so many, and C has grown by so many parts in a hundred in a quarter of a round trip.
    #[test]
    fn no_bunch_begins_where_tcp_is_ahead_of_trains_but_one_that_has_begun_is_paused_for() {
        const RTT_US: u32 = 100_000;
        let room = |rtt_us: u32, cwnd: u64, grown: u64, asks: bool, new_bunch: bool| {
            let mut law = starting(rtt_us, 400);
            law.path.snd_cwnd_pkts = (cwnd * 64) as u32;
            law.path.ssthresh_pkts = u32::MAX;
            law.window_bytes = 400 * law.request();
            let now_us = 100 * u64::from(rtt_us);
            law.last_tick_us = now_us - u64::from(new_bunch);
            let before = law.capacity - law.capacity * grown / 100;
            law.found.lately = [(0, before), (now_us, law.capacity)].into();
            (law.read.bunches.grown_us, law.read.bunches.asks) = (Some(now_us), asks);
            law.asks_in_bunches(&Input { now_us, path: None, received: None, share: None, disks: &[] }, 0)
        };
        for (cwnd, grown, begins) in [(300, 0, true), (440, 0, true), (460, 0, false), (460, 10, true)] {
            assert_eq!(room(RTT_US, cwnd, grown, false, true), begins, "cwnd of {cwnd}, grown by {grown} %");
        }
        assert!(room(RTT_US, 460, 0, true, false), "the pause is not over");
        assert!(!room(RTT_US, 460, 0, true, true), "it is");
        assert!(room(RTT_US / 2, 460, 0, false, true), "near, cwnd is no sign");
    }

    #[test]
    fn what_was_asked_for_too_much_is_made_up_for() {
        let mut credit = Credit::default();
        credit.settle(10, 25, 100);
        assert_eq!((credit.bytes, credit.debt_bytes), (0, 15));
        credit.settle(20, 0, 100);
        assert_eq!((credit.bytes, credit.debt_bytes), (5, 0));
        credit.settle(500, 0, 100);
        assert_eq!((credit.bytes, credit.debt_bytes), (100, 0));
        credit.settle(0, 500, 100);
        assert_eq!((credit.bytes, credit.debt_bytes), (0, 100));
    }
}
