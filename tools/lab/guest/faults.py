# SPDX-License-Identifier: GPL-2.0-only
"""Allocations that fail (the kernel's failslab, fail_page_alloc): the n-th of a task, or some of a piece of code."""

import contextlib
import errno
import itertools
import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import crew
import fuzz
from family import ACK, CONN_GET, DUMP, ID, REQUEST, SAMPLING_GET, SAMPLING_SET, Family, attribute, message

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


def in_turn(task: str, do: Callable[[], object]) -> Iterator[bool]:
    """Do it with the task's first allocation failing, with its second, and so on: whether it failed then, each time."""
    nth = os.open(f"/proc/{task}/fail-nth", os.O_RDWR)
    try:
        for n in itertools.count(1):
            failed = False
            os.pwrite(nth, str(n).encode(), 0)
            try:
                do()
            except OSError as error:
                if error.errno not in NO_MEMORY:
                    raise
                failed = True
            left = int(os.pread(nth, 16, 0))
            os.pwrite(nth, b"0", 0)
            if left:
                return
            yield failed
    finally:
        os.close(nth)


def requests() -> Iterator[int]:
    """Each of the family's requests without memory, at every place."""
    crew.enter("target")
    family = Family()
    first = family.dump()[0][ID]
    period = attribute(1, struct.pack("=I", crew.SAMPLING_MS))
    asks = {
        "one": message(family.id, REQUEST, CONN_GET, attribute(ID, first)),
        "all": message(family.id, REQUEST | DUMP, CONN_GET),
        "sampling": message(family.id, REQUEST, SAMPLING_GET),
        "sample": message(family.id, REQUEST | ACK, SAMPLING_SET, period),
    }
    for name, request in asks.items():
        outcomes = list(in_turn("thread-self", lambda r=request: family.ask(r)))
        if not any(outcomes):
            raise RuntimeError(f"{name}: none of {len(outcomes)} failures was told")
        yield len(outcomes)
    for group in family.groups:
        yield len(list(in_turn("thread-self", lambda g=group: Family().join(g))))


def page() -> Iterator[int]:
    """The log page without memory, at every place of the thread that makes it."""
    with contextlib.closing(crew.log_in("poor", b"\x80poor.")) as session:
        (thread,) = (path.parent.name for path in Path("/proc").glob("[0-9]*/comm") if _is_receiver(path))
        cdb = fuzz.log_sense()

        def ask() -> None:
            fuzz.check_page(cdb, 0xFFFF, session.command(cdb, 0xFFFF), session.tsih)

        outcomes = list(in_turn(thread, ask))
        if not any(outcomes):
            raise RuntimeError(f"none of {len(outcomes)} failures was told")
        yield len(outcomes)


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
