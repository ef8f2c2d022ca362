# SPDX-License-Identifier: GPL-2.0-only
"""What the patches cost a read that nobody watches: wall time, bare cables, kernels in turn."""

import statistics
import time

from rich.table import Table

from cwndlab import boot, runs
from cwndlab.images import Images
from cwndlab.scenario import load
from cwndlab.variant import plan

WORKLOAD = ("workload.kind=direct", "workload.bs_kb=1024", "workload.iodepth=8", "workload.runtime_s=4")


def run(unpatched: Images, patched: Images, rounds: int) -> None:
    """Print each kind's median rate; two kinds are the same kernel, unpatched: their difference is noise."""
    off = ("target.tpg_attributes.cwnd_feedback=0",)
    kinds = {
        "unpatched": (unpatched, ()),
        "unpatched again": (unpatched, ()),
        "patched, nobody asks": (patched, ()),
        "patched, attribute off": (patched, off),
    }
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for n in range(rounds):
        # Each round the other way round, so that a drift of the machine's speed hits all alike.
        for kind in list(kinds)[:: 1 if n % 2 else -1]:
            images, settings = kinds[kind]
            todo = plan(load("wan-100m-20ms", WORKLOAD + settings), "stock", monitor=False, unlimited=True)
            begun = time.monotonic()
            guest = boot.run(images, todo, 0, 300, lambda done_s: None, keep=False)
            read = guest["measured"]["fio"]["jobs"][0]["read"]
            rates[kind].append(read["io_bytes"] / read["runtime"] * 1000)
            runs.console.print(
                f"round {n + 1}/{rounds}: {kind}: {rates[kind][-1] / 1e6:.1f} MB/s ({time.monotonic() - begun:.0f} s)"
            )
    base = statistics.median(rates["unpatched"])
    table = Table("kernel", "median, MB/s", "to unpatched", "smallest", "largest")
    for kind, found in rates.items():
        median = statistics.median(found)
        table.add_row(
            kind,
            *(f"{r / 1e6:.1f}" for r in (median,)),
            f"{100 * (median / base - 1):+.1f} %",
            *(f"{r / 1e6:.1f}" for r in (min(found), max(found))),
        )
    runs.output.print(table)
