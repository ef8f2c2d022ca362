// SPDX-License-Identifier: GPL-2.0-only
//! An initiator with the daemon on it, in simulated time.

use crate::config::Config;
use crate::host::Knobs;
use crate::host::sim::{Sim, SimCrew};
use crate::record::Recorder;
use crate::session::Feedback;
use crate::store::{Error, Store};
use crate::tuner::Tuner;
use std::cell::RefCell;
use std::sync::{Arc, Once};

const SECOND_US: u64 = 1_000_000;

thread_local!(static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });

/// Keeps what each test logs; every test has its own thread.
struct TestLog;

impl log::Log for TestLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LOG.with_borrow_mut(|lines| lines.push(format!("{}: {}", record.level(), record.args())));
    }

    fn flush(&self) {}
}

pub fn logged(what: &str) -> usize {
    LOG.with_borrow(|lines| lines.iter().filter(|line| line.contains(what)).count())
}

/// An initiator, its folders, and the daemon on it.
pub struct Lab {
    pub dir: tempfile::TempDir,
    pub config: Config,
    pub sim: Arc<Sim>,
    crew: SimCrew,
    tuner: Option<Tuner>,
    pub now_us: u64,
}

impl Lab {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(configure: impl FnOnce(&mut Config)) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            log::set_logger(&TestLog).unwrap();
            log::set_max_level(log::LevelFilter::Info);
        });
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        (config.state_dir, config.runtime_dir) = (dir.path().join("state"), dir.path().join("run"));
        configure(&mut config);
        let sim = Sim::new(config.state_dir.clone());
        let crew = SimCrew::new(Arc::clone(&sim));
        let mut lab = Self { dir, config, sim, crew, tuner: None, now_us: SECOND_US };
        lab.start();
        lab
    }

    pub fn store(&self) -> Result<Store, Error> {
        Store::open(&self.config.state_dir, &self.config.runtime_dir, "boot")
    }

    pub fn start(&mut self) {
        let recorder = Recorder::create(Some(&self.dir.path().join("record"))).unwrap();
        let (sim, crew) = (Arc::clone(&self.sim), Box::new(self.crew.clone()));
        self.tuner = Some(Tuner::new(sim, crew, self.store().unwrap(), recorder, self.config.clone()).unwrap());
    }

    /// As a power supply or `kill -9` does.
    pub fn crash(&mut self) {
        self.tuner = None;
    }

    pub fn stop(&mut self) {
        self.tuner.take().unwrap().shutdown().unwrap();
    }

    pub fn tuner(&mut self) -> &mut Tuner {
        self.tuner.as_mut().unwrap()
    }

    /// Lets time pass; the disks of `readers` read all the while.
    pub fn run(&mut self, seconds: u64, readers: &[&str]) {
        self.run_us(seconds * SECOND_US, readers);
    }

    pub fn run_us(&mut self, span_us: u64, readers: &[&str]) {
        let end_us = self.now_us + span_us;
        while self.now_us < end_us {
            for reader in readers {
                self.sim.read(reader);
            }
            while let Some((sid, done)) = self.crew.result(self.now_us) {
                let now_us = self.now_us;
                self.tuner().done(now_us, sid, done);
            }
            let now_us = self.now_us;
            let due_us = self.tuner().step(now_us);
            assert!(due_us > now_us, "a busy loop");
            self.now_us = due_us.min(self.crew.due_us()).clamp(now_us + 1, end_us);
        }
    }

    pub fn knobs(&self, disk: &str) -> Knobs<u32> {
        self.sim.state().knobs[disk]
    }

    pub fn asked(&self) -> usize {
        self.sim.state().asked.len()
    }

    pub fn feedback(&mut self) -> &Feedback {
        &self.tuner().sessions[0].feedback
    }
}
