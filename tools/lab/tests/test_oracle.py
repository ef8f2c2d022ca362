# SPDX-License-Identifier: GPL-2.0-only
import tomllib

import pytest

from cwndlab import oracle
from cwndlab.scenario import Static, load


def pretend(scenarios):
    """A path whose best is 0.8 bandwidth-delay products in flight, paced, in requests half as large as the model's."""

    def figure(scenario):
        s, bdp_kb = scenario.static, scenario.net.bdp_bytes / 1024
        off = abs(s.queue_depth * s.request_kb / bdp_kb - 0.8)
        request_kb = oracle.model(scenario).request_kb / 2
        return {"throughput_bytes_per_s": 1e6 * (1 - off) - 5e3 * (s.request_kb != request_kb) - 1e4 * (not s.pacing)}

    return [figure(scenario) for scenario in scenarios]


@pytest.mark.parametrize("name", ["wan-1g-50ms", "wan-100m-20ms", "wan-100m-20ms-direct16m", "wan-1g-200ms"])
def test_the_climb_is_bounded_and_comes_near_the_best(name):
    scenario = load(name)
    tried = oracle.climb(scenario, pretend)
    found = tried[oracle.best(tried)]["throughput_bytes_per_s"]
    assert len(tried) <= oracle.CLIMB_RUNS
    assert oracle.best(tried).pacing
    points = oracle.grid(scenario)
    assert found > 0.97 * max(figure["throughput_bytes_per_s"] for figure in pretend_all(scenario, points))


def pretend_all(scenario, points):
    return pretend([scenario.model_copy(update={"static": point}) for point in points])


def test_the_climb_spends_no_more_than_it_is_given():
    assert len(oracle.climb(load("wan-1g-50ms"), pretend, 3)) == 3


def test_the_climb_tries_every_kind_of_setting():
    tried = oracle.climb(load("wan-1g-50ms"), pretend)
    for key in Static.model_fields:
        assert len({getattr(static, key) for static in tried}) > 1


def test_debians_own_settings_are_tried():
    scenario = load("wan-1g-50ms")
    debians = Static(request_kb=1280, queue_depth=32, read_ahead_kb=128, window_kb=512, pacing=False)
    assert debians in oracle.climb(scenario, pretend, 3)


def test_ample_is_more_than_the_path_holds_and_leaves_the_window_alone():
    scenario = load("wan-100m-20ms")
    ample = oracle.ample(scenario)
    assert ample.queue_depth * ample.request_kb * 1024 == pytest.approx(3 * 375_000, rel=0.05)
    assert ample.window_kb is ample.pacing is None


def test_disks_share_what_is_in_flight():
    one, four = load("wan-1g-50ms"), load("wan-1g-50ms", ("workload.luns=4",))
    depth = oracle.model(one).static(one).queue_depth
    assert oracle.model(four).static(four).queue_depth == pytest.approx(depth / 4, abs=1)
    paths = ("workload.sessions=4", "workload.multipath=true")
    joined = load("wan-1g-50ms", paths)
    static = oracle.model(joined).static(joined)
    assert static.queue_depth == pytest.approx(depth / 4, abs=1)
    assert static.read_ahead_kb == oracle.model(one).static(one).read_ahead_kb  # one device's


@pytest.mark.parametrize(
    "settings", [("net.rtt_ms=1", "net.queue_bdp=4"), ("net.rate_mbit=10000", "net.rtt_ms=300", "workload.runtime_s=4")]
)
def test_paths_at_the_ends_have_settings_too(settings):
    scenario = load("wan-1g-50ms", settings)
    assert 1 <= oracle.model(scenario).static(scenario).queue_depth <= oracle.MAX_DEPTH


def test_the_grid_tries_read_ahead_only_where_it_counts():
    read_aheads = {p.read_ahead_kb / p.request_kb / p.queue_depth for p in oracle.grid(load("wan-100m-20ms"))}
    assert len(oracle.grid(load("wan-100m-20ms-direct16m"))) < len(oracle.grid(load("wan-100m-20ms"))) < 600
    assert min(read_aheads) < 1 < max(read_aheads)
    assert {p.read_ahead_kb for p in oracle.grid(load("wan-100m-20ms-direct16m"))} == {None}


def test_what_is_found_can_be_pasted_into_a_scenario():
    found = Static(request_kb=128, queue_depth=5, read_ahead_kb=4096, window_kb=0, pacing=True).model_dump()
    assert tomllib.loads(oracle.as_toml(found))["static"] == found
