# SPDX-License-Identifier: GPL-2.0-only
from cwndlab.scenario import load
from cwndlab.variant import DEBIAN_QDISC, plan

NAME = "wan-100m-20ms"


def made(variant, *settings):
    return plan(load(NAME, settings), variant)


def test_stock_has_nothing_of_the_product():
    stock = made("stock", "static.queue_depth=7")
    assert stock["sysctl"] == {"initiator": [], "target": []}
    assert stock["tmpfiles"] == stock["iscsid"] == []
    assert stock["queue"] == {}
    assert set(stock["static"].values()) == {None}
    assert set(stock["nic_qdisc"].values()) == {DEBIAN_QDISC}
    assert not stock["daemon"]


def test_feedback_is_the_product_and_no_number_by_hand():
    feedback = made("feedback", "static.queue_depth=7", "static.pacing=false")
    assert feedback["daemon"]
    assert set(feedback["static"].values()) == {None}
    assert feedback["sysctl"] == made("static")["sysctl"] != made("stock")["sysctl"]
    assert feedback["tmpfiles"] == made("static")["tmpfiles"] != []
    assert feedback["queue"] == made("static")["queue"] == {"nr_requests": "512"}


def test_static_takes_its_numbers_and_window():
    static = made("static", "static.queue_depth=7", "static.window_kb=512", "static.pacing=true")
    assert static["static"]["queue_depth"] == 7
    assert static["iscsid"][-1] == "node.conn[0].tcp.window_size = 524288"
    assert static["scenario"]["target"]["tpg_attributes"]["tcp_pacing"] == 1
    assert made("static", "static.pacing=false")["scenario"]["target"]["tpg_attributes"]["tcp_pacing"] == 0
    assert not static["daemon"]


def test_bbr_and_rwnd():
    assert made("bbr")["scenario"]["target"]["cc"] == "bbr"
    assert made("rwnd")["iscsid"][-1] == f"node.conn[0].tcp.window_size = {round(250_000 / 1024) * 1024}"


def test_the_initiators_window_wins_everywhere():
    for variant in ("stock", "static", "rwnd", "feedback"):
        assert made(variant, "initiator.window_kb=64")["iscsid"][-1] == "node.conn[0].tcp.window_size = 65536"


def test_the_qdisc_is_each_cards_own_and_no_sysctl_of_the_guest():
    for lines in made("feedback")["sysctl"].values():
        assert not any("default_qdisc" in line for line in lines)
    assert made("feedback")["nic_qdisc"] == {"initiator": "fq", "target": "fq_codel"}
    assert "fq" not in made("stock")["nic_qdisc"].values()


def test_a_strategy_is_the_daemons_and_only_when_asked_for():
    assert made("feedback")["strategy"] is None
    assert made("feedback", "daemon.strategy=linear")["strategy"] == "linear"


def test_the_portal_group_is_the_readmes_unless_the_scenario_or_the_kernel_says_otherwise():
    attributes = [
        made("static")["scenario"]["target"]["tpg_attributes"],
        made("static", "target.tpg_attributes.tcp_pacing_shift=11")["scenario"]["target"]["tpg_attributes"],
        plan(load(NAME), "static", patched=False)["scenario"]["target"]["tpg_attributes"],
        made("stock")["scenario"]["target"]["tpg_attributes"],
    ]
    window = {"default_cmdsn_depth": 512}
    tcp = window | {"tcp_pacing": 1, "tcp_pacing_shift": 13, "tcp_regain": 1}
    assert attributes == [tcp, tcp | {"tcp_pacing_shift": 11}, window, {}]
