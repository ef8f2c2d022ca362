# SPDX-License-Identifier: GPL-2.0-only
"""Does anything break? All that may happen to a target, in one boot; the first finding fails."""

import time
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from cwndlab import boot, runs
from cwndlab.images import Images
from cwndlab.paths import LabError
from cwndlab.scenario import load
from cwndlab.variant import TCP, plan


@dataclass(frozen=True)
class Part:
    """How much of it is wanted, and in which time at most."""

    unit: str
    count: int
    limit_s: float
    quick: tuple[int, float]  # the same in short
    uml: tuple[int, float] | None  # and under User-Mode Linux, which is faster but finds less


PARTS = {
    "sessions": Part("login cycles", 2000, 1000, (30, 30), (2000, 1000)),
    "kills": Part("rounds", 10, 400, (1, 45), (10, 400)),
    "protection": Part("times", 1, 60, (1, 60), (1, 60)),
    "fuzzing": Part("commands and requests", 20_000, 300, (1000, 30), (200_000, 2400)),
    "faults": Part("rounds", 5, 240, (1, 45), None),  # needs a kernel that has fault injection
}
# Booting, looking for leaks, and what the parts do beyond their time.
SPARE_S = 1800
MEMORY_MB = 1536
ATTRIBUTES = (f"target.tpg_attributes.{name}={value}" for name, value in TCP.items())
PATH = ("net.rtt_ms=2", "net.queue_bdp=4", "net.loss_pct=0.5", *ATTRIBUTES)


def default_parts(engine_name: str) -> list[str]:
    return [name for name, part in PARTS.items() if engine_name == "qemu" or part.uml]


def run(images: Images, parts: list[str], *, quick: bool, keep: bool) -> None:
    """What was done in each part; or the first finding, raised."""
    wanted = {}
    for name in parts:
        part = PARTS[name]
        if images.engine.name == "uml" and part.uml is None:
            raise LabError(f"--part {name}: only with --engine qemu (User-Mode Linux has no fault injection)")
        count, limit_s = (
            part.quick if quick else (images.engine.name == "uml" and part.uml) or (part.count, part.limit_s)
        )
        wanted[name] = {"wanted": count, "limit_s": limit_s}
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
        done = ", ".join(f"{count} {what}" for what, count in found[name]["done"].items() if count)
        short = f", for {found[name]['share']:.0%} of {wanted[name]['wanted']} {PARTS[name].unit}"
        table.add_row(name, done, f"{found[name]['seconds']} s{short if found[name]['share'] < 1 else ''}")
    runs.output.print(table)
    runs.output.print(f"{images.engine.name}: no finding ({time.monotonic() - begun:.0f} s)")
