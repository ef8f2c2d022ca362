# SPDX-License-Identifier: GPL-2.0-only
"""Random and mutated requests to the netlink family, and LOG SENSE commands: every answer is checked."""

import contextlib
import errno
import os
import random
import struct
from collections.abc import Iterator

from family import CONN_GET, DUMP, EXT_ACK, ID, REQUEST, SOL_NETLINK, TARGET_IQN, Family, attribute, message
from iscsi import Answer, Connection

LOG_SENSE, TEST_UNIT_READY, READ_10 = 0x4D, 0x00, 0x28
GOOD, CHECK_CONDITION, TASK_SET_FULL = 0x00, 0x02, 0x28
ILLEGAL_REQUEST, INVALID_FIELD_IN_CDB = 5, 0x24
PAGE, ALL_SUBPAGES, CUMULATIVE = 0x3C, 0xFF, 0x40
COMMAND_WINDOW = 64  # the target's default_cmdsn_depth
SUBPAGES = 64 * 256
SYSTEMATIC = SUBPAGES + (1 << 16)
IN_FLIGHT = 16
ROUND = 50
BLOCK_BYTES = 512
# What a request may be refused with.
REFUSALS = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT, errno.ERANGE, errno.EBUSY}


def log_sense(
    page: int = PAGE, subpage: int = 0, pointer: int = 0, asked_bytes: int = 0xFFFF, byte_1: int = 0
) -> bytes:
    """The command; page with the page control in its upper bits."""
    return struct.pack(">BBBBBHHB6x", LOG_SENSE, byte_1, page, subpage, 0, pointer, asked_bytes, 0)


def read_10(blocks: int) -> bytes:
    return struct.pack(">BBIBHB6x", READ_10, 0, 0, 0, blocks, 0)


def make_ready(session: Connection) -> None:
    """The unit attentions of a new session, told and done with."""
    while session.command(bytes([TEST_UNIT_READY]).ljust(16, b"\0"), 0).status:
        pass


def expected_page(cdb: bytes, tsih: int, connections: int) -> list[int | None] | None:
    """The page's bytes, None where any may stand; None if the command must be refused."""
    _, byte_1, page, subpage, _, pointer, _, _ = struct.unpack(">BBBBBHHB6x", cdb)
    control, code = page >> 6, page & 0x3F
    if byte_1:
        return None
    if code == 0:
        if pointer or subpage not in (0, ALL_SUBPAGES):
            return None
        return [0x40, 0xFF, 0, 6, 0, 0, 0, 0xFF, PAGE, 0] if subpage else [0, 0, 0, 2, 0, PAGE]
    if code != PAGE or subpage or control > 1 or pointer > 1:
        return None
    session = [0, 0, 3, 32, *b"LIO-CWND", 1, 0, 0, connections, *tsih.to_bytes(2), 0, COMMAND_WINDOW, *[None] * 16]
    connection = [0, 1, 3, 172, 0, 0, *[None] * 170] * connections
    parameters = connection if pointer else session + connection
    return [0x80 | PAGE, 0, *len(parameters).to_bytes(2), *parameters]


def check_page(cdb: bytes, wanted_bytes: int, answer: Answer, tsih: int, connections: int = 1) -> bool:
    """Whether the command was answered; an answer or a refusal that is not what it must be is raised."""
    if answer.status == TASK_SET_FULL:
        raise OSError(errno.ENOMEM, "the target has no memory")
    page = expected_page(cdb, tsih, connections)
    wrong = None
    if page is None:
        sense = answer.sense
        if answer.status != CHECK_CONDITION or (sense[2] & 0xF, sense[12]) != (ILLEGAL_REQUEST, INVALID_FIELD_IN_CDB):
            wrong = f"not refused: status {answer.status}, sense {sense.hex()}"
        elif answer.data:
            wrong = f"refused, with data {answer.data.hex()}"
    elif answer.status != GOOD:
        wrong = f"status {answer.status}, sense {answer.sense.hex()}"
    else:
        asked = int.from_bytes(cdb[7:9])
        length = min(len(page), asked, wanted_bytes)
        if len(answer.data) != length:
            wrong = f"{len(answer.data)} bytes instead of {length}"
        elif asked <= wanted_bytes and answer.residual_bytes != wanted_bytes - length:
            wrong = f"residual {answer.residual_bytes} instead of {wanted_bytes - length}"
        elif any(want not in (None, have) for want, have in zip(page, answer.data, strict=False)):
            wrong = answer.data.hex()
    if wrong:
        raise RuntimeError(f"LOG SENSE {cdb[:10].hex()}, {wanted_bytes} bytes, session {tsih}: {wrong}")
    return page is not None


def _command(n: int, chance: random.Random) -> tuple[bytes, int]:
    """The n-th LOG SENSE command, and how many bytes the initiator takes: first all subpages, then all lengths."""
    if n < SUBPAGES:
        return log_sense(chance.randrange(4) << 6 | n >> 8, n & 0xFF), 0xFFFF
    if n < SYSTEMATIC:
        asked = n - SUBPAGES
        return log_sense(chance.choice((PAGE, CUMULATIVE | PAGE)), 0, chance.randrange(2), asked), asked
    cdb = bytearray(log_sense(chance.choice((0, PAGE, CUMULATIVE | PAGE)), pointer=chance.randrange(3)))
    for _ in range(chance.randrange(3)):
        cdb[chance.choice((1, 2, 3, 4, 5, 6, 9))] = chance.choice((0, 1, 0xFF, chance.randrange(256)))
    asked = chance.choice((0, chance.randrange(300), chance.randrange(1 << 16)))
    cdb[7:9] = asked.to_bytes(2)
    return bytes(cdb), chance.choice((asked, asked, chance.randrange(300), chance.randrange(1 << 17)))


def fuzz_pages(sessions: list[Connection], count: int, seed: int) -> Iterator[bool]:
    """LOG SENSE commands in any order, many under way in each session at once: whether each was answered."""
    chance = random.Random(seed)
    todo = iter(chance.sample(range(max(count, 2 * SYSTEMATIC)), count))
    under_way: list[dict[int, tuple[bytes, int]]] = [{} for _ in sessions]
    more = True
    while more or any(under_way):
        for session, waiting in zip(sessions, under_way, strict=True):
            while more and len(waiting) < IN_FLIGHT:
                if (n := next(todo, None)) is None:
                    more = False
                else:
                    command = _command(n, chance)
                    waiting[session.send(*command)] = command
            for _ in range(IN_FLIGHT // 2 if more else len(waiting)):
                tag, answer = session.receive()
                yield check_page(*waiting.pop(tag), answer, session.tsih)


def _mutated(request: bytes, family: int, chance: random.Random) -> bytes:
    changed = bytearray(request)
    for _ in range(chance.randrange(4)):
        kind = chance.randrange(5)
        if kind == 0:  # a byte of anything
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        elif kind == 1:  # an attribute's length, or its number
            at = chance.choice((20, 22))
            if len(changed) >= at + 2:
                changed[at : at + 2] = chance.choice((0, 3, 5, 8, 0xFFFF, chance.randrange(1 << 16))).to_bytes(2)
        elif kind == 2:
            changed += attribute(chance.randrange(1 << 16), chance.randbytes(chance.randrange(64)))
        elif kind == 3:
            changed += chance.randbytes(chance.randrange(32))
        else:
            del changed[chance.randrange(16, len(changed) + 1) :]
    length = chance.randrange(1 << 17) if chance.randrange(20) == 0 else len(changed)
    return struct.pack("=IH", length, family) + bytes(changed[6:])  # never to another family


def fuzz_family(count: int, seed: int, target: str) -> Iterator[int]:
    """Random and mutated requests, and whether what comes back may: how many since."""
    chance, family = random.Random(seed), Family()
    family.socket.setsockopt(SOL_NETLINK, EXT_ACK, 1)
    family.socket.setblocking(False)
    for n in range(count):
        command = chance.choice((CONN_GET, CONN_GET, chance.randrange(8), chance.randrange(256)))
        flags = REQUEST | chance.choice((0, DUMP, chance.randrange(1 << 16)))
        value = chance.choice((1, 2, 100, chance.randrange(1 << 32)))
        payload = b"" if flags & DUMP else attribute(ID, struct.pack("=I", value))
        request = _mutated(message(family.id, flags, command, payload, n), family.id, chance)
        family.socket.send(request)
        with contextlib.suppress(BlockingIOError):
            while True:
                for found in family.messages(family.socket.recv(1 << 17)):
                    if found.error and found.error not in REFUSALS:
                        raise RuntimeError(f"request {request.hex()}: {os.strerror(found.error)}")
                    if found.command == CONN_GET and found.attributes[TARGET_IQN] != target.encode() + b"\0":
                        raise RuntimeError(f"request {request.hex()}: {found}")
        if n % ROUND == ROUND - 1:
            yield ROUND
