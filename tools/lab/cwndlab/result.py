# SPDX-License-Identifier: GPL-2.0-only
"""One run's record, made from what the guest wrote. The format is described in docs/lab.md."""

import bisect
import statistics
from collections.abc import Iterator
from typing import Any

from cwndlab.images import Images

FORMAT = "lio-cwnd-result/1"
# A rate is the mean of a window this long: no shorter, or single requests show.
RATE_WINDOW_S, RATE_WINDOW_RTT = 0.5, 4
BACK_SHARE = 0.95
CAUSES = ("cwr_local", "cwr_ecn", "cwr_tlp", "recovery", "loss")
PERCENTILES = ("50.000000", "99.000000", "99.900000")


def _bytes_at(t_s: list[float], read_bytes: list[int], when_s: float) -> float:
    """Bytes read by then, interpolated."""
    n = bisect.bisect_left(t_s, when_s)
    if n == 0:
        return read_bytes[0]
    if n == len(t_s):
        return read_bytes[-1]
    share = (when_s - t_s[n - 1]) / (t_s[n] - t_s[n - 1])
    return read_bytes[n - 1] + share * (read_bytes[n] - read_bytes[n - 1])


def rate_bytes_per_s(t_s: list[float], read_bytes: list[int], from_s: float, to_s: float) -> float:
    """Mean rate between two moments."""
    return (_bytes_at(t_s, read_bytes, to_s) - _bytes_at(t_s, read_bytes, from_s)) / (to_s - from_s)


def rate_window_s(rtt_s: float) -> float:
    return max(RATE_WINDOW_S, RATE_WINDOW_RTT * rtt_s)


def time_to_90_s(
    t_s: list[float], read_bytes: list[int], steady_bytes_per_s: float, rtt_s: float, first_read_s: float
) -> float | None:
    """The middle of the first window that ran at 90 % of the steady rate: never early, at most 0.4 windows late."""
    window_s = rate_window_s(rtt_s)
    for now_s in t_s:
        if now_s < first_read_s + window_s:
            continue
        if rate_bytes_per_s(t_s, read_bytes, now_s - window_s, now_s) >= 0.9 * steady_bytes_per_s:
            return round(now_s - window_s / 2 - first_read_s, 3)
    return None


def settles_s(rtt_s: float) -> float:
    """When a read must have converged, counted from its start."""
    return 12 * rtt_s + 0.5


def back_by_s(rtt_s: float) -> float:
    """When a read must have its rate again after the path has changed, counted from the change."""
    return 30 * rtt_s + 1


def segments(net: dict[str, Any], end_s: float) -> Iterator[tuple[float, float, float]]:
    """From when until when the path stays as each of its changes leaves it, and its round-trip time then."""
    rtt_s = net["rtt_ms"] / 1000
    starts_s = [change["at_s"] for change in net["changes"]]
    for change, from_s, until_s in zip(net["changes"], starts_s, [*starts_s[1:], end_s], strict=False):
        rtt_s = rtt_s if change["rtt_ms"] is None else change["rtt_ms"] / 1000
        yield from_s, until_s, rtt_s


def time_back_s(run: dict[str, Any], n: int, steady_bytes_per_s: float) -> float | None:
    """How long after its n-th change a run is back at 95 % of a rate: in the next window, and up to the next change.

    A window alone would do where the path has become slower: at first it is still full.
    """
    t_s, read_bytes = run["progress"]["t_s"], run["progress"]["read_bytes"]
    from_s, until_s, rtt_s = (run["changes"][n][key] for key in ("from_s", "until_s", "rtt_s"))
    window_s, least_bytes_per_s = rate_window_s(rtt_s), BACK_SHARE * steady_bytes_per_s
    for now_s in t_s:
        if from_s <= now_s <= until_s - window_s and all(
            rate_bytes_per_s(t_s, read_bytes, now_s, to_s) >= least_bytes_per_s for to_s in (now_s + window_s, until_s)
        ):
            return round(now_s - from_s, 3)
    return None


def jain(shares: list[float]) -> float | None:
    """Fairness (Jain, Chiu, Hawe 1984): 1 where all have the same, 1 / n where one has all."""
    squares = len(shares) * sum(share**2 for share in shares)
    return sum(shares) ** 2 / squares if squares else None


def _shares(record: dict[str, Any]) -> dict[str, Any]:
    """Who has got how much: sessions, disks, competing flows, random reads."""
    jobs, work, progress = record["fio"]["jobs"], record["scenario"]["workload"], record["series"]["progress"]
    end_s, begun_s = record["fio"]["runtime_s"], (work["sessions"] - 1) * work["stagger_s"]
    disks = [rate_bytes_per_s(progress["t_s"], read_bytes, begun_s, end_s) for read_bytes in progress["disks_bytes"]]
    sessions = [0.0] * work["sessions"]
    for job, rate in zip(jobs, disks, strict=True):
        sessions[job["session"]] += rate
    cross = []
    for flow, received_bytes in zip(record["scenario"]["net"]["cross"], progress["cross_bytes"], strict=True):
        during = (flow["from_s"], min(flow["to_s"], end_s))
        cross.append(
            {
                "proto": flow["proto"],
                "bytes_per_s": rate_bytes_per_s(progress["t_s"], received_bytes, *during),
                "read_bytes_per_s": rate_bytes_per_s(progress["t_s"], progress["read_bytes"], *during),
            }
        )
    random = [job for job in jobs if job["random"]]
    return {
        "sessions_bytes_per_s": sessions,
        "disks_bytes_per_s": disks,
        "cross": cross,
        "random_iops": sum(job["iops"] for job in random) if random else None,
        "random_p99_us": max((job["clat_us"]["99"] for job in random), default=None),
    }


def figures(record: dict[str, Any]) -> dict[str, Any]:
    """What a table wants of a run, without its series."""
    end_s, rtt_s = record["fio"]["runtime_s"], record["scenario"]["net"]["rtt_ms"] / 1000

    def between(names: tuple[str, ...], from_s: float, to_s: float) -> Iterator[list[tuple]]:
        """Of each connection, the named values of the samples between two moments."""
        for series in record["series"]["connections"].values():
            first, last = bisect.bisect_left(series["t_s"], from_s), bisect.bisect_right(series["t_s"], to_s)
            if first < last:
                yield list(zip(*(series[name][first:last] for name in names), strict=True))

    def retransmitted_bytes(from_s: float, to_s: float) -> int:
        return sum(rows[-1][0] - rows[0][0] for rows in between(("bytes_retrans",), from_s, to_s))

    # Of what is sent again TCP knows the round trip in whole milliseconds, rounded down: no path is shorter than it is made.
    changes = list(segments(record["scenario"]["net"], end_s))
    least_us = round(1e6 * min([rtt_s, *(changed_rtt_s for _, _, changed_rtt_s in changes)]))
    settled = list(between(("srtt_us", "min_rtt_us", "bytes_sent"), settles_s(rtt_s), end_s))
    cwnds = list(between(("cwnd_pkts",), end_s / 2, end_s))
    events = record["series"]["events"]
    return {
        **_shares(record),
        **{
            name: record[name]
            for name in (
                "throughput_bytes_per_s",
                "throughput_last_half_bytes_per_s",
                "time_to_90_s",
                "sent_bytes",
                "retransmitted_bytes",
                "retransmitted_pkts",
                "events",
                "wall_s",
            )
        },
        "settled_sent_bytes": sum(rows[-1][2] - rows[0][2] for rows in settled),
        "settled_retransmitted_bytes": retransmitted_bytes(settles_s(rtt_s), end_s),
        "standing_queue_us": max(
            (statistics.median(max(row[0] - max(row[1], least_us), 0) for row in rows) for rows in settled),
            default=None,
        ),
        "cwnd_pkts": max((statistics.median(row[0] for row in rows) for rows in cwnds), default=None),
        "cwnd_spread": max(
            ((max(rows)[0] - min(rows)[0]) / statistics.median(row[0] for row in rows) for rows in cwnds), default=None
        ),
        "threshold_pkts": events[-1]["prior_cwnd_pkts"] if events else None,
        "changes": [
            {
                "from_s": from_s,
                "until_s": until_s,
                "rtt_s": changed_rtt_s,
                "retransmitted_bytes": retransmitted_bytes(from_s, min(from_s + back_by_s(changed_rtt_s), until_s)),
            }
            for from_s, until_s, changed_rtt_s in changes
        ],
        "progress": {name: record["series"]["progress"][name] for name in ("t_s", "read_bytes")} if changes else None,
    }


def _fio(jobs: list[dict], readers: list[dict], direction: str) -> dict[str, Any]:
    figures = [job[direction] for job in jobs]
    runtime_s = max(figure["runtime"] for figure in figures) / 1000
    total_bytes = sum(figure["io_bytes"] for figure in figures)
    return {
        "io_bytes": total_bytes,
        "runtime_s": runtime_s,
        "bytes_per_s": round(total_bytes / runtime_s) if runtime_s else 0,
        "iops": sum(figure["total_ios"] for figure in figures) / runtime_s if runtime_s else 0,
        "errors": sum(job["error"] for job in jobs),
        "jobs": [
            {
                **reader,
                "io_bytes": figure["io_bytes"],
                "iops": figure["iops"],
                "clat_us": {
                    p.rstrip("0").rstrip("."): ns / 1000
                    for p, ns in figure["clat_ns"].get("percentile", {}).items()
                    if p in PERCENTILES
                },
            }
            for reader, figure in zip(readers, figures, strict=True)
        ],
    }


def _connection_series(samples: list[dict], start_us: int) -> dict[str, list]:
    names = {
        "cwnd_pkts": "snd_cwnd_pkts",
        "ssthresh_pkts": "ssthresh_pkts",
        "packets_out_pkts": "packets_out_pkts",
        "lost_pkts": "lost_pkts",
        "srtt_us": "srtt_us",
        "min_rtt_us": "min_rtt_us",
        "delivery_rate_bytes_per_s": "delivery_rate_bytes_per_s",
        "snd_wnd_bytes": "snd_wnd_bytes",
        "bytes_sent": "bytes_sent",
        "bytes_retrans": "bytes_retrans",
        "notsent_bytes": "notsent_bytes",
        "read_outstanding_bytes": "read_outstanding_bytes",
    }
    series: dict[str, list] = {"t_s": [round((s["clock_us"] - start_us) / 1e6, 6) for s in samples]}
    series |= {name: [s[key] for s in samples] for name, key in names.items()}
    series["in_flight_bytes"] = [s["packets_out_pkts"] * s["mss_bytes"] for s in samples]
    return series


def build(plan: dict, guest: dict, images: Images, packages: dict[str, str], wall_s: float) -> dict[str, Any]:
    """The run's record."""
    measured = guest["measured"]
    t_s, start_us, first_read_s = (measured[key] for key in ("t_s", "start_us", "first_read_s"))
    read_bytes = [sum(disks) for disks in measured["read_bytes"]]
    direction = "write" if plan["scenario"]["workload"]["kind"] == "verify" else "read"
    fio = _fio(measured["fio"]["jobs"], measured["readers"], direction)
    end_s = min(fio["runtime_s"], t_s[-1])
    steady = rate_bytes_per_s(t_s, read_bytes, end_s / 2, end_s)
    before, after = ({c["id"]: c for c in guest["connections"][when]} for when in ("before", "after"))

    def grown(key: str) -> int:
        return sum(c[key] - before.get(i, {}).get(key, 0) for i, c in after.items())

    def counted(cause: str) -> int:
        return sum(c[cause]["count"] - before.get(i, {}).get(cause, {"count": 0})["count"] for i, c in after.items())

    samples = [s for s in guest["samples"] if s["kind"] == "sample"]
    events = [s for s in guest["samples"] if s["kind"] == "event"]
    return {
        "format": FORMAT,
        "variant": plan["variant"],
        "engine": images.engine.name,
        "kernel": {"release": guest["kernel"], "package": images.kernel_package},
        "packages": {name: packages[name] for name in ("open-iscsi", "fio", "python3-rtslib-fb", "iproute2")},
        "scenario": plan["scenario"],
        "effective": guest["effective"] | {"nic_qdisc": plan["nic_qdisc"], "iscsid": plan["iscsid"]},
        "throughput_bytes_per_s": fio["bytes_per_s"],
        "throughput_last_half_bytes_per_s": round(steady),
        "first_read_s": first_read_s,
        "time_to_90_s": time_to_90_s(t_s, read_bytes, steady, plan["scenario"]["net"]["rtt_ms"] / 1000, first_read_s),
        "sent_bytes": grown("bytes_sent"),
        "retransmitted_bytes": grown("bytes_retrans"),
        "retransmitted_pkts": guest["mib"].get("TcpRetransSegs", 0),
        "events": {cause: counted(cause) for cause in CAUSES},
        "fio": fio,
        "mib": guest["mib"],
        "qdiscs": guest["qdiscs"],
        "series": {
            "progress": {
                "t_s": t_s,
                "read_bytes": read_bytes,
                "disks_bytes": list(map(list, zip(*measured["read_bytes"], strict=True))),
                "cross_bytes": list(map(list, zip(*measured["flow_bytes"], strict=True))),
            },
            "connections": {
                str(i): _connection_series([s for s in samples if s["id"] == i], start_us)
                for i in sorted({s["id"] for s in samples})
            },
            "events": [{"t_s": round((e["clock_us"] - start_us) / 1e6, 6)} | e for e in events],
            "settings": [{"t_s": round((s["t_us"] - start_us) / 1e6, 6)} | s for s in guest["settings"]],
        },
        "wall_s": round(wall_s, 3),
        **images.engine.circumstances(guest),
    }
