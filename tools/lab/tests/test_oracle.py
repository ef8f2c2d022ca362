# SPDX-License-Identifier: GPL-2.0-only
import tomllib

from cwndlab import oracle
from cwndlab.scenario import Static, load


def pretend(scenarios):
    """A path whose best is 100 packets' worth in flight, paced, in 128 KiB requests."""

    def figure(scenario):
        s = scenario.static
        holds = scenario.net.bdp_bytes / 1024
        rate = 1e6 - abs(s.queue_depth * s.request_kb - holds) - 100 * (s.request_kb != 128) - 50 * (not s.pacing)
        return {
            "throughput_bytes_per_s": rate,
            "retransmitted_pkts": 0,
            "time_to_90_s": 1.0,
            "scenario": {"static": s.model_dump()},
        }

    return [figure(scenario) for scenario in scenarios]


def test_the_search_is_bounded_and_finds_the_best():
    scenario = load("wan-1g-50ms")
    best, table = oracle.search(scenario, pretend)
    found = best["scenario"]["static"]
    assert found["request_kb"] == 128
    assert found["pacing"]
    assert abs(found["queue_depth"] * 128 - scenario.net.bdp_bytes / 1024) < 300
    assert len(table) < 130
    assert table[0]["throughput_bytes_per_s"] == best["throughput_bytes_per_s"]


def test_what_is_found_can_be_pasted_into_a_scenario():
    found = Static(request_kb=128, queue_depth=5, read_ahead_kb=4096, window_kb=0, pacing=True).model_dump()
    assert tomllib.loads(oracle.as_toml(found))["static"] == found
