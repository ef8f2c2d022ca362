// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's loop: waits for the next thing that is due, a job's result, a uevent, a question for the status, or the
//! signal to end.

use crate::config::Config;
use crate::crew::Threads;
use crate::host::uevent::Uevents;
use crate::host::{Host, Trace};
use crate::record::Recorder;
use crate::status;
use crate::store::{Store, boot_id};
use crate::tuner::Tuner;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub fn run(host: Arc<dyn Host>, config: Config, record: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        signals.add(signal);
    }
    // Before any thread is started, so that all have it.
    signals.thread_block()?;
    let signal_fd = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;

    let store = Store::open(&config.state_dir, &config.runtime_dir, &boot_id()?)?;
    let recorder = Recorder::create(record).map_err(|error| format!("--record: {error}"))?;
    let socket = config.status_socket();
    let listener = status::listen(&socket).map_err(|error| format!("{}: {error}", socket.display()))?;
    let uevents = Uevents::open()?;
    let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
    // What is there stays, and what comes once it is used: threads' stacks are mostly never.
    let later = MlockAllFlags::MCL_FUTURE | MlockAllFlags::from_bits_retain(nix::libc::MCL_ONFAULT);
    if let Err(error) = mlockall(MlockAllFlags::MCL_CURRENT).and_then(|()| mlockall(later)) {
        log::info!("memory is not locked: {}", error.desc());
    }
    // Each disk's statistics are two open files.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    }

    let (crew, results) = Threads::new(host.clone(), Arc::clone(&wake));
    let mut trace = host.trace().inspect_err(log_unheard).ok();
    let mut tuner = Tuner::new(host, Box::new(crew), store, recorder, config)?;
    log::info!("running, {}", env!("CARGO_PKG_VERSION"));
    loop {
        tuner.watched = trace.as_ref().is_some_and(Trace::armed);
        let due_us = tuner.step(now_us()?);
        follow(&mut trace, tuner.hosts_to_watch().as_deref());
        if tuner.watched && !trace.as_ref().is_some_and(Trace::armed) {
            // Sessions that were left to the kernel are looked at from now on.
            tuner.use_began(&[]);
            continue;
        }
        let timeout = TimeSpec::from_duration(Duration::from_micros(due_us.saturating_sub(now_us()?)));
        let fds = [signal_fd.as_fd(), wake.as_fd(), uevents.as_fd(), listener.as_fd()].into_iter();
        let fds = fds.chain(trace.as_ref().map(AsFd::as_fd));
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect::<Vec<_>>();
        match ppoll(&mut fds, Some(timeout), None) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| fd.any().unwrap_or(true));
        let [signalled, woken, told, asked, used] = std::array::from_fn(|_| ready.next().unwrap_or(false));
        if signalled {
            if let Some(signal) = signal_fd.read_signal()? {
                log::info!("ending: signal {}", signal.ssi_signo);
                break;
            }
        }
        if used {
            let begun = trace.as_mut().map(Trace::begun).unwrap_or_default();
            tuner.use_began(&begun);
        }
        if told && uevents.drain() {
            tuner.rescan_soon(now_us()?);
        }
        if woken {
            // Emptied before the results are taken: one that comes in between wakes the next poll.
            match wake.read() {
                Ok(_) | Err(Errno::EAGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            for (sid, done) in results.try_iter() {
                tuner.done(now_us()?, sid, done);
            }
        }
        if asked {
            let now_us = now_us()?;
            status::serve(&listener, || status::describe(&tuner, now_us));
        }
    }
    tuner.shutdown()?;
    let _ = std::fs::remove_file(socket);
    Ok(())
}

/// One that fails is given up.
fn follow(trace: &mut Option<Trace>, scsi_hosts: Option<&[u32]>) {
    if let Some(Err(error)) = trace.as_mut().map(|trace| trace.follow(scsi_hosts)) {
        log_unheard(&error);
        *trace = None;
    }
}

fn log_unheard(error: &io::Error) {
    log::info!("the kernel does not tell when idle disks are used, they are looked at: {error}");
}

/// CLOCK_MONOTONIC.
fn now_us() -> nix::Result<u64> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    Ok(u64::try_from(now.as_micros()).unwrap_or(u64::MAX))
}
