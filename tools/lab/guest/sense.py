# SPDX-License-Identifier: GPL-2.0-only
"""LOG SENSE, asked for byte by byte, and by a session of two connections."""

import json
from dataclasses import asdict
from typing import Any

import far
import net
import target
from iscsi import CLOSE_CONNECTION, Answer, Connection

ASKING = "iqn.2026-11.lab.example:asking"
PAGE_3C = bytes.fromhex("4d 00 7c 00 00 00 00 ffff 00")


def _as_json(answer: Answer) -> dict:
    return {key: value.hex() if isinstance(value, bytes) else value for key, value in asdict(answer).items()}


def run(plan: dict, there: Any, iqns: list[str]) -> dict:
    """What each command of the plan was answered; what page and netlink say of two connections, and of the one left."""
    (iqn,) = iqns
    asking = Connection(iqn, ASKING)
    answers = {
        name: _as_json(asking.command(bytes.fromhex(cdb), expected_bytes, lun))
        for name, (cdb, expected_bytes, lun) in plan["commands"].items()
    }

    def described() -> dict:
        page = asking.command(PAGE_3C, 0xFFFF)
        listed = json.loads(net.run(*net.within("target", far.MONITOR, "show", "--json")))
        return {"page": page.data.hex(), "netlink": listed}

    (target.tpg(iqn) / "param/MaxConnections").write_text("2")
    asking.logout()
    asking = Connection(iqn, ASKING)
    second = Connection(iqn, ASKING, cid=1, first=asking)
    both = described()
    both["page_by_second"] = second.command(PAGE_3C, 0xFFFF).data.hex()
    second.logout(CLOSE_CONNECTION)
    return {"answers": answers, "two_connections": both, "one_left": described()}
