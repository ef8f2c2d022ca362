# SPDX-License-Identifier: GPL-2.0-only
"""The demo: each cell with Debian's defaults, with the best static settings, and with feedback."""

import json
import math
import time
from collections.abc import Iterable
from pathlib import Path

from rich.table import Table

from cwndlab import oracle, runs
from cwndlab.images import Images
from cwndlab.paths import LabError
from cwndlab.scenario import Scenario, load

SLOW_CELL = "wan-50m-100ms"
CELLS = ("wan-100m-20ms", "wan-100m-20ms-direct16m", "wan-1g-50ms", "wan-1g-200ms")
SHOWN = ("stock", "static", "feedback")
# What feedback must reach: of the best static settings, of stock, and of stock where the path is fast and long.
LEAST_OF_STATIC, LEAST_OF_STOCK, LEAST_OF_STOCK_FAR = 0.90, 1, 15
FAR_MBIT, FAR_MS = 1000, 50


def full_oracle(made: Images, name: str, scenario: Scenario, at_once: int | None) -> tuple[dict, list[dict]]:
    """Search a scenario's static settings: the best run's record, and all that were tried, best first."""

    def measure(scenarios: list[Scenario]) -> list[dict]:
        todo = [runs.Job(f"{name} {oracle.brief(s.static.model_dump())}", s, "static") for s in scenarios]
        return runs.run_all(made, todo, at_once=at_once)

    tried = oracle.climb(scenario, measure)
    table = [
        static.model_dump()
        | {key: found[key] for key in ("throughput_bytes_per_s", "retransmitted_pkts", "time_to_90_s")}
        for static, found in sorted(tried.items(), key=lambda item: -item[1]["throughput_bytes_per_s"])
    ]
    return tried[oracle.best(tried)], table


def run(made: Images, output: Path, *, at_once: int | None, search: bool) -> None:
    """Run every cell, write the results and pictures under output, print the table."""
    begun = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    most_mbit = made.engine.most_mbit(made)
    scenarios = {name: load(name) for name in (CELLS if most_mbit == math.inf else (SLOW_CELL, *CELLS))}
    if left_out := [name for name, scenario in scenarios.items() if scenario.net.rate_mbit > most_mbit]:
        runs.console.print(f"{made.engine.name} can do {most_mbit:g} Mbit/s here; left out: {', '.join(left_out)}")
        scenarios = {name: scenario for name, scenario in scenarios.items() if name not in left_out}
    if search:
        for name, scenario in scenarios.items():
            best, table = full_oracle(made, name, scenario, at_once)
            (output / f"{name}.oracle.json").write_text(json.dumps(table, indent=1) + "\n")
            found = best["scenario"]["static"]
            scenarios[name] = scenario.model_copy(update={"static": type(scenario.static)(**found)})
            runs.output.print(f"{name}: best static of {len(table)} tried:\n{oracle.as_toml(found)}")

    # The longest first, so that the last to end is a short one.
    todo = [runs.Job(name, scenario, variant) for name, scenario in scenarios.items() for variant in SHOWN]
    todo.sort(key=lambda job: (job.variant == "stock", -job.scenario.net.rate_mbit * job.scenario.workload.runtime_s))
    results = {}

    def arrived(job: runs.Job, found: dict) -> None:
        results[job.name, job.variant] = found
        (output / f"{job.name}.{job.variant}.json").write_text(json.dumps(found, indent=1) + "\n")

    runs.run_all(made, todo, at_once=at_once, arrived=arrived)
    from cwndlab import plot  # takes a second to import

    for name in scenarios:
        plot.picture([results[name, variant] for variant in SHOWN], output / f"{name}.png")
    print_table(scenarios, results)
    runs.output.print(f"Results and pictures: {output}/ (wall time {time.monotonic() - begun:.0f} s)")
    if below := [name for name in scenarios if not good(results, scenarios[name], name)]:
        raise LabError(f"feedback is below what it must reach in {', '.join(below)}")


def good(results: dict[tuple[str, str], dict], scenario: Scenario, name: str) -> bool:
    """Whether feedback reaches what it must in a cell."""
    stock, static, feedback = (results[name, variant]["throughput_bytes_per_s"] for variant in SHOWN)
    far = scenario.net.rate_mbit >= FAR_MBIT and scenario.net.rtt_ms >= FAR_MS
    times = LEAST_OF_STOCK_FAR if far else LEAST_OF_STOCK
    return feedback >= LEAST_OF_STATIC * static and feedback >= times * stock


def print_table(cells: Iterable[str], results: dict[tuple[str, str], dict]) -> None:
    table = Table("cell", *(f"{v}, MB/s" for v in SHOWN), "feedback ÷ static", "feedback ÷ stock", "retransmitted")
    for name in cells:
        stock, static, feedback = (results[name, variant] for variant in SHOWN)
        rate = [found["throughput_bytes_per_s"] for found in (stock, static, feedback)]
        share = [100 * found["retransmitted_bytes"] / found["sent_bytes"] for found in (static, feedback)]
        table.add_row(
            name,
            *(f"{r / 1e6:.2f}" for r in rate),
            f"{rate[2] / rate[1]:.2f}",
            f"{rate[2] / rate[0]:.1f}",
            f"{share[0]:.2f} % → {share[1]:.2f} %",
        )
    runs.output.print(table)
    runs.output.print(
        "stock: Debian's defaults. static: the best fixed settings a search found, with the product's kernel settings.\n"
        "feedback: the packages as installed. retransmitted: static → feedback, of the bytes sent.",
    )
