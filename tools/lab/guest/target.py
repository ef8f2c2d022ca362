# SPDX-License-Identifier: GPL-2.0-only
"""The target: LIO, set up by rtslib from a saveconfig json, in its own network namespace."""

import json
from pathlib import Path

from net import run, within

CONFIGFS = Path("/sys/kernel/config/target")


def start(target: dict, luns: int) -> str:
    """Bring the target up with that many LUNs; the target's IQN."""
    config = json.loads(Path("/configs/target", target["config"]).read_text())
    (store,) = config["storage_objects"]
    (portal_group,) = config["targets"][0]["tpgs"]
    (lun,) = portal_group["luns"]
    portal_group["attributes"] |= target["tpg_attributes"]
    stores, mapped = [], []
    for n in range(luns):
        made = {**store, "name": f"disk{n}", "size": target["size_mb"] << 20}
        if target["backstore"] == "fileio":
            made |= {"plugin": "fileio", "dev": f"/var/target/disk{n}", "write_back": True}
            made.pop("nullio")
        else:
            made["nullio"] = target["backstore"] == "nullio"
        stores.append(made)
        mapped.append({**lun, "index": n, "storage_object": f"/backstores/{made['plugin']}/disk{n}"})
    config["storage_objects"], portal_group["luns"] = stores, mapped

    Path("/var/target").mkdir()
    Path("/etc/rtslib-fb-target/pr").mkdir(parents=True)  # LIO's dbroot, which rtslib sets
    saved = Path("/run/saveconfig.json")
    saved.write_text(json.dumps(config))
    said = run(*within("target", "targetctl", "restore", str(saved)))
    if said.strip():
        raise RuntimeError(f"targetctl restore: {said.strip()}")
    return config["targets"][0]["wwn"]


def settings(iqn: str) -> dict:
    """The portal group's attributes and parameters as the kernel has them."""
    group = CONFIGFS / "iscsi" / iqn / "tpgt_1"
    return {
        kind: {f.name: f.read_text().strip() for f in sorted((group / kind).iterdir())} for kind in ("attrib", "param")
    }
