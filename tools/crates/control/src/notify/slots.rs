// SPDX-License-Identifier: GPL-2.0-only
//! **Slots**: on shared media, and into hosts that sleep or join packets, all comes at once, every few milliseconds. TCP's mean
//! round trip is longer for that, and no cut of W makes it shorter.

use super::start::LOOK_US;
use super::{Notify, Phase, REPAIR_TRIPS};
use crate::Input;

/// So many of a read's first round trips are looked at, and all but one of these are to be late.
const FIRST_TRIPS: usize = 3;
/// By less, or less than an eighth, a host may be late.
const LATE_US: u64 = 500;
/// Of what slots make a round trip longer TCP's mean has half to all. Where it has less than one part in so many there are none;
/// nor later, where twice that is no more.
const SEEN_PART: u64 = 4;

/// How long a round trip is in which all waits for its slot, 0 without any; and at least, as the first ones have shown.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) trip_us: u64,
    least_us: u64,
    /// What the page before told of waiting.
    waited_us: u64,
    /// The most that was asked for in the present such round trip, and in the one before; and when it began.
    asked_bytes: [u64; 2],
    asked_us: u64,
}

/// What is asked for first is little, comes in one go, and is asked for again as it comes: a round trip that nothing on the path
/// makes longer.
#[derive(Debug, Default)]
pub(super) struct FirstTrips {
    trips_us: [u64; FIRST_TRIPS],
    known: usize,
    /// For how long what came in one go the latest time has come.
    lasted_us: u64,
    /// When something last came, when that began to, and what had come in sequence before it.
    came_us: u64,
    first_us: u64,
    before_bytes: u64,
    /// When a request of it had come, and was asked for again.
    began_us: u64,
}

impl Notify {
    /// One look at the first round trips of a read.
    pub(super) fn look_for_slots(&mut self, now_us: u64, asked_bytes: u64) {
        let rtt_us = u64::from(self.path.min_rtt_us);
        let tells = self.phase == Phase::Start
            && self.counts_packets
            && (asked_bytes > 0 || self.done_bytes > 0)
            && !self.held_back(now_us, REPAIR_TRIPS * self.trip_us());
        let request = self.request_size();
        let before_bytes = self.received.bytes.saturating_sub(self.done_bytes);
        // For so long looks have shown that nothing comes.
        let empty_us = self.last_tick_us.saturating_sub(self.read.first_trips.came_us);
        let first = &mut self.read.first_trips;
        if !tells || first.known == FIRST_TRIPS {
            first.came_us = 0;
            return;
        }
        if self.done_bytes == 0 {
            return;
        }
        let came_us = std::mem::replace(&mut first.came_us, now_us);
        if came_us == 0 || empty_us > (rtt_us / 4).max(3 * LOOK_US) {
            if came_us > 0 {
                first.trips_us[first.known] = now_us - first.began_us;
                first.lasted_us = came_us - first.first_us;
                first.known += 1;
            }
            (first.first_us, first.began_us, first.before_bytes) = (now_us, now_us, before_bytes);
        } else if before_bytes < first.before_bytes.saturating_add(request) {
            first.began_us = now_us;
        }
    }

    /// The median of the first round trips, if that is later than the path explains; else 0.
    fn late_first_us(&self) -> u64 {
        let rtt_us = u64::from(self.path.min_rtt_us);
        let mut trips_us = self.read.first_trips.trips_us;
        trips_us.sort_unstable();
        let median_us = trips_us[FIRST_TRIPS / 2];
        let late = self.read.first_trips.known == FIRST_TRIPS && median_us > rtt_us + (rtt_us / 8).max(LATE_US);
        if late && rtt_us > 0 { median_us } else { 0 }
    }

    /// A page of Start, or from soon after it, tells whether what came late did so for TCP as well, by more than what came
    /// in one go makes itself wait, and for no disk, of which pages tell (late). TCP's mean has half of what slots make
    /// longer, and all while all comes in one go. What completes is as old as a round trip in which all waits, if cwnd
    /// holds all that is asked for.
    pub(super) fn fit_slots(&mut self, input: &Input<'_>) {
        let rtt_us = u64::from(self.path.min_rtt_us);
        let (late_us, waits_us) = (self.late_first_us(), self.whole_queue_us());
        let more_us = late_us.saturating_sub(rtt_us);
        let found = late_us > 0
            && !self.in_slots()
            && self.has_started(input.now_us)
            && self.read.late_us < more_us / 2
            && self.path.asked_us >= self.read.began_us + rtt_us
            && waits_us > self.read.first_trips.lasted_us + more_us / SEEN_PART
            && self.alone(input)
            && !input.changing();
        if !found {
            return;
        }
        let held = u64::from(self.path.notsent_bytes) >= self.request() || self.path.cwnd_bytes() < self.filled_bytes;
        let age_us = self.ages.latest_us().filter(|_| self.phase == Phase::Start && !held).unwrap_or(0);
        let trip_us = late_us.max(rtt_us + 2 * waits_us).max(age_us.min(rtt_us + 2 * more_us));
        self.slots = Slots { trip_us, least_us: late_us, ..self.slots };
        // What came in one go was no rate.
        let lost = self.held_back(input.now_us, (REPAIR_TRIPS + 1) * self.trip_us());
        if let Some(rate) = self.meter.between(trip_us).filter(|_| !lost) {
            self.capacity = self.capacity.min(rate.max(self.found.known));
        }
        let known = self.found.known;
        // The start, which goes on in this look, gives the reason.
        self.enter(Phase::Start, String::new());
        self.found.known = known;
    }

    /// Two pages in a row may tell of shorter ones, or none. Those are not looked for again in this read.
    pub(super) fn shorten_slots(&mut self) {
        let waits_us = self.whole_queue_us();
        let most_us = 2 * waits_us.max(std::mem::replace(&mut self.slots.waited_us, waits_us));
        if self.in_slots() && (self.slot_us() == 0 || most_us <= self.slot_us() / SEEN_PART) {
            self.slots.trip_us = 0;
            self.read.first_trips = FirstTrips { known: FIRST_TRIPS, ..FirstTrips::default() };
        } else if most_us < self.slot_us() / 4 * 3 {
            self.slots.trip_us = (u64::from(self.path.min_rtt_us) + most_us).max(self.slots.least_us);
        }
    }

    /// What readers have had in flight lately: in slots all of it comes, and they ask again a little later.
    pub(super) fn used_bytes(&mut self, now_us: u64, asked_bytes: u64) -> u64 {
        let slots = &mut self.slots;
        if now_us - slots.asked_us >= slots.trip_us {
            (slots.asked_us, slots.asked_bytes) = (now_us, [0, slots.asked_bytes[0]]);
        }
        let [lately, before] = &mut slots.asked_bytes;
        *lately = asked_bytes.max(*lately);
        if slots.trip_us > 0 { *lately.max(before) } else { asked_bytes }
    }

    /// For so long something may wait for its slot.
    pub(super) fn slot_us(&self) -> u64 {
        self.slots.trip_us.saturating_sub(self.path.min_rtt_us.into())
    }

    pub(super) fn in_slots(&self) -> bool {
        self.slots.trip_us > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::cruise::tests::prompt_disk;
    use super::*;
    use crate::rate::carried;
    use crate::{Limits, PathState};

    const RTT_US: u64 = 2_000;
    const BEGAN_US: u64 = 1_000_000;
    const REQUEST_BYTES: u64 = 16 << 10;

    fn starting(srtt_us: u64) -> Notify {
        let mut law = Notify::new(Limits::default());
        (law.phase, law.counts_packets, law.request_bytes) = (Phase::Start, true, REQUEST_BYTES as u32);
        law.read.began_us = BEGAN_US;
        law.note(page(srtt_us));
        law
    }

    /// Asked for a round trip after the read began.
    fn page(srtt_us: u64) -> PathState {
        PathState {
            asked_us: BEGAN_US + RTT_US,
            min_rtt_us: RTT_US as u32,
            srtt_us: srtt_us as u32,
            snd_cwnd_pkts: 100,
            ssthresh_pkts: u32::MAX,
            mss_bytes: 1448,
            command_window: 512,
            ..PathState::default()
        }
    }

    /// Two requests come, at so many bytes/s, so many us after the first of the two before had come whole, maybe with a hole.
    fn first_trips(law: &mut Notify, rate: u64, trips_us: &[u64], hole: bool) {
        let (mut now_us, mut whole_us) = (BEGAN_US, BEGAN_US);
        let look = |law: &mut Notify, now_us, bytes| {
            law.done_bytes = bytes;
            law.received.bytes += bytes;
            law.read.holes.last_us = hole.then_some(now_us);
            law.look_for_slots(now_us, 2 * REQUEST_BYTES);
            law.last_tick_us = now_us;
        };
        for trip_us in trips_us {
            while now_us < whole_us + trip_us {
                look(law, now_us, 0);
                now_us += LOOK_US;
            }
            let mut left = 2 * REQUEST_BYTES;
            whole_us = 0;
            while left > 0 {
                let bytes = carried(rate, LOOK_US).min(left);
                left -= bytes;
                look(law, now_us, bytes);
                if whole_us == 0 && left <= REQUEST_BYTES {
                    whole_us = now_us;
                }
                now_us += LOOK_US;
            }
        }
    }

    /// Three after the first; RTT 2 ms and a slot of 5. On a link of 12.5 MB/s a request takes 1.3 ms.
    #[test]
    fn what_comes_later_than_the_path_explains_is_late_but_for_once() {
        const FAST: u64 = 1_000_000_000;
        for (rate, trips_us, hole, late_us) in [
            (FAST, [7_000, 7_000, 7_100, 7_000], false, 7_000),
            (FAST, [7_000, 2_000, 7_100, 7_000], false, 7_000),
            (FAST, [7_000, 2_000, 7_100, 2_000], false, 0),
            (FAST, [2_000, 2_400, 2_400, 2_400], false, 0),
            (FAST, [7_000, 7_000, 7_100, 7_000], true, 0),
            (12_500_000, [2_000, 2_000, 2_000, 2_000], false, 0),
            (12_500_000, [7_000, 7_000, 7_000, 7_000], false, 7_000),
        ] {
            let mut law = starting(RTT_US);
            first_trips(&mut law, rate, &trips_us, hole);
            assert!(
                law.late_first_us().abs_diff(late_us) <= LOOK_US,
                "{} us: {trips_us:?}, {rate}",
                law.late_first_us()
            );
        }
    }

    /// A daemon that is not run has seen nothing come.
    #[test]
    fn what_looks_have_not_seen_is_no_pause() {
        let mut law = starting(RTT_US);
        for trip in 0..5 {
            (law.done_bytes, law.received.bytes) = (2 * REQUEST_BYTES, 2 * trip * REQUEST_BYTES);
            law.look_for_slots(BEGAN_US + trip * 7_000, 2 * REQUEST_BYTES);
            law.last_tick_us = BEGAN_US + trip * 7_000;
        }
        assert_eq!(law.read.first_trips.known, 0);
    }

    /// What is asked for first has come after 7 ms, all at once or within 3 ms. It is with a disk if TCP waits for nothing, or for no
    /// more than that makes itself wait.
    #[test]
    fn slots_are_found_where_tcp_waits_for_them_as_well() {
        const FAST: u64 = 1_000_000_000;
        for (srtt_us, rate, age_us, cwnd_pkts, shared, in_cruise, trip_us) in [
            (3_000, FAST, None, 100, false, false, 0),
            (4_500, FAST, None, 100, false, false, 7_000),
            (6_500, FAST, None, 100, false, false, 11_000),
            (6_500, FAST, None, 100, true, false, 0),
            (4_500, 11_000_000, None, 100, false, false, 0),
            (4_500, FAST, Some(9_000), 100, false, false, 9_000),
            (4_500, FAST, Some(6_000), 100, false, false, 7_000),
            (4_500, FAST, Some(40_000), 100, false, false, 12_000),
            (4_500, FAST, Some(9_000), 10, false, false, 7_000), // most of that age is cwnd's
            (6_500, FAST, None, 100, false, true, 11_000),
        ] {
            let mut law = starting(RTT_US);
            first_trips(&mut law, rate, &[7_000; 4], false);
            law.note(PathState { snd_cwnd_pkts: cwnd_pkts, ..page(srtt_us) });
            let now_us = BEGAN_US + 60_000;
            (law.capacity, law.filled_bytes) = (400_000_000, 6 * REQUEST_BYTES);
            if let Some(age_us) = age_us {
                law.ages.push(now_us - age_us, REQUEST_BYTES, 0);
                law.ages.push(now_us, 0, REQUEST_BYTES);
            }
            law.found.lately.push_back((now_us, law.capacity));
            if in_cruise {
                law.enter(Phase::Cruise, String::new());
            }
            let input = Input { now_us, path: None, received: None, share: shared.then_some(1), disks: &[] };
            law.fit_slots(&input);
            assert_eq!(
                law.slots.trip_us, trip_us,
                "{srtt_us} us, {rate} B/s, {age_us:?} us, {cwnd_pkts} packets, {shared}"
            );
            assert_eq!(law.phase == Phase::Start, !in_cruise || trip_us > 0);
        }
    }

    /// What TCP's mean was before the read is of the login; and later W may have filled the queue. A round trip is 6.5 ms, with what
    /// waits. Late, by 5 ms, may be a disk, which pages have told of.
    #[test]
    fn only_pages_of_the_start_tell_of_slots_and_not_of_a_late_disk() {
        for (asked_us, started_us, disk_us, found) in [
            (RTT_US, 0, 0, true),
            (RTT_US - 1, 0, 0, false),
            (RTT_US, 8 * 6_500, 0, true),
            (RTT_US, 8 * 6_500 + 1, 0, false),
            (RTT_US, 0, 2_300, true),
            (RTT_US, 0, 2_600, false),
        ] {
            let mut law = starting(RTT_US);
            first_trips(&mut law, 1_000_000_000, &[7_000; 4], false);
            law.note(PathState { asked_us: BEGAN_US + asked_us, ..page(6_500) });
            let now_us = BEGAN_US + 100_000;
            (law.capacity, law.read.late_us) = (4_000_000, disk_us);
            law.found.lately.push_back((now_us - started_us, law.capacity));
            law.fit_slots(&Input { now_us, path: None, received: None, share: None, disks: &[] });
            assert_eq!(law.in_slots(), found, "asked after {asked_us} us, over for {started_us} us, {disk_us} us late");
        }
    }

    /// Of RTT 2 ms they make 8. 32 KiB come each 8 ms; in Start 3 MB/s more each round trip would have it ask in bunches.
    #[test]
    fn in_slots_rates_are_of_whole_ones_and_what_waits_is_no_queue_and_not_late() {
        for (trip_us, rate, high_us, late_us, grows) in
            [(0, None, 2_000 / 16, 9_000, true), (8_000, Some(4_096_000), 8_000 / 16 + 3_000, 3_000, false)]
        {
            let mut law = starting(RTT_US);
            law.slots.trip_us = trip_us;
            law.path = PathState { asked_us: BEGAN_US + 98_000, ..page(if trip_us > 0 { 5_000 } else { RTT_US }) };
            let now_us = BEGAN_US + 100_000;
            for us in (0..=95_000).step_by(100) {
                law.meter.push(BEGAN_US + us, us / 8_000 * 2 * REQUEST_BYTES);
            }
            assert_eq!(law.average(7_000).filter(|_| trip_us > 0), rate);
            law.capacity = 1_000_000_000;
            assert_eq!(law.queue_high_us() - law.slack_us(), high_us);
            law.ages.push(now_us - 11_016, REQUEST_BYTES, 0);
            law.ages.push(now_us, 0, REQUEST_BYTES);
            law.fit_late(now_us);
            assert_eq!(law.read.late_us, late_us, "{trip_us} us");
            law.path.min_rtt_us = 8_000;
            law.found.lately.push_back((now_us - 1, law.capacity / 2));
            assert_eq!(law.grows(), grows);
        }
    }

    /// 32 KiB each 7 ms are 4.68 MB/s, and in a round trip of 2 ms 16.4; unless something was lost, or more was known before.
    #[test]
    fn what_came_in_one_go_was_no_rate() {
        for (hole, known, capacity) in [(false, 0, 4_681_142), (true, 0, 16_400_000), (false, 9_000_000, 9_000_000)] {
            let mut law = starting(4_500);
            first_trips(&mut law, 1_000_000_000, &[7_000; 4], false);
            let now_us = BEGAN_US + 70_000;
            for us in (0..70_000).step_by(100) {
                law.meter.push(BEGAN_US + us, us / 7_000 * 2 * REQUEST_BYTES);
            }
            (law.capacity, law.found.known, law.found.train) = (16_400_000, known, 16_400_000);
            law.read.holes.last_us = hole.then_some(now_us);
            law.found.lately.push_back((now_us, law.capacity));
            law.fit_slots(&Input { now_us, path: None, received: None, share: None, disks: &[] });
            assert_eq!((law.capacity, law.found.train, law.found.known), (capacity, 0, known), "{hole}");
        }
    }

    /// 10 ms at RTT 2 ms, of which TCP's mean shows 4; as the first round trips have shown it is 7 at least. A path that has become
    /// longer has none.
    #[test]
    fn two_pages_tell_of_shorter_slots() {
        for (srtts_us, rtt_us, least_us, trip_us) in [
            ([6_000, 6_000], RTT_US, 0, 10_000),
            ([3_500, 6_000], RTT_US, 0, 10_000),
            ([4_500, 4_500], RTT_US, 0, 7_000),
            ([4_000, 4_000], RTT_US, 7_000, 7_000),
            ([2_500, 2_500], RTT_US, 7_000, 0),
            ([14_000, 14_000], 12_000, 7_000, 0),
        ] {
            let mut law = starting(6_000);
            law.slots = Slots { trip_us: 10_000, least_us, waited_us: 4_000, ..Slots::default() };
            let min_rtt_us = rtt_us as u32;
            srtts_us.into_iter().for_each(|srtt_us| law.note(PathState { min_rtt_us, ..page(srtt_us) }));
            assert_eq!(law.slots.trip_us, trip_us, "{srtts_us:?} us, {rtt_us} us, {least_us} us");
        }
    }

    /// All that was asked for comes in one go, and readers ask again a little later: what they have not asked for in two round trips
    /// they leave.
    #[test]
    fn in_slots_readers_leave_nothing_for_a_round_trip() {
        for (trip_us, after_us, requests) in [(0, 100, 1), (7_000, 100, 6), (7_000, 14_100, 1)] {
            let mut law = starting(4_500);
            (law.slots.trip_us, law.capacity, law.filled_bytes) = (trip_us, 12_500_000, 6 * REQUEST_BYTES);
            law.window_bytes = law.filled_bytes;
            for now_us in (BEGAN_US..=BEGAN_US + after_us).step_by(100) {
                let disk = prompt_disk(if now_us == BEGAN_US { 6 } else { 0 }, REQUEST_BYTES as u32);
                (law.last_tick_us, law.moving_us) = (now_us, now_us);
                law.readers.look(now_us, RTT_US, &[disk]);
                law.fill(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
            }
            assert_eq!(law.filled_bytes / REQUEST_BYTES, requests, "{trip_us} us, after {after_us} us");
        }
    }
}
