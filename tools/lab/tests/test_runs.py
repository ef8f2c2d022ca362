# SPDX-License-Identifier: GPL-2.0-only
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cwndlab import boot, guestroot, result, runs
from cwndlab.paths import LabError
from cwndlab.scenario import load
from cwndlab.uml import Uml

IMAGES = SimpleNamespace(root=Path(), patched=True, kernel_package="", engine=Uml())


@pytest.fixture
def guests(monkeypatch):
    """Guests that run for as many seconds as their scenario says; those at 50 ms fail at once."""

    def run(images, plan, slot, timeout_s, progress, keep):
        net, work = plan["scenario"]["net"], plan["scenario"]["workload"]
        if net["rtt_ms"] == 50:
            raise LabError("failed")
        end_s = time.monotonic() + work["runtime_s"]
        while time.monotonic() < end_s:
            progress(0)
            time.sleep(0.01)
        return {}

    monkeypatch.setattr(guestroot, "versions", lambda root: {})
    monkeypatch.setattr(boot, "run", run)
    monkeypatch.setattr(result, "build", lambda plan, *rest: {"throughput_bytes_per_s": 1, "variant": plan["variant"]})


def job(variant, *settings):
    return runs.Job("wan-100m-20ms", load("wan-100m-20ms", settings), variant)


def test_results_come_in_order_and_arrive_when_they_are_there(guests):
    arrived = []
    todo = [job("stock", "workload.runtime_s=0.5"), job("feedback", "workload.runtime_s=0.01")]
    found = runs.run_all(IMAGES, todo, at_once=2, arrived=lambda job, found: arrived.append(job.variant))
    assert [record["variant"] for record in found] == ["stock", "feedback"]
    assert arrived == ["feedback", "stock"]


def test_the_first_failure_ends_the_rest(guests):
    begun = time.monotonic()
    todo = [job("stock", "workload.runtime_s=60"), job("feedback", "net.rtt_ms=50")]
    with pytest.raises(LabError, match="feedback: failed"):
        runs.run_all(IMAGES, todo, at_once=2)
    assert time.monotonic() - begun < 30
