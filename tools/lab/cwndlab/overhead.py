# SPDX-License-Identifier: GPL-2.0-only
"""What the patches cost: a read over bare cables, as fast as the CPU goes, kernels in turn; and many connections.

On one machine of engine qemu each instruction takes the same time and there is nothing to wait for, so that the
rate says how many instructions a Data-In PDU costs, all of both ends included.
"""

import statistics
import time

from rich.table import Table

from cwndlab import boot, runs
from cwndlab.images import Images
from cwndlab.scenario import load
from cwndlab.variant import plan

PDU_BYTES = 1 << 18  # as open-iscsi and LIO negotiate
READ_S = 4
# The lab's own sampling is the same for all.
SETTINGS = ("workload.kind=direct", "workload.bs_kb=1024", "workload.iodepth=8", "sample_ms=10")
# All have logged in before the first that is idle is asked whether it is still there, and does not answer.
SHORT = ("net.rtt_ms=1", "net.queue_bdp=10")
TIMEOUT_S = 1800


def run(unpatched: Images, patched: Images, rounds: int) -> None:
    """Print each kind's median; two kinds are the same kernel, unpatched: their difference is noise."""
    off = ("target.tpg_attributes.cwnd_feedback=0",)
    # name: kernel, settings, netlink samples each sample_ms, LOG SENSE each so often
    kinds = {
        "unpatched": (unpatched, (), False, 0),
        "unpatched again": (unpatched, (), False, 0),
        "patched, attribute off": (patched, off, False, 0),
        "patched, nobody asks": (patched, (), False, 0),
        "patched, LOG SENSE at 10 Hz": (patched, (), False, 10),
        "patched, netlink samples at 100 Hz": (patched, (), True, 0),
    }
    runtime = f"workload.runtime_s={READ_S}"
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for n in range(rounds):
        # Each round the other way round, so that a drift of the machine's speed hits all alike.
        for kind in list(kinds)[:: 1 if n % 2 else -1]:
            images, settings, monitor, polls_per_s = kinds[kind]
            scenario = load("wan-100m-20ms", (*SETTINGS, runtime, *settings))
            todo = plan(scenario, "stock", monitor=monitor, unlimited=True) | {"polls_per_s": polls_per_s}
            begun = time.monotonic()
            guest = boot.run(images, todo, 0, TIMEOUT_S, lambda done_s: None, keep=False)
            read = guest["measured"]["fio"]["jobs"][0]["read"]
            rates[kind].append(read["io_bytes"] / read["runtime"] * 1000)
            runs.console.print(
                f"round {n + 1}/{rounds}: {kind}: {rates[kind][-1] / 1e6:.1f} MB/s ({time.monotonic() - begun:.0f} s)"
            )
    runs.output.print(_table(rates, patched.engine.instructions_per_s(scenario)))


def _table(rates: dict[str, list[float]], instructions_per_s: float | None) -> Table:
    """Rates, each also as a ratio to the unpatched kernel's of the same round, and as instructions where they count."""
    table = Table(
        "kernel", "MB/s", "÷ unpatched", "least", "most", *(["instructions per PDU"] if instructions_per_s else [])
    )
    for kind, found in rates.items():
        ratios = [rate / base for rate, base in zip(found, rates["unpatched"], strict=True)]
        median = statistics.median(found)
        row = [
            f"{median / 1e6:.1f}",
            *(f"{ratio:.4f}" for ratio in (statistics.median(ratios), min(ratios), max(ratios))),
        ]
        if instructions_per_s:
            row.append(f"{instructions_per_s * PDU_BYTES / median:.0f}")
        table.add_row(kind, *row)
    return table


def connections(unpatched: Images, patched: Images, wanted: int) -> None:
    """Print what that many sessions of one connection take of memory with each kernel, and what a dump of all is."""
    scenario, found = load("wan-100m-20ms", SHORT), {}
    for kernel, images in (("unpatched", unpatched), ("patched", patched)):
        task = {"task": "many", "connections": wanted, "dump": images.patched}
        todo = plan(scenario, "stock", monitor=False) | task
        runs.console.print(f"{kernel}: logging in {wanted} times ...")
        found[kernel] = boot.run(images, todo, 0, TIMEOUT_S, lambda done: None, keep=False)
    table = Table("for each connection", *found, "more")
    for what, name in (("objects_bytes", "kernel objects, bytes"), ("used_bytes", "all memory, bytes")):
        each = [guest[what] for guest in found.values()]
        table.add_row(name, *(f"{n:.0f}" for n in each), f"{each[1] - each[0]:.0f}")
    runs.output.print(table)
    dump = found["patched"]["dump"]
    counted = patched.engine.instructions_per_s(scenario)
    took = (
        f", {dump['time_s'] * 1e3:.2f} ms, {dump['time_s'] * counted / 1e6:.1f} million instructions" if counted else ""
    )
    runs.output.print(f"a dump by netlink: {dump['records']} records, {dump['bytes']} bytes{took}")
