# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
import json
import types

import pytest

from cwndlab import boot, guestroot, oracle, result, sweep
from cwndlab.images import Images
from cwndlab.paths import CONFIGS, LabError
from cwndlab.scenario import PACKET_BYTES
from cwndlab.uml import Uml

HEAD = 'description = "a test"\n'
KNOWN = "[known_breaks]\n"
CELL = '[[cells]]\nname = "a"\nnet.rate_mbit = 100\nnet.rtt_ms = 20\nnet.queue_bdp = 1\n'


@pytest.fixture
def load(tmp_path):
    def loader(text):
        path = tmp_path / "test.toml"
        path.write_text(text)
        return sweep.load(path)

    return loader


@pytest.fixture
def images(tmp_path):
    """As real ones, for keys: nothing of them is started."""
    (tmp_path / "tools").mkdir()
    for name in ("linux", "tools/iscsi-cwndd", "tools/lio-cwndmon"):
        (tmp_path / name).write_text(name)
    return Images(tmp_path / "linux", "a kernel", tmp_path / "guest-root-1", tmp_path / "tools", True, Uml())


@pytest.mark.parametrize("path", sorted((CONFIGS / "sweeps").glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_sweep_is_valid(path):
    assert sweep.load(path)


def test_the_matrix_has_all_that_was_asked_for():
    cells = {cell.name: cell.scenario for cell in sweep.load(CONFIGS / "sweeps/matrix.toml")}
    assert len(cells) == 2 * 4 * 3 * 3 - 3 * 2 + 4 + 2 * (5 + 2 + 3)  # at 100 Mbit/s, 2 ms three queues are one
    assert min(scenario.net.queue_bytes for scenario in cells.values()) == 20 * PACKET_BYTES
    assert cells["random-100ms-0.0001pct"].net.loss_pct == 1e-4
    assert cells["fq_codel-20ms-ecn"].net.ecn
    assert cells["cc-20ms-reno"].target.cc == "reno"
    assert cells["1gbit-direct1m-50ms-0.25bdp"].workload.iodepth == 8


def test_cells_are_all_combinations_and_their_names_say_so(load):
    text = HEAD + "[sets]\nnear = { net.rtt_ms = 2 }\nfar = { net.rtt_ms = 200 }\n" + CELL
    text = text.replace("net.rtt_ms = 20\n", 'sets = [["near", "far"]]\n').replace("= 100", "= [100, 1000]")
    cells = {cell.name: cell.scenario for cell in load(text)}
    assert list(cells) == ["a-near-100mbit", "a-near-1000mbit", "a-far-100mbit", "a-far-1000mbit"]
    assert (cells["a-far-1000mbit"].net.rtt_ms, cells["a-far-1000mbit"].net.rate_mbit) == (200, 1000)


def test_the_cells_own_keys_win_over_sets_and_these_over_defaults(load):
    text = HEAD + "defaults = { sample_ms = 10, workload.luns = 2, net.seed = 5 }\n"
    text += "[sets]\none = { sample_ms = 20, workload.luns = 3 }\n" + CELL + 'sets = ["one"]\nsample_ms = 30\n'
    (cell,) = load(text)
    assert (cell.scenario.sample_ms, cell.scenario.workload.luns, cell.scenario.net.seed) == (30, 3, 5)


def test_a_shipped_scenario_may_be_the_base(load):
    text = '[[cells]]\nscenario = ["wan-1g-50ms", "lossy"]\ndaemon.strategy = "linear"\n'
    cells = load(HEAD + text)
    assert [cell.name for cell in cells] == ["wan-1g-50ms", "lossy"]
    assert cells[1].scenario.net.loss_pct == 0.1


def test_a_list_of_tables_is_one_value(load):
    (cell,) = load(HEAD + CELL + "net.changes = [{ at_s = 1, rate_mbit = 50 }, { at_s = 2, rtt_ms = 3 }]\n")
    assert len(cell.scenario.net.changes) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD, "cells: field required"),
        (HEAD + "speed = 1\n" + CELL, "speed: unknown key; known: description, variants"),
        (HEAD + CELL + "net.speed = 1\n", "cell a: net.speed: unknown key; known: rate_mbit"),
        (HEAD + CELL + "speed = 1\n", "cell a: speed: unknown key; known: description, sample_ms, net"),
        (HEAD + CELL + "net.loss_pct = [1, 101]\n", "cell a-101pct: net.loss_pct: input should be less than or equal"),
        (HEAD + CELL + 'sets = ["far"]\n', "cell a: sets: no [sets.far]; there are: none"),
        (HEAD + CELL + 'variants = ["oracle"]\n', "cells.0.variants.0: input should be 'feedback', 'stock'"),
        (HEAD + CELL + 'oracle = "maybe"\n', "cells.0.oracle: input should be 'needed', 'always'"),
        (HEAD + "oracle_runs = 17\n" + CELL, "oracle_runs: input should be less than or equal to 16"),
        (HEAD + CELL + CELL, "two cells are called a"),
        (HEAD + CELL.replace('name = "a"\n', ""), "give the [[cells]] a name"),
        (HEAD + CELL + "net = 1\n", "test.toml"),
        (HEAD + KNOWN + 'b = ["flat"]\n' + CELL, "known_breaks: no cell is called b; there are: a"),
        (HEAD + KNOWN + 'a = ["fat"]\n' + CELL, "known_breaks.a: no floor is called fat; known: oracle, stock"),
        (HEAD + KNOWN + 'a = ["back@5s"]\n' + CELL, "known_breaks.a: no floor is called back@5s; known: oracle"),
    ],
)
def test_a_mistake_is_one_line_with_the_file(load, text, said):
    with pytest.raises(LabError) as caught:
        load(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "test.toml" in str(caught.value)


def test_a_key_is_of_all_that_determines_a_run_and_of_nothing_else(load, images, tmp_path):
    (cell,) = load(HEAD + CELL)
    (renamed,) = load(HEAD + CELL.replace('"a"', '"b"').replace("queue_bdp = 1", "queue_kb = 244.140625"))
    (longer,) = load(HEAD + CELL + "workload.runtime_s = 21\n")
    (other_static,) = load(HEAD + CELL + "static.queue_depth = 7\n")
    (tmp_path / "daemon").mkdir()
    for name in ("iscsi-cwndd", "lio-cwndmon"):
        (tmp_path / "daemon" / name).write_text(f"tools/{name}" + name.startswith("iscsi") * " changed")
    new_daemon = dataclasses.replace(images, tools=tmp_path / "daemon")
    (tmp_path / "new-linux").write_text("changed")
    new_kernel = dataclasses.replace(images, kernel=tmp_path / "new-linux")

    def keys(scenario, made=images):
        return [sweep.key_of(made, scenario, variant) for variant in ("feedback", "stock", "static")]

    first = keys(cell.scenario)
    assert len(set(first)) == 3
    assert keys(renamed.scenario) == first
    assert not set(keys(longer.scenario)) & set(first)
    assert not set(keys(cell.scenario, new_kernel)) & set(first)
    assert [a == b for a, b in zip(keys(other_static.scenario), first, strict=True)] == [True, True, False]
    assert [a == b for a, b in zip(keys(cell.scenario, new_daemon), first, strict=True)] == [False, True, True]


class Guests:
    """In place of guests: counts what is run, and may fail."""

    def __init__(self, monkeypatch, images, share_of_limit):
        self.ran, self.fail, self.more = [], lambda variant, n: None, {}
        self.images, self.share = images, share_of_limit
        monkeypatch.setattr(guestroot, "versions", lambda root: {})
        monkeypatch.setattr(boot, "run", self._boot)
        monkeypatch.setattr(result, "build", lambda plan, *rest: {"plan": plan, "throughput_bytes_per_s": 1e6})
        monkeypatch.setattr(result, "figures", self._figures)

    def _boot(self, images, plan, *rest):
        self.ran.append(plan["variant"])
        self.fail(plan["variant"], len(self.ran))

    def _figures(self, record):
        static = record["plan"]["static"]["queue_depth"] or 0
        share = self.share if record["plan"]["variant"] == "feedback" else 0.9 - static / 1e4
        rate = share * 100e6 / 8 * 1448 / 1514
        return {"throughput_bytes_per_s": rate, "throughput_last_half_bytes_per_s": 9e6} | self.more

    def sweep(self, load, text, output, only="*"):
        before, cells = len(self.ran), load(text)
        chosen = sweep.choose(cells, only)
        self.failed = sweep.run(self.images, types.SimpleNamespace(stem="test"), cells, chosen, output, 1)
        return self.ran[before:]


def kinds(output):
    return [(line["kind"], line.get("cell")) for line in sweep.read(output)]


def test_a_sweep_done_again_runs_nothing(monkeypatch, load, images, tmp_path):
    guests, output = Guests(monkeypatch, images, 0.99), tmp_path / "out/results.jsonl"
    assert guests.sweep(load, HEAD + CELL, output) == ["feedback", "stock"]
    assert guests.sweep(load, HEAD + CELL, output) == []
    assert guests.sweep(load, HEAD + CELL.replace("= 100", "= [100, 50]"), output) == ["feedback", "stock"]
    assert kinds(output)[:4] == [("sweep", None), ("run", "a"), ("run", "a"), ("cell", "a")]


def test_the_oracle_is_searched_where_it_is_needed(monkeypatch, load, images, tmp_path):
    guests = Guests(monkeypatch, images, 0.96)
    searched = guests.sweep(load, HEAD + CELL, tmp_path / "needed.jsonl")
    assert 0 < searched.count("static") <= oracle.CLIMB_RUNS
    (cell,) = (line for line in sweep.read(tmp_path / "needed.jsonl") if line["kind"] == "cell")
    assert set(cell["runs"]) == {"feedback", "stock", "oracle"}
    assert cell["tried"] == searched.count("static")
    assert guests.sweep(load, HEAD + "oracle_runs = 3\n" + CELL, tmp_path / "few.jsonl").count("static") == 3
    assert "static" not in guests.sweep(load, HEAD + CELL + 'oracle = "never"\n', tmp_path / "never.jsonl")
    guests.share = 0.98
    assert "static" not in guests.sweep(load, HEAD + CELL, tmp_path / "needless.jsonl")
    assert "static" in guests.sweep(load, HEAD + CELL + 'oracle = "always"\n', tmp_path / "always.jsonl")


def test_a_change_has_an_oracle_of_its_own(monkeypatch, load, images, tmp_path):
    guests, output = Guests(monkeypatch, images, 0.5), tmp_path / "results.jsonl"
    change = {"from_s": 5, "until_s": 20, "rtt_s": 0.02}
    rate = 50e6 / 8 * 1448 / 1514
    guests.more = {"changes": [change], "progress": {"t_s": [5, 20], "read_bytes": [0, 15 * rate]}}
    text = HEAD + CELL + "net.changes = [{ at_s = 5, rate_mbit = 50 }]\n"
    assert guests.sweep(load, text, output) == ["feedback", "stock"]  # it is back, and the whole read needs none
    assert guests.sweep(load, text.replace("= 50 }", "= 75 }"), output).count("static") > 0
    *_, back, slow = (line["changes"] for line in sweep.read(output) if line["kind"] == "cell")
    assert back == [{"steady_bytes_per_s": pytest.approx(rate)}]
    assert slow == [{"steady_bytes_per_s": 9e6}]


def test_a_killed_sweep_goes_on_where_it_was(monkeypatch, load, images, tmp_path):
    guests, output = Guests(monkeypatch, images, 0.5), tmp_path / "results.jsonl"

    def kill(variant, n):
        if n == 5:
            raise KeyboardInterrupt

    guests.fail = kill
    with pytest.raises(KeyboardInterrupt):
        guests.sweep(load, HEAD + CELL, output)
    with open(output, "a") as file:
        file.write('{"kind": "run", "key": "cut sh')
    again = guests.sweep(load, HEAD + CELL, output)
    assert "feedback" not in again
    assert kinds(output)[-1] == ("cell", "a")
    assert len([line for line in output.read_text().splitlines() if json.loads(line)["kind"] == "run"]) == 4 + len(
        again
    )


def test_a_run_that_fails_costs_its_cell_only(monkeypatch, load, images, tmp_path):
    guests, output = Guests(monkeypatch, images, 0.99), tmp_path / "results.jsonl"

    def fail(variant, n):
        if n == 1:
            raise LabError("the kernel complained")

    guests.fail = fail
    guests.sweep(load, HEAD + CELL.replace("= 100", "= [100, 50]"), output)
    assert guests.failed == ["a-100mbit feedback: the kernel complained"]
    assert len([kind for kind, _ in kinds(output) if kind == "cell"]) == 1


def test_only_some_cells_may_be_measured(monkeypatch, load, images, tmp_path):
    guests, output = Guests(monkeypatch, images, 0.99), tmp_path / "results.jsonl"
    text = HEAD + CELL.replace("= 100", "= [100, 50]")
    assert len(guests.sweep(load, text, output, "*-50*")) == 2
    with pytest.raises(LabError, match="--only x: no such cell; there are: a-100mbit, a-50mbit"):
        guests.sweep(load, text, output, "x")


def test_the_results_say_which_floors_are_known_to_break(monkeypatch, load, images, tmp_path):
    guests, output = Guests(monkeypatch, images, 0.99), tmp_path / "results.jsonl"
    change = "net.changes = [{at_s = 5, rtt_ms = 40}]\n"
    guests.sweep(load, HEAD + 'oracle = "never"\n' + KNOWN + 'a = ["flat", "back@5s"]\n' + CELL + change, output)
    assert sweep.read(output)[0]["known_breaks"] == {"a": ["flat", "back@5s"]}


def test_two_sweeps_do_not_share_a_file(tmp_path):
    with sweep.opened(tmp_path / "r.jsonl"), pytest.raises(LabError, match="another sweep"):  # noqa: SIM117
        with sweep.opened(tmp_path / "r.jsonl"):
            pass


@pytest.mark.parametrize("text", ['{"format": "other"}\nx', "a line\nand another", "[]\n", "{}\n", "a line"])
def test_another_file_is_not_written_to(tmp_path, text):
    path = tmp_path / "notes.jsonl"
    path.write_text(text)
    with pytest.raises(LabError, match="notes.jsonl: line 1 is not of a sweep's results"), sweep.opened(path):
        pass
    assert path.read_text() == text
