# SPDX-License-Identifier: GPL-2.0-only
"""The real parts, end to end: patched kernel, daemon and monitor in booted labs.

All runs are made first, side by side; the tests look at their results.
"""

import json
import re
from collections import Counter

import pytest

from cwndlab import images
from cwndlab.engine import choose
from cwndlab.runs import Job, run_all
from cwndlab.scenario import load

pytestmark = pytest.mark.guest

SHORT = ("workload.runtime_s=5",)
LOSSY = (*SHORT, "net.loss_pct=0.2")
LOSS_PCT = (0.05, 1, 5, 20)
RANDOM = (*SHORT, "workload.kind=random", "workload.bs_kb=4", "workload.iodepth=16")
ONE = (*RANDOM, "workload.iodepth=1", "net.rtt_ms=2.6")
PATHS = (*SHORT, "workload.sessions=2", "workload.multipath=true")
UNEQUAL = ("workload.runtime_s=4", "workload.luns=2", "workload.random_luns=1", "workload.random_iodepth=1")
OFF = ("target.tpg_attributes.cwnd_feedback=0",)
SEARCHES = ("linear", "binary")
# 23 packets; TCP's own bursts of a millisecond at a third of the rate are as many.
SHORT_QUEUE = ("workload.runtime_s=3", "net.rate_mbit=700", "net.rtt_ms=4", "net.queue_bdp=0.1")
MUCH_LOST = ("workload.runtime_s=120", "net.loss_pct=8")
SEEDS = range(1, 13)
THOUSANDTH = ("workload.runtime_s=8", "net.loss_pct=0.1")
REGAIN = "target.tpg_attributes.tcp_regain"
SHIFT = "target.tpg_attributes.tcp_pacing_shift"
CHANGES = (
    "workload.runtime_s=8",
    "net.changes=[{at_s = 3, rate_mbit = 20, rtt_ms = 40, loss_pct = 0.1}]",
    "net.cross=[{proto = 'udp', rate_mbit = 10, from_s = 1, to_s = 6}, {proto = 'tcp', from_s = 2, to_s = 6}]",
)
SESSIONS = (
    "workload.runtime_s=6",
    "workload.kind=direct",
    "workload.bs_kb=512",
    *(
        "workload.sessions=2",
        "workload.stagger_s=2",
        "workload.luns=2",
        "workload.random_luns=1",
        "workload.idle_luns=1",
    ),
)
# What answers LOG SENSE: the target core, or what the backstore passes commands to, with the sense data it gives.
BACKSTORES = {
    "ramdisk": None,
    "fileio": None,
    "iblock": None,
    "pscsi": "field in cdb illegal",
    "user": "not supported",
}
# name: scenario, variant, settings
RUNS = {
    "lossy": ("lossy", "feedback", LOSSY),
    "lossy again": ("lossy", "feedback", LOSSY),
    "another seed": ("lossy", "feedback", (*LOSSY, "net.seed=2")),
    **{f"loss {pct}": ("lossy", "static", (f"net.loss_pct={pct}",)) for pct in LOSS_PCT},
    **{
        f"much lost {seed} {paced}": ("lossy", "static", (*MUCH_LOST, f"net.seed={seed}", f"static.pacing={paced}"))
        for seed in SEEDS
        for paced in ("true", "false")
    },
    **{f"regain {on}": ("wan-100m-20ms", "feedback", (*THOUSANDTH, f"{REGAIN}={on}")) for on in (0, 1)},
    "ecn": ("wan-100m-20ms", "static", (*SHORT, "net.aqm=fq_codel", "net.ecn=true")),
    "ecn off": ("wan-100m-20ms", "static", (*SHORT, "net.aqm=fq_codel")),
    "verify": ("verify", "feedback", ()),
    "verify stock": ("verify", "stock", ()),
    "plain": ("wan-100m-20ms", "feedback", SHORT),
    "attribute off": ("wan-100m-20ms", "feedback", (*SHORT, *OFF)),
    "far stock": ("wan-1g-50ms", "stock", (*SHORT, *OFF)),
    **{f"far {name}": ("wan-1g-50ms", "feedback", (*SHORT, *OFF, f"daemon.strategy={name}")) for name in SEARCHES},
    **{f"pacing shift {shift}": ("wan-100m-20ms", "static", (*SHORT_QUEUE, f"{SHIFT}={shift}")) for shift in (0, 13)},
    "not paced": ("wan-100m-20ms", "static", (*SHORT_QUEUE, "static.pacing=false")),
    "long": ("wan-1g-200ms", "feedback", ("workload.runtime_s=5",)),
    "two disks": ("wan-100m-20ms", "feedback", (*SHORT, "workload.luns=2")),
    "unequal disks": ("wan-1g-50ms", "feedback", UNEQUAL),
    "random stock": ("wan-100m-20ms", "stock", RANDOM),
    "random feedback": ("wan-100m-20ms", "feedback", RANDOM),
    **{f"one read {variant}": ("wan-100m-20ms", variant, ONE) for variant in ("stock", "feedback")},
    "changes": ("wan-100m-20ms", "feedback", CHANGES),
    "sessions": ("wan-100m-20ms", "feedback", SESSIONS),
    "paths": ("wan-100m-20ms", "stock", PATHS),
    "paths feedback": ("wan-100m-20ms", "feedback", PATHS),
    **{
        f"backstore {name}": ("verify", "feedback", (f"target.backstore={name}", "workload.size_mb=8"))
        for name in BACKSTORES
    },
}


@pytest.fixture(scope="module")
def results():
    jobs = [Job(scenario, load(scenario, settings), variant) for scenario, variant, settings in RUNS.values()]
    return dict(zip(RUNS, run_all(images.build(print, choose("uml")), jobs, at_once=None), strict=True))


def page_of(offered):
    return bytes.fromhex(re.sub(r"^ *[0-9a-f]+ {2,}", "", offered["log_page_3c"], flags=re.M))


def without_wall(result):
    return json.dumps({key: value for key, value in result.items() if "wall" not in key}, indent=1)


def test_two_runs_are_identical_with_loss(results):
    assert results["lossy"]["retransmitted_pkts"] > 0
    assert without_wall(results["lossy"]) == without_wall(results["lossy again"])


def test_the_page_tells_of_the_round_trip_at_a_reduction(results):
    pages = [line["page"] for line in results["lossy"]["series"]["settings"] if "page" in line]
    assert {page["reduced_rtt_us"] for page in pages if not page["prior_cwnd_pkts"]} == {0}
    reduced = [page for page in pages if page["recovery"]["count"]]
    assert reduced and all(page["min_rtt_us"] <= page["reduced_rtt_us"] < 2 * page["min_rtt_us"] for page in reduced)


def test_another_seed_loses_other_packets(results):
    assert results["lossy"]["series"]["events"] != results["another seed"]["series"]["events"]


@pytest.mark.parametrize("pct", LOSS_PCT)
def test_event_counters_are_the_mib_counters(results, pct):
    mib, events = results[f"loss {pct}"]["mib"], results[f"loss {pct}"]["events"]
    assert events["recovery"] == mib.get("TcpExtTCPSackRecovery", 0) + mib.get("TcpExtTCPRenoRecovery", 0) > 0
    assert events["loss"] == mib.get("TcpExtTCPTimeouts", 0)
    assert events["cwr_tlp"] == mib.get("TcpExtTCPLossProbeRecovery", 0)


def test_timeouts_happen_where_much_is_lost(results):
    assert results["loss 20"]["events"]["loss"] > 0


@pytest.mark.parametrize("run", [*(f"loss {pct}" for pct in LOSS_PCT), "ecn"])
def test_every_event_is_told_once(results, run):
    told = Counter(event["cause"] for event in results[run]["series"]["events"])
    assert told == Counter(results[run]["events"])  # a count of zero is as good as none
    assert told.total() > 0


def test_marked_packets_are_counted_as_ecn(results):
    assert results["ecn"]["events"]["cwr_ecn"] > 0
    assert results["ecn"]["retransmitted_pkts"] < results["ecn off"]["retransmitted_pkts"]


def test_written_data_reads_back_while_the_daemon_changes_settings(results):
    verified = results["verify"]
    assert verified["fio"]["errors"] == 0
    assert len({json.dumps([s["request_bytes"], s["queue_depths"]]) for s in verified["series"]["settings"]}) > 1


def test_writes_are_not_held_to_the_depth_for_reads(results):
    stock, feedback = (results[name]["fio"]["bytes_per_s"] for name in ("verify stock", "verify"))
    assert feedback > 0.97 * stock


def test_the_daemon_puts_everything_back(results):
    effective = results["plain"]["effective"]
    assert effective["restored"]["initiator"] == effective["before_daemon"]["initiator"]
    assert effective["at_end"]["initiator"] != effective["restored"]["initiator"]


def test_both_ends_have_the_products_kernel_settings(results):
    for run, hystart_detect, tso_rtt_log in (("verify stock", "3", "9"), ("plain", "2", "0")):
        initiator, target = (results[run]["effective"]["sysctl"][end] for end in ("initiator", "target"))
        assert initiator["hystart_detect"] == target["hystart_detect"] == hystart_detect
        assert target["net.ipv4.tcp_tso_rtt_log"] == tso_rtt_log


def test_with_the_attribute_off_nothing_is_changed(results):
    effective = results["attribute off"]["effective"]
    assert effective["at_end"]["initiator"] == effective["before_daemon"]["initiator"]


def test_shorter_bursts_fit_a_short_queue(results):
    long, short = (results[f"pacing shift {shift}"] for shift in (0, 13))
    assert short["throughput_bytes_per_s"] > 2 * long["throughput_bytes_per_s"]


def test_tcp_paces_what_a_short_queue_does_not_hold(results):
    paced, not_paced = (results[run]["throughput_bytes_per_s"] for run in ("pacing shift 13", "not paced"))
    assert paced > 1.1 * not_paced


def test_where_much_is_lost_nothing_is_paced(results):
    paced, not_paced = (
        sum(results[f"much lost {seed} {paced}"]["throughput_bytes_per_s"] for seed in SEEDS)
        for paced in ("true", "false")
    )
    assert paced > 0.98 * not_paced  # 0.90 if all is


def test_what_losses_by_chance_take_is_regained(results):
    without, regained = (results[f"regain {on}"]["throughput_bytes_per_s"] for on in (0, 1))
    assert regained > 1.5 * without


def test_a_read_takes_no_more_packets_than_it_fills(results):
    stock = results["one read stock"]
    reads = stock["fio"]["io_bytes"] / 4096
    assert stock["mib"]["TcpOutSegs"] < 3.1 * reads  # 4096 bytes and a header


def test_one_read_at_a_time_is_not_paced(results):
    stock, feedback = (results[f"one read {variant}"]["fio"]["iops"] for variant in ("stock", "feedback"))
    assert feedback > 0.98 * stock


def test_the_start_finds_a_long_path_though_tcp_sends_evenly(results):
    assert results["long"]["throughput_last_half_bytes_per_s"] > 60e6  # 40e6 with requests that are asked for evenly


def test_time_counts_from_the_first_read(results):
    long = results["long"]
    told_s = next(line["t_s"] for line in long["series"]["settings"] if line["phase"] == "start")
    assert 0 < long["first_read_s"] <= told_s <= long["first_read_s"] + long["scenario"]["sample_ms"] / 1000 + 0.01


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_needs_no_feedback(results, search):
    found, stock = results[f"far {search}"], results["far stock"]
    assert found["throughput_bytes_per_s"] > 3 * stock["throughput_bytes_per_s"]
    assert not any("page" in line for line in found["series"]["settings"])
    assert found["effective"]["restored"]["initiator"] == found["effective"]["before_daemon"]["initiator"]


def test_the_page_and_its_command_are_listed_as_the_standard_wants(results):
    on, off = (results[run]["effective"]["scsi"]["sda"] for run in ("plain", "attribute off"))
    assert re.search(r"^ +0x3c", on["log_pages"], re.M)
    page = page_of(on)
    assert (page[0], page[8:16]) == (0xBC, b"LIO-CWND")
    assert len(page) == 4 + int.from_bytes(page[2:4], "big")
    # The list of pages itself is asked for by LOG SENSE, whether the page is on it or not.
    assert all(re.search(r"^ 4d .* Log sense$", listed["commands"], re.M) for listed in (on, off))
    assert "0x00" in off["log_pages"]
    assert "0x3c" not in off["log_pages"]
    assert "field in cdb illegal" in off["log_page_3c"]


@pytest.mark.parametrize(("name", "refusal"), BACKSTORES.items())
def test_every_backstore_has_the_page_or_refuses_it(results, name, refusal):
    run = results[f"backstore {name}"]
    assert run["fio"]["errors"] == 0
    (offered,) = run["effective"]["scsi"].values()
    before, end = (run["effective"][when]["initiator"] for when in ("before_daemon", "at_end"))
    if refusal:
        assert refusal in offered["log_page_3c"]
        assert "0x3c" not in offered["log_pages"]
        assert end == before
    else:
        assert page_of(offered)[8:16] == b"LIO-CWND"
        assert "0x3c" in offered["log_pages"]
        assert end != before


def test_disks_of_one_session_share_the_link(results):
    assert results["two disks"]["throughput_bytes_per_s"] > 0.8 * results["plain"]["throughput_bytes_per_s"]


def test_a_disk_that_wants_little_leaves_the_path_to_the_other(results):
    assert results["unequal disks"]["throughput_bytes_per_s"] > 80e6


def test_random_reads_do_not_suffer(results):
    stock, feedback = (results[f"random {variant}"]["fio"]["iops"] for variant in ("stock", "feedback"))
    assert feedback > 0.95 * stock


def test_the_path_may_change_and_be_shared(results):
    assert 0 < results["changes"]["throughput_bytes_per_s"] < 0.8 * results["plain"]["throughput_bytes_per_s"]


def test_sessions_have_disks_of_their_own_and_idle_ones_stay_idle(results):
    shared = results["sessions"]
    jobs, read_bytes = shared["fio"]["jobs"], shared["series"]["progress"]["disks_bytes"]
    assert [(job["disk"], job["session"], job["random"]) for job in jobs] == [
        ("sda", 0, False),
        ("sdb", 0, True),
        ("sdd", 1, False),
        ("sde", 1, True),
    ]
    assert len(shared["effective"]["at_start"]["initiator"]["disks"]) == 6
    assert len(shared["series"]["connections"]) == 2
    t_s = shared["series"]["progress"]["t_s"]
    began_s = [next(t for t, n in zip(t_s, disk, strict=True) if n > 0) for disk in read_bytes]
    assert max(began_s[:2]) < 0.5 < 2 <= min(began_s[2:])


def test_what_a_competing_flow_gets_is_counted(results):
    udp, tcp = results["changes"]["series"]["progress"]["cross_bytes"]
    assert 4e6 < udp[-1] <= 6.4e6  # 10 Mbit/s for 5 s, some of it lost
    assert tcp[-1] > 0


def test_paths_to_a_lun_are_joined(results):
    joined = results["paths"]
    (job,) = joined["fio"]["jobs"]
    assert job["disk"] == "dm-0"
    sent = [series["bytes_sent"][-1] for series in joined["series"]["connections"].values()]
    assert len(sent) == 2
    assert min(sent) > 0.2 * max(sent)


def test_a_device_above_is_read_with_the_read_ahead_of_the_disks_below(results):
    stock, feedback = (results[name]["throughput_bytes_per_s"] for name in ("paths", "paths feedback"))
    assert feedback > stock
