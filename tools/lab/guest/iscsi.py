# SPDX-License-Identifier: GPL-2.0-only
"""An initiator on a plain socket (RFC 7143): as many sessions and connections as wanted, which do what is wanted."""

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from net import TARGET

PORT = 3260
PATIENCE_S = 600
HEADER_BYTES = 48
NOP_OUT, COMMAND, LOGIN, LOGOUT = 0x40, 0x01, 0x43, 0x46  # all but commands are immediate
NOP_IN, RESPONSE, LOGIN_RESPONSE, DATA_IN, LOGOUT_RESPONSE, REJECT = 0x20, 0x21, 0x23, 0x25, 0x26, 0x3F
OPERATIONAL = 0x04  # negotiation, which goes on
TO_FULL_FEATURE = 0x87  # from there, at its end
FINAL, READ, SIMPLE = 0x80, 0x40, 0x01
STATUS, UNDERFLOW, OVERFLOW = 0x01, 0x02, 0x04
CLOSE_SESSION, CLOSE_CONNECTION = 0, 1
NOBODY = 0xFFFFFFFF
ISID = b"\x80\0\0\0\0\x01"
RECEIVES_BYTES = 1 << 18
# All of them: the target would remark upon each that is left out.
SESSION_KEYS = {
    **{"ErrorRecoveryLevel": 0, "MaxConnections": 2, "InitialR2T": "Yes", "ImmediateData": "Yes"},
    **{"MaxOutstandingR2T": 1, "DefaultTime2Wait": 2, "DefaultTime2Retain": 20, "DataPDUInOrder": "Yes"},
    **{"DataSequenceInOrder": "Yes", "FirstBurstLength": RECEIVES_BYTES, "MaxBurstLength": RECEIVES_BYTES},
}
CONNECTION_KEYS = {"HeaderDigest": "None", "DataDigest": "None", "MaxRecvDataSegmentLength": RECEIVES_BYTES}
DECLARED = ("TargetAlias", "TargetPortalGroupTag")  # by the target: no answer


@dataclass
class Answer:
    """What came of a command; residual_bytes is negative where the target had more than was expected."""

    status: int
    data: bytes
    sense: bytes
    residual_bytes: int


def _text(keys: dict[str, object]) -> bytes:
    return "".join(f"{key}={value}\0" for key, value in keys.items()).encode()


class Connection:
    """One connection, logged in: of a session of its own, or of that of the first one."""

    def __init__(
        self,
        target: str,
        initiator: str,
        *,
        isid: bytes = ISID,
        cid: int = 0,
        first: "Connection | None" = None,
        keys: dict[str, object] | None = None,
        meanwhile: Callable[[], object] | None = None,
    ):
        """keys: what is to be negotiated otherwise; meanwhile: what happens in the middle of the login."""
        self.cid, self.session = cid, first or self
        self._status_number = 0
        self._data: dict[int, bytes] = {}  # of commands under way
        if not first:
            self.isid, self.tsih, self._command_number, self._tag = isid, 0, 1, 0
        names = {"InitiatorName": initiator, "TargetName": target, "SessionType": "Normal"}
        keys = names | CONNECTION_KEYS | ({} if first else SESSION_KEYS) | (keys or {})
        self.socket = socket.create_connection((TARGET, PORT), PATIENCE_S)
        try:
            self.socket.settimeout(None)  # the kernel's instead, which knows MSG_WAITALL
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE_S, 0))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._login(keys, meanwhile)
        except BaseException:
            self.close()
            raise

    def _login(self, keys: dict[str, object], meanwhile: Callable[[], object] | None) -> None:
        rest = struct.pack(">6sHIHxx", self.session.isid, self.session.tsih, self._next_tag(), self.cid)
        flags, said = 0, keys
        if meanwhile:
            self._send(LOGIN, OPERATIONAL, rest, _text(keys))
            self._receive()
            meanwhile()
            said = {}
        while not flags & FINAL:
            self._send(LOGIN, TO_FULL_FEATURE, rest, _text(said))
            header, data = self._receive()
            if header[0] != LOGIN_RESPONSE or header[36]:
                raise ConnectionError(f"login refused: {header[36]:02x}{header[37]:02x}")
            flags = header[1]
            proposed = dict(pair.split("=", 1) for pair in data.decode().split("\0") if pair)
            said = {key: value for key, value in proposed.items() if key not in (*DECLARED, *keys)}
        (self.session.tsih,) = struct.unpack_from(">H", header, 14)

    def _next_tag(self) -> int:
        self.session._tag += 1
        return self.session._tag

    def _send(self, opcode: int, flags: int, rest: bytes, data: bytes = b"", tail: bytes = b"") -> None:
        """A PDU; rest are bytes 8 to 23 of its header, tail those from 32 on."""
        header = struct.pack(">BBxxI", opcode, flags, len(data)) + rest
        header += struct.pack(">II", self.session._command_number, self._status_number) + tail.ljust(16, b"\0")
        self.socket.sendall(header + data + bytes(-len(data) % 4))

    def _read(self, count: int) -> bytes:
        data = self.socket.recv(count, socket.MSG_WAITALL) if count else b""
        if len(data) < count:
            raise ConnectionResetError(f"connection {self.cid}: closed by the target")
        return data

    def _receive(self) -> tuple[bytes, bytes]:
        """The next PDU's header and data; the target's own question, whether we are there, is answered."""
        while True:
            header = self._read(HEADER_BYTES)
            length = int.from_bytes(header[5:8])
            data = self._read(length + -length % 4)[:length]
            if header[0] not in (NOP_IN, DATA_IN) or header[1] & STATUS:
                self._status_number = int.from_bytes(header[24:28]) + 1
            if header[0] != NOP_IN:
                return header, data
            if header[20:24] != NOBODY.to_bytes(4):
                self._send(NOP_OUT, FINAL, header[8:16] + NOBODY.to_bytes(4) + header[20:24])

    def send(self, cdb: bytes, expected_bytes: int, lun: int = 0) -> int:
        """Send a command that reads that much at most; its tag."""
        tag = self._next_tag()
        flags = FINAL | READ * bool(expected_bytes) | SIMPLE
        self._send(COMMAND, flags, struct.pack(">BB6xII", 0, lun, tag, expected_bytes), tail=cdb)
        self.session._command_number = (self.session._command_number + 1) % 2**32
        return tag

    def receive(self) -> tuple[int, Answer]:
        """The next command that is done: its tag, and what came of it."""
        while True:
            header, data = self._receive()
            (tag,) = struct.unpack_from(">I", header, 16)
            opcode, flags, response, status = header[:4]
            if opcode == REJECT:
                raise ConnectionError(f"rejected: reason {response:02x}")
            if opcode == DATA_IN:
                (offset,) = struct.unpack_from(">I", header, 40)
                have = self._data.get(tag, b"")
                if offset != len(have):
                    raise RuntimeError(f"data for byte {offset} where {len(have)} was to come")
                self._data[tag] = have + data
                if not flags & STATUS:
                    continue
            elif opcode != RESPONSE:
                raise RuntimeError(f"unexpected PDU {header.hex()}")
            elif response:
                raise ConnectionError(f"iSCSI response {response:02x}")
            residual = int.from_bytes(header[44:48]) * (bool(flags & UNDERFLOW) - bool(flags & OVERFLOW))
            sense = data[2:] if opcode == RESPONSE else b""
            return tag, Answer(status, self._data.pop(tag, b""), sense, residual)

    def command(self, cdb: bytes, expected_bytes: int, lun: int = 0) -> Answer:
        """Send a command and wait for it; nothing else may be under way."""
        self.send(cdb, expected_bytes, lun)
        return self.receive()[1]

    def logout(self, what: int = CLOSE_SESSION) -> None:
        self._send(LOGOUT, FINAL | what, struct.pack(">8xIHxx", self._next_tag(), self.cid))
        while self._receive()[0][0] != LOGOUT_RESPONSE:
            pass
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Go without a word: the target gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()
