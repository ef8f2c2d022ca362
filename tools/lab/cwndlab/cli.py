# SPDX-License-Identifier: GPL-2.0-only
"""The command line."""

import json
import signal
import sys
import tomllib
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from cwndlab import boot, conformance, engine, floors, images, oracle, overhead, runs, stress, sweep
from cwndlab import demo as demonstration
from cwndlab import table as tables
from cwndlab.paths import SCENARIOS, TESTS, LabError
from cwndlab.qemu import SLOWEST, Qemu
from cwndlab.result import FORMAT
from cwndlab.scenario import load
from cwndlab.variant import VARIANTS, plan

SETTING = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a scenario key.")
JOBS = click.option("--jobs", type=click.IntRange(1, 256), help="Runs at once (default: what the CPUs allow).")
WIDEST = 1000  # a sweep's table is as wide as it is, on any terminal
ENGINE = click.option(
    "--engine", "engine_name", type=click.Choice(["uml", "qemu"]), default="uml", show_default=True, help="What boots."
)
ONE_MACHINE = click.option("--one-machine", is_flag=True, help="engine qemu: all on one machine, in virtual time.")
SLOW_MOTION = click.option(
    "--slow-motion",
    type=click.IntRange(1, SLOWEST),
    default=1,
    help="engine qemu, two machines: how many seconds one of theirs takes.",
)
# The tests that boot labs, and their pytest marker.
BOOTED = {"e2e": "guest", "qemu": "qemu"}
UNPATCHED = click.option("--unpatched", is_flag=True, help="Boot Debian's kernel without the series.")


def report(text: str) -> None:
    runs.console.print(text)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Real kernels, emulated networks: one scenario, one boot, one JSON record."""


@cli.command(name="list")
def list_scenarios() -> None:
    """List the scenarios."""
    for path in sorted(SCENARIOS.glob("*.toml")):
        click.echo(f"{path.stem:28}{tomllib.loads(path.read_text()).get('description', '')}")


@cli.command()
@ENGINE
@UNPATCHED
def build(engine_name: str, unpatched: bool) -> None:
    """Make the kernel, the guest's root and the tools."""
    made = images.build(report, engine.choose(engine_name), patched=not unpatched)
    for name in ("kernel", "root", "tools"):
        click.echo(f"{name:8}{getattr(made, name)}")


@cli.command()
@click.argument("scenario")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    type=click.Choice([*VARIANTS, "oracle"]),
    default=["stock"],
    show_default=True,
)
@SETTING
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the results here.")
@click.option("--keep", is_flag=True, help="Keep the run directories under the temporary directory.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1), help="Wall seconds a run may take.")
@JOBS
@ENGINE
@ONE_MACHINE
@SLOW_MOTION
@UNPATCHED
def run(
    scenario: str,
    variants: tuple[str, ...],
    settings: tuple[str, ...],
    json_path: Path | None,
    keep: bool,
    timeout_s: float | None,
    jobs: int | None,
    engine_name: str,
    one_machine: bool,
    slow_motion: int,
    unpatched: bool,
) -> None:
    """Run SCENARIO, a name under configs/scenarios/ or a path, once for each variant."""
    checked = load(scenario, settings)
    made = images.build(report, engine.choose(engine_name, one_machine, slow_motion), patched=not unpatched)
    name = Path(scenario).stem
    todo = [runs.Job(name, checked, variant) for variant in variants if variant != "oracle"]
    results = runs.run_all(made, todo, at_once=jobs, timeout_s=timeout_s, keep=keep)
    if "oracle" in variants:
        best, table = demonstration.full_oracle(made, name, checked, jobs)
        results.append(best | {"variant": "oracle", "tried": table})
        runs.output.print(f"best of {len(table)} tried:\n{oracle.as_toml(best['scenario']['static'])}")
    if json_path:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(results[0] if len(results) == 1 else results, indent=1) + "\n")
    runs.output.print(summary(results))


@cli.command(name="overhead")
@click.option("--rounds", type=click.IntRange(1), default=10, show_default=True)
@click.option("--connections", type=click.IntRange(1, 10_000), help="Instead of reading, log in so many times.")
@ENGINE
@ONE_MACHINE
def measure_overhead(rounds: int, connections: int | None, engine_name: str, one_machine: bool) -> None:
    """What the patches cost a read: throughput where the CPU is the limit, against the unpatched kernel; or what many
    connections cost.

    With --engine qemu --one-machine also in instructions; otherwise in wall time, which wants an idle machine.

    \b
    Examples:
      cwndlab overhead
      cwndlab overhead --engine qemu --one-machine --rounds 2
      cwndlab overhead --connections 1000
    """
    chosen = engine.choose(engine_name, one_machine)
    kernels = (images.build(report, chosen, patched=False), images.build(report, chosen))
    if connections:
        overhead.connections(*kernels, connections)
    else:
        overhead.run(*kernels, rounds)


@cli.command(name="conformance")
@click.option("--tests", default=conformance.ALL, show_default=True, metavar="PATTERN", help="Tests whose names match.")
@ENGINE
@ONE_MACHINE
def compare_conformance(tests: str, engine_name: str, one_machine: bool) -> None:
    """Run libiscsi's conformance tests on both kernels; exit 1 if a verdict differs.

    \b
    Examples:
      cwndlab conformance
      cwndlab conformance --tests 'SCSI.Read1*'
    """
    chosen = engine.choose(engine_name, one_machine)
    kernels = (images.build(report, chosen, patched=patched) for patched in (False, True))
    sys.exit(bool(conformance.run(*kernels, tests)))


@cli.command(name="stress")
@click.option("--quick", is_flag=True, help="Less of everything: 5 minutes.")
@click.option("--part", "parts", multiple=True, type=click.Choice(list(stress.PARTS)), help="Only this one.")
@click.option("--engine", "engine_name", type=click.Choice(["uml", "qemu"]), default="qemu", show_default=True)
@click.option("--keep", is_flag=True, help="Keep the run directory under the temporary directory.")
def run_stress(quick: bool, parts: tuple[str, ...], engine_name: str, keep: bool) -> None:
    """Whatever may happen to a target happens, on a kernel full of checks with two processors (QEMU).

    User-Mode Linux has not these checks, but is many times faster.

    \b
    Examples:
      cwndlab stress --quick
      cwndlab stress --part kills --part faults
      cwndlab stress --part fuzzing --engine uml
    """
    machine = Qemu(one_machine=False, debug=True) if engine_name == "qemu" else engine.choose("uml")
    stress.run(images.build(report, machine), parts or stress.default_parts(engine_name), quick=quick, keep=keep)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("kind", type=click.Choice(["unit", *BOOTED]))
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def test(kind: str, pytest_arguments: tuple[str, ...]) -> None:
    """Run the lab's own tests (unit), the real parts in booted labs (e2e), or one cell on all engines (qemu)."""
    import pytest  # takes a while to import

    marker = BOOTED.get(kind) or " and ".join(f"not {booted}" for booted in BOOTED.values())
    sys.exit(pytest.main(["-p", "no:cacheprovider", "-q", "-m", marker, str(TESTS), *pytest_arguments]))


@cli.command()
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="PNG, SVG or PDF.")
def plot(results: tuple[Path, ...], output: Path) -> None:
    """Draw stored RESULTS, all of one scenario, into one picture."""
    from cwndlab.plot import picture  # takes a second to import

    found = []
    for path in results:
        stored = json.loads(path.read_text())
        found += stored if isinstance(stored, list) else [stored]
    for record in found:
        if record.get("format") != FORMAT:
            raise LabError(f"{results[0]}: format is {record.get('format')!r}, not {FORMAT!r}")
    picture(found, output)


@cli.command()
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default="out/demo", show_default=True)
@click.option("--full-oracle", "search", is_flag=True, help="Search the best static settings again (half an hour).")
@JOBS
@ENGINE
@ONE_MACHINE
@SLOW_MOTION
def demo(output: Path, search: bool, jobs: int | None, engine_name: str, one_machine: bool, slow_motion: int) -> None:
    """Compare stock, static and feedback; ends with a table."""
    made = images.build(report, engine.choose(engine_name, one_machine, slow_motion))
    demonstration.run(made, output, at_once=jobs, search=search)


@cli.command(name="sweep")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The results, JSON lines that are added to.  [default: out/sweep/<name of FILE>.jsonl]",
)
@click.option("--only", default="*", show_default=True, metavar="PATTERN", help="Cells whose names match.")
@click.option("--list", "list_only", is_flag=True, help="Print the cells' names and start nothing.")
@click.option("--check", is_flag=True, help="Exit 1 if a measured cell breaks a floor that it is not known to.")
@JOBS
def run_sweep(file: Path, output: Path | None, only: str, list_only: bool, check: bool, jobs: int | None) -> None:
    """Measure the cells of FILE, a matrix of scenarios and variants; again: only what is missing.

    \b
    Examples:
      cwndlab sweep configs/sweeps/matrix-small.toml --check
      cwndlab sweep configs/sweeps/matrix.toml --only 'buffered-*-100mbit-*' --jobs 1
    """
    cells = sweep.load(file)
    chosen = sweep.choose(cells, only)
    if list_only:
        for cell in chosen:
            click.echo(cell.name)
        return
    output = output or Path("out/sweep") / f"{file.stem}.jsonl"
    failed = sweep.run(images.build(report, engine.choose("uml")), file, cells, chosen, output, jobs)
    found = floors.look(sweep.read(output), str(output))
    show_table(found)
    if failed:
        raise LabError(f"{len(failed)} of {len(chosen)} cells failed; the last: {failed[-1]}")
    if check and not floors.holds(found, {cell.name for cell in chosen}):
        sys.exit(1)


@cli.command(name="table")
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--markdown", type=click.Path(dir_okay=False, path_type=Path), help="Write the table here as well.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the rows here.")
@click.option("--check", is_flag=True, help="Exit 1 if a cell is missing, or breaks a floor that it is not known to.")
def print_sweep(results: Path, markdown: Path | None, json_path: Path | None, check: bool) -> None:
    """Print the table of a sweep's RESULTS.

    \b
    Example:
      cwndlab table out/sweep/matrix.jsonl --markdown matrix.md --check
    """
    found = floors.look(sweep.read(results), str(results))
    if markdown:
        markdown.write_text(tables.as_markdown(found))
    if json_path:
        json_path.write_text(json.dumps(found, indent=1) + "\n")
    show_table(found)
    if check and (found["missing"] or not floors.holds(found, {row["cell"] for row in found["rows"]})):
        sys.exit(1)


def show_table(found: dict) -> None:
    Console(width=WIDEST, highlight=False).print(tables.on_terminal(found), crop=False)
    for line in tables.remarks(found):
        runs.output.print(line, soft_wrap=True)


def summary(results: list[dict]) -> Table:
    """The figures of a few runs, side by side."""
    table = Table("variant", "MB/s", "last half", "90 % after", "retransmitted", "events", "wall")
    for found in results:
        soon = found["time_to_90_s"]
        sent = found["sent_bytes"]
        share = f" ({100 * found['retransmitted_bytes'] / sent:.2f} %)" if sent else ""
        events = ", ".join(f"{n} {cause}" for cause, n in found["events"].items() if n)
        table.add_row(
            found["variant"],
            f"{found['throughput_bytes_per_s'] / 1e6:.2f}",
            f"{found['throughput_last_half_bytes_per_s'] / 1e6:.2f}",
            "never" if soon is None else f"{soon:.1f} s",
            f"{found['retransmitted_pkts']} pkts{share}",
            events or "none",
            f"{found['wall_s']:.0f} s",
        )
    return table


@cli.command()
@click.argument("scenario")
@click.option("--variant", type=click.Choice(VARIANTS), default="feedback", show_default=True)
@SETTING
@ENGINE
@ONE_MACHINE
@SLOW_MOTION
@UNPATCHED
def shell(
    scenario: str,
    variant: str,
    settings: tuple[str, ...],
    engine_name: str,
    one_machine: bool,
    slow_motion: int,
    unpatched: bool,
) -> None:
    """A shell in the booted lab, in real time."""
    checked = load(scenario, settings)
    if not sys.stdin.isatty():
        raise LabError("shell: standard input is not a terminal")
    made = images.build(report, engine.choose(engine_name, one_machine, slow_motion), patched=not unpatched)
    sys.exit(boot.shell(made, plan(checked, variant, patched=not unpatched, shell=True)))


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # guests are ended, as on Ctrl-C
    try:
        cli(standalone_mode=False)
    except LabError as error:
        report(f"cwndlab: {error}")
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
