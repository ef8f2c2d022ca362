# SPDX-License-Identifier: GPL-2.0-only
"""libiscsi's conformance tests, iscsi-test-cu, on both kernels: the patches must change no verdict."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from rich.table import Table

from cwndlab import boot, runs
from cwndlab.images import Images
from cwndlab.paths import LabError
from cwndlab.scenario import load
from cwndlab.variant import plan

ALL = "*SCSI.*"  # its other families are the same tests again
SETTINGS = ("net.rate_mbit=10000", "net.rtt_ms=0.1", "net.queue_bdp=10")
# A test may depend on which of two things is first, such as a session's end and another's command.
AGAIN = 10
TELL_EVERY = 25
TIMEOUT_S = 1800  # of wall time; two loaded cores take a third of it
COMPLETE = {"passed", "failed", "skipped"}
Results = dict[str, list[dict[str, str]]]  # by test, of each time: verdict, and what was said


def _run(images: Images, slot: int, tests: list[str], times: int, stop: threading.Event) -> Results:
    kernel = "patched" if images.patched else "unpatched"
    told = 0

    def progress(done: float) -> None:
        nonlocal told
        if stop.is_set():
            raise boot.Stopped("stopped")
        if done >= told + TELL_EVERY:
            told = int(done)
            runs.console.print(f"conformance: {kernel}: {told} tests done")

    task = {"task": "conformance", "tests": tests, "times": times, "spins": True}
    todo = plan(load("verify", SETTINGS), "stock", monitor=False) | task
    results = boot.run(images, todo, slot, TIMEOUT_S, progress, keep=False)["results"]
    runs.console.print(f"conformance: {kernel}: all {len(results)} tests done")
    return results


def _on_both(kernels: tuple[Images, Images], tests: list[str], times: int) -> list[Results]:
    stop = threading.Event()
    with ThreadPoolExecutor(len(kernels)) as pool:
        futures = [pool.submit(_run, images, slot, tests, times, stop) for slot, images in enumerate(kernels)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise


def verdicts(results: Results, test: str) -> set[str]:
    return {result["verdict"] for result in results[test]}


def differences(unpatched: Results, patched: Results) -> list[str]:
    """The tests that the unpatched kernel completes, with a verdict on the patched one that they never have there."""
    complete = [test for test in unpatched if verdicts(unpatched, test) <= COMPLETE]
    return [test for test in complete if not verdicts(patched, test) <= verdicts(unpatched, test)]


def run(unpatched: Images, patched: Images, pattern: str) -> list[str]:
    """Print the verdicts of both kernels and each difference; the tests that differ."""
    kernels = {"unpatched": unpatched, "patched": patched}
    found = _on_both((unpatched, patched), [pattern], 1)
    if not found[0]:
        raise LabError(f"--tests {pattern}: no such test; names are like SCSI.Read10.Simple, see iscsi-test-cu --list")
    counts = [Counter(results[test][0]["verdict"] for test in results) for results in found]
    if suspects := differences(*found):
        runs.console.print(f"conformance: {AGAIN} times again: {', '.join(suspects)}")
        for results, more in zip(found, _on_both((unpatched, patched), suspects, AGAIN), strict=True):
            for test in suspects:
                results[test] += more[test]
    table = Table("verdict", *kernels)
    for verdict in sorted(counts[0] | counts[1]):
        table.add_row(verdict, *(str(count[verdict]) for count in counts))
    runs.output.print(table)
    different = differences(*found)
    for test in sorted(set(suspects) - set(different)):
        runs.output.print(f"{test}: with the unpatched kernel, too, now one verdict and now another")
    for test in different:
        for kernel, results in zip(kernels, found, strict=True):
            for verdict in sorted(verdicts(results, test)):
                times = [result["said"] for result in results[test] if result["verdict"] == verdict]
                runs.output.print(f"\n{test}, {kernel}: {len(times)} times {verdict}\n{times[0].strip()}")
    runs.output.print(f"{len(different)} of {len(found[0])} tests differ")
    return different
