# SPDX-License-Identifier: GPL-2.0-only
"""The best static settings, found by trying: the yardstick for the daemon.

climb() starts where a model of the path says, or at Debian's own settings, and moves one setting at a time, while that
helps: in large steps, then in small ones, in at most CLIMB_RUNS runs. grid() is every combination of a coarse
grid, hundreds of runs: what the climb is checked against.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cwndlab.scenario import Scenario, Static

CLIMB_RUNS = 16
BETTER = 1.001  # times the best so far, or a step has not helped
MAX_DEPTH = 64  # LIO's default_cmdsn_depth
SMALLEST_KB = 4
REQUESTS_KB = (16, 32, 64, 128, 256, 512, 1024)
REQUESTS_IN_BDP = 60
CLAMP = 0.9

GRID_IN_FLIGHT_BDP = (0.6, 0.85, 1.0, 1.15, 1.4, 2.0, 3.0)
GRID_REQUESTS_KB = REQUESTS_KB[1:]
GRID_READ_AHEAD = (0.5, 1.0, 2.0)

Measure = Callable[[list[Scenario]], list[dict[str, Any]]]
Tried = dict[Static, dict[str, Any]]


def _bdp_bytes(scenario: Scenario) -> float:
    """What is asked for while one request is answered: by the path, and by what it does not explain."""
    net = scenario.net
    waits_ms = scenario.target.latency_ms + net.ack_slot_ms + net.data_slot_ms
    return net.bdp_bytes + net.rate_mbit * 1e3 / 8 * waits_ms


def _holds_bytes(scenario: Scenario) -> float:
    """What the path holds."""
    return _bdp_bytes(scenario) + scenario.net.queue_bytes


@dataclass(frozen=True)
class Point:
    """Static settings, by what they mean to the path."""

    in_flight_bytes: float  # asked for by all sessions: queue depth × request size × disks
    request_kb: int
    read_ahead: float = 1.0  # of all devices, in parts of in_flight_bytes; up to two read-aheads are in flight
    clamp: float = 0.0  # advertised windows, in parts of what the path holds, BDP and queue; 0: not clamped
    pacing: bool = True

    def static(self, scenario: Scenario) -> Static:
        """As settings of each disk."""
        work, in_flight_kb = scenario.workload, self.in_flight_bytes / 1024
        each_kb = in_flight_kb / work.disks
        return Static(
            request_kb=self.request_kb,
            queue_depth=min(MAX_DEPTH, max(1, round(each_kb / self.request_kb))),
            read_ahead_kb=max(SMALLEST_KB, round(in_flight_kb / work.devices * self.read_ahead))
            if work.kind == "buffered"
            else None,
            window_kb=round(self.clamp * _holds_bytes(scenario) / 1024 / work.sessions),
            pacing=self.pacing,
        )


def model(scenario: Scenario) -> Point:
    """What should be best: the pipe full, half of the queue as a reserve, requests fine enough not to burst."""
    in_flight_bytes = _bdp_bytes(scenario) + scenario.net.queue_bytes / 2
    ideal_kb = max(1.0, _bdp_bytes(scenario) / 1024 / REQUESTS_IN_BDP)
    # No finer than leaves the queue depth room to grow.
    fit = [kb for kb in REQUESTS_KB if 1.5 * in_flight_bytes / 1024 / kb <= MAX_DEPTH] or REQUESTS_KB[-1:]
    return Point(in_flight_bytes, min(fit, key=lambda kb: abs(math.log2(kb / ideal_kb))))


def debian(scenario: Scenario) -> Point:
    """What the variant stock has, but for the product's kernel settings and portal group attributes."""
    depth, request_kb, read_ahead_kb, window_kb = 32, 1280, 128, 512
    return Point(
        in_flight_bytes=depth * request_kb * 1024 * scenario.workload.disks,
        request_kb=request_kb,
        read_ahead=read_ahead_kb / (depth * request_kb),
        clamp=window_kb * 1024 * scenario.workload.sessions / _holds_bytes(scenario),
        pacing=False,
    )


def ample(scenario: Scenario) -> Static:
    """Asks for three times what the path holds: for variants whose transport decides how much is in flight."""
    request_kb = min(4 * model(scenario).request_kb, REQUESTS_KB[-1])  # the queue depth is to reach that far
    static = Point(3 * _holds_bytes(scenario), request_kb).static(scenario)
    return static.model_copy(update={"window_kb": None, "pacing": None})  # the variant's own


def _moves(scenario: Scenario, *, fine: bool) -> Iterator[Callable[[Point, int], Point]]:
    """The steps there are, each a function of where one is and of the direction, 1 or -1."""
    share = 1.1 if fine else 1.3
    yield lambda at, way: replace(at, in_flight_bytes=at.in_flight_bytes * share**way)
    if scenario.workload.kind == "buffered":
        yield lambda at, way: replace(at, read_ahead=at.read_ahead * (1.4 if fine else 2) ** way)
    if not fine:
        yield lambda at, way: replace(at, request_kb=max(SMALLEST_KB, round(at.request_kb * 2.0**way)))
        yield lambda at, way: replace(at, clamp=CLAMP * (way > 0))


def best(tried: Tried) -> Static:
    """The settings with the highest throughput over the whole read."""
    return max(tried, key=lambda static: tried[static]["throughput_bytes_per_s"])


def climb(scenario: Scenario, measure: Measure, most_runs: int = CLIMB_RUNS) -> Tried:
    """The bounded search: what was tried, with the results."""
    tried: Tried = {}

    def attempt(points: list[Point]) -> Point | None:
        """The best of these that have not been tried, if it is better than all before."""
        before = max((found["throughput_bytes_per_s"] for found in tried.values()), default=0)
        new = {static: p for p in points if (static := p.static(scenario)) not in tried}
        todo = list(new)[: most_runs - len(tried)]
        tried.update(zip(todo, measure([scenario.model_copy(update={"static": s}) for s in todo]), strict=True))
        won = best({static: tried[static] for static in todo}) if todo else None
        return new[won] if won and tried[won]["throughput_bytes_per_s"] > BETTER * before else None

    start = model(scenario)
    at = attempt([start, replace(start, pacing=False), debian(scenario)]) or start
    for fine in (False, True):
        for move in _moves(scenario, fine=fine):
            ways = [1, -1]
            while better := attempt([move(at, way) for way in ways]):
                ways = [way for way in ways if move(at, way) == better]
                at = better
    return tried


def grid(scenario: Scenario) -> list[Static]:
    """The exhaustive search's points."""
    read_aheads = GRID_READ_AHEAD if scenario.workload.kind == "buffered" else (Point.read_ahead,)
    every = itertools.product(GRID_IN_FLIGHT_BDP, GRID_REQUESTS_KB, read_aheads, (0.0, CLAMP), (True, False))
    points = (Point(share * _bdp_bytes(scenario), *rest).static(scenario) for share, *rest in every)
    return list(dict.fromkeys(points))


def brief(static: dict[str, Any]) -> str:
    """The settings in a few letters: 64 KiB requests × 6, read-ahead 768 KiB, a window of 500 KiB, paced."""
    text = f"{static['request_kb']}K×{static['queue_depth']}"
    for name, key in (("ra", "read_ahead_kb"), ("w", "window_kb")):
        text += f" {name}{static[key]}K" if static[key] else ""
    return text + (" paced" if static["pacing"] else "")


def as_toml(settings: dict[str, Any]) -> str:
    """The settings as a scenario's [static] section."""
    keys = [(key, settings[key]) for key in Static.model_fields if settings[key] is not None]
    return "[static]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys)
