# SPDX-License-Identifier: GPL-2.0-only
"""The target: LIO, set up by rtslib from a saveconfig json, in its own network namespace."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from net import run, within

CONFIGFS = Path("/sys/kernel/config/target")


def _null_blk(name: str, size_mb: int, **settings: int) -> dict:
    disk = Path(f"/sys/kernel/config/nullb/{name}")
    disk.mkdir()
    for key, value in {"size": size_mb, **settings, "power": 1}.items():
        (disk / key).write_text(str(value))
    return {"plugin": "block", "dev": f"/dev/{name}"}


def _late(name: str, size_mb: int, latency_ms: float) -> dict:
    """A disk that keeps nothing, and takes that long for a request, for many at once."""
    timer = {"irqmode": 2, "completion_nsec": int(latency_ms * 1_000_000)}
    return _null_blk(name, size_mb, **timer, hw_queue_depth=4096)


def _pscsi(name: str, size_mb: int) -> dict:
    """On scsi_debug's disk, which has one size."""
    Path("/sys/bus/pseudo/drivers/scsi_debug/add_host").write_text("1")
    while not (disks := list(Path("/sys/bus/pseudo/devices").glob("adapter0/host*/target*/*/block/*"))):
        time.sleep(0.05)  # until it has been looked at
    return {"plugin": "pscsi", "dev": f"/dev/{disks[0].name}"}


# Of a saved storage object, what is the backstore's own.
BACKSTORES: dict[str, Callable[[str, int], dict]] = {
    "nullio": lambda name, size_mb: {"plugin": "ramdisk", "size": size_mb << 20, "nullio": True},
    "ramdisk": lambda name, size_mb: {"plugin": "ramdisk", "size": size_mb << 20},
    "fileio": lambda name, size_mb: {
        "plugin": "fileio",
        "size": size_mb << 20,
        "dev": f"/var/target/{name}",
        "write_back": True,
    },
    # On a null_blk that keeps what is written.
    "iblock": lambda name, size_mb: _null_blk(name, size_mb, memory_backed=1),
    "pscsi": _pscsi,
    "user": lambda name, size_mb: {"plugin": "user", "size": size_mb << 20, "config": f"lab/{name}"},
}


def start(target: dict, work: dict) -> list[str]:
    """Bring a target up for each session, with its LUNs; their IQNs."""
    config = json.loads(Path("/configs/target", target["config"]).read_text())
    (store,) = config["storage_objects"]
    (one,) = config["targets"]
    (portal_group,) = one["tpgs"]
    (lun,) = portal_group["luns"]
    portal_group["attributes"] |= target["tpg_attributes"]
    stores: dict[str, dict] = {}
    targets = []
    luns = work["luns"] + work["idle_luns"]
    for session in range(work["sessions"]):
        mapped = []
        for n in range(luns):
            name = f"disk{n if work['multipath'] else session * luns + n}"
            if name not in stores:
                if target["latency_ms"]:
                    own = _late(name, work["size_mb"], target["latency_ms"])
                else:
                    own = BACKSTORES[target["backstore"]](name, work["size_mb"])
                stores[name] = {"name": name, "attributes": store["attributes"], **own}
            mapped.append({**lun, "index": n, "storage_object": f"/backstores/{stores[name]['plugin']}/{name}"})
        wwn = one["wwn"] + (f"-{session}" if session else "")
        targets.append({**one, "wwn": wwn, "tpgs": [{**portal_group, "luns": mapped}]})
    config["storage_objects"], config["targets"] = list(stores.values()), targets

    Path("/var/target").mkdir()
    Path("/etc/rtslib-fb-target/pr").mkdir(parents=True)  # LIO's dbroot, which rtslib sets
    saved = Path("/run/saveconfig.json")
    saved.write_text(json.dumps(config))
    said = run(*within("target", "targetctl", "restore", str(saved)))
    if said.strip():
        raise RuntimeError(f"targetctl restore: {said.strip()}")
    if target["backstore"] == "user":
        for n, made in enumerate(stores.values()):
            subprocess.Popen([sys.executable, "/lab/handler.py", f"/dev/uio{n}", str(made["size"])])
    return [made["wwn"] for made in targets]


def tpg(iqn: str) -> Path:
    return CONFIGFS / "iscsi" / iqn / "tpgt_1"


def settings(iqn: str) -> dict:
    """The portal group's attributes and parameters as the kernel has them."""
    group = tpg(iqn)
    return {
        kind: {f.name: f.read_text().strip() for f in sorted((group / kind).iterdir())} for kind in ("attrib", "param")
    }
