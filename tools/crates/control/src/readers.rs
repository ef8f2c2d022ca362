// SPDX-License-Identifier: GPL-2.0-only
//! The disks' readers: a window counts bytes, a disk may be read in pieces smaller than the request size, and of several
//! disks some want less than an equal share.

use crate::DiskState;
use crate::rate::carried;

/// Reads over which a disk's mean request is taken, and the first such: a random reader waits for it.
const MEAN_READS: u64 = 16;
pub const FIRST_READS: u64 = 4;
/// Least depth for a disk whose requests are small: open-iscsi's default, and the page. What it costs in bytes is little.
const SMALL_DEPTH: u64 = 33;
/// Disks that leave some of their shares may together ask for so much more than twice what they do, until they are looked at
/// again: what the kernel's own read-ahead asks for.
const MORE_BYTES: u64 = 128 << 10;
/// What a disk had in flight is kept for it, less and less, over about so many round trips: a reader that is between two
/// portions of its read-ahead comes back, and what others were lent until then would be in flight as well.
const CLAIM_TRIPS: u64 = 2;
/// For so long, and so many looks, a disk has one command more than another, of those that cannot be shared evenly.
const TURN_US: u64 = 100_000;
const TURN_LOOKS: u64 = 8;

/// One disk's latest requests.
#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    /// The counters of bytes and reads from which the mean is taken.
    since: Option<(u64, u64)>,
    mean_bytes: u64,
    /// The largest request that it makes, and what one asks for.
    request_bytes: u64,
    command_bytes: u64,
    asked_bytes: u64,
    /// The most in flight lately, less and less; and its share of the window.
    claim_bytes: u64,
    share_bytes: u64,
    max_depth: u32,
    /// As set last, and when nearly all of it was in use.
    depth: u64,
    full_us: u64,
    /// It shares the window; and takes all that it can get.
    shares: bool,
    wants: bool,
    /// When it last asked for all of its share.
    wanted_us: u64,
}

impl Reader {
    /// Requests of up to that size: what came in those of another tells nothing of them.
    fn makes(&mut self, request_bytes: u64) {
        if std::mem::replace(&mut self.request_bytes, request_bytes) != request_bytes {
            (self.since, self.mean_bytes) = (None, 0);
        }
    }

    /// The mean request, once there are enough. A counter that went backwards starts anew.
    fn measure(&mut self, disk: &DiskState) {
        let counters = (disk.read_bytes, disk.read_ios);
        // A depth of a few lets no more be seen; one by itself may be anything, and be begun twice.
        if disk.begun_ios >= self.depth.clamp(2, FIRST_READS) && disk.in_flight > 1 {
            (self.since, self.mean_bytes) = (Some(counters), disk.begun_bytes / disk.begun_ios);
        }
        let (bytes, ios) = *self.since.get_or_insert(counters);
        let (Some(bytes), Some(ios)) = (disk.read_bytes.checked_sub(bytes), disk.read_ios.checked_sub(ios)) else {
            (self.since, self.mean_bytes) = (Some(counters), 0);
            return;
        };
        if ios >= if self.mean_bytes == 0 { FIRST_READS } else { MEAN_READS } {
            (self.since, self.mean_bytes) = (Some(counters), bytes / ios);
        }
    }

    /// Bytes that one command of this disk asks for.
    fn command_bytes(&self, request_bytes: u64) -> u64 {
        if self.mean_bytes == 0 { request_bytes } else { self.mean_bytes.clamp(512, request_bytes.max(512)) }
    }

    /// One command more than so many bytes is more than its share, give or take some.
    fn more(&self, bytes: u64, some_bytes: u64) -> bool {
        bytes.saturating_add(self.command_bytes).saturating_add(some_bytes) > self.share_bytes
    }
}

/// By the input's order of disks, as they were looked at last.
#[derive(Debug, Default)]
pub struct Readers {
    disks: Vec<Reader>,
    looked_us: u64,
    none_reads: bool,
    turn: u64,
    turned_us: u64,
}

impl Readers {
    pub fn look(&mut self, now_us: u64, trip_us: u64, disks: &[DiskState]) {
        self.disks.resize_with(disks.len(), Reader::default);
        let elapsed_us = now_us.saturating_sub(std::mem::replace(&mut self.looked_us, now_us));
        if now_us.saturating_sub(self.turned_us) >= TURN_US.max(elapsed_us.saturating_mul(TURN_LOOKS)) {
            (self.turn, self.turned_us) = (self.turn + 1, now_us);
        }
        let claim_us = CLAIM_TRIPS.saturating_mul(trip_us).max(1);
        let gone_ppm = elapsed_us.min(claim_us).saturating_mul(1_000_000) / claim_us;
        let none_reads = !disks.iter().any(|d| d.reading);
        self.none_reads = none_reads;
        for (reader, disk) in self.disks.iter_mut().zip(disks) {
            reader.makes(disk.request_bytes.into());
            reader.measure(disk);
            reader.command_bytes = reader.command_bytes(reader.request_bytes);
            reader.asked_bytes = u64::from(disk.in_flight) * reader.command_bytes;
            let less_bytes = carried(reader.claim_bytes, gone_ppm);
            reader.claim_bytes = reader.asked_bytes.max(reader.claim_bytes - less_bytes);
            (reader.shares, reader.max_depth) = (disk.reading || none_reads, disk.max_depth);
            if u64::from(disk.in_flight) >= reader.depth - reader.depth / 8 {
                reader.full_us = now_us;
            }
        }
        let alone = self.sharing() == 1;
        for reader in &mut self.disks {
            // Of a few commands, one that is left unused may be most of an eighth of the share.
            let used = now_us.saturating_sub(reader.full_us) <= trip_us;
            let all = used && reader.more(reader.claim_bytes, reader.share_bytes / 8);
            reader.wants = reader.shares && (alone || none_reads || all);
            if all {
                reader.wanted_us = now_us;
            }
        }
    }

    /// Requests of that size come next, where they are smaller.
    pub fn expect(&mut self, request_bytes: u64) {
        for reader in self.disks.iter_mut().filter(|reader| reader.request_bytes < request_bytes) {
            reader.makes(request_bytes);
        }
    }

    /// Disks that share the window: those that read; while none does, all, as they could begin at once.
    fn sharers(&self) -> impl Iterator<Item = &Reader> {
        self.disks.iter().filter(|reader| reader.shares)
    }

    /// How many they are.
    pub fn sharing(&self) -> u64 {
        self.sharers().count().max(1) as u64
    }

    /// And without those that have left some of their share for so long.
    pub fn hungry(&self, for_us: u64) -> u64 {
        if self.none_reads {
            return self.sharing();
        }
        let lately = |reader: &&Reader| self.looked_us.saturating_sub(reader.wanted_us) <= for_us;
        match self.sharers().filter(lately).count() {
            0 => self.sharing(),
            hungry => hungry as u64,
        }
    }

    /// What one disk leaves of its share another takes at once.
    pub fn compete(&self) -> bool {
        self.sharing() > 1 && self.sharers().any(|reader| reader.more(reader.asked_bytes, 0))
    }

    /// Commands that the disks take which share the window; before there are any, all.
    pub fn commands(&self) -> u32 {
        if self.disks.is_empty() { u32::MAX } else { commands(self.sharers()) }
    }

    /// The same of those that want more than their share; if none does, of all.
    pub fn wanting_commands(&self) -> u32 {
        match commands(self.sharers().filter(|reader| reader.wants)) {
            0 => self.commands(),
            wanting => wanting,
        }
    }

    /// Commands that each of the disks takes while all are used: the kernel shares the host's evenly among those.
    pub fn least_depth(&self) -> u32 {
        self.disks.iter().map(|reader| reader.max_depth / self.disks.len() as u32).min().unwrap_or(0)
    }

    /// Bytes in flight.
    pub fn asked_bytes(&self) -> u64 {
        self.disks.iter().fold(0, |sum, reader| sum.saturating_add(reader.asked_bytes))
    }

    /// The same, with what is kept for disks that want less than their share.
    pub fn claimed_bytes(&self) -> u64 {
        let claimed = |reader: &Reader| if reader.wants { reader.asked_bytes } else { reader.claim_bytes };
        self.disks.iter().map(claimed).fold(0, u64::saturating_add)
    }

    /// The window as depths: equal shares for the disks that share it, and what those leave that want less is the others'.
    /// `commands`: of a size in bytes, that a window has.
    pub fn depths(
        &mut self,
        window_bytes: u64,
        commands: impl Fn(u64, u64) -> u64,
        request_bytes: u64,
        max_commands: u64,
    ) -> Vec<u32> {
        let (count, none_reads) = (self.sharing(), self.none_reads);
        let equal_bytes = window_bytes / count;
        let wanting = self.disks.iter().filter(|reader| reader.wants).count() as u64;
        let more_bytes = MORE_BYTES / (count - wanting.min(count)).max(1);
        let most_kept_bytes = if wanting > 0 { equal_bytes } else { window_bytes };
        let kept = |reader: &Reader| if reader.wants { 0 } else { reader.claim_bytes.min(most_kept_bytes) };
        let left_bytes = self.disks.iter().map(kept).fold(window_bytes, u64::saturating_sub);
        // What is left over goes round among those that want more, and moves little when one of them stops to.
        let first = (self.turn % self.disks.len().max(1) as u64) as usize;
        let mut rank = wanting - self.disks[..first].iter().filter(|reader| reader.wants).count() as u64;
        let depth = |reader: &mut Reader| {
            // While the request size changes disks differ; at rest it is set before they are read.
            let own = !none_reads && reader.request_bytes > 0;
            let request_bytes = if own { reader.request_bytes } else { request_bytes };
            let bytes = reader.command_bytes(request_bytes);
            let most_bytes =
                if reader.wants { u64::MAX } else { reader.claim_bytes.saturating_mul(2).saturating_add(more_bytes) };
            let (own_bytes, most_bytes, among) = match wanting {
                0 => {
                    let own_bytes = reader.claim_bytes.saturating_add(left_bytes / count);
                    (own_bytes.max(equal_bytes), most_bytes.max(equal_bytes), 1)
                }
                _ => (left_bytes, most_bytes, wanting),
            };
            reader.share_bytes = most_bytes.min(own_bytes / among);
            let least = if bytes < request_bytes / 2 { SMALL_DEPTH } else { 1 };
            let depth = (commands(own_bytes, bytes) + among - 1 - rank % among) / among;
            rank += u64::from(reader.wants);
            let depth = depth.min(most_bytes.div_ceil(bytes)).max(least);
            reader.depth = depth.clamp(1, u64::from(reader.max_depth).clamp(1, max_commands));
            reader.depth as u32
        };
        self.disks.iter_mut().map(depth).collect()
    }
}

fn commands<'a>(readers: impl Iterator<Item = &'a Reader>) -> u32 {
    readers.fold(0, |sum: u32, reader| sum.saturating_add(reader.max_depth))
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

    /// The least and the most, if it has been the same for so long.
    pub fn bounds(&self, now_us: u64, for_us: u64) -> Option<(u64, u64)> {
        self.since_us.is_some_and(|since_us| now_us - since_us >= for_us).then_some((self.least, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST_BYTES: u64 = 16 << 10;
    const TRIP_US: u64 = 20_000;

    /// Whole requests in flight of each disk.
    fn look(readers: &mut Readers, trip: u64, in_flight: &[u32]) {
        let disk =
            DiskState { reading: true, request_bytes: REQUEST_BYTES as u32, max_depth: 128, ..Default::default() };
        let disks: Vec<DiskState> = in_flight.iter().map(|&in_flight| DiskState { in_flight, ..disk }).collect();
        readers.look(trip * TRIP_US, TRIP_US, &disks);
    }

    /// Of a window of 24 requests.
    fn depths(readers: &mut Readers) -> Vec<u32> {
        readers.depths(24 * REQUEST_BYTES, |window_bytes, bytes| window_bytes / bytes, REQUEST_BYTES, 128)
    }

    #[test]
    fn disks_that_want_more_have_equal_shares() {
        let mut readers = Readers::default();
        for (trip, in_flight) in [[0, 0, 0], [8, 8, 8], [8, 7, 7], [8, 7, 8]].iter().enumerate() {
            look(&mut readers, trip as u64, in_flight);
            assert_eq!(depths(&mut readers), [8, 8, 8], "trip {trip}");
        }
    }

    #[test]
    fn a_command_that_is_left_over_goes_round_and_not_at_every_look() {
        let mut readers = Readers::default();
        let mut seen: Vec<Vec<u32>> = Vec::new();
        for trip in 0..72 {
            look(&mut readers, 50 * trip, &[8, 8, 7]);
            seen.push(readers.depths(23 * REQUEST_BYTES, |window, bytes| window / bytes, REQUEST_BYTES, 128));
        }
        seen.dedup();
        assert!(seen.len() <= 10 && seen.iter().all(|depths| depths.iter().sum::<u32>() == 23), "{seen:?}");
        let least = [[7, 8, 8], [8, 7, 8], [8, 8, 7]].map(|turn| seen.iter().filter(|depths| **depths == turn).count());
        assert!(least.iter().all(|&turns| turns >= 2), "{seen:?}");
    }

    /// A command that moves is asked for again before it has been answered.
    #[test]
    fn few_commands_move_when_a_disk_stops() {
        for turn in 0..8 {
            let mut readers = Readers { turn, ..Readers::default() };
            let [before, after] = [(0, 2), (2, 0)].map(|(trip, last)| {
                look(&mut readers, trip, &[2, 2, 2, 2, 2, 2, 2, last]);
                readers.depths(11 * REQUEST_BYTES, |window, bytes| window / bytes, REQUEST_BYTES, 128)
            });
            let moved = before[..7].iter().zip(&after).filter(|(before, after)| before != after).count();
            assert!(moved <= 2, "turn {turn}: {before:?} {after:?}");
        }
    }

    #[test]
    fn what_a_disk_leaves_of_its_share_is_the_others() {
        let mut readers = Readers::default();
        look(&mut readers, 0, &[8, 8, 8]);
        assert_eq!(depths(&mut readers), [8, 8, 8]);
        look(&mut readers, 1, &[8, 8, 2]);
        assert!(readers.compete());
        assert_eq!(depths(&mut readers)[..2], [10, 10], "it may be between two portions of its read-ahead");
        look(&mut readers, 2, &[10, 10, 2]);
        let depths = depths(&mut readers);
        assert_eq!(depths[..2], [11, 11]);
        // And may ask for more again.
        assert!((3..=11).contains(&depths[2]), "{depths:?}");
        assert_eq!((readers.hungry(2 * TRIP_US), readers.hungry(0)), (3, 2));
        look(&mut readers, 4, &[11, 11, 0]);
        let depths = self::depths(&mut readers);
        assert_eq!(depths[..2], [12, 12], "nothing is kept for it after two round trips without a look");
        assert_eq!((readers.commands(), readers.wanting_commands()), (384, 256));
    }

    #[test]
    fn reads_that_have_begun_tell_how_small_they_are() {
        let depth = |begun_ios, begun_bytes| {
            let mut readers = Readers::default();
            let request_bytes = 128 << 10;
            let idle = DiskState { request_bytes, max_depth: 128, ..DiskState::default() };
            let depths = |readers: &mut Readers, disk| {
                readers.look(0, TRIP_US, &[disk]);
                readers.depths(256 << 10, |window, bytes| window / bytes, request_bytes.into(), 128)
            };
            assert_eq!(depths(&mut readers, idle), [2]);
            let in_flight = begun_ios as u32;
            depths(&mut readers, DiskState { reading: true, in_flight, begun_ios, begun_bytes, ..idle })[0]
        };
        assert_eq!((depth(1, 4 << 10), depth(2, 256 << 10)), (2, 2));
        assert_eq!(depth(2, 8 << 10), 64);
    }

    /// One takes small requests already; at rest all will when they are read.
    #[test]
    fn a_disk_has_a_depth_of_requests_of_its_size() {
        for (reading, expected) in [(true, [24, 6]), (false, [24, 24])] {
            let mut readers = Readers::default();
            let disks = [REQUEST_BYTES, 4 * REQUEST_BYTES].map(|request_bytes| DiskState {
                reading,
                request_bytes: request_bytes as u32,
                max_depth: 128,
                ..DiskState::default()
            });
            readers.look(0, TRIP_US, &disks);
            let depths = readers.depths(48 * REQUEST_BYTES, |window, bytes| window / bytes, REQUEST_BYTES, 128);
            assert_eq!(depths, expected, "reading {reading}");
        }
    }

    /// Where a share is two requests, one in flight is half of it.
    #[test]
    fn disks_that_read_one_at_a_time_leave_a_small_window_to_another() {
        let mut readers = Readers::default();
        let mut depth = 0;
        for trip in 0..10 {
            look(&mut readers, trip, &[depth, 1, 1, 1]);
            let depths = readers.depths(8 * REQUEST_BYTES, |window, bytes| window / bytes, REQUEST_BYTES, 128);
            assert!(depths.iter().all(|&depth| depth >= 2), "trip {trip}: {depths:?}");
            depth = depths[0];
        }
        assert_eq!((depth, readers.compete()), (5, true));
        look(&mut readers, 10, &[0; 4]);
        let idle = DiskState::default();
        readers.look(11 * TRIP_US, TRIP_US, &[idle; 4]);
        assert_eq!(readers.hungry(100 * TRIP_US), 4);
    }

    #[test]
    fn disks_that_all_want_less_may_each_ask_for_an_equal_share() {
        let mut readers = Readers::default();
        for (trip, in_flight) in [[8, 8, 8], [3, 5, 1], [3, 5, 1]].iter().enumerate() {
            look(&mut readers, trip as u64, in_flight);
            let depths = depths(&mut readers);
            assert!(depths.iter().all(|&d| d >= 8) && depths.iter().sum::<u32>() <= 26, "trip {trip}: {depths:?}");
        }
        assert!(!readers.compete());
    }

    #[test]
    fn one_disk_alone_has_the_window() {
        let mut readers = Readers::default();
        look(&mut readers, 0, &[1]);
        assert_eq!(depths(&mut readers), [24]);
        assert!(!readers.compete());
    }

    #[test]
    fn readers_are_steady_as_long_as_they_stay_within_the_band() {
        let mut steady = Steady::default();
        assert_eq!(steady.bounds(1_000, 0), None);
        for (us, asked) in [(1_000, 40), (2_000, 32), (3_000, 48)] {
            steady.look(us, asked, 16);
        }
        assert_eq!(steady.bounds(3_000, 2_000), Some((32, 48)));
        steady.look(4_000, 49, 16);
        assert_eq!(steady.bounds(4_000, 2_000), None);
        assert_eq!(steady.bounds(6_000, 2_000), Some((49, 49)));
    }
}
