# SPDX-License-Identifier: GPL-2.0-only
"""Runs side by side, each a guest of its own, with a progress display."""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cwndlab import boot, guestroot, result
from cwndlab.images import Images
from cwndlab.paths import LabError
from cwndlab.scenario import Scenario
from cwndlab.variant import plan

PLAIN_WIDTH = 130
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
        """Wall time after which the run has hung: well over ten times what it takes on two slow cores."""
        net, work = self.scenario.net, self.scenario.workload
        return 120 + work.runtime_s * (10 + net.rate_mbit / 20)


def default_jobs() -> int:
    return len(os.sched_getaffinity(0))


def run_all(
    images: Images,
    jobs: Iterable[Job],
    *,
    at_once: int,
    timeout_s: float | None = None,
    keep: bool = False,
    arrived: Callable[[Job, dict], None] = lambda job, found: None,
) -> list[dict]:
    """The jobs' results, in their order, each handed to arrived when it is there. The first failure ends the rest."""
    jobs, stopped = list(jobs), threading.Event()
    packages = guestroot.versions(images.root)
    slots: queue.SimpleQueue[int] = queue.SimpleQueue()
    for slot in range(at_once):
        slots.put(slot)

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[virtual]}"),
        TimeElapsedColumn(),
        console=console,
    ) as display:

        def one(job: Job) -> dict:
            slot, begun = slots.get(), time.monotonic()
            total_s = job.scenario.workload.runtime_s
            bar = display.add_task(f"{job.name} {job.variant}", total=total_s, virtual="booting")

            def progress(done_s: float) -> None:
                if stopped.is_set():
                    raise boot.Stopped("stopped")
                display.update(bar, completed=done_s, virtual=f"{done_s:.0f}/{total_s:g} virtual s")

            try:
                todo = plan(job.scenario, job.variant, monitor=images.patched)
                guest = boot.run(images, todo, slot, timeout_s or job.timeout_s, progress, keep)
            except LabError as error:
                raise LabError(f"{job.name} {job.variant}: {error}") from None
            finally:
                slots.put(slot)
            record = result.build(todo, guest, images.kernel_package, packages, time.monotonic() - begun)
            rate = f"{record['throughput_bytes_per_s'] / 1e6:.2f} MB/s"
            display.update(bar, completed=total_s, virtual=rate)
            display.stop_task(bar)
            if not console.is_terminal:
                console.print(f"{job.name} {job.variant}: {rate}")
            if len(jobs) > 2 * at_once:  # a long list: what is done makes room
                display.remove_task(bar)
            return record

        with ThreadPoolExecutor(at_once) as pool:
            futures = {pool.submit(one, job): job for job in jobs}
            try:
                for future in as_completed(futures):
                    arrived(futures[future], future.result())
                return [future.result() for future in futures]
            except BaseException:
                stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
