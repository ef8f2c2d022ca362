# SPDX-License-Identifier: GPL-2.0-only
"""Does anything break? All that may happen to a target, in one boot; the first finding fails."""

import time
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from cwndlab import boot, runs
from cwndlab.images import Images
from cwndlab.scenario import load
from cwndlab.variant import plan


@dataclass(frozen=True)
class Part:
    """How much of it is wanted, and how long it may take; under User-Mode Linux, which is faster, and in short."""

    unit: str
    count: int
    limit_s: float
    uml: int
    quick: int


# The last needs a kernel that has fault injection.
PARTS = {
    "sessions": Part("login cycles", 2000, 800, 2000, 60),
    "kills": Part("rounds", 10, 500, 10, 1),
    "protection": Part("times", 1, 100, 1, 1),
    "fuzzing": Part("commands, and as many requests", 20_000, 400, 200_000, 2000),
    "faults": Part("rounds", 5, 300, 0, 1),
}
QUICK_TIMES = 6
# Booting, and looking for leaks; what a part does beyond its time.
SPARE_S = 600
MEMORY_MB = 1536
PATH = ("net.rtt_ms=2", "net.queue_bdp=4", "net.loss_pct=0.5")


def default_parts(engine_name: str) -> list[str]:
    return [name for name, part in PARTS.items() if engine_name == "qemu" or part.uml]


def run(images: Images, parts: list[str], *, quick: bool, keep: bool) -> None:
    """What was done in each part; or the first finding, raised."""
    wanted = {}
    for name in parts:
        part = PARTS[name]
        count = part.quick if quick else part.count if images.engine.name != "uml" else part.uml
        wanted[name] = {"wanted": count, "limit_s": part.limit_s / QUICK_TIMES if quick else part.limit_s}
    todo = plan(load("wan-100m-20ms", PATH), "stock", monitor=False, unlimited=True)
    todo |= {"stress": wanted, "memory_mb": MEMORY_MB}
    limit_s = SPARE_S + sum(part["limit_s"] for part in wanted.values())
    begun = time.monotonic()
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=runs.console) as display:
        bar = display.add_task("booting", total=len(parts))

        def progress(done: float) -> None:
            if done:
                display.update(bar, completed=done, description=f"{parts[int(done)]} ({int(done) + 1} of {len(parts)})")

        found = boot.run(images, todo, 0, limit_s, progress, keep)
    table = Table("part", "done", "time")
    for name in parts:
        seconds = found[name].pop("seconds")
        table.add_row(name, ", ".join(f"{count} {what}" for what, count in found[name].items()), f"{seconds} s")
    runs.output.print(table)
    runs.output.print(f"{images.engine.name}: no finding ({time.monotonic() - begun:.0f} s)")
