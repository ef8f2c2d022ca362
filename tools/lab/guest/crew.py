# SPDX-License-Identifier: GPL-2.0-only
"""Who uses the target while something is done to it: processes that go on until they are told to stop."""

import contextlib
import errno
import multiprocessing
import os
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import fuzz
from family import ID, INITIATOR_IQN, ISID, Family
from iscsi import Connection
from net import run, within

IQN = "iqn.2026-11.lab.example:cwnd"
INITIATOR = "iqn.2026-11.lab.example:{}"
PAUSE_S = 0.001  # where time is virtual, it passes in pauses only
RETRY_S = 0.1
READ_BLOCKS = 128
READS = 4
SAMPLING_MS = 10
PATIENCE_S = 600

fork = multiprocessing.get_context("fork")


def enter(netns: str) -> None:
    """Be in that network namespace from now on."""
    here = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    os.setns(here, os.CLONE_NEWNET)
    os.close(here)


def log_in(who: str, isid: bytes, keys: dict[str, object] | None = None) -> Connection:
    """A session that is ready. The target refuses logins while it is busy with one, so this tries for a while."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            session = Connection(IQN, INITIATOR.format(who), isid=isid, keys=keys)
            try:
                fuzz.make_ready(session)
                return session
            except BaseException:
                session.close()
                raise
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


class Crew:
    """The jobs, each a process. A job is a generator of how much it has done since; an error of it is a finding."""

    def __init__(self, jobs: dict[str, Callable[[], Iterator[int]]]):
        self._over, self._found = fork.Event(), fork.SimpleQueue()
        self._counts = {name: fork.Value("Q", 0) for name in jobs}
        arguments = {name: (job, self._over, self._counts[name], self._found) for name, job in jobs.items()}
        self._processes = [fork.Process(target=_work, args=(name, *rest)) for name, rest in arguments.items()]

    def __enter__(self) -> "Crew":
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for process in self._processes:
            process.join(2 * PATIENCE_S)
            if process.exitcode is None:
                process.kill()
                process.join()
        self.look()

    @classmethod
    def finished(cls, jobs: dict[str, Callable[[], Iterator[int]]]) -> Counter[str]:
        """What these jobs, which come to an end, have done."""
        with cls(jobs) as these:
            for process in these._processes:
                process.join()
        return Counter(these.done())

    def look(self) -> None:
        """Raise what was found."""
        if not self._found.empty():
            raise RuntimeError(self._found.get())

    def done(self) -> dict[str, int]:
        return {name: count.value for name, count in self._counts.items()}

    def wait_for_more(self, *names: str) -> None:
        """Until these jobs have got on, which shows that the target serves again."""
        before, deadline = self.done(), time.monotonic() + PATIENCE_S
        while stuck := [name for name in names if self._counts[name].value == before[name]]:
            self.look()
            if time.monotonic() > deadline:
                self._tell_where(stuck)
                raise RuntimeError(f"{', '.join(stuck)}: no further within {PATIENCE_S} s")
            time.sleep(RETRY_S)

    def _tell_where(self, stuck: list[str]) -> None:
        """On the console: all connections, and where in the kernel the stuck jobs and the target's threads are."""
        for netns in ("initiator", "target"):
            with contextlib.suppress(RuntimeError):  # it may be gone
                print(netns, run(*within(netns, "ss", "-tanoe")), flush=True)
        numbers = {process.pid for name, process in zip(self._counts, self._processes, strict=True) if name in stuck}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name = (process / "comm").read_text().strip()
                if int(process.name) in numbers or name.startswith("iscsi_"):
                    print(process.name, name, (process / "stack").read_text(), sep="\n", flush=True)


def _work(name: str, job: Callable[[], Iterator[int]], over: Event, count, found) -> None:  # noqa: ANN001
    try:
        for n in job():
            count.value += n
            if over.is_set():
                break
            time.sleep(PAUSE_S)
    except BaseException:
        found.put(f"{name}: {traceback.format_exc()}")
    os._exit(0)


def patiently(job: Callable[[], Iterator[int]]) -> Callable[[], Iterator[int]]:
    """The job again, each time that it loses its connection or its target: for while they are being killed."""

    def again() -> Iterator[int]:
        while True:
            with contextlib.suppress(OSError):
                yield from job()
            time.sleep(RETRY_S)
            yield 0

    return again


# The jobs


def dump() -> Iterator[int]:
    """All records, and each by its number."""
    enter("target")
    family = Family()
    while True:
        records = family.dump()
        for record in records:
            number = int.from_bytes(record[ID], "little")
            try:
                again = family.connection(number)
            except FileNotFoundError:  # it has gone meanwhile
                continue
            if (again[ISID], again[INITIATOR_IQN]) != (record[ISID], record[INITIATOR_IQN]):
                raise RuntimeError(f"connection {number} was {record}, and is {again}")
        family.period_ms()
        yield 1


def be_deaf(group: str) -> Callable[[], Iterator[int]]:
    """A listener that never reads."""

    def job() -> Iterator[int]:
        enter("target")
        family = Family()
        family.join(group)
        while True:
            time.sleep(RETRY_S)
            yield 0

    return job


def listen() -> Iterator[int]:
    """A listener that reads events and samples."""
    enter("target")
    family = Family()
    family.set_period_ms(SAMPLING_MS)
    for group in family.groups:
        family.join(group)
    family.socket.settimeout(RETRY_S)
    while True:
        try:
            yield sum(1 for _ in family.messages(family.socket.recv(1 << 17)))
        except TimeoutError:
            yield 0
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # some were lost
                raise


def ask_once(session: Connection) -> None:
    """The log page of that session, and that it is of no other."""
    cdb = fuzz.log_sense()
    fuzz.check_page(cdb, 0xFFFF, session.command(cdb, 0xFFFF), session.tsih)


def ask(who: str) -> Callable[[], Iterator[int]]:
    """An initiator that asks for the log page again and again."""

    def job() -> Iterator[int]:
        session = log_in(who, b"\x80" + os.urandom(5))
        with contextlib.closing(session):
            while True:
                ask_once(session)
                yield 1

    return job


def read(who: str) -> Callable[[], Iterator[int]]:
    """An initiator that reads, several commands under way."""

    def job() -> Iterator[int]:
        session = log_in(who, b"\x80" + os.urandom(5))
        with contextlib.closing(session):
            for _ in range(READS):
                session.send(fuzz.read_10(READ_BLOCKS), READ_BLOCKS * fuzz.BLOCK_BYTES)
            while True:
                _, answer = session.receive()
                if answer.status != fuzz.GOOD:
                    raise ConnectionError(f"read: status {answer.status}")
                yield 1
                session.send(fuzz.read_10(READ_BLOCKS), READ_BLOCKS * fuzz.BLOCK_BYTES)

    return job


def come_and_go(who: str, seed: int) -> Callable[[], Iterator[int]]:
    """An initiator that logs in, asks, reads, and ends in the middle of it, politely or not."""

    def job() -> Iterator[int]:
        chance = random.Random(seed)
        while True:
            isid = b"\x80" + chance.randbytes(5)
            session = log_in(who, isid)
            ask_once(session)
            for _ in range(chance.randrange(READS)):
                session.send(fuzz.read_10(READ_BLOCKS), READ_BLOCKS * fuzz.BLOCK_BYTES)
            match chance.randrange(4):
                case 0:
                    session.logout()
                case 1:
                    session.reset()
                case 2:
                    session.close()
                case 3:  # the same session anew, which ends the old one
                    log_in(who, isid).logout()
                    session.close()
            yield 1

    return job
