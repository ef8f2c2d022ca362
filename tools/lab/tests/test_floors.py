# SPDX-License-Identifier: GPL-2.0-only
import json

import pytest
from click.testing import CliRunner

from cwndlab import cli, floors, images, sweep, table
from cwndlab.paths import LabError
from cwndlab.scenario import load

GOOD = {
    "throughput_bytes_per_s": 10e6,
    "throughput_last_half_bytes_per_s": 11e6,
    "time_to_90_s": 0.5,
    "sent_bytes": 1000,
    "retransmitted_bytes": 10,
    "settled_sent_bytes": 100_000,
    "settled_retransmitted_bytes": 0,
    "standing_queue_us": 1000,
    "cwnd_pkts": 200,
    "cwnd_spread": 0.05,
    "threshold_pkts": 230,
    "changes": [],
    "events": {"loss": 0},
    "sessions_bytes_per_s": [10e6],
    "disks_bytes_per_s": [10e6],
    "cross": [],
    "random_iops": None,
    "random_p99_us": None,
    "static": {"request_kb": 64, "queue_depth": 5, "read_ahead_kb": 640, "window_kb": 0, "pacing": True},
}


def lines(*settings, cell="a", **runs):
    """A results file with one cell: each variant's figures as GOOD, but for what is said."""
    scenario = load("wan-100m-20ms", settings)
    made = [{"kind": "run", "key": f"{cell} {variant}", **GOOD, **changed} for variant, changed in runs.items()]
    keys = {variant: f"{cell} {variant}" for variant in runs}
    changes = [
        {"steady_bytes_per_s": scenario.after(n + 1).limit_bytes_per_s} for n in range(len(scenario.net.changes))
    ]
    line = {"kind": "cell", "cell": cell, "limit_bytes_per_s": scenario.limit_bytes_per_s, "changes": changes}
    line["runs"] = keys
    return [{"kind": "sweep", "cells": {cell: {}}}, *made, line | {"scenario": scenario.resolved()}]


TCP = "net.cross=[{proto = 'tcp', to_s = 5}]"
UDP = "net.cross=[{proto = 'udp', rate_mbit = 50, to_s = 5}]"
RANDOM = {"random_iops": 10, "random_p99_us": 100}
SLOWER = "net.changes=[{at_s = 5, rate_mbit = 50}]"


def flow(bytes_per_s, read_bytes_per_s):
    """What a run's figures say of a flow beside it."""
    return {"cross": [{"proto": "tcp", "bytes_per_s": bytes_per_s, "read_bytes_per_s": read_bytes_per_s}]}


def changed(bytes_per_s, after_s=0, resent_bytes=0):
    """What a run's figures say of that change: the rate after it, from when on, and what was sent again."""
    t_s = [n / 10 for n in range(201)]
    read_bytes = [max(0, t - 5 - after_s) * bytes_per_s for t in t_s]
    change = {"from_s": 5, "until_s": 20, "rtt_s": 0.02, "retransmitted_bytes": resent_bytes}
    return {"progress": {"t_s": t_s, "read_bytes": read_bytes}, "changes": [change]}


def broken_of(*settings, **runs):
    """What the one cell of a results file breaks."""
    (row,) = floors.look(lines(*settings, **runs), "a file")["rows"]
    assert set(row["breaks"]) <= set(floors.names(load("wan-100m-20ms", settings)))
    return row["breaks"]


def breaks(*settings, feedback=None, oracle=None, stock=None):
    return broken_of(*settings, feedback=feedback or {}, oracle=oracle or {}, stock=stock or {})


def test_a_good_cell_breaks_nothing():
    assert breaks() == []


@pytest.mark.parametrize(
    ("feedback", "broken"),
    [
        ({"throughput_bytes_per_s": 9.6e6}, ["oracle", "stock"]),
        ({"throughput_bytes_per_s": 9.75e6}, []),
        ({"settled_retransmitted_bytes": 11}, ["loss"]),
        ({"standing_queue_us": 5001}, ["queue"]),
        ({"cwnd_spread": 0.11}, ["flat"]),
        ({"time_to_90_s": 0.64}, ["soon-oracle"]),
        ({"time_to_90_s": 0.75}, ["soon", "soon-oracle"]),
        ({"time_to_90_s": None}, ["soon", "soon-oracle"]),
        ({"standing_queue_us": None}, ["queue"]),
    ],
)
def test_each_floor(feedback, broken):
    assert breaks(feedback=feedback) == broken


def test_four_packets_may_stand_on_a_short_path():
    assert breaks("net.rtt_ms=1", "net.queue_bdp=4", feedback={"standing_queue_us": 480}) == []
    assert breaks("net.rtt_ms=1", "net.queue_bdp=4", feedback={"standing_queue_us": 490}) == ["queue"]


def test_random_loss_changes_and_sharing_lift_what_they_must():
    bad = {"settled_retransmitted_bytes": 99, "cwnd_spread": 1, "time_to_90_s": 5, "throughput_bytes_per_s": 1e6}
    assert breaks("net.loss_pct=0.1", feedback=bad) == ["oracle", "stock", "soon", "soon-oracle"]
    assert breaks(SLOWER, feedback=bad | changed(5.9e6), stock=changed(5.9e6)) == ["oracle", "stock"]
    assert breaks(TCP, feedback=bad | flow(9, 9), oracle=flow(9, 9), stock=flow(9, 9)) == ["stock"]


@pytest.mark.parametrize(
    ("feedback", "stock", "broken"),
    [
        (changed(5.9e6, 1.5, 10), changed(5.9e6, 0, 10), []),
        (changed(5.9e6, 1.8), changed(5.9e6), ["back@5s"]),  # 30 × 20 ms + 1 s
        (changed(5.5e6), changed(5.9e6), ["back@5s"]),
        (changed(5.9e6, 0, 11), changed(5.9e6, 0, 10), ["drop@5s"]),
    ],
)
def test_floors_of_a_change(feedback, stock, broken):
    assert breaks(SLOWER, feedback=feedback, stock=stock) == broken
    faster = breaks("net.changes=[{at_s = 5, loss_pct = 1}]", feedback=feedback, stock=stock)
    assert "drop@5s" not in faster


def disks(*rates):
    return {"disks_bytes_per_s": rates, "sessions_bytes_per_s": rates}


@pytest.mark.parametrize(
    ("settings", "feedback", "others", "broken"),
    [
        (["workload.sessions=2"], disks(6, 4), {}, []),  # 100 / 104
        (["workload.sessions=2"], disks(7, 3), {}, ["fair"]),
        (["workload.luns=4"], disks(2, 1, 1, 1), {}, ["fair"]),
        (["workload.sessions=2"], {"settled_retransmitted_bytes": 999}, {}, []),
        (["workload.sessions=2"], {"settled_retransmitted_bytes": 1001}, {}, ["storm"]),
        (["workload.sessions=2"], {"events": {"loss": 1}}, {}, ["storm"]),
        ([TCP], flow(8, 8), {"oracle": flow(0, 10), "stock": flow(10, 0)}, []),
        ([TCP], flow(8, 7.9), {"oracle": flow(0, 10), "stock": flow(10, 0)}, ["win"]),
        ([TCP], flow(7.9, 8), {"oracle": flow(0, 10), "stock": flow(10, 0)}, ["flow"]),
        ([UDP], {"events": {"loss": 1}}, {}, ["timeout"]),
        (["workload.luns=2"], {}, {"alone": {"throughput_bytes_per_s": 10.4e6}}, ["alone"]),
        (["workload.kind=random"], {"random_iops": 9}, {"stock": {"random_iops": 10}}, ["iops"]),
        (["workload.luns=2", "workload.random_luns=1"], RANDOM, {"stock": RANDOM}, ["p99"]),
        (["workload.luns=2", "workload.random_luns=1"], RANDOM, {"stock": RANDOM | {"random_p99_us": 101}}, []),
    ],
)
def test_floors_of_sharing(settings, feedback, others, broken):
    assert broken_of(*settings, feedback=feedback, **others) == broken


def test_a_change_is_shown_beside_stock():
    found = floors.look(lines(SLOWER, feedback=changed(5.9e6, 0, 11_000), stock=changed(1, 0, 9_000)), "a file")
    header, line = table.grid(found["rows"])
    assert line[header.index("back s")] == "0.00"
    assert line[header.index("resent then kB/stock")] == "11/9"


def test_without_an_oracle_there_is_nothing_to_be_compared_with():
    (row,) = floors.look(lines(feedback={}, stock={}), "a file")["rows"]
    assert row["breaks"] == [] and row["feedback_to_oracle"] is None and row["oracle_static"] is None


def test_the_mean_over_the_loss_free_cells_at_100_mbit_has_its_own_floor():
    slow = floors.look(lines(feedback={"throughput_bytes_per_s": 9.9e6}, oracle={}), "a file")
    assert slow["mean_broken"] and slow["rows"][0]["breaks"] == []
    assert slow["means"]["feedback_to_oracle"] == pytest.approx(0.99)
    lossy = floors.look(lines("net.loss_pct=1", feedback={"throughput_bytes_per_s": 9.9e6}, oracle={}), "a file")
    assert not lossy["mean_broken"]


def known(breaks, cells=("a",), missing=(), **figures):
    """What is found of a cell that is known to break these, and whether that holds."""
    made = lines(feedback=figures, stock={}, oracle={})
    made[0] |= {"cells": {name: {} for name in ("a", *missing)}, "known_breaks": {"a": breaks}}
    found = floors.look(made, "a file")
    return found, floors.holds(found, cells)


def test_what_is_known_to_break_holds_but_nothing_else_does():
    bad = {"cwnd_spread": 1}
    assert known([])[1] and known(["flat"], **bad)[1]
    assert not known([], **bad)[1] and not known(["queue"], **bad)[1]
    assert not known(["flat"], **bad, standing_queue_us=5001)[1]
    assert known([], cells=("b",), **bad)[1]  # another one's
    slow = {"throughput_bytes_per_s": 9.9e6}  # only the mean breaks, which is of all
    assert not known([], **slow)[1] and known([], missing=("b",), **slow)[1]


def test_the_table_has_in_brackets_what_is_known_to_break():
    found, _ = known(["flat"], cwnd_spread=1)
    header, line = table.grid(found["rows"])
    assert line[header.index("breaks")] == "(flat)"
    assert "1 of 1 cells break a floor: a. In brackets: known to break." in table.remarks(found)
    assert "Known to break, but held: a (flat)." in table.remarks(known(["flat"])[0])


@pytest.fixture
def check(monkeypatch, tmp_path):
    """Exit codes of `sweep`, and of `table --check`, where `a` and `b` break a floor, and some are known to."""
    known = {}

    def measure(_images, _file, _cells, _chosen, output, _jobs):
        made = lines(feedback={"cwnd_spread": 1}, stock={}) + lines(cell="b", feedback={"cwnd_spread": 1}, stock={})
        made.append({"kind": "sweep", "cells": {"a": {}, "b": {}}, "known_breaks": known})
        output.write_text("".join(json.dumps({"format": sweep.FORMAT} | line) + "\n" for line in made))
        return []

    monkeypatch.setattr(images, "build", lambda *args, **kwargs: None)
    monkeypatch.setattr(sweep, "run", measure)
    file, output = tmp_path / "s.toml", tmp_path / "results.jsonl"
    net = "net = {rate_mbit = 100, rtt_ms = 20, queue_bdp = %d}\n"
    cells = "".join(f'[[cells]]\nname = "{name}"\n{net % queue_bdp}' for queue_bdp, name in enumerate("ab", 1))
    file.write_text('description = "a test"\n' + cells)

    def run(*argv):
        return CliRunner().invoke(cli.cli, [*map(str, argv)]).exit_code

    def both(cells, *options):
        known.update((name, ["flat"]) for name in cells)
        return run("sweep", file, "--output", output, *options), run("table", output, "--check")

    return both


def test_check_fails_by_what_is_not_known_to_break(check):
    assert check("a") == (0, 1)
    assert check("a", "--check") == (1, 1)
    assert check("a", "--check", "--only", "b") == (1, 1)
    assert check("a", "--check", "--only", "a") == (0, 1)
    assert check("ab", "--check") == (0, 0)


def test_the_limit_is_the_payload_and_follows_changes():
    assert load("wan-100m-20ms").limit_bytes_per_s == pytest.approx(12.5e6 * 1448 / 1514)
    changed = load("wan-100m-20ms", ("net.changes=[{at_s = 5, rate_mbit = 20}, {at_s = 4, rtt_ms = 1}]",))
    assert changed.limit_bytes_per_s == pytest.approx((5 * 100 + 15 * 20) / 20 * 1e6 / 8 * 1448 / 1514)


def test_only_the_last_sweeps_cells_are_shown_and_the_last_of_a_name_counts():
    old, new = lines(cell="old", feedback={}), lines(feedback={"throughput_bytes_per_s": 1}) + lines(feedback={})
    new[-3]["cells"] = {"a": {"feedback": "a feedback"}, "b": {}}
    found = floors.look(old + new, "a file")
    assert [row["cell"] for row in found["rows"]] == ["a"]
    assert found["rows"][0]["feedback_bytes_per_s"] == 10e6
    assert found["missing"] == ["b"]


def test_a_cell_that_another_daemon_was_measured_with_is_missing():
    made = lines(feedback={}, stock={})
    made[0]["cells"] = {"a": {"feedback": "another key", "stock": "a stock"}}
    assert floors.look(made, "a file")["missing"] == ["a"]


def test_no_sweep_is_said_in_a_line():
    with pytest.raises(LabError, match="a file: no sweep"):
        floors.look([], "a file")


def test_the_table_leaves_out_what_nobody_measured_and_says_what_breaks():
    found = floors.look(lines(feedback={"cwnd_spread": 1}, stock={}, oracle={}), "a file")
    header, line = table.grid(found["rows"])
    assert "bbr" not in header and "oracle" in header
    assert line[header.index("oracle's settings")] == "64K×5 ra640K paced"
    assert line[header.index("breaks")] == "flat"
    assert "| a | 11.96 | 10.00 | 10.00 |" in table.as_markdown(found)
    assert any("1 of 1 cells break a floor: a." in text for text in table.remarks(found))
