// SPDX-License-Identifier: GPL-2.0-only
//! Calls that block for round trips, each session's in a thread of its own.
//!
//! A question for the page waits for the data asked for before, and a write to `max_sectors_kb` for all that is in
//! flight; neither may hold up the other sessions. A session has its thread only while it has such calls to make: from
//! the first job until [`Crew::dismiss`].

use crate::host::{AskError, Disk, DiskId, Host, Knob};
use crate::restore;
use nix::sys::eventfd::EventFd;
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Sysfs paths, one page and a sense buffer; all of it locked in memory.
const STACK_BYTES: usize = 128 << 10;

pub enum Job {
    Ask(Disk),
    SetMaxSectors { disk: Disk, kb: u32 },
}

pub enum Done {
    Asked(Result<Vec<u8>, AskError>),
    /// The value read back.
    SetMaxSectors(DiskId, io::Result<u32>),
}

impl Job {
    pub fn run(self, host: &dyn Host) -> Done {
        match self {
            Self::Ask(disk) => Done::Asked(host.ask(&disk)),
            Self::SetMaxSectors { disk, kb } => {
                let result = restore::set(host, &disk, Knob::MaxSectorsKb, kb);
                Done::SetMaxSectors(disk.id, result)
            }
        }
    }

    fn failed(self, error: io::Error) -> Done {
        match self {
            Self::Ask(_) => Done::Asked(Err(error.into())),
            Self::SetMaxSectors { disk, .. } => Done::SetMaxSectors(disk.id, Err(error)),
        }
    }
}

pub trait Crew {
    /// Runs the jobs of a session one after the other; the results come back to `Tuner::done`.
    fn submit(&mut self, sid: u32, job: Job);
    /// The session needs its thread no more; jobs submitted before are still done.
    fn dismiss(&mut self, sid: u32);
    /// From the return on no setting is changed any more, also by jobs submitted before.
    fn stop(&mut self);
}

pub struct Threads {
    host: Arc<dyn Host>,
    jobs: HashMap<u32, Sender<Job>>,
    done: Sender<(u32, Done)>,
    wake: Arc<EventFd>,
    stopped: Arc<Mutex<bool>>,
}

impl Threads {
    /// Results arrive at the returned receiver; `wake` becomes readable with each.
    pub fn new(host: Arc<dyn Host>, wake: Arc<EventFd>) -> (Self, Receiver<(u32, Done)>) {
        let (done, results) = channel();
        (
            Self {
                host,
                jobs: HashMap::new(),
                done,
                wake,
                stopped: Arc::default(),
            },
            results,
        )
    }

    fn spawn(&self, sid: u32) -> io::Result<Sender<Job>> {
        let (sender, jobs) = channel::<Job>();
        let (host, done, wake, stopped) = (
            Arc::clone(&self.host),
            self.done.clone(),
            Arc::clone(&self.wake),
            Arc::clone(&self.stopped),
        );
        thread::Builder::new()
            .name(format!("session{sid}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                for job in jobs {
                    let result = match job {
                        Job::SetMaxSectors { .. } => {
                            // Held while writing, so that stop() waits for a write that has begun.
                            let stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
                            if *stopped {
                                job.failed(io::ErrorKind::Interrupted.into())
                            } else {
                                job.run(&*host)
                            }
                        }
                        Job::Ask(_) => job.run(&*host),
                    };
                    // Nobody listens only when the daemon is ending.
                    if done.send((sid, result)).is_err() || wake.write(1).is_err() {
                        return;
                    }
                }
            })?;
        Ok(sender)
    }
}

impl Crew for Threads {
    fn submit(&mut self, sid: u32, job: Job) {
        if !self.jobs.contains_key(&sid) {
            match self.spawn(sid) {
                Ok(sender) => {
                    self.jobs.insert(sid, sender);
                }
                Err(error) => {
                    let _ = self.done.send((sid, job.failed(error)));
                    let _ = self.wake.write(1);
                    return;
                }
            }
        }
        if let Some(sender) = self.jobs.get(&sid) {
            // The thread lives as long as its sender.
            let _ = sender.send(job);
        }
    }

    fn dismiss(&mut self, sid: u32) {
        self.jobs.remove(&sid);
    }

    fn stop(&mut self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
