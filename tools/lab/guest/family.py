# SPDX-License-Identifier: GPL-2.0-only
"""The netlink family "iscsit" on a plain socket: whatever bytes are wanted out, checked records in."""

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

NETLINK_GENERIC, SOL_NETLINK, ADD_MEMBERSHIP, EXT_ACK = 16, 270, 1, 11
ERROR, DONE = 2, 3
REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
CTRL, CTRL_GETFAMILY, CTRL_FAMILY_NAME = 16, 3, 2
CTRL_FAMILY_ID, CTRL_MCAST_GROUPS = 1, 7
CONN_GET, CONN_EVENT, CONN_SAMPLE, SAMPLING_GET, SAMPLING_SET = range(1, 6)
NAME_BYTES = 224  # the longest that an iSCSI name may be, and a zero
RECEIVES_BYTES = 1 << 17

# The attributes of a connection by their numbers, include/uapi/linux/iscsit.h: how long each may be.
NAME, ADDRESS, COUNT = range(1, NAME_BYTES + 1), (16, 28), (16,)
_FRONT = [(4,), NAME, (2,), NAME, (6,), (2,), (2,), ADDRESS, ADDRESS, (8,), (1,)]
_TCP = [(1,), *[(4,)] * 10, (8,), (1,), (8,), (4,), (8,), (8,), (8,), (4,), (8,), (8,), (8,), (4,), (4,)]
CONN = dict(enumerate([*_FRONT, *_TCP, *[COUNT] * 5, (8,), (1,)], 1))
ID, TARGET_IQN, INITIATOR_IQN, ISID, TSIH, LOCAL_ADDR = 1, 2, 4, 5, 6, 8
ALLOWED = {CONN_GET: CONN, CONN_EVENT: CONN, CONN_SAMPLE: CONN, SAMPLING_GET: {1: (4,)}}


@dataclass
class Message:
    kind: int
    command: int
    error: int  # of an ERROR, positive
    attributes: dict[int, bytes]


def attributes(data: bytes) -> dict[int, bytes]:
    """Attributes by number; any byte that does not belong to one is an error."""
    found, at = {}, 0
    while at < len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            raise ValueError(f"attribute {kind} of {length} bytes at {at} of {len(data)}")
        if (kind := kind & 0x3FFF) in found:
            raise ValueError(f"attribute {kind} twice")
        found[kind] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind: int, flags: int, command: int, payload: bytes = b"", sequence: int = 0) -> bytes:
    return struct.pack("=IHHIIBBH", 20 + len(payload), kind, flags, sequence, 0, command, 1, 0) + payload


class Family:
    """A socket of this process's network namespace."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.socket.bind((0, 0))
        self.socket.settimeout(180)
        name = attribute(CTRL_FAMILY_NAME, b"iscsit\0")
        answer = self.ask(message(CTRL, REQUEST, CTRL_GETFAMILY, name), ctrl=True)
        self.id = int.from_bytes(answer[0].attributes[CTRL_FAMILY_ID], "little")
        self.groups = {}
        for group in attributes(answer[0].attributes[CTRL_MCAST_GROUPS]).values():
            number, name = (attributes(group)[kind] for kind in (2, 1))
            self.groups[name.rstrip(b"\0").decode()] = int.from_bytes(number, "little")

    def join(self, group: str) -> None:
        self.socket.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, self.groups[group])

    def messages(self, data: bytes, ctrl: bool = False) -> Iterator[Message]:
        """A datagram's messages, each checked against what the family may say."""
        while data:
            length, kind, _, _, _ = struct.unpack_from("=IHHII", data)
            if length < 16 or length > len(data):
                raise ValueError(f"message of {length} bytes in {len(data)}")
            body, data = data[16:length], data[(length + 3) & ~3 :]
            if kind in (ERROR, DONE):
                yield Message(kind, 0, -struct.unpack_from("=i", body)[0], {})
                continue
            found = Message(kind, body[0], 0, attributes(body[4:]))
            if not ctrl:
                self._check(found)
            yield found

    def _check(self, found: Message) -> None:
        if found.kind != self.id or found.command not in ALLOWED:
            raise ValueError(f"message {found.kind}, command {found.command} from family {self.id}")
        allowed = ALLOWED[found.command]
        for kind, value in found.attributes.items():
            if kind not in allowed or len(value) not in allowed[kind]:
                raise ValueError(f"command {found.command}: attribute {kind} of {len(value)} bytes")
            if allowed[kind] is NAME and (value.find(b"\0") != len(value) - 1 or not value.startswith(b"iqn.")):
                raise ValueError(f"attribute {kind}: {value!r}")

    def ask(self, request: bytes, ctrl: bool = False) -> list[Message]:
        """Send one well-formed request; its answer up to the error or the end, which are raised or left out."""
        self.socket.send(request)
        dump = struct.unpack_from("=H", request, 6)[0] & DUMP
        answer: list[Message] = []
        while True:
            for found in self.messages(self.socket.recv(RECEIVES_BYTES), ctrl):
                if found.kind in (ERROR, DONE):
                    if found.error:
                        raise OSError(found.error, os.strerror(found.error))
                    return answer
                answer.append(found)
            if not dump:
                return answer

    def dump(self) -> list[dict[int, bytes]]:
        return [found.attributes for found in self.ask(message(self.id, REQUEST | DUMP, CONN_GET))]

    def connection(self, number: int) -> dict[int, bytes]:
        number_attribute = attribute(ID, struct.pack("=I", number))
        return self.ask(message(self.id, REQUEST, CONN_GET, number_attribute))[0].attributes

    def period_ms(self) -> int:
        (answer,) = self.ask(message(self.id, REQUEST, SAMPLING_GET))
        return int.from_bytes(answer.attributes[1], "little")

    def set_period_ms(self, period_ms: int) -> None:
        self.ask(message(self.id, REQUEST | ACK, SAMPLING_SET, attribute(1, struct.pack("=I", period_ms))))
