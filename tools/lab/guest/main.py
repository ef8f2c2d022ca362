# SPDX-License-Identifier: GPL-2.0-only
"""One run, inside the guest: /host/plan.json in, /host/result.json out."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import initiator
import measure
import net
import target

MONITOR, DAEMON = "/tools/lio-cwndmon", "/tools/iscsi-cwndd"
DAEMON_SETTLES_S = 1.0
RB_POWER_OFF = 0x4321FEDC


def apply_sysctl(netns: str, lines: list[str]) -> None:
    """A machine's sysctl.d lines. Keys its namespace lacks are global: the initial one has them."""
    for line in lines:
        key, value = (word.strip() for word in line.split("=", 1))
        path = "/proc/sys/" + key.lstrip("-").replace(".", "/")
        here = subprocess.run(net.within(netns, "test", "-e", path)).returncode == 0
        net.run(*net.within(netns if here else "initiator", "sysctl", "-q", "-w", f"{key}={value}"))


def in_target(*argv: str, **how) -> subprocess.Popen:
    return subprocess.Popen(net.within("target", *argv), **how)


def bring_up(plan: dict) -> tuple[str, list[str]]:
    """Network, target, session: the target's IQN and the disks."""
    scenario = plan["scenario"]
    net.run("sysctl", "-q", "-w", f"net.ipv4.tcp_mem={plan['tcp_mem_pages']}")
    net.build(scenario["net"], plan["nic_qdisc"], unlimited=plan["unlimited"])
    for machine in ("initiator", "target"):
        apply_sysctl(machine, plan["sysctl"][machine])
    if scenario["target"]["cc"]:
        apply_sysctl("target", [f"net.ipv4.tcp_congestion_control={scenario['target']['cc']}"])
    luns = scenario["workload"]["luns"]
    iqn = target.start({**scenario["target"], "size_mb": scenario["workload"]["size_mb"]}, luns)
    return iqn, initiator.login(iqn, luns, plan["iscsid"])


def competing_flows(flows: list[dict]) -> list[subprocess.Popen]:
    """Receivers for the competing flows in the initiator, senders in their own namespace."""
    started = []
    for port, flow in enumerate(flows, 5001):
        started.append(subprocess.Popen([sys.executable, "/lab/cross.py", str(port)]))
        time.sleep(0.1)
        order = json.dumps({**flow, "port": port})
        started.append(subprocess.Popen(net.within("cross", sys.executable, "/lab/cross.py", order)))
    return started


def shown(plan: dict) -> list[dict]:
    """The target's connections as the monitor has them."""
    return json.loads(net.run(*net.within("target", MONITOR, "show", "--json"))) if plan["monitor"] else []


def record_of(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if os.path.exists(path) else []


def run(plan: dict) -> dict:
    """The whole measurement; the guest's half of the result."""
    scenario = plan["scenario"]
    iqn, disks = bring_up(plan)
    for disk in disks:
        initiator.apply_static(disk, plan["static"])
    before_daemon = {"initiator": initiator.settings(iqn, disks)}
    daemon = monitor = None
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
        with open("/host/monitor.log", "w") as log:
            period = str(scenario["sample_ms"])
            monitor = in_target(
                MONITOR, "record", "--format", "jsonl", "--period-ms", period, "--output", "/run/samples.jsonl",
                stdout=log, stderr=log,
            )  # fmt: skip
        time.sleep(0.5)
    at_start = {"initiator": initiator.settings(iqn, disks), "target": target.settings(iqn)}
    flows = competing_flows(scenario["net"]["cross"])
    mib, connections = {"before": net.mib("target")}, {"before": shown(plan)}
    measured = measure.read(scenario, disks)
    time.sleep(1 + scenario["net"]["rtt_ms"] / 1000)  # the last retransmission is counted too
    mib["after"], connections["after"] = net.mib("target"), shown(plan)
    for process in [*flows, *filter(None, [monitor])]:
        process.send_signal(signal.SIGTERM)
    at_end = {"initiator": initiator.settings(iqn, disks)}
    if daemon:
        if daemon.poll() is not None:
            raise RuntimeError(f"iscsi-cwndd ended by itself: {Path('/host/cwndd.log').read_text()[-300:]}")
        daemon.send_signal(signal.SIGTERM)
        if daemon.wait():
            raise RuntimeError(f"iscsi-cwndd: exit {daemon.returncode}: {Path('/host/cwndd.log').read_text()[-300:]}")
    restored = {"initiator": initiator.settings(iqn, disks)}
    result = {
        "kernel": os.uname().release,
        "disks": disks,
        "effective": {
            "scsi": {disk: initiator.offered(disk) for disk in disks},
            "before_daemon": before_daemon,
            "at_start": at_start,
            "at_end": at_end,
            "restored": restored,
            "sysctl": {machine: sysctls(machine) for machine in ("initiator", "target")},
        },
        "measured": measured,
        "mib": {key: grown for key, n in mib["after"].items() if (grown := n - mib["before"].get(key, 0))},
        "connections": connections,
        "samples": record_of("/run/samples.jsonl"),
        "settings": record_of("/run/settings.jsonl"),
        "qdiscs": net.qdiscs(),
    }
    initiator.logout()
    return result


def sysctls(machine: str) -> dict[str, str]:
    """The TCP settings that matter, as this machine has them."""
    names = [f"net.ipv4.tcp_{name}" for name in ("rmem", "wmem", "congestion_control", "ecn", "notsent_lowat")]
    lines = net.run(*net.within(machine, "sysctl", *names)).splitlines()
    return {key: " ".join(value.split()) for key, value in (line.split(" = ") for line in lines)}


def power_off() -> None:
    os.sync()
    ctypes.CDLL(None).reboot(RB_POWER_OFF)


def main() -> None:
    plan = json.loads(Path("/host/plan.json").read_text())
    if plan["shell"]:
        iqn, disks = bring_up(plan)
        for disk in disks:
            initiator.apply_static(disk, plan["static"])
        print(f"\nThe lab is up: {iqn} is {' '.join(disks)}. In the target's network: nsenter --net=/run/netns/target")
        print("iscsi-cwndd and lio-cwndmon are in /tools. Leave with exit.\n", flush=True)
        subprocess.run(["setsid", "--ctty", "bash", "-i"], env={**os.environ, "PATH": os.environ["PATH"] + ":/tools"})
        power_off()
    try:
        measure.progress(0, plan["scenario"]["workload"]["runtime_s"])
        result = run(plan)
    except Exception as error:
        traceback.print_exc()
        result = {"error": " ".join(str(error).split())}
    Path("/host/result.json").write_text(json.dumps(result))
    power_off()


main()
