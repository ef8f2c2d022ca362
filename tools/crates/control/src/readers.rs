// SPDX-License-Identifier: GPL-2.0-only
//! The disks' readers: a window counts bytes, and a disk may be read in pieces smaller than the request size.

use crate::DiskState;

/// Reads over which a disk's mean request is taken, and the first such: a random reader waits for it.
const MEAN_READS: u64 = 16;
const FIRST_READS: u64 = 4;
/// Least depth for a disk whose requests are small: open-iscsi's default, and the page. What it costs in bytes is little.
const SMALL_DEPTH: u64 = 33;

/// One disk's latest requests.
#[derive(Clone, Copy, Debug)]
struct Reader {
    bytes: u64,
    ios: u64,
    mean_bytes: u64,
}

impl Reader {
    fn new(disk: &DiskState) -> Self {
        Self { bytes: disk.read_bytes, ios: disk.read_ios, mean_bytes: 0 }
    }

    fn look(&mut self, disk: &DiskState) {
        let (Some(bytes), Some(ios)) = (disk.read_bytes.checked_sub(self.bytes), disk.read_ios.checked_sub(self.ios))
        else {
            *self = Self::new(disk);
            return;
        };
        if ios >= if self.mean_bytes == 0 { FIRST_READS } else { MEAN_READS } {
            *self = Self { mean_bytes: bytes / ios, ..Self::new(disk) };
        }
    }

    /// Bytes that one command of this disk asks for.
    fn command_bytes(&self, request_bytes: u64) -> u64 {
        if self.mean_bytes == 0 { request_bytes } else { self.mean_bytes.clamp(512, request_bytes.max(512)) }
    }
}

/// Disks that share the window: those that read; while none does, all, as they could begin at once.
fn sharers(disks: &[DiskState]) -> impl Iterator<Item = &DiskState> {
    let none = !disks.iter().any(|d| d.reading);
    disks.iter().filter(move |d| d.reading || none)
}

/// How many they are.
pub fn sharing(disks: &[DiskState]) -> u64 {
    sharers(disks).count().max(1) as u64
}

/// Commands that they take.
pub fn commands(disks: &[DiskState]) -> u32 {
    sharers(disks).fold(0, |sum: u32, d| sum.saturating_add(d.max_depth))
}

/// By the input's order of disks.
#[derive(Debug, Default)]
pub struct Readers(Vec<Reader>);

impl Readers {
    pub fn look(&mut self, disks: &[DiskState]) {
        if self.0.len() != disks.len() {
            self.0 = disks.iter().map(Reader::new).collect();
        }
        for (reader, disk) in self.0.iter_mut().zip(disks) {
            reader.look(disk);
        }
    }

    /// The means were of requests of another size.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes in flight.
    pub fn asked_bytes(&self, disks: &[DiskState]) -> u64 {
        let of = |(d, r): (&DiskState, &Reader)| u64::from(d.in_flight) * r.command_bytes(d.request_bytes.into());
        disks.iter().zip(&self.0).map(of).fold(0, u64::saturating_add)
    }

    /// The window as depths, an equal share for each disk that reads. `commands`: of a size in bytes, that the window has.
    pub fn depths(
        &self,
        commands: impl Fn(u64) -> u64,
        request_bytes: u64,
        max_commands: u64,
        disks: &[DiskState],
    ) -> Vec<u32> {
        let reading = sharing(disks);
        let depth = |(i, disk): (usize, &DiskState)| {
            let command_bytes = self.0.get(i).map_or(request_bytes, |r| r.command_bytes(request_bytes));
            let least = if command_bytes < request_bytes / 2 { SMALL_DEPTH } else { 1 };
            let share = commands(command_bytes).div_ceil(reading).max(least);
            share.clamp(1, u64::from(disk.max_depth).clamp(1, max_commands)) as u32
        };
        disks.iter().enumerate().map(depth).collect()
    }
}

/// What readers ask for at once, in bytes, as long as that stays about the same.
#[derive(Debug, Default)]
pub struct Steady {
    least: u64,
    most: u64,
    since_us: Option<u64>,
}

impl Steady {
    /// Adds a look; within `band_bytes` it is the same.
    pub fn look(&mut self, now_us: u64, asked_bytes: u64, band_bytes: u64) {
        let (least, most) = (self.least.min(asked_bytes), self.most.max(asked_bytes));
        *self = match self.since_us {
            Some(_) if most - least <= band_bytes => Self { least, most, ..*self },
            _ => Self { least: asked_bytes, most: asked_bytes, since_us: Some(now_us) },
        };
    }

    /// The least, if it has been the same for so long.
    pub fn least(&self, now_us: u64, for_us: u64) -> Option<u64> {
        self.since_us.is_some_and(|since_us| now_us - since_us >= for_us).then_some(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_steady_as_long_as_they_stay_within_the_band() {
        let mut steady = Steady::default();
        assert_eq!(steady.least(1_000, 0), None);
        for (us, asked) in [(1_000, 40), (2_000, 32), (3_000, 48)] {
            steady.look(us, asked, 16);
        }
        assert_eq!(steady.least(3_000, 2_000), Some(32));
        steady.look(4_000, 49, 16);
        assert_eq!(steady.least(4_000, 2_000), None);
        assert_eq!(steady.least(6_000, 2_000), Some(49));
    }
}
