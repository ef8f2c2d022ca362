# SPDX-License-Identifier: GPL-2.0-only
"""One run, inside the guest: /host/plan.json in, /host/result.json out."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import conformance
import cross
import far
import initiator
import many
import measure
import net
import sense
import stress

DAEMON = "/tools/iscsi-cwndd"
DAEMON_SETTLES_S = 1.0
RB_POWER_OFF = 0x4321FEDC


def bring_up(plan: dict, there: Any) -> list[str]:
    """Network and targets; their IQNs."""
    scenario = plan["scenario"]
    iqns = there.bring_up()
    net.run("sysctl", "-q", "-w", f"net.ipv4.tcp_mem={plan['tcp_mem_pages']}")
    net.build_initiator(scenario["net"], plan["nic_qdisc"]["initiator"], unlimited=plan["unlimited"])
    ecn = ["net.ipv4.tcp_ecn=1"] if scenario["net"]["ecn"] else []
    far.apply_sysctl("initiator", plan["sysctl"]["initiator"] + ecn)
    far.apply_tmpfiles(plan["tmpfiles"])
    return iqns


def log_in(plan: dict, iqns: list[str]) -> list[list[str]]:
    """Each session's disks."""
    work = plan["scenario"]["workload"]
    sessions = initiator.login(iqns, work["luns"] + work["idle_luns"], plan["iscsid"])
    for disk in sum(sessions, []):
        initiator.apply_rule(disk, plan["queue"])
        initiator.apply_static(disk, plan["static"])
    return sessions


def competing_flows(flows: list[dict], there: Any) -> list[cross.Receiver]:
    """Receivers for the competing flows here, senders in their own namespace."""
    with_ports = [{**flow, "port": port} for port, flow in enumerate(flows, 5001)]
    receivers = [cross.Receiver(flow) for flow in with_ports]
    for flow in with_ports:
        there.start_flow(flow)
    return receivers


def clock_ahead_us(there: Any) -> int:
    """By how much the target's clock is ahead of this one: nothing, where both are one."""
    asked_s = time.monotonic()
    there_s = there.clock_s()
    return round(1e6 * (there_s - (asked_s + time.monotonic()) / 2))


def cpu_mhz() -> float | None:
    """As the kernel has measured it; User-Mode Linux does not."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")), None)


def run(plan: dict, there: Any, iqns: list[str]) -> dict:
    """The whole measurement; the guest's half of the result."""
    scenario, iqn = plan["scenario"], iqns[0]
    sessions = log_in(plan, iqns)
    disks = sum(sessions, [])
    joined = initiator.join_paths(sessions) if scenario["workload"]["multipath"] else []
    for disk in joined:
        initiator.set_read_ahead(disk, plan["static"]["read_ahead_kb"])
    before_daemon = {"initiator": initiator.settings(iqn, disks)}
    daemon = None
    if plan["daemon"]:
        config = Path("/configs/iscsi-cwndd.toml").read_text()
        if plan["strategy"]:
            config = f'strategy = "{plan["strategy"]}"\n{config}'  # a key must stand before the first section
        Path("/run/iscsi-cwndd.toml").write_text(config)
        with open("/host/cwndd.log", "w") as log:
            command = [DAEMON, "run", "--config", "/run/iscsi-cwndd.toml", "--record", "/run/settings.jsonl"]
            daemon = subprocess.Popen(command, stdout=log, stderr=log)
        time.sleep(DAEMON_SETTLES_S)
    if plan["monitor"]:
        there.start_monitor()
        time.sleep(0.5)
    at_start = {"initiator": initiator.settings(iqn, disks), "target": there.settings()}
    receivers = competing_flows(scenario["net"]["cross"], there)
    ahead_us = clock_ahead_us(there)
    poll = None
    if plan["polls_per_s"]:
        poll = subprocess.Popen([sys.executable, "/lab/poll.py", disks[0], str(plan["polls_per_s"])])
    before = there.counters()
    measured = measure.read(scenario, [joined] if joined else sessions, there.change, receivers)
    time.sleep(1 + scenario["net"]["rtt_ms"] / 1000)  # the last retransmission is counted too
    after = there.counters()
    there.stop()
    if poll:
        if poll.poll() is not None:
            raise RuntimeError(f"poll.py: exit {poll.returncode}")
        poll.terminate()
    at_end = {"initiator": initiator.settings(iqn, disks)}
    if daemon:
        if daemon.poll() is not None:
            raise RuntimeError(f"iscsi-cwndd ended by itself: {Path('/host/cwndd.log').read_text()[-300:]}")
        daemon.send_signal(signal.SIGTERM)
        if daemon.wait():
            raise RuntimeError(f"iscsi-cwndd: exit {daemon.returncode}: {Path('/host/cwndd.log').read_text()[-300:]}")
        # Of many near disks it is hundreds of thousands of lines, which this machine has no memory to parse.
        shutil.copyfile("/run/settings.jsonl", "/host/settings.jsonl")
    restored = {"initiator": initiator.settings(iqn, disks)}
    found = there.found()
    result = {
        "kernel": os.uname().release,
        "cpu_mhz": cpu_mhz(),
        "sessions": sessions,
        "effective": {
            "scsi": {disk: initiator.offered(disk) for disk in disks},
            "before_daemon": before_daemon,
            "at_start": at_start,
            "at_end": at_end,
            "restored": restored,
            "sysctl": {"initiator": far.sysctls("initiator"), "target": found["sysctl"]},
        },
        "measured": measured,
        "mib": {key: grown for key, n in after["mib"].items() if (grown := n - before["mib"].get(key, 0))},
        "connections": {"before": before["connections"], "after": after["connections"]},
        "samples": [sample | {"clock_us": sample["clock_us"] - ahead_us} for sample in found["samples"]],
        "qdiscs": {"initiator": net.qdiscs("initiator"), **found["qdiscs"]},
    }
    if joined:
        initiator.part_paths()
    initiator.logout()
    return result


TASKS = {"read": run, "conformance": conformance.run, "many": many.run, "sense": sense.run}


def power_off() -> None:
    os.sync()
    ctypes.CDLL(None).reboot(RB_POWER_OFF)


def main() -> None:
    plan = json.loads(Path("/host/plan.json").read_text())
    if far.MACHINE == "target":
        far.serve(plan)
    if plan["shell"]:
        iqns = bring_up(plan, far.reach(plan))
        disks = sum(log_in(plan, iqns), [])
        print(
            f"\nThe lab is up: {iqns[0]} is {' '.join(disks)}. In the target's network: nsenter --net=/run/netns/target"
        )
        print("iscsi-cwndd and lio-cwndmon are in /tools. Leave with exit.\n", flush=True)
        subprocess.run(["setsid", "--ctty", "bash", "-i"], env={**os.environ, "PATH": os.environ["PATH"] + ":/tools"})
        power_off()
    try:
        if "stress" in plan:
            result = stress.main(plan)
        else:
            measure.progress(0, plan["scenario"]["workload"]["runtime_s"])
            there = far.reach(plan)
            result = TASKS[plan["task"]](plan, there, bring_up(plan, there))
    except Exception as error:
        traceback.print_exc()
        result = {"error": " ".join(str(error).split())}
    Path("/host/result.json").write_text(json.dumps(result))
    power_off()


main()
