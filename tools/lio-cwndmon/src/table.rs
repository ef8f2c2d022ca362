// SPDX-License-Identifier: GPL-2.0-only
//! Connections as a table for people: the figures that say how a connection is doing, in readable units.

use comfy_table::{CellAlignment, Table, presets::UTF8_BORDERS_ONLY};
use cwnd_netlink::Record;
use cwnd_netlink::record::CAUSES;

/// The kernel's words for no value yet.
const SSTHRESH_NOT_SET: u64 = 0x7fff_ffff;
const MIN_RTT_NOT_SET: u64 = u32::MAX as u64;

const NUMBERS: std::ops::Range<usize> = 3..12;
const HEADER: [&str; 14] = [
    "id",
    "peer",
    "state",
    "cwnd",
    "ssthresh",
    "prior",
    "srtt ms",
    "min ms",
    "MB/s",
    "out kB",
    "asked kB",
    "again kB",
    "local/ecn/recov/loss/tlp",
    "initiator",
];

pub fn of(connections: &[Record]) -> String {
    if connections.is_empty() {
        return "no connections in this network namespace".into();
    }
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_header(HEADER);
    for connection in connections {
        table.add_row(row(connection));
    }
    for column in table.column_iter_mut().take(NUMBERS.end).skip(NUMBERS.start) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn row(connection: &Record) -> [String; HEADER.len()] {
    let text = |name| connection.get(name).map_or_else(|| "-".to_owned(), ToString::to_string);
    let number = |name, unless| match connection.number(name) {
        Some(value) if value != unless => Some(value),
        _ => None,
    };
    let scaled = |value: Option<u64>, unit: f64, decimals: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{:.decimals$}", value as f64 / unit))
    };
    let in_flight = number("packets_out_pkts", u64::MAX).zip(number("mss_bytes", u64::MAX)).map(|(n, mss)| n * mss);
    let plain = |name, unless| scaled(number(name, unless), 1.0, 0);
    [
        text("id"),
        text("peer_addr"),
        text("ca_state"),
        plain("snd_cwnd_pkts", u64::MAX),
        plain("ssthresh_pkts", SSTHRESH_NOT_SET),
        plain("prior_cwnd_pkts", 0),
        scaled(number("srtt_us", 0), 1e3, 2),
        scaled(number("min_rtt_us", MIN_RTT_NOT_SET), 1e3, 2),
        scaled(number("delivery_rate_bytes_per_s", u64::MAX), 1e6, 2),
        scaled(in_flight, 1e3, 0),
        scaled(number("read_outstanding_bytes", u64::MAX), 1e3, 0),
        scaled(number("bytes_retrans", u64::MAX), 1e3, 0),
        CAUSES.map(text).join("/"),
        text("initiator_iqn"),
    ]
}

/// An event as one line.
pub fn event(event: &Record) -> String {
    let text = |name| event.get(name).map_or_else(|| "-".to_owned(), ToString::to_string);
    format!(
        "{:.3} s  connection {}  {}: cwnd {} -> {}, ssthresh {}",
        event.number("clock_us").unwrap_or(0) as f64 / 1e6,
        text("id"),
        text("cause"),
        text("prior_cwnd_pkts"),
        text("snd_cwnd_pkts"),
        text("ssthresh_pkts"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cwnd_netlink::Value;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let connection: Record = [
            ("id", Value::Number(1)),
            ("ca_state", Value::Text("open".into())),
            ("ssthresh_pkts", Value::Number(SSTHRESH_NOT_SET)),
            ("mss_bytes", Value::Number(1448)),
            ("packets_out_pkts", Value::Number(10)),
            ("srtt_us", Value::Number(20_500)),
            ("min_rtt_us", Value::Number(MIN_RTT_NOT_SET)),
            ("loss", Value::Events { count: 2, cwnd_pkts: 9 }),
        ]
        .into_iter()
        .collect();
        let cells = ["1", "-", "open", "-", "-", "-", "20.50", "-", "-", "14", "-", "-", "-/-/-/2/-", "-"];
        assert_eq!(row(&connection), cells);
        assert_eq!(of(&[connection]).lines().count(), 5);
        assert_eq!(of(&[]), "no connections in this network namespace");
    }
}
