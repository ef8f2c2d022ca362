# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is made of: kernel, root, the tools. Each is built when missing or out of date.

CWNDLAB_KERNEL names a kernel of the engine's to use instead of the one tools/kernel builds, CWNDLAB_TOOLS a
directory with static iscsi-cwndd and lio-cwndmon.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cwndlab import guestroot
from cwndlab.engine import Engine
from cwndlab.paths import REPO, LabError, cache

TRIPLE = "x86_64-unknown-linux-gnu"
BINARIES = ("iscsi-cwndd", "lio-cwndmon")


@dataclass(frozen=True)
class Images:
    kernel: Path
    kernel_package: str
    root: Path
    tools: Path
    patched: bool
    engine: Engine


def _output(argv: list[str], what: str, env: dict[str, str] | None = None) -> str:
    """Run a builder, its progress shown as it comes; its standard output."""
    try:
        done = subprocess.run(argv, cwd=REPO / "tools", env=env, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise LabError(f"{what}: {argv[0]} not found") from None
    if done.returncode:
        raise LabError(f"{what}: {' '.join(argv)}: exit {done.returncode}")
    return done.stdout


def _kernel(arch: str, patched: bool) -> tuple[Path, str]:
    if given := os.environ.get("CWNDLAB_KERNEL"):
        if not Path(given).exists():
            raise LabError(f"CWNDLAB_KERNEL={given}: no such file")
        return Path(given).resolve(), "given by CWNDLAB_KERNEL"
    tool = str(REPO / "tools/kernel")
    lines = _output([tool, "build", "--arch", arch, *([] if patched else ["--unpatched"])], "kernel").splitlines()
    binary = Path(lines[-1])  # …/VERSION/TREE/FOLDER/KERNEL
    version = binary.parents[2].name
    return binary, f"linux-source-{'.'.join(version.split('.')[:2])} {version}"


def _tools() -> Path:
    if given := os.environ.get("CWNDLAB_TOOLS"):
        for name in BINARIES:
            if not Path(given, name).exists():
                raise LabError(f"CWNDLAB_TOOLS={given}: no {name} there")
        return Path(given).resolve()
    target = Path(os.environ.get("CARGO_TARGET_DIR") or cache() / "cargo").resolve()
    env = {
        **os.environ,
        "CARGO_TARGET_DIR": str(target),
        # They run in the guest as well as on any Debian: no library from this machine.
        "RUSTFLAGS": "-C target-feature=+crt-static",
    }
    packages = [word for name in BINARIES for word in ("--package", name)]
    _output(["cargo", "build", "--quiet", "--release", "--locked", "--target", TRIPLE, *packages], "tools", env)
    return target / TRIPLE / "release"


def build(report: Callable[[str], None], engine: Engine, *, patched: bool = True) -> Images:
    """Everything a run needs."""
    root = guestroot.build(report)
    tools = _tools()
    kernel, package = _kernel(engine.arch, patched)
    engine.meet(kernel, report)
    return Images(kernel, package, root, tools, patched, engine)
