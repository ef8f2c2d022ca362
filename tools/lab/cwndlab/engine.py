# SPDX-License-Identifier: GPL-2.0-only
"""What an engine is: how machines are booted. Scenario, variant, guest scripts and result are the same for all."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cwndlab.paths import LabError
from cwndlab.scenario import Scenario

if TYPE_CHECKING:
    from cwndlab.images import Images

# Any fixed moment: in virtual time, the guest's wall clock starts here (UTC).
START = "2026-11-01"


@dataclass(frozen=True)
class Machine:
    """One process that is a machine: its command, run in the run directory, and its console's log there."""

    command: list[str]
    console: str = "console.log"
    links: tuple[socket.socket, ...] = ()


class Engine(Protocol):
    """A way to boot a run's machines."""

    name: str  # in results
    arch: str  # of tools/kernel build
    real_time: bool  # not virtual: the host's load counts, and a run wants two CPUs
    slowness: float  # how many times longer than User-Mode Linux it may take

    def meet(self, kernel: Path, report: Callable[[str], None]) -> None:
        """Called once, with the kernel that is to be booted."""

    def modules(self, kernel: Path) -> list[Path]:
        """The target's, where the kernel does not have it built in."""

    def most_mbit(self, images: "Images") -> float:
        """The fastest path that it can emulate."""

    def faster(self, times: float) -> str:
        """What allows a path that is so many times faster, as the end of a sentence."""

    def instructions_per_s(self, scenario: Scenario) -> float | None:
        """How many a second of virtual time is, where it is made of instructions."""

    def circumstances(self, guest: dict) -> dict[str, float]:
        """What else a result must say of how it came about."""

    def environment(self, term: str) -> dict[str, str]:
        """Of the machines' processes."""

    def machines(self, images: "Images", plan: dict) -> list[Machine]:
        """What to start; the first ends by itself when the run is over."""


def choose(name: str, one_machine: bool = False, slow_motion: int = 1) -> Engine:
    """The engine of that name."""
    from cwndlab.qemu import Qemu
    from cwndlab.uml import Uml

    if name == "uml" and one_machine:
        raise LabError("--one-machine: only with --engine qemu (uml is one machine always)")
    if slow_motion > 1 and (name == "uml" or one_machine):
        raise LabError("--slow-motion: only with --engine qemu and two machines (others are in virtual time)")
    return Uml() if name == "uml" else Qemu(one_machine=one_machine, slow_motion=slow_motion)


def admit(images: "Images", name: str, scenario: Scenario) -> None:
    """Refuse a path that is too fast to emulate."""
    most_mbit = images.engine.most_mbit(images)
    if scenario.net.rate_mbit > most_mbit:
        instead = f"--set net.rate_mbit={most_mbit:g}{images.engine.faster(scenario.net.rate_mbit / most_mbit)}"
        raise LabError(
            f"{name}: net.rate_mbit = {scenario.net.rate_mbit:g} is more than {images.engine.name} can do here, "
            f"{most_mbit:g}; use {instead}"
        )


def default_jobs(engine: Engine) -> int:
    cpus = len(os.sched_getaffinity(0))
    return max(1, cpus // 2) if engine.real_time else cpus
