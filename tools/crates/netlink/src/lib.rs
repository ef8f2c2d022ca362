// SPDX-License-Identifier: GPL-2.0-only
//! Client of the generic netlink family `iscsit`, in which a patched LIO target says what its connections' TCP knows.
//!
//! The contract is the YNL specification `Documentation/netlink/specs/iscsit.yaml`; the tables in [`record`] follow it,
//! and a test holds them against it. The caller sees the connections of its own network namespace and needs
//! CAP_NET_ADMIN there.

mod client;
mod message;
pub mod record;

pub use client::{Client, EVENTS, Listener, News, SAMPLES};
pub use record::{Record, Value};

use netlink_packet_core::DecodeError;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no netlink family iscsit: this kernel's iscsi_target_mod is not loaded, or not patched")]
    NoFamily,
    #[error("not permitted: CAP_NET_ADMIN is needed")]
    NotPermitted,
    #[error("period_ms {0}: allowed 10 to 60000")]
    Period(u32),
    #[error("the kernel's answer is not understood: {0}")]
    Answer(String),
    #[error("netlink: {0}")]
    Io(#[from] io::Error),
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Answer(error.to_string())
    }
}
