# SPDX-License-Identifier: GPL-2.0-only
"""Allocations that fail (the kernel's failslab, fail_page_alloc): the n-th of a task, or some of a piece of code."""

import contextlib
import errno
import functools
import itertools
import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import crew
import fuzz
from family import ACK, CONN_GET, DUMP, ID, REQUEST, SAMPLING_GET, SAMPLING_SET, Family, attribute, message
from iscsi import Connection

DEBUG = Path("/sys/kernel/debug")
KINDS = ("failslab", "fail_page_alloc")
SETTINGS = {"verbose": "0", "times": "-1", "task-filter": "N", "ignore-gfp-wait": "N", "min-order": "0"}
SOME_PCT = 20
ASKS = 20
NO_MEMORY = {errno.ENOMEM, errno.ENOBUFS}
# Our code by the names of its functions; each source file is one piece of its module.
CODE = {
    "iscsi_target_tcp.c": ("iscsi_target_mod", r"(iscsit_)?tcp_\w+"),
    "iscsi_target_nl.c": ("iscsi_target_mod", r"iscsit_nl_\w+|put_\w+|send_samples|sampling_work"),
    "iscsi_target_log.c": ("iscsi_target_mod", r"(iscsit_)?log_\w+"),
    "target_core_log.c": ("target_core_mod", r"log_\w+|target_\w*log\w*|spc_emulate_log_sense"),
}


def prepare() -> None:
    for kind, (name, value) in itertools.product(KINDS, SETTINGS.items()):
        if (setting := DEBUG / kind / name).exists():
            setting.write_text(value)


def reaches(task: str, nth: int, do: Callable[[], object]) -> bool | None:
    """Do it with the task's n-th allocation failing: whether that was told; None if it makes fewer."""
    told = False
    with open(f"/proc/{task}/fail-nth", "r+b", buffering=0) as failing:
        os.pwrite(failing.fileno(), str(nth).encode(), 0)
        try:
            do()
        except OSError as error:
            told = error.errno in NO_MEMORY or isinstance(error, ConnectionError)
            if not told:
                raise
        try:
            left = int(os.pread(failing.fileno(), 16, 0))
            os.pwrite(failing.fileno(), b"0", 0)
        except ProcessLookupError:  # the connection's thread has gone with it
            left = 0
    return None if left else told


def each(name: str, attempt: Callable[[int], bool | None]) -> Iterator[int]:
    """Attempts, until one makes all its allocations. At least one must tell that it failed."""
    outcomes: list[bool] = []
    while (outcome := attempt(len(outcomes) + 1)) is not None:
        outcomes.append(outcome)
        yield 1
    if not any(outcomes):
        raise RuntimeError(f"{name}: of {len(outcomes)} failures none was told")


def requests() -> Iterator[int]:
    """Each of the family's requests without memory, at every place."""
    crew.enter("target")
    family = Family()
    first = attribute(ID, family.dump()[0][ID])
    period = attribute(1, struct.pack("=I", crew.SAMPLING_MS))
    asks = {
        "one": message(family.id, REQUEST, CONN_GET, first),
        "all": message(family.id, REQUEST | DUMP, CONN_GET),
        "sampling": message(family.id, REQUEST, SAMPLING_GET),
        "sample": message(family.id, REQUEST | ACK, SAMPLING_SET, period),
    }
    does = {name: lambda family, request=request: family.ask(request) for name, request in asks.items()}
    does |= {f"join {group}": lambda family, group=group: family.join(group) for group in family.groups}

    def attempt(do: Callable[[Family], object], nth: int) -> bool | None:
        family = Family()  # the one before may have something to say yet
        with contextlib.closing(family.socket):
            return reaches("thread-self", nth, lambda: do(family))

    for name, do in does.items():
        yield from each(name, functools.partial(attempt, do))


def page() -> Iterator[int]:
    """The log page without memory, at every place of the thread that makes it."""

    def attempt(nth: int) -> bool | None:
        with contextlib.closing(crew.log_in("poor", b"\x80poor.")) as session:
            threads = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/comm") if _is_receiver(path)]
            return reaches(str(max(threads)), nth, lambda: _ask(session))

    yield from each("page", attempt)


def _ask(session: Connection) -> None:
    cdb = fuzz.log_sense()
    answer = session.command(cdb, 0xFFFF)
    if answer.status != fuzz.GOOD:
        raise OSError(errno.ENOMEM, "refused")
    fuzz.check_page(cdb, 0xFFFF, answer, session.tsih)


def _is_receiver(comm: Path) -> bool:
    with contextlib.suppress(OSError):  # it has ended
        return comm.read_text().strip() == "iscsi_trx"
    return False


def ask() -> Iterator[int]:
    """An initiator that asks for the log page of a session that the target may have had no memory to observe."""
    with contextlib.closing(crew.log_in("poor", b"\x80poor.")) as session:
        for _ in range(ASKS):
            cdb = fuzz.log_sense()
            answer = session.command(cdb, 0xFFFF)
            observed = min(1, int.from_bytes(answer.data[18:20]))
            yield fuzz.check_page(cdb, 0xFFFF, answer, session.tsih, observed)


@contextlib.contextmanager
def in_code(file: str) -> Iterator[None]:
    """Some of the allocations that this source file causes fail."""
    module, ours = CODE[file]
    text = re.findall(rf"^(\w+) [tT] (\w+)\t\[{module}\]$", Path("/proc/kallsyms").read_text(), re.M)
    places = sorted((int(address, 16), name) for address, name in text)
    mine = [n for n, (_, name) in enumerate(places) if re.fullmatch(ours, name)]
    limits = {"require-start": places[mine[0]][0], "require-end": places[mine[-1] + 1][0]}
    for kind in KINDS:
        for name, place in limits.items():
            (DEBUG / kind / name).write_text(hex(place))
        (DEBUG / kind / "probability").write_text(str(SOME_PCT))
    try:
        yield
    finally:
        for kind in KINDS:
            (DEBUG / kind / "probability").write_text("0")
            for name in reversed(limits):
                (DEBUG / kind / name).write_text("0" if name == "require-start" else hex(2**64 - 1))


def come_and_go() -> Iterator[int]:
    """Sessions that may not get to be."""
    while True:
        crew.log_in("comer", b"\x80" + os.urandom(5)).logout()
        yield 1
