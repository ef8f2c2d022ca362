# SPDX-License-Identifier: GPL-2.0-only
import pytest

from cwndlab import engine, qemu
from cwndlab.images import Images
from cwndlab.paths import LabError
from cwndlab.scenario import load
from cwndlab.variant import plan

NAME = "wan-100m-20ms"


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.setenv("LIO_CWND_CACHE", str(tmp_path))
    monkeypatch.setattr(qemu.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(qemu.Qemu, "_version", lambda self: "QEMU 1")
    monkeypatch.setattr(qemu.os, "access", lambda path, mode: False)


def booting(chosen, tmp_path, *settings, **how):
    kernel = tmp_path / "vmlinux"
    kernel.touch()
    made = Images(kernel, "", tmp_path, tmp_path, True, chosen)
    return made, chosen.machines(made, plan(load(NAME, settings), "stock", **how))


def words(command):
    return command[command.index("-append") + 1].split()


def test_two_machines_are_joined_by_two_links_and_the_initiator_ends_the_run(tmp_path):
    _, machines = booting(engine.choose("qemu"), tmp_path)
    assert [machine.console for machine in machines] == ["console-initiator.log", "console-target.log"]
    for machine, role in zip(machines, ("initiator", "target"), strict=True):
        assert f"MACHINE={role}" in words(machine.command)
        assert "-icount" not in machine.command
        assert [f"socket,id=link{n},fd={link.fileno()}" for n, link in enumerate(machine.links)] == [
            machine.command[n + 1] for n, word in enumerate(machine.command) if word == "-netdev"
        ]
    for here, there in zip(machines[0].links, machines[1].links, strict=True):
        here.send(b"x")
        assert there.recv(1) == b"x"
    addresses = [word.split("mac=")[1] for m in machines for word in m.command if "mac=" in word]
    assert len(set(addresses)) == 4


@pytest.mark.parametrize(("rate_mbit", "tsc_khz"), [(10, 10**6), (250, 10**6), (1000, 4 * 10**6)])
def test_one_machine_has_a_processor_fast_enough_for_the_path(tmp_path, rate_mbit, tsc_khz):
    _, (machine,) = booting(engine.choose("qemu", one_machine=True), tmp_path, f"net.rate_mbit={rate_mbit}")
    assert f"tsc_early_khz={tsc_khz}" in words(machine.command)
    assert "-icount" in machine.command
    assert "-netdev" not in machine.command


def test_a_shell_runs_in_real_time(tmp_path):
    _, (machine,) = booting(engine.choose("qemu", one_machine=True), tmp_path, shell=True)
    assert "-icount" not in machine.command
    _, (machine,) = booting(engine.choose("uml"), tmp_path, shell=True)
    assert "time-travel=inf-cpu" not in machine.command


def test_the_guest_writes_to_one_folder_only(tmp_path):
    for one_machine in (False, True):
        for machine in booting(engine.choose("qemu", one_machine), tmp_path)[1]:
            shared = [word for word in machine.command if word.startswith("local,")]
            assert [word.split(",")[2] for word in shared if "readonly=on" not in word] == ["path=out"]


def test_kvm_counts_only_if_a_guest_boots_and_is_tried_once(monkeypatch, tmp_path):
    monkeypatch.setattr(qemu.os, "access", lambda path, mode: True)
    tried, told = [], []
    monkeypatch.setattr(qemu, "_boots_under_kvm", lambda kernel: bool(tried.append(kernel)))
    for _ in range(2):
        chosen = engine.choose("qemu")
        chosen.meet(tmp_path, told.append)
        assert chosen.name == "qemu-tcg"
    assert len(tried) == 1
    assert told == 2 * ["engine qemu: no guest boots under /dev/kvm here; using TCG"]
    (tmp_path / "qemu.json").unlink()
    monkeypatch.setattr(qemu, "_boots_under_kvm", lambda kernel: True)
    chosen.meet(tmp_path, told.append)
    assert chosen.name == "qemu-kvm"


def test_a_rate_above_what_was_measured_is_refused_in_one_line(monkeypatch, tmp_path):
    measured = []

    def boot(images, *args, **how):
        assert images.engine.slow_motion == 1
        measured.append(1)
        read = {"io_bytes": 111_000_000 / 8 * 5, "runtime": 5000}
        return {"measured": {"fio": {"jobs": [{"read": read}]}}, "cpu_mhz": 3000.0}

    monkeypatch.setattr(qemu.boot, "run", boot)
    chosen = engine.choose("qemu")
    chosen.meet(tmp_path, print)
    made, _ = booting(chosen, tmp_path)
    engine.admit(made, NAME, load(NAME, ("net.rate_mbit=27",)))
    refused = r"qemu-tcg can do here, 27; use --set net.rate_mbit=27, --slow-motion 4, "
    with pytest.raises(LabError, match=refused) as caught:
        engine.admit(made, NAME, load(NAME))
    assert "\n" not in str(caught.value)

    made, machines = booting(engine.choose("qemu", slow_motion=4), tmp_path)
    engine.admit(made, NAME, load(NAME))
    assert all("tsc_early_khz=12000000" in words(machine.command) for machine in machines)
    assert made.engine.name == "qemu-tcg"
    assert len(measured) == 1


@pytest.mark.parametrize(("under_kvm", "told"), [(False, ["tsc_early_khz=2500000"]), (True, [])])
def test_an_emulated_debug_kernel_is_told_how_fast_it_counts(monkeypatch, tmp_path, under_kvm, told):
    monkeypatch.setattr(qemu.os, "access", lambda path, mode: True)
    monkeypatch.setattr(qemu, "_boots_under_kvm", lambda kernel: under_kvm)
    monkeypatch.setattr(qemu, "_counter_mhz", lambda: 2500.0)
    chosen = qemu.Qemu(one_machine=False, debug=True)
    chosen.meet(tmp_path, print)
    _, (machine,) = booting(chosen, tmp_path)
    assert [word for word in words(machine.command) if word.startswith("tsc_early_khz")] == told


def test_one_machine_and_uml_are_not_measured(tmp_path):
    for chosen in (engine.choose("qemu", one_machine=True), engine.choose("uml")):
        made, _ = booting(chosen, tmp_path)
        engine.admit(made, NAME, load(NAME, ("net.rate_mbit=3000",)))
    assert not (tmp_path / "qemu.json").exists()


def test_each_engine_keeps_as_many_cpus_busy_as_there_are(monkeypatch):
    monkeypatch.setattr(engine.os, "sched_getaffinity", lambda pid: set(range(5)))
    assert engine.default_jobs(engine.choose("uml")) == 5
    assert engine.default_jobs(engine.choose("qemu", one_machine=True)) == 5
    assert engine.default_jobs(engine.choose("qemu")) == 2


def test_without_qemu_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(qemu.shutil, "which", lambda name: None)
    with pytest.raises(LabError, match="install qemu-system-x86"):
        engine.choose("qemu")


@pytest.mark.parametrize("choice", [("uml", True, 1), ("uml", False, 2), ("qemu", True, 2)])
def test_what_an_engine_has_not_is_refused(choice):
    with pytest.raises(LabError, match="only with --engine qemu"):
        engine.choose(*choice)
