// SPDX-License-Identifier: GPL-2.0-only
//! One disk under control: what is set, what may be set, and whether it reads.
//!
//! A strategy's depth is for reads, but the kernel's counts writes as well. So they have room besides, as much as they use
//! and, while nothing is read, as much again: who writes is not held to a depth that was made for reads.

use crate::crew::Job;
use crate::host::{Begun, Disk, Host, Knob, Knobs, Reads, Statistics};
use crate::restore::{self, Restored};
use crate::store::{Error, Store};
use crate::throttle::Throttle;
use cwnd_control::{DiskState, FIRST_READS};
use std::io;

/// The smallest `max_sectors_kb` the block layer takes: a page.
const MIN_SECTORS_KB: u32 = 4;
/// The kernel keeps a request size in whole blocks and a read-ahead in whole pages. What is asked for is a multiple of
/// the largest of either, so that what is read back is what was written.
const MAX_BLOCK_KB: u32 = 4;
const MAX_PAGE_KB: u32 = 64;

/// Room that writes have beyond what they use, at least; and for how long after the last.
const SPARE_ROOM: u32 = 4;
const ROOM_US: u64 = 200_000;
/// In so long an eighth of the room that is not used goes.
const FADE_US: u64 = 10_000;

/// A request size as `max_sectors_kb` takes it.
pub fn whole_blocks_kb(bytes: u32) -> u32 {
    (bytes / 1024 / MAX_BLOCK_KB * MAX_BLOCK_KB).max(MIN_SECTORS_KB)
}

pub struct TunedDisk {
    pub disk: Disk,
    pub original: Knobs<u32>,
    /// As last written by us or, before that, found.
    pub in_force: Knobs<u32>,
    /// Why a setting is no longer ours to change.
    pub left_alone: Knobs<Option<String>>,
    /// What was last asked for: the kernel may have made something else of it.
    asked: Knobs<Option<u32>>,
    /// What is being written to `max_sectors_kb`: it waits for what is in flight.
    pub freezing: Option<u32>,
    /// The request size of the device above that makes its requests; this one has its own.
    pub above_kb: Option<u32>,
    /// Files that are open may have another read-ahead than the disk has now.
    pub stale_files: bool,
    /// The kernel could be told to use a greater depth at once: it has debugfs, and is not locked down.
    prompt: bool,
    statistics: Statistics,
    reads: Option<Reads>,
    /// Reads that the kernel has told of since the disk was idle, and their bytes; none has completed.
    begun_ios: u64,
    begun_bytes: u64,
    /// Reads had completed at the last look.
    pub completed: bool,
    /// When a read was last seen in flight or completed, and a write.
    read_seen_us: Option<u64>,
    write_seen_us: Option<u64>,
    /// The strategy's depth, and what writes may have beyond it.
    read_depth: u32,
    room: u32,
    faded_us: u64,
}

impl TunedDisk {
    pub fn new(host: &dyn Host, store: &Store, disk: Disk) -> io::Result<Self> {
        let in_force = Knobs::try_new(|knob| host.get(&disk, knob))?;
        let (original, foreign) = restore::adopt(store, &disk.id, &in_force);
        let mut tuned = Self {
            disk,
            original,
            in_force,
            left_alone: Knobs::default(),
            asked: Knobs::default(),
            freezing: None,
            above_kb: None,
            stale_files: false,
            prompt: true,
            statistics: Statistics::default(),
            reads: None,
            begun_ios: 0,
            begun_bytes: 0,
            completed: false,
            read_seen_us: None,
            write_seen_us: None,
            read_depth: u32::MAX,
            room: 0,
            faded_us: 0,
        };
        for knob in foreign {
            tuned.leave_alone(knob, "changed by someone else while the daemon was not running".into());
        }
        Ok(tuned)
    }

    /// Looks at the statistics; true if the disk has read since the last look, or is waiting for a read.
    pub fn look(&mut self, host: &dyn Host, now_us: u64) -> bool {
        self.completed = false;
        let Ok(reads) = host.reads(&self.disk, &mut self.statistics) else {
            return false;
        };
        let before = self.reads.replace(reads);
        self.completed = before.is_some_and(|before| before.ios != reads.ios);
        if self.completed || reads.in_flight == 0 {
            (self.begun_ios, self.begun_bytes) = (0, 0);
        }
        let reading = reads.in_flight > 0 || self.completed;
        if reading {
            self.read_seen_us = Some(now_us);
        }
        if reads.writes_in_flight > 0 || before.is_some_and(|before| before.write_ios != reads.write_ios) {
            self.write_seen_us = Some(now_us);
        }
        let wrote = self.write_seen_us.is_some_and(|seen_us| now_us - seen_us <= ROOM_US);
        self.room = if wrote { self.room_for(now_us, &reads) } else { 0 };
        reading
    }

    /// Something is in flight, which a change of the request size waits for.
    pub fn in_use(&self) -> bool {
        self.reads.is_some_and(|reads| reads.in_flight > 0 || reads.writes_in_flight > 0)
    }

    /// Reads that want more than their depth would take it: they leave writes what they have, and a little to grow. What
    /// writes have used lately they may soon use again.
    fn room_for(&mut self, now_us: u64, reads: &Reads) -> u32 {
        let writes = reads.writes_in_flight;
        let lately = if now_us.saturating_sub(self.faded_us) >= FADE_US {
            self.faded_us = now_us;
            self.room - self.room.div_ceil(8)
        } else {
            self.room
        };
        let more = writes.saturating_add(SPARE_ROOM);
        let room = if reads.in_flight > self.read_depth {
            writes
        } else if reads.in_flight >= self.read_depth - self.read_depth / 8 {
            more
        } else if reads.in_flight > 0 {
            lately.max(more)
        } else {
            lately.max(more.saturating_add(writes))
        };
        room.min(self.disk.max_depth)
    }

    /// It has been written lately.
    pub fn writing(&self) -> bool {
        self.room > 0
    }

    pub fn reading(&self, now_us: u64, idle_after_us: u64) -> bool {
        self.read_seen_us.is_some_and(|seen_us| now_us.saturating_sub(seen_us) <= idle_after_us)
    }

    /// The read-ahead, once it is ours.
    pub fn tuned_read_ahead_kb(&self) -> Option<u32> {
        self.asked
            .read_ahead_kb
            .filter(|_| self.left_alone.read_ahead_kb.is_none())
            .and(Some(self.in_force.read_ahead_kb))
    }

    /// The request size that it has below a device that makes its requests.
    pub fn own_request_kb(&self) -> u32 {
        if self.left_alone.max_sectors_kb.is_some() {
            self.in_force.max_sectors_kb
        } else {
            self.original.max_sectors_kb
        }
    }

    /// The request size in force, whoever makes the requests.
    pub fn request_kb(&self) -> u32 {
        self.in_force.max_sectors_kb.min(self.above_kb.unwrap_or(u32::MAX))
    }

    /// More of such reads would tell more.
    pub fn begins(&self) -> bool {
        (1..FIRST_READS).contains(&self.begun_ios)
    }

    /// The kernel has told of these reads, of any disk.
    pub fn use_began(&mut self, begun: &[Begun]) {
        for read in begun.iter().filter(|read| self.disk.scsi_device() == Some(&read.scsi_device)) {
            self.begun_ios += 1;
            let bytes = u64::from(read.blocks) * u64::from(self.disk.block_bytes);
            self.begun_bytes = self.begun_bytes.saturating_add(bytes);
        }
    }

    pub fn state(&self, reading: bool) -> DiskState {
        let Reads { ios, bytes, in_flight, .. } = self.reads.unwrap_or_default();
        DiskState {
            read_bytes: bytes,
            read_ios: ios,
            begun_bytes: self.begun_bytes,
            begun_ios: self.begun_ios,
            in_flight,
            reading,
            request_bytes: self.request_kb().saturating_mul(1024),
            changing: self.freezing.is_some(),
            prompt: self.prompt,
            below: self.above_kb.is_some(),
            max_request_bytes: self.disk.max_request_bytes,
            max_depth: self.disk.max_depth,
        }
    }

    /// The settings a strategy's answer means for this disk; zero means to leave a setting as it is.
    pub fn wanted(&mut self, request_bytes: u32, read_ahead_bytes: u64, depth: u32) -> Knobs<Option<u32>> {
        let max_sectors_kb = (self.disk.max_request_bytes / 1024).max(MIN_SECTORS_KB);
        let nonzero = |value: u32| (value > 0).then_some(value);
        self.read_depth = nonzero(depth).unwrap_or(u32::MAX);
        let depth = nonzero(depth).map_or(0, |depth| depth.saturating_add(self.room));
        let read_ahead_kb = u32::try_from(read_ahead_bytes / 1024).unwrap_or(u32::MAX) / MAX_PAGE_KB * MAX_PAGE_KB;
        Knobs {
            max_sectors_kb: nonzero(request_bytes).map(|bytes| whole_blocks_kb(bytes).min(max_sectors_kb)),
            read_ahead_kb: (read_ahead_bytes > 0).then_some(read_ahead_kb.max(MAX_PAGE_KB)),
            queue_depth: nonzero(depth).map(|depth| depth.clamp(1, self.disk.max_depth.max(1))),
        }
    }

    /// Makes the changes that are needed, and returns the one that has to be made by the session's thread: a request
    /// size, once it may. The depth never waits for it; a read-ahead does, because the kernel may change it with the
    /// request size.
    pub fn apply(
        &mut self,
        host: &dyn Host,
        store: &mut Store,
        wanted: &Knobs<Option<u32>>,
        may_freeze: bool,
        reason: &str,
        log: &mut Throttle,
    ) -> Option<Job> {
        let mut changes: Vec<(Knob, u32)> = Vec::new();
        let mut waits = self.freezing.is_some();
        for knob in Knob::ALL {
            let Some(mut wanted) = *wanted.get(knob) else { continue };
            if knob == Knob::MaxSectorsKb && self.above_kb.is_some() {
                wanted = self.own_request_kb();
            }
            if knob != Knob::QueueDepth && waits {
                continue;
            }
            let in_force = *self.in_force.get(knob);
            let done = wanted == in_force || *self.asked.get(knob) == Some(wanted);
            if done || self.left_alone.get(knob).is_some() {
                continue;
            }
            if knob == Knob::MaxSectorsKb {
                if !may_freeze {
                    waits = true;
                    continue;
                }
                if !host.takes(&self.disk, wanted) {
                    continue;
                }
            }
            match host.get(&self.disk, knob) {
                Ok(found) if found == in_force => {
                    waits |= knob == Knob::MaxSectorsKb;
                    changes.push((knob, wanted));
                }
                Ok(found) => self.surrender(knob, found),
                Err(error) => self.leave_alone(knob, format!("cannot be read: {error}")),
            }
        }
        if changes.is_empty() {
            return None;
        }
        let saved = store.save_original(&self.disk.id, self.original).and_then(|()| self.note(store, &changes));
        if let Err(error) = saved {
            for (knob, _) in changes {
                self.leave_alone(knob, format!("original cannot be saved: {error}"));
            }
            return None;
        }
        if let [(Knob::MaxSectorsKb, kb), ..] = changes[..] {
            self.freezing = Some(kb);
            self.log_change(Knob::MaxSectorsKb, kb, reason, log);
            return Some(Job::SetMaxSectors { disk: self.disk.clone(), kb });
        }
        for (knob, value) in changes {
            self.log_change(knob, value, reason, log);
            let deeper = knob == Knob::QueueDepth && value > self.in_force.queue_depth;
            let result = restore::set(host, &self.disk, knob, value);
            self.was_set(store, knob, value, result);
            if deeper && self.prompt {
                self.run_queue(host);
            }
        }
        None
    }

    /// The thread's write of `kb` to `max_sectors_kb` is over.
    pub fn frozen(&mut self, store: &mut Store, kb: u32, result: io::Result<u32>) {
        self.freezing = None;
        self.was_set(store, Knob::MaxSectorsKb, kb, result);
    }

    /// Gives the disk its originals back, where they are still ours to give.
    pub fn put_back(&mut self, host: &dyn Host, store: &mut Store) {
        if let Err(error) = restore::restore(host, store, &self.disk, &mut Restored::default()) {
            log::warn!("{error}");
        }
        if let Ok(found) = Knobs::try_new(|knob| host.get(&self.disk, knob)) {
            (self.in_force, self.asked) = (found, Knobs::default());
            self.stale_files = true;
        }
    }

    fn run_queue(&mut self, host: &dyn Host) {
        if let Err(error) = host.run_queue(&self.disk) {
            log::info!("{}: a greater depth waits for the next completion: debugfs: {error}", self.disk.name);
            self.prompt = false;
        }
    }

    /// Looks whether someone else has changed a setting that we have been changing.
    pub fn audit(&mut self, host: &dyn Host, store: &Store) {
        if self.freezing.is_some() || store.original(&self.disk.id).is_none() {
            return;
        }
        for knob in Knob::ALL {
            if self.left_alone.get(knob).is_some() {
                continue;
            }
            if let Ok(found) = host.get(&self.disk, knob) {
                if found != *self.in_force.get(knob) {
                    self.surrender(knob, found);
                }
            }
        }
    }

    /// Notes for a restart which values are ours: those in force and those about to be.
    fn note(&self, store: &mut Store, changes: &[(Knob, u32)]) -> Result<(), Error> {
        let ours = Knobs::try_new(|knob| {
            let in_force = *self.in_force.get(knob);
            let changing = changes.iter().find_map(|&(changed, to)| (changed == knob).then_some(to));
            let next = changing.or(if knob == Knob::MaxSectorsKb { self.freezing } else { None });
            Ok(self.left_alone.get(knob).is_none().then_some([in_force, next.unwrap_or(in_force)]))
        });
        ours.and_then(|ours| store.note(&self.disk.id, ours))
    }

    fn was_set(&mut self, store: &mut Store, knob: Knob, wanted: u32, result: io::Result<u32>) {
        match result {
            Ok(value) => {
                self.stale_files |= knob == Knob::ReadAheadKb;
                *self.in_force.get_mut(knob) = value;
                *self.asked.get_mut(knob) = Some(wanted);
                if value != wanted {
                    if let Err(error) = self.note(store, &[]) {
                        log::warn!("{error}");
                    }
                }
            }
            Err(error) => self.leave_alone(knob, format!("cannot be set: {error}")),
        }
    }

    fn log_change(&self, knob: Knob, value: u32, reason: &str, log: &mut Throttle) {
        let from = self.in_force.get(knob);
        log.info(format_args!("{}: {} {from} -> {value}: {reason}", self.disk.name, knob.name()));
    }

    fn surrender(&mut self, knob: Knob, found: u32) {
        self.leave_alone(knob, format!("changed to {found} by someone else"));
        *self.in_force.get_mut(knob) = found;
    }

    fn leave_alone(&mut self, knob: Knob, why: String) {
        log::warn!("{}: {} is left alone from now on: {why}", self.disk.name, knob.name());
        *self.left_alone.get_mut(knob) = Some(why);
    }
}
