# SPDX-License-Identifier: GPL-2.0-only
"""The read and what is written down while it runs: progress, the network's changes, counters."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from cross import Receiver

PROGRESS_PERIOD_S = 0.5
# What workload.random_luns says of a disk.
RANDOM = ["--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio"]


def readers(workload: dict, sessions: list[list[str]]) -> list[dict]:
    """The disks that are read, in fio's order."""
    sequential = 0 if workload["kind"] == "random" else workload["luns"] - workload["random_luns"]
    return [
        {"disk": disk, "session": session, "random": lun >= sequential}
        for session, disks in enumerate(sessions)
        for lun, disk in enumerate(disks[: workload["luns"]])
    ]


def fio_command(workload: dict, reading: list[dict]) -> list[str]:
    """fio's command line: one job per disk."""
    buffered = workload["kind"] == "buffered"
    command = [
        "fio",
        "--output-format=json",
        "--clocksource=clock_gettime",  # the default spins on the clock, which stands still
        "--invalidate=1",
        f"--bs={workload['bs_kb']}k",
        f"--direct={int(not buffered)}",
        f"--ioengine={'psync' if buffered else 'libaio'}",
        f"--iodepth={1 if buffered else workload['iodepth']}",
        f"--size={workload['size_mb']}m",
    ]
    if workload["kind"] == "verify":
        command += ["--rw=write", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"]
    else:
        read = "randread" if workload["kind"] == "random" else "read"
        command += [f"--rw={read}", "--time_based", f"--runtime={workload['runtime_s']}"]
    for reader in reading:
        command += [f"--name={reader['disk']}", f"--filename=/dev/{reader['disk']}"]
        if reader["random"] and workload["random_luns"]:
            command += [*RANDOM, f"--iodepth={workload['random_iodepth']}"]
        if after_s := reader["session"] * workload["stagger_s"]:
            command += [f"--startdelay={after_s}", f"--runtime={workload['runtime_s'] - after_s}"]
    return command


def _stat(reading: list[dict]) -> list[list[str]]:
    return [Path("/sys/block", reader["disk"], "stat").read_text().split() for reader in reading]


def _read_bytes(stat: list[list[str]]) -> list[int]:
    return [512 * int(disk[2]) for disk in stat]


def _in_flight(stat: list[list[str]]) -> bool:
    return any(int(disk[8]) for disk in stat)


def read(scenario: dict, sessions: list[list[str]], change: Callable[[dict], None], flows: list[Receiver]) -> dict:
    """Run fio to its end, sampling the bytes the disks and the competing flows have delivered every sample_ms."""
    reading = readers(scenario["workload"], sessions)
    workload, period_s = scenario["workload"], scenario["sample_ms"] / 1000
    changes = list(scenario["net"]["changes"])
    times_s, read_bytes, flow_bytes, told_s = [], [], [], 0.0
    first_read_s, begun = 0.0, False
    base, start = _read_bytes(_stat(reading)), time.monotonic()
    with open("/run/fio.json", "w") as output, open("/host/fio.err", "w") as errors:
        fio = subprocess.Popen(fio_command(workload, reading), stdout=output, stderr=errors)
        sample = 0
        while fio.poll() is None:
            now_s = time.monotonic() - start
            times_s.append(round(now_s, 3))
            stat = _stat(reading)
            read_bytes.append([now - then for now, then in zip(_read_bytes(stat), base, strict=True)])
            begun = begun or any(read_bytes[-1]) or _in_flight(stat)
            # fio takes its time to begin.
            first_read_s = first_read_s if begun else times_s[-1]
            flow_bytes.append([flow.received_bytes for flow in flows])
            while changes and changes[0]["at_s"] <= now_s:
                change(changes.pop(0))
            if now_s >= told_s:
                progress(now_s, workload["runtime_s"])
                told_s = now_s + PROGRESS_PERIOD_S
            sample += 1
            time.sleep(max(0.0, start + sample * period_s - time.monotonic()))
    text = Path("/run/fio.json").read_text()
    if fio.returncode or not text.startswith("{"):
        said = Path("/host/fio.err").read_text().strip() or text.strip()
        raise RuntimeError(f"fio: exit {fio.returncode}: {said[-300:]}")
    return {
        "readers": reading,
        "t_s": times_s,
        "read_bytes": read_bytes,
        "flow_bytes": flow_bytes,
        "start_us": round(start * 1e6),
        "first_read_s": first_read_s,
        "fio": json.loads(text),
    }


def progress(done_s: float, total_s: float) -> None:
    """Tell the host how far the guest's time has come."""
    Path("/host/progress").write_text(f"{done_s:.1f} {total_s}\n")
