# SPDX-License-Identifier: GPL-2.0-only
"""A small iSCSI initiator on a plain socket (RFC 7143): as many sessions as wanted, that say and do what is wanted."""

import socket
import struct
from dataclasses import dataclass

HEADER_BYTES = 48
NOP_OUT, COMMAND, LOGIN, DATA_OUT, LOGOUT = 0x00, 0x01, 0x03, 0x05, 0x06
NOP_IN, RESPONSE, LOGIN_RESPONSE, DATA_IN, LOGOUT_RESPONSE, REJECT = 0x20, 0x21, 0x23, 0x25, 0x26, 0x3F
IMMEDIATE, FINAL, READ, STATUS = 0x40, 0x80, 0x40, 0x01
OPERATIONAL_TO_FULL_FEATURE = 1 << 2 | 3
NOBODY = 0xFFFFFFFF
RECEIVES_BYTES = 1 << 18
# All of them: the target would remark upon each that is left out.
KEYS = (
    *("SessionType=Normal", "HeaderDigest=None", "DataDigest=None", "ErrorRecoveryLevel=0", "MaxConnections=1"),
    *("InitialR2T=Yes", "ImmediateData=Yes", "MaxOutstandingR2T=1", "DefaultTime2Wait=2", "DefaultTime2Retain=0"),
    *("DataPDUInOrder=Yes", "DataSequenceInOrder=Yes", f"MaxRecvDataSegmentLength={RECEIVES_BYTES}"),
    *(f"FirstBurstLength={RECEIVES_BYTES}", f"MaxBurstLength={RECEIVES_BYTES}"),
)
PORT = 3260
PATIENCE_S = 180


@dataclass
class Answer:
    """What came of a command: its data, SCSI status, sense data, and the residual (negative: overflow)."""

    data: bytes
    status: int
    sense: bytes
    residual: int


class Session:
    """A session of one connection, logged in."""

    def __init__(self, address: str, target: str, initiator: str, isid: bytes):
        self.isid = isid
        self._tag = 0
        self._command_number, self._status_number = 1, 0
        self._data: dict[int, bytes] = {}
        self.socket = socket.create_connection((address, PORT), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self.socket.makefile("rb", RECEIVES_BYTES)
        keys = (f"InitiatorName={initiator}", f"TargetName={target}", *KEYS)
        try:
            self._login("".join(f"{key}\0" for key in keys).encode())
        except BaseException:
            self.socket.close()
            raise

    def _login(self, keys: bytes) -> None:
        tsih, flags = 0, 0
        while not flags & FINAL:
            words = struct.pack(">6sHIHHIII", self.isid, tsih, 0, 0, 0, self._command_number, self._status_number, 0)
            self._send(IMMEDIATE | LOGIN, FINAL | OPERATIONAL_TO_FULL_FEATURE, words, keys)
            header, _ = self._receive()
            if header[0] != LOGIN_RESPONSE or header[36]:
                raise ConnectionError(f"login refused: {header[36]:02x}{header[37]:02x}")
            flags, keys = header[1], b""
            (tsih,) = struct.unpack_from(">H", header, 14)
        self.tsih = tsih

    def _send(self, opcode: int, flags: int, rest: bytes, data: bytes = b"") -> None:
        """A PDU: rest is the header from byte 8 on."""
        header = struct.pack(">BBHI", opcode, flags, 0, len(data)) + rest
        self.socket.sendall(header.ljust(HEADER_BYTES, b"\0") + data + bytes(-len(data) % 4))

    def _receive(self) -> tuple[bytes, bytes]:
        """The next PDU's header and data; the target's own question, whether we are there, is answered."""
        while True:
            header = self._stream.read(HEADER_BYTES)
            if len(header) < HEADER_BYTES:
                raise ConnectionResetError("the target has closed")
            length = int.from_bytes(header[5:8])
            data = self._stream.read(length + -length % 4)[:length]
            if header[0] not in (NOP_IN, DATA_IN) or header[1] & STATUS:
                self._status_number = int.from_bytes(header[24:28]) + 1
            if header[0] != NOP_IN:
                return header, data
            if header[20:24] != NOBODY.to_bytes(4):
                numbers = struct.pack(">II", self._command_number, self._status_number)
                self._send(IMMEDIATE | NOP_OUT, FINAL, header[8:16] + NOBODY.to_bytes(4) + header[20:24] + numbers)

    def send(self, cdb: bytes, length_bytes: int) -> int:
        """Send a command that reads that much at most; its tag."""
        self._tag += 1
        numbers = (self._tag, length_bytes, self._command_number, self._status_number)
        self._send(COMMAND, FINAL | READ * bool(length_bytes), struct.pack(">QIIII", 0, *numbers) + cdb)
        self._command_number = (self._command_number + 1) % 2**32
        return self._tag

    def receive(self) -> tuple[int, Answer]:
        """The next command that is done: its tag, and what came of it."""
        while True:
            header, data = self._receive()
            (tag,) = struct.unpack_from(">I", header, 16)
            if header[0] == REJECT:
                raise ConnectionError(f"rejected: reason {header[2]:02x}")
            if header[0] == DATA_IN:
                (offset,) = struct.unpack_from(">I", header, 40)
                have = self._data.get(tag, b"")
                if offset != len(have):
                    raise RuntimeError(f"data for byte {offset} where {len(have)} was to come")
                self._data[tag] = have + data
                if not header[1] & STATUS:
                    continue
            elif header[0] != RESPONSE:
                raise RuntimeError(f"unexpected PDU {header.hex()}")
            residual = int.from_bytes(header[44:48]) * (-1 if header[1] & 4 else 1)
            sense = data[2:] if header[0] == RESPONSE else b""
            return tag, Answer(self._data.pop(tag, b""), header[3], sense, residual)

    def command(self, cdb: bytes, length_bytes: int) -> Answer:
        """Send a command and wait for it; nothing else may be under way."""
        self.send(cdb, length_bytes)
        return self.receive()[1]

    def logout(self) -> None:
        self._tag += 1
        numbers = struct.pack(">QIHHII", 0, self._tag, 0, 0, self._command_number, self._status_number)
        self._send(IMMEDIATE | LOGOUT, FINAL, numbers)
        while self._receive()[0][0] != LOGOUT_RESPONSE:
            pass
        self.close()

    def close(self) -> None:
        self._stream.close()
        self.socket.close()

    def reset(self) -> None:
        """Go without a word: the target gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()
