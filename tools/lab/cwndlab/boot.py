# SPDX-License-Identifier: GPL-2.0-only
"""One run: its machines, booted by an engine, in a run directory of its own.

RUN/root                     link to the guest's root
RUN/configs tools lab        what else the guest reads
RUN/out                      the only place the guest writes to: plan in, result and logs out
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cwndlab.engine import Machine
from cwndlab.images import BINARIES, Images
from cwndlab.paths import CONFIGS, GUEST_SCRIPTS, LabError, cache

# What must never stand in a console log.
TROUBLE = re.compile(
    r"WARNING:|BUG:|Oops|Kernel panic|Call Trace|rcu: INFO|possible .* detected"
    r"|INFO: (task|trying) |suspected memory leaks|waiting for .* to become free|leaked reference"
)


def _prepare(images: Images, plan: dict) -> Path:
    run = Path(tempfile.mkdtemp(prefix="cwndlab."))
    (run / "out").mkdir()
    (run / "out/plan.json").write_text(json.dumps(plan))
    (run / "root").symlink_to(images.root)
    # Copies: a run is not changed by who edits or builds meanwhile.
    shutil.copytree(CONFIGS, run / "configs")
    shutil.copytree(GUEST_SCRIPTS, run / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    (run / "tools").mkdir()
    for name in BINARIES:
        shutil.copy(images.tools / name, run / "tools")
    for module in images.engine.modules(images.kernel):
        shutil.copy(module, run / "tools")
    return run


@contextlib.contextmanager
def _own_cpu(slot: int) -> Iterator[int]:
    """A CPU that no other guest of this user has, or one to share where all are taken.

    A guest's processes hand over to each other all the time, and handing over between CPUs makes a
    run three times as slow: so each guest stays on one.
    """
    cpus = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as held:
        for cpu in cpus:
            lock = open(cache() / f"cpu{cpu}.lock", "w")  # noqa: SIM115 (held while the guest runs)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            held.enter_context(lock)
            yield cpu
            return
        yield cpus[slot % len(cpus)]


def _console_trouble(log: Path) -> str | None:
    lines = log.read_text(errors="replace").splitlines()
    return next((line.strip() for line in lines if TROUBLE.search(line)), None)


class Stopped(LabError):
    """The run was not let come to its end."""


class ClockLost(LabError):
    """User-Mode Linux has set its virtual time back, which it takes for fatal: a rare race of its own with signals."""


def run(images: Images, plan: dict, slot: int, timeout_s: float, progress: Callable[[float], None], keep: bool) -> dict:
    """Boot, wait for the end, hand back what the guest wrote. A failed run's directory is kept, not a stopped one's."""
    try:
        return _run(images, plan, slot, timeout_s, progress, keep)
    except ClockLost as lost:
        print(f"{lost}; once more", file=sys.stderr)
        return _run(images, plan, slot, timeout_s, progress, keep)


def _run(
    images: Images, plan: dict, slot: int, timeout_s: float, progress: Callable[[float], None], keep: bool
) -> dict:
    where = _prepare(images, plan)
    out = where / "out"
    try:
        with contextlib.nullcontext() if images.engine.real_time else _own_cpu(slot) as cpu:
            waited = _wait(images, plan, where, [] if cpu is None else ["taskset", "-c", str(cpu)], timeout_s, progress)
    except (Stopped, KeyboardInterrupt):
        shutil.rmtree(where, ignore_errors=True)
        raise
    for log in sorted(out.glob("console*.log")):
        if trouble := _console_trouble(log):
            kind = ClockLost if "time-travel: time goes backwards" in trouble else LabError
            raise kind(f"the kernel complained: {trouble}; see {log}")
    if not (out / "result.json").exists():
        raise LabError(f"the guest ended without a result; see {out}")
    answer = json.loads((out / "result.json").read_text())
    if "error" in answer:
        raise LabError(f"{answer['error']}; see {out}")
    settings = _lines(out / "settings.jsonl")
    if keep:
        print(f"kept: {where}", file=sys.stderr)
    else:
        shutil.rmtree(where, ignore_errors=True)
    return answer | {"settings": settings, "cpu_waited_share": waited}


def _lines(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def _start(machine: Machine, where: Path, environment: dict[str, str], prefix: list[str]) -> subprocess.Popen:
    with open(where / "out" / machine.console, "wb") as console:
        process = subprocess.Popen(
            [*prefix, *machine.command],
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
            pass_fds=[link.fileno() for link in machine.links],
        )
    for link in machine.links:
        link.close()
    return process


def _end(machines: list[subprocess.Popen]) -> None:
    for machine in machines:
        with contextlib.suppress(ProcessLookupError):  # its helpers, if it has left any
            os.killpg(machine.pid, signal.SIGKILL)
        machine.wait()


def _wait(
    images: Images, plan: dict, where: Path, prefix: list[str], timeout_s: float, progress: Callable[[float], None]
) -> float:
    """Run the machines until one ends, under a limit of wall time: in a guest, time may stand still.

    Which share of the time in which they could have run they waited for a CPU of the host.
    """
    environment = images.engine.environment("dumb")
    machines: list[subprocess.Popen] = []
    ran, waited = 1, 0
    try:
        for machine in images.engine.machines(images, plan):
            machines.append(_start(machine, where, environment, prefix))
        deadline = time.monotonic() + timeout_s
        while all(machine.poll() is None for machine in machines):
            if time.monotonic() > deadline:
                raise LabError(f"no result after {timeout_s:.0f} s of wall time; see {where}/out")
            progress(_progress(where))
            if (found := _cpu_ns(machines))[0] > ran:
                ran, waited = found
            time.sleep(0.1)
    finally:
        _end(machines)
    return waited / (ran + waited)


def _cpu_ns(machines: list[subprocess.Popen]) -> tuple[int, int]:
    """How long the machines' threads have run and have waited to run, both at most until one ended."""
    ran = waited = 0
    for machine in machines:
        for stat in Path(f"/proc/{machine.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # it has ended
                ran_ns, waited_ns, _ = stat.read_text().split()
                ran, waited = ran + int(ran_ns), waited + int(waited_ns)
    return ran, waited


def _progress(where: Path) -> float:
    try:
        done, _ = (where / "out/progress").read_text().split()
    except (OSError, ValueError):  # not yet written, or just being written
        return 0.0
    return float(done)


def shell(images: Images, plan: dict) -> int:
    """The booted lab, its first machine on this terminal, in real time."""
    where = _prepare(images, plan)
    environment = images.engine.environment(os.environ.get("TERM", "linux"))
    first, *others = images.engine.machines(images, plan)
    background: list[subprocess.Popen] = []
    try:
        for other in others:
            background.append(_start(other, where, environment, []))
        links = [link.fileno() for link in first.links]
        return subprocess.run(first.command, cwd=where, env=environment, pass_fds=links).returncode
    finally:
        _end(background)
        shutil.rmtree(where, ignore_errors=True)
