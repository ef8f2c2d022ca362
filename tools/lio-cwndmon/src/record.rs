// SPDX-License-Identifier: GPL-2.0-only
//! Samples and events into a file or pipe, a line each, complete when written.

use cwnd_netlink::record::{CONN, EVENT_COUNT, Kind};
use cwnd_netlink::{Client, EVENTS, News, Record, SAMPLES, Value};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde::Serialize;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Format {
    Csv,
    Jsonl,
}

/// Records until SIGTERM or SIGINT; then the former period is set again.
pub fn record(
    client: &Client,
    format: Format,
    period_ms: Option<u32>,
    output: Option<&Path>,
) -> Result<(), Box<dyn Error>> {
    let out: Box<dyn Write> = match output {
        Some(path) => Box::new(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None => Box::new(io::stdout()),
    };
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        signals.add(signal);
    }
    signals.thread_block()?;
    let ending = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;

    let before_ms = client.period_ms()?;
    if let Some(period_ms) = period_ms {
        client.set_period_ms(period_ms)?;
    }
    let result = Writer::new(format, out).and_then(|mut writer| follow(client, &ending, &mut writer));
    if period_ms.is_some() {
        client.set_period_ms(before_ms)?;
    }
    result
}

fn follow(client: &Client, ending: &SignalFd, writer: &mut Writer) -> Result<(), Box<dyn Error>> {
    let mut listener = client.listen(&[EVENTS, SAMPLES])?;
    loop {
        let mut fds = [ending.as_fd(), listener.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        loop {
            let news = listener.receive()?;
            if news.is_empty() {
                break;
            }
            for news in news {
                match news {
                    News::Sample(record) => writer.line("sample", &record)?,
                    News::Event(record) => writer.line("event", &record)?,
                    News::Lost => writeln!(io::stderr(), "lio-cwndmon: too slow, the kernel dropped some messages")?,
                }
            }
        }
        if ending.read_signal()?.is_some() {
            return Ok(());
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    kind: &'a str,
    #[serde(flatten)]
    record: &'a Record,
}

enum Writer {
    Csv(Box<csv::Writer<Box<dyn Write>>>),
    Jsonl(Box<dyn Write>),
}

impl Writer {
    fn new(format: Format, out: Box<dyn Write>) -> Result<Self, Box<dyn Error>> {
        Ok(match format {
            Format::Jsonl => Self::Jsonl(out),
            Format::Csv => {
                // The header is there at once, also where nothing ever happens.
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(columns())?;
                writer.flush()?;
                Self::Csv(Box::new(writer))
            }
        })
    }

    fn line(&mut self, kind: &str, record: &Record) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Jsonl(out) => {
                // One write, so that a reader never sees half a line.
                let line = serde_json::to_string(&Line { kind, record })? + "\n";
                out.write_all(line.as_bytes())?;
                out.flush()?;
            }
            Self::Csv(writer) => {
                writer.write_record(cells(kind, record))?;
                writer.flush()?;
            }
        }
        Ok(())
    }
}

/// A column for each attribute, two for an event count.
fn columns() -> Vec<String> {
    let names = CONN.into_iter().flat_map(|(name, kind)| match kind {
        Kind::EventCount => EVENT_COUNT.map(|part| format!("{name}_{part}")).to_vec(),
        _ => vec![name.to_owned()],
    });
    std::iter::once("kind".to_owned()).chain(names).collect()
}

fn cells(kind: &str, record: &Record) -> Vec<String> {
    let cells = CONN.into_iter().flat_map(|(name, kind)| match (record.get(name), kind) {
        (Some(Value::Events { count, cwnd_pkts }), _) => vec![count.to_string(), cwnd_pkts.to_string()],
        (None, Kind::EventCount) => vec![String::new(), String::new()],
        (value, _) => vec![value.map(ToString::to_string).unwrap_or_default()],
    });
    std::iter::once(kind.to_owned()).chain(cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, records: &[(&str, Record)]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::new(format, Box::new(file.reopen().unwrap())).unwrap();
        for (kind, record) in records {
            writer.line(kind, record).unwrap();
        }
        std::fs::read_to_string(file.path()).unwrap()
    }

    fn event() -> Record {
        let events = Value::Events { count: 3, cwnd_pkts: 77 };
        [("id", Value::Number(5)), ("recovery", events), ("cause", Value::Text("recovery".into()))]
            .into_iter()
            .collect()
    }

    #[test]
    fn a_json_line_has_its_kind_and_the_attributes_names() {
        let line = r#"{"kind":"event","id":5,"recovery":{"count":3,"cwnd_pkts":77},"cause":"recovery"}"#;
        assert_eq!(written(Format::Jsonl, &[("event", event())]), format!("{line}\n"));
    }

    #[test]
    fn every_csv_line_has_all_columns() {
        let text = written(Format::Csv, &[("event", event()), ("sample", Record::default())]);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        assert_eq!(header.len(), 1 + CONN.len() + 5);
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        let cell = |row: usize, name| &rows[row][header.iter().position(|column| column == name).unwrap()];
        assert_eq!((cell(0, "kind"), cell(1, "kind")), ("event", "sample"));
        assert_eq!((cell(0, "id"), cell(1, "id")), ("5", ""));
        assert_eq!((cell(0, "recovery_count"), cell(0, "recovery_cwnd_pkts")), ("3", "77"));
        assert_eq!(cell(0, "cause"), "recovery");
    }
}
