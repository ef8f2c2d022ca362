// SPDX-License-Identifier: GPL-2.0-only
//! Questions and answers, and what is sent to everybody.

use crate::Error;
use crate::message::{Command, FAMILY_NAME, Message};
use crate::record::{Record, number_of, payload};
use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::nlas::{GenlCtrlAttrs, McastGrpAttrs};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Larger than any message the kernel makes.
const BUFFER_BYTES: usize = 64 << 10;
/// Room for the events of a second in which the listener does not run.
const LISTENER_BYTES: u32 = 4 << 20;
/// The multicast groups.
pub const EVENTS: &str = "events";
pub const SAMPLES: &str = "samples";
const A_SAMPLING_PERIOD_MS: u16 = 1;

/// Asks and is answered.
pub struct Client {
    socket: Socket,
    family_id: u16,
    groups: Vec<(String, u32)>,
}

impl Client {
    pub fn open() -> Result<Self, Error> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let request =
            GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![GenlCtrlAttrs::FamilyName(FAMILY_NAME.to_owned())] };
        let answers = exchange(&socket, GenlMessage::from_payload(request), 0).map_err(|error| match error {
            Error::Io(error) if error.kind() == io::ErrorKind::NotFound => Error::NoFamily,
            error => error,
        })?;
        let attributes: Vec<GenlCtrlAttrs> = answers.into_iter().flat_map(|answer| answer.payload.nlas).collect();
        let family_id = attributes.iter().find_map(|attribute| match attribute {
            GenlCtrlAttrs::FamilyId(id) => Some(*id),
            _ => None,
        });
        let groups = attributes.iter().find_map(|attribute| match attribute {
            GenlCtrlAttrs::McastGroups(groups) => Some(groups.iter().filter_map(|group| named_group(group)).collect()),
            _ => None,
        });
        Ok(Self { socket, family_id: family_id.ok_or(Error::NoFamily)?, groups: groups.unwrap_or_default() })
    }

    /// All connections of the caller's network namespace.
    pub fn connections(&self) -> Result<Vec<Record>, Error> {
        let answers = self.ask(Command::ConnGet, Vec::new(), NLM_F_DUMP)?;
        answers.iter().map(|answer| Record::decode(&answer.attributes)).collect()
    }

    /// Time between two samples of a connection.
    pub fn period_ms(&self) -> Result<u32, Error> {
        let answers = self.ask(Command::SamplingGet, Vec::new(), 0)?;
        let period = answers.iter().flat_map(|answer| &answer.attributes).find_map(|attribute| {
            (number_of(attribute) == A_SAMPLING_PERIOD_MS).then(|| payload(attribute).try_into().ok())?
        });
        period.map(u32::from_ne_bytes).ok_or_else(|| Error::Answer("no period_ms".into()))
    }

    /// For all listeners in this network namespace.
    pub fn set_period_ms(&self, period_ms: u32) -> Result<(), Error> {
        let attribute = DefaultNla::new(A_SAMPLING_PERIOD_MS, period_ms.to_ne_bytes().to_vec());
        match self.ask(Command::SamplingSet, vec![attribute], 0) {
            Err(Error::Io(error)) if error.raw_os_error() == Some(ERANGE) => Err(Error::Period(period_ms)),
            result => result.map(|_| ()),
        }
    }

    /// Starts to listen to [`EVENTS`], [`SAMPLES`] or both; samples are only made while somebody does.
    pub fn listen(&self, groups: &[&str]) -> Result<Listener, Error> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        socket.set_rx_buf_sz(LISTENER_BYTES)?;
        for name in groups {
            let group = self.groups.iter().find(|(known, _)| known == *name).ok_or(Error::NoFamily)?;
            socket.add_membership(group.1).map_err(permitted)?;
        }
        Ok(Listener { socket, buffer: Vec::with_capacity(BUFFER_BYTES) })
    }

    fn ask(&self, command: Command, attributes: Vec<DefaultNla>, flags: u16) -> Result<Vec<Message>, Error> {
        let mut message = GenlMessage::from_payload(Message { command: command as u8, attributes });
        message.set_resolved_family_id(self.family_id);
        Ok(exchange(&self.socket, message, flags)?.into_iter().map(|answer| answer.into_parts().1).collect())
    }
}

/// What is sent to everybody.
#[derive(Debug)]
pub enum News {
    Sample(Record),
    Event(Record),
    /// The listener was too slow, and the kernel dropped some.
    Lost,
}

pub struct Listener {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Listener {
    /// What has arrived; nothing if nothing has.
    pub fn receive(&mut self) -> Result<Vec<News>, Error> {
        self.buffer.clear();
        match self.socket.recv(&mut self.buffer, 0) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
            Err(error) if error.raw_os_error() == Some(ENOBUFS) => return Ok(vec![News::Lost]),
            Err(error) => return Err(error.into()),
        }
        let mut news = Vec::new();
        for message in messages::<GenlMessage<Message>>(&self.buffer) {
            let NetlinkPayload::InnerMessage(message) = message?.payload else {
                continue;
            };
            let (header, message) = message.into_parts();
            if header.cmd == Command::ConnSample as u8 {
                news.push(News::Sample(Record::decode(&message.attributes)?));
            } else if header.cmd == Command::ConnEvent as u8 {
                news.push(News::Event(Record::decode(&message.attributes)?));
            }
        }
        Ok(news)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const ERANGE: i32 = 34;
const ENOBUFS: i32 = 105;

fn permitted(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::NotPermitted,
        _ => Error::Io(error),
    }
}

fn named_group(attributes: &[McastGrpAttrs]) -> Option<(String, u32)> {
    let (mut name, mut id) = (None, None);
    for attribute in attributes {
        match attribute {
            McastGrpAttrs::Name(value) => name = Some(value.clone()),
            McastGrpAttrs::Id(value) => id = Some(*value),
        }
    }
    Some((name?, id?))
}

/// Sends a request and collects the answers, up to the kernel's word that there are no more.
fn exchange<T>(socket: &Socket, request: T, flags: u16) -> Result<Vec<T>, Error>
where
    T: NetlinkSerializable + NetlinkDeserializable,
    NetlinkPayload<T>: From<T>,
{
    let mut message = NetlinkMessage::new(Default::default(), NetlinkPayload::from(request));
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;

    let mut answers = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        buffer.clear();
        socket.recv(&mut buffer, 0)?;
        for message in messages(&buffer) {
            match message?.payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Error(error) => match error.code {
                    Some(_) => return Err(permitted(error.to_io())),
                    None => return Ok(answers),
                },
                NetlinkPayload::Done(done) if done.code == 0 => return Ok(answers),
                NetlinkPayload::Done(done) => return Err(permitted(io::Error::from_raw_os_error(-done.code))),
                _ => {}
            }
        }
    }
}

/// The messages of a datagram.
fn messages<T: NetlinkDeserializable>(mut bytes: &[u8]) -> impl Iterator<Item = Result<NetlinkMessage<T>, Error>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let message = NetlinkMessage::<T>::deserialize(bytes).map_err(Error::from);
        let length = message.as_ref().map_or(0, |message| (message.header.length as usize).next_multiple_of(4));
        // What cannot be read ends the datagram.
        bytes = bytes.get(length..).filter(|_| length > 0).unwrap_or_default();
        Some(message)
    })
}
