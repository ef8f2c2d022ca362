# SPDX-License-Identifier: GPL-2.0-only
"""A sweep's results as a table: on the terminal, as Markdown, as JSON."""

from collections.abc import Callable
from typing import Any

from rich import box
from rich.table import Table

from cwndlab import oracle

NOTHING = "–"
Row = dict[str, Any]


def _number(name: str, scale: float, digits: int) -> Callable[[Row], str]:
    return lambda row: NOTHING if row[name] is None else f"{row[name] * scale:.{digits}f}"


def _both(one: str, other: str, scale: float, digits: int) -> Callable[[Row], str]:
    texts = [_number(name, scale, digits) for name in (one, other)]
    return lambda row: NOTHING if row[one] is None else "/".join(text(row) for text in texts)


def _rate(variant: str) -> Callable[[Row], str]:
    return _number(f"{variant}_bytes_per_s", 1e-6, 2)


def _static(row: Row) -> str:
    return oracle.brief(row["oracle_static"]) if row["oracle_static"] else NOTHING


def _each_change(text: Callable[[dict[str, Any]], str]) -> Callable[[Row], str]:
    return lambda row: ", ".join(text(change) for change in row["changes"]) or NOTHING


def _resent(change: dict[str, Any]) -> str:
    both = (change["retransmitted_bytes"], change["stock_retransmitted_bytes"])
    return "/".join(NOTHING if resent is None else f"{resent / 1e3:.0f}" for resent in both)


COLUMNS: dict[str, Callable[[Row], str]] = {
    "cell": lambda row: row["cell"],
    "limit": _rate("limit"),
    "stock": _rate("stock"),
    "oracle": _rate("oracle"),
    "bbr": _rate("bbr"),
    "rwnd": _rate("rwnd"),
    "feedback": _rate("feedback"),
    "last half": _rate("last_half"),
    "÷oracle": _number("feedback_to_oracle", 1, 3),
    "÷stock": _number("feedback_to_stock", 1, 2),
    "÷limit": _number("feedback_to_limit", 1, 3),
    "resent %": _number("retransmitted_share", 100, 3),
    "settled %": _number("settled_retransmitted_share", 100, 3),
    "queue ms": _number("standing_queue_s", 1e3, 2),
    "cwnd ±": _number("cwnd_spread", 1, 2),
    "90 % s": _number("time_to_90_s", 1, 2),
    "oracle's": _number("oracle_time_to_90_s", 1, 2),
    "Jain": _number("fairness", 1, 3),
    "timeouts": lambda row: str(row["timeouts"] or NOTHING),
    "÷alone": _number("feedback_to_alone", 1, 3),
    "beside a flow/oracle": _both("beside_flow_bytes_per_s", "oracle_beside_flow_bytes_per_s", 1e-6, 2),
    "the flow/stock": _both("flow_bytes_per_s", "stock_flow_bytes_per_s", 1e-6, 2),
    "IOPS/stock": _both("random_iops", "stock_random_iops", 1, 0),
    "p99 ms/stock": _both("random_p99_us", "stock_random_p99_us", 1e-3, 1),
    "back s": _each_change(lambda change: NOTHING if change["back_s"] is None else f"{change['back_s']:.2f}"),
    "resent then kB/stock": _each_change(_resent),
    "oracle's settings": _static,
    "breaks": lambda row: ", ".join(f"({b})" if b in row["known_breaks"] else b for b in row["breaks"]) or NOTHING,
}
EXPLAINED = (
    "Rates in MB/s over the whole read; last half, ÷, resent (of the bytes sent, in all and settled: 12 RTT + 0.5 s "
    "from the start on), standing queue, cwnd's spread in the last half and time to 90 % are feedback's."
)


def grid(rows: list[Row]) -> list[list[str]]:
    """Header and lines; columns of which no cell has anything are left out."""
    shown = {name: [text(row) for row in rows] for name, text in COLUMNS.items()}
    kept = {name: texts for name, texts in shown.items() if name in ("cell", "breaks") or set(texts) - {NOTHING}}
    return [list(kept), *map(list, zip(*kept.values(), strict=True))]


def remarks(found: dict[str, Any]) -> list[str]:
    """What stands under the table."""
    names = {
        "feedback_to_oracle": "feedback ÷ oracle",
        "feedback_to_oracle_loss_free_100_mbit": "feedback ÷ oracle, loss-free at 100 Mbit/s",
        "feedback_to_stock": "feedback ÷ stock",
        "feedback_to_limit": "feedback ÷ limit",
        "climbed_to_oracle": "oracle's bounded search ÷ exhaustive grid",
    }
    means = [f"{text} {found['means'][name]:.3f}" for name, text in names.items() if found["means"][name] is not None]
    broken = [row["cell"] for row in found["rows"] if row["breaks"]]
    lines = [EXPLAINED, f"Geometric means: {'; '.join(means) or NOTHING}."]
    lines.append(
        f"{len(broken)} of {len(found['rows'])} cells break a floor" + (f": {', '.join(broken)}." if broken else ".")
    )
    known = [(row, name) for row in found["rows"] for name in row["known_breaks"]]
    if known:
        lines[-1] += " In brackets: known to break."
    held = [f"{row['cell']} ({name})" for row, name in known if name not in row["breaks"]]
    if held:
        lines.append(f"Known to break, but held: {', '.join(held)}.")
    if found["mean_broken"]:
        lines.append("The mean of feedback ÷ oracle over the loss-free cells at 100 Mbit/s is below its floor, 1.000.")
    if found["missing"]:
        lines.append(f"{len(found['missing'])} cells are not measured yet: {', '.join(found['missing'])}.")
    return lines


def on_terminal(found: dict[str, Any]) -> Table:
    header, *lines = grid(found["rows"])
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in header:
        table.add_column(
            name, justify="left" if name in ("cell", "oracle's settings", "breaks") else "right", no_wrap=True
        )
    for line in lines:
        table.add_row(*line)
    return table


def as_markdown(found: dict[str, Any]) -> str:
    header, *lines = grid(found["rows"])
    text = [header, ["---"] * len(header), *lines]
    return "\n".join([*("| " + " | ".join(line) + " |" for line in text), "", *remarks(found), ""])
