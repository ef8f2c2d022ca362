# SPDX-License-Identifier: GPL-2.0-only
"""The initiator: open-iscsi in the initial network namespace (its netlink works in no other)."""

import fcntl
import os
import subprocess
import time
from pathlib import Path

from net import TARGET, run

# What of a node record, and of a disk, goes into the result.
RECORD = (
    "node.session.cmds_max",
    "node.session.queue_depth",
    "node.session.iscsi.InitialR2T",
    "node.session.iscsi.ImmediateData",
    "node.session.iscsi.FirstBurstLength",
    "node.session.iscsi.MaxBurstLength",
    "node.conn[0].tcp.window_size",
    "node.conn[0].iscsi.MaxRecvDataSegmentLength",
)
QUEUE = ("max_sectors_kb", "max_hw_sectors_kb", "read_ahead_kb", "nr_requests", "scheduler", "optimal_io_size")
BLKRASET = 0x1262
LOGIN_PATIENCE_S = 60


def _place(disk: str) -> tuple[int, int]:
    """A disk's session, in the order of logins, and its LUN."""
    path = Path("/sys/block", disk, "device").resolve()
    (session,) = (part.removeprefix("session") for part in path.parts if part.startswith("session"))
    return int(session), int(path.name.rpartition(":")[2])


def login(iqns: list[str], luns: int, config_lines: list[str]) -> list[list[str]]:
    """Start iscsid, discover, log in to each; every session's disks by LUN."""
    Path("/etc/iscsi/initiatorname.iscsi").write_text("InitiatorName=iqn.2026-11.lab.example:initiator\n")
    with open("/etc/iscsi/iscsid.conf", "a") as config:
        config.write("\n".join(["", *config_lines, ""]))
    run("iscsid")
    run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", TARGET)
    return log_in_again(iqns, luns)


def log_in_again(iqns: list[str], luns: int) -> list[list[str]]:
    """Every session's disks by LUN, once all have appeared."""
    for iqn in iqns:
        run("iscsiadm", "-m", "node", "-T", iqn, "--login")
    wanted = len(iqns) * luns
    deadline = time.monotonic() + LOGIN_PATIENCE_S
    while len(disks := [p.name for p in Path("/sys/block").glob("sd*") if _is_ready(p)]) < wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(disks)} of {wanted} disks after {LOGIN_PATIENCE_S} s")
        time.sleep(0.05)
    disks.sort(key=_place)
    return [disks[n : n + luns] for n in range(0, wanted, luns)]


def _is_ready(disk: Path) -> bool:
    """Whether it is a session's disk, and complete; waits for its partition scan."""
    if "/session" not in str(disk.resolve()):
        return False
    try:
        os.close(os.open(f"/dev/{disk.name}", os.O_RDONLY))
    except OSError:
        return False
    return True


def join_paths(sessions: list[list[str]]) -> list[str]:
    """A multipath device over each LUN's disks, one of every session; their names."""
    joined = []
    for lun, paths in enumerate(zip(*sessions, strict=True)):
        sectors = Path("/sys/block", paths[0], "size").read_text().strip()
        numbers = [Path("/sys/block", disk, "dev").read_text().strip() for disk in paths]
        # As multipathd would by default: one group of all paths, the next request to the one that has least to do.
        group = f"service-time 0 {len(paths)} 1 " + " ".join(f"{number} 1" for number in numbers)
        table = f"0 {sectors} multipath 0 0 1 1 {group}"
        run("dmsetup", "create", f"mpath{lun}", "--noudevsync", "--table", table)
        joined.append(run("dmsetup", "info", "-c", "--noheadings", "-o", "blkdevname", f"mpath{lun}").strip())
    return joined


def part_paths() -> None:
    run("dmsetup", "remove_all")


def logout() -> None:
    run("iscsiadm", "-m", "node", "--logout")


def apply_rule(disk: str, queue: dict[str, str]) -> None:
    """Set a disk's queue as udev does; there is none here."""
    for name, value in queue.items():
        Path("/sys/block", disk, "queue", name).write_text(value)


def apply_static(disk: str, static: dict) -> None:
    """Set a disk by hand. max_sectors_kb first: writing it may raise read-ahead."""
    queue = Path("/sys/block", disk, "queue")
    if static["request_kb"] is not None:
        queue.joinpath("max_sectors_kb").write_text(str(static["request_kb"]))
    if static["queue_depth"] is not None:
        Path("/sys/block", disk, "device/queue_depth").write_text(str(static["queue_depth"]))
    set_read_ahead(disk, static["read_ahead_kb"])


def set_read_ahead(disk: str, read_ahead_kb: int | None) -> None:
    if read_ahead_kb is not None:
        with open(f"/dev/{disk}") as device:
            fcntl.ioctl(device, BLKRASET, read_ahead_kb * 2)


def offered(disk: str) -> dict[str, str]:
    """What sg3-utils makes of the target's log pages and commands; of a refusal, what it says."""
    asked = {
        "log_pages": ("sg_logs", "--page=0x00"),
        "log_page_3c": ("sg_logs", "--page=0x3c", "--hex"),
        "commands": ("sg_opcodes",),
    }
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return {what: subprocess.run([*command, f"/dev/{disk}"], **together).stdout for what, command in asked.items()}


def settings(iqn: str, disks: list[str]) -> dict:
    """What is in force: the node record and each disk's limits, read back."""
    record = dict(
        line.split(" = ", 1) for line in run("iscsiadm", "-m", "node", "-T", iqn).splitlines() if " = " in line
    )
    found = {"record": {name: record.get(name) for name in RECORD}, "disks": {}}
    for disk in disks:
        block = Path("/sys/block", disk)
        limits = {name: block.joinpath("queue", name).read_text().strip() for name in QUEUE}
        limits["queue_depth"] = block.joinpath("device/queue_depth").read_text().strip()
        found["disks"][disk] = limits
    return found
