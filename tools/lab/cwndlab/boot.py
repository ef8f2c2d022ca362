# SPDX-License-Identifier: GPL-2.0-only
"""One guest: User-Mode Linux in virtual time, in a run directory of its own.

RUN/root                     link to the guest's root
RUN/configs tools lab        what else the guest reads
RUN/out                      the only place the guest writes to: plan in, result and logs out
"""

import contextlib
import fcntl
import functools
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

from cwndlab.images import BINARIES, Images
from cwndlab.paths import CONFIGS, GUEST_SCRIPTS, LabError, cache

# What two guests take at least of /dev/shm.
ROOM_BYTES = 6 << 30
# Any fixed moment: wall time in the guest starts here (1 November 2026, UTC).
START_NS = 1_793_491_200 * 10**9
# What must never stand in a console log.
TROUBLE = re.compile(r"WARNING:|BUG:|Oops|Kernel panic|Call Trace|rcu: INFO|hung task|possible .* detected")


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
    return run


def _command(images: Images, plan: dict, *, virtual_time: bool) -> list[str]:
    """UML's command line: the same for every run of the same (the kernel mixes it into its random numbers).

    The guest sees nothing of the host but the run directory and the link in it.
    """
    return [
        "setarch",
        "-R",
        str(images.kernel),
        f"mem={plan['memory_mb']}M",
        "hostfs=/proc/self/cwd",
        "root=none",
        "rootfstype=hostfs",
        "rootflags=root",
        "ro",
        "init=/init",
        "uml_dir=.",
        "umid=uml",
        "scsi_debug.add_host=0",
        "null_blk.nr_devices=0",
        "con=null",
        "con0=fd:0,fd:1",
        f"seed={plan['scenario']['net']['seed']}",
        *(["time-travel=inf-cpu", f"time-travel-start={START_NS}"] if virtual_time else []),
    ]


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


@functools.cache
def _memory_folder() -> Path:
    """Where UML's memory lies: in shared memory if there is room for a few guests.

    Decided once, before the first guest takes of that room: all runs shall have the same environment.
    """
    shm = Path("/dev/shm")
    roomy = os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > ROOM_BYTES
    return shm if roomy else cache()


def _environment(*, term: str) -> dict[str, str]:
    """The same for every run, as far as possible: it lies on the stack of the process that is the kernel."""
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "TMPDIR": str(_memory_folder()),
        "HOME": "/",
        "TERM": term,
    }


def _console_trouble(log: Path) -> str | None:
    lines = log.read_text(errors="replace").splitlines()
    return next((line.strip() for line in lines if TROUBLE.search(line)), None)


class Stopped(LabError):
    """The run was not let come to its end."""


def run(images: Images, plan: dict, slot: int, timeout_s: float, progress: Callable[[float], None], keep: bool) -> dict:
    """Boot, wait for the end, hand back what the guest wrote. A failed run's directory is kept, not a stopped one's."""
    where = _prepare(images, plan)
    out = where / "out"
    try:
        with _own_cpu(slot) as cpu:
            _guest(
                ["taskset", "-c", str(cpu), *_command(images, plan, virtual_time=not plan["unlimited"])],
                where,
                timeout_s,
                progress,
            )
    except (Stopped, KeyboardInterrupt):
        shutil.rmtree(where, ignore_errors=True)
        raise
    if trouble := _console_trouble(out / "console.log"):
        raise LabError(f"the kernel complained: {trouble}; see {out}/console.log")
    if not (out / "result.json").exists():
        raise LabError(f"the guest ended without a result; see {out}/console.log")
    answer = json.loads((out / "result.json").read_text())
    if "error" in answer:
        raise LabError(f"{answer['error']}; see {out}")
    if keep:
        print(f"kept: {where}", file=sys.stderr)
    else:
        shutil.rmtree(where, ignore_errors=True)
    return answer


def _guest(command: list[str], where: Path, timeout_s: float, progress: Callable[[float], None]) -> None:
    """Run a guest to its end, under a limit of wall time: in the guest, time may stand still."""
    with open(where / "out/console.log", "wb") as console:
        guest = subprocess.Popen(
            command,
            cwd=where,
            env=_environment(term="dumb"),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + timeout_s
        while guest.poll() is None:
            if time.monotonic() > deadline:
                raise LabError(f"no result after {timeout_s:.0f} s of wall time; see {where}/out")
            progress(_progress(where))
            time.sleep(0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):  # its helpers, if it has left any
            os.killpg(guest.pid, signal.SIGKILL)
        guest.wait()


def _progress(where: Path) -> float:
    try:
        done, _ = (where / "out/progress").read_text().split()
    except (OSError, ValueError):  # not yet written, or just being written
        return 0.0
    return float(done)


def shell(images: Images, plan: dict) -> int:
    """The booted lab on this terminal, in real time."""
    where = _prepare(images, plan)
    try:
        return subprocess.run(
            [*_command(images, plan, virtual_time=False), "quiet"],
            cwd=where,
            env=_environment(term=os.environ.get("TERM", "linux")),
        ).returncode
    finally:
        shutil.rmtree(where, ignore_errors=True)
