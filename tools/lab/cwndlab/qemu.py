# SPDX-License-Identifier: GPL-2.0-only
"""Engine qemu: the kernel as x86-64, on two machines in real time, or on one in virtual time.

Two machines: the target's, with the router, and the initiator's; two virtual links join them, one the
path's, one for the scripts. KVM where a guest boots under it, else TCG, whose speed limits the rate; in
slow motion, the machines' seconds take several of the host's, and the rate may be as many times higher.

One machine: as User-Mode Linux, three network namespaces of one kernel. Virtual time advances with the
instructions executed (-icount) and skips what is idle, so rates are possible that TCG cannot do in real time.
"""

import hashlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cwndlab import boot
from cwndlab.engine import START, Machine
from cwndlab.images import Images
from cwndlab.paths import LabError, cache
from cwndlab.scenario import Scenario, load
from cwndlab.variant import plan as make_plan

QEMU = "qemu-system-x86_64"
# A kernel that is told that its time-stamp counter counts some times faster than it does, lives that much slower. Its
# local timer is measured by that counter, and cannot do 16.
SLOWEST = 15
# With -icount the counter counts instructions, 10⁹ of them to QEMU's second: living slower, the kernel has a faster
# processor. Booting takes ten seconds for each time (it waits for its local timer to count), so the processor is as
# fast as the path needs, three times over.
PROCESSOR_PER_MBIT = 1 / 250
ICOUNT_MHZ = 1000
DEBUG_PROCESSORS = 2
MODULES = ("target_core_mod.ko", "iscsi/iscsi_target_mod.ko")
KVM_PATIENCE_S = 20
# Of what an emulated path carries that is only as fast as the processors. The rest is for feedback's smaller requests,
# and for what else runs here: at 0.28 of it feedback read 0.83 to 0.86 of what static settings do, at 0.14 0.96.
USABLE_SHARE = 0.25
CALIBRATION = (
    *("net.rate_mbit=10000", "net.rtt_ms=2"),
    *("workload.kind=direct", "workload.bs_kb=1024", "workload.iodepth=8", "workload.runtime_s=5"),
)
# Folders of the run directory, each a file system of the guest; all but the last are read-only.
SHARES = ("root", "lab", "configs", "tools", "out")
CPU = "qemu64,+rdrand"  # plain: instructions that move much at once are slow to emulate
WORDS = [
    "console=ttyS0",
    "root=root",
    "rootfstype=9p",
    "rootflags=trans=virtio,version=9p2000.L,cache=loose,msize=262144",
    "ro",
    "init=/init",
    "panic=-1",
    "tsc=reliable",
    "no_timer_check",  # of how many timer interrupts come in a while, which depends on the host's load
    "scsi_debug.add_host=0",
    "null_blk.nr_devices=0",
]


def _remembered(key: tuple[str, ...], find_out: Callable[[], Any]) -> Any:
    """What was found out about this machine before, from the cache, or now."""
    path = cache() / "qemu.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    name = " ".join(key)
    if name not in known:
        found = find_out()
        known = (json.loads(path.read_text()) if path.exists() else {}) | {name: found}
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(known, indent=1) + "\n")
        new.replace(path)
    return known[name]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")
    return f"{len(os.sched_getaffinity(0))} × {model}"


def _boots_under_kvm(kernel: Path) -> bool:
    """Without a root, a kernel that runs ends in a panic, which with panic=-1 ends QEMU."""
    command = [QEMU, *_hardware(kernel, ["console=ttyS0", "panic=-1"]), "-accel", "kvm", "-cpu", "host", "-m", "512M"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=KVM_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return False
    return b"Unable to mount root" in done.stdout


def _hardware(kernel: Path, words: list[str]) -> list[str]:
    """A plain PC with a console, and what the kernel is told."""
    return [
        *("-machine", "pc,hpet=off,usb=off,vmport=off", "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-kernel", str(kernel), "-append", " ".join(words)),
    ]


def _counter_mhz() -> float:
    """Of the host's time-stamp counter, or somewhat more: too slow a clock does no harm."""
    told = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)]
    fastest = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    return max(*told, int(fastest.read_text()) / 1000 if fastest.exists() else 0)


def _slower(times: int, counter_mhz: float) -> list[str]:
    """What tells a kernel so; nothing else that measures time may contradict."""
    return [f"tsc_early_khz={round(times * counter_mhz * 1000)}", "pmtmr=0"]


def _processor_times(rate_mbit: float) -> int:
    """How many times faster than one instruction per nanosecond the processor of one machine is."""
    return math.ceil(rate_mbit * PROCESSOR_PER_MBIT)


class Qemu:
    def __init__(self, *, one_machine: bool, slow_motion: int = 1, debug: bool = False):
        """debug: the kernel that looks for mistakes, on one machine of several processors, in real time."""
        if not shutil.which(QEMU):
            raise LabError(f"engine qemu: {QEMU} not found; install qemu-system-x86")
        self.one_machine = one_machine or debug
        self.debug = debug
        self.arch = "x86_64-debug" if debug else "x86_64"
        self.accelerator = "tcg"
        self.real_time = debug or not one_machine
        self.slow_motion = slow_motion
        self.slowness = 5.0 if one_machine else slow_motion

    @property
    def name(self) -> str:
        return f"qemu-{self.accelerator}" if self.real_time else "qemu-icount"

    def meet(self, kernel: Path, report: Callable[[str], None]) -> None:
        """Choose the accelerator: KVM counts only if this kernel really boots under it."""
        self.report = report
        if not self.real_time or self.slow_motion > 1 or not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return  # KVM has a clock of its own
        host_boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        if _remembered(("kvm", self._version(), host_boot), lambda: _boots_under_kvm(kernel)):
            self.accelerator = "kvm"
        else:
            report("engine qemu: no guest boots under /dev/kvm here; using TCG")

    def modules(self, kernel: Path) -> list[Path]:
        return [kernel.parent / "drivers/target" / module for module in MODULES if self.debug]

    def most_mbit(self, images: Images) -> float:
        """Two machines: less than what the path between them carried."""
        if self.one_machine:
            return SLOWEST / PROCESSOR_PER_MBIT
        return math.floor(USABLE_SHARE * self.slow_motion * self._measured(images)["carries_mbit"])

    def faster(self, times: float) -> str:
        slow_motion = math.ceil(times * self.slow_motion)
        if self.one_machine or slow_motion > SLOWEST:
            return " or --engine uml"
        return f", --slow-motion {slow_motion}, --one-machine, or --engine uml"

    def _measured(self, images: Images) -> dict[str, float]:
        """What a path carries between two machines in real time, and their processor's frequency."""
        kernel = hashlib.sha256(images.kernel.read_bytes()).hexdigest()[:12]
        key = ("path between two machines", *CALIBRATION, self.accelerator, self._version(), _processor(), kernel)

        def measure() -> dict[str, float]:
            self.report(f"engine {self.name}: measuring once what a path carries between two machines (a minute)")
            real_time = replace(images, engine=Qemu(one_machine=False))
            plan = make_plan(load("wan-100m-20ms", CALIBRATION), "stock", monitor=False)
            guest = boot.run(real_time, plan, 0, 600, lambda done_s: None, keep=False)
            read = guest["measured"]["fio"]["jobs"][0]["read"]
            carries_mbit = round(8 * read["io_bytes"] / read["runtime"] / 1000, 1)
            self.report(f"engine {self.name}: {carries_mbit:g} Mbit/s")
            return {"carries_mbit": carries_mbit, "cpu_mhz": guest["cpu_mhz"]}

        return _remembered(key, measure)

    def _version(self) -> str:
        return subprocess.run([QEMU, "--version"], capture_output=True, text=True).stdout.splitlines()[0]

    def instructions_per_s(self, scenario: Scenario) -> float | None:
        return ICOUNT_MHZ * 1e6 * _processor_times(scenario.net.rate_mbit) if self.one_machine else None

    def circumstances(self, guest: dict) -> dict[str, float]:
        if not self.real_time:
            return {}
        return {"slow_motion": self.slow_motion, "cpu_waited_share": round(guest["cpu_waited_share"], 3)}

    def environment(self, term: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": "/", "TERM": term}

    def machines(self, images: Images, plan: dict) -> list[Machine]:
        if self.one_machine:
            return [Machine(self._command(images, plan, [], ()))]
        path, wire = socket.socketpair(), socket.socketpair()
        return [
            Machine(self._command(images, plan, [f"MACHINE={name}"], links), f"console-{name}.log", links)
            for name, links in zip(("initiator", "target"), zip(path, wire, strict=True), strict=True)
        ]

    def _command(self, images: Images, plan: dict, words: list[str], links: tuple[socket.socket, ...]) -> list[str]:
        timing = ["-accel", self.accelerator, "-cpu", "host" if self.accelerator == "kvm" else CPU]
        if self.debug:
            timing += ["-smp", str(DEBUG_PROCESSORS)]
            # Interpreted by this kernel, ACPI's tables may take longer than they are given.
            words = ["pci=noacpi,nocrs", "pnpacpi=off"]
            if self.accelerator == "tcg":  # on a busy host, a kernel that measures it is wrong by ten times and more
                words += [f"tsc_early_khz={round(_counter_mhz() * 1000)}"]
        elif self.one_machine and not plan["shell"]:
            timing = ["-accel", "tcg,thread=single", "-cpu", CPU, "-icount", "shift=0,sleep=off"]
            timing += ["-rtc", f"base={START},clock=vm", "-seed", str(plan["scenario"]["net"]["seed"] % 2**32)]
            words = _slower(_processor_times(plan["scenario"]["net"]["rate_mbit"]), ICOUNT_MHZ)
        elif self.slow_motion > 1:
            words = words + _slower(self.slow_motion, self._measured(images)["cpu_mhz"])
        words = [*WORDS, *words, *(["quiet"] if plan["shell"] else [])]
        command = [QEMU, *_hardware(images.kernel, words), *timing, "-m", f"{plan['memory_mb']}M"]
        for n, link in enumerate(links):
            # The file descriptor's number makes an address that no other card of the run has.
            mac = f"52:54:00:00:00:{link.fileno() % 256:02x}"
            command += ["-netdev", f"socket,id=link{n},fd={link.fileno()}"]
            command += ["-device", f"virtio-net-pci,netdev=link{n},mac={mac}"]
        for tag in SHARES:
            readonly = "" if tag == "out" else ",readonly=on"
            command += ["-fsdev", f"local,id={tag},path={tag},security_model=none{readonly}"]
            command += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        return command
