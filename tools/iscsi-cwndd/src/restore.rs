// SPDX-License-Identifier: GPL-2.0-only
//! Puts the originals back: at exit, at the start after a crash, and by `iscsi-cwndd restore`.

use crate::host::{Disk, DiskId, Host, Knob, Knobs, Session};
use crate::store::{Error, Store};
use std::io;

/// Writes a setting and reads it back. The kernel may raise the read-ahead when it applies a new `max_sectors_kb`; that
/// is undone, whoever's value it was.
pub fn set(host: &dyn Host, disk: &Disk, knob: Knob, value: u32) -> io::Result<u32> {
    if knob == Knob::MaxSectorsKb {
        let read_ahead_kb = host.get(disk, Knob::ReadAheadKb)?;
        host.set(disk, knob, value)?;
        if host.get(disk, Knob::ReadAheadKb)? != read_ahead_kb {
            host.set(disk, Knob::ReadAheadKb, read_ahead_kb)?;
        }
    } else {
        host.set(disk, knob, value)?;
    }
    host.get(disk, knob)
}

/// What came of putting originals back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Settings put back.
    pub count: u32,
    /// Disks that still lack some of theirs.
    pub failed: Vec<String>,
    /// Disks with their own read-ahead again, which their open files do not have yet.
    pub stale: Vec<Disk>,
}

/// Gives every disk with saved originals these back, except where someone else has changed a setting meanwhile. Disks
/// that are gone are forgotten.
pub fn restore_all(host: &dyn Host, store: &mut Store) -> Result<Restored, Error> {
    let sessions = host.sessions();
    advertise_freely(host, store, &sessions);
    let mut disks: Vec<Disk> = sessions.into_iter().flat_map(|session| session.disks).collect();
    // Whatever they are above by now.
    disks.extend(host.stacked_devices().into_iter().map(|stacked| stacked.disk));
    let mut restored = Restored::default();
    for id in store.disks().iter().filter(|&id| !disks.iter().any(|disk| disk.id == *id)) {
        store.forget(id)?;
    }
    // The disks first: a device above may have more again once they take it.
    for disk in &disks {
        restore(host, store, disk, &mut restored)?;
    }
    if let Err(error) = host.renew_read_ahead(&restored.stale) {
        log::info!("files that are open keep their read-ahead: {error}");
    }
    Ok(restored)
}

/// Has the connections of disks that the store knows advertise what TCP sees fit: a bound that nobody moves is for a path that
/// may be another one by then.
pub fn advertise_freely(host: &dyn Host, store: &Store, sessions: &[Session]) {
    let tuned = |session: &&Session| session.disks.iter().any(|disk| store.original(&disk.id).is_some());
    for session in sessions.iter().filter(tuned) {
        let socket = session.ends.map(|ends| host.tcp_socket(ends));
        if let Some(Err(error)) = socket.map(|socket| host.advertise(socket?.inode, None)) {
            log::debug!("session {}: what it advertises: {error}", session.sid);
        }
    }
}

/// Puts one disk's originals back, and forgets them unless that failed: the next restore tries again.
pub fn restore(host: &dyn Host, store: &mut Store, disk: &Disk, restored: &mut Restored) -> Result<(), Error> {
    let (id, name) = (&disk.id, &disk.name);
    let Some(original) = store.original(id) else { return Ok(()) };
    let Ok(found) = Knobs::try_new(|knob| host.get(disk, knob)) else {
        log::warn!("{name}: settings cannot be read, not restored");
        restored.failed.push(name.clone());
        return Ok(());
    };
    let mut failed = false;
    for knob in Knob::ALL {
        let (found, original, knob_name) = (*found.get(knob), *original.get(knob), knob.name());
        if found == original {
            continue;
        }
        if !store.is_ours(id, knob, found) {
            log::info!("{name}: {knob_name} {found} is someone else's, left alone");
            continue;
        }
        if knob == Knob::MaxSectorsKb && !host.takes(disk, original) {
            log::warn!(
                "{name}: {knob_name} stays {found}: a multipath device is in use, or makes larger requests; `iscsi-cwndd \
                 restore` puts it back once it can"
            );
            failed = true;
            continue;
        }
        match set(host, disk, knob, original) {
            Ok(now) => {
                log::info!("{name}: {knob_name} {found} -> {now}: put back");
                restored.count += 1;
                if knob == Knob::ReadAheadKb {
                    restored.stale.push(disk.clone());
                }
            }
            Err(error) => {
                log::warn!("{name}: {knob_name} {found} -> {original} failed: {error}");
                failed = true;
            }
        }
    }
    if failed {
        restored.failed.push(name.clone());
        return Ok(());
    }
    store.forget(id)
}

/// The disk's settings as found, and which of them, after an earlier run that kept them, are not that run's.
pub fn adopt(store: &Store, id: &DiskId, found: &Knobs<u32>) -> (Knobs<u32>, Vec<Knob>) {
    match store.original(id) {
        Some(original) => {
            let foreign = |knob: &Knob| {
                let value = *found.get(*knob);
                value != *original.get(*knob) && !store.is_ours(id, *knob, value)
            };
            (*original, Knob::ALL.into_iter().filter(foreign).collect())
        }
        None => (*found, Vec::new()),
    }
}
