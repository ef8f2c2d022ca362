# SPDX-License-Identifier: GPL-2.0-only
import pytest

from cwndlab.result import rate_bytes_per_s, time_to_90_s

T_S = [n / 10 for n in range(101)]


def ramp(t_s):
    """Nothing for two seconds, then 100 bytes/s."""
    return [max(0, round(100 * (t - 2))) for t in t_s]


def test_rate_interpolates_between_samples():
    assert rate_bytes_per_s(T_S, ramp(T_S), 5, 10) == pytest.approx(100)
    assert rate_bytes_per_s(T_S, ramp(T_S), 1.95, 2.15) == pytest.approx(75)


def test_time_to_90_is_when_a_whole_second_has_run_at_90_per_cent():
    assert time_to_90_s(T_S, ramp(T_S), 100) == pytest.approx(2.9)


def test_time_to_90_may_never_come():
    assert time_to_90_s(T_S, ramp(T_S), 200) is None
