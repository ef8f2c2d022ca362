// SPDX-License-Identifier: GPL-2.0-only
//! One disk under control: what is set, what may be set, and whether it reads.

use crate::crew::Job;
use crate::host::{Disk, Host, Knob, Knobs, Reads};
use crate::restore;
use crate::store::Store;
use crate::throttle::Throttle;
use cwnd_control::DiskState;
use std::io;

/// The smallest `max_sectors_kb` the block layer takes: a page.
const MIN_SECTORS_KB: u32 = 4;

pub struct TunedDisk {
    pub disk: Disk,
    pub original: Knobs<u32>,
    /// As last written by us or, before that, found.
    pub in_force: Knobs<u32>,
    /// Why a setting is no longer ours to change.
    pub left_alone: Knobs<Option<String>>,
    /// A write to `max_sectors_kb` is under way; the other settings wait for it.
    pub freezing: bool,
    reads: Option<Reads>,
    /// When a read was last seen in flight or completed.
    read_seen_us: Option<u64>,
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
            freezing: false,
            reads: None,
            read_seen_us: None,
        };
        for knob in foreign {
            tuned.leave_alone(knob, "changed by someone else while the daemon was not running".into());
        }
        Ok(tuned)
    }

    /// Looks at the statistics; true if the disk has read since the last look, or is waiting for a read.
    pub fn look(&mut self, host: &dyn Host, now_us: u64) -> bool {
        let Ok(reads) = host.reads(&self.disk) else {
            return false;
        };
        let before = self.reads.replace(reads);
        let reading = reads.in_flight > 0 || before.is_some_and(|before| before.ios != reads.ios);
        if reading {
            self.read_seen_us = Some(now_us);
        }
        reading
    }

    pub fn reading(&self, now_us: u64, idle_after_us: u64) -> bool {
        self.read_seen_us
            .is_some_and(|seen_us| now_us.saturating_sub(seen_us) <= idle_after_us)
    }

    pub fn state(&self, reading: bool) -> DiskState {
        let Reads { ios, bytes, in_flight } = self.reads.unwrap_or_default();
        DiskState {
            read_bytes: bytes,
            read_ios: ios,
            in_flight,
            reading,
            max_request_bytes: self.disk.max_request_bytes,
            max_depth: self.disk.max_depth,
        }
    }

    /// The settings a strategy's answer means for this disk; zero means to leave a setting as it is.
    pub fn wanted(&self, request_bytes: u32, read_ahead_bytes: u64, depth: u32) -> Knobs<Option<u32>> {
        let max_sectors_kb = (self.disk.max_request_bytes / 1024).max(MIN_SECTORS_KB);
        let nonzero = |value: u32| (value > 0).then_some(value);
        Knobs {
            max_sectors_kb: nonzero(request_bytes).map(|bytes| (bytes / 1024).clamp(MIN_SECTORS_KB, max_sectors_kb)),
            read_ahead_kb: nonzero(u32::try_from(read_ahead_bytes / 1024).unwrap_or(u32::MAX)),
            queue_depth: nonzero(depth).map(|depth| depth.clamp(1, self.disk.max_depth.max(1))),
        }
    }

    /// Makes the changes that are needed, or returns the one that has to be made by the session's thread first: then
    /// the others are for [`Self::frozen`] and another call.
    pub fn apply(
        &mut self,
        host: &dyn Host,
        store: &mut Store,
        wanted: &Knobs<Option<u32>>,
        reason: &str,
        log: &mut Throttle,
    ) -> Option<Job> {
        if self.freezing {
            return None;
        }
        let mut changes: Vec<(Knob, u32)> = Vec::new();
        for knob in Knob::ALL {
            let Some(wanted) = *wanted.get(knob) else { continue };
            let in_force = *self.in_force.get(knob);
            if wanted == in_force || self.left_alone.get(knob).is_some() {
                continue;
            }
            match host.get(&self.disk, knob) {
                Ok(found) if found == in_force => changes.push((knob, wanted)),
                Ok(found) => self.surrender(knob, found),
                Err(error) => self.leave_alone(knob, format!("cannot be read: {error}")),
            }
        }
        if changes.is_empty() {
            return None;
        }
        let id = &self.disk.id;
        if let Err(error) = store
            .save_original(id, self.original)
            .and_then(|()| store.intend(id, &self.in_force, &changes))
        {
            for (knob, _) in changes {
                self.leave_alone(knob, format!("original cannot be saved: {error}"));
            }
            return None;
        }
        if let [(Knob::MaxSectorsKb, kb), ..] = changes[..] {
            self.freezing = true;
            self.log_change(Knob::MaxSectorsKb, kb, reason, log);
            return Some(Job::SetMaxSectors {
                disk: self.disk.clone(),
                kb,
            });
        }
        for (knob, value) in changes {
            self.log_change(knob, value, reason, log);
            let result = restore::set(host, &self.disk, knob, value);
            self.was_set(knob, result);
        }
        None
    }

    /// The thread's write to `max_sectors_kb` is over.
    pub fn frozen(&mut self, result: io::Result<u32>) {
        self.freezing = false;
        self.was_set(Knob::MaxSectorsKb, result);
    }

    /// Gives the disk its originals back, where they are still ours to give.
    pub fn put_back(&mut self, host: &dyn Host, store: &mut Store) {
        restore::restore(host, store, &self.disk);
        if let Err(error) = store.forget(&self.disk.id) {
            log::warn!("{error}");
        }
        if let Ok(found) = Knobs::try_new(|knob| host.get(&self.disk, knob)) {
            self.in_force = found;
        }
    }

    /// Looks whether someone else has changed a setting that we have been changing.
    pub fn audit(&mut self, host: &dyn Host, store: &Store) {
        if self.freezing || store.original(&self.disk.id).is_none() {
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

    fn was_set(&mut self, knob: Knob, result: io::Result<u32>) {
        match result {
            Ok(value) => *self.in_force.get_mut(knob) = value,
            Err(error) => self.leave_alone(knob, format!("cannot be set: {error}")),
        }
    }

    fn log_change(&self, knob: Knob, value: u32, reason: &str, log: &mut Throttle) {
        let from = self.in_force.get(knob);
        log.info(format_args!(
            "{}: {} {from} -> {value}: {reason}",
            self.disk.name,
            knob.name()
        ));
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
