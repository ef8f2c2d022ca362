# SPDX-License-Identifier: GPL-2.0-only
"""libiscsi's conformance tests against the target, each in a process of its own: one that hangs is only one."""

import re
import subprocess
from fnmatch import fnmatchcase
from typing import Any

import measure
import net

TOOL = "iscsi-test-cu"
INITIATORS = ("iqn.2026-11.lab.example:first", "iqn.2026-11.lab.example:second")
PATIENCE_S = 60  # those that end need a few seconds


def _verdict(said: str) -> str:
    """Of a test's output: CUnit counts a skipped test as passed."""
    if "[SKIPPED]" in said:
        return "skipped"
    return "passed" if re.search(r"passed$", said, re.M) and "FAILED" not in said else "failed"


def _once(test: str, iqn: str) -> dict[str, str]:
    names = (f"--initiator-name={INITIATORS[0]}", f"--initiator-name-2={INITIATORS[1]}")
    command = [TOOL, "--dataloss", *names, f"--test={test}", f"iscsi://{net.TARGET}/{iqn}/0"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired as hung:
        return {"verdict": "hung", "said": (hung.stdout or b"").decode(errors="replace")}
    said = done.stdout.decode(errors="replace")
    return {"verdict": _verdict(said) if done.returncode >= 0 else f"signal {-done.returncode}", "said": said}


def run(plan: dict, there: Any, iqns: list[str]) -> dict:
    """What each test came to, each time."""
    names = [name for name in net.run(TOOL, "--list").split() if name.count(".") == 2]  # FAMILY.SUITE.TEST
    tests = [name for name in names if any(fnmatchcase(name, pattern) for pattern in plan["tests"])]
    results = {}
    for n, test in enumerate(tests):
        measure.progress(n, len(tests))
        results[test] = [_once(test, iqns[0]) for _ in range(plan["times"])]
    return {"results": results}
