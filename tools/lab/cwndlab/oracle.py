# SPDX-License-Identifier: GPL-2.0-only
"""The best static settings, found by trying: the yardstick for the daemon.

First every combination of bytes allowed in flight, request size and pacing on a coarse grid; then,
around the best few, finer steps, other read-aheads and clamped windows. Budgets are multiples of
what the path holds without loss, its bandwidth-delay product and queue.
"""

import json
from collections.abc import Callable
from typing import Any

from cwndlab.scenario import Scenario, Static

IN_FLIGHT_BDP = (0.6, 0.85, 1.0, 1.15, 1.4, 2.0, 3.0)
REQUEST_KB = (64, 128, 256, 512, 1280, 4096)
QUEUE_DEPTHS = range(2, 65)  # LIO's default_cmdsn_depth is 64
READ_AHEAD_MIN_KB = 4096
SURVIVORS = 3


def _settings(scenario: Scenario, in_flight_bdp: float, request_kb: int, pacing: bool) -> Static | None:
    """A point of the grid, or nothing where no queue depth makes that many bytes of that request."""
    in_flight_kb = in_flight_bdp * scenario.net.bdp_bytes / 1024
    depth = round(in_flight_kb / request_kb)
    if depth not in QUEUE_DEPTHS:
        return None
    return Static(
        request_kb=request_kb,
        queue_depth=depth,
        read_ahead_kb=round(max(READ_AHEAD_MIN_KB, 2 * in_flight_kb)),
        window_kb=0,
        pacing=pacing,
    )


def grid(scenario: Scenario) -> list[Static]:
    """The coarse grid."""
    points = [
        _settings(scenario, share, request_kb, pacing)
        for share in IN_FLIGHT_BDP
        for request_kb in REQUEST_KB
        for pacing in (False, True)
    ]
    return [point for point in points if point]


def neighbours(scenario: Scenario, point: Static) -> list[Static]:
    """Points next to one: a little more or less in flight, less read-ahead, clamped windows."""
    in_flight_kb = point.queue_depth * point.request_kb
    holds_kb = round((scenario.net.bdp_bytes + scenario.net.queue_bytes) / 1024)
    near = [
        {"queue_depth": max(QUEUE_DEPTHS.start, min(QUEUE_DEPTHS.stop - 1, round(point.queue_depth * factor)))}
        for factor in (0.8, 0.9, 1.1, 1.25)
    ]
    near += [{"read_ahead_kb": round(in_flight_kb * factor)} for factor in (0.5, 1.0, 4.0)]
    near += [{"window_kb": round(holds_kb * factor)} for factor in (0.8, 0.95)]
    return [point.model_copy(update=step) for step in near]


def search(
    scenario: Scenario, measure: Callable[[list[Scenario]], list[dict[str, Any]]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The best run's result, and a table of all that were tried, best first."""
    tried: dict[str, dict[str, Any]] = {}

    def attempt(points: list[Static]) -> list[Static]:
        new = {key: p for p in points if (key := json.dumps(p.model_dump())) not in tried}
        results = measure([scenario.model_copy(update={"static": point}) for point in new.values()])
        tried.update(zip(new, results, strict=True))
        best = sorted(tried, key=lambda key: -tried[key]["throughput_bytes_per_s"])[:SURVIVORS]
        return [Static(**json.loads(key)) for key in best]

    best = attempt(grid(scenario))
    best = attempt([near for point in best for near in neighbours(scenario, point)])
    attempt(neighbours(scenario, best[0]))
    table = [
        json.loads(key)
        | {name: found[name] for name in ("throughput_bytes_per_s", "retransmitted_pkts", "time_to_90_s")}
        for key, found in sorted(tried.items(), key=lambda item: -item[1]["throughput_bytes_per_s"])
    ]
    return max(tried.values(), key=lambda found: found["throughput_bytes_per_s"]), table


def as_toml(settings: dict[str, Any]) -> str:
    """The settings as a scenario's [static] section."""
    keys = [(key, settings[key]) for key in Static.model_fields if settings[key] is not None]
    return "[static]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys)
