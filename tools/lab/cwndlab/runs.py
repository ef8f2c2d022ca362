# SPDX-License-Identifier: GPL-2.0-only
"""Runs side by side, each a guest of its own, with a progress display."""

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cwndlab import boot, guestroot, result
from cwndlab.engine import admit, default_jobs
from cwndlab.images import Images
from cwndlab.paths import LabError
from cwndlab.scenario import Scenario
from cwndlab.variant import plan

Item, Found = TypeVar("Item"), TypeVar("Found")
PLAIN_WIDTH = 130
# In real time, machines that wait longer than this for a CPU measure the host and not the path. On two idle CPUs they
# wait 0.3 of the time, for each other.
BUSY_SHARE = 0.45
# Progress goes to standard error, tables to standard output.
console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
output = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


@dataclass(frozen=True)
class Job:
    """One run to be made."""

    name: str
    scenario: Scenario
    variant: str

    @property
    def timeout_s(self) -> float:
        """Wall time after which the run has hung: well over ten times what UML takes on two slow cores."""
        net, work = self.scenario.net, self.scenario.workload
        return 120 + work.runtime_s * (10 + net.rate_mbit / 20)


class Bench:
    """Guests side by side, with a progress display. Several threads may ask it for runs."""

    def __init__(self, images: Images, at_once: int | None, *, timeout_s: float | None = None, keep: bool = False):
        self.images = images
        self._timeout_s, self._keep = timeout_s, keep
        self.at_once, self._stopped = at_once or default_jobs(images.engine), threading.Event()
        self._packages = guestroot.versions(images.root)
        self._slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(self.at_once):
            self._slots.put(slot)
        self.display = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[virtual]}"),
            TimeElapsedColumn(),
            console=console,
        )

    def __enter__(self) -> "Bench":
        self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.stop()

    def map(self, function: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """The function's results, in the items' order, as many at once as guests. The first failure ends the rest."""
        with ThreadPoolExecutor(self.at_once) as pool:
            futures = [pool.submit(function, item) for item in items]
            try:
                for future in as_completed(futures):
                    future.result()
                return [future.result() for future in futures]
            except BaseException:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                raise

    def run(self, job: Job, *, remember: bool = False) -> dict:
        """Wait for a free slot, run the job there; its record. Its bar stays on the display if to be remembered."""
        slot, begun = self._slots.get(), time.monotonic()
        total_s = job.scenario.workload.runtime_s
        bar = self.display.add_task(f"{job.name} {job.variant}", total=total_s, virtual="booting")

        def progress(done_s: float) -> None:
            if self._stopped.is_set():
                raise boot.Stopped("stopped")
            self.display.update(bar, completed=done_s, virtual=f"{done_s:.0f}/{total_s:g} s")

        try:
            progress(0)
            todo = plan(job.scenario, job.variant, patched=self.images.patched)
            timeout_s = self._timeout_s or job.timeout_s * self.images.engine.slowness
            guest = boot.run(self.images, todo, slot, timeout_s, progress, self._keep)
        except LabError as error:
            self.display.remove_task(bar)
            raise LabError(f"{job.name} {job.variant}: {error}") from None
        finally:
            self._slots.put(slot)
        record = result.build(todo, guest, self.images, self._packages, time.monotonic() - begun)
        if (waited := record.get("cpu_waited_share", 0)) > BUSY_SHARE:
            console.print(
                f"{job.name} {job.variant}: may be wrong: the host was busy, the machines waited for a CPU "
                f"{100 * waited:.0f} % of the time; run it again when two CPUs are idle, or with --one-machine"
            )
        rate = f"{record['throughput_bytes_per_s'] / 1e6:.2f} MB/s"
        self.display.update(bar, completed=total_s, virtual=rate)
        self.display.stop_task(bar)
        if not console.is_terminal:
            console.print(f"{job.name} {job.variant}: {rate}")
        if not remember:
            self.display.remove_task(bar)
        return record


def run_all(
    images: Images,
    jobs: Iterable[Job],
    *,
    at_once: int | None,
    timeout_s: float | None = None,
    keep: bool = False,
    arrived: Callable[[Job, dict], None] = lambda job, found: None,
) -> list[dict]:
    """The jobs' results, in their order, each handed to arrived when it is there. The first failure ends the rest."""
    jobs = list(jobs)
    for job in jobs:
        admit(images, job.name, job.scenario)
    with Bench(images, at_once, timeout_s=timeout_s, keep=keep) as bench:
        short = len(jobs) <= 2 * bench.at_once  # of a long list, what is done makes room

        def one(job: Job) -> dict:
            found = bench.run(job, remember=short)
            arrived(job, found)
            return found

        return bench.map(one, jobs)
