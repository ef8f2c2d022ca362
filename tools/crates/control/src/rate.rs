// SPDX-License-Identifier: GPL-2.0-only
//! Rates from a cumulative byte counter that is looked at now and then.

use std::collections::VecDeque;

/// Samples kept: at the finest tick more than four round trips' worth.
const CAPACITY: usize = 512;

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
        let &(then_us, then_bytes) = self.samples.iter().rev().find(|&&(t, _)| now_us - t >= span_us.max(1))?;
        Some(per_second(bytes - then_bytes, now_us - then_us))
    }

    /// Rate in bytes/s of the latest `span_bytes` or a little more, counted as they arrived.
    ///
    /// Data that crossed the bottleneck back to back arrives at the bottleneck's rate even while the window is too
    /// small to keep it busy (packet-train dispersion: Jain and Routhier, "Packet Trains", JSAC 1986). The first
    /// sample of the stretch may have seen its bytes up to one sample earlier, so that interval counts as well: the
    /// result errs low.
    pub fn train(&self, span_bytes: u64) -> Option<u64> {
        let &(now_us, bytes) = self.samples.back()?;
        if self.latest_bytes() == 0 {
            return None;
        }
        let first = self.samples.iter().rposition(|&(_, b)| bytes - b >= span_bytes)?;
        let (then_us, then_bytes) = self.samples[first];
        Some(per_second(bytes - then_bytes, now_us - then_us))
    }
}

/// `bytes` in `us` as bytes per second.
pub fn per_second(bytes: u64, us: u64) -> u64 {
    (u128::from(bytes) * 1_000_000 / u128::from(us.max(1))).min(u128::from(u64::MAX)) as u64
}

/// Bytes that `rate` (bytes/s) carries in `us`.
pub fn carried(rate: u64, us: u64) -> u64 {
    (u128::from(rate) * u128::from(us) / 1_000_000).min(u128::from(u64::MAX)) as u64
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
        let train = meter.train(60_000).expect("a train");
        assert!((9_000_000..=10_000_000).contains(&train), "{train}");
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
