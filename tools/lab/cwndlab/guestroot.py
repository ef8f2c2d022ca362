# SPDX-License-Identifier: GPL-2.0-only
"""The guest's root: Debian 13's packages, unpacked into the cache by an ordinary user.

Nothing is installed and no maintainer script runs: apt resolves and downloads with a configuration
of its own, dpkg-deb unpacks. The guest mounts the result read-only (guest/init lays tmpfs over the
places that must be writable).
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cwndlab.paths import LabError, cache

SUITES = (
    ("http://deb.debian.org/debian", "trixie"),
    ("http://deb.debian.org/debian", "trixie-updates"),
    ("http://security.debian.org/debian-security", "trixie-security"),
)
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = [
    *("base-files", "bash", "coreutils", "dash", "libc-bin", "util-linux", "mount", "kmod", "procps", "udev"),
    *("iproute2", "linux-sysctl-defaults", "open-iscsi", "sg3-utils", "dmsetup", "fio", "python3", "python3-rtslib-fb"),
    "libiscsi-bin",
]
# Raise it when what is done to the unpacked tree below changes.
LAYOUT = 4
LISTS_MAX_AGE_S = 24 * 3600

# UML shows the run directory as hostfs, QEMU shows its folders by 9p.
INIT = """#!/bin/sh
mount -t hostfs -o hostfs=/lab none /lab 2>/dev/null || mount -t 9p -o trans=virtio,version=9p2000.L lab /lab
exec /lab/init
"""
PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUP = "root:x:0:\ndisk:x:6:\nnogroup:x:65534:\n"


def _run(argv: list[str], env: dict[str, str] | None = None) -> str:
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise LabError(f"{' '.join(argv[:3])}: exit {done.returncode}: {reason}")
    return done.stdout


def _apt_environment(apt: Path) -> dict[str, str]:
    """A private apt configuration: Debian 13's lists, nothing installed, the host's proxies."""
    for name in ("lists/partial", "archives/partial", "parts"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()  # nothing is installed; apt puts its lock next to it
    (apt / "sources.list").write_text(
        "".join(f"deb [signed-by={KEYRING}] {url} {suite} main\n" for url, suite in SUITES)
    )
    proxies = [
        line
        for line in _run(["apt-config", "dump"]).splitlines()
        if line.startswith("Acquire::http") and not line.endswith('"";')
    ]
    (apt / "apt.conf").write_text(
        "\n".join(
            [
                f'Dir::Etc::sourcelist "{apt}/sources.list";',
                'Dir::Etc::sourceparts "-";',
                f'Dir::Etc::parts "{apt}/parts";',
                'Dir::Etc::main "/dev/null";',
                'Dir::Etc::trusted "/dev/null";',
                'Dir::Etc::preferences "/dev/null";',
                'Dir::Etc::preferencesparts "-";',
                f'Dir::State::lists "{apt}/lists";',
                f'Dir::State::status "{apt}/status";',
                f'Dir::Cache "{apt}";',
                f'Dir::Cache::archives "{apt}/archives";',
                'Acquire::Languages "none";',
                'Acquire::IndexTargets::deb-src::Sources::DefaultEnabled "false";',
                'APT::Architecture "amd64";',
                'APT::Sandbox::User "";',
                *proxies,
                "",
            ]
        )
    )
    return {**os.environ, "APT_CONFIG": str(apt / "apt.conf"), "LC_ALL": "C"}


def _resolve(env: dict[str, str]) -> dict[str, str]:
    """The packages apt would install: name → version, dependencies included."""
    plan = _run(["apt-get", "install", "--simulate", "--no-install-recommends", *PACKAGES], env)
    versions = {}
    for line in plan.splitlines():
        if line.startswith("Inst "):
            _, name, version = line.split()[:3]
            versions[name] = version.strip("(")
    return versions


def _unpack(root: Path, debs: list[Path], report: Callable[[str], None]) -> None:
    for name in ("bin", "sbin", "lib", "lib64"):  # merged /usr, before the first package
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for n, deb in enumerate(debs, 1):
        if n % 20 == 0:
            report(f"guest root: unpacking {n}/{len(debs)}")
        _run(["dpkg-deb", "--extract", str(deb), str(root)])
    for path in root.rglob("*"):  # set-uid would make the guest's root the user who unpacked it
        if not path.is_symlink() and (mode := path.stat().st_mode) & 0o6000:
            path.chmod(mode & 0o1777)
    for name in ("proc", "sys", "dev", "run", "tmp", "var", "lab", "configs", "tools", "host"):
        (root / name).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text(PASSWD)
    (root / "etc/group").write_text(GROUP)
    init = root / "init"
    init.write_text(INIT)
    init.chmod(0o755)
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    shutil.rmtree(root / "usr/share/doc", ignore_errors=True)
    for deb in debs:
        deb.unlink()


def _compile_python(root: Path) -> None:
    """Byte code for the guest's own python, by running it where it lies: imports cost wall time."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    _run(
        [
            str(libraries / "ld-linux-x86-64.so.2"),
            "--library-path",
            str(libraries),
            str(root / "usr/bin/python3"),
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode=unchecked-hash",
            "-s",
            str(root),
            str(root / "usr/lib/python3.13"),
            str(root / "usr/lib/python3/dist-packages"),
        ],
        {"PYTHONHOME": str(root / "usr"), "PATH": os.environ["PATH"]},
    )


def build(report: Callable[[str], None]) -> Path:
    """The guest root's directory, made now unless the cache has it."""
    current = cache() / "guest-root"
    stamp = current / ".cwndlab.json"
    wanted = {"packages": PACKAGES, "layout": LAYOUT}
    if stamp.exists() and json.loads(stamp.read_text())["wanted"] == wanted:
        return current.resolve()

    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise LabError(f"guest root: {tool} not found; the lab needs Debian's apt and dpkg")
    if not Path(KEYRING).exists():
        raise LabError(f"guest root: {KEYRING} not found (package debian-archive-keyring)")
    apt = cache() / "apt"
    env = _apt_environment(apt)
    fetched = apt / "lists.stamp"
    if not fetched.exists() or time.time() - fetched.stat().st_mtime > LISTS_MAX_AGE_S:
        report("guest root: fetching Debian 13's package lists")
        _run(["apt-get", "update", "-q"], env)
        fetched.touch()
    versions = _resolve(env)
    key = hashlib.sha256(json.dumps([versions, wanted], sort_keys=True).encode()).hexdigest()[:12]
    final = cache() / f"guest-root-{key}"
    if not final.exists():
        report(f"guest root: downloading {len(versions)} packages")
        _run(["apt-get", "clean"], env)  # what an interrupted build has left is not to be unpacked
        _run(
            ["apt-get", "install", "--yes", "-q", "--download-only", "--no-install-recommends", *PACKAGES],
            env,
        )
        with tempfile.TemporaryDirectory(dir=cache(), prefix="guest-root.") as scratch:
            root = Path(scratch) / "root"
            _unpack(root, sorted((apt / "archives").glob("*.deb")), report)
            report("guest root: compiling its Python")
            _compile_python(root)
            record = {"wanted": wanted, "versions": versions}
            (root / ".cwndlab.json").write_text(json.dumps(record, indent=1, sort_keys=True))
            root.rename(final)
    link = cache() / "guest-root.new"
    link.unlink(missing_ok=True)
    link.symlink_to(final.name)
    link.rename(current)
    return final


def versions(root: Path) -> dict[str, str]:
    """Package → version of what is in the guest root."""
    return json.loads((root / ".cwndlab.json").read_text())["versions"]
