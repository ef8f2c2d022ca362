# SPDX-License-Identifier: GPL-2.0-only
"""What a finished sweep shows: a row of figures for each cell, and the floors that it breaks.

The floors are named by what they ask for:

    oracle      feedback reads at least 0.97 times as fast as the best static settings
    stock       and as Debian's defaults
    loss        after convergence at most 0.01 % of the bytes are sent again
    queue       after convergence the standing queue is at most a quarter of the RTT, or four packets
    flat        cwnd stays within 10 % of its median in the last half
    soon        90 % of the last half's rate is reached within 12 RTT + 0.5 s
    soon-oracle and at most 4 RTT later than with the best static settings
    fair        Jain's fairness over the disks is at least 0.95 (over the sessions, where some disks are read at random)
    storm       several sessions together send at most 1 % again after convergence, and none waits for a timeout
    win         beside a TCP flow at least 0.8 of what the best static settings get beside it
    flow        and that flow gets at least 0.8 of what it gets beside Debian's defaults
    timeout     no timeout beside a UDP flow
    alone       several LUNs, or one beside idle ones, read together at least 0.97 of what a single one does
    iops        random reads are not fewer than with Debian's defaults
    p99         and beside a sequential read their 99th percentile is shorter
    back@S      after the path changed at S seconds, 95 % of the new path's best static settings within 30 RTT + 1 s
    drop@S      until then at most as many bytes are sent again as with Debian's defaults, if the path became slower

`loss`, `queue` and `flat` bind where nothing is lost at random. Where the path changes, or is shared with other flows,
`soon` does not either, and in the latter case `win` is in place of `oracle`.
"""

import math
from collections.abc import Container
from typing import Any

from cwndlab.paths import LabError
from cwndlab.result import back_by_s, jain, settles_s, time_back_s
from cwndlab.scenario import PACKET_BYTES, Scenario

NAMES = "oracle stock loss queue flat soon soon-oracle fair storm win flow timeout alone iops p99".split()
CHANGE_NAMES = ("back", "drop")
SHARE = 0.97
LOST_SHARE = 1e-4
QUEUE_RTT, QUEUE_PKTS = 0.25, 4
CWND_SPREAD = 0.1
SOONER_RTT = 4
FAIR = 0.95
# What sessions that fill a queue together may lose. CUBIC needs some 0.1 % to find a share of a few dozen packets (RFC
# 9438, section 5.1); ten times that is no search for it any more.
STORM_SHARE = 0.01
BESIDE_SHARE = 0.8
GENTLE_MBIT, GENTLE_MEAN = 100, 1.0


def names(scenario: Scenario) -> list[str]:
    """The floors that there are where the path changes like that."""
    return [*NAMES, *(_after(name, change.at_s) for change in scenario.net.changes for name in CHANGE_NAMES)]


def _after(name: str, at_s: float) -> str:
    """What the floor is called of the change at that time."""
    return f"{name}@{at_s:g}s"


def row(cell: dict[str, Any], runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A cell's figures; what was not measured is None."""
    net, work = cell["scenario"]["net"], cell["scenario"]["workload"]
    found = {variant: runs[key] for variant, key in cell["runs"].items()}
    feedback = found.get("feedback", {})

    def rate(variant: str) -> float | None:
        return found[variant]["throughput_bytes_per_s"] if variant in found else None

    def ratio(one: float | None, other: float | None) -> float | None:
        return one / other if one is not None and other else None

    figures = {
        "cell": cell["cell"],
        "limit_bytes_per_s": cell["limit_bytes_per_s"],
        **{f"{variant}_bytes_per_s": rate(variant) for variant in ("stock", "oracle", "bbr", "rwnd", "feedback")},
        "oracle_static": found["oracle"]["static"] if "oracle" in found else None,
        "oracle_tried": cell.get("tried", 0),
        "climbed_to_oracle": ratio(rate("climbed"), rate("oracle")),
        "feedback_to_oracle": ratio(rate("feedback"), rate("oracle")),
        "feedback_to_stock": ratio(rate("feedback"), rate("stock")),
        "feedback_to_limit": ratio(rate("feedback"), cell["limit_bytes_per_s"]),
        "last_half_bytes_per_s": feedback.get("throughput_last_half_bytes_per_s"),
        "retransmitted_share": ratio(feedback.get("retransmitted_bytes"), feedback.get("sent_bytes")),
        "settled_retransmitted_share": ratio(
            feedback.get("settled_retransmitted_bytes"), feedback.get("settled_sent_bytes")
        ),
        "standing_queue_s": ratio(feedback.get("standing_queue_us"), 1e6),
        "cwnd_spread": feedback.get("cwnd_spread"),
        "cwnd_pkts": feedback.get("cwnd_pkts"),
        "bdp_pkts": net["rate_mbit"] * 1e6 / 8 * net["rtt_ms"] / 1e3 / PACKET_BYTES,
        "threshold_pkts": feedback.get("threshold_pkts"),
        "time_to_90_s": feedback.get("time_to_90_s"),
        "oracle_time_to_90_s": found.get("oracle", {}).get("time_to_90_s"),
        "feedback_to_alone": ratio(rate("feedback"), rate("alone")),
        "timeouts": feedback["events"]["loss"] if feedback else None,
        **_shares(cell, found),
    }
    loss_free = not net["loss_pct"] and not net["changes"] and not net["cross"] and work["sessions"] == 1
    figures["changes"] = _changes(cell, feedback, found.get("stock")) if feedback else []
    figures["loss_free_gentle"] = loss_free and net["rate_mbit"] == GENTLE_MBIT
    figures["breaks"] = _broken(figures, cell["scenario"], loss_free) if feedback else []
    return figures


def _shares(cell: dict[str, Any], found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """How feedback shares: among its own, with a TCP flow without a rate of its own, and with random reads."""
    work, cross = cell["scenario"]["workload"], cell["scenario"]["net"]["cross"]
    feedback, stock, best = (found.get(variant, {}) for variant in ("feedback", "stock", "oracle"))
    shares = feedback.get("sessions_bytes_per_s" if work["random_luns"] else "disks_bytes_per_s", [])
    greedy = next((n for n, flow in enumerate(cross) if flow["proto"] == "tcp" and not flow["rate_mbit"]), None)

    def beside(run: dict[str, Any], of: str) -> float | None:
        return run["cross"][greedy][of] if run and greedy is not None else None

    return {
        "fairness": jain(shares) if len(shares) > 1 else None,
        "beside_flow_bytes_per_s": beside(feedback, "read_bytes_per_s"),
        "oracle_beside_flow_bytes_per_s": beside(best, "read_bytes_per_s"),
        "flow_bytes_per_s": beside(feedback, "bytes_per_s"),
        "stock_flow_bytes_per_s": beside(stock, "bytes_per_s"),
        **{name: feedback.get(name) for name in ("random_iops", "random_p99_us")},
        **{f"stock_{name}": stock.get(name) for name in ("random_iops", "random_p99_us")},
    }


def _changes(cell: dict[str, Any], feedback: dict[str, Any], stock: dict[str, Any] | None) -> list[dict[str, Any]]:
    """What became of feedback after each change of the path."""
    net = cell["scenario"]["net"]
    rates_mbit = [net["rate_mbit"]]
    found = []
    for n, (change, against) in enumerate(zip(net["changes"], cell["changes"], strict=True)):
        rates_mbit.append(change["rate_mbit"] or rates_mbit[-1])
        back_s = time_back_s(feedback, n, against["steady_bytes_per_s"])
        resent, stock_resent = (run and run["changes"][n]["retransmitted_bytes"] for run in (feedback, stock))
        floors = {
            "back": back_s is None or back_s > back_by_s(feedback["changes"][n]["rtt_s"]),
            "drop": rates_mbit[-1] < rates_mbit[-2] and stock is not None and resent > stock_resent,
        }
        found.append(
            {
                "at_s": change["at_s"],
                **against,
                "back_s": back_s,
                "retransmitted_bytes": resent,
                "stock_retransmitted_bytes": stock_resent,
                "breaks": [_after(name, change["at_s"]) for name, broken in floors.items() if broken],
            }
        )
    return found


def _broken(figures: dict[str, Any], scenario: dict[str, Any], loss_free: bool) -> list[str]:
    net, work = scenario["net"], scenario["workload"]
    rtt_s, sample_s = net["rtt_ms"] / 1000, scenario["sample_ms"] / 1000
    queue_s = max(QUEUE_RTT * rtt_s, QUEUE_PKTS * PACKET_BYTES * 8 / (net["rate_mbit"] * 1e6))
    steady, shared = not net["changes"] and not net["cross"], bool(net["cross"])

    def below(value: float | None, least: float) -> bool:
        return value is not None and value < least

    def above(value: float | None, most: float) -> bool:
        return value is None or value > most

    def less(name: str, share: float, than: str) -> bool:
        return None not in (figures[name], figures[than]) and figures[name] < share * figures[than]

    never = math.inf
    oracle_s = figures["oracle_time_to_90_s"]
    too_late_s = never if oracle_s is None else oracle_s + SOONER_RTT * rtt_s + sample_s
    floors = {
        "oracle": not shared and below(figures["feedback_to_oracle"], SHARE),
        "stock": below(figures["feedback_to_stock"], SHARE),
        "loss": loss_free and above(figures["settled_retransmitted_share"], LOST_SHARE),
        "queue": loss_free and above(figures["standing_queue_s"], queue_s),
        "flat": loss_free and above(figures["cwnd_spread"], CWND_SPREAD),
        "soon": steady and above(figures["time_to_90_s"], settles_s(rtt_s)),
        "soon-oracle": steady and above(figures["time_to_90_s"], too_late_s),
        "fair": below(figures["fairness"], FAIR),
        "storm": work["sessions"] > 1
        and (above(figures["settled_retransmitted_share"], STORM_SHARE) or figures["timeouts"] > 0),
        "win": less("beside_flow_bytes_per_s", BESIDE_SHARE, "oracle_beside_flow_bytes_per_s"),
        "flow": less("flow_bytes_per_s", BESIDE_SHARE, "stock_flow_bytes_per_s"),
        "timeout": any(flow["proto"] == "udp" for flow in net["cross"]) and figures["timeouts"] > 0,
        "alone": below(figures["feedback_to_alone"], SHARE),
        "iops": less("random_iops", 1, "stock_random_iops"),
        "p99": 0 < work["random_luns"] < work["luns"] and not less("random_p99_us", 1, "stock_random_p99_us"),
    }
    after_changes = [name for change in figures["changes"] for name in change["breaks"]]
    return [name for name, broken in floors.items() if broken] + after_changes


def mean(ratios: list[float]) -> float | None:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def look(lines: list[dict[str, Any]], where: str) -> dict[str, Any]:
    """The rows of the last sweep of a results file, what is missing, and the means."""
    runs = {line["key"]: line for line in lines if line["kind"] == "run"}
    cells = {line["cell"]: line for line in lines if line["kind"] == "cell"}
    sweeps = [line for line in lines if line["kind"] == "sweep"]
    if not sweeps:
        raise LabError(f"{where}: no sweep has been started there")
    wanted = sweeps[-1]["cells"]
    known = sweeps[-1].get("known_breaks", {})
    measured = {name for name, keys in wanted.items() if name in cells and keys.items() <= cells[name]["runs"].items()}
    rows = [row(cells[name], runs) | {"known_breaks": known.get(name, [])} for name in wanted if name in measured]

    def of(name: str, chosen: list[dict[str, Any]]) -> float | None:
        return mean([r[name] for r in chosen if r[name]])

    gentle = of("feedback_to_oracle", [r for r in rows if r["loss_free_gentle"]])
    return {
        "rows": rows,
        "missing": [name for name in wanted if name not in measured],
        "means": {
            "feedback_to_oracle": of("feedback_to_oracle", rows),
            "feedback_to_oracle_loss_free_100_mbit": gentle,
            "feedback_to_stock": of("feedback_to_stock", rows),
            "feedback_to_limit": of("feedback_to_limit", rows),
            "climbed_to_oracle": of("climbed_to_oracle", rows),
        },
        "mean_broken": gentle is not None and gentle < GENTLE_MEAN,
    }


def holds(found: dict[str, Any], cells: Container[str]) -> bool:
    """Whether these cells break only what is known, of what `look` has found; and the mean holds if none is missing."""
    mean_holds = bool(found["missing"]) or not found["mean_broken"]
    rows = [row for row in found["rows"] if row["cell"] in cells]
    return mean_holds and all(set(row["breaks"]) <= set(row["known_breaks"]) for row in rows)
