// SPDX-License-Identifier: GPL-2.0-only
//! F: how much of W is let through, and when.

use super::bunches::Credit;
use super::{FIRST_BYTES, Notify, Phase, REPAIR_TRIPS, STEADY_REQUESTS, STEADY_US, THRESHOLD_TRIPS};
use crate::Input;
use crate::rate::{carried, per_second};

/// Least time between two looks while nothing is to be filled; and in Cruise while readers use all of W, but within so long
/// have not.
const FULL_LOOK_US: u64 = 10_000;
const RETURN_LOOK_US: u64 = 500;
const RETURN_US: u64 = 2_000_000;
/// Requests that the start asks for beyond cwnd before there are bunches: one is the page's question, one has come in part,
/// and one is on its way to the target.
const AHEAD_REQUESTS: u64 = 3;
/// Behind a hole that let nothing through not all of W is asked for.
const CARE_TRIPS: u64 = 4;
/// Readers that never had more in flight for so long may have it all at once, and what is left to them then.
const FEW_BYTES: u64 = 64 << 10;
const FEW_TRIPS: u64 = 4;
const FEW_LEFT_BYTES: u64 = 96 << 10;

impl Notify {
    /// Lets W through at the rate C: at once, it would leave the target in one burst. What the readers left unused is
    /// let through anew when they come back. Before C is known each byte that arrives lets two through.
    pub(super) fn fill(&mut self, input: &Input<'_>) {
        self.read.bunches.paused = false;
        let asked = self.readers.asked_bytes();
        self.read.most_asked_bytes = self.read.most_asked_bytes.max(asked);
        let full = std::mem::take(&mut self.read.full);
        if self.lossy(input.now_us) {
            // What waits for cwnd makes no queue on the path.
            (self.filled_bytes, self.bucket_bytes) = (self.window_bytes, self.lump());
            self.read.advertised.most_bytes = 2 * self.window_bytes;
            (self.moving_us, self.read.leisure) = (input.now_us, false);
            return;
        }
        let done = self.done_bytes;
        let lump = self.lump();
        // Where the kernel is late to use a greater depth, an unused one says nothing about the readers.
        let prompt = input.disks.iter().all(|d| d.prompt || !d.reading);
        let chance = self.blocked_by_chance();
        let overflowed = !chance && self.blocked(input.now_us, THRESHOLD_TRIPS);
        let bunches = prompt && !overflowed && self.asks_in_bunches(input, asked);
        let used = if prompt { self.used_bytes(input.now_us, asked).saturating_add(lump) } else { u64::MAX };
        // Far away the question is always in the place of a request, and what a look lets through may be a part of one. What more
        // that lets through while C doubles a short queue does not hold.
        let starts = self.phase == Phase::Start && self.far_pages() && !self.doubles();
        let room = if starts { lump.saturating_sub(1) } else { 0 };
        let kept = used.saturating_add(room).max(if self.few(input.now_us) { FEW_LEFT_BYTES } else { 0 });
        let left = self.filled_bytes > kept && !self.readers.compete();
        if left {
            (self.read.left_us, self.bucket_bytes) = (Some(input.now_us), lump);
        }
        self.read.bunches.asks = bunches;
        if !bunches {
            self.read.bunches.credit = Credit::default();
        }
        // TCP's cwnd is less by then, too; sessions that share a path give way by their shares.
        let trips = if chance { REPAIR_TRIPS } else { CARE_TRIPS };
        let careful = self.blocked(input.now_us, trips) && input.share.is_none();
        if careful {
            self.read.short_us = input.now_us;
        }
        let slow_start_bytes = self.slow_start_bytes();
        let window_bytes = self.most_filled_bytes(careful, slow_start_bytes);
        // What waits at the target would leave in one burst once a hole is filled.
        let bursts = careful && !self.cwnd_holds_window();
        self.read.advertised.most_bytes = if bursts { self.window_bytes } else { window_bytes };
        self.filled_bytes = if left { kept } else { self.filled_bytes }.min(window_bytes);
        if self.stalled(input, self.asked_of_path(), done) {
            return;
        }
        let leisure_bytes = self.leisure_bytes(input.now_us);
        if std::mem::replace(&mut self.read.leisure, leisure_bytes.is_some()) {
            // Since when they have asked for more was not seen.
            self.last_tick_us = input.now_us;
        }
        if let Some(bytes) = leisure_bytes {
            (self.filled_bytes, self.bucket_bytes) = (bytes, lump);
            // Looks are too rare to tell.
            self.ages.clear();
            return;
        }
        if self.capacity == 0 {
            self.filled_bytes = self.filled_bytes.saturating_add(done).min(window_bytes);
            return;
        }
        if bunches {
            self.bunch(input.now_us, self.readers.claimed_bytes(), window_bytes);
            return;
        }
        let gentle = self.gentle(input.now_us);
        let rate = self.fill_rate(input.now_us, overflowed, gentle, slow_start_bytes);
        let elapsed_us = input.now_us - self.last_tick_us;
        let mut allowed = carried(rate, elapsed_us);
        // A path that is full at C brings C: what is beyond it is asked for a little at a time.
        let beyond = self.slack_bytes() + self.late_bytes();
        if gentle && asked >= self.brim_bytes().min(window_bytes.saturating_sub(beyond) / 16 * 15) {
            let more = (rate / 32).max(self.request_rate() / 4);
            allowed = allowed.max(done.saturating_add(carried(more, elapsed_us)));
        }
        // While F was all that it may be, time let nothing through, and does not do so in one burst when that grows.
        let most = if full { 2 * lump } else { u64::MAX };
        self.bucket_bytes = self.bucket_bytes.saturating_add(allowed).saturating_sub(done).min(most);
        if self.doubles() && !self.fine() && !overflowed && slow_start_bytes.is_some_and(|b| b < self.bunches_from()) {
            // Slow start is not to wait for requests while they are few, nor for the question's place.
            self.filled_bytes = used.saturating_add(lump).min(window_bytes);
        }
        // One request more at a time, unless looks are rare.
        let once = if gentle { lump.max(carried(rate, elapsed_us)) } else { u64::MAX };
        let pending = self.bucket_bytes.saturating_sub(lump).min(once);
        if pending >= lump || self.filled_bytes + lump > window_bytes {
            self.filled_bytes = (self.filled_bytes + pending).min(window_bytes);
            self.bucket_bytes = self.bucket_bytes.min(lump);
        }
        self.read.full = self.phase == Phase::Cruise && self.filled_bytes + lump > window_bytes;
    }

    /// Readers have had little in flight for long enough to tell, and have lost nothing.
    fn few(&self, now_us: u64) -> bool {
        self.read.most_asked_bytes <= FEW_BYTES
            && self.read.losses.last_us.is_none()
            && now_us - self.read.began_us > FEW_TRIPS * self.trip_us()
    }

    /// What of W may be let through in the end.
    fn most_filled_bytes(&self, careful: bool, slow_start_bytes: Option<u64>) -> u64 {
        let full = self.advertises && self.cwnd_holds_window();
        let least_bytes = if full { self.window_bytes.saturating_sub(self.slack_bytes()) } else { 0 };
        let window_bytes = if careful { (self.window_bytes / 8 * 7).max(least_bytes) } else { self.window_bytes };
        // What waits for cwnd leaves at twice the rate of the acknowledgements.
        let ahead = if self.fine() { 0 } else { AHEAD_REQUESTS * self.request() };
        let most = slow_start_bytes.map_or(u64::MAX, |b| b.saturating_add(self.late_bytes() + ahead).max(FIRST_BYTES));
        window_bytes.min(most)
    }

    /// A little more than C and than what arrives: where C errs low, F must still reach W to show that. While C still
    /// doubles with a paced sender's cwnd, requests must be ahead of it.
    fn fill_rate(&self, now_us: u64, overflowed: bool, gentle: bool, slow_start_bytes: Option<u64>) -> u64 {
        let rate = self.capacity.max(self.rate().unwrap_or(0));
        if self.blocked(now_us, REPAIR_TRIPS) {
            // What is sent again needs room as well, and what has overflowed once, care.
            rate / 4 * 3
        } else if self.lengthened(now_us) {
            // Of what both ends' cwnd has held before nothing waits. The initiator's, which bounds how many requests are on their
            // way, doubles at most.
            let held_bytes = self.path.cwnd_bytes().min(self.read.held_requests * self.request_size());
            let arriving = self.average(self.rtt_us()).unwrap_or(0).max(self.request_rate());
            let most = rate / 32 * 31;
            if self.filled_bytes < held_bytes { most } else { most.min(arriving / 2 * 3) }
        } else if self.fine() && !overflowed {
            if self.far() { rate + rate / 64 } else { self.pace() }
        } else if let Some(bytes) = slow_start_bytes.filter(|_| self.doubles()) {
            // What arrives, or arrived before readers paused: in slow start half of cwnd.
            let arriving = self.average(self.rtt_us()).unwrap_or(0).max(per_second(bytes / 2, self.rtt_us()));
            (rate / 2 * 3).min(arriving / 4 * 7)
        } else if self.doubles() || self.blind() {
            rate / 2 * 3
        } else if gentle {
            // Trains err by a few parts in a hundred, which a short queue does not hold.
            rate - if overflowed { rate / 32 } else { 0 }
        } else {
            // What readers leave and come back to far away, where trains have told C, has to show nothing. Nearer it may come in
            // slots, of which trains tell more.
            let told = self.phase == Phase::Start && self.far_pages() && self.returns(now_us) && self.trains_tell();
            rate + rate / if overflowed || told { 64 } else { 16 }
        }
    }

    /// In Cruise, and no other flows are known to be there.
    pub(super) fn cruises_alone(&self, now_us: u64) -> bool {
        self.phase == Phase::Cruise && now_us >= self.rivals.until_us
    }

    /// No other flows are there, and trains have told C: more need not be asked for to show that the path carries more.
    pub(super) fn gentle(&self, now_us: u64) -> bool {
        self.cruises_alone(now_us) && self.trains_tell()
    }

    /// F where readers have asked for the same for long, and for clearly less than they may: so much that more is seen to be
    /// more, of each disk.
    fn leisure_bytes(&self, now_us: u64) -> Option<u64> {
        let (least, most) = self.read.steady.bounds(now_us, STEADY_US.max(THRESHOLD_TRIPS * self.rtt_us()))?;
        let bytes = least.saturating_add((STEADY_REQUESTS + self.readers.sharing()) * self.lump());
        // Of a W of a few requests one less than three quarters is clearly less.
        let clear = most.saturating_add(self.lump()) <= self.window_bytes / 4 * 3;
        let window_bytes = if clear { self.window_bytes.max(FIRST_BYTES) } else { self.window_bytes };
        (bytes <= window_bytes / 4 * 3 && !self.readers.compete()).then_some(bytes.min(self.window_bytes))
    }

    /// Readers have left some of W unused lately.
    pub(super) fn returns(&self, now_us: u64) -> bool {
        self.read.left_us.is_some_and(|left_us| now_us - left_us <= RETURN_US)
    }

    /// From one look to the next.
    pub(super) fn look_us(&self, now_us: u64, starts: bool) -> u64 {
        if self.read.leisure {
            FULL_LOOK_US.max(self.rtt_us() / 4)
        } else if starts {
            self.fine_us()
        } else if self.filled_bytes < self.window_bytes {
            // As often as a request may be let through.
            self.request_us().clamp(self.fine_us(), (self.rtt_us() / 32).max(self.fine_us()))
        } else {
            // Readers that leave and come back are to be seen before W has left the path, or all of it would be asked for
            // at once.
            let least_us = if self.returns(now_us) {
                (self.rtt_us() / 2).clamp(RETURN_LOOK_US, FULL_LOOK_US)
            } else {
                FULL_LOOK_US
            };
            least_us.max(self.rtt_us() / 4)
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cruise::tests::prompt_disk;
    use super::*;
    use crate::{DiskState, Limits, PathState};

    pub(in super::super) const RTT_US: u64 = 20_000;
    pub(in super::super) const RATE: u64 = 12_500_000;

    /// In Cruise, a hole at the 50th round trip lets nothing through; so much came in the last two before it, and cwnd is so
    /// many packets.
    pub(in super::super) fn holed(rate: u64, snd_cwnd_pkts: u32) -> Notify {
        let mut law = Notify::new(Limits::default());
        (law.phase, law.capacity, law.request_bytes) = (Phase::Cruise, RATE, 16 << 10);
        let rtt_us = RTT_US as u32;
        law.note(PathState {
            min_rtt_us: rtt_us,
            srtt_us: rtt_us,
            mss_bytes: 1448,
            snd_cwnd_pkts,
            ..PathState::default()
        });
        law.window_bytes = law.window_for(RATE);
        let mut bytes = 0;
        for trip in 1..=50 {
            law.meter.push(trip * RTT_US, bytes);
            bytes += carried(if trip < 47 { RATE } else { rate }, if trip < 49 { RTT_US } else { 0 });
        }
        law.moving_us = 49 * RTT_US;
        law.read.short_us = 46 * RTT_US;
        law
    }

    pub(in super::super) const HOLE: Input<'_> =
        Input { now_us: 50 * RTT_US, path: None, received: None, share: None, disks: &[] };

    /// In bytes/s: half as much again as arrives, and a little less than C; for fifty round trips, or until something is lost.
    /// Of what both ends have let through before nothing waits: ten requests, if cwnd holds them.
    #[test]
    fn a_longer_path_is_filled_by_half_as_much_again() {
        for (arriving, filled, snd_cwnd_pkts, trip, rate) in [
            (4_000_000, 10, 1_000, 45, 6_000_000),
            (4_000_000, 9, 1_000, 45, RATE / 32 * 31),
            (4_000_000, 9, 100, 45, 6_000_000),
            (12_000_000, 10, 1_000, 45, RATE / 32 * 31),
            (0, 10, 1_000, 45, (16 << 10) * 50 / 2 * 3),
            (4_000_000, 10, 1_000, 55, RATE),
        ] {
            let mut law = holed(RATE, snd_cwnd_pkts);
            (law.filled_bytes, law.read.held_requests) = (filled * law.request_size(), 10);
            law.meter.clear();
            (0..=trip).for_each(|trip| law.meter.push(trip * RTT_US, carried(arriving, trip * RTT_US)));
            (law.found.train, law.read.lengthened_us) = (RATE, Some(2 * RTT_US));
            let most = law.fill_rate(trip * RTT_US, false, true, None);
            assert!(most.abs_diff(rate) <= rate / 64, "{most} of {rate} B/s");
        }
    }

    /// After a hole; what waits at the target is no burst where cwnd lets all of W through.
    #[test]
    fn what_is_advertised_is_all_of_the_path_after_a_hole_unless_cwnd_is_less() {
        for (advertises, snd_cwnd_pkts, bytes) in [(true, 60, 93_750), (true, 50, 87_500), (false, 60, 87_500)] {
            let mut law = holed(RATE, snd_cwnd_pkts);
            (law.advertises, law.window_bytes) = (advertises, 100_000);
            assert_eq!(law.most_filled_bytes(true, None), bytes, "{snd_cwnd_pkts} packets");
        }
    }

    #[test]
    fn a_window_that_grows_is_no_burst() {
        let mut law = Notify::new(Limits::default());
        (law.phase, law.capacity, law.request_bytes) = (Phase::Cruise, RATE, 16 << 10);
        let rtt_us = RTT_US as u32;
        law.note(PathState { min_rtt_us: rtt_us, srtt_us: rtt_us, command_window: 512, ..PathState::default() });
        let request_bytes = law.request();
        let in_flight = 1000;
        let disks =
            [DiskState { reading: true, in_flight, request_bytes: 16 << 10, max_depth: 512, ..DiskState::default() }];
        (law.window_bytes, law.filled_bytes) = (10 * request_bytes, 10 * request_bytes);
        let look = |law: &mut Notify, now_us| {
            law.readers.look(now_us, RTT_US, &disks);
            law.moving_us = now_us;
            law.fill(&Input { now_us, path: None, received: None, share: None, disks: &disks });
            law.last_tick_us = now_us;
            law.filled_bytes / request_bytes
        };
        look(&mut law, 10_000);
        law.window_bytes *= 2;
        assert_eq!(look(&mut law, 20_000), 11, "not what ten milliseconds let through");
        let request_us = law.request_us();
        assert_eq!(look(&mut law, 20_000 + 2 * request_us), 13);
    }

    #[test]
    fn a_reader_of_little_at_a_time_may_have_it_at_once() {
        let loss = Some(40 * RTT_US);
        for (most_asked, trips, lost_us, kept) in
            [(4, 50, None, 6), (5, 50, None, 1), (4, 3, None, 1), (4, 50, loss, 1)]
        {
            let mut law = holed(RATE, 400);
            (law.read.began_us, law.read.losses.last_us) = ((50 - trips) * RTT_US, lost_us);
            law.path.command_window = 512;
            let (lump, now_us) = (law.request(), 50 * RTT_US);
            assert_eq!(lump, 16 << 10);
            (law.window_bytes, law.filled_bytes) = (20 * lump, 8 * lump);
            for (looks, in_flight) in [most_asked, 0, 0].into_iter().enumerate() {
                let now_us = now_us + looks as u64 * 1_000;
                let disk = prompt_disk(in_flight, lump as u32);
                law.readers.look(now_us, RTT_US, &[disk]);
                (law.moving_us, law.last_tick_us) = (now_us, now_us);
                law.fill(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
            }
            assert_eq!(law.filled_bytes, kept * lump, "{most_asked} after {trips}, loss {lost_us:?}");
        }
    }

    /// What trains err by and the slack are more than a short queue holds: none of it is asked for on the way to W.
    #[test]
    fn a_reader_that_comes_back_is_let_through_at_c() {
        let in_flight = 1000;
        let disks =
            [DiskState { reading: true, in_flight, request_bytes: 16 << 10, max_depth: 512, ..DiskState::default() }];
        for (others, most) in [(false, 74), (true, 78)] {
            let mut law = holed(RATE, 400);
            law.found.train = RATE;
            law.path.command_window = 512;
            law.rivals.until_us = if others { 1 << 40 } else { 0 };
            let (lump, now_us) = (law.request(), 50 * RTT_US);
            (law.window_bytes, law.filled_bytes, law.bucket_bytes) = (200 * lump, 10 * lump, lump);
            law.readers.look(now_us, RTT_US, &disks);
            law.moving_us = now_us;
            law.last_tick_us = now_us - carried(1_000_000, 64 * lump * 1_000_000 / RATE);
            law.fill(&Input { now_us, path: None, received: None, share: None, disks: &disks });
            assert!((most - 4..=most).contains(&(law.filled_bytes / lump)), "{}", law.filled_bytes / lump);
        }
    }

    /// Far away in Start the question is in the place of a request, and a part of one may have been let through.
    #[test]
    fn what_one_request_and_the_question_leave_is_no_reader_that_has_left() {
        let (cruise, start) = (Phase::Cruise, Phase::Start);
        for (rtt_us, unused, phase, before, grown_us, left) in [
            (40_000, 2, start, RATE, None, false),
            (40_000, 2, start, RATE, Some(50 * RTT_US), false), // while bunches are of use as well
            (40_000, 2, start, RATE / 2, None, true),
            (40_000, 3, start, RATE, None, true),
            (40_000, 2, cruise, RATE, None, true),
            (39_999, 2, start, RATE, None, true),
        ] {
            let mut law = holed(RATE, 400);
            (law.path.command_window, law.path.min_rtt_us, law.phase) = (512, rtt_us, phase);
            (law.floor_us, law.counts_packets, law.read.bunches.grown_us) = (0, true, grown_us);
            law.found.lately.push_back((0, before));
            let (lump, now_us) = (law.request(), 50 * RTT_US);
            (law.window_bytes, law.filled_bytes) = (40 * lump, 12 * lump - 1);
            let disk = prompt_disk(12 - unused, lump as u32);
            law.readers.look(now_us, rtt_us.into(), &[disk]);
            (law.moving_us, law.last_tick_us) = (now_us, now_us);
            law.fill(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
            let found = law.read.left_us.is_some();
            assert_eq!(found, left, "{rtt_us} us, {unused} unused, {phase:?}, {before} B/s, {grown_us:?}");
        }
    }

    /// The question is in the place of a request, and looks are more than one in the time that one takes.
    #[test]
    fn far_readers_are_let_through_at_c_however_often_they_are_looked_at() {
        for looks in 1..=8 {
            let mut law = holed(RATE, 400);
            (law.phase, law.path.command_window, law.path.min_rtt_us) = (Phase::Start, 512, 40_000);
            let (lump, request_us) = (law.request(), law.request_us());
            (law.window_bytes, law.filled_bytes, law.bucket_bytes) = (200 * lump, 3 * lump, lump);
            law.last_tick_us = 50 * RTT_US;
            for look in 1..=32 * looks {
                let now_us = 50 * RTT_US + look * request_us / looks;
                let disk = prompt_disk((law.filled_bytes / lump - 1) as u32, lump as u32);
                law.readers.look(now_us, RTT_US, &[disk]);
                law.moving_us = now_us;
                law.fill(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
                law.last_tick_us = now_us;
            }
            let requests = law.filled_bytes / lump - 3;
            assert!((31..=36).contains(&requests), "{requests} in the time of 32, {looks} looks for each");
            assert!(law.read.left_us.is_none());
        }
    }

    /// Far away, where trains have told C, and not after longer than two seconds. In Cruise others fill the queue.
    #[test]
    fn what_a_reader_comes_back_to_in_start_is_hardly_more_than_c() {
        let (cruise, start) = (Phase::Cruise, Phase::Start);
        for (phase, rtt_us, train, left_us, more) in [
            (start, 40_000, RATE, Some(0), 64),
            (start, 39_999, RATE, Some(0), 16),
            (start, 40_000, RATE, None, 16),
            (start, 40_000, RATE / 2, Some(0), 16),
            (cruise, 40_000, RATE, Some(0), 16),
        ] {
            let mut law = holed(RATE, 400);
            (law.phase, law.found.train, law.read.left_us) = (phase, train, left_us);
            (law.path.min_rtt_us, law.floor_us) = (rtt_us, 0);
            law.meter.clear();
            let rate = |now_us| law.fill_rate(now_us, false, false, None);
            assert_eq!(
                (rate(RETURN_US), rate(RETURN_US + 1)),
                (RATE + RATE / more, RATE + RATE / 16),
                "{phase:?}, {rtt_us} us, {train} B/s"
            );
        }
    }

    /// In so many round trips after the hole, with the queue that there was and when the page was asked for.
    #[test]
    fn after_a_loss_by_chance_all_of_w_is_let_through_sooner() {
        for (trips, queue_us, asked_trip, all) in
            [(3, 0, 51, true), (2, 0, 51, false), (4, 5_000, 51, false), (4, 0, 49, false), (5, 5_000, 51, true)]
        {
            let mut law = holed(RATE, 400);
            law.path.command_window = 512;
            law.path.reduced_rtt_us = RTT_US as u32 + queue_us;
            law.path.asked_us = asked_trip * RTT_US;
            law.read.holes.blocked_us = Some(50 * RTT_US);
            let now_us = (50 + trips) * RTT_US;
            (law.filled_bytes, law.moving_us, law.last_tick_us) = (law.window_bytes, now_us, now_us);
            let (in_flight, request_bytes) = (1000, 16 << 10);
            let disk = DiskState { reading: true, in_flight, request_bytes, max_depth: 512, ..DiskState::default() };
            law.readers.look(now_us, RTT_US, &[disk]);
            law.fill(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
            let found = law.filled_bytes == law.window_bytes;
            assert_eq!(found, all, "{trips} round trips, {queue_us} us, told of by {asked_trip}");
        }
    }

    /// What the slack, and a hole some round trips ago, leave of so few is no fifteen parts in sixteen of W.
    #[test]
    fn a_path_of_a_few_requests_gets_its_slack() {
        for (requests, overflowed) in [(4, false), (9, false), (60, false), (4, true), (9, true), (60, true)] {
            let mut law = holed(RATE, 400);
            let (lump, now_us) = (law.request(), 50 * RTT_US);
            law.read.holes.blocked_us = overflowed.then_some(now_us - 10 * RTT_US);
            law.capacity = per_second(requests * lump, RTT_US);
            (law.found.train, law.window_bytes) = (law.capacity, law.window_for(law.capacity));
            let mut bytes = 0;
            law.meter.clear();
            (law.filled_bytes, law.moving_us, law.last_tick_us) = (requests * lump, now_us, now_us);
            for looks in 0..200 {
                let now_us = now_us + looks * 2_000;
                law.meter.push(now_us, bytes);
                law.done_bytes = carried(law.capacity, 2_000);
                bytes += law.done_bytes;
                // The pipe is full and brings C, whatever F.
                let in_flight = (law.filled_bytes / lump) as u32;
                let request_bytes = 16 << 10;
                let disk =
                    DiskState { reading: true, in_flight, request_bytes, max_depth: 512, ..DiskState::default() };
                law.readers.look(now_us, RTT_US, &[disk]);
                law.fill(&Input { now_us, path: None, received: None, share: None, disks: &[disk] });
                law.last_tick_us = now_us;
            }
            assert!(law.filled_bytes + lump > law.window_bytes, "{} of {}", law.filled_bytes, law.window_bytes);
        }
    }
}
