# SPDX-License-Identifier: GPL-2.0-only
"""One cell on every engine: the comparison must come out the same."""

import pytest

from cwndlab import images
from cwndlab.engine import choose
from cwndlab.runs import Job, run_all
from cwndlab.scenario import load

pytestmark = pytest.mark.qemu

CELL = "wan-50m-100ms"
VARIANTS = ("stock", "feedback")
ENGINES = {
    "uml": ("uml", False),
    "two machines": ("qemu", False),
    "one machine": ("qemu", True),
    "one machine again": ("qemu", True),
}


@pytest.fixture(scope="module")
def rates():
    """Bytes per second of every engine and variant."""
    found = {}
    for name, choice in ENGINES.items():
        engine = choose(*choice)
        jobs = [Job(CELL, load(CELL), variant) for variant in VARIANTS]
        results = run_all(images.build(print, engine), jobs, at_once=1)
        assert {result["engine"] for result in results} == {engine.name}
        found[name] = {result["variant"]: result["throughput_bytes_per_s"] for result in results}
    return found


@pytest.mark.parametrize("engine", ["two machines", "one machine"])
def test_feedback_gains_what_it_gains_under_uml(rates, engine):
    gains = {name: rate["feedback"] / rate["stock"] for name, rate in rates.items()}
    assert gains[engine] > 1
    assert gains[engine] == pytest.approx(gains["uml"], rel=0.15)


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_runs_in_virtual_time_agree(rates, variant):
    assert rates["one machine"][variant] == pytest.approx(rates["one machine again"][variant], rel=0.005)
