# SPDX-License-Identifier: GPL-2.0-only
"""The target: LIO, set up by rtslib from a saveconfig json, in its own network namespace."""

import json
from pathlib import Path

from net import run, within

CONFIGFS = Path("/sys/kernel/config/target")


def start(target: dict, work: dict) -> list[str]:
    """Bring a target up for each session, with its LUNs; their IQNs."""
    config = json.loads(Path("/configs/target", target["config"]).read_text())
    (store,) = config["storage_objects"]
    (one,) = config["targets"]
    (portal_group,) = one["tpgs"]
    (lun,) = portal_group["luns"]
    portal_group["attributes"] |= target["tpg_attributes"]
    stores, targets = [], []
    luns = work["luns"] + work["idle_luns"]
    for session in range(work["sessions"]):
        mapped = []
        for n in range(luns):
            name = f"disk{n if work['multipath'] else session * luns + n}"
            made = {**store, "name": name, "size": work["size_mb"] << 20}
            if target["backstore"] == "fileio":
                made |= {"plugin": "fileio", "dev": f"/var/target/{name}", "write_back": True}
                made.pop("nullio")
            else:
                made["nullio"] = target["backstore"] == "nullio"
            stores += [made] if made not in stores else []
            mapped.append({**lun, "index": n, "storage_object": f"/backstores/{made['plugin']}/{name}"})
        wwn = one["wwn"] + (f"-{session}" if session else "")
        targets.append({**one, "wwn": wwn, "tpgs": [{**portal_group, "luns": mapped}]})
    config["storage_objects"], config["targets"] = stores, targets

    Path("/var/target").mkdir()
    Path("/etc/rtslib-fb-target/pr").mkdir(parents=True)  # LIO's dbroot, which rtslib sets
    saved = Path("/run/saveconfig.json")
    saved.write_text(json.dumps(config))
    said = run(*within("target", "targetctl", "restore", str(saved)))
    if said.strip():
        raise RuntimeError(f"targetctl restore: {said.strip()}")
    return [made["wwn"] for made in targets]


def tpg(iqn: str) -> Path:
    return CONFIGFS / "iscsi" / iqn / "tpgt_1"


def settings(iqn: str) -> dict:
    """The portal group's attributes and parameters as the kernel has them."""
    group = tpg(iqn)
    return {
        kind: {f.name: f.read_text().strip() for f in sorted((group / kind).iterdir())} for kind in ("attrib", "param")
    }
