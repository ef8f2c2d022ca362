// SPDX-License-Identifier: GPL-2.0-only
//! Rates from a cumulative byte counter that is looked at now and then.

use std::collections::VecDeque;

/// Samples kept: at the finest tick more than four round trips' worth.
const CAPACITY: usize = 1024;

/// What is believed as a train, and how much of it is looked at.
const LEAST_TRAIN_PIECES: u64 = 4;
const LEAST_TRAIN_SAMPLES: usize = 5;
const TRAIN_PIECES: u64 = 16;

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
            self.samples.pop_front();
        }
        self.samples.push_back((now_us, bytes));
    }

    /// Bytes counted between the last two samples.
    pub fn latest_bytes(&self) -> u64 {
        match self.samples.len() {
            0 | 1 => 0,
            n => self.samples[n - 1].1 - self.samples[n - 2].1,
        }
    }

    /// Average rate in bytes/s over the shortest stretch that spans at least `span_us`; none before that much is known.
    pub fn average(&self, span_us: u64) -> Option<u64> {
        let &(now_us, bytes) = self.samples.back()?;
        let after = self.samples.partition_point(|&(t, _)| now_us - t >= span_us.max(1));
        let (then_us, then_bytes) = self.samples[after.checked_sub(1)?];
        Some(per_second(bytes - then_bytes, now_us - then_us))
    }

    /// The rate, in bytes/s, of the latest pieces of `piece_bytes` that came in one go, that is without a pause over
    /// `pause_us`: the last [`TRAIN_PIECES`] of them; none if there were fewer than [`LEAST_TRAIN_PIECES`] or they took
    /// fewer than [`LEAST_TRAIN_SAMPLES`] samples.
    ///
    /// Data that crossed the bottleneck back to back arrives at the bottleneck's rate even while the window is too
    /// small to keep it busy (packet-train dispersion: Jain and Routhier, "Packet Trains", JSAC 1986). What came
    /// first only starts the clock, at the latest when it was not there yet: the rate errs low. A train comes evenly;
    /// what a hole in TCP's sequence held back comes all at once, and shows no rate.
    pub fn train(&self, piece_bytes: u64, pause_us: u64) -> Option<u64> {
        let &(now_us, bytes) = self.samples.back()?;
        let newest = self.samples.len() - 1;
        let came = |i: usize| self.samples[i].1 - self.samples[i - 1].1;
        let mut arrivals = (1..=newest).rev().filter(|&i| came(i) > 0);
        let mut first = arrivals.next()?;
        for i in arrivals {
            let (t, b) = self.samples[i];
            if self.samples[first].0 - t > pause_us || bytes - b > TRAIN_PIECES * piece_bytes {
                break;
            }
            first = i;
        }
        let arrived = bytes - self.samples[first].1;
        let before_us = self.samples[first - 1].0;
        let samples = newest - first;
        let mean = arrived / (samples as u64).max(1);
        let even = (first + 1..=newest).all(|i| came(i) <= mean + 2 * piece_bytes);
        (even && arrived >= LEAST_TRAIN_PIECES * piece_bytes && samples >= LEAST_TRAIN_SAMPLES)
            .then(|| per_second(arrived, now_us - before_us))
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
    fn a_train_shows_the_bottleneck_though_the_pipe_is_mostly_empty() {
        let mut meter = Meter::default();
        // 100 kB a round trip of 100 ms, arriving within 10 ms: the path carries 10 MB/s, the average is 1 MB/s.
        for trip in 0..3u64 {
            for ms in 0..=10 {
                meter.push(trip * 100_000 + ms * 1_000 + 1, trip * 100_000 + ms * 10_000);
            }
        }
        let train = meter.train(10_000, 20_000).expect("a train");
        assert!((8_500_000..=10_000_000).contains(&train), "{train}");
    }

    #[test]
    fn what_a_hole_held_back_is_no_train() {
        let mut meter = Meter::default();
        for ms in 0..=10 {
            meter.push(ms * 1_000 + 1, ms * 10_000);
        }
        let train = meter.train(10_000, 20_000).expect("a train");
        meter.push(20_001, 200_000);
        assert_eq!(meter.train(10_000, 20_000), None);
        for ms in 21..=31 {
            meter.push(ms * 1_000 + 1, ms * 10_000);
        }
        assert!(meter.train(10_000, 20_000).expect("a train") <= train * 11 / 10);
    }

    #[test]
    fn a_counter_that_goes_backwards_starts_anew() {
        let mut meter = Meter::default();
        meter.push(0, 1_000);
        meter.push(1_000, 10);
        assert_eq!(meter.average(1), None);
        assert_eq!(meter.latest_bytes(), 0);
    }
}
