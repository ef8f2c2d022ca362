# SPDX-License-Identifier: GPL-2.0-only
import pytest

from cwndlab.result import figures, jain, rate_bytes_per_s, segments, settles_s, time_back_s, time_to_90_s

T_S = [n / 10 for n in range(101)]


def ramp(t_s):
    """Nothing for two seconds, then 100 bytes/s."""
    return [max(0, round(100 * (t - 2))) for t in t_s]


def test_rate_interpolates_between_samples():
    assert rate_bytes_per_s(T_S, ramp(T_S), 5, 10) == pytest.approx(100)
    assert rate_bytes_per_s(T_S, ramp(T_S), 1.95, 2.15) == pytest.approx(75)


@pytest.mark.parametrize(("rtt_s", "window_s"), [(0.02, 0.5), (0.5, 2)])
def test_time_to_90_is_never_early_and_less_than_half_a_window_late(rtt_s, window_s):
    for first_read_s in (0.0, 0.3):
        after_s = time_to_90_s(T_S, ramp(T_S), 100, rtt_s, first_read_s) + first_read_s
        assert 2 <= after_s <= 2 + 0.4 * window_s + 0.1


def test_time_to_90_may_never_come():
    assert time_to_90_s(T_S, ramp(T_S), 200, 0.02, 0) is None


def record(rtt_ms, **connection):
    """A run of ten seconds, of which figures() sees these samples."""
    known = {
        "t_s": T_S,
        **dict.fromkeys(("srtt_us", "min_rtt_us", "bytes_sent", "bytes_retrans", "cwnd_pkts"), [1] * 101),
    }
    fio = {"runtime_s": 10, "jobs": [{"session": 0, "random": False}]}
    series = {"connections": {"1": known | connection}, "events": [{"prior_cwnd_pkts": 44}]}
    series["progress"] = {"t_s": T_S, "read_bytes": ramp(T_S), "disks_bytes": [ramp(T_S)], "cross_bytes": []}
    net, work = {"rtt_ms": rtt_ms, "changes": [], "cross": []}, {"sessions": 1, "stagger_s": 0}
    plain = ("throughput_bytes_per_s", "throughput_last_half_bytes_per_s", "time_to_90_s", "sent_bytes")
    plain += ("retransmitted_bytes", "retransmitted_pkts", "events", "wall_s")
    return dict.fromkeys(plain, 0) | {
        "fio": fio,
        "series": series,
        "scenario": {"net": net, "workload": work},
    }


def test_what_happens_before_it_must_have_settled_does_not_count_as_settled():
    from_s = settles_s(0.1)  # 1.7 s
    early = [1000 if t < from_s else 1100 for t in T_S]
    found = figures(record(100, bytes_retrans=early, bytes_sent=[1000 * n for n in range(101)]))
    assert found["settled_retransmitted_bytes"] == 0
    assert found["settled_sent_bytes"] == pytest.approx(83_000, abs=1000)
    late = [1000 if t < from_s + 1 else 1100 for t in T_S]
    assert figures(record(100, bytes_retrans=late))["settled_retransmitted_bytes"] == 100


def test_standing_queue_and_cwnd():
    srtt_us = [500_000 if t < 1.7 else 120_000 for t in T_S]
    cwnd_pkts = [1000 if t < 5 else 100 if t < 8 else 110 for t in T_S]
    found = figures(record(100, srtt_us=srtt_us, min_rtt_us=[100_000] * 101, cwnd_pkts=cwnd_pkts))
    assert found["standing_queue_us"] == 20_000
    assert (found["cwnd_pkts"], found["cwnd_spread"], found["threshold_pkts"]) == (100, 0.1, 44)
    rounded = record(100, srtt_us=srtt_us, min_rtt_us=[99_000] * 101)
    assert figures(rounded)["standing_queue_us"] == 20_000
    rounded["scenario"]["net"]["changes"] = [{"at_s": 20, "rtt_ms": 99.5}]
    assert figures(rounded)["standing_queue_us"] == 20_500
    assert figures(record(100, srtt_us=[99_900] * 101, min_rtt_us=[99_000] * 101))["standing_queue_us"] == 0


def test_a_run_that_nobody_watched_has_rates_only():
    unwatched = record(20)
    unwatched["series"] |= {"connections": {}, "events": []}
    found = figures(unwatched)
    assert found["standing_queue_us"] is found["cwnd_pkts"] is found["threshold_pkts"] is None


def test_shares_count_from_when_the_last_session_began():
    shared = record(20)
    shared["scenario"]["workload"] = {"sessions": 2, "stagger_s": 4}
    shared["scenario"]["net"]["cross"] = [{"proto": "tcp", "from_s": 5, "to_s": 99}]
    job = {"iops": 7, "clat_us": {"99": 3}}
    shared["fio"]["jobs"] = [{**job, "session": session, "random": session > 0} for session in (0, 1, 1)]
    late = [max(0, 50 * (t - 4)) for t in T_S]
    shared["series"]["progress"] |= {"disks_bytes": [ramp(T_S), late, late], "cross_bytes": [late]}
    found = figures(shared)
    assert found["sessions_bytes_per_s"] == [pytest.approx(100), pytest.approx(100)]
    assert found["cross"] == [{"proto": "tcp", "bytes_per_s": pytest.approx(50), "read_bytes_per_s": 100}]
    assert (found["random_iops"], found["random_p99_us"]) == (14, 3)


def test_fairness():
    assert jain([5, 5, 5, 5]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([6, 4]) == pytest.approx(100 / 104)
    assert jain([0, 0]) is None


CHANGES = [{"at_s": 4, "rtt_ms": None}, {"at_s": 7, "rtt_ms": 100}]


def test_a_change_lasts_until_the_next():
    assert list(segments({"rtt_ms": 20, "changes": CHANGES}, 10)) == [(4, 7, 0.02), (7, 10, 0.1)]
    assert list(segments({"rtt_ms": 20, "changes": []}, 10)) == []


def test_what_a_change_costs_is_counted_until_a_read_must_be_back():
    lossy = record(20, bytes_retrans=[max(0, round(1000 * (t - 4))) for t in T_S])
    lossy["scenario"]["net"]["changes"] = CHANGES
    # 30 round trips and a second, and the second change up to the end, which comes before that.
    assert [c["retransmitted_bytes"] for c in figures(lossy)["changes"]] == [pytest.approx(1600, abs=100), 3000]


@pytest.mark.parametrize(
    ("bytes_per_s", "back_s"),
    [
        (lambda t: 100, 0),
        (lambda t: 0 if t < 6 else 100, 2),
        # Full for a second, as a slower link is that has a queue; then nothing for two.
        (lambda t: 0 if 5 <= t < 7 else 100, 3),
        (lambda t: 90, None),
    ],
)
def test_back_is_the_moment_from_which_on_the_rate_is_there(bytes_per_s, back_s):
    read_bytes = [sum(bytes_per_s(t) / 10 for t in T_S[:n]) for n in range(101)]
    run = {"progress": {"t_s": T_S, "read_bytes": read_bytes}}
    run["changes"] = [{"from_s": 4, "until_s": 10, "rtt_s": 0.02}]
    found_s = time_back_s(run, 0, 100)
    assert found_s == (back_s if back_s is None else pytest.approx(back_s, abs=0.101))
