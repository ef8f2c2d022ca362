# SPDX-License-Identifier: GPL-2.0-only
"""An initiator of one's own, for what open-iscsi does not do: bare commands, and several connections to a session."""

import socket
import struct
from dataclasses import dataclass

from net import TARGET

PORT = 3260
NOP_IN, LOGIN, LOGIN_RESPONSE, COMMAND, RESPONSE, DATA_IN = 0x20, 0x43, 0x23, 0x01, 0x21, 0x25
LOGOUT, LOGOUT_RESPONSE = 0x46, 0x26
TO_FULL_FEATURE = 0x87  # from operational negotiation, which is at its end
FINAL, READ, SIMPLE = 0x80, 0x40, 0x01
STATUS, UNDERFLOW, OVERFLOW = 0x01, 0x02, 0x04
DATA_MAX_BYTES = 1 << 18
DECLARED = ("TargetAlias", "TargetPortalGroupTag")  # by the target: no answer


@dataclass
class Answer:
    """What came of a command; residual_bytes is negative where the target had more than was expected."""

    status: int
    data: bytes
    sense: bytes
    residual_bytes: int


class Connection:
    """One connection; the first of a session has no other."""

    def __init__(self, iqn: str, initiator: str, *, cid: int = 0, first: "Connection | None" = None):
        self.cid, self.session = cid, first or self
        self.exp_stat_sn = 0
        if not first:
            self.isid, self.tsih, self.cmd_sn, self.tag = b"\x80\0\0\0\0\x01", 0, 1, 0
        self.socket = socket.create_connection((TARGET, PORT))
        keys = {"InitiatorName": initiator, "TargetName": iqn, "SessionType": "Normal"}
        if not first:
            keys |= {"MaxConnections": 2}
        keys |= {"HeaderDigest": "None", "DataDigest": "None", "MaxRecvDataSegmentLength": DATA_MAX_BYTES}
        text = "".join(f"{key}={value}\0" for key, value in keys.items())
        rest = struct.pack(">6sHIHxx", self.session.isid, self.session.tsih, self._next_tag(), cid)
        flags = 0
        while not flags & FINAL:
            self._send(LOGIN, TO_FULL_FEATURE, rest, text.encode())
            answer, said = self._receive(LOGIN_RESPONSE)
            if answer[36]:
                raise RuntimeError(f"login of connection {cid}: status {answer[36]:02x}{answer[37]:02x}h")
            flags = answer[1]
            proposed = dict(pair.split("=", 1) for pair in said.decode().split("\0") if pair)
            text = "".join(f"{key}={value}\0" for key, value in proposed.items() if key not in DECLARED + tuple(keys))
        if not first:
            (self.tsih,) = struct.unpack_from(">H", answer, 14)

    def _next_tag(self) -> int:
        self.session.tag += 1
        return self.session.tag

    def _send(self, opcode: int, flags: int, rest: bytes, data: bytes = b"", tail: bytes = b"") -> None:
        """A PDU; rest are bytes 8 to 23 of its header, tail those from 32 on."""
        header = struct.pack(">BBxxI", opcode, flags, len(data)) + rest
        header += struct.pack(">II", self.session.cmd_sn, self.exp_stat_sn) + tail.ljust(16, b"\0")
        self.socket.sendall(header + data + bytes(-len(data) % 4))

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            if not (piece := self.socket.recv(count - len(data))):
                raise RuntimeError(f"connection {self.cid}: closed by the target")
            data += piece
        return data

    def _receive(self, *opcodes: int) -> tuple[bytes, bytes]:
        """Header and data of the next PDU, which must be one of those."""
        while True:
            header = self._read(48)
            length = struct.unpack(">I", header[4:8])[0] & 0xFFFFFF
            data = self._read(length + -length % 4)[:length]
            if header[0] & 0x3F == NOP_IN:
                continue
            if header[0] & 0x3F not in opcodes:
                raise RuntimeError(f"connection {self.cid}: unexpected PDU {header[0]:02x}h")
            if header[0] & 0x3F != DATA_IN or header[1] & STATUS:
                self.exp_stat_sn = struct.unpack(">I", header[24:28])[0] + 1
            return header, data

    def command(self, cdb: bytes, expected_bytes: int, lun: int = 0) -> Answer:
        """Send a command that reads, and wait for what comes of it."""
        rest = struct.pack(">BB6xII", 0, lun, self._next_tag(), expected_bytes)
        self._send(COMMAND, FINAL | READ | SIMPLE, rest, tail=cdb)
        self.session.cmd_sn += 1
        data = bytearray()
        while True:
            header, piece = self._receive(DATA_IN, RESPONSE)
            opcode, flags = header[0] & 0x3F, header[1]
            if opcode == DATA_IN:
                data += piece
            if opcode == RESPONSE or flags & STATUS:
                break
        if opcode == RESPONSE and header[2]:
            raise RuntimeError(f"connection {self.cid}: iSCSI response {header[2]:02x}h")
        residual = struct.unpack(">I", header[44:48])[0]
        sign = 1 if flags & UNDERFLOW else -1 if flags & OVERFLOW else 0
        sense = piece[2:] if opcode == RESPONSE else b""
        return Answer(header[3], bytes(data), sense, sign * residual)

    def logout(self) -> None:
        """Close this connection only."""
        rest = struct.pack(">8xIHxx", self._next_tag(), self.cid)
        self._send(LOGOUT, FINAL | 1, rest)
        self._receive(LOGOUT_RESPONSE)
        self.socket.close()
