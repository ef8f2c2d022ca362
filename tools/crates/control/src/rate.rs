// SPDX-License-Identifier: GPL-2.0-only
//! Rates and ages from cumulative byte counters that are looked at now and then.

use std::collections::VecDeque;

use crate::Received;

/// Samples kept: the finest looks at the latest of half a round trip or more, fewer and fewer before that.
const CAPACITY: usize = 1024;

/// Samples with something new that make a train.
const LEAST_ARRIVALS: usize = 4;

/// Packets of which a mean is taken, at least and at most.
const LEAST_MEAN_PKTS: u64 = 32;
const MEAN_PKTS: u64 = 1024;
/// Looks after the last that told of a hole: when it is filled there may be another behind it.
const HOLE_LOOKS: u32 = 2;

/// What a connection has received, in sequence or not, in bytes: what a hole holds back is counted in packets.
#[derive(Debug, Default)]
pub struct Arrivals {
    bytes: u64,
    /// Bytes and packets of the latest looks without a hole, the older ones for less and less.
    mean_of: (u64, u64),
    /// So many looks more at which something may be held back, or may have been; and what is.
    hole_looks: u32,
    held_bytes: u64,
}

impl Arrivals {
    /// From one look at a connection to the next. A packet has `mss_bytes` where no mean is known yet.
    pub fn add(&mut self, before: &Received, received: &Received, mss_bytes: u64) {
        let bytes = received.bytes.saturating_sub(before.bytes);
        let pkts = u64::from(received.pkts.wrapping_sub(before.pkts));
        let holes = received.out_of_order_pkts != before.out_of_order_pkts;
        if holes || self.hole_looks > 0 {
            let (of_bytes, of_pkts) = self.mean_of;
            let mean_bytes = if of_pkts < LEAST_MEAN_PKTS { mss_bytes } else { of_bytes / of_pkts };
            let came = pkts.saturating_mul(mean_bytes);
            self.bytes = self.bytes.saturating_add(came);
            self.held_bytes = self.held_bytes.saturating_add(came).saturating_sub(bytes);
            // More than these packets hold was held back, and behind the next hole there may be more of that.
            let filled = bytes > pkts.saturating_mul(mean_bytes.max(mss_bytes)) && self.held_bytes > 0;
            self.hole_looks = if holes || bytes == 0 { HOLE_LOOKS } else { (self.hole_looks - 1).max(filled.into()) };
        } else {
            (self.bytes, self.held_bytes) = (self.bytes.saturating_add(bytes), 0);
            self.mean_of = (self.mean_of.0.saturating_add(bytes), self.mean_of.1 + pkts);
            if self.mean_of.1 > MEAN_PKTS {
                self.mean_of = (self.mean_of.0 / 2, self.mean_of.1 / 2);
            }
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A short history of one cumulative byte counter.
#[derive(Debug, Default)]
pub struct Meter {
    /// (time in us, bytes), both non-decreasing.
    samples: VecDeque<(u64, u64)>,
}

impl Meter {
    pub fn clear(&mut self) {
        self.samples.clear();
    }

    /// Adds a sample. A counter that went backwards (a disk left) starts the history anew.
    pub fn push(&mut self, now_us: u64, bytes: u64) {
        if self.samples.back().is_some_and(|&(t, b)| bytes < b || now_us <= t) {
            self.samples.clear();
        }
        if self.samples.len() == CAPACITY {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index > CAPACITY / 2 || index % 2 == 0
            });
        }
        self.samples.push_back((now_us, bytes));
    }

    /// Average rate in bytes/s over the shortest stretch that spans at least `span_us`; none before that much is known.
    pub fn average(&self, span_us: u64) -> Option<u64> {
        self.average_until(self.samples.len().checked_sub(1)?, span_us)
    }

    /// The same of what comes in one go now and then: from the end of one such to that of another. None of what comes without
    /// pauses, or whose pauses are no longer seen, nor once nothing has come for twice as long.
    pub fn between(&self, span_us: u64) -> Option<u64> {
        let ends = |&i: &usize| self.came(i) && !self.came(i + 1);
        let last = self.samples.len().checked_sub(1)?;
        let newest = (1..last).rev().find(ends)?;
        let (now_us, bytes) = self.samples[newest];
        // The latest look may be amid the next.
        let most_us = if self.samples[last - 1].1 > bytes { span_us / 4 } else { 2 * span_us };
        let before = self.samples.partition_point(|&(t, _)| t + span_us.max(1) <= now_us);
        let then = (1..before).rev().find(ends).filter(|_| self.samples[last].0 - now_us <= most_us)?;
        let (then_us, then_bytes) = self.samples[then];
        Some(per_second(bytes - then_bytes, now_us - then_us))
    }

    /// The same before a pause. When in its sample the last came before that is not known, so the one before is the last.
    pub fn before_pause(&self, span_us: u64) -> Option<u64> {
        let came = (1..self.samples.len()).rev().find(|&i| self.came(i))?;
        self.average_until(came - 1, span_us)
    }

    /// Something came between that sample and the one before.
    fn came(&self, i: usize) -> bool {
        self.samples[i].1 > self.samples[i - 1].1
    }

    fn average_until(&self, last: usize, span_us: u64) -> Option<u64> {
        let (last_us, bytes) = self.samples[last];
        let after = self.samples.partition_point(|&(t, _)| t + span_us.max(1) <= last_us);
        let (then_us, then_bytes) = self.samples[after.checked_sub(1)?];
        Some(per_second(bytes - then_bytes, last_us - then_us))
    }

    /// The rate, in bytes/s, of what came last in one go: without a pause over `pause_us`, and at most `longest_us` long.
    /// None if it was shorter than `least_us`, or fewer than [`LEAST_ARRIVALS`].
    ///
    /// Data that crossed the bottleneck back to back arrives at the bottleneck's rate even while the window is too
    /// small to keep it busy (packet-train dispersion: Jain and Routhier, "Packet Trains", JSAC 1986). What came first
    /// only starts the clock. The slower half counts: what a hole in TCP's sequence held back comes all at once, and shows
    /// no rate. Of all of it `burst_bytes` less do, what arrives at once, since n bursts may come within n - 1 gaps.
    pub fn train(&self, pause_us: u64, least_us: u64, longest_us: u64, burst_bytes: u64) -> Option<u64> {
        let mut arrivals = (1..self.samples.len()).rev().filter(|&i| self.came(i));
        let newest = arrivals.next()?;
        let (now_us, bytes) = self.samples[newest];
        let (mut first, mut count) = (newest, 0);
        for i in arrivals {
            let t = self.samples[i].0;
            if self.samples[first].0 - t > pause_us || now_us - t > longest_us {
                break;
            }
            (first, count) = (i, count + 1);
        }
        let (then_us, then_bytes) = self.samples[first];
        if count < LEAST_ARRIVALS || now_us - then_us < least_us {
            return None;
        }
        let middle = self.samples.partition_point(|&(t, _)| 2 * t <= then_us + now_us) - 1;
        let (middle_us, middle_bytes) = self.samples[middle];
        let parts = [
            (middle_bytes - then_bytes, middle_us - then_us),
            (bytes - middle_bytes, now_us - middle_us),
            ((bytes - then_bytes).saturating_sub(burst_bytes), now_us - then_us),
        ];
        parts.into_iter().map(|(bytes, us)| per_second(bytes, us)).min()
    }
}

/// How long requests take, if bytes complete about in the order in which they were asked for.
#[derive(Debug, Default)]
pub struct Ages {
    /// (time in us, bytes asked for by then since boot) of what has not completed; increasing.
    asks: VecDeque<(u64, u64)>,
    completed_bytes: u64,
    latest_us: Option<u64>,
    new_bytes: u64,
}

impl Ages {
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a look: bytes asked for that have not completed, and those that have since boot.
    pub fn push(&mut self, now_us: u64, asked_bytes: u64, completed_bytes: u64) {
        let asked_bytes = completed_bytes.saturating_add(asked_bytes);
        let first = self.asks.is_empty();
        self.new_bytes = self.asks.back().map_or(0, |&(_, before)| asked_bytes.saturating_sub(before));
        // It was thought to be more (the mean request has become smaller, a disk has left): rather too young than too old.
        while self.asks.back().is_some_and(|&(_, bytes)| bytes > asked_bytes) {
            self.asks.pop_back();
        }
        if self.asks.back().is_none_or(|&(_, bytes)| bytes < asked_bytes) {
            self.asks.push_back((now_us, asked_bytes));
        }
        let completed = !first && completed_bytes > self.completed_bytes;
        self.completed_bytes = completed_bytes;
        self.asks.drain(..self.asks.partition_point(|&(_, bytes)| bytes < completed_bytes));
        if completed {
            self.latest_us = self.asks.front().map(|&(asked_us, _)| now_us - asked_us);
        }
    }

    /// Of what completed last, in us; none before the first.
    pub fn latest_us(&self) -> Option<u64> {
        self.latest_us
    }

    /// Asked for between the last two looks.
    pub fn new_bytes(&self) -> u64 {
        self.new_bytes
    }
}

/// No rate beyond this is believed, in bytes/s: 8 Tbit/s. It keeps every product below in range.
const MAX_RATE: u64 = 1_000_000_000_000;

/// `bytes` in `us` as bytes per second.
pub fn per_second(bytes: u64, us: u64) -> u64 {
    bytes.saturating_mul(1_000_000).checked_div(us).unwrap_or(MAX_RATE).min(MAX_RATE)
}

/// Bytes that `rate` (bytes/s) carries in `us`.
pub fn carried(rate: u64, us: u64) -> u64 {
    rate.saturating_mul(us) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten packets at each look, of which a hole holds some back.
    #[test]
    fn what_a_hole_holds_back_has_arrived() {
        let (mut arrivals, mut last) = (Arrivals::default(), Received::default());
        for (bytes, pkts, out_of_order_pkts, arrived) in [
            (140, 2, 0, 140), // too few to tell what is the mean
            (140, 12, 9, 14_620),
            (140, 22, 19, 29_100),
            (29_100, 32, 19, 43_580), // the hole is filled
            (29_100, 42, 29, 58_060), // and there is another
            (72_540, 52, 29, 72_540),
            (87_020, 62, 29, 87_020),
            (120_000, 92, 29, 120_000), // in sequence again
            (135_000, 102, 29, 135_000),
        ] {
            let received = Received { bytes, pkts, out_of_order_pkts, ..Received::default() };
            arrivals.add(&last, &received, 1448);
            assert_eq!(arrivals.bytes(), arrived, "{bytes} bytes of {pkts} packets");
            last = received;
        }
    }

    /// As many are lost as arrive behind each, and nothing comes behind the last: what is sent again fills one at each look.
    #[test]
    fn what_several_holes_hold_back_has_arrived_once() {
        let (mut arrivals, mut last) = (Arrivals::default(), Received::default());
        let mut look = |pkts: u32, in_sequence: u64, out_of_order_pkts: u32| {
            let received = Received {
                bytes: last.bytes + in_sequence * 1448,
                pkts: last.pkts + pkts,
                out_of_order_pkts: last.out_of_order_pkts + out_of_order_pkts,
                ..Received::default()
            };
            arrivals.add(&last, &received, 1448);
            last = received;
            arrivals.bytes() / 1448
        };
        look(100, 100, 0);
        assert_eq!(look(60, 0, 60), 160);
        for (hole, arrived) in (0..6).zip((170..).step_by(10)) {
            assert_eq!(look(10, 20, 0), arrived, "hole {hole}");
        }
        assert_eq!(look(10, 10, 0), 230);
        assert_eq!(look(10, 10, 0), 240, "in sequence again");
        assert_eq!(arrivals.mean_of, (120 * 1448, 120));
    }

    /// Where packets are joined, or not counted, what comes is more than they seem to hold.
    #[test]
    fn what_packets_are_makes_no_difference_soon_after_a_hole() {
        for (pkts, mss_bytes) in [(1, 1448), (0, 1448), (45, 0), (1, 0)] {
            let (mut arrivals, mut last) = (Arrivals::default(), Received::default());
            let mut arrived = vec![];
            for look in 1..=10u64 {
                let received = Received {
                    bytes: look * 65_160,
                    pkts: last.pkts + pkts,
                    out_of_order_pkts: u32::from(look > 1),
                    ..Received::default()
                };
                arrivals.add(&last, &received, mss_bytes);
                arrived.push(arrivals.bytes());
                last = received;
            }
            assert_eq!(arrived[9] - arrived[3], 6 * 65_160, "{pkts} of {mss_bytes} bytes");
        }
    }

    /// By a kernel that takes what the network card has joined for one, or by none, and around the counter's end.
    #[test]
    fn what_packets_are_makes_no_difference_without_a_hole() {
        for (pkts, mss_bytes) in [(1, 1448), (0, 1448), (45, 0), (1, 0)] {
            let (mut arrivals, mut last) = (Arrivals::default(), Received { pkts: u32::MAX, ..Received::default() });
            for look in 1..=10 {
                let received =
                    Received { bytes: look * 65_160, pkts: last.pkts.wrapping_add(pkts), ..Received::default() };
                arrivals.add(&last, &received, mss_bytes);
                assert_eq!(arrivals.bytes(), look * 65_160, "{pkts} of {mss_bytes} bytes");
                last = received;
            }
        }
    }

    /// 50 kB each 5 ms are 10 MB/s, whenever one looks; until nothing has come for twice as long.
    #[test]
    fn what_comes_in_one_go_has_the_rate_of_whole_ones() {
        for end_us in (30_000..35_000).step_by(700) {
            let mut meter = Meter::default();
            (0..=end_us).step_by(100).for_each(|us| meter.push(us + 1, us / 5_000 * 50_000));
            assert_eq!(meter.between(7_000), Some(10_000_000), "{end_us} us");
            assert_eq!(meter.between(10_000), Some(10_000_000), "{end_us} us");
            assert_eq!(meter.between(40_000), None);
            meter.push(end_us + 5_000, 350_000);
            meter.push(end_us + 10_000, 400_000);
            assert_eq!(meter.between(7_000), None, "looks are too rare");
        }
        let mut meter = Meter::default();
        (0..=60_000).step_by(100).for_each(|us| meter.push(us + 1, us.min(30_000) / 5_000 * 50_000));
        assert_eq!((meter.between(15_000), meter.between(14_000)), (Some(10_000_000), None), "nothing comes");
    }

    #[test]
    fn before_a_pause_there_was_another_rate() {
        let mut meter = Meter::default();
        for ms in 0..=20 {
            meter.push(ms * 1_000, ms.min(15) * 10_000 + u64::from(ms > 15) * 2_000);
        }
        assert_eq!(meter.before_pause(10_000), Some(10_000_000));
        assert_eq!(meter.before_pause(20_000), None);
        assert!(meter.average(10_000) < Some(6_000_000));
    }

    #[test]
    fn average_needs_its_span() {
        let mut meter = Meter::default();
        meter.push(0, 0);
        meter.push(50_000, 500_000);
        assert_eq!(meter.average(100_000), None);
        meter.push(100_000, 1_000_000);
        assert_eq!(meter.average(100_000), Some(10_000_000));
    }

    #[test]
    fn a_long_span_is_known_though_looks_are_fine() {
        let mut meter = Meter::default();
        for us in (0..1_000_000).step_by(100) {
            meter.push(us, us * 10);
        }
        assert_eq!(meter.average(200_000), Some(10_000_000));
        assert!(meter.samples.len() <= CAPACITY);
    }

    #[test]
    fn a_train_shows_the_bottleneck_though_the_pipe_is_mostly_empty() {
        let mut meter = Meter::default();
        // 100 kB a round trip of 100 ms, arriving within 10 ms: the path carries 10 MB/s, the average is 1 MB/s.
        for trip in 0..3u64 {
            for ms in 0..=10 {
                meter.push(trip * 100_000 + ms * 1_000 + 1, trip * 100_000 + ms * 10_000);
            }
        }
        let train = meter.train(12_500, 6_250, 25_000, 0).expect("a train");
        assert!((8_500_000..=10_000_000).contains(&train), "{train}");
    }

    #[test]
    fn no_train_is_faster_than_the_path_whenever_one_looks() {
        for look_us in [100, 130, 200, 350] {
            let mut meter = Meter::default();
            for us in (0..20_000).step_by(look_us) {
                meter.push(us + 1, us * 10 / 1_200 * 1_200);
                let train = meter.train(2_500, 1_250, 5_000, 1_200).unwrap_or(0);
                assert!(train <= 10_000_000, "{train} at {us} us");
            }
            assert!(meter.train(2_500, 1_250, 5_000, 1_200).expect("a train") > 9_000_000);
        }
    }

    #[test]
    fn what_a_hole_held_back_is_no_train() {
        let mut meter = Meter::default();
        for ms in 0..=20 {
            meter.push(ms * 1_000 + 1, ms * 10_000 + if ms > 15 { 100_000 } else { 0 });
        }
        assert_eq!(meter.train(12_500, 6_250, 25_000, 0), Some(10_000_000));
    }

    #[test]
    fn what_completes_is_as_old_as_its_request() {
        let mut ages = Ages::default();
        ages.push(1_000, 16, 100);
        assert_eq!(ages.latest_us(), None); // Completed before anyone looked.
        ages.push(3_000, 32, 100);
        ages.push(21_000, 16, 116);
        assert_eq!(ages.latest_us(), Some(20_000));
        ages.push(22_000, 0, 132);
        assert_eq!(ages.latest_us(), Some(19_000));
    }

    #[test]
    fn a_counter_that_goes_backwards_starts_anew() {
        let mut meter = Meter::default();
        meter.push(0, 1_000);
        meter.push(1_000, 10);
        assert_eq!(meter.average(1), None);
    }
}
