// SPDX-License-Identifier: GPL-2.0-only
//! R: how large a request is, and when that may change.

use super::losses::LOSSY_CWNDS;
use super::{Notify, Phase, SLACK_REQUESTS, THRESHOLD_TRIPS};
use crate::Input;
use crate::rate::carried;

/// The path that requests at rest are made for until one was measured, in bytes/s: 1 Gbit/s. On a faster one requests
/// grow once, at the cost of a drain; on a much slower one they must not be so coarse that the first few overrun it. So
/// they are as small as the disk's commands still carry that, but for no less than the 256 that Linux gives it.
const ASSUMED_RATE: u64 = 125_000_000;
const ASSUMED_COMMANDS_PER_DISK: u64 = 256;
/// Requests that make up a bandwidth-delay product: enough to meter W finely, few enough for the command window.
const REQUESTS_PER_BDP: u64 = 60;
/// Smaller requests than this cost more than fine metering gains, but where fewer than [`LEAST_REQUESTS`] of them fill the
/// path, as two are a long queue then, and not many more than [`SMALL_PER_S`] arrive in a second.
pub(super) const SMALL_REQUEST_BYTES: u64 = 16 << 10;
const LEAST_REQUESTS: u64 = 12;
const SMALL_PER_S: u64 = 4000;
/// Least time between two changes of the request size once the start is over; and from when the read began to the first.
const CHANGE_US: u64 = 1_000_000;
const FIRST_CHANGE_US: u64 = 250_000;

impl Notify {
    /// The request size for a rate: a power of two, [`REQUESTS_PER_BDP`] to the bandwidth-delay product.
    pub(super) fn request_for(&self, rate: u64) -> u32 {
        let path_bytes = carried(rate, self.late_trip_us());
        let least = (path_bytes / LEAST_REQUESTS).max(rate / SMALL_PER_S).min(SMALL_REQUEST_BYTES);
        self.nearest_request(least.max(path_bytes / REQUESTS_PER_BDP))
    }

    /// The same before a rate is known. The half more that it is made for is what rounding may take.
    pub(super) fn first_request(&self) -> u32 {
        let commands = self.max_commands().min(self.readers.least_depth().into()).max(ASSUMED_COMMANDS_PER_DISK);
        let path_bytes = carried(ASSUMED_RATE, self.rtt_us());
        self.nearest_request((path_bytes / commands / 2 * 3).max(SMALL_REQUEST_BYTES))
    }

    /// The nearest power of two: the one above from 3/4 of it on.
    pub(super) fn nearest_request(&self, bytes: u64) -> u32 {
        self.allowed_request(1u64 << (bytes * 4 / 3).max(1).ilog2())
    }

    pub(super) fn allowed_request(&self, bytes: u64) -> u32 {
        bytes.clamp(self.limits.min_request_bytes.into(), self.limits.max_request_bytes.into()) as u32
    }

    /// Changes the request size when W has no room for more commands, or what losses hold back has not, and when requests turn
    /// out to be too coarse for the path, or too fine; rarely, since each change drains the queue.
    pub(super) fn fit_request(&mut self, input: &Input<'_>) {
        let now_us = input.now_us;
        // All but what whole requests of several disks leave.
        self.read.used |= self.phase == Phase::Cruise && self.asked_but_for(self.readers.sharing() - 1);
        // The path carries what arrives, whatever a loss has left of C.
        let rate = self.capacity.max(self.rate().unwrap_or(0));
        let best = self.request_for(rate);
        let commands = self.max_commands().min(self.readers.wanting_commands().into());
        // While a loss is repaired as much is held back as is on the path, and may be once or twice more before that is done.
        let held_bytes =
            if self.lossy(now_us) && self.asked() { self.repaired_bytes().min(self.bdp_bytes()) } else { 0 };
        let lossy_bytes = LOSSY_CWNDS.saturating_mul(held_bytes);
        let model_bytes = carried(self.capacity, self.late_trip_us()).min(self.limits.max_window_bytes);
        let path_bytes = model_bytes.max(lossy_bytes);
        let crowds = |bytes: u64| path_bytes + (SLACK_REQUESTS + 1) * bytes > commands * bytes;
        let crowded = crowds(self.request_size());
        // The slack makes a long queue, and is more than a short one holds.
        let long = self.slack_bytes() > carried(rate, self.late_trip_us() / 4);
        // C may be no more than readers ask for, or cwnd lets through.
        let told = self.read.used && self.let_through();
        let coarse = best < self.request_bytes && !crowds(best.into()) && long && told;
        // The path was slower, and three quarters of what it carries by now want larger ones.
        let fine = self.request() < SMALL_REQUEST_BYTES && self.request_for(self.capacity / 4 * 3) > self.request_bytes;
        let request = if crowded {
            let twice = 1u64 << (self.request_bytes.max(1).ilog2() + 1).min(31);
            // Such a path may turn out to hold twice as much.
            let lossy = (lossy_bytes / commands.max(1)).min(u32::MAX.into()).next_power_of_two() * 2;
            self.allowed_request(twice.max(best.into()).max(lossy))
        } else if self.phase == Phase::Cruise
            && self.read.losses.lossy_until_us.is_none_or(|us| now_us >= us + THRESHOLD_TRIPS * self.rtt_us())
            && self.trial.is_none()
            // What is advertised needs no smaller ones, nor larger.
            && !self.read.advertised.bounded
            && (coarse || fine)
        {
            best
        } else {
            self.request_bytes
        };
        let least_us = if self.read.changed { CHANGE_US } else { FIRST_CHANGE_US };
        let settled_us = if self.phase == Phase::Start { 2 * self.rtt_us() } else { least_us.max(10 * self.rtt_us()) };
        let new = ![self.request_bytes, self.wanted_request_bytes].contains(&request);
        if !input.changing() && new && now_us - self.request_changed_us > settled_us {
            self.wanted_request_bytes = request;
            (self.request_changed_us, self.read.changed) = (now_us, true);
            self.reason = format!("requests of {} KiB fit {} kB/s", request >> 10, rate / 1000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SPARE_COMMANDS;
    use super::super::cruise::tests::prompt_disk;
    use super::*;
    use crate::{DiskState, Limits, PathState, Strategy};

    /// W is a byte: readers ask for all of it.
    fn law() -> Notify {
        Notify { window_bytes: 1, ..Notify::new(Limits::default()) }
    }

    /// cwnd holds all of W.
    fn path(min_rtt_us: u32, srtt_us: u32) -> PathState {
        let (command_window, snd_cwnd_pkts, mss_bytes) = (512, 1000, 1448);
        PathState { min_rtt_us, srtt_us, command_window, snd_cwnd_pkts, mss_bytes, ..PathState::default() }
    }

    #[test]
    fn the_first_requests_are_as_small_as_their_number_allows() {
        for (rtt_ms, command_window, max_depth, disks, kib) in [
            (20, 512, 256, 1, 16),
            (50, 512, 256, 1, 32),
            (50, 512, 512, 1, 16),
            (50, 512, 512, 2, 32),
            (200, 512, 256, 1, 128),
            (200, 512, 512, 1, 64),
            (200, 64, 512, 1, 128),
        ] {
            let rtt_us = rtt_ms * 1000;
            let path = PathState { min_rtt_us: rtt_us, srtt_us: rtt_us, command_window, ..PathState::default() };
            let disks = &[DiskState { max_depth, ..DiskState::default() }; 2][..disks];
            let mut law = Notify::new(Limits::default());
            let output = law.rest(&Input { now_us: 0, path: Some(path), received: None, share: None, disks });
            assert_eq!(output.request_bytes, kib << 10, "RTT {rtt_ms} ms, {command_window}, {max_depth}");
            let commands = u64::from(max_depth.min(command_window) - SPARE_COMMANDS);
            let window_bytes = carried(ASSUMED_RATE, rtt_us.into()) + law.slack_bytes();
            assert!(command_window < 256 || window_bytes <= commands * law.request());
        }
    }

    #[test]
    fn requests_are_so_small_that_two_make_no_long_queue() {
        for (rate, rtt_us, from_kib, to_kib) in [
            (12_500_000, 20_000, 16, 16),
            (17_900_000, 5_320, 16, 8),
            (12_500_000, 2_000, 16, 4),
            (26_000_000, 2_000, 16, 8), // more would be too many in a second
            (9_000_000, 2_000, 16, 4),
            (36_600_000, 1_600, 16, 8),
            (70_000_000, 1_200, 16, 16),
            (2_100_000, 133_000, 64, 16),
            (12_500_000, 133_000, 64, 64), // no long queue
        ] {
            let mut law = law();
            law.note(path(rtt_us, rtt_us + 2_000));
            (law.phase, law.capacity) = (Phase::Cruise, rate);
            (law.request_bytes, law.wanted_request_bytes) = (from_kib << 10, from_kib << 10);
            law.fit_request(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[] });
            assert_eq!(law.wanted_request_bytes, to_kib << 10, "{rate} B/s, {rtt_us} us");
        }
    }

    /// Some of 64 KiB at a time, and what that comes to.
    #[test]
    fn a_rate_that_readers_do_not_fill_makes_no_smaller_requests() {
        let (rtt_us, request_bytes) = (150_000, 64 << 10);
        for (in_flight, rate, kib) in
            [(1, 467_000, 64), (1, 430_000, 64), (2, 873_000, 64), (2, 467_000, 64), (3, 467_000, 4)]
        {
            let mut law = law();
            law.note(path(rtt_us, rtt_us));
            (law.phase, law.capacity) = (Phase::Cruise, rate);
            (law.request_bytes, law.wanted_request_bytes) = (request_bytes, request_bytes);
            law.window_bytes = law.window_for(law.capacity);
            let disk = prompt_disk(in_flight, request_bytes);
            law.readers.look(1 << 40, rtt_us.into(), &[disk]);
            law.fit_request(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[disk] });
            assert_eq!(law.wanted_request_bytes, kib << 10, "{in_flight} in flight, {rate} B/s");
            law.rest_settings();
            assert_eq!(law.request_bytes, kib << 10, "at rest, {in_flight} in flight, {rate} B/s");
        }
    }

    /// What is in force may be of anyone's making.
    #[test]
    fn what_stays_at_rest_is_a_power_of_two() {
        for (in_force_bytes, kib) in [(60_000, 64), (40_000, 32), (100 << 20, 16 << 10)] {
            let mut law = Notify::new(Limits::default());
            (law.phase, law.capacity, law.request_bytes) = (Phase::Cruise, 467_000, in_force_bytes);
            law.rest_settings();
            assert_eq!(law.request_bytes, law.allowed_request(kib << 10), "{in_force_bytes} bytes");
        }
    }

    #[test]
    fn requests_are_no_smaller_than_commands_allow() {
        let mut law = law();
        law.note(PathState { command_window: 16, ..path(8_000, 8_000) });
        (law.phase, law.capacity) = (Phase::Cruise, 12_500_000);
        let mut sizes = vec![];
        for round in 1..5 {
            law.fit_request(&Input { now_us: round << 30, path: None, received: None, share: None, disks: &[] });
            law.request_bytes = law.wanted_request_bytes;
            sizes.push(law.request_bytes);
        }
        assert_eq!(sizes, [16 << 10; 4]);
    }

    /// The slack of what is advertised is more than three requests, and W has no room for it.
    #[test]
    fn a_window_that_its_commands_bound_has_larger_requests_where_it_is_advertised() {
        let mut law = law();
        law.note(path(100_000, 100_000));
        (law.phase, law.capacity, law.advertises) = (Phase::Cruise, 125_000_000, true);
        law.read.advertised.bounded = true;
        (law.request_bytes, law.wanted_request_bytes) = (16 << 10, 16 << 10);
        let disk = DiskState { max_depth: 512, ..prompt_disk(510, 16 << 10) };
        law.readers.look(1 << 40, 100_000, &[disk]);
        assert!(law.slack_bytes() > 3 * law.request_size() && law.window_for(law.capacity) == law.bound());
        law.fit_request(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[disk] });
        assert!(law.wanted_request_bytes > 16 << 10);
    }

    #[test]
    fn requests_fit_what_arrives_where_c_is_less() {
        for (arrives, kib) in [(0, 4), (600_000, 4), (1_400_000, 16)] {
            let mut law = law();
            law.note(path(100_000, 100_000));
            (law.phase, law.capacity) = (Phase::Cruise, 500_000);
            (law.request_bytes, law.wanted_request_bytes) = (16 << 10, 16 << 10);
            (0..=10).for_each(|trip| law.meter.push(trip * 100_000, carried(arrives, trip * 100_000)));
            law.fit_request(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[] });
            assert_eq!(law.wanted_request_bytes, kib << 10, "{arrives} B/s");
        }
    }

    /// W is nine packets, and two requests.
    #[test]
    fn a_rate_that_a_small_cwnd_lets_through_makes_no_smaller_requests() {
        for (snd_cwnd_pkts, kib) in [(31, 32), (32, 4)] {
            let mut law = law();
            law.note(PathState { snd_cwnd_pkts, ..path(100_000, 100_000) });
            (law.phase, law.capacity, law.read.used) = (Phase::Cruise, 129_000, true);
            (law.request_bytes, law.wanted_request_bytes) = (32 << 10, 32 << 10);
            law.window_bytes = 9 * 1448 + law.slack_bytes();
            law.fit_request(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[] });
            assert_eq!(law.wanted_request_bytes, kib << 10, "{snd_cwnd_pkts} packets");
        }
    }

    /// Commands for 8 MB; C in packets in a millisecond.
    #[test]
    fn what_a_loss_holds_back_needs_commands_as_well() {
        let (rtt_us, kib) = (50_000, 16);
        for (rate_pkts, snd_cwnd_pkts, lossy, asked, becomes_kib) in [
            (40, 2000, true, true, 64), // twice as much may be
            (60, 3000, true, true, 128),
            (40, 1400, true, true, 16),
            (28, 2000, true, true, 16), // which the path does not hold
            (40, 2000, false, true, 16),
            (40, 2000, true, false, 16),
        ] {
            let mut law = law();
            law.note(PathState { snd_cwnd_pkts, ..path(rtt_us, rtt_us) });
            (law.phase, law.capacity) = (Phase::Cruise, rate_pkts * 1448 * 1000);
            (law.request_bytes, law.wanted_request_bytes) = (kib << 10, kib << 10);
            law.read.losses.lossy_until_us = lossy.then_some(1 << 41);
            law.window_bytes = if asked { 1 } else { 8 << 20 };
            law.fit_request(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[] });
            assert_eq!(
                law.wanted_request_bytes,
                becomes_kib << 10,
                "{rate_pkts}, {snd_cwnd_pkts} packets, lossy {lossy}, asked {asked}"
            );
        }
    }

    #[test]
    fn requests_become_no_smaller_until_fifty_round_trips_after_losses_have_ended() {
        const RTT_US: u64 = 10_000;
        let mut law = law();
        law.note(path(10_000, 10_500));
        (law.phase, law.capacity, law.request_bytes, law.wanted_request_bytes) =
            (Phase::Cruise, 7_500_000, 32 << 10, 32 << 10);
        law.read.losses.lossy_until_us = Some(400 * RTT_US);
        for (trip, kib) in [(399, 32), (449, 32), (450, 8)] {
            law.request_changed_us = 0;
            law.fit_request(&Input { now_us: trip * RTT_US, path: None, received: None, share: None, disks: &[] });
            assert_eq!(law.wanted_request_bytes, kib << 10, "{trip} round trips");
        }
    }

    #[test]
    fn requests_that_were_made_for_a_slower_path_grow_again() {
        let mut law = law();
        law.note(path(1_200, 1_400));
        law.phase = Phase::Cruise;
        for (rate, from_kib, to_kib) in
            [(70_000_000, 4, 16), (11_500_000, 4, 4), (34_000_000, 4, 8), (6_000_000, 16, 4)]
        {
            (law.capacity, law.request_bytes, law.wanted_request_bytes) = (rate, from_kib << 10, from_kib << 10);
            law.fit_request(&Input { now_us: 1 << 40, path: None, received: None, share: None, disks: &[] });
            assert_eq!(law.wanted_request_bytes, to_kib << 10, "{rate} B/s in requests of {from_kib} KiB");
            law.request_changed_us = 0;
        }
    }
}
