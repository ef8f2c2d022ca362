// SPDX-License-Identifier: GPL-2.0-only
//! `iscsi-cwndd`: sizes an iSCSI initiator's sequential reads by what the target says of its TCP connection.
//!
//! `main` → [`daemon`] (waiting) → [`tuner`] (all sessions) → [`session`] (one of them) → [`disk`] (its settings).
//! The control law is the crate `cwnd-control`; everything the machine is asked or told goes through [`host::Host`].

mod config;
mod crew;
mod daemon;
mod disk;
mod host;
mod probe;
mod record;
mod restore;
mod session;
mod status;
mod store;
mod throttle;
mod tuner;

#[cfg(test)]
mod tests;

use clap::{Parser, Subcommand};
use config::Config;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLES: &str = "Examples:
  iscsi-cwndd run                              as the unit does
  iscsi-cwndd run --record /tmp/ticks.jsonl    one JSON line for each decision
  iscsi-cwndd status                           what it does, and which limit binds
  iscsi-cwndd probe sda --json                 what the target of a disk says of its connection
  iscsi-cwndd restore                          put back what a crashed daemon left

Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 the daemon is not running (status).";

#[derive(Parser)]
#[command(version, about = "Sizes iSCSI reads by what the target says of its TCP connection.", after_help = EXAMPLES)]
struct Arguments {
    /// Configuration file [default: /etc/iscsi-cwndd.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Control the sessions' disks until SIGTERM
    Run {
        /// Write a JSON line for each decision
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
    },
    /// Say what the running daemon does
    Status {
        #[arg(long)]
        json: bool,
    },
    /// Ask the target of a disk for its log page, once
    Probe {
        /// Name of the disk, or its path
        #[arg(value_name = "DISK")]
        disk: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Put back the disks' settings after a daemon that crashed, or that kept them
    Restore,
}

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_RUNNING: u8 = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log_to_stderr();
    match execute(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            log::error!("{message}");
            ExitCode::from(code)
        }
    }
}

fn execute(arguments: Arguments) -> Result<(), (u8, String)> {
    let config = Config::load(arguments.config.as_deref()).map_err(|message| (USAGE, message))?;
    let failed = |error: &dyn std::fmt::Display| (FAILED, error.to_string());
    let host = || host::sysfs::Sysfs::new("/sys", config.page_timeout());
    match arguments.command {
        Command::Run { record } => {
            daemon::run(Arc::new(host()), config, record.as_deref()).map_err(|error| failed(&error))
        }
        Command::Status { json } => {
            let text = status::fetch(&config.status_socket()).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    (NOT_RUNNING, "iscsi-cwndd is not running".into())
                }
                _ => (FAILED, format!("{}: {error}", config.status_socket().display())),
            })?;
            if json {
                return print(&text);
            }
            let shown = serde_json::from_str(&text).map_err(|error| failed(&error))?;
            print(&status::show(&shown))
        }
        Command::Probe { disk, json } => {
            print(&probe::probe(&disk, json, config.page_timeout()).map_err(|message| (FAILED, message))?)
        }
        Command::Restore => {
            let boot_id = store::boot_id().map_err(|error| failed(&error))?;
            let mut store =
                store::Store::open(&config.state_dir, &config.runtime_dir, &boot_id).map_err(|error| failed(&error))?;
            let restored = restore::restore_all(&host(), &mut store)
                .and_then(|restored| store.set_kept(false).map(|()| restored))
                .map_err(|error| failed(&error))?;
            print(&format!("{} settings put back", restored.count))?;
            if restored.failed.is_empty() {
                return Ok(());
            }
            Err((
                FAILED,
                format!("not all put back: {}; the originals are kept, try again", restored.failed.join(", ")),
            ))
        }
    }
}

/// A reader that went away is not an error.
fn print(text: &str) -> Result<(), (u8, String)> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err((FAILED, error.to_string())),
        _ => Ok(()),
    }
}

/// One line per message; under systemd with the priority the journal understands.
fn log_to_stderr() {
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".into());
    env_logger::Builder::new()
        .parse_filters(&filter)
        .format(move |out, record| match (journal, record.level()) {
            (false, log::Level::Error) => writeln!(out, "iscsi-cwndd: {}", record.args()),
            (false, level) => writeln!(out, "iscsi-cwndd: {}: {}", level.as_str().to_lowercase(), record.args()),
            (true, level) => {
                let priority = match level {
                    log::Level::Error => 3,
                    log::Level::Warn => 4,
                    log::Level::Info => 6,
                    log::Level::Debug | log::Level::Trace => 7,
                };
                writeln!(out, "<{priority}>{}", record.args())
            }
        })
        .init();
}
