# SPDX-License-Identifier: GPL-2.0-only
import pytest

from cwndlab import cli, images


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch):
    def build(*args, **kwargs):
        pytest.fail("something was started")

    monkeypatch.setattr(images, "build", build)


def run(monkeypatch, *argv):
    monkeypatch.setattr("sys.argv", ["cwndlab", *argv])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize(
    "argv",
    [
        ("run", "nowhere"),
        ("run", "wan-100m-20ms", "--set", "net.speed=1"),
        ("run", "wan-100m-20ms", "--variant", "magic"),
        ("run", "wan-100m-20ms", "--jobs", "0"),
        ("shell", "wan-100m-20ms"),
        ("sweep", "nowhere.toml"),
        ("sweep", "configs/sweeps/matrix.toml", "--only", "nothing"),
        ("table", "nowhere.jsonl"),
        ("frobnicate",),
    ],
)
def test_a_mistake_is_exit_2_before_anything_starts(monkeypatch, argv):
    assert run(monkeypatch, *argv) == 2


def test_list_names_the_demo_cells(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["cwndlab", "list"])
    cli.main()
    assert "wan-1g-200ms" in capsys.readouterr().out
