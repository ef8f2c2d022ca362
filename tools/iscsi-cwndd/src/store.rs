// SPDX-License-Identifier: GPL-2.0-only
//! What the disks' settings were before the daemon, and what it wrote since.
//!
//! `originals.json` in the state folder is on disk before the first change is made. `written/` in the runtime folder
//! (memory) has a file for each disk, so that a change costs the same however many there are. It names, for each setting,
//! the value last written and the one about to be written, so that after a crash the daemon's own doing can be told from
//! the administrator's. Neither outlives a boot: sysfs does not either.

use crate::host::{DiskId, Knob, Knobs};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: not readable as saved settings ({reason}); remove it to go on without", path.display())]
    Content { path: PathBuf, reason: String },
    #[error("iscsi-cwndd is running already (it holds {})", .0.display())]
    Running(PathBuf),
}

#[derive(Serialize, Deserialize)]
struct Saved<T> {
    version: u32,
    boot_id: String,
    /// The daemon ended with `on_exit = "keep"`: the settings in force are meant.
    #[serde(default)]
    kept: bool,
    disks: Vec<(DiskId, T)>,
}

/// The value in force and the one about to be; nothing where a setting is left alone.
pub type Ours = Knobs<Option<[u32; 2]>>;

pub struct Store {
    originals_file: PathBuf,
    written_dir: PathBuf,
    originals: Saved<Knobs<u32>>,
    written: HashMap<DiskId, Ours>,
    _lock: Flock<File>,
}

impl Store {
    /// Loads what an earlier run left in this boot; one store at a time, whoever holds the lock.
    pub fn open(state_dir: &Path, runtime_dir: &Path, boot_id: &str) -> Result<Self, Error> {
        let written_dir = runtime_dir.join("written");
        for dir in [state_dir, &written_dir] {
            fs::create_dir_all(dir).map_err(|source| io_error(dir, source))?;
        }
        let lock_file = state_dir.join("lock");
        let file = File::create(&lock_file).map_err(|source| io_error(&lock_file, source))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| Error::Running(lock_file))?;
        let originals_file = state_dir.join("originals.json");
        let mut written = HashMap::new();
        for entry in fs::read_dir(&written_dir).map_err(|source| io_error(&written_dir, source))?.flatten() {
            // What was being written in a crash has a name that begins with a dot.
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                written.extend(load(&entry.path(), boot_id)?.disks);
            }
        }
        Ok(Self { originals: load(&originals_file, boot_id)?, written, originals_file, written_dir, _lock: lock })
    }

    /// The disks with saved originals.
    pub fn disks(&self) -> Vec<DiskId> {
        self.originals.disks.iter().map(|(id, _)| id.clone()).collect()
    }

    pub fn original(&self, id: &DiskId) -> Option<&Knobs<u32>> {
        find(&self.originals, id)
    }

    /// Whether a value found in a setting may be the daemon's own; so it is where nothing is known.
    pub fn is_ours(&self, id: &DiskId, knob: Knob, value: u32) -> bool {
        self.written.get(id).is_none_or(|ours| ours.get(knob).is_some_and(|values| values.contains(&value)))
    }

    pub fn kept(&self) -> bool {
        self.originals.kept
    }

    /// Returns when the originals are on disk.
    pub fn save_original(&mut self, id: &DiskId, original: Knobs<u32>) -> Result<(), Error> {
        if self.original(id).is_none() {
            self.originals.disks.push((id.clone(), original));
            self.save_originals()?;
        }
        Ok(())
    }

    /// To be called before a value is written.
    pub fn note(&mut self, id: &DiskId, ours: Ours) -> Result<(), Error> {
        // A depth that goes to and fro is noted once.
        let sorted = |pair: [u32; 2]| [pair[0].min(pair[1]), pair[0].max(pair[1])];
        let ours = Knobs::try_new(|knob| Ok::<_, Error>(ours.get(knob).map(sorted)))?;
        if self.written.get(id) == Some(&ours) {
            return Ok(());
        }
        self.written.insert(id.clone(), ours);
        let boot_id = self.originals.boot_id.clone();
        let saved = Saved { version: VERSION, boot_id, kept: false, disks: vec![(id.clone(), ours)] };
        save(&self.written_file(id), &saved, false)
    }

    pub fn set_kept(&mut self, kept: bool) -> Result<(), Error> {
        self.originals.kept = kept;
        self.save_originals()
    }

    /// A disk that is gone, or has its originals back.
    pub fn forget(&mut self, id: &DiskId) -> Result<(), Error> {
        if self.original(id).is_none() {
            return Ok(());
        }
        self.originals.disks.retain(|(known, _)| known != id);
        self.save_originals()?;
        self.written.remove(id);
        let path = self.written_file(id);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(io_error(&path, source)),
            _ => Ok(()),
        }
    }

    /// Named after the last part of the disk's place in sysfs, which no other disk has: `2:0:0:1`.
    fn written_file(&self, id: &DiskId) -> PathBuf {
        self.written_dir.join(id.device.file_name().unwrap_or_default())
    }

    fn save_originals(&self) -> Result<(), Error> {
        save(&self.originals_file, &self.originals, true)
    }
}

pub fn boot_id() -> Result<String, Error> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    Ok(fs::read_to_string(path).map_err(|source| io_error(path, source))?.trim().to_owned())
}

fn find<'a, T>(saved: &'a Saved<T>, id: &DiskId) -> Option<&'a T> {
    saved.disks.iter().find_map(|(known, value)| (known == id).then_some(value))
}

fn load<T: DeserializeOwned>(path: &Path, boot_id: &str) -> Result<Saved<T>, Error> {
    let nothing = Saved { version: VERSION, boot_id: boot_id.to_owned(), kept: false, disks: Vec::new() };
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(nothing),
        Err(source) => return Err(io_error(path, source)),
    };
    let content = |reason: String| Error::Content { path: path.to_owned(), reason };
    let saved: Saved<T> = serde_json::from_slice(&text).map_err(|error| content(error.to_string()))?;
    if saved.version != VERSION {
        return Err(content(format!("version {}, not {VERSION}", saved.version)));
    }
    Ok(if saved.boot_id == boot_id { saved } else { nothing })
}

/// Replaces a file at once, so that a crash leaves the old one or the new one.
fn save<T: Serialize>(path: &Path, saved: &Saved<T>, durable: bool) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&serde_json::to_vec(saved)?)?;
        if durable {
            file.as_file().sync_all()?;
        }
        file.persist(path)?;
        if durable {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    };
    write().map_err(|source| io_error(path, source))
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}
