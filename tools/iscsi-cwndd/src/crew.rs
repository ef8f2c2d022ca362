// SPDX-License-Identifier: GPL-2.0-only
//! Calls that block for round trips, each session's in a thread of its own.
//!
//! A question for the page waits for the data asked for before, and a write to `max_sectors_kb` for all that is in
//! flight; neither may hold up the other sessions. A session has its thread only while it has such calls to make: from
//! the first job until [`Crew::dismiss`]. The look at all open files of the machine, which is for all sessions at once,
//! has one as well, [`FILES`], and so have the devices above the disks, [`STACKED`].

use crate::host::{AskError, Disk, DiskId, Host, Knob};
use crate::restore;
use nix::errno::Errno;
use nix::libc;
use nix::sys::eventfd::EventFd;
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Once, PoisonError, RwLock};
use std::thread;

/// Sysfs paths, one page and a sense buffer; all of it locked in memory.
const STACK_BYTES: usize = 128 << 10;

/// In the place of a session's number, which the kernel counts up from 1.
pub const FILES: u32 = u32::MAX;
pub const STACKED: u32 = u32::MAX - 1;

pub enum Job {
    Ask(Disk),
    SetMaxSectors { disk: Disk, kb: u32 },
    RenewReadAhead(Vec<Disk>),
}

pub enum Done {
    Asked(Result<Vec<u8>, AskError>),
    SetMaxSectors { id: DiskId, kb: u32, read_back: io::Result<u32> },
    RenewedReadAhead(io::Result<usize>),
}

impl Job {
    pub fn run(self, host: &dyn Host) -> Done {
        match self {
            Self::Ask(disk) => Done::Asked(host.ask(&disk)),
            Self::SetMaxSectors { disk, kb } => {
                let read_back = restore::set(host, &disk, Knob::MaxSectorsKb, kb);
                Done::SetMaxSectors { id: disk.id, kb, read_back }
            }
            Self::RenewReadAhead(disks) => Done::RenewedReadAhead(host.renew_read_ahead(&disks)),
        }
    }

    fn failed(self, error: io::Error) -> Done {
        match self {
            Self::Ask(_) => Done::Asked(Err(error.into())),
            Self::SetMaxSectors { disk, kb } => Done::SetMaxSectors { id: disk.id, kb, read_back: Err(error) },
            Self::RenewReadAhead(_) => Done::RenewedReadAhead(Err(error)),
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
    stopped: Arc<RwLock<bool>>,
}

impl Threads {
    /// Results arrive at the returned receiver; `wake` becomes readable with each.
    pub fn new(host: Arc<dyn Host>, wake: Arc<EventFd>) -> (Self, Receiver<(u32, Done)>) {
        let (done, results) = channel();
        (Self { host, jobs: HashMap::new(), done, wake, stopped: Arc::default() }, results)
    }

    fn spawn(&self, sid: u32) -> io::Result<Sender<Job>> {
        let (sender, jobs) = channel::<Job>();
        let (host, done, wake, stopped) =
            (Arc::clone(&self.host), self.done.clone(), Arc::clone(&self.wake), Arc::clone(&self.stopped));
        thread::Builder::new().name(format!("session{sid}")).stack_size(STACK_BYTES).spawn(move || {
            if sid < STACKED {
                go_first();
            }
            for job in jobs {
                let result = match job {
                    Job::SetMaxSectors { .. } | Job::RenewReadAhead(_) => {
                        // Held while writing, so that stop() waits for a write that has begun.
                        let stopped = stopped.read().unwrap_or_else(PoisonError::into_inner);
                        if *stopped { job.failed(io::ErrorKind::Interrupted.into()) } else { job.run(&*host) }
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

/// Has this thread run before the readers when a request of the disk's queue becomes free (`nr_requests`): with more reads
/// waiting than there are requests, a question may else wait until the last of them.
fn go_first() {
    static SAY: Once = Once::new();
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: it reads `priority`, which lives until it returns; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    if let Err(error) = Errno::result(result) {
        SAY.call_once(|| log::info!("questions may have to wait for reads: no real-time priority: {error}"));
    }
}

impl Crew for Threads {
    fn submit(&mut self, sid: u32, job: Job) {
        let thread = match self.jobs.remove(&sid) {
            Some(thread) => Ok(thread),
            None => self.spawn(sid),
        };
        match thread {
            Ok(thread) => {
                // It lives as long as its sender.
                let _ = thread.send(job);
                self.jobs.insert(sid, thread);
            }
            Err(error) => {
                let _ = self.done.send((sid, job.failed(error)));
                let _ = self.wake.write(1);
            }
        }
    }

    fn dismiss(&mut self, sid: u32) {
        self.jobs.remove(&sid);
    }

    fn stop(&mut self) {
        *self.stopped.write().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::sim::disk;
    use crate::host::{Ends, Reads, Session, StackedDevice, Statistics, TcpSocket, Trace};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Duration;

    /// The disk "stuck" does not answer, and "full" takes no setting, until the test lets it.
    #[derive(Default)]
    struct Stuck {
        release: Mutex<()>,
        sets: AtomicU32,
    }

    impl Host for Stuck {
        fn sessions(&self) -> Vec<Session> {
            Vec::new()
        }

        fn reads(&self, _: &Disk, _: &mut Statistics) -> io::Result<Reads> {
            Ok(Reads::default())
        }

        fn get(&self, _: &Disk, _: Knob) -> io::Result<u32> {
            Ok(7)
        }

        fn set(&self, disk: &Disk, _: Knob, _: u32) -> io::Result<()> {
            if disk.name == "full" {
                drop(self.release.lock());
            }
            self.sets.fetch_add(1, SeqCst);
            Ok(())
        }

        fn takes(&self, _: &Disk, _: u32) -> bool {
            unreachable!()
        }

        fn stacked_devices(&self) -> Vec<StackedDevice> {
            unreachable!()
        }

        fn run_queue(&self, _: &Disk) -> io::Result<()> {
            unreachable!()
        }

        fn renew_read_ahead(&self, _: &[Disk]) -> io::Result<usize> {
            unreachable!()
        }

        fn tcp_socket(&self, _: Ends) -> io::Result<TcpSocket> {
            unreachable!()
        }

        fn advertise(&self, _: u64, _: Option<u64>) -> io::Result<()> {
            unreachable!()
        }

        fn trace(&self) -> io::Result<Trace> {
            unreachable!()
        }

        fn available_bytes(&self) -> u64 {
            0
        }

        fn ask(&self, disk: &Disk) -> Result<Vec<u8>, AskError> {
            if disk.name == "stuck" {
                drop(self.release.lock());
            }
            Ok(disk.name.clone().into_bytes())
        }
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_stuck_session_holds_up_no_other_and_changes_nothing_after_the_end() {
        let host = Arc::new(Stuck::default());
        let (mut crew, results) = Threads::new(host.clone(), Arc::new(EventFd::new().unwrap()));
        let stuck = host.release.lock().unwrap();
        crew.submit(1, Job::Ask(disk(1, "stuck", 0)));
        crew.submit(1, Job::SetMaxSectors { disk: disk(1, "stuck", 0), kb: 7 });
        crew.submit(2, Job::Ask(disk(2, "sda", 0)));
        crew.submit(2, Job::SetMaxSectors { disk: disk(2, "sda", 0), kb: 7 });
        assert!(matches!(results.recv_timeout(PATIENCE), Ok((2, Done::Asked(Ok(_))))));
        assert!(matches!(results.recv_timeout(PATIENCE), Ok((2, Done::SetMaxSectors { read_back: Ok(7), .. }))));
        assert_eq!(host.sets.load(SeqCst), 1);
        crew.stop();
        drop(stuck);
        assert!(matches!(results.recv_timeout(PATIENCE), Ok((1, Done::Asked(Ok(_))))));
        assert!(matches!(results.recv_timeout(PATIENCE), Ok((1, Done::SetMaxSectors { read_back: Err(_), .. }))));
        assert_eq!(host.sets.load(SeqCst), 1);
    }

    #[test]
    fn a_write_that_waits_holds_up_no_other_session() {
        let host = Arc::new(Stuck::default());
        let (mut crew, results) = Threads::new(host.clone(), Arc::new(EventFd::new().unwrap()));
        let full = host.release.lock().unwrap();
        crew.submit(1, Job::SetMaxSectors { disk: disk(1, "full", 0), kb: 7 });
        thread::sleep(Duration::from_millis(20));
        crew.submit(2, Job::SetMaxSectors { disk: disk(2, "sda", 0), kb: 7 });
        assert!(matches!(results.recv_timeout(PATIENCE), Ok((2, Done::SetMaxSectors { .. }))));
        drop(full);
        assert!(matches!(results.recv_timeout(PATIENCE), Ok((1, Done::SetMaxSectors { .. }))));
    }

    #[test]
    fn a_dismissed_session_has_no_thread() {
        let host = Arc::new(Stuck::default());
        let (mut crew, results) = Threads::new(host.clone(), Arc::new(EventFd::new().unwrap()));
        crew.submit(1, Job::Ask(disk(1, "sda", 0)));
        crew.dismiss(1);
        drop(crew);
        assert!(results.recv_timeout(PATIENCE).is_ok());
        // The thread held the last sender.
        assert!(
            results.recv_timeout(PATIENCE).is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
    }
}
