# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of stored results: throughput, congestion window and bytes in flight over time."""

from pathlib import Path

from matplotlib.figure import Figure

from cwndlab.result import rate_bytes_per_s

WINDOW_S = 0.5
COLOURS = {
    "stock": "tab:gray",
    "static": "tab:blue",
    "bbr": "tab:purple",
    "rwnd": "tab:brown",
    "feedback": "tab:red",
    "oracle": "tab:green",
}


def picture(results: list[dict], path: Path) -> None:
    """Draw the runs of one scenario into a file."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    speed, window, flight = figure.subplots(3, 1, sharex=True)
    net = results[0]["scenario"]["net"]
    for found in results:
        colour, label = COLOURS[found["variant"]], found["variant"]
        progress = found["series"]["progress"]
        t_s, read_bytes = progress["t_s"], progress["read_bytes"]
        ticks = [t for t in t_s if t >= WINDOW_S]
        rates = [rate_bytes_per_s(t_s, read_bytes, t - WINDOW_S, t) / 1e6 for t in ticks]
        speed.plot(ticks, rates, color=colour, label=label)
        for series in found["series"]["connections"].values():
            window.plot(series["t_s"], series["cwnd_pkts"], color=colour, label=label, linewidth=1)
            flight.plot(series["t_s"], [n / 1e6 for n in series["in_flight_bytes"]], color=colour, linewidth=1)
    bdp_bytes = net["rate_mbit"] * 1e6 / 8 * net["rtt_ms"] / 1e3
    speed.axhline(net["rate_mbit"] / 8, color="black", linestyle=":", linewidth=1)
    flight.axhline(bdp_bytes / 1e6, color="black", linestyle=":", linewidth=1)
    flight.axhline((bdp_bytes + net["queue_bytes"]) / 1e6, color="black", linestyle="--", linewidth=1)
    speed.set(title=results[0]["scenario"]["description"], ylabel="read, MB/s (dotted: the link)")
    window.set(ylabel="cwnd, packets", yscale="log")
    flight.set(ylabel="in flight, MB (BDP; with queue)", xlabel="virtual seconds")
    speed.set_ylim(bottom=0)
    speed.legend()
    figure.savefig(path, dpi=110)
