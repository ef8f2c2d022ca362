# SPDX-License-Identifier: GPL-2.0-only
"""What the tests share: a fixture that builds what a guest is made of, for those marked `guest`."""

import pytest

from cwndlab import images
from cwndlab.runs import Job, run_all
from cwndlab.scenario import load


def pytest_configure(config):
    config.addinivalue_line("markers", "guest: boots the lab (seconds to a minute each)")


@pytest.fixture(scope="session")
def made():
    return images.build(print)


@pytest.fixture
def measure(made):
    """Run a scenario once per variant, all at the same time."""

    def run(name: str, *variants: str, settings: tuple[str, ...] = ()) -> list[dict]:
        scenario = load(name, settings)
        return run_all(made, [Job(name, scenario, variant) for variant in variants], at_once=2)

    return run
