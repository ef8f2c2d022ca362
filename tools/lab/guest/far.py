# SPDX-License-Identifier: GPL-2.0-only
"""All that is done on the target's machine: there the path is emulated, and there the target runs.

The initiator's script calls it directly where all is one kernel. Where the target has a machine of its
own, the same calls go over a wire of their own, eth1, which is no part of the emulated path.
"""

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

import net
import target

MONITOR = "/tools/lio-cwndmon"
HYSTART = Path("/sys/module/tcp_cubic/parameters/hystart_detect")
SAMPLES = Path("/run/samples.jsonl")
# Set by the engine on the kernel's command line where there are two machines.
MACHINE = os.environ.get("MACHINE")
NEAR_END, FAR_END, PORT = "10.0.0.1", "10.0.0.2", 7
KEY = b"lab"  # nobody else is on that wire
PATIENCE_S = 120


def apply_sysctl(netns: str, lines: list[str]) -> None:
    """A machine's sysctl.d lines. Keys its namespace lacks are global: the initial one has them."""
    for line in lines:
        key, value = (word.strip() for word in line.split("=", 1))
        path = "/proc/sys/" + key.lstrip("-").replace(".", "/")
        here = subprocess.run(net.within(netns, "test", "-e", path)).returncode == 0
        net.run(*net.within(netns if here else "initiator", "sysctl", "-q", "-w", f"{key}={value}"))


def apply_tmpfiles(lines: list[str]) -> None:
    """A machine's tmpfiles.d lines, each of the type w: a file that there is, and what to write into it."""
    for line in lines:
        kind, path, _, _, _, _, value = line.split()
        if kind != "w":
            raise ValueError(f"tmpfiles.d, not of the type w: {line}")
        Path(path).write_text(value)


def sysctls(machine: str) -> dict[str, str]:
    """The TCP settings that matter, as this machine has them."""
    names = ("rmem", "wmem", "congestion_control", "ecn", "notsent_lowat", "tso_rtt_log")
    keys = [f"net.ipv4.tcp_{name}" for name in names]
    lines = net.run(*net.within(machine, "sysctl", *keys)).splitlines()
    found = {key: " ".join(value.split()) for key, value in (line.split(" = ") for line in lines)}
    return found | {"hystart_detect": HYSTART.read_text().strip()}


class Far:
    """The path and the target of one plan."""

    def __init__(self, plan: dict):
        self.plan = plan
        self.iqns: list[str] = []
        self.started: list[subprocess.Popen] = []

    def bring_up(self) -> list[str]:
        """Path and targets; the targets' IQNs."""
        plan, scenario = self.plan, self.plan["scenario"]
        lines = list(plan["sysctl"]["target"])
        if scenario["net"]["ecn"]:
            lines.append("net.ipv4.tcp_ecn=1")
        if scenario["target"]["cc"]:
            lines.append(f"net.ipv4.tcp_congestion_control={scenario['target']['cc']}")
        net.run("sysctl", "-q", "-w", f"net.ipv4.tcp_mem={plan['tcp_mem_pages']}")
        net.build_path(
            scenario["net"],
            plan["nic_qdisc"]["target"],
            unlimited=plan["unlimited"],
            two_machines=MACHINE is not None,
        )
        apply_sysctl("target", lines)
        apply_tmpfiles(plan["tmpfiles"])
        self.iqns = target.start(scenario["target"], scenario["workload"])
        return self.iqns

    def clock_s(self) -> float:
        """This machine's clock, as the monitor's records have it."""
        return time.monotonic()

    def settings(self) -> dict:
        return target.settings(self.iqns[0])

    def change(self, new: dict) -> None:
        net.change(self.plan["scenario"]["net"], new, two_machines=MACHINE is not None)

    def start_monitor(self) -> None:
        period = str(self.plan["scenario"]["sample_ms"])
        command = [MONITOR, "record", "--format", "jsonl", "--period-ms", period, "--output", str(SAMPLES)]
        with open("/host/monitor.log", "w") as log:
            self.started.append(subprocess.Popen(net.within("target", *command), stdout=log, stderr=log))

    def start_flow(self, flow: dict) -> None:
        """A competing flow's sender."""
        command = [sys.executable, "/lab/cross.py", json.dumps(flow)]
        self.started.append(subprocess.Popen(net.within("cross", *command)))

    def counters(self) -> dict:
        """The target's MIB, and its connections as the monitor has them."""
        shown = net.run(*net.within("target", MONITOR, "show", "--json")) if self.plan["monitor"] else "[]"
        return {"mib": net.mib("target"), "connections": json.loads(shown)}

    def stop(self) -> None:
        for process in self.started:
            process.send_signal(signal.SIGTERM)

    def found(self) -> dict:
        """What there is to say at the end."""
        samples = SAMPLES.read_text().splitlines() if SAMPLES.exists() else []
        return {
            "samples": [json.loads(line) for line in samples],
            "sysctl": sysctls("target"),
            "qdiscs": {netns: net.qdiscs(netns) for netns in ("router", "target")},
        }


class _Wire(BaseManager):
    """Calls from the initiator's machine to the target's."""


def _wire_up(address: str) -> None:
    net.run("ip", "addr", "add", f"{address}/24", "dev", "eth1")
    net.run("ip", "link", "set", "eth1", "up")


def serve(plan: dict) -> None:
    """Be the target's machine, for as long as it runs."""
    _wire_up(FAR_END)
    far = Far(plan)
    _Wire.register("far", callable=lambda: far)
    _Wire(("", PORT), KEY).get_server().serve_forever()


def reach(plan: dict) -> Any:
    """The target's side, here or on its own machine."""
    if MACHINE is None:
        return Far(plan)
    _wire_up(NEAR_END)
    _Wire.register("far")
    wire = _Wire((FAR_END, PORT), KEY)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            wire.connect()
            return wire.far()
        except OSError:  # it has not booted yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
