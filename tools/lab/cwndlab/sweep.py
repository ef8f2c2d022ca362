# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: a file of cells (scenarios), each measured with several variants, into one file of results.

The results are JSON lines, only ever appended to, and of three kinds. A "run" is one run's figures,
under a key made from all that determines it: who has a key need not run it again. A "cell" says
which runs are a finished cell's. A "sweep" says which cells there are, and by which runs one sees
that a cell is of now: not of another kernel or daemon; and which floors are known to break. The last of a name counts.
"""

import contextlib
import fcntl
import fnmatch
import functools
import hashlib
import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field

from cwndlab import boot, floors, oracle, result, runs
from cwndlab.images import Images
from cwndlab.oracle import CLIMB_RUNS
from cwndlab.paths import CONFIGS, GUEST_SCRIPTS, LabError
from cwndlab.scenario import Scenario, Section, Static, check, path_of, put, read_toml
from cwndlab.variant import plan

FORMAT = "lio-cwnd-sweep/2"
NEEDLESS = 0.97  # of the link's payload limit: with that, feedback needs no oracle beside it

Variants = tuple[Literal["feedback", "stock", "bbr", "rwnd"], ...]
Oracle = Literal["needed", "always", "exhaustive", "never"]


class Block(BaseModel):
    """Cells: all combinations of the lists' items. What is not named here is a scenario key."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = ""
    scenario: str | tuple[str, ...] = ()
    sets: tuple[str | tuple[str, ...], ...] = ()
    variants: Variants | None = None
    oracle: Oracle | None = None


class File(Section):
    description: str
    variants: Variants = ("feedback", "stock")
    oracle: Oracle = "needed"
    oracle_runs: Annotated[int, Field(ge=1, le=CLIMB_RUNS)] = CLIMB_RUNS
    defaults: dict[str, Any] = {}
    sets: dict[str, dict[str, Any]] = {}
    cells: tuple[Block, ...]
    known_breaks: dict[str, tuple[str, ...]] = {}


class Cell(Section):
    name: str
    scenario: Scenario
    variants: tuple[str, ...]
    oracle: Oracle
    oracle_runs: int
    known_breaks: tuple[str, ...]

    def of(self, variant: str) -> Scenario:
        """The scenario as the variant runs it."""
        if variant in ("bbr", "rwnd") and self.scenario.static == Static():
            return self.scenario.model_copy(update={"static": oracle.ample(self.scenario)})
        return self.scenario

    @property
    def cost_s(self) -> float:
        """About what a run takes of one core, as measured on a machine of 2026."""
        work, rate_mbit = self.scenario.workload, self.scenario.net.rate_mbit
        return 3 + work.runtime_s * (0.15 + rate_mbit / 750)

    @property
    def alone(self) -> Scenario | None:
        """The same with one LUN, which several must not be slower than together."""
        work = self.scenario.workload
        if work.sessions > 1 or work.random_luns or work.luns + work.idle_luns == 1:
            return None
        single = work.model_copy(update={"luns": 1, "idle_luns": 0})
        return self.scenario.model_copy(update={"workload": single})

    def searches(self, needless: bool) -> bool:
        """Whether an oracle is to be searched beside a feedback that needs none, or that needs one."""
        return self.oracle in ("always", "exhaustive") or (self.oracle == "needed" and not needless)

    @property
    def most_runs(self) -> int:
        changes = len(self.scenario.net.changes)
        single = self.alone is not None and "feedback" in self.variants
        searches = self.searches(bool(changes)) + changes * self.searches(False)
        points = len(oracle.grid(self.scenario)) if self.oracle == "exhaustive" else 0
        return len(self.variants) + single + searches * self.oracle_runs + points


def _dotted(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _is_axis(value: Any) -> bool:
    """A list is an axis, unless it is a list of tables: then it is one value, such as net.changes."""
    return isinstance(value, list | tuple) and not any(isinstance(item, dict) for item in value)


def _called(key: str, value: Any) -> str:
    """An axis' value in a cell's name: with the unit, which stands at the end of the key."""
    unit = key.rpartition(".")[2].rpartition("_")[2]
    if isinstance(value, bool):
        return unit if value else f"no{unit}"
    return value if isinstance(value, str) else f"{value:.12g}{unit}"


def _block_cells(file: File, block: Block, path: Path) -> Iterator[Cell]:
    own = _dotted(block.model_extra or {})
    keys = {key: value for key, value in own.items() if not _is_axis(value)}
    axes = [("scenario", block.scenario if _is_axis(block.scenario) else (block.scenario,))] if block.scenario else []
    axes += [("sets", names if _is_axis(names) else (names,)) for names in block.sets]
    axes += [(key, value) for key, value in own.items() if _is_axis(value)]
    for chosen in itertools.product(*([(key, value) for value in values] for key, values in axes)):
        shown = [_called(key, value) for (key, value), (_, values) in zip(chosen, axes, strict=True) if len(values) > 1]
        name = "-".join(filter(None, [block.name, *shown]))
        where = f"{path}: cell {name or '(without a name)'}"
        if not name:
            raise LabError(f"{where}: give the [[cells]] a name")
        values: dict[str, Any] = {}
        settings = _dotted(file.defaults)
        for key, value in chosen:
            if key == "scenario":
                values = read_toml(path_of(value))
            elif key == "sets":
                if value not in file.sets:
                    raise LabError(f"{where}: sets: no [sets.{value}]; there are: {', '.join(file.sets) or 'none'}")
                settings |= _dotted(file.sets[value])
            else:
                settings[key] = value
        for key, value in (settings | keys).items():
            put(values, key, value, where)
        yield Cell(
            name=name,
            scenario=check(Scenario, values, where),
            variants=block.variants or file.variants,
            oracle=block.oracle or file.oracle,
            oracle_runs=file.oracle_runs,
            known_breaks=file.known_breaks.get(name, ()),
        )


def load(path: Path) -> list[Cell]:
    """A sweep file's cells. Of several that are the same path under different names, the first."""
    if not path.exists():
        raise LabError(f"{path}: no such file")
    file = check(File, read_toml(path), str(path))
    cells: dict[str, Cell] = {}
    same: dict[str, str] = {}
    for cell in itertools.chain.from_iterable(_block_cells(file, block, path) for block in file.cells):
        if cell.name in cells:
            raise LabError(f"{path}: two cells are called {cell.name}; give their [[cells]] different names")
        if same.setdefault(json.dumps(_essence(cell.scenario.resolved())), cell.name) == cell.name:
            cells[cell.name] = cell
    for name, broken in file.known_breaks.items():
        if name not in cells:
            raise LabError(f"{path}: known_breaks: no cell is called {name}; there are: {', '.join(cells)}")
        known = floors.names(cells[name].scenario)
        for floor in broken:
            if floor not in known:
                raise LabError(f"{path}: known_breaks.{name}: no floor is called {floor}; known: {', '.join(known)}")
    return list(cells.values())


def _essence(resolved: dict[str, Any]) -> dict[str, Any]:
    """A resolved scenario without what only leads to net.queue_bytes, or only describes."""
    net = {
        key: value for key, value in resolved["net"].items() if key not in ("queue_bdp", "queue_kb", "queue_min_pkts")
    }
    return {key: value for key, value in resolved.items() if key != "description"} | {"net": net}


@functools.cache
def _digest(path: Path) -> str:
    """Of a file, or of all files of a directory."""
    files = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts) or [path]
    return hashlib.sha256(b"".join(hashlib.sha256(p.read_bytes()).digest() for p in files)).hexdigest()


def key_of(images: Images, scenario: Scenario, variant: str) -> str:
    """Of all that determines a run's figures."""
    todo = plan(scenario, variant, patched=images.patched)
    todo["scenario"] = _essence(todo["scenario"])
    lab = [GUEST_SCRIPTS, CONFIGS / "target", Path(boot.__file__), Path(result.__file__)]
    made_of = [images.kernel, images.tools / "lio-cwndmon", *lab]
    if todo["daemon"]:
        made_of += [images.tools / "iscsi-cwndd", CONFIGS / "iscsi-cwndd.toml"]
    else:
        todo["scenario"].pop("daemon")
        todo.pop("strategy")
    if variant not in ("static", "bbr", "rwnd"):
        todo["scenario"].pop("static")
    everything = [todo, images.root.name, [_digest(path) for path in made_of]]
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()[:16]


def read(path: Path) -> list[dict[str, Any]]:
    """A results file's lines; a last one that a kill has cut short is left out."""
    *whole, cut = path.read_text(errors="replace").split("\n")
    lines = []
    for n, text in enumerate(whole or filter(None, [cut]), 1):
        try:
            line = json.loads(text)
            known = line["format"] == FORMAT
        except (ValueError, TypeError, KeyError):
            known = False
        if not known:
            raise LabError(f"{path}: line {n} is not of a sweep's results, {FORMAT}")
        lines.append(line)
    return lines


class Store:
    """The results file, and the runs it has."""

    def __init__(self, file: BinaryIO, lines: list[dict[str, Any]]):
        self._file, self._lock = file, threading.Lock()
        self.runs = {line["key"]: line for line in lines if line["kind"] == "run"}

    def add(self, kind: str, line: dict[str, Any]) -> dict[str, Any]:
        line = {"format": FORMAT, "kind": kind} | line
        with self._lock:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
        return line


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Store]:
    """The results file, to be added to by nobody else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"{path}: another sweep is writing to it") from None
        lines = read(path)
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)  # a line that a kill has cut short
        yield Store(file, lines)


def _measure(bench: runs.Bench, store: Store, cell: Cell, scenario: Scenario, variant: str) -> dict[str, Any]:
    """A run's line: the stored one, or a new one."""
    key = key_of(bench.images, scenario, variant)
    if key not in store.runs:
        static = scenario.static.model_dump() if variant == "static" else None
        name = f"{cell.name} {oracle.brief(static)}" if static else cell.name
        record = bench.run(runs.Job(name, scenario, variant))
        line = {"key": key, "cell": cell.name, "variant": variant, "static": static} | result.figures(record)
        store.runs[key] = store.add("run", line)
    return store.runs[key]


def _measure_cell(bench: runs.Bench, store: Store, cell: Cell) -> None:
    """All of a cell's runs, and its line."""

    def measure(scenarios: list[Scenario]) -> list[dict[str, Any]]:
        return [_measure(bench, store, cell, scenario, "static") for scenario in scenarios]

    def search(scenario: Scenario) -> tuple[oracle.Tried, dict[str, Any]]:
        tried = oracle.climb(scenario, measure, cell.oracle_runs)
        return tried, tried[oracle.best(tried)]

    found = {variant: _measure(bench, store, cell, cell.of(variant), variant) for variant in cell.variants}
    feedback = found.get("feedback", {})
    if feedback and cell.alone:
        found["alone"] = _measure(bench, store, cell, cell.alone, "feedback")
    limit_bytes_per_s = cell.scenario.limit_bytes_per_s
    # What no fixed setting does well, a read on a path that changes, is no yardstick.
    needless = bool(cell.scenario.net.changes) or (
        feedback.get("throughput_bytes_per_s", 0) >= NEEDLESS * limit_bytes_per_s
    )
    line: dict[str, Any] = {"cell": cell.name, "limit_bytes_per_s": limit_bytes_per_s, "changes": []}
    if cell.searches(needless):
        tried, found["oracle"] = search(cell.scenario)
        line["tried"] = len(tried)
        if cell.oracle == "exhaustive":
            points = oracle.grid(cell.scenario)
            tried |= zip(points, measure([cell.scenario.model_copy(update={"static": p}) for p in points]), strict=True)
            line["tried"] = len(tried)
            found["climbed"], found["oracle"] = found["oracle"], tried[oracle.best(tried)]
    for n, change in enumerate(feedback.get("changes", [])):
        # Each change's yardstick: a path that is from the beginning as the change leaves it.
        changed = cell.scenario.after(n + 1)
        steady_bytes_per_s = changed.limit_bytes_per_s
        back_s = result.time_back_s(feedback, n, steady_bytes_per_s)
        needless = back_s is not None and back_s <= result.back_by_s(change["rtt_s"])
        if cell.searches(needless):
            steady_bytes_per_s = search(changed)[1]["throughput_last_half_bytes_per_s"]
        line["changes"].append({"steady_bytes_per_s": steady_bytes_per_s})
    line["runs"] = {variant: run["key"] for variant, run in found.items()}
    store.add("cell", line | {"scenario": cell.scenario.resolved()})


def choose(cells: list[Cell], pattern: str) -> list[Cell]:
    """Those whose names match."""
    chosen = [cell for cell in cells if fnmatch.fnmatchcase(cell.name, pattern)]
    if not chosen:
        raise LabError(f"--only {pattern}: no such cell; there are: {', '.join(cell.name for cell in cells)}")
    return chosen


def run(
    images: Images, path: Path, cells: list[Cell], chosen: list[Cell], output: Path, at_once: int | None
) -> list[str]:
    """Measure what is missing of the chosen ones of a sweep file's cells; why cells have failed, if any."""
    done, failed = [], []
    begun = time.monotonic()
    with opened(output) as store, runs.Bench(images, at_once) as bench:
        current = {cell.name: {v: key_of(images, cell.of(v), v) for v in cell.variants} for cell in cells}
        known = {cell.name: cell.known_breaks for cell in cells if cell.known_breaks}
        store.add("sweep", {"file": str(path), "cells": current, "known_breaks": known})
        most = sum(cell.most_runs for cell in chosen)
        minutes = sum(cell.most_runs * cell.cost_s for cell in chosen) / bench.at_once / 60
        runs.console.print(f"{len(chosen)} cells, at most {most} runs in about {minutes:.0f} minutes; to {output}")
        bar = bench.display.add_task(path.stem, total=len(chosen), virtual="")

        def one(cell: Cell) -> None:
            try:
                _measure_cell(bench, store, cell)
            except LabError as error:  # the others are worth having
                failed.append(str(error))
                runs.console.print(f"FAILED: {error}")
            done.append(cell.name)
            bench.display.update(bar, completed=len(done), virtual=f"{len(done)}/{len(chosen)} cells")

        # The longest first, so that the last to end is a short one.
        bench.map(one, sorted(chosen, key=lambda cell: -cell.most_runs * cell.cost_s))
    runs.console.print(f"{output}: {len(done) - len(failed)} cells measured in {time.monotonic() - begun:.0f} s")
    return failed
