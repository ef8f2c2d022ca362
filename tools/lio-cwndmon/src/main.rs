// SPDX-License-Identifier: GPL-2.0-only
//! `lio-cwndmon`: what the TCP connections of an iSCSI target do, from the netlink family `iscsit`.

mod record;
mod table;
mod watch;

use clap::{Parser, Subcommand};
use cwnd_netlink::Client;
use record::Format;
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  lio-cwndmon show                                        the connections as they are now
  lio-cwndmon show --json | jq '.[].snd_cwnd_pkts'
  lio-cwndmon watch                                       a live table; q ends it
  lio-cwndmon record --format csv --output cwnd.csv       samples and events until SIGTERM or SIGINT
  lio-cwndmon record --format jsonl --period-ms 10 | jq 'select(.kind == \"event\")'

Only the connections of the caller's network namespace are seen; CAP_NET_ADMIN is needed.
Exit status: 0 done, 1 failed, 2 wrong usage.";

#[derive(Parser)]
#[command(version, about = "Shows and records what an iSCSI target's TCP connections do.", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the connections once
    Show {
        /// As a JSON list, with all there is to know
        #[arg(long)]
        json: bool,
    },
    /// Show the connections and their latest events, again and again
    Watch {
        /// Time between two looks
        #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=60_000))]
        period_ms: u32,
    },
    /// Write samples and events, one a line
    Record {
        #[arg(long, value_enum)]
        format: Format,
        /// Time between two samples of a connection, of all listeners in this network namespace [default: as it is]
        #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(10..=60_000))]
        period_ms: Option<u32>,
        /// [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match execute(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "lio-cwndmon: {error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Result<(), Box<dyn Error>> {
    let client = Client::open()?;
    match command {
        Command::Show { json: true } => writeln!(io::stdout(), "{}", serde_json::to_string(&client.connections()?)?)?,
        Command::Show { json: false } => writeln!(io::stdout(), "{}", table::of(&client.connections()?))?,
        Command::Watch { period_ms } => watch::watch(&client, period_ms)?,
        Command::Record { format, period_ms, output } => {
            record::record(&client, format, period_ms, output.as_deref())?;
        }
    }
    Ok(())
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref().is_some_and(io)
        || error.downcast_ref::<csv::Error>().is_some_and(|error| match error.kind() {
            csv::ErrorKind::Io(error) => io(error),
            _ => false,
        })
}
