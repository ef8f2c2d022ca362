// SPDX-License-Identifier: GPL-2.0-only
//! All sessions under control: finds them, gives each its turn, and leaves the machine as it was.
//!
//! It has no clock and does no waiting: the caller says the time and hands in results (`daemon.rs`), so that the tests
//! run it on a simulated host.

use crate::config::{Config, OnExit};
use crate::crew::{Crew, Done, FILES, Job, STACKED};
use crate::disk::TunedDisk;
use crate::host::{Begun, DiskId, Host, Knob, Knobs, Session};
use crate::record::Recorder;
use crate::restore;
use crate::session::{Pace, TunedSession, World};
use crate::store::{Error, Store};
use crate::throttle::Throttle;
use cwnd_control::Strategy;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// From a uevent to the look at sysfs: the rest of a login's uevents come meanwhile.
const SETTLE_US: u64 = 20_000;
/// Least time between two looks at sysfs, for each disk found: it is some dozens of small files. Uevents come at once.
const RESCAN_US: u64 = 100_000;
/// How often sessions are told of each other.
const SHARE_US: u64 = 100_000;
/// Least time between two looks at all open files of the machine; and in the long run, in multiples of how long one
/// takes, but for some that come as early as a start wants them.
const RENEW_US: u64 = 10_000;
const RENEW_TIMES: u64 = 500;
const FREE_RENEWALS: u64 = 10;
/// The part of available memory that read-ahead may take: all disks reading, an eighth.
const READ_AHEAD_SHARE: u64 = 8;

/// A device stacked on disks: it is read with a read-ahead of its own, and may make the disks' requests.
pub struct Stacked {
    pub device: TunedDisk,
    /// The sessions' disks below it.
    below: Vec<DiskId>,
    makes_requests: bool,
}

pub struct Tuner {
    pub sessions: Vec<TunedSession>,
    pub stacked: Vec<Stacked>,
    pub config: Config,
    host: Arc<dyn Host>,
    crew: Box<dyn Crew>,
    store: Store,
    log: Throttle,
    recorder: Recorder,
    rescan_due_us: u64,
    renew_due_us: u64,
    /// When the next one would be due had all been that far apart.
    renew_paced_us: u64,
    /// Since when that has been being done.
    renewing_us: Option<u64>,
    share_due_us: u64,
    pace: Pace,
    max_read_ahead_bytes: u64,
    /// The kernel tells of the first read or write.
    pub watched: bool,
}

/// A session of the list with what else a turn of it needs.
macro_rules! world {
    ($tuner:ident) => {
        World {
            host: &*$tuner.host,
            crew: &mut *$tuner.crew,
            store: &mut $tuner.store,
            log: &mut $tuner.log,
            recorder: &mut $tuner.recorder,
            config: &$tuner.config,
            pace: $tuner.pace,
            idle_us: if $tuner.watched { $tuner.config.rescan_us() } else { $tuner.config.idle_interval_us() },
            max_read_ahead_bytes: $tuner.max_read_ahead_bytes,
        }
    };
}

impl Tuner {
    /// Starts from a clean machine: what a crashed run left is put back first.
    pub fn new(
        host: Arc<dyn Host>,
        crew: Box<dyn Crew>,
        mut store: Store,
        recorder: Recorder,
        config: Config,
    ) -> Result<Self, Error> {
        if store.kept() {
            store.set_kept(false)?;
        } else if restore::restore_all(&*host, &mut store)?.count > 0 {
            log::warn!("the last run did not end by itself; its settings were put back");
        }
        let log = Throttle::new(config.log_lines_per_minute);
        Ok(Self {
            sessions: Vec::new(),
            stacked: Vec::new(),
            config,
            host,
            crew,
            store,
            log,
            recorder,
            rescan_due_us: 0,
            renew_due_us: 0,
            renew_paced_us: 0,
            renewing_us: None,
            share_due_us: 0,
            pace: Pace::default(),
            max_read_ahead_bytes: u64::MAX,
            watched: false,
        })
    }

    /// Does what is due and returns the time at which something is due next.
    pub fn step(&mut self, now_us: u64) -> u64 {
        self.log.at(now_us);
        if now_us >= self.rescan_due_us {
            let disks = self.rescan(now_us);
            self.rescan_due_us = now_us + self.config.rescan_us().max(RESCAN_US * disks);
        }
        if now_us >= self.share_due_us {
            self.share();
            self.share_due_us = now_us + SHARE_US;
        }
        self.pace = Pace::new(&self.sessions);
        let mut due_us = self.rescan_due_us;
        for session in &mut self.sessions {
            due_us = due_us.min(session.step(&mut world!(self), now_us));
        }
        due_us.min(self.renew_read_ahead(now_us))
    }

    /// Tells the sessions that read from one address of each other: they share its path.
    fn share(&mut self) {
        let address =
            |session: &TunedSession| session.info.ends.filter(|_| session.active).map(|ends| ends.remote.ip());
        let mut rates: HashMap<IpAddr, Vec<u64>> = HashMap::new();
        for session in &self.sessions {
            if let (Some(address), Some(rate)) = (address(session), session.output.as_ref().and_then(|out| out.rate)) {
                rates.entry(address).or_default().push(rate);
            }
        }
        for session in &mut self.sessions {
            let rates = address(session).and_then(|address| rates.get(&address)).filter(|rates| rates.len() > 1);
            session.share = rates.map(|rates| rates.iter().sum::<u64>() / rates.len() as u64);
        }
    }

    /// Has open files, and devices above, follow their disks' read-ahead. Returns when that may be done next.
    fn renew_read_ahead(&mut self, now_us: u64) -> u64 {
        let disks = self.sessions.iter().flat_map(|session| &session.disks);
        let mut disks = disks.chain(self.stacked.iter().map(|stacked| &stacked.device));
        if self.renewing_us.is_some() || !disks.any(|disk| disk.stale_files) {
            return u64::MAX;
        }
        if now_us < self.renew_due_us {
            return self.renew_due_us;
        }
        self.follow_disks_below(now_us);
        let disks = self.sessions.iter_mut().flat_map(|session| &mut session.disks);
        let devices = self.stacked.iter_mut().map(|stacked| &mut stacked.device);
        let stale =
            disks.chain(devices).filter_map(|disk| std::mem::take(&mut disk.stale_files).then(|| disk.disk.clone()));
        let disks = stale.collect::<Vec<_>>();
        if !disks.is_empty() {
            self.renewing_us = Some(now_us);
            self.crew.submit(FILES, Job::RenewReadAhead(disks));
        }
        u64::MAX
    }

    /// A device above has the read-ahead of all the disks below it that are read, or of all while none is; it may have had
    /// more for others. If it makes their requests, they are of the largest size wanted that all of them take, as a smaller one
    /// costs the path that wants more. A change would wait for what is in flight, which with no path left waits for multipathd,
    /// which may wait for the change: [`Host::takes`].
    fn follow_disks_below(&mut self, now_us: u64) {
        let idle_after_us = self.config.idle_after_us();
        let most_kb = u32::try_from(self.config.limits().max_read_ahead_bytes / 1024).unwrap_or(u32::MAX);
        for Stacked { device, below, makes_requests } in &mut self.stacked {
            let disks = self.sessions.iter().flat_map(|session| session.disks.iter().map(move |disk| (session, disk)));
            let disks: Vec<_> = disks.filter(|(_, disk)| below.contains(&disk.disk.id)).collect();
            let none_reads = !disks.iter().any(|(_, disk)| disk.reading(now_us, idle_after_us));
            let read = disks.iter().filter(|(_, disk)| none_reads || disk.reading(now_us, idle_after_us));
            let sum_kb = read.filter_map(|(_, disk)| disk.tuned_read_ahead_kb()).fold(0, u32::saturating_add);
            let own = &device.original;
            let request_kb = disks.iter().filter_map(|(session, _)| session.request_kb(own.max_sectors_kb)).max();
            let most_request_kb = disks.iter().map(|(_, disk)| disk.own_request_kb()).min();
            let request_kb = request_kb.min(most_request_kb).map(|kb| kb.min(own.max_sectors_kb));
            let wanted = Knobs {
                max_sectors_kb: request_kb.filter(|_| *makes_requests),
                read_ahead_kb: Some(sum_kb.min(most_kb).max(own.read_ahead_kb)),
                queue_depth: None,
            };
            let job = device.apply(&*self.host, &mut self.store, &wanted, true, "the disks below", &mut self.log);
            if let Some(job) = job {
                self.crew.submit(STACKED, job);
            }
        }
        for session in &mut self.sessions {
            let mut came = false;
            for disk in &mut session.disks {
                let above =
                    self.stacked.iter().filter(|above| above.makes_requests && above.below.contains(&disk.disk.id));
                let above_kb = above.map(|above| above.device.in_force.max_sectors_kb).min();
                came |= std::mem::replace(&mut disk.above_kb, above_kb).is_none() && above_kb.is_some();
            }
            if came {
                session.settle();
            }
        }
    }

    pub fn done(&mut self, now_us: u64, sid: u32, done: Done) {
        if let Done::RenewedReadAhead(result) = done {
            if let Err(error) = result {
                self.log.info(format_args!("files that are open keep their read-ahead: {error}"));
            }
            let took_us = self.renewing_us.take().map_or(0, |since_us| now_us - since_us);
            self.renew_paced_us = self.renew_paced_us.max(now_us) + RENEW_TIMES * took_us;
            let free_us = self.renew_paced_us.saturating_sub(FREE_RENEWALS * RENEW_TIMES * took_us);
            self.renew_due_us = free_us.max(now_us + RENEW_US);
            self.crew.dismiss(FILES);
            return;
        }
        if sid == STACKED {
            self.stacked_done(now_us, done);
        } else if let Some(session) = self.sessions.iter_mut().find(|session| session.info.sid == sid) {
            session.done(&mut world!(self), now_us, done);
        }
    }

    fn stacked_done(&mut self, now_us: u64, done: Done) {
        let Done::SetMaxSectors { id, kb, read_back } = done else { return };
        if let Some(above) = self.stacked.iter_mut().find(|above| above.device.disk.id == id) {
            above.device.frozen(&mut self.store, kb, read_back);
        }
        self.crew.dismiss(STACKED);
        self.follow_disks_below(now_us);
    }

    /// The SCSI hosts whose first reads and writes the kernel is to tell of; none while any session is beyond those, since
    /// it would go on to tell of that one's.
    pub fn hosts_to_watch(&self) -> Option<Vec<u32>> {
        if self.sessions.iter().any(|session| session.busy() && !session.begins) {
            return None;
        }
        let hosts = self.sessions.iter().filter_map(TunedSession::host_to_watch).collect::<Vec<_>>();
        (!hosts.is_empty()).then_some(hosts)
    }

    /// The kernel told of a read or write, and of these reads so far.
    pub fn use_began(&mut self, begun: &[Begun]) {
        self.sessions.iter_mut().for_each(|session| session.use_began(begun));
    }

    /// Something has changed in sysfs.
    pub fn rescan_soon(&mut self, now_us: u64) {
        self.rescan_due_us = self.rescan_due_us.min(now_us + SETTLE_US);
    }

    /// Puts the originals back, or keeps the settings if so configured.
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.crew.stop();
        match self.config.on_exit {
            OnExit::Keep => {
                restore::advertise_freely(&*self.host, &self.store, &self.host.sessions());
                self.store.set_kept(true)
            }
            OnExit::Restore => restore::restore_all(&*self.host, &mut self.store).map(|_| ()),
        }
    }

    /// Returns how many disks and devices above them there are.
    fn rescan(&mut self, now_us: u64) -> u64 {
        let found = self.host.sessions();
        self.sessions.retain(|session| {
            let stays = found.iter().any(|info| info.sid == session.info.sid);
            if !stays {
                log::info!("session {}: gone", session.info.sid);
                self.crew.dismiss(session.info.sid);
                forget(&mut self.store, &session.disks);
            }
            stays
        });
        for info in found {
            match self.sessions.iter().position(|session| session.info.sid == info.sid) {
                Some(index) => self.update(index, info),
                None => self.add(info),
            }
        }
        self.find_stacked(now_us);
        let disks = self.sessions.iter().map(|session| session.disks.len() as u64).sum::<u64>();
        // A power of two, so that it does not follow every breath of the page cache.
        let share_bytes = self.host.available_bytes() / READ_AHEAD_SHARE / disks.max(1);
        self.max_read_ahead_bytes = 1 << share_bytes.max(1).ilog2();
        disks + self.stacked.len() as u64
    }

    fn find_stacked(&mut self, now_us: u64) {
        let mut before = std::mem::take(&mut self.stacked);
        for found in self.host.stacked_devices() {
            let disks = self.sessions.iter().flat_map(|session| &session.disks).map(|disk| &disk.disk);
            let below: Vec<DiskId> = disks.filter(|disk| found.is_above(disk)).map(|disk| disk.id.clone()).collect();
            let known = before.iter().position(|stacked| stacked.device.disk == found.disk);
            let known = known.map(|known| before.swap_remove(known).device);
            let makes_requests = found.makes_requests;
            if below.is_empty() && known.as_ref().is_none_or(|device| device.freezing.is_none()) {
                if let Some(mut device) = known {
                    device.put_back(&*self.host, &mut self.store);
                }
                continue;
            }
            // A table that is loaded anew, as when a path fails, resets it.
            let reset = |device: &TunedDisk| {
                let now = |knob| self.host.get(&found.disk, knob).ok();
                let back = |&knob: &Knob| {
                    device.in_force.get(knob) != device.original.get(knob)
                        && now(knob) == Some(*device.original.get(knob))
                };
                device.freezing.is_none() && Knob::ALL.iter().any(back)
            };
            let device = match known.filter(|device| !reset(device)) {
                Some(mut device) => {
                    device.audit(&*self.host, &self.store);
                    Ok(device)
                }
                None => TunedDisk::new(&*self.host, &self.store, found.disk),
            };
            self.stacked.extend(device.map(|device| Stacked { device, below, makes_requests }));
        }
        forget(&mut self.store, before.iter().map(|stacked| &stacked.device));
        self.follow_disks_below(now_us);
    }

    fn add(&mut self, info: Session) {
        let Some(strategy) = self.strategy() else { return };
        log::info!("session {}: {} at {}", info.sid, info.target_iqn, info.portal);
        let disks = self.tuned_disks(&info, Vec::new());
        self.sessions.push(TunedSession::new(info, disks, strategy));
    }

    fn update(&mut self, index: usize, info: Session) {
        let Some(strategy) = self.strategy() else { return };
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        for disk in &mut session.disks {
            disk.audit(&*self.host, &self.store);
        }
        if session.info == info {
            return;
        }
        if info.logged_in && (info.login != session.info.login || !session.info.logged_in) {
            session.logged_in_again(info.clone(), strategy);
        } else if info.disks.iter().map(|disk| &disk.id).eq(session.info.disks.iter().map(|disk| &disk.id)) {
            session.set_info(info);
            return;
        }
        let Some(strategy) = self.strategy() else { return };
        let before = self.sessions.get_mut(index).map(|session| std::mem::take(&mut session.disks));
        let disks = self.tuned_disks(&info, before.unwrap_or_default());
        if let Some(session) = self.sessions.get_mut(index) {
            session.set_disks(info, disks, strategy);
        }
    }

    /// The session's disks as they are now, each as it was if it was there before.
    fn tuned_disks(&mut self, info: &Session, mut before: Vec<TunedDisk>) -> Vec<TunedDisk> {
        let mut disks = Vec::new();
        for disk in &info.disks {
            if let Some(known) = before.iter().position(|known| known.disk.id == disk.id) {
                let mut known = before.swap_remove(known);
                known.disk = disk.clone();
                disks.push(known);
                continue;
            }
            match TunedDisk::new(&*self.host, &self.store, disk.clone()) {
                Ok(disk) => disks.push(disk),
                Err(error) => log::debug!("{}: settings cannot be read: {error}", disk.name),
            }
        }
        forget(&mut self.store, &before);
        disks
    }

    fn strategy(&self) -> Option<Box<dyn Strategy>> {
        cwnd_control::strategy(self.config.strategy, self.config.limits())
    }
}

fn forget<'a>(store: &mut Store, disks: impl IntoIterator<Item = &'a TunedDisk>) {
    for disk in disks {
        if let Err(error) = store.forget(&disk.disk.id) {
            log::warn!("{error}");
        }
    }
}
