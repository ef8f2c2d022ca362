// SPDX-License-Identifier: GPL-2.0-only
//! A connection's record or event, by the names of the specification with `_` for `-`.

use crate::Error;
use netlink_packet_core::{DefaultNla, Nla, NlasIterator};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// How an attribute is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    U8,
    U16,
    U32,
    U64,
    Text,
    Hex,
    Address,
    CaState,
    Cause,
    EventCount,
}

/// The attribute set `conn`: attribute n is entry n - 1.
pub const CONN: [(&str, Kind); 42] = [
    ("id", Kind::U32),
    ("target_iqn", Kind::Text),
    ("tpg_tag", Kind::U16),
    ("initiator_iqn", Kind::Text),
    ("isid", Kind::Hex),
    ("tsih", Kind::U16),
    ("cid", Kind::U16),
    ("local_addr", Kind::Address),
    ("peer_addr", Kind::Address),
    ("clock_us", Kind::U64),
    ("tcp", Kind::U8),
    ("ca_state", Kind::CaState),
    ("snd_cwnd_pkts", Kind::U32),
    ("ssthresh_pkts", Kind::U32),
    ("prior_cwnd_pkts", Kind::U32),
    ("mss_bytes", Kind::U32),
    ("packets_out_pkts", Kind::U32),
    ("lost_pkts", Kind::U32),
    ("retrans_pkts", Kind::U32),
    ("srtt_us", Kind::U32),
    ("rttvar_us", Kind::U32),
    ("min_rtt_us", Kind::U32),
    ("delivery_rate_bytes_per_s", Kind::U64),
    ("delivery_rate_app_limited", Kind::U8),
    ("pacing_rate_bytes_per_s", Kind::U64),
    ("snd_wnd_bytes", Kind::U32),
    ("bytes_sent", Kind::U64),
    ("bytes_acked", Kind::U64),
    ("bytes_retrans", Kind::U64),
    ("total_retrans_pkts", Kind::U32),
    ("busy_us", Kind::U64),
    ("rwnd_limited_us", Kind::U64),
    ("sndbuf_limited_us", Kind::U64),
    ("sndbuf_bytes", Kind::U32),
    ("notsent_bytes", Kind::U32),
    ("cwr_local", Kind::EventCount),
    ("cwr_ecn", Kind::EventCount),
    ("recovery", Kind::EventCount),
    ("loss", Kind::EventCount),
    ("cwr_tlp", Kind::EventCount),
    ("read_outstanding_bytes", Kind::U64),
    ("cause", Kind::Cause),
];
pub const CA_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];
pub const CAUSES: [&str; 5] = ["cwr_local", "cwr_ecn", "recovery", "loss", "cwr_tlp"];
/// The attribute set `event-count`, all u32.
pub const EVENT_COUNT: [&str; 2] = ["count", "cwnd_pkts"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Number(u64),
    Text(String),
    Events { count: u32, cwnd_pkts: u32 },
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Events { count, .. } => count.fmt(f),
        }
    }
}

/// What one message said, in the order of [`CONN`]; attributes that are not there are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record(Vec<(&'static str, Value)>);

impl Record {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find_map(|(known, value)| (*known == name).then_some(value))
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Attributes of a later kernel, unknown here, are left out.
    pub(crate) fn decode(attributes: &[DefaultNla]) -> Result<Self, Error> {
        let mut values = Vec::new();
        for attribute in attributes {
            let Some(&(name, kind)) = usize::from(number_of(attribute)).checked_sub(1).and_then(|at| CONN.get(at))
            else {
                continue;
            };
            let value = decode(kind, &payload(attribute)).ok_or_else(|| Error::Answer(format!("attribute {name}")))?;
            values.push((number_of(attribute), (name, value)));
        }
        values.sort_by_key(|&(number, _)| number);
        Ok(values.into_iter().map(|(_, named)| named).collect())
    }
}

impl FromIterator<(&'static str, Value)> for Record {
    fn from_iter<T: IntoIterator<Item = (&'static str, Value)>>(values: T) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// The attribute's number without its flags.
pub(crate) fn number_of(attribute: &DefaultNla) -> u16 {
    attribute.kind() & netlink_packet_core::NLA_TYPE_MASK
}

pub(crate) fn payload(attribute: &DefaultNla) -> Vec<u8> {
    let mut bytes = vec![0; attribute.value_len()];
    attribute.emit_value(&mut bytes);
    bytes
}

fn decode(kind: Kind, bytes: &[u8]) -> Option<Value> {
    let name = |names: &[&str]| {
        let [index] = *bytes else { return None };
        let name = names.get(usize::from(index)).map_or_else(|| index.to_string(), ToString::to_string);
        Some(Value::Text(name))
    };
    Some(match kind {
        Kind::U8 => Value::Number(u8::from_ne_bytes(bytes.try_into().ok()?).into()),
        Kind::U16 => Value::Number(u16::from_ne_bytes(bytes.try_into().ok()?).into()),
        Kind::U32 => Value::Number(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
        Kind::U64 => Value::Number(u64::from_ne_bytes(bytes.try_into().ok()?)),
        Kind::Text => Value::Text(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()),
        Kind::Hex => Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()),
        Kind::Address => Value::Text(address(bytes)?.to_string()),
        Kind::CaState => name(&CA_STATES)?,
        Kind::Cause => name(&CAUSES)?,
        Kind::EventCount => event_count(bytes)?,
    })
}

fn event_count(bytes: &[u8]) -> Option<Value> {
    let (mut count, mut cwnd_pkts) = (0, 0);
    for attribute in NlasIterator::new(bytes) {
        let attribute = attribute.ok()?;
        let value = || Some(u32::from_ne_bytes(attribute.value().try_into().ok()?));
        match attribute.kind() {
            1 => count = value()?,
            2 => cwnd_pkts = value()?,
            _ => {}
        }
    }
    Some(Value::Events { count, cwnd_pkts })
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let (family, rest) = bytes.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    match u16::from_ne_bytes(*family) {
        AF_INET => Some((Ipv4Addr::from(*rest.first_chunk::<4>()?), port).into()),
        AF_INET6 => Some((Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?), port).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
