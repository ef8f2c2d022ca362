# SPDX-License-Identifier: GPL-2.0-only
import json
import shutil
from types import SimpleNamespace

import pytest

from cwndlab import boot, uml
from cwndlab.paths import LabError

IMAGES = SimpleNamespace(engine=uml.Uml())
PLAN = {"scenario": {"net": {"seed": 1}}, "unlimited": False}


@pytest.fixture
def guest(monkeypatch, tmp_path):
    """A run directory, and a guest that ends as the test says."""
    where = tmp_path / "run"
    (where / "out").mkdir(parents=True)
    (where / "out/console.log").touch()
    monkeypatch.setenv("LIO_CWND_CACHE", str(tmp_path))
    monkeypatch.setattr(boot, "_prepare", lambda images, plan: where)

    def run(end, keep=False):
        monkeypatch.setattr(boot, "_wait", lambda images, plan, where, *rest: end(where / "out") or 0.0)
        return boot.run(IMAGES, PLAN, 0, 1, None, keep)

    run.where = where
    return run


def answer(out):
    (out / "result.json").write_text(json.dumps({"kernel": "6.12"}))


def stopped(out):
    raise boot.Stopped("stopped")


def interrupted(out):
    raise KeyboardInterrupt


def test_a_run_that_ends_well_leaves_nothing(guest):
    assert guest(answer) == {"kernel": "6.12", "settings": [], "cpu_waited_share": 0.0}
    assert not guest.where.exists()


def test_what_the_daemon_set_is_left_beside_the_answer(guest):
    def recorded(out):
        answer(out)
        (out / "settings.jsonl").write_text('{"t_us": 1}\n{"t_us": 2}\n')

    assert guest(recorded)["settings"] == [{"t_us": 1}, {"t_us": 2}]


@pytest.mark.parametrize("end", [stopped, interrupted])
def test_an_interrupted_run_leaves_nothing(guest, end):
    with pytest.raises((boot.Stopped, KeyboardInterrupt)):
        guest(end)
    assert not guest.where.exists()


def test_a_failed_run_is_kept_and_named(guest):
    with pytest.raises(LabError, match=str(guest.where)):
        guest(lambda out: None)
    assert guest.where.exists()


def test_a_run_kept_on_request_is_named(guest, capsys):
    guest(answer, keep=True)
    assert str(guest.where) in capsys.readouterr().err
    assert guest.where.exists()


def test_every_run_has_the_same_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("LIO_CWND_CACHE", str(tmp_path))
    uml._memory_folder.cache_clear()
    environments = []
    for free_bytes in (1 << 40, 0):  # a guest's memory lies in it meanwhile
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free_bytes: SimpleNamespace(free=free))
        environments.append(uml.Uml().environment("dumb"))
    assert environments[0] == environments[1]
    uml._memory_folder.cache_clear()


def test_a_clock_that_user_mode_linux_has_lost_is_given_one_more_chance(guest):
    runs = []

    def lost_at_first(out):
        runs.append(out)
        panic = "Kernel panic - not syncing: time-travel: time goes backwards 2 -> 1\n"
        (out / "console.log").write_text(panic if len(runs) == 1 else "")
        answer(out)

    assert guest(lost_at_first)["kernel"] == "6.12"
    assert len(runs) == 2


def test_another_panic_is_given_none(guest):
    def panic(out):
        (out / "console.log").write_text("Kernel panic - not syncing: something else\n")
        answer(out)

    with pytest.raises(LabError, match="something else"):
        guest(panic)
