# SPDX-License-Identifier: GPL-2.0-only
"""The emulated network: initiator, router and target as network namespaces of one kernel.

    initiator (init) eth0 ───── r0 router r1 ───── eth0 target
                                      r2 ───── eth0 cross (only with competing flows)

Towards the initiator, r0 is the bottleneck: a token bucket of net.rate_mbit, two packets deep, in
front of a queue of exactly net.queue_bytes. The whole round-trip time is a delay on r1, in the
direction of the target: acknowledgements and commands wait, data never overtakes data when
the delay changes. Random loss hits data on its way into the router. Every machine's
own link has the rate net.access_mbit and the qdisc the machine itself would use, so that a sender's
burst leaves as a real network card would send it. GSO packets are split by the token bucket.
"""

import subprocess

INITIATOR, TARGET, CROSS = "10.0.1.2", "10.0.2.2", "10.0.3.2"
BUCKET_BYTES = 2 * 1514
# A card takes whole TSO segments, as fq counts them: the largest, and a header for each of its packets.
CARD_BUCKET_BYTES = 80_000
NEVER_DROPS_PKTS = 10_000_000


def run(*argv: str) -> str:
    """Run a command; its output, or the error with what it said."""
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr, flush=True)
        reason = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {reason}")
    return done.stdout


def within(netns: str, *argv: str) -> list[str]:
    """The command line that runs argv in a namespace, /sys left as it is (configfs lives there)."""
    return list(argv) if netns == "initiator" else ["nsenter", f"--net=/run/netns/{netns}", "--", *argv]


def _batch(tool: str, netns: str, lines: list[str]) -> None:
    where = [] if netns == "initiator" else ["-netns", netns]
    done = subprocess.run([tool, *where, "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{tool} in {netns}: {done.stderr.strip()}: {lines}")


def _machine(machine: str, port: str, network: str) -> None:
    """A machine's eth0 and its cable to a port of the router."""
    home = "1" if machine == "initiator" else machine  # the initial namespace is that of process 1
    _batch("ip", "router", [f"link add {port} type veth peer name eth0 netns {home}"])
    _batch("ip", "router", [f"addr add {network}.1/24 dev {port}", f"link set {port} up"])
    _batch(
        "ip", machine, [f"addr add {network}.2/24 dev eth0", "link set eth0 up", f"route add default via {network}.1"]
    )


def _card(machine: str, access_mbit: float, qdisc: str) -> None:
    """A machine's network card: the link's rate, behind the machine's own qdisc."""
    lines = [
        f"qdisc add dev eth0 root handle 1: tbf rate {access_mbit}mbit burst {CARD_BUCKET_BYTES} limit 1000000",
        f"qdisc add dev eth0 parent 1: handle 10: {qdisc}",
    ]
    _batch("tc", machine, lines)


def _loss(net: dict, pct: float) -> str:
    return f"netem limit {NEVER_DROPS_PKTS} loss random {pct}% seed {net['seed']}"


def _delay(rtt_ms: float) -> str:
    return f"netem limit {NEVER_DROPS_PKTS} delay {rtt_ms}ms"


def _bottleneck(net: dict, rate_mbit: float) -> str:
    return f"tbf rate {rate_mbit}mbit burst {BUCKET_BYTES} limit {net['queue_bytes']}"


def build(net: dict, nic_qdisc: dict, *, unlimited: bool) -> None:
    """Lay out the whole network; unlimited: bare cables, as fast as the CPU."""
    for netns in ("router", "target", "cross"):
        run("ip", "netns", "add", netns)
        _batch("ip", netns, ["link set lo up"])
    run(*within("router", "sysctl", "-q", "net.ipv4.ip_forward=1"))
    _machine("initiator", "r0", "10.0.1")
    _machine("target", "r1", "10.0.2")
    if unlimited:
        return
    for machine in ("initiator", "target"):
        _card(machine, net["access_mbit"], nic_qdisc[machine])
    if net["cross"]:
        _machine("cross", "r2", "10.0.3")
        _card("cross", net["access_mbit"], "fq_codel")

    lines = [f"qdisc add dev r0 root handle 1: {_bottleneck(net, net['rate_mbit'])}"]
    if net["aqm"] == "fq_codel":
        limit_pkts = max(1, net["queue_bytes"] // 1514)
        ecn = "ecn" if net["ecn"] else "noecn"
        lines.append(f"qdisc add dev r0 parent 1: handle 10: fq_codel limit {limit_pkts} {ecn}")
    lines.append(f"qdisc add dev r1 root handle 1: {_delay(net['rtt_ms'])}")
    if net["cross"]:
        lines.append(f"qdisc add dev r2 root handle 1: {_delay(net['rtt_ms'])}")
    _batch("tc", "router", lines)
    if net["loss_pct"] or any(change["loss_pct"] is not None for change in net["changes"]):
        _batch("ip", "router", ["link add ifb0 type ifb", "link set ifb0 up"])
        _batch(
            "tc",
            "router",
            [
                f"qdisc add dev ifb0 root handle 1: {_loss(net, net['loss_pct'])}",
                "qdisc add dev r1 ingress",
                "filter add dev r1 parent ffff: matchall action mirred egress redirect dev ifb0",
            ],
        )
    if net["ecn"]:
        for netns in ("initiator", "target"):
            run(*within(netns, "sysctl", "-q", "net.ipv4.tcp_ecn=1"))


def change(net: dict, new: dict) -> None:
    """Apply one of net.changes now."""
    lines = []
    if new["rate_mbit"] is not None:
        lines.append(f"qdisc change dev r0 root handle 1: {_bottleneck(net, new['rate_mbit'])}")
    if new["rtt_ms"] is not None:
        lines.append(f"qdisc change dev r1 root handle 1: {_delay(new['rtt_ms'])}")
        if net["cross"]:
            lines.append(f"qdisc change dev r2 root handle 1: {_delay(new['rtt_ms'])}")
    if new["loss_pct"] is not None:
        lines.append(f"qdisc change dev ifb0 root handle 1: {_loss(net, new['loss_pct'])}")
    _batch("tc", "router", lines)


def qdiscs() -> dict:
    """What tc says of every queue at the end: kind, options, bytes, drops."""
    shown = {}
    for netns in ("initiator", "router", "target"):
        where = [] if netns == "initiator" else ["-netns", netns]
        shown[netns] = run("tc", *where, "-s", "qdisc", "show").splitlines()
    return shown


def mib(netns: str) -> dict[str, int]:
    """The namespace's TCP and IP counters, all of /proc/net/snmp and netstat."""
    text = run(*within(netns, "cat", "/proc/net/snmp", "/proc/net/netstat"))
    counters, lines = {}, text.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group, *keys = names.split()
        counters.update(
            {group.rstrip(":") + key: int(value) for key, value in zip(keys, values.split()[1:], strict=True)}
        )
    return counters
