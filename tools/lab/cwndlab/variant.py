# SPDX-License-Identifier: GPL-2.0-only
"""The variants of a run: what each sets on top of Debian's defaults.

stock     nothing: open-iscsi's, LIO's and the kernel's defaults
static    the product's sysctl.d, tmpfiles.d, iscsid and udev lines and portal group attributes, and the numbers under
          [static]; no daemon
bbr       static, with BBR on the target
rwnd      static, with the advertised window clamped to initiator.window_kb (default: one BDP)
feedback  the product's sysctl.d, tmpfiles.d, iscsid and udev lines and portal group attributes, and iscsi-cwndd
"""

import re
from typing import Any

from cwndlab.paths import CONFIGS
from cwndlab.scenario import Scenario

# A guest's memory, and how much of a read its page cache holds then; a longer read gets more.
MEMORY_MB = 3072
CACHED_MB = 2800
VARIANTS = ("stock", "static", "bbr", "rwnd", "feedback")
# A machine with 32 GiB has about this much for all sockets together; the guest's own memory is small.
TCP_MEM_PAGES = "196608 262144 393216"
# What the README asks for on the target, beside the sysctls; of the latter only the patched kernel knows.
COMMAND_WINDOW = {"default_cmdsn_depth": 512}
TCP = {"tcp_pacing": 1, "tcp_pacing_shift": 13, "tcp_regain": 1}
DEBIAN_QDISC = "fq_codel"  # Debian's linux-sysctl-defaults


def config_lines(*names: str) -> list[str]:
    """The effective lines of the product's configuration files, comments left out."""
    lines = [line.strip() for name in names for line in (CONFIGS / name).read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def plan(
    scenario: Scenario,
    variant: str,
    *,
    patched: bool = True,
    monitor: bool | None = None,
    shell: bool = False,
    unlimited: bool = False,
) -> dict[str, Any]:
    """What the guest is to do, as guest/main.py reads it; monitor: by default where the kernel has one to read."""
    values = scenario.resolved()
    sysctl: dict[str, list[str]] = {"initiator": [], "target": []}
    tmpfiles: list[str] = []
    iscsid: list[str] = []
    queue: dict[str, str] = {}
    static = values["static"] if variant in ("static", "bbr", "rwnd") else dict.fromkeys(values["static"])
    qdisc = {"initiator": DEBIAN_QDISC, "target": DEBIAN_QDISC}
    if variant != "stock":
        tcp = TCP if static["pacing"] is None else TCP | {"tcp_pacing": int(static["pacing"])}
        portal_group = COMMAND_WINDOW | (tcp if patched else {})
        values["target"]["tpg_attributes"] = portal_group | values["target"]["tpg_attributes"]
        tmpfiles = config_lines("tmpfiles.d/lio-cwnd.conf")
        iscsid = config_lines("iscsid/lio-cwnd.conf")
        rules = "".join(config_lines("udev/60-lio-cwnd.rules"))
        queue = dict(re.findall(r'ATTR{queue/(\w+)}="(\d+)"', rules))
        for machine, lines in sysctl.items():
            for line in config_lines(f"sysctl.d/90-lio-cwnd-{machine}.conf"):
                key, value = (word.strip() for word in line.split("=", 1))
                if key == "net.core.default_qdisc":  # one for the whole guest: net.py gives each card its own
                    qdisc[machine] = value
                else:
                    lines.append(line)
    if variant == "bbr":
        values["target"]["cc"] = "bbr"

    window_kb = values["initiator"]["window_kb"]
    if window_kb is None:
        window_kb = (
            round(scenario.net.bdp_bytes / 1024 / scenario.workload.sessions)
            if variant == "rwnd"
            else static["window_kb"]
        )
    if window_kb is not None:
        iscsid = [*iscsid, f"node.conn[0].tcp.window_size = {window_kb * 1024}"]
    return {
        "task": "read",  # of guest/main.py's
        "spins": False,  # a program waits without sleeping: in virtual time, work must take some
        "shell": shell,
        "memory_mb": MEMORY_MB + max(0, round(scenario.cached_bytes / 1e6) - CACHED_MB),
        "unlimited": unlimited,
        "scenario": values,
        "variant": variant,
        "tcp_mem_pages": TCP_MEM_PAGES,
        "nic_qdisc": qdisc,
        "sysctl": sysctl,
        "tmpfiles": tmpfiles,
        "iscsid": iscsid,
        "queue": queue,
        "static": static,
        "daemon": variant == "feedback",
        "strategy": values["daemon"]["strategy"],
        "monitor": patched if monitor is None else monitor,
        "polls_per_s": 0,  # of the log page, beside the daemon's
    }
