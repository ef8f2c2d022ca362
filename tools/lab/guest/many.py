# SPDX-License-Identifier: GPL-2.0-only
"""Many sessions at once: what memory each takes, and what dumping all by netlink costs.

By itself, within the target's network namespace: one dump, its figures as JSON.
"""

import json
import os
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

import measure
import net
from iscsi import Connection

GENERIC, GET_FAMILY, FAMILY_NAME, FAMILY_ID = 16, 3, 2, 1
REQUEST, DUMP = 0x01, 0x300
DONE = 3
CONN_GET = 1
RECEIVE_BYTES = 1 << 20


def _message(kind: int, flags: int, command: int, attributes: bytes) -> bytes:
    return struct.pack("=IHHIIBBH", 20 + len(attributes), kind, REQUEST | flags, 1, 0, command, 1, 0) + attributes


def _family(netlink: socket.socket) -> int:
    name = b"iscsit\0\0"
    netlink.send(_message(GENERIC, 0, GET_FAMILY, struct.pack("=HH", 4 + 7, FAMILY_NAME) + name))
    answer = netlink.recv(RECEIVE_BYTES)[20:]
    while answer:
        length, kind = struct.unpack_from("=HH", answer)
        if kind == FAMILY_ID:
            return struct.unpack_from("=H", answer, 4)[0]
        answer = answer[length + -length % 4 :]
    raise RuntimeError("no netlink family iscsit")


def dump() -> dict:
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC)
    family = _family(netlink)
    begun = time.monotonic()
    netlink.send(_message(family, DUMP, CONN_GET, b""))
    records = total_bytes = 0
    while True:
        answer = netlink.recv(RECEIVE_BYTES)
        total_bytes += len(answer)
        while answer:
            length, kind = struct.unpack_from("=IH", answer)
            if kind == DONE:
                return {"records": records, "bytes": total_bytes, "time_s": time.monotonic() - begun}
            records += 1
            answer = answer[length + -length % 4 :]


def _memory() -> dict[str, int]:
    """What the kernel's objects take, and what is in use at all once the caches that can be are empty."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    info = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
    slabs = [line.split() for line in Path("/proc/slabinfo").read_text().splitlines()[2:]]
    return {
        "objects_bytes": sum(int(active) * int(size) for _, active, _, size, *_ in slabs),
        "used_bytes": (int(info["MemTotal:"]) - int(info["MemFree:"])) << 10,
    }


def run(plan: dict, there: Any, iqns: list[str]) -> dict:
    """Log in that often, and look."""
    wanted = plan["connections"]
    before, connections = _memory(), []
    for n in range(wanted):
        connections.append(Connection(iqns[0], f"iqn.2026-11.lab.example:many-{n}"))
        if n % 20 == 0:
            measure.progress(n, wanted)
    time.sleep(1)  # what the last login has left to do
    after = _memory()
    found: dict[str, Any] = {what: (after[what] - before[what]) / wanted for what in before}
    if plan["dump"]:
        found["dump"] = json.loads(net.run(*net.within("target", sys.executable, __file__)))
    return found


if __name__ == "__main__":
    print(json.dumps(dump()))
