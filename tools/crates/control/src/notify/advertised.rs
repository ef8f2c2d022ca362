// SPDX-License-Identifier: GPL-2.0-only
//! What this end advertises: a window goes by bytes, where several disks take a request each, however little the path holds,
//! or one disk's requests are much of what it holds.

use super::cruise::Aim;
use super::{Notify, Phase, RECOVERY_TRIPS, SLACK_REQUESTS};
use crate::Input;
use crate::rate::carried;

/// Packets that are acknowledged at once, and move the window's right edge: steps of more are not taken back, as the kernel
/// rounds up to what there was (`tcp_select_window()`).
const ACKED_PKTS: u64 = 2;
/// Less might hold no whole packet, and TCP waits for one (RFC 9293, 3.8.6.2.1).
const LEAST_PKTS: u64 = 2 * ACKED_PKTS;

/// Requests that the depths let through beyond what is advertised: one is on its way to the target, one may be all that F is
/// rounded down by, and one waits there.
const AHEAD_REQUESTS: u64 = 3;

/// One disk's requests are much of the path if steps make the slack shorter by more than one part in so many of it; until
/// steps are no shorter.
const COARSE_SHARE: u64 = 16;
/// A step is one part in so many of what one disk's path holds: of less a trial would show nothing.
const STEPS_PER_BDP: u64 = 32;
/// TCP sends at once what it paces in an eighth of a millisecond (`tcp_pacing_shift`), of two cwnd in a round trip, and waits
/// for room for that (`tcp_tso_should_defer()`). While cwnd is several times what is advertised about half a millisecond of C
/// is unused.
const UNUSED_US: u64 = 500;
/// Near by no more than such a part of the path.
const UNUSED_SHARE: u64 = 8;

/// In one read.
#[derive(Debug, Default)]
pub(super) struct Advertised {
    /// Several disks have read.
    pub(super) several: bool,
    /// What is advertised is bounded.
    pub(super) bounded: bool,
    /// Least step, beside a packet and the window's unit.
    step_bytes: u64,
    /// One disk's, in Cruise.
    pub(super) most_bytes: u64,
    /// Since when the target may send more than F; and that this is waited for.
    open_us: Option<u64>,
    pub(super) closing: bool,
    /// Until then a loss may be of more than W.
    overdrawn_until_us: u64,
}

impl Notify {
    /// What W is made of: requests, or steps of what is advertised.
    pub(super) fn request(&self) -> u64 {
        if self.advertises { self.request_size().min(self.step_bytes()) } else { self.request_size() }
    }

    fn step_bytes(&self) -> u64 {
        self.least_step_bytes().max(self.read.advertised.step_bytes)
    }

    /// Least power of two that holds a packet, or the window's unit.
    fn least_step_bytes(&self) -> u64 {
        let packet_bytes = self.path.mss_bytes.checked_next_power_of_two().unwrap_or(u32::MAX);
        packet_bytes.max(self.received.window_unit_bytes).into()
    }

    /// What is best for one disk: of less a trial would show nothing, as TCP may leave as much unused.
    fn best_step_bytes(&self) -> u64 {
        (self.bdp_bytes() / STEPS_PER_BDP).max(self.unused_bytes() / SLACK_REQUESTS).max(self.least_step_bytes())
    }

    /// What TCP leaves unused of what is advertised.
    fn unused_bytes(&self) -> u64 {
        carried(self.capacity, UNUSED_US)
    }

    /// What the slack is to hold of that, in time.
    pub(super) fn unused_us(&self) -> u64 {
        if self.advertises { UNUSED_US.min(self.rtt_us() / UNUSED_SHARE) } else { 0 }
    }

    /// What F is made of: one disk has its depth for what is let through.
    pub(super) fn lump(&self) -> u64 {
        if self.read.advertised.several { self.request() } else { self.request_size() }
    }

    /// What the depths let through beyond F, which what is advertised holds back; of one disk not before F is all that it may be.
    pub(super) fn ahead_bytes(&self) -> Option<u64> {
        let held_back = self.read.advertised.several || self.filled_bytes >= self.read.advertised.most_bytes;
        (self.advertises && held_back).then(|| AHEAD_REQUESTS * self.request_size())
    }

    pub(super) fn look_at_readers(&mut self, input: &Input<'_>) {
        let now_us = input.now_us;
        self.readers.look(now_us, self.trip_us(), input.disks);
        self.read.advertised.several |= input.disks.iter().filter(|disk| disk.reading).count() > 1;
        let several = self.read.advertised.several;
        // TCP decides among others, on a path that is found to be longer, and on one that has lost by itself.
        let alone =
            now_us >= self.rivals.until_us && !self.lengthened(now_us) && self.read.losses.lossy_until_us.is_none();
        self.read.advertised.bounded = self.may_bound(input) && (several || alone && self.coarse_requests());
        // What is not known yet is found sooner by requests.
        let known = match self.phase {
            Phase::Start if several => self.found.known > 0,
            phase => phase != Phase::Start && self.capacity > 0,
        };
        self.advertises = self.read.advertised.bounded && known;
        self.fit_step();
        self.read.advertised.closing = self.closes(now_us);
        let more = several
            && self.read.advertised.bounded
            && !self.advertises
            && self.readers.asked_bytes() > self.window_bytes + self.request();
        if more || self.read.advertised.closing && self.overdrawn(now_us) {
            self.read.advertised.overdrawn_until_us = now_us + RECOVERY_TRIPS * self.trip_us();
        }
    }

    /// The slack of requests would make a clearly longer queue than that of steps, or a longer one once these are in use. As it
    /// was while a change of W is being judged.
    fn coarse_requests(&self) -> bool {
        if self.trial.is_some() {
            return self.read.advertised.bounded;
        }
        let gained_bytes = SLACK_REQUESTS * self.request_size().saturating_sub(self.best_step_bytes());
        gained_bytes > if self.advertises { 0 } else { self.bdp_bytes() / COARSE_SHARE }
    }

    /// Not by each small change of C.
    fn fit_step(&mut self) {
        let best = if self.read.advertised.several { self.least_step_bytes() } else { self.best_step_bytes() };
        let step = self.step_bytes();
        let fits = best < 2 * step && best > step / 2 && self.unused_bytes() <= SLACK_REQUESTS * step / 8 * 9;
        if self.phase != Phase::Cruise || self.trial.is_none() && !fits {
            self.read.advertised.step_bytes = best;
        }
    }

    /// Bytes in flight: what is beyond what is advertised waits at the target.
    pub(super) fn asked_of_path(&self) -> u64 {
        self.readers.asked_bytes().min(if self.advertises { self.bound_bytes() } else { u64::MAX })
    }

    /// What bounds what is in flight: F, of several disks; of one its W.
    fn bound_bytes(&self) -> u64 {
        if self.read.advertised.several { self.filled_bytes } else { self.read.advertised.most_bytes }
    }

    /// What arrives is not less for a disk that drains: another has more in flight than is advertised.
    pub(super) fn undrained(&self, input: &Input<'_>) -> bool {
        !input.changing() || self.advertises && input.disks.iter().any(|disk| disk.reading && !disk.changing)
    }

    /// The window's unit is known, and two packets move its right edge.
    fn may_bound(&self, input: &Input<'_>) -> bool {
        let unit_bytes = input.received.map_or(0, |received| received.window_unit_bytes);
        let most_bytes = ACKED_PKTS * u64::from(self.path.mss_bytes);
        (1..=most_bytes).contains(&unit_bytes.into())
    }

    /// Until the path is known, twice what it may hold: slow start doubles what is in flight in a round trip.
    pub(super) fn advertised_bytes(&self) -> Option<u64> {
        let bytes = if self.advertises { self.bound_bytes() } else { 2 * self.window_bytes };
        self.read.advertised.bounded.then(|| self.advertised_for(bytes))
    }

    /// A multiple of the window's unit, which holds so many bytes but for a quarter of it: where a path holds few packets, the
    /// rest is one more that waits.
    fn advertised_for(&self, bytes: u64) -> u64 {
        let (most_bytes, unit_bytes) =
            (self.limits.max_window_bytes, u64::from(self.received.window_unit_bytes).max(1));
        let least_bytes = (LEAST_PKTS * u64::from(self.path.mss_bytes)).min(most_bytes).next_multiple_of(unit_bytes);
        ((bytes.min(most_bytes) + unit_bytes / 4 * 3) / unit_bytes * unit_bytes).max(least_bytes)
    }

    /// What was advertised is not taken back, but for what arrives of it, which takes round trips. The page tells.
    fn closes(&mut self, now_us: u64) -> bool {
        let small = matches!(self.trial, Some((Aim::Shorter { small: true, .. }, _)));
        let slack_bytes = if small { self.path.mss_bytes.into() } else { SLACK_REQUESTS * self.request() };
        let most_bytes = self.advertised_for(self.bound_bytes().max(self.window_bytes)) + slack_bytes;
        if !self.advertises || u64::from(self.path.snd_wnd_bytes) <= most_bytes {
            self.read.advertised.open_us = None;
            return false;
        }
        now_us - *self.read.advertised.open_us.get_or_insert(now_us) < RECOVERY_TRIPS * self.trip_us()
    }

    /// What bounds what is in flight for a W of so many bytes.
    pub(super) fn bound_for(&self, window_bytes: u64) -> u64 {
        if self.advertises { self.advertised_for(window_bytes) } else { window_bytes }
    }

    /// A change of so little may be none: two packets are acknowledged at once.
    pub(super) fn untold_bytes(&self) -> u64 {
        if self.advertises { ACKED_PKTS * u64::from(self.path.mss_bytes) } else { 0 }
    }

    /// More than W was in flight. What that has lost tells nothing of W.
    pub(super) fn overdrawn(&self, now_us: u64) -> bool {
        now_us < self.read.advertised.overdrawn_until_us
    }
}

#[cfg(test)]
mod tests {
    use super::super::cruise::tests::{RTT_US, at, cruising};
    use super::*;
    use crate::{DiskState, PathState, Received, Strategy};

    const UNIT_BYTES: u32 = 2048;

    fn received(window_unit_bytes: u32) -> Option<Received> {
        Some(Received { window_unit_bytes, ..Received::default() })
    }

    /// So many have a request each in flight.
    fn disks(reading: usize) -> [DiskState; 2] {
        let disk = DiskState { in_flight: 1, request_bytes: 64 << 10, max_depth: 512, ..DiskState::default() };
        [DiskState { reading: reading > 0, ..disk }, DiskState { reading: reading > 1, ..disk }]
    }

    #[test]
    fn several_disks_have_what_is_advertised() {
        for (unit_bytes, bounded) in [(UNIT_BYTES, true), (0, false), (4096, false)] {
            let mut law = cruising(0);
            (law.capacity, law.window_bytes, law.path.mss_bytes) = (2_000_000, 60_000, 1448);
            let disks = disks(2);
            let output = law.tick(&Input { received: received(unit_bytes), disks: &disks, ..at(100) });
            assert_eq!(output.advertised_bytes.is_some(), bounded, "{unit_bytes} bytes");
            assert_eq!(law.request(), if bounded { 2048 } else { 64 << 10 });
            let Some(bytes) = output.advertised_bytes else { continue };
            assert_eq!((bytes, output.window_bytes), (45_056, 44_096));
            // And as many requests as are ahead of it.
            let requests = (output.window_bytes + (192 << 10)) / (64 << 10);
            assert_eq!(u64::from(output.depths.iter().sum::<u32>()), requests.max(2));
            // The last one that reads has what there was.
            let one = [disks[0], DiskState { reading: false, ..disks[1] }];
            let output = law.tick(&Input { received: received(unit_bytes), disks: &one, ..at(101) });
            assert!(output.advertised_bytes.is_some());
            assert_eq!(law.rest(&at(102)).advertised_bytes, None);
        }
    }

    /// Of one disk, with two requests of 16 KiB, after so many looks.
    fn look_at_one(law: &mut Notify, looks: u64) -> (bool, u64) {
        let disk = DiskState { reading: true, ..DiskState::default() };
        for look in 1..=looks {
            law.look_at_readers(&Input { received: received(UNIT_BYTES), disks: &[disk], ..at(100 + look) });
        }
        (law.read.advertised.bounded, law.request())
    }

    fn one(rtt_us: u32, rate: u64) -> Notify {
        let mut law = cruising(0);
        (law.capacity, law.request_bytes) = (rate, 16 << 10);
        (law.path.min_rtt_us, law.path.srtt_us) = (rtt_us, rtt_us);
        law
    }

    #[test]
    fn one_disk_whose_requests_are_much_of_the_path_has_what_is_advertised() {
        for (rtt_us, rate, others, longer, bounded, step_bytes) in [
            (20_000, 2_000_000, false, false, true, 2048),
            (20_000, 12_000_000, false, false, true, 7_500),
            (20_000, 14_000_000, false, false, false, 16 << 10), // a sixteenth of it, and as much for steps
            (2_000, 10_000_000, false, false, true, 2_500),      // TCP leaves as much unused
            (2_000, 43_000_000, false, false, true, 10_750),
            (2_000, 53_000_000, false, false, false, 16 << 10), // and too much
            (20_000, 2_000_000, true, false, false, 16 << 10),
            (20_000, 2_000_000, false, true, false, 16 << 10),
        ] {
            let mut law = one(rtt_us, rate);
            law.rivals.until_us = if others { u64::MAX } else { 0 };
            law.read.lengthened_us = longer.then_some(100 * RTT_US);
            assert_eq!(look_at_one(&mut law, 2), (bounded, step_bytes), "{rtt_us} us, {rate} B/s, {others} {longer}");
        }
    }

    #[test]
    fn of_several_disks_the_slack_holds_what_tcp_leaves_unused() {
        for (rtt_us, rate, slack_bytes) in
            [(20_000, 2_000_000, 4_096), (20_000, 12_000_000, 6_000), (2_000, 40_000_000, 10_000)]
        {
            let mut law = one(rtt_us, rate);
            law.look_at_readers(&Input { received: received(UNIT_BYTES), disks: &disks(2), ..at(100) });
            assert_eq!((law.request(), law.slack_bytes()), (2048, slack_bytes), "{rtt_us} us, {rate} B/s");
            assert_eq!(law.window_for(rate), carried(rate, rtt_us.into()) + slack_bytes);
            assert_eq!(law.slack_us(), slack_bytes * 1_000_000 / rate);
            // Where depths bound it whole requests do.
            law.advertises = false;
            assert_eq!(law.slack_bytes(), 32 << 10);
        }
    }

    #[test]
    fn what_is_advertised_holds_the_window_but_for_a_quarter_of_a_unit_and_four_packets() {
        for (bytes, advertised) in [(3_000, 6_144), (14_336, 14_336), (14_847, 14_336), (14_848, 16_384)] {
            let mut law = one(20_000, 2_000_000);
            look_at_one(&mut law, 1);
            (law.received.window_unit_bytes, law.read.advertised.most_bytes) = (UNIT_BYTES, bytes);
            assert_eq!(law.advertised_bytes(), Some(advertised));
        }
    }

    #[test]
    fn a_path_that_has_lost_by_itself_has_depths() {
        let mut law = one(20_000, 2_000_000);
        law.read.losses.lossy_until_us = Some(90 * RTT_US);
        assert_eq!(look_at_one(&mut law, 2), (false, 16 << 10));
    }

    /// What waits is measured anew for smaller requests, not for smaller steps.
    #[test]
    fn a_floor_stays_where_one_disk_begins_to_have_what_is_advertised() {
        let mut law = one(20_000, 2_000_000);
        (law.floor_us, law.path.srtt_us) = (30_000, 30_000);
        let disk = DiskState { reading: true, request_bytes: 16 << 10, max_depth: 512, ..DiskState::default() };
        law.tick(&Input { received: received(UNIT_BYTES), disks: &[disk], ..at(100) });
        assert_eq!((law.request(), law.rtt_us()), (2048, 30_000));
    }

    #[test]
    fn steps_stay_what_they_are_until_the_path_is_another_and_what_is_tried_is_judged() {
        for (rate, tried, bounded, step_bytes) in [
            (13_900_000, false, true, 4_375),
            (28_000_000, false, false, 16 << 10),
            (28_000_000, true, true, 4_375),
            (4_000_000, false, true, 4_375),
            (3_500_000, false, true, 2_187),
            (3_500_000, true, true, 4_375),
        ] {
            let mut law = one(20_000, 7_000_000);
            look_at_one(&mut law, 2);
            (law.capacity, law.trial) = (rate, tried.then(|| (Aim::More, law.before(rate))));
            assert_eq!(look_at_one(&mut law, 1), (bounded, step_bytes), "{rate} B/s, {tried}");
        }
    }

    /// The steps of half of the path's rate would not, and it is not yet twice as fast.
    #[test]
    fn steps_grow_where_they_no_longer_hold_what_tcp_leaves_unused() {
        let mut law = one(9_000, 8_000_000);
        law.read.advertised.step_bytes = 2_250;
        assert_eq!(look_at_one(&mut law, 2), (true, 2_250));
        law.capacity = 12_000_000;
        assert_eq!(look_at_one(&mut law, 1), (true, 3_375));
    }

    #[test]
    fn what_waits_at_the_target_is_asked_for_once_the_window_is_filled() {
        for (several, filled_bytes, ahead) in
            [(false, 50_000, None), (false, 60_000, Some(48 << 10)), (true, 50_000, Some(48 << 10))]
        {
            let mut law = one(20_000, 2_000_000);
            (law.advertises, law.read.advertised.several, law.read.advertised.most_bytes) = (true, several, 60_000);
            law.filled_bytes = filled_bytes;
            assert_eq!(law.ahead_bytes(), ahead, "{several}, {filled_bytes} bytes");
            assert_eq!(law.lump(), if several { 2048 } else { 16 << 10 });
        }
    }

    /// What waits with a cwnd that holds W waits for what is advertised.
    #[test]
    fn a_cwnd_that_is_less_than_the_window_counts() {
        for (snd_cwnd_pkts, notsent_bytes) in [(40, 0), (38, 40_000)] {
            let mut law = one(20_000, 2_000_000);
            (law.advertises, law.window_bytes) = (true, 58_000);
            law.note(PathState { snd_cwnd_pkts, notsent_bytes: 40_000, ..law.path });
            assert_eq!(law.path.notsent_bytes, notsent_bytes, "{snd_cwnd_pkts} packets");
        }
    }

    #[test]
    fn a_path_that_is_not_known_yet_has_twice_the_window() {
        let mut law = Notify::new(crate::Limits::default());
        law.path = PathState { min_rtt_us: 20_000, srtt_us: 20_000, mss_bytes: 1448, ..PathState::default() };
        let output = law.tick(&Input { received: received(UNIT_BYTES), disks: &disks(2), ..at(0) });
        assert_eq!(output.advertised_bytes, Some(2 * law.window_bytes));
        assert_eq!(law.request(), 64 << 10);
    }

    #[test]
    fn a_loss_of_more_than_w_is_not_answered_until_what_was_advertised_is_closed() {
        for (asked_trips, snd_wnd_bytes, losses) in [(7, 0, 0), (8, 0, 1), (8, 100_000, 0)] {
            let mut law = Notify::new(crate::Limits::default());
            let path = PathState {
                min_rtt_us: RTT_US as u32,
                srtt_us: RTT_US as u32,
                mss_bytes: 1448,
                ..PathState::default()
            };
            (law.path, law.phase, law.window_bytes) = (path, Phase::Start, 60_000);
            let disks = disks(2);
            let input = |trip| Input { received: received(UNIT_BYTES), disks: &disks, ..at(trip) };
            law.look_at_readers(&input(0));
            (law.phase, law.capacity, law.filled_bytes) = (Phase::Cruise, 2_000_000, 60_000);
            law.path.snd_wnd_bytes = snd_wnd_bytes;
            law.look_at_readers(&input(1));
            law.note(PathState { recovery: 1, asked_us: asked_trips * RTT_US, ..law.path });
            assert_eq!(law.read.losses.unanswered, losses, "{asked_trips} round trips, {snd_wnd_bytes} bytes");
        }
    }

    #[test]
    fn a_window_that_does_not_close_is_not_waited_for_for_ever() {
        let mut law = cruising(0);
        (law.advertises, law.window_bytes, law.filled_bytes) = (true, 60_000, 60_000);
        for (trip, snd_wnd_bytes, closes) in
            [(1, 64_096, false), (1, 64_097, true), (8, 64_097, true), (9, 64_097, false)]
        {
            law.path.snd_wnd_bytes = snd_wnd_bytes;
            assert_eq!(law.closes(trip * RTT_US), closes, "{trip} round trips, {snd_wnd_bytes} bytes");
        }
    }
}
