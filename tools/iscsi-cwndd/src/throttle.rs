// SPDX-License-Identifier: GPL-2.0-only
//! A log that keeps to so many lines a minute, and says how many it left out.

use std::fmt::Arguments;

pub struct Throttle {
    lines_per_minute: u32,
    minute: u64,
    logged: u32,
    left_out: u32,
}

impl Throttle {
    pub fn new(lines_per_minute: u32) -> Self {
        Self { lines_per_minute, minute: 0, logged: 0, left_out: 0 }
    }

    /// To be told the time now and then, so that what was left out is told.
    pub fn at(&mut self, now_us: u64) {
        let minute = now_us / 60_000_000;
        if minute != self.minute {
            if self.left_out > 0 {
                log::info!("{} more changes in the last minute", self.left_out);
            }
            (self.minute, self.logged, self.left_out) = (minute, 0, 0);
        }
    }

    pub fn info(&mut self, line: Arguments<'_>) {
        if self.logged < self.lines_per_minute {
            self.logged += 1;
            log::info!("{line}");
        } else {
            self.left_out += 1;
            log::debug!("{line}");
        }
    }
}
