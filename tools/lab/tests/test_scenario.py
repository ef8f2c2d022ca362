# SPDX-License-Identifier: GPL-2.0-only
import pytest

from cwndlab.paths import SCENARIOS, LabError
from cwndlab.scenario import load

NAME = "wan-100m-20ms"


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_scenario_is_valid_and_says_what_it_is(path):
    assert load(path.stem).description


def test_defaults_are_resolved():
    values = load(NAME).resolved()
    assert values["net"]["queue_bytes"] == 125_000  # half of 100 Mbit/s × 20 ms
    assert values["net"]["access_mbit"] == 1000


def test_a_queue_may_be_given_a_least_number_of_packets():
    assert load(NAME, ("net.queue_min_pkts=20",)).net.queue_bytes == 125_000
    assert load(NAME, ("net.queue_min_pkts=100",)).net.queue_bytes == 151_400


def test_what_follows_a_change_is_a_path_of_its_own():
    changes = "net.changes=[{at_s = 9, rtt_ms = 80}, {at_s = 5, rate_mbit = 25}]"
    scenario = load(NAME, (changes,))
    assert [change.at_s for change in scenario.net.changes] == [5, 9]
    before, slower, longer = (scenario.after(n).net for n in range(3))
    assert [(net.rate_mbit, net.rtt_ms) for net in (before, slower, longer)] == [(100, 20), (25, 20), (25, 80)]
    assert {net.queue_bytes for net in (before, slower, longer)} == {125_000}  # bytes, as the running one keeps them
    assert {net.card_mbit for net in (before, slower, longer)} == {1000}
    assert not longer.changes


def test_the_machines_links_are_faster_than_any_rate_of_a_path():
    assert load(NAME, ("net.changes=[{at_s = 5, rate_mbit = 2000}, {at_s = 9, rate_mbit = 50}]",)).net.card_mbit == 20_000


def test_a_path_that_becomes_faster_fills_more_memory():
    faster = ("workload.runtime_s=100", "net.changes=[{at_s = 50, rate_mbit = 2000}]")
    with pytest.raises(LabError, match="is 13.1 GB"):
        load(NAME, faster)


def test_settings_override_any_key():
    scenario = load(
        NAME,
        (
            "net.rtt_ms=50",
            "workload.kind=direct",
            "net.changes=[{at_s = 5, rate_mbit = 50}]",
            "target.tpg_attributes.cwnd_feedback=0",
        ),
    )
    assert scenario.net.rtt_ms == 50
    assert scenario.workload.kind == "direct"
    assert scenario.net.changes[0].rate_mbit == 50
    assert scenario.target.tpg_attributes == {"cwnd_feedback": 0}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("net.speed=1",), "net.speed: unknown key; known: rate_mbit, rtt_ms"),
        (("net.changes=[{when = 1, at_s = 2}]",), "net.changes.0.when: unknown key; known: at_s"),
        (("net.rtt_ms=20ms",), "net.rtt_ms: input should be a valid number"),
        (("net.rate_mbit=-1",), "net.rate_mbit: input should be greater than 0, not -1"),
        (("net.loss_pct=101",), "net.loss_pct: input should be less than or equal to 100"),
        (("net.queue_kb=64",), "net: give one of queue_bdp and queue_kb"),
        (("net.rtt_ms=0",), "must allow two packets"),
        (("net.access_mbit=10",), "access_mbit must not be below rate_mbit, 100"),
        (
            ("net.access_mbit=1000", "net.changes=[{at_s = 5, rate_mbit = 1500}]"),
            "access_mbit must not be below rate_mbit, 1500 when it is highest",
        ),
        (("net.cross=[{proto = 'udp', to_s = 5}]",), "a udp flow needs rate_mbit"),
        (("workload.kind=sideways",), "should be 'buffered', 'direct', 'random' or 'verify'"),
        (("workload.kind=verify",), "needs another target.backstore (nullio keeps nothing)"),
        (
            ("target.backstore=pscsi", "workload.size_mb=16"),
            "target.backstore pscsi is one disk of workload.size_mb = 8",
        ),
        (("target.backstore=ramdisk",), "workload.size_mb × workload.luns × workload.sessions must be at most"),
        (("net.changes=[{at_s = 20}]",), "net.changes.0.at_s must be before workload.runtime_s, 20"),
        (
            ("net.cross=[{proto = 'tcp', to_s = 5}, {proto = 'tcp', from_s = 30, to_s = 40}]",),
            "net.cross.1.from_s must be before workload.runtime_s, 20",
        ),
        (
            ("net.changes=[{at_s = 4, rtt_ms = 1}, {at_s = 4, loss_pct = 1}]",),
            "net.changes: two changes at_s = 4; give",
        ),
        (("target.config=none.json",), "target.config: no such file under configs/target, 'none.json'; there are: lio"),
        (("workload.size_mb=1", "workload.bs_kb=2048"), "workload: size_mb must hold one block, bs_kb = 2048"),
        (("workload.runtime_s=1000",), "is 12.5 GB; a buffered read must be at most 12 GB"),
        (("workload.multipath=true",), "workload: multipath needs sessions of 2 or more"),
        (("workload.luns=64", "workload.sessions=3"), "sessions × (luns + idle_luns) must be at most 128"),
        (("workload.random_luns=2",), "random_luns must be at most luns, 1"),
        (("workload.kind=random", "workload.random_luns=1"), "random_luns must be at most luns, 1, and 0 but for kind"),
        (("workload.sessions=3", "workload.stagger_s=10"), "(sessions - 1) × stagger_s must be below runtime_s, 20"),
        (("daemon.strategy=guess",), "daemon.strategy: input should be 'notify', 'linear' or 'binary'"),
        (("static.queue_depth=0",), "static.queue_depth: input should be greater than or equal to 1"),
        (("net",), "expected KEY=VALUE"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(settings, said):
    with pytest.raises(LabError) as caught:
        load(NAME, settings)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert f"{NAME}.toml" in str(caught.value) or "--set" in str(caught.value)


def test_an_unknown_scenario_names_the_known_ones():
    with pytest.raises(LabError, match=f"no such scenario; there are: .*{NAME}"):
        load("nowhere")


def test_broken_toml_names_the_file(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("net = [")
    with pytest.raises(LabError, match="broken.toml"):
        load(str(path))
