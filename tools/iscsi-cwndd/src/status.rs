// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon is doing, as JSON over a unix socket: one object per connection, then the end.

use crate::disk::TunedDisk;
use crate::host::Knobs;
use crate::session::{Feedback, TunedSession};
use crate::tuner::Tuner;
use cwnd_log_page::Connection;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// A client that does not read is not waited for.
const CLIENT_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Status<'a> {
    version: u32,
    t_us: u64,
    strategy: &'a str,
    sessions: Vec<SessionStatus<'a>>,
    /// Devices above the sessions' disks.
    stacked: Vec<StackedStatus<'a>>,
}

#[derive(Serialize)]
struct StackedStatus<'a> {
    device: &'a str,
    #[serde(flatten)]
    settings: SettingsStatus<'a>,
}

#[derive(Serialize)]
struct SettingsStatus<'a> {
    in_force: Knobs<u32>,
    original: Knobs<u32>,
    /// Why a setting is left alone; null where it is not.
    left_alone: &'a Knobs<Option<String>>,
}

#[derive(Serialize)]
struct SessionStatus<'a> {
    session: u32,
    target_iqn: &'a str,
    portal: &'a str,
    logged_in: bool,
    feedback: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<&'a str>,
    active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_ahead_bytes: Option<u64>,
    /// What the connection may advertise at most; none where TCP decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    advertised_bytes: Option<u64>,
    disks: Vec<DiskStatus<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathStatus<'a>>,
}

#[derive(Serialize)]
struct DiskStatus<'a> {
    disk: &'a str,
    lun: u64,
    reading: bool,
    #[serde(flatten)]
    settings: SettingsStatus<'a>,
}

#[derive(Serialize)]
struct PathStatus<'a> {
    age_us: u64,
    answer_us: u64,
    #[serde(flatten)]
    connection: &'a Connection,
}

/// Everything the daemon knows, as one line of JSON.
pub fn describe(tuner: &Tuner, now_us: u64) -> String {
    let strategy = cwnd_control::StrategyName::ALL
        .iter()
        .find_map(|&(name, value)| (value == tuner.config.strategy).then_some(name))
        .unwrap_or_default();
    let sessions =
        tuner.sessions.iter().map(|session| of_session(session, now_us, tuner.config.idle_after_us())).collect();
    let stacked = tuner
        .stacked
        .iter()
        .map(|stacked| StackedStatus { device: &stacked.device.disk.name, settings: of_settings(&stacked.device) });
    let status = Status { version: 2, t_us: now_us, strategy, sessions, stacked: stacked.collect() };
    serde_json::to_string(&status).unwrap_or_default()
}

fn of_session(session: &TunedSession, now_us: u64, idle_after_us: u64) -> SessionStatus<'_> {
    let (feedback, trouble) = match &session.feedback {
        Feedback::Unknown => ("unknown", None),
        Feedback::Unneeded => ("unneeded", None),
        Feedback::Good => ("good", None),
        Feedback::Trouble(trouble) => ("trouble", Some(trouble.as_str())),
        Feedback::NotOffered(why) => ("not_offered", Some(why.as_str())),
    };
    let output = session.output.as_ref();
    SessionStatus {
        session: session.info.sid,
        target_iqn: &session.info.target_iqn,
        portal: &session.info.portal,
        logged_in: session.info.logged_in,
        feedback,
        trouble,
        active: session.active,
        phase: output.map(|output| output.phase),
        limit: output.map(|output| output.limit),
        reason: output.map(|output| output.reason.as_str()),
        window_bytes: output.map(|output| output.window_bytes),
        request_bytes: output.map(|output| output.request_bytes),
        read_ahead_bytes: output.map(|output| output.read_ahead_bytes),
        advertised_bytes: output.and_then(|output| output.advertised_bytes),
        disks: session
            .disks
            .iter()
            .map(|disk| DiskStatus {
                disk: &disk.disk.name,
                lun: disk.disk.id.lun,
                reading: disk.reading(now_us, idle_after_us),
                settings: of_settings(disk),
            })
            .collect(),
        path: session.answer.as_ref().map(|answer| PathStatus {
            age_us: now_us.saturating_sub(answer.answered_us),
            answer_us: answer.answered_us.saturating_sub(answer.asked_us),
            connection: &answer.connection,
        }),
    }
}

fn of_settings(disk: &TunedDisk) -> SettingsStatus<'_> {
    SettingsStatus { in_force: disk.in_force, original: disk.original, left_alone: &disk.left_alone }
}

pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers whoever waits at the socket.
pub fn serve(listener: &UnixListener, describe: impl Fn() -> String) {
    while let Ok((mut client, _)) = listener.accept() {
        let served =
            client.set_write_timeout(Some(CLIENT_TIMEOUT)).and_then(|()| client.write_all(describe().as_bytes()));
        if let Err(error) = served {
            log::debug!("status: {error}");
        }
    }
}

/// What a running daemon says; an error of kind `NotFound` or `ConnectionRefused` where there is none.
pub fn fetch(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    UnixStream::connect(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// The parts of a status that are shown to people.
#[derive(Deserialize)]
pub struct Shown {
    strategy: String,
    sessions: Vec<ShownSession>,
    /// A daemon that was started before an upgrade says nothing of them.
    #[serde(default)]
    stacked: Vec<ShownStacked>,
}

#[derive(Deserialize)]
struct ShownStacked {
    device: String,
    #[serde(flatten)]
    settings: ShownSettings,
}

#[derive(Deserialize)]
struct ShownSettings {
    in_force: Knobs<u32>,
    left_alone: Knobs<Option<String>>,
}

#[derive(Deserialize)]
struct ShownSession {
    session: u32,
    target_iqn: String,
    portal: String,
    feedback: String,
    trouble: Option<String>,
    active: bool,
    phase: Option<String>,
    limit: Option<String>,
    window_bytes: Option<u64>,
    advertised_bytes: Option<u64>,
    disks: Vec<ShownDisk>,
    path: Option<ShownPath>,
}

#[derive(Deserialize)]
struct ShownDisk {
    disk: String,
    reading: bool,
    #[serde(flatten)]
    settings: ShownSettings,
}

#[derive(Deserialize)]
struct ShownPath {
    snd_cwnd_pkts: u32,
    mss_bytes: u32,
    srtt_us: u32,
    min_rtt_us: u32,
    delivery_rate_bytes_per_s: u64,
    bytes_sent: u64,
    bytes_retrans: u64,
}

/// A status for people, some lines per session.
pub fn show(shown: &Shown) -> String {
    let mut lines = vec![format!("strategy {}, {} sessions", shown.strategy, shown.sessions.len())];
    for session in &shown.sessions {
        lines.push(format!("session {}: {} at {}", session.session, session.target_iqn, session.portal));
        match &session.trouble {
            Some(trouble) => lines.push(format!("  feedback {}: {trouble}", session.feedback)),
            None => lines.push(format!("  feedback {}", session.feedback)),
        }
        if let (Some(phase), Some(limit), Some(window_bytes)) = (&session.phase, &session.limit, session.window_bytes) {
            let reading = if session.active { "reading" } else { "idle" };
            let bytes = session.advertised_bytes;
            let advertised = bytes.map_or_else(String::new, |bytes| format!(", {} KiB advertised", bytes >> 10));
            let window_kib = window_bytes >> 10;
            lines.push(format!("  {reading}, phase {phase}, window {window_kib} KiB{advertised}, limited by {limit}"));
        }
        if let Some(path) = &session.path {
            lines.push(format!(
                "  cwnd {} x {} bytes, srtt {:.1} ms, min rtt {:.1} ms, {:.2} MB/s, {} of {} bytes retransmitted",
                path.snd_cwnd_pkts,
                path.mss_bytes,
                f64::from(path.srtt_us) / 1e3,
                f64::from(path.min_rtt_us) / 1e3,
                path.delivery_rate_bytes_per_s as f64 / 1e6,
                path.bytes_retrans,
                path.bytes_sent,
            ));
        }
        for disk in &session.disks {
            let reading = if disk.reading { " (reading)" } else { "" };
            lines.extend(show_settings(&format!("  {}{reading}", disk.disk), &disk.settings));
        }
    }
    for ShownStacked { device, settings } in &shown.stacked {
        lines.extend(show_settings(device, settings));
    }
    lines.join("\n")
}

/// A line of a disk's settings, and one for each that is left alone. A device above has no depth.
fn show_settings(disk: &str, settings: &ShownSettings) -> Vec<String> {
    let Knobs { max_sectors_kb, read_ahead_kb, queue_depth } = settings.in_force;
    let depth = if queue_depth > 0 { format!(", depth {queue_depth}") } else { String::new() };
    let mut lines = vec![format!("{disk}: request {max_sectors_kb} KiB{depth}, read-ahead {read_ahead_kb} KiB")];
    let Knobs { max_sectors_kb, read_ahead_kb, queue_depth } = &settings.left_alone;
    let left_alone = [("request", max_sectors_kb), ("read-ahead", read_ahead_kb), ("depth", queue_depth)];
    for (name, why) in left_alone.iter().filter_map(|(name, why)| Some((name, why.as_ref()?))) {
        lines.push(format!("    {name} left alone: {why}"));
    }
    lines
}
