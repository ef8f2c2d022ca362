# SPDX-License-Identifier: GPL-2.0-only
"""Where things are: the checkout and the cache. Nothing else is written to."""

import os
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
CONFIGS = REPO / "configs"
SCENARIOS = CONFIGS / "scenarios"
TESTS = REPO / "tools" / "lab" / "tests"
GUEST_SCRIPTS = REPO / "tools" / "lab" / "guest"


def cache() -> Path:
    """The cache directory, made if missing."""
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("LIO_CWND_CACHE") or Path(xdg) / "lio-cwnd")
    path.mkdir(parents=True, exist_ok=True)
    return path


class LabError(Exception):
    """Something the user can act on, said in one line."""
