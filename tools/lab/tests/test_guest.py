# SPDX-License-Identifier: GPL-2.0-only
"""The real parts, end to end: patched kernel, daemon and monitor in a booted lab."""

import json

import pytest

pytestmark = pytest.mark.guest


def without_wall(result):
    return json.dumps({key: value for key, value in result.items() if "wall" not in key}, indent=1)


def test_two_runs_are_identical_with_loss(measure):
    settings = ("workload.runtime_s=5", "net.loss_pct=0.2")
    one, two = measure("lossy", "feedback", "feedback", settings=settings)
    assert one["retransmitted_pkts"] > 0
    assert without_wall(one) == without_wall(two)


def test_another_seed_loses_other_packets(measure):
    one, = measure("lossy", "stock", settings=("workload.runtime_s=5",))
    two, = measure("lossy", "stock", settings=("workload.runtime_s=5", "net.seed=2"))
    assert one["throughput_bytes_per_s"] != two["throughput_bytes_per_s"]


@pytest.mark.parametrize("loss_pct", [0.05, 1, 5])
def test_event_counters_are_the_mib_counters(measure, loss_pct):
    result, = measure("lossy", "static", settings=(f"net.loss_pct={loss_pct}",))
    mib, events = result["mib"], result["events"]
    assert events["recovery"] == mib.get("TcpExtTCPSackRecovery", 0) + mib.get("TcpExtTCPRenoRecovery", 0) > 0
    assert events["loss"] == mib.get("TcpExtTCPTimeouts", 0)
    assert result["retransmitted_bytes"] > 0


def test_written_data_reads_back_while_the_daemon_changes_settings(measure):
    result, = measure("verify", "feedback")
    assert result["fio"]["errors"] == 0
    settings = {json.dumps([s["request_bytes"], s["queue_depths"]]) for s in result["series"]["settings"]}
    assert len(settings) > 1


def test_the_daemon_puts_everything_back(measure):
    result, = measure("wan-100m-20ms", "feedback", settings=("workload.runtime_s=5",))
    effective = result["effective"]
    assert effective["restored"]["initiator"] == effective["before_daemon"]["initiator"]
    assert effective["at_end"] != effective["restored"]


def test_with_the_attribute_off_nothing_is_changed(measure):
    settings = ("workload.runtime_s=5", "target.tpg_attributes.cwnd_feedback=0")
    result, = measure("wan-100m-20ms", "feedback", settings=settings)
    assert result["effective"]["at_end"]["initiator"] == result["effective"]["before_daemon"]["initiator"]


def test_the_path_may_change_and_be_shared(measure):
    settings = (
        "workload.runtime_s=8",
        "net.changes=[{at_s = 3, rate_mbit = 20, rtt_ms = 40, loss_pct = 0.1}]",
        "net.cross=[{proto = 'udp', rate_mbit = 10, from_s = 1, to_s = 6}, {proto = 'tcp', from_s = 2, to_s = 6}]",
    )
    result, = measure("wan-100m-20ms", "stock", settings=settings)
    assert 0 < result["throughput_bytes_per_s"] < 100e6 / 8
