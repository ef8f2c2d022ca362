// SPDX-License-Identifier: GPL-2.0-only
//! A message of the family: a command and undecoded attributes, framed by `netlink-packet-generic`.

use netlink_packet_core::{DecodeError, DefaultNla, Emitable, NlasIterator, Parseable, ParseableParametrized};
use netlink_packet_generic::{GenlFamily, GenlHeader};

pub const FAMILY_NAME: &str = "iscsit";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    ConnGet = 1,
    ConnEvent,
    ConnSample,
    SamplingGet,
    SamplingSet,
}

#[derive(Debug, Clone)]
pub struct Message {
    pub command: u8,
    pub attributes: Vec<DefaultNla>,
}

impl GenlFamily for Message {
    fn family_name() -> &'static str {
        FAMILY_NAME
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for Message {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Message {
    fn parse_with_param(buffer: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        let attributes: Result<_, DecodeError> =
            NlasIterator::new(buffer).map(|attribute| DefaultNla::parse(&attribute?)).collect();
        Ok(Self { command: header.cmd, attributes: attributes? })
    }
}
