// SPDX-License-Identifier: GPL-2.0-only
//! What this end advertises, where several disks read: each takes a request, however little the path holds, and a window goes
//! by bytes.

use super::{Notify, Phase, RECOVERY_TRIPS, SLACK_REQUESTS};
use crate::Input;

/// Packets that are acknowledged at once, and move the window's right edge: steps of more are not taken back, as the kernel
/// rounds up to what there was (`tcp_select_window()`).
const ACKED_PKTS: u64 = 2;
/// Less might hold no whole packet, and TCP waits for one (RFC 9293, 3.8.6.2.1).
const LEAST_PKTS: u64 = 2 * ACKED_PKTS;

/// Requests that the depths let through beyond F: one is on its way to the target, one may be all that F is rounded down by, and
/// one waits there.
pub(super) const AHEAD_REQUESTS: u64 = 3;

/// In one read.
#[derive(Debug, Default)]
pub(super) struct Advertised {
    /// Several disks have read.
    several: bool,
    /// Since when the target may send more than F; and that this is waited for.
    open_us: Option<u64>,
    pub(super) closing: bool,
    /// Until then a loss may be of more than W.
    overdrawn_until_us: u64,
}

impl Notify {
    /// What F is made of: requests, or steps of what is advertised.
    pub(super) fn request(&self) -> u64 {
        let step_bytes = self.path.mss_bytes.checked_next_power_of_two().unwrap_or(u32::MAX);
        let step_bytes = step_bytes.max(self.received.window_unit_bytes).into();
        if self.advertises { self.request_size().min(step_bytes) } else { self.request_size() }
    }

    pub(super) fn look_at_readers(&mut self, input: &Input<'_>) {
        let now_us = input.now_us;
        self.readers.look(now_us, self.trip_us(), input.disks);
        self.read.advertised.several |= input.disks.iter().filter(|disk| disk.reading).count() > 1;
        let may = self.may_advertise(input);
        // What is not known yet is found sooner by requests.
        let known = if self.phase == Phase::Start { self.found.known } else { self.capacity };
        self.advertises = may && known > 0;
        self.read.advertised.closing = self.closes(now_us);
        let more = self.readers.asked_bytes() > self.window_bytes + self.request();
        if may && !self.advertises && more || self.read.advertised.closing && self.overdrawn(now_us) {
            self.read.advertised.overdrawn_until_us = now_us + RECOVERY_TRIPS * self.trip_us();
        }
    }

    /// Bytes in flight: where F is advertised the rest waits at the target.
    pub(super) fn asked_of_path(&self) -> u64 {
        self.readers.asked_bytes().min(if self.advertises { self.filled_bytes } else { u64::MAX })
    }

    /// What arrives is not less for a disk that drains: another has more in flight than is advertised.
    pub(super) fn undrained(&self, input: &Input<'_>) -> bool {
        !input.changing() || self.advertises && input.disks.iter().any(|disk| disk.reading && !disk.changing)
    }

    /// It can be bounded, and several disks have read.
    pub(super) fn may_advertise(&self, input: &Input<'_>) -> bool {
        let unit_bytes = input.received.map_or(0, |received| received.window_unit_bytes);
        let most_bytes = ACKED_PKTS * u64::from(self.path.mss_bytes);
        self.read.advertised.several && (1..=most_bytes).contains(&unit_bytes.into())
    }

    /// F. Until the path is known, twice what it may hold: slow start doubles what is in flight in a round trip.
    pub(super) fn advertised_bytes(&self, input: &Input<'_>) -> Option<u64> {
        let unit_bytes = input.received?.window_unit_bytes;
        let bytes = if self.advertises { self.filled_bytes } else { 2 * self.window_bytes };
        let bytes = bytes.max(LEAST_PKTS * u64::from(self.path.mss_bytes)).min(self.limits.max_window_bytes);
        self.may_advertise(input).then(|| bytes.next_multiple_of(unit_bytes.into()))
    }

    /// What was advertised is not taken back, but for what arrives of it, which takes round trips. The page tells.
    fn closes(&mut self, now_us: u64) -> bool {
        let most_bytes = self.filled_bytes.max(self.window_bytes) + SLACK_REQUESTS * self.request();
        if !self.advertises || u64::from(self.path.snd_wnd_bytes) <= most_bytes {
            self.read.advertised.open_us = None;
            return false;
        }
        now_us - *self.read.advertised.open_us.get_or_insert(now_us) < RECOVERY_TRIPS * self.trip_us()
    }

    /// A change of so little may be none: TCP sends whole packets, and acknowledges two at once.
    pub(super) fn untold_bytes(&self) -> u64 {
        if self.advertises { LEAST_PKTS * u64::from(self.path.mss_bytes) } else { 0 }
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
    fn several_disks_have_what_is_advertised_one_has_its_depth() {
        for (reading, unit_bytes, bounded) in
            [(1, UNIT_BYTES, false), (2, UNIT_BYTES, true), (2, 0, false), (2, 4096, false)]
        {
            let mut law = cruising(0);
            (law.capacity, law.window_bytes, law.path.mss_bytes) = (2_000_000, 60_000, 1448);
            let disks = disks(reading);
            let output = law.tick(&Input { received: received(unit_bytes), disks: &disks, ..at(100) });
            assert_eq!(output.advertised_bytes.is_some(), bounded, "{reading} disks, {unit_bytes} bytes");
            assert_eq!(law.request(), if bounded { 2048 } else { 64 << 10 });
            let Some(bytes) = output.advertised_bytes else { continue };
            assert_eq!(bytes, output.window_bytes.next_multiple_of(2048));
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
