# SPDX-License-Identifier: GPL-2.0-only
"""The emulated network: initiator, router and target as network namespaces.

    initiator (init) eth0 ───── r0 router r1 ───── eth0 target
                                      r2 ───── eth0 cross (only with competing flows)

They are of one kernel, or the initiator is a machine of its own: then its eth0 and r0 are the two
ends of a virtual link, and the rest is the same.

Towards the initiator, r0 is the bottleneck: a token bucket of net.rate_mbit, two packets deep (more in real
time), in front of a queue of exactly net.queue_bytes. The whole round-trip time is a delay on r1, in the
direction of the target: acknowledgements and commands wait, data never overtakes data when the delay changes.
Random loss hits data, packet by packet, on its way into the router; slots, as on shared media and busy hosts,
let acknowledgements out of r1 and data into the initiator. Every machine's own link has the rate
net.access_mbit and the qdisc the machine itself would use, so that a sender's burst leaves as a real network
card would send it. GSO packets are split by the token bucket.
"""

import subprocess

INITIATOR, TARGET, CROSS = "10.0.1.2", "10.0.2.2", "10.0.3.2"
BUCKET_BYTES = 2 * 1514
# Of real time; the bucket is deeper there, or a timer as late as that would cost the path what it could not send.
LATE_S = 0.002
# So fast that it only splits GSO packets: a real link loses a packet of them, not all.
SPLITTER = f"tbf rate 100gbit burst {BUCKET_BYTES} limit 100000000"
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


def _cable(machine: str, port: str) -> None:
    """A machine's eth0, joined to a port of the router."""
    home = "1" if machine == "initiator" else machine  # the initial namespace is that of process 1
    _batch("ip", "router", [f"link add {port} type veth peer name eth0 netns {home}"])


def _port(port: str, network: str) -> None:
    _batch("ip", "router", [f"addr add {network}.1/24 dev {port}", f"link set {port} up"])


def _machine(machine: str, network: str, net: dict, qdisc: str, *, unlimited: bool) -> None:
    """A machine's address, and its network card: the link's rate, behind the machine's own qdisc."""
    _batch(
        "ip", machine, [f"addr add {network}.2/24 dev eth0", "link set eth0 up", f"route add default via {network}.1"]
    )
    if unlimited:
        return
    rate = f"rate {net['access_mbit']}mbit burst {CARD_BUCKET_BYTES} limit 1000000"
    _batch(
        "tc",
        machine,
        [f"qdisc add dev eth0 root handle 1: tbf {rate}", f"qdisc add dev eth0 parent 1: handle 10: {qdisc}"],
    )


def _loss(net: dict, pct: float) -> str:
    return f"netem limit {NEVER_DROPS_PKTS} loss random {pct}% seed {net['seed']}"


def _slots(slot_ms: float) -> str:
    """What came meanwhile leaves at once, every slot_ms."""
    return f" slot {slot_ms}ms {slot_ms}ms" if slot_ms else ""


def _delay(net: dict, rtt_ms: float) -> str:
    return f"netem limit {NEVER_DROPS_PKTS} delay {rtt_ms}ms" + _slots(net["ack_slot_ms"])


def _redirect_ingress(netns: str, port: str, qdisc: str) -> None:
    """What arrives at the port goes through a qdisc first, packet by packet."""
    _batch("ip", netns, ["link add in0 type ifb", "link set in0 up"])
    _batch(
        "tc",
        netns,
        [
            f"qdisc add dev in0 root handle 1: {SPLITTER}",
            f"qdisc add dev in0 parent 1: handle 10: {qdisc}",
            f"qdisc add dev {port} ingress",
            f"filter add dev {port} parent ffff: matchall action mirred egress redirect dev in0",
        ],
    )


def _bottleneck(net: dict, rate_mbit: float, *, two_machines: bool) -> str:
    burst = f"burst {BUCKET_BYTES}"
    if two_machines:  # the peak rate, which limits nothing, comes with a bucket of its own, and that splits GSO packets
        burst = f"burst {BUCKET_BYTES + round(rate_mbit * 1e6 / 8 * LATE_S)} peakrate 100gbit mtu {BUCKET_BYTES}"
    return f"tbf rate {rate_mbit}mbit {burst} limit {net['queue_bytes']}"


def build_initiator(net: dict, qdisc: str, *, unlimited: bool) -> None:
    """The initiator's end; unlimited, here and below: bare cables, as fast as the CPU."""
    _machine("initiator", "10.0.1", net, qdisc, unlimited=unlimited)
    if net["data_slot_ms"] and not unlimited:
        _redirect_ingress("initiator", "eth0", f"netem limit {NEVER_DROPS_PKTS}" + _slots(net["data_slot_ms"]))


def build_path(net: dict, qdisc: str, *, unlimited: bool, two_machines: bool) -> None:
    """The router, the target's end, and the emulated path between."""
    for netns in ("router", "target", "cross"):
        run("ip", "netns", "add", netns)
        _batch("ip", netns, ["link set lo up"])
    run(*within("router", "sysctl", "-q", "net.ipv4.ip_forward=1"))
    if two_machines:
        run("ip", "link", "set", "eth0", "name", "r0", "netns", "router")
    else:
        _cable("initiator", "r0")
    _port("r0", "10.0.1")
    _cable("target", "r1")
    _port("r1", "10.0.2")
    _machine("target", "10.0.2", net, qdisc, unlimited=unlimited)
    if unlimited:
        return
    if net["cross"]:
        _cable("cross", "r2")
        _port("r2", "10.0.3")
        _machine("cross", "10.0.3", net, "fq_codel", unlimited=False)

    lines = [f"qdisc add dev r0 root handle 1: {_bottleneck(net, net['rate_mbit'], two_machines=two_machines)}"]
    if net["aqm"] == "fq_codel":
        limit_pkts = max(1, net["queue_bytes"] // 1514)
        ecn = "ecn" if net["ecn"] else "noecn"
        lines.append(f"qdisc add dev r0 parent 1: handle 10: fq_codel limit {limit_pkts} {ecn}")
    lines.append(f"qdisc add dev r1 root handle 1: {_delay(net, net['rtt_ms'])}")
    if net["cross"]:
        lines.append(f"qdisc add dev r2 root handle 1: {_delay(net, net['rtt_ms'])}")
    _batch("tc", "router", lines)
    if net["loss_pct"] or any(change["loss_pct"] is not None for change in net["changes"]):
        _redirect_ingress("router", "r1", _loss(net, net["loss_pct"]))


def change(net: dict, new: dict, *, two_machines: bool) -> None:
    """Apply one of net.changes now."""
    lines = []
    if new["rate_mbit"] is not None:
        lines.append(
            f"qdisc change dev r0 root handle 1: {_bottleneck(net, new['rate_mbit'], two_machines=two_machines)}"
        )
    if new["rtt_ms"] is not None:
        lines.append(f"qdisc change dev r1 root handle 1: {_delay(net, new['rtt_ms'])}")
        if net["cross"]:
            lines.append(f"qdisc change dev r2 root handle 1: {_delay(net, new['rtt_ms'])}")
    if new["loss_pct"] is not None:
        lines.append(f"qdisc change dev in0 parent 1: handle 10: {_loss(net, new['loss_pct'])}")
    _batch("tc", "router", lines)


def qdiscs(netns: str) -> list[str]:
    """What tc says of every queue at the end: kind, options, bytes, drops."""
    where = [] if netns == "initiator" else ["-netns", netns]
    return run("tc", *where, "-s", "qdisc", "show").splitlines()


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
