# SPDX-License-Identifier: GPL-2.0-only
"""The scenario: what a TOML file may say, checked before anything starts."""

import itertools
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cwndlab.paths import CONFIGS, SCENARIOS, LabError

PACKET_BYTES = 1514
GUEST_CACHE_MAX_BYTES = 12_000_000_000  # what a buffered read leaves in the guest's memory
PAYLOAD_BYTES = 1448  # of a packet: Ethernet, IP and TCP headers with timestamps take the rest
MOST_DISKS = 128
SCSI_DEBUG_MB = 8
GUEST_DISK_MAX_MB = 512  # of memory: what a backstore that keeps its data may take

RateMbit = Annotated[float, Field(gt=0, le=100_000)]
RttMs = Annotated[float, Field(ge=0, le=10_000)]
LossPct = Annotated[float, Field(ge=0, le=100)]
SlotMs = Annotated[float, Field(ge=0, le=1_000)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]
Model = TypeVar("Model", bound=BaseModel)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Change(Section):
    """The path changes while reading."""

    at_s: Seconds
    rate_mbit: RateMbit | None = None
    rtt_ms: RttMs | None = None
    loss_pct: LossPct | None = None


class Flow(Section):
    """A competing flow through the bottleneck."""

    proto: Literal["tcp", "udp"]
    rate_mbit: RateMbit | None = None
    from_s: Seconds = 0
    to_s: Seconds

    @model_validator(mode="after")
    def _possible(self) -> "Flow":
        if self.to_s <= self.from_s:
            raise ValueError("to_s must be later than from_s")
        if self.proto == "udp" and self.rate_mbit is None:
            raise ValueError("a udp flow needs rate_mbit")
        return self


class Net(Section):
    rate_mbit: RateMbit
    rtt_ms: RttMs
    queue_bdp: Annotated[float, Field(gt=0, le=1000)] | None = None
    queue_kb: Annotated[float, Field(gt=0, le=10_000_000)] | None = None
    queue_min_pkts: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    loss_pct: LossPct = 0
    ack_slot_ms: SlotMs = 0
    data_slot_ms: SlotMs = 0
    access_mbit: RateMbit | None = None
    aqm: Literal["pfifo", "fq_codel"] = "pfifo"
    ecn: bool = False
    seed: Annotated[int, Field(ge=1, lt=2**63)] = 1
    changes: tuple[Change, ...] = ()
    cross: tuple[Flow, ...] = ()

    @field_validator("changes")
    @classmethod
    def _in_order(cls, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        changes = tuple(sorted(changes, key=lambda change: change.at_s))
        for one, next_one in itertools.pairwise(changes):
            if one.at_s == next_one.at_s:
                raise ValueError(f"two changes at_s = {one.at_s:g}; give them as one")
        return changes

    def after(self, n: int) -> "Net":
        """A path that is from the beginning as the first n changes leave this one."""
        given = [item for change in self.changes[:n] for item in change]
        new = {key: value for key, value in given if key != "at_s" and value is not None}
        kept = {"queue_bdp": None, "queue_kb": self.queue_bytes / 1024, "access_mbit": self.card_mbit, "changes": ()}
        return self.model_copy(update=kept | new)

    @property
    def highest_mbit(self) -> float:
        """The rate of the bottleneck when it is fastest."""
        return max([self.rate_mbit, *(change.rate_mbit or 0 for change in self.changes)])

    @property
    def card_mbit(self) -> float:
        return self.access_mbit or 10 * self.highest_mbit

    @property
    def bdp_bytes(self) -> float:
        return self.rate_mbit * 1e6 / 8 * self.rtt_ms / 1e3

    @property
    def queue_bytes(self) -> int:
        asked = self.queue_kb * 1024 if self.queue_kb is not None else self.queue_bdp * self.bdp_bytes
        return max(round(asked), self.queue_min_pkts * PACKET_BYTES)

    @model_validator(mode="after")
    def _possible(self) -> "Net":
        if (self.queue_bdp is None) == (self.queue_kb is None):
            raise ValueError("give one of queue_bdp and queue_kb")
        if self.queue_bytes < 2 * PACKET_BYTES:
            raise ValueError(
                f"the queue holds {self.queue_bytes} bytes; "
                f"queue_bdp or queue_kb must allow two packets, {2 * PACKET_BYTES}"
            )
        if self.card_mbit < self.highest_mbit:
            raise ValueError(f"access_mbit must not be below rate_mbit, {self.highest_mbit:g} when it is highest")
        return self


class Workload(Section):
    kind: Literal["buffered", "direct", "random", "verify"] = "buffered"
    bs_kb: Annotated[int, Field(ge=4, le=65_536, multiple_of=4)] = 128
    iodepth: Annotated[int, Field(ge=1, le=1024)] = 1
    runtime_s: Annotated[float, Field(gt=0, le=3600)] = 20
    size_mb: Annotated[int, Field(ge=1, le=1 << 24)] = 65_536
    sessions: Annotated[int, Field(ge=1, le=16)] = 1
    stagger_s: Seconds = 0
    multipath: bool = False
    luns: Annotated[int, Field(ge=1, le=64)] = 1
    idle_luns: Annotated[int, Field(ge=0, le=64)] = 0
    random_luns: Annotated[int, Field(ge=0, le=64)] = 0
    random_iodepth: Annotated[int, Field(ge=1, le=1024)] = 32

    @property
    def disks(self) -> int:
        """How many are read, each path to one counted."""
        return self.sessions * self.luns

    @property
    def devices(self) -> int:
        """How many are read, by their readers' count."""
        return self.luns if self.multipath else self.disks

    @property
    def last_starts_s(self) -> float:
        """When the last session begins to read."""
        return (self.sessions - 1) * self.stagger_s

    @model_validator(mode="after")
    def _possible(self) -> "Workload":
        if self.random_luns > (self.luns if self.kind in ("buffered", "direct") else 0):
            raise ValueError(f"random_luns must be at most luns, {self.luns}, and 0 but for kind buffered and direct")
        if self.sessions * (self.luns + self.idle_luns) > MOST_DISKS:
            raise ValueError(f"sessions × (luns + idle_luns) must be at most {MOST_DISKS}")
        if self.multipath and (self.sessions == 1 or self.stagger_s):
            raise ValueError("multipath needs sessions of 2 or more, and no stagger_s")
        if self.last_starts_s >= self.runtime_s:
            raise ValueError(f"(sessions - 1) × stagger_s must be below runtime_s, {self.runtime_s:g}")
        if self.size_mb * 1024 < self.bs_kb:
            raise ValueError(f"size_mb must hold one block, bs_kb = {self.bs_kb}")
        return self


class Target(Section):
    config: str = "lio.json"
    backstore: Literal["nullio", "ramdisk", "fileio", "iblock", "pscsi", "user"] = "nullio"
    latency_ms: Annotated[float, Field(ge=0, le=10_000)] = 0
    cc: Literal["cubic", "reno", "bbr", "vegas", "dctcp"] | None = None
    tpg_attributes: dict[str, int] = {}

    @field_validator("config")
    @classmethod
    def _there(cls, config: str) -> str:
        if config not in (known := sorted(path.name for path in CONFIGS.glob("target/*.json"))):
            raise ValueError(f"no such file under configs/target, {config!r}; there are: {', '.join(known)}")
        return config


class Initiator(Section):
    window_kb: Annotated[int, Field(ge=0, le=1 << 20)] | None = None


class Static(Section):
    request_kb: Annotated[int, Field(ge=4, le=32_767)] | None = None
    queue_depth: Annotated[int, Field(ge=1, le=128)] | None = None
    read_ahead_kb: Annotated[int, Field(ge=0, le=1 << 20)] | None = None
    window_kb: Annotated[int, Field(ge=0, le=1 << 20)] | None = None
    pacing: bool | None = None


class Daemon(Section):
    strategy: Literal["notify", "linear", "binary"] | None = None


class Scenario(Section):
    description: str = ""
    sample_ms: Annotated[int, Field(ge=10, le=10_000)] = 50
    net: Net
    workload: Workload = Workload()
    target: Target = Target()
    initiator: Initiator = Initiator()
    daemon: Daemon = Daemon()
    static: Static = Static()

    @model_validator(mode="after")
    def _possible(self) -> "Scenario":
        if self.target.latency_ms and self.target.backstore != "nullio":
            raise ValueError(f"target.latency_ms needs target.backstore nullio, not {self.target.backstore}")
        work = self.workload
        for n, change in enumerate(self.net.changes):
            if change.at_s >= work.runtime_s:
                raise ValueError(f"net.changes.{n}.at_s must be before workload.runtime_s, {work.runtime_s:g}")
        for n, flow in enumerate(self.net.cross):
            if flow.from_s >= work.runtime_s:
                raise ValueError(f"net.cross.{n}.from_s must be before workload.runtime_s, {work.runtime_s:g}")
        if self.cached_bytes > GUEST_CACHE_MAX_BYTES:
            raise ValueError(
                f"workload.runtime_s × net.rate_mbit is {self.cached_bytes / 1e9:.1f} GB; a buffered read must be at "
                f"most {GUEST_CACHE_MAX_BYTES / 1e9:g} GB (the guest's page cache)"
            )
        if self.target.backstore == "nullio":
            if work.kind == "verify":
                raise ValueError("workload.kind verify needs another target.backstore (nullio keeps nothing)")
        elif work.size_mb * work.sessions * (work.luns + work.idle_luns) > GUEST_DISK_MAX_MB:
            raise ValueError(
                f"workload.size_mb × workload.luns × workload.sessions must be at most {GUEST_DISK_MAX_MB} with "
                f"target.backstore {self.target.backstore} (it is the guest's memory)"
            )
        count = work.sessions * (work.luns + work.idle_luns)
        if self.target.backstore == "pscsi" and (count, work.size_mb) != (1, SCSI_DEBUG_MB):
            raise ValueError(f"target.backstore pscsi is one disk of workload.size_mb = {SCSI_DEBUG_MB} (scsi_debug)")
        return self

    @property
    def mean_mbit(self) -> float:
        """The link's rate over the whole read, its changes counted in."""
        end_s, from_s, rate_mbit, total_mbit = self.workload.runtime_s, 0.0, self.net.rate_mbit, 0.0
        for change in self.net.changes:
            if change.rate_mbit is not None:
                total_mbit += rate_mbit * (change.at_s - from_s)
                from_s, rate_mbit = change.at_s, change.rate_mbit
        return (total_mbit + rate_mbit * (end_s - from_s)) / end_s

    @property
    def limit_bytes_per_s(self) -> float:
        """The most a reader can get over the whole read: the link's rate less headers."""
        return self.mean_mbit * 1e6 / 8 * PAYLOAD_BYTES / PACKET_BYTES

    @property
    def cached_bytes(self) -> float:
        """At most this much is in the guest's page cache at the end: else a reader would wait for memory."""
        buffered = self.workload.kind == "buffered"
        return self.mean_mbit * 1e6 / 8 * self.workload.runtime_s if buffered else 0

    def after(self, n: int) -> "Scenario":
        """The same read on a path that is from the beginning as the first n changes leave this one."""
        return self.model_copy(update={"net": self.net.after(n)})

    def resolved(self) -> dict[str, Any]:
        """Every key with the value in force, defaults filled in."""
        values = self.model_dump(mode="json")
        values["net"]["queue_bytes"] = self.net.queue_bytes
        values["net"]["access_mbit"] = self.net.card_mbit
        return values


def path_of(name: str) -> Path:
    """The scenario's file, by name or path."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.exists():
            raise LabError(f"{name}: no such file")
        return path
    path = SCENARIOS / f"{name}.toml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in SCENARIOS.glob("*.toml")))
        raise LabError(f"{name}: no such scenario; there are: {known}")
    return path


def _override(values: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise LabError(f"--set {setting}: expected KEY=VALUE, KEY being a dotted name such as net.rtt_ms")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word
    put(values, key, value, f"--set {setting}")


def put(values: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a key by its dotted name."""
    *sections, last = key.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise LabError(f"{where}: {section} is not a section")
    values[last] = value


def check(model: type[Model], values: dict[str, Any], where: str) -> Model:
    """The checked model of what a file says, or every mistake, each with its key and what would be allowed."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise LabError(_one_line(model, where, error)) from None


def _one_line(model: type[BaseModel], where: str, error: ValidationError) -> str:
    mistakes = []
    for mistake in error.errors():
        key = ".".join(str(part) for part in mistake["loc"])
        if mistake["type"] == "extra_forbidden":
            section: Any = model
            for part in mistake["loc"][:-1]:
                if isinstance(part, str):
                    found = section.model_fields[part].annotation
                    section = getattr(found, "__args__", (found,))[0]
            text = f"unknown key; known: {', '.join(section.model_fields)}"
        elif mistake["type"] == "value_error":
            text = str(mistake["ctx"]["error"])
        else:
            text = mistake["msg"][0].lower() + mistake["msg"][1:]
            if not isinstance(mistake["input"], dict):
                text += f", not {mistake['input']!r}"
        mistakes.append(f"{where}: {key + ': ' if key else ''}{text}")
    return "\n".join(mistakes)


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says, unchecked."""
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: {error}") from None


def load(name: str, settings: tuple[str, ...] = ()) -> Scenario:
    """The scenario of that name or path, with --set's overrides."""
    path = path_of(name)
    values = read_toml(path)
    for setting in settings:
        _override(values, setting)
    return check(Scenario, values, str(path))
