# SPDX-License-Identifier: GPL-2.0-only
from cwndlab.conformance import differences


def results(**tests):
    """By test, its verdicts in words."""
    return {
        test: [{"verdict": verdict, "said": ""} for verdict in verdicts.split()] for test, verdicts in tests.items()
    }


def test_another_verdict_is_a_difference():
    assert differences(results(a="passed", b="failed"), results(a="failed", b="passed")) == ["a", "b"]
    assert differences(results(a="skipped"), results(a="hung")) == ["a"]


def test_what_the_unpatched_kernel_does_not_complete_is_left_out():
    assert differences(results(a="hung", b="passed signal"), results(a="passed", b="failed")) == []


def test_a_verdict_that_changes_by_itself_is_none():
    assert differences(results(a="passed failed"), results(a="failed failed")) == []
    assert differences(results(a="passed passed"), results(a="passed failed")) == ["a"]
