# SPDX-License-Identifier: GPL-2.0-only
"""All that may happen to a target while it is used. What breaks, an answer shows, or the kernel on its console."""

import contextlib
import os
import re
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import crew
import faults
import fuzz
import initiator
import net
from crew import IQN, Crew, patiently
from family import ACK, CONN_GET, DUMP, ID, REQUEST, SAMPLING_GET, SAMPLING_SET, Family, attribute, message
from iscsi import CLOSE_CONNECTION, Connection
from net import TARGET, run, within
from target import CONFIGFS

DISK = CONFIGFS / "core/rd_mcp_0/disk0"
DISK_PAGES = 1 << 20
FABRIC = CONFIGFS / "iscsi"
GROUP = FABRIC / IQN / "tpgt_1"
SESSIONS = FABRIC / IQN / "fabric_statistics/iscsi_instance/sessions"
ATTRIBUTES = ("authentication=0", "demo_mode_write_protect=0", "generate_node_acls=1", "cache_dynamic_acls=1")
PORTAL = f"{TARGET}:3260"
MODULES = ("target_core_mod", "iscsi_target_mod")  # built in, where the kernel has no modules
HAS_MODULES = Path("/proc/modules").exists()
KMEMLEAK = Path("/sys/kernel/debug/kmemleak")
LEAK_AGE_S = 6  # kmemleak names what is older
SETTLE_S = 600
DOWN_S = 1
RETAINED_S = 1
WAITING_S = 1
FAULTS_S = 2
LOSS_PCT = 0.5
SEED = 1
NOBODY = 65534


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {SETTLE_S} s")
        time.sleep(0.1)


# The target, as the kernel's configfs makes it


def make_disk() -> None:
    for folder in (DISK.parent, DISK):
        folder.mkdir()
    (DISK / "control").write_text(f"rd_pages={DISK_PAGES},rd_nullio=1")
    (DISK / "enable").write_text("1")


def enable(on: bool) -> None:
    (GROUP / "enable").write_text(str(int(on)))


def make_portal() -> None:
    run(*within("target", "mkdir", str(GROUP / "np" / PORTAL)))


def make_group() -> None:
    for folder in (FABRIC, GROUP.parent, GROUP, GROUP / "lun/lun_0"):
        folder.mkdir(exist_ok=True)
    for name, value in (setting.split("=") for setting in ATTRIBUTES):
        (GROUP / "attrib" / name).write_text(value)
    (GROUP / "param/MaxConnections").write_text("2")
    (GROUP / "lun/lun_0/disk").symlink_to(DISK)
    make_portal()
    enable(True)


def remove_group() -> None:
    """Whoever is logged in."""
    for portal in (GROUP / "np").iterdir():
        portal.rmdir()
    (GROUP / "lun/lun_0/disk").unlink()
    for folder in (GROUP / "lun/lun_0", GROUP, GROUP.parent):
        folder.rmdir()


def load_modules() -> None:
    for name in MODULES if HAS_MODULES else ():
        run("insmod", f"/tools/{name}.ko")


def unload_modules() -> None:
    """As soon as nobody is inside any more."""
    for folder in (FABRIC, DISK, DISK.parent):
        folder.rmdir()
    for name in reversed(MODULES) if HAS_MODULES else ():
        until(lambda name=name: subprocess.run(["rmmod", name], capture_output=True).returncode == 0, f"rmmod {name}")


@contextlib.contextmanager
def family_of_target() -> Iterator[Family]:
    """The caller itself stays where it is."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        crew.enter("target")
        family = Family()
    finally:
        os.setns(home, os.CLONE_NEWNET)
        os.close(home)
    with contextlib.closing(family.socket):
        yield family


def until_all_have_gone() -> None:
    with family_of_target() as family:
        until(lambda: not family.dump(), "all connections to go")


def interfaces(netns: str) -> list[str]:
    return re.findall(r"^\d+: ([^:@]+)", run(*within(netns, "ip", "-o", "link")), re.M)


class Network:
    """The namespaces, made and made anew."""

    def __init__(self, plan: dict):
        self._net, self._qdisc = plan["scenario"]["net"], plan["nic_qdisc"]

    def make(self) -> None:
        net.build_path(self._net, self._qdisc["target"], unlimited=False, two_machines=False)
        net.build_initiator(self._net, self._qdisc["initiator"], unlimited=False)

    def remove(self) -> None:
        """The target's first: when its interface has gone, so has the namespace, and nobody holds it."""
        subprocess.run(["ip", "netns", "del", "target"], capture_output=True)  # unless it was done before
        until(lambda: "r1" not in interfaces("router"), "the target's network namespace to go")
        for netns in ("router", "cross"):
            run("ip", "netns", "del", netns)
        until(lambda: "eth0" not in interfaces("initiator"), "the router's network namespace to go")

    def lose(self, pct: float) -> None:
        net.change(self._net, {"rate_mbit": None, "rtt_ms": None, "loss_pct": pct}, two_machines=False)


class Part:
    """How much of one kind is wanted, within which time, but one at least; tells the host how far it is."""

    def __init__(self, number: int, of: int, wanted: int, limit_s: float):
        self.wanted = wanted
        self.share = 1.0  # of it, that was done
        self._number, self._of = number, of
        self._deadline = time.monotonic() + limit_s

    def goes_on(self, done: int) -> bool:
        self.share = min(1.0, done / self.wanted)
        Path("/host/progress").write_text(f"{self._number + 0.999 * self.share:.3f} {self._of}\n")
        return not done or (done < self.wanted and time.monotonic() < self._deadline)


def watchers() -> dict[str, Callable[[], Iterator[int]]]:
    """Who asks and listens meanwhile, whatever happens."""
    return {
        "dumps": patiently(crew.dump),
        "more dumps": patiently(crew.dump),
        "deaf to events": patiently(crew.be_deaf("events")),
        "deaf to samples": patiently(crew.be_deaf("samples")),
        "heard": patiently(crew.listen),
        "pages": patiently(crew.ask("asker")),
        "reads": patiently(crew.read("reader")),
    }


# The parts


def sessions(part: Part, network: Network) -> Counter[str]:
    """Sessions come and go, those of open-iscsi among them."""
    comers = {f"cycles {n}": crew.come_and_go(f"comer{n}", n) for n in range(3)}
    network.lose(LOSS_PCT)
    initiator.login([IQN], 1, [])
    initiator.logout()
    done = Counter(open_iscsi_cycles=0)
    with Crew(watchers() | comers) as users:
        while part.goes_on(done["open_iscsi_cycles"] + sum(users.done()[name] for name in comers)):
            users.look()
            ((disk,),) = initiator.log_in_again([IQN], 1)
            run("sg_logs", "--page=0x3c", "--raw", f"/dev/{disk}")
            initiator.logout()
            done["open_iscsi_cycles"] += 1
    until_all_have_gone()
    for name, count in users.done().items():
        done["cycles" if name in comers else name] += count
    return done


def cut_link() -> None:
    for state in ("down", "up"):
        run(*within("router", "ip", "link", "set", "r1", state))
        time.sleep(DOWN_S)


def leave_session() -> None:
    """One without a connection, that waits for its initiator to come back; and another that ends it."""
    for _ in range(2):
        crew.log_in("left", b"\x80left.").logout(CLOSE_CONNECTION)


def forget_session() -> None:
    """One whose initiator does not come back in time."""
    crew.log_in("forgotten", b"\x80gone.", {"DefaultTime2Retain": RETAINED_S}).logout(CLOSE_CONNECTION)
    there = crew.INITIATOR.format("forgotten")
    until(lambda: there not in (GROUP / "dynamic_sessions").read_text(), "a session without a connection to go")


def come_back_late() -> None:
    """A session whose time runs out in the middle of the login that is to keep it."""
    left = crew.log_in("late", b"\x80late.", {"DefaultTime2Retain": RETAINED_S})

    def run_out() -> None:
        left.logout(CLOSE_CONNECTION)
        time.sleep(2 * RETAINED_S)

    back = Connection(IQN, crew.INITIATOR.format("late"), cid=1, first=left, meanwhile=run_out)
    fuzz.make_ready(back)
    back.close()


def end_in_login(first: Connection, who: str, end: Callable[[], object]) -> None:
    """End a session in the middle of the login that adds a connection to it: this is closed too."""
    with contextlib.suppress(ConnectionError):
        added = Connection(IQN, crew.INITIATOR.format(who), cid=1, first=first, meanwhile=end)
        added.command(bytes(16), 0)
        raise RuntimeError(f"{who}: a connection of a session that has ended")


def log_out_in_login() -> None:
    first = crew.log_in("leaves", b"\x80leave")
    end_in_login(first, "leaves", first.logout)


def bar_in_login() -> None:
    """The session waits for its initiator, whose access is taken away while it comes back."""
    access = GROUP / "acls" / crew.INITIATOR.format("barred")
    access.mkdir()
    first = Connection(IQN, access.name, isid=b"\x80bar..")
    removal = threading.Thread(target=access.rmdir)

    def bar() -> None:
        first.logout(CLOSE_CONNECTION)
        removal.start()
        time.sleep(WAITING_S)

    end_in_login(first, "barred", bar)
    removal.join()
    if access.exists():
        raise RuntimeError(f"{access.name} cannot be barred")


def disable_group() -> None:
    leave_session()
    enable(False)
    until(lambda: not int(SESSIONS.read_text()), "the sessions of a disabled portal group to go")
    enable(True)


def renew_portal() -> None:
    (GROUP / "np" / PORTAL).rmdir()
    make_portal()


def renew_group() -> None:
    leave_session()
    remove_group()
    make_group()


def destroy_sockets() -> None:
    run(*within("target", "ss", "--kill", "--tcp", "state", "established", "sport", "=", ":3260"))


def renew_all() -> None:
    """The modules too, where there are any."""
    if HAS_MODULES and subprocess.run(["rmmod", MODULES[1]], capture_output=True).returncode == 0:
        raise RuntimeError("the module can be removed while it is used")
    remove_group()
    unload_modules()
    load_modules()
    make_disk()
    make_group()


KILLS = [
    *(cut_link, forget_session, come_back_late, log_out_in_login, bar_in_login),
    *(disable_group, renew_portal, renew_group, renew_all),
]
if HAS_MODULES:  # the debug kernel, which can do this too
    KILLS.append(destroy_sockets)


def kills(part: Part, network: Network) -> Counter[str]:
    """Connections are killed in the middle of reads; each time it must serve again."""
    network.lose(LOSS_PCT)
    done: Counter[str] = Counter()
    while part.goes_on(done["rounds"]):
        with Crew(watchers() | {"more reads": patiently(crew.read("reader2"))}) as users:
            for kill in KILLS:
                users.wait_for_more("reads")
                kill()
                done[kill.__name__] += 1
                users.wait_for_more("dumps", "pages")
            run("ip", "netns", "del", "target")  # it lives on, as long as there are sockets in it
            users.wait_for_more("reads")
        done.update(users.done())
        remove_group()
        network.remove()
        network.make()
        make_group()
        done.update(namespace_removed=1, rounds=1)
    return done


def is_closed_to_nobody() -> Iterator[int]:
    """Another user is refused, and in a network namespace of his own sees nothing."""
    with family_of_target() as family:
        os.setgroups([])
        os.setuid(NOBODY)
        number = attribute(ID, struct.pack("=I", 100))
        for command, flags in ((CONN_GET, ACK), (CONN_GET, DUMP), (SAMPLING_GET, ACK), (SAMPLING_SET, ACK)):
            refused(lambda c=command, f=flags: family.ask(message(family.id, REQUEST | f, c, number)))
        for group in family.groups:
            refused(lambda g=group: family.join(g))
    if Path("/proc/self/ns/user").exists():
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)
        sees_nothing(Family())
    yield 1


def is_empty_elsewhere() -> Iterator[int]:
    """The administrator of another network namespace sees nothing, and changes nothing."""
    with family_of_target() as family:
        period_ms = family.period_ms()
        crew.enter("router")
        elsewhere = Family()
        elsewhere.set_period_ms(2 * period_ms)
        sees_nothing(elsewhere)
        if family.period_ms() != period_ms:
            raise RuntimeError(f"sampled every {family.period_ms()} ms instead of {period_ms} ms")
    yield 1


def refused(do: Callable[[], object]) -> None:
    try:
        do()
    except PermissionError:
        return
    raise RuntimeError("an unprivileged user was not refused")


def sees_nothing(family: Family) -> None:
    if seen := family.dump():
        raise RuntimeError(f"sees {seen}")
    for number in range(1, 100):
        with contextlib.suppress(FileNotFoundError):
            raise RuntimeError(f"sees {family.connection(number)}")
    for group in family.groups:
        family.join(group)
    family.socket.settimeout(DOWN_S)
    with contextlib.suppress(TimeoutError):
        raise RuntimeError(f"hears {family.socket.recv(1 << 17)!r}")


def protection(part: Part, network: Network) -> Counter[str]:
    """Who may not ask gets nothing, whatever goes on."""
    jobs = {"nobody": is_closed_to_nobody, "elsewhere": is_empty_elsewhere}
    others = {"heard": crew.listen, "reads": crew.read("reader")}
    with Crew(others) as users:
        users.wait_for_more("heard", "reads")
        done = Crew.finished(jobs)
        users.wait_for_more("heard", "reads")
    return done


def fuzzing(part: Part, network: Network) -> Counter[str]:
    """Two initiators ask for any page, and any request goes to the family."""
    network.lose(0)
    both = [crew.log_in(who, b"\x80" + who.encode()) for who in ("one..", "two..")]
    done: Counter[str] = Counter()
    with Crew({"requests": requests(part.wanted), "heard": crew.listen}) as users:
        for answered in fuzz.fuzz_pages(both, part.wanted, SEED):
            done["pages" if answered else "refused_pages"] += 1
            if done.total() % fuzz.ROUND == 0:
                users.look()
                if not part.goes_on(min(done.total(), part.wanted - 1)):
                    break
        while part.goes_on(users.done()["requests"] + fuzz.ROUND):
            users.look()
            time.sleep(0.1)
    for session in both:
        session.close()
    return done + Counter(users.done())


def requests(count: int) -> Callable[[], Iterator[int]]:
    def job() -> Iterator[int]:
        crew.enter("target")
        yield from fuzz.fuzz_family(count, SEED, IQN)

    return job


def no_memory(part: Part, network: Network) -> Counter[str]:
    """Allocations fail: one after the other in each request, then some in each source file while all is used."""
    network.lose(LOSS_PCT)
    faults.prepare()
    done: Counter[str] = Counter()
    with Crew({"reads": patiently(crew.read("reader"))}) as users:
        users.wait_for_more("reads")
        done.update(Crew.finished({"requests_without_memory": faults.requests}))
    until_all_have_gone()
    done.update(Crew.finished({"pages_without_memory": faults.page}))
    use = watchers() | {"pages": patiently(faults.ask), "cycles": patiently(faults.come_and_go)}
    rounds = 0
    while part.goes_on(rounds):
        for file in faults.CODE:
            with Crew(use) as users:
                with faults.in_code(file):
                    time.sleep(FAULTS_S)
                users.wait_for_more("dumps", "pages", "reads")
            done.update(users.done())
        rounds += 1
    return done


PARTS = {"sessions": sessions, "kills": kills, "protection": protection, "fuzzing": fuzzing, "faults": no_memory}


def leaks() -> str:
    time.sleep(LEAK_AGE_S)
    for _ in range(2):  # the first learns what changes
        KMEMLEAK.write_text("scan")
    return KMEMLEAK.read_text()


def main(plan: dict) -> dict:
    """The parts that the plan wants; what was done in each."""
    run("dmesg", "--console-level", "warn")  # a console takes its time
    load_modules()
    network = Network(plan)
    network.make()
    make_disk()
    make_group()
    found = {}
    for n, (name, wanted) in enumerate(plan["stress"].items()):
        begun = time.monotonic()
        part = Part(n, len(plan["stress"]), **wanted)
        done = PARTS[name](part, network)
        until_all_have_gone()
        found[name] = {"done": dict(done), "share": part.share, "seconds": round(time.monotonic() - begun)}
        print(name, found[name], flush=True)
    remove_group()
    network.remove()
    unload_modules()
    if KMEMLEAK.exists() and (leaked := leaks()):
        raise RuntimeError(f"kmemleak: {leaked}")
    return found
