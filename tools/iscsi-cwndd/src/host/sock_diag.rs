// SPDX-License-Identifier: GPL-2.0-only
//! What a TCP connection of this network namespace has received, and its round trip, from the kernel's socket diagnostics.
//!
//! That tells of each packet, where a disk's statistics tell of whole requests.

use cwnd_control::Received;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::{Socket, SocketAddr as NetlinkAddr, protocols::NETLINK_SOCK_DIAG};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// `tcpi_snd_wscale` and `tcpi_rcv_wscale`, `tcpi_rtt`, `tcpi_bytes_received`, `tcpi_data_segs_in` and `tcpi_rcv_ooopack` in
/// `struct tcp_info` (include/uapi/linux/tcp.h), the latter three since Linux 4.2, 4.6 and 5.4.
const WSCALES: usize = 6;
const RTT: Range<usize> = 68..72;
const BYTES_RECEIVED: Range<usize> = 128..136;
const DATA_SEGS_IN: Range<usize> = 152..156;
const RCV_OOOPACK: Range<usize> = 224..228;
/// Larger than the answer for one socket.
const BUFFER_BYTES: usize = 4096;
const ANY_COOKIE: [u8; 8] = [0xff; 8];

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// This host's end of one, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    pub inode: u64,
    pub received: Received,
}

pub struct SockDiag {
    socket: Mutex<Socket>,
}

impl SockDiag {
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&NetlinkAddr::new(0, 0))?;
        Ok(Self { socket: Mutex::new(socket) })
    }

    /// By one connection. The kernel answers before the question returns: this does not wait.
    pub fn tcp_socket(&self, ends: Ends) -> io::Result<TcpSocket> {
        let request = InetRequest {
            family: if ends.local.is_ipv4() { AF_INET } else { AF_INET6 },
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO,
            states: StateFlags::ESTABLISHED,
            socket_id: SocketId {
                source_port: ends.local.port(),
                destination_port: ends.remote.port(),
                source_address: ends.local.ip(),
                destination_address: ends.remote.ip(),
                interface_id: 0,
                cookie: ANY_COOKIE,
            },
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let mut request = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        request.finalize();
        let mut buffer = vec![0; request.buffer_len()];
        request.serialize(&mut buffer);
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.send(&buffer, 0)?;
        buffer.resize(BUFFER_BYTES, 0);
        let length = socket.recv(&mut &mut buffer[..], nix::libc::MSG_DONTWAIT)?;
        let answer = NetlinkMessage::deserialize(buffer.get(..length).unwrap_or_default()).map_err(io::Error::other)?;
        let response = match answer.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => response,
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let received = response.nlas.iter().find_map(|nla| match nla {
            Nla::TcpInfo(info) => Some(Received {
                bytes: u64::from_ne_bytes(info.get(BYTES_RECEIVED)?.try_into().ok()?),
                pkts: u32::from_ne_bytes(info.get(DATA_SEGS_IN)?.try_into().ok()?),
                out_of_order_pkts: u32::from_ne_bytes(info.get(RCV_OOOPACK)?.try_into().ok()?),
                srtt_us: u32::from_ne_bytes(info.get(RTT)?.try_into().ok()?),
                window_unit_bytes: 1 << rcv_wscale(*info.get(WSCALES)?),
            }),
            _ => None,
        });
        let received = received.ok_or(io::ErrorKind::InvalidData)?;
        Ok(TcpSocket { inode: response.header.inode.into(), received })
    }
}

/// Of two bit fields, the second.
fn rcv_wscale(wscales: u8) -> u8 {
    if cfg!(target_endian = "little") { wscales >> 4 } else { wscales & 0xf }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::linux::fs::MetadataExt;

    #[test]
    fn counts_what_a_connection_received() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut receiver = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut sender, _) = listener.accept().unwrap();
        let ends = Ends { local: receiver.local_addr().unwrap(), remote: receiver.peer_addr().unwrap() };
        let sock_diag = SockDiag::open().unwrap();
        let inode = std::fs::metadata(format!("/proc/self/fd/{}", receiver.as_raw_fd())).unwrap().st_ino();
        let TcpSocket { inode: found, received: before } = sock_diag.tcp_socket(ends).unwrap();
        assert_eq!(found, inode);
        let Received { srtt_us, window_unit_bytes, .. } = before;
        assert_eq!(before, Received { srtt_us, window_unit_bytes, ..Received::default() });
        assert!(window_unit_bytes.is_power_of_two() && window_unit_bytes <= 1 << 14, "RFC 7323, 2.3");
        assert!((1..1_000_000).contains(&before.srtt_us), "{} us, of the connection's making", before.srtt_us);
        sender.write_all(&[0; 10_000]).unwrap();
        receiver.read_exact(&mut [0; 10_000]).unwrap();
        let received = sock_diag.tcp_socket(ends).unwrap().received;
        assert_eq!(received.bytes, 10_000);
        assert!((1..=10).contains(&received.pkts), "{} packets", received.pkts);
    }

    #[test]
    fn a_connection_that_is_not_there_is_an_error_each_time() {
        let nobody = "127.0.0.1:1".parse().unwrap();
        let sock_diag = SockDiag::open().unwrap();
        for _ in 0..2 {
            assert_eq!(
                sock_diag.tcp_socket(Ends { local: nobody, remote: nobody }).unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
        }
    }
}
