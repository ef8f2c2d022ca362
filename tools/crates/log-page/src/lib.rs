// SPDX-License-Identifier: GPL-2.0-only
//! Log page 3Ch, in which a patched LIO target describes the TCP state of the session that asks.
//!
//! `docs/log-page.md` is the contract; field names are the ones used there. The bytes come from another machine, so
//! nothing here indexes or panics: a page is either wholly as written in the contract, or refused with the reason.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod cursor;

use cursor::Cursor;
use serde::Serialize;

pub const PAGE_CODE: u8 = 0x3c;
pub const SIGNATURE: [u8; 8] = *b"LIO-CWND";
pub const VERSION: u8 = 1;
/// `ssthresh_pkts` before the first reduction.
pub const SSTHRESH_NOT_SET: u32 = 0x7fff_ffff;
/// `min_rtt_us` before the first sample.
pub const MIN_RTT_NOT_SET: u32 = u32::MAX;
/// `pacing_rate_bytes_per_s` without a limit.
pub const PACING_NOT_LIMITED: u64 = u64::MAX;

/// Beyond these a figure is nonsense.
const MAX_MSS_BYTES: u32 = 65_535;
const MAX_CWND_PKTS: u32 = 1 << 24;
const MAX_RTT_US: u32 = 60_000_000;

/// Disable-save set, no subpage format.
const PAGE_BYTE: u8 = 0x80 | PAGE_CODE;
/// Format and linking: binary list.
const PARAMETER_CONTROL: u8 = 0x03;
const SESSION_BYTES: u8 = 32;
const CONNECTION_BYTES: u8 = 172;

const FLAG_TCP: u8 = 1 << 0;
const FLAG_APP_LIMITED: u8 = 1 << 1;
const FLAG_EVENTS: u8 = 1 << 2;

/// Why a page was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("page is truncated: {have} bytes of {need}")]
    Truncated { have: usize, need: usize },
    #[error("not page 3Ch: header {0:02x?}")]
    Header([u8; 4]),
    #[error("signature is not LIO-CWND")]
    Signature,
    #[error("version {0} of the page is not known, only {VERSION}")]
    Version(u8),
    #[error("length of {0} is not as documented")]
    Length(&'static str),
    #[error("parameter header {0:02x?} is not as documented")]
    Parameter([u8; 4]),
    #[error("{field} = {value} is nonsense")]
    Nonsense { field: &'static str, value: u64 },
}

/// The whole page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page {
    pub tsih: u16,
    /// Commands that the session may have outstanding; 0 if the target does not tell.
    pub command_window: u16,
    /// The target's monotonic clock.
    pub clock_us: u64,
    /// Asked for by READ commands of the session and not yet handed to TCP.
    pub read_outstanding_bytes: u64,
    pub connections: Vec<Connection>,
}

/// Entries into one congestion state, and the window just before the latest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EventCount {
    pub count: u32,
    pub prior_cwnd_pkts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaState {
    Open,
    Disorder,
    Cwr,
    Recovery,
    Loss,
}

impl TryFrom<u8> for CaState {
    type Error = Error;

    fn try_from(value: u8) -> Result<Self, Error> {
        Ok(match value {
            0 => Self::Open,
            1 => Self::Disorder,
            2 => Self::Cwr,
            3 => Self::Recovery,
            4 => Self::Loss,
            _ => return Err(nonsense("ca_state", value.into())),
        })
    }
}

/// One connection. Without `tcp` (iSER, an offload) the fields after `events_kept` mean nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Connection {
    pub cid: u16,
    pub tcp: bool,
    pub delivery_rate_app_limited: bool,
    pub events_kept: bool,
    pub ca_state: CaState,
    #[serde(flatten)]
    pub figures: Figures,
}

/// Declares [`Figures`] in wire order, so that the layout is written once for reading and writing.
macro_rules! figures {
    ($($field:ident: $kind:ident),* $(,)?) => {
        /// The connection's figures from byte 4 on, in wire order.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Figures {
            $(pub $field: figures!(@type $kind),)*
        }

        impl Figures {
            fn decode(from: &mut Cursor<'_>) -> Result<Self, Error> {
                Ok(Self { $($field: from.$kind()?,)* })
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $(figures!(@put $kind, self.$field, out);)*
            }
        }
    };
    (@type event) => { EventCount };
    (@type $kind:ident) => { $kind };
    (@put event, $value:expr, $out:expr) => {
        $out.extend($value.count.to_be_bytes());
        $out.extend($value.prior_cwnd_pkts.to_be_bytes());
    };
    (@put $kind:ident, $value:expr, $out:expr) => { $out.extend($value.to_be_bytes()) };
}

figures! {
    mss_bytes: u32,
    snd_cwnd_pkts: u32,
    ssthresh_pkts: u32,
    prior_cwnd_pkts: u32,
    packets_out_pkts: u32,
    lost_pkts: u32,
    retrans_pkts: u32,
    srtt_us: u32,
    rttvar_us: u32,
    min_rtt_us: u32,
    snd_wnd_bytes: u32,
    delivery_rate_bytes_per_s: u64,
    pacing_rate_bytes_per_s: u64,
    bytes_sent: u64,
    bytes_acked: u64,
    bytes_retrans: u64,
    busy_us: u64,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
    cwr_local: event,
    cwr_ecn: event,
    recovery: event,
    loss: event,
    read_outstanding_bytes: u64,
    total_retrans_pkts: u32,
    sndbuf_bytes: u32,
    notsent_bytes: u32,
    cwr_tlp_count: u32,
    reduced_rtt_us: u32,
}

impl Figures {
    /// Refuses what no TCP can be in.
    fn check(&self) -> Result<(), Error> {
        let Self { mss_bytes, snd_cwnd_pkts, srtt_us, min_rtt_us, .. } = *self;
        let min_rtt_us = if min_rtt_us == MIN_RTT_NOT_SET { 0 } else { min_rtt_us };
        for (field, value, sane) in [
            ("mss_bytes", mss_bytes, (1..=MAX_MSS_BYTES).contains(&mss_bytes)),
            ("snd_cwnd_pkts", snd_cwnd_pkts, (1..=MAX_CWND_PKTS).contains(&snd_cwnd_pkts)),
            ("min_rtt_us", min_rtt_us, min_rtt_us <= MAX_RTT_US),
            // Zero: no sample yet. A mean lies well above half its minimum.
            ("srtt_us", srtt_us, srtt_us == 0 || (min_rtt_us / 2..=MAX_RTT_US).contains(&srtt_us)),
        ] {
            if !sane {
                return Err(nonsense(field, value.into()));
            }
        }
        Ok(())
    }
}

impl Page {
    /// Decodes a page as it came from the wire. Bytes behind the page's own length are the buffer's, and ignored.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut buffer = Cursor::new(bytes);
        let header = buffer.array::<4>()?;
        let [PAGE_BYTE, 0, length_high, length_low] = header else {
            return Err(Error::Header(header));
        };
        let mut page = buffer.sub(u16::from_be_bytes([length_high, length_low]).into())?;

        let mut session = parameter(&mut page, 0, SESSION_BYTES, "the session parameter")?;
        if session.array()? != SIGNATURE {
            return Err(Error::Signature);
        }
        let [version, _reserved] = session.array()?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let count = session.u16()?;
        let tsih = session.u16()?;
        let command_window = session.u16()?;
        let clock_us = session.u64()?;
        let read_outstanding_bytes = session.u64()?;

        let mut connections = Vec::new();
        for code in 1..=count {
            connections.push(Connection::decode(parameter(
                &mut page,
                code,
                CONNECTION_BYTES,
                "a connection parameter",
            )?)?);
        }
        if !page.is_empty() {
            return Err(Error::Length("the page"));
        }
        Ok(Self { tsih, command_window, clock_us, read_outstanding_bytes, connections })
    }

    /// Encodes the page as the target does: for tests and simulated targets.
    /// At most 372 connections fit the page's 16-bit length; more are left out.
    pub fn encode(&self) -> Vec<u8> {
        const MAX_CONNECTIONS: usize = 372;
        let mut body = parameter_header(0, SESSION_BYTES).to_vec();
        body.extend(SIGNATURE);
        body.extend([VERSION, 0]);
        let count = self.connections.len().min(MAX_CONNECTIONS);
        body.extend(u16::try_from(count).unwrap_or(0).to_be_bytes());
        body.extend(self.tsih.to_be_bytes());
        body.extend(self.command_window.to_be_bytes());
        body.extend(self.clock_us.to_be_bytes());
        body.extend(self.read_outstanding_bytes.to_be_bytes());
        for (code, connection) in (1..).zip(self.connections.iter().take(count)) {
            body.extend(parameter_header(code, CONNECTION_BYTES));
            connection.encode(&mut body);
        }
        let mut page = vec![PAGE_BYTE, 0];
        page.extend(u16::try_from(body.len()).unwrap_or(0).to_be_bytes());
        page.extend(body);
        page
    }
}

impl Connection {
    fn decode(mut from: Cursor<'_>) -> Result<Self, Error> {
        let cid = from.u16()?;
        let [flags, ca_state] = from.array()?;
        let connection = Self {
            cid,
            tcp: flags & FLAG_TCP != 0,
            delivery_rate_app_limited: flags & FLAG_APP_LIMITED != 0,
            events_kept: flags & FLAG_EVENTS != 0,
            ca_state: ca_state.try_into()?,
            figures: Figures::decode(&mut from)?,
        };
        if connection.tcp {
            connection.figures.check()?;
        }
        Ok(connection)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(self.tcp, FLAG_TCP)
            | flag(self.delivery_rate_app_limited, FLAG_APP_LIMITED)
            | flag(self.events_kept, FLAG_EVENTS);
        out.extend(self.cid.to_be_bytes());
        out.extend([flags, self.ca_state as u8]);
        self.figures.encode(out);
    }
}

fn nonsense(field: &'static str, value: u64) -> Error {
    Error::Nonsense { field, value }
}

fn parameter_header(code: u16, length: u8) -> [u8; 4] {
    let [high, low] = code.to_be_bytes();
    [high, low, PARAMETER_CONTROL, length]
}

/// The content of the next parameter, which must be `code` and at least `min_length` long.
fn parameter<'a>(page: &mut Cursor<'a>, code: u16, min_length: u8, what: &'static str) -> Result<Cursor<'a>, Error> {
    let header = page.array::<4>()?;
    let [_, _, _, length] = header;
    if header != parameter_header(code, length) {
        return Err(Error::Parameter(header));
    }
    if length < min_length {
        return Err(Error::Length(what));
    }
    page.sub(length.into()).map_err(|_| Error::Length(what))
}

#[cfg(test)]
mod tests;
