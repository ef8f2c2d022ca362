# SPDX-License-Identifier: GPL-2.0-only
"""What the guest is told to read."""

import sys

import pytest

from cwndlab.paths import GUEST_SCRIPTS
from cwndlab.scenario import load

sys.path.append(str(GUEST_SCRIPTS))
import measure  # noqa: E402

SESSIONS = [["sda", "sdb", "sdc"], ["sdd", "sde", "sdf"]]


def workload(*settings):
    return load("wan-100m-20ms", ("workload.sessions=2", *settings)).resolved()["workload"]


def jobs(work):
    """fio's jobs, each with its own options."""
    command = " ".join(measure.fio_command(work, measure.readers(work, SESSIONS)))
    return [job.split() for job in command.split(" --name=")[1:]]


def test_idle_luns_are_not_read():
    reading = measure.readers(workload("workload.luns=2", "workload.idle_luns=1"), SESSIONS)
    assert [(reader["disk"], reader["session"]) for reader in reading] == [
        ("sda", 0),
        ("sdb", 0),
        ("sdd", 1),
        ("sde", 1),
    ]


@pytest.mark.parametrize(
    ("kind", "random_luns", "random"),
    [("direct", 1, [False, True]), ("direct", 0, [False] * 2), ("random", 0, [True] * 2)],
)
def test_random_readers_are_told_apart(kind, random_luns, random):
    work = workload("workload.luns=2", f"workload.kind={kind}", f"workload.random_luns={random_luns}")
    assert [reader["random"] for reader in measure.readers(work, SESSIONS)] == 2 * random
    assert ["--rw=randread" in job for job in jobs(work)] == 2 * [False, random_luns > 0]


def test_sessions_begin_one_after_the_other_and_end_together():
    (first, second) = jobs(workload("workload.stagger_s=5"))
    assert first == ["sda", "--filename=/dev/sda"]
    assert second == ["sdd", "--filename=/dev/sdd", "--startdelay=5.0", "--runtime=15.0"]
