# SPDX-License-Identifier: GPL-2.0-only
"""Engine uml: all in one User-Mode Linux, in virtual time."""

import functools
import math
import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from cwndlab.engine import START, Machine
from cwndlab.images import Images
from cwndlab.paths import cache
from cwndlab.scenario import Scenario

# What two guests take at least of /dev/shm.
ROOM_BYTES = 6 << 30


@functools.cache
def _memory_folder() -> Path:
    """Where UML's memory lies: in shared memory if there is room for a few guests.

    Decided once, before the first guest takes of that room: all runs shall have the same environment.
    """
    shm = Path("/dev/shm")
    roomy = os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > ROOM_BYTES
    return shm if roomy else cache()


class Uml:
    name = "uml"
    arch = "um"
    real_time = False
    slowness = 1.0

    def meet(self, kernel: Path, report: Callable[[str], None]) -> None:
        pass

    def modules(self, kernel: Path) -> list[Path]:
        return []

    def most_mbit(self, images: Images) -> float:
        return math.inf

    def faster(self, times: float) -> str:
        return ""

    def instructions_per_s(self, scenario: Scenario) -> None:
        return None

    def circumstances(self, guest: dict) -> dict[str, float]:
        return {}

    def environment(self, term: str) -> dict[str, str]:
        """The same for every run, as far as possible: it lies on the stack of the process that is the kernel."""
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "TMPDIR": str(_memory_folder()),
            "HOME": "/",
            "TERM": term,
        }

    def machines(self, images: Images, plan: dict) -> list[Machine]:
        """UML's command line: the same for every run of the same (the kernel mixes it into its random numbers).

        The guest sees nothing of the host but the run directory and the link in it.
        """
        start_ns = round(datetime.fromisoformat(f"{START}T00:00+00:00").timestamp()) * 10**9
        virtual_time = not (plan["shell"] or plan["unlimited"])
        travel = "time-travel" if plan["spins"] else "time-travel=inf-cpu"
        return [
            Machine(
                [
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
                    *([travel, f"time-travel-start={start_ns}"] if virtual_time else []),
                    *(["quiet"] if plan["shell"] else []),
                ]
            )
        ]
