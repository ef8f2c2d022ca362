// SPDX-License-Identifier: GPL-2.0-only
//! `--record`: one JSON line for each time a strategy was asked.

use crate::session::TunedSession;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

#[derive(Serialize)]
struct Line<'a> {
    t_us: u64,
    session: u32,
    active: bool,
    phase: &'a str,
    window_bytes: u64,
    request_bytes: u32,
    queue_depths: BTreeMap<&'a str, u32>,
    read_ahead_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    advertised_bytes: Option<u64>,
    limit: &'a str,
    reason: &'a str,
    /// The page, on the line on which the strategy saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<Page<'a>>,
}

#[derive(Serialize)]
struct Page<'a> {
    asked_us: u64,
    answered_us: u64,
    clock_us: u64,
    #[serde(flatten)]
    connection: &'a cwnd_log_page::Connection,
}

#[derive(Default)]
pub struct Recorder(Option<File>);

impl Recorder {
    pub fn create(path: Option<&Path>) -> io::Result<Self> {
        path.map(File::create).transpose().map(Self)
    }

    /// The strategy's answer; a file that cannot be written is given up, once.
    pub fn tick(&mut self, now_us: u64, session: &TunedSession, page_was_new: bool) {
        let (Some(file), Some(output)) = (&mut self.0, &session.output) else {
            return;
        };
        let answer = session.answer.as_ref().filter(|_| page_was_new);
        let line = Line {
            t_us: now_us,
            session: session.info.sid,
            active: session.active,
            phase: output.phase,
            window_bytes: output.window_bytes,
            request_bytes: output.request_bytes,
            queue_depths: session
                .disks
                .iter()
                .map(|disk| (disk.disk.name.as_str(), disk.in_force.queue_depth))
                .collect(),
            read_ahead_bytes: output.read_ahead_bytes,
            advertised_bytes: output.advertised_bytes,
            limit: output.limit,
            reason: &output.reason,
            page: answer.map(|answer| Page {
                asked_us: answer.asked_us,
                answered_us: answer.answered_us,
                clock_us: answer.clock_us,
                connection: &answer.connection,
            }),
        };
        let written = serde_json::to_string(&line).map_err(io::Error::from).and_then(|line| writeln!(file, "{line}"));
        if let Err(error) = written {
            log::warn!("recording ends: {error}");
            self.0 = None;
        }
    }
}
