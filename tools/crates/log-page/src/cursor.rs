// SPDX-License-Identifier: GPL-2.0-only
//! Reads big-endian numbers off the front of a byte slice and never past its end.

use crate::{Error, EventCount};

pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `need` bytes as a cursor of their own.
    pub fn sub(&mut self, need: usize) -> Result<Self, Error> {
        let have = self.0.len();
        let (head, rest) = self.0.split_at_checked(need).ok_or(Error::Truncated { have, need })?;
        self.0 = rest;
        Ok(Self(head))
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let have = self.0.len();
        let (head, rest) = self.0.split_first_chunk().ok_or(Error::Truncated { have, need: N })?;
        self.0 = rest;
        Ok(*head)
    }

    pub fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn event(&mut self) -> Result<EventCount, Error> {
        Ok(EventCount { count: self.u32()?, prior_cwnd_pkts: self.u32()? })
    }
}
