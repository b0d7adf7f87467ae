"""Checks of the host: platform, interpreters, where we run, terminal, clock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    always,
    failed,
    fix,
    not_applicable,
    ok,
    skipped,
    warned,
    with_gpu,
)
from qwen_tui_diagnostics.checks.limits import LIMIT_CHECKS
from qwen_tui_diagnostics.checks.needs import install_commands
from qwen_tui_diagnostics.checks.tables import SGLANG_PYTHON, VLLM_PYTHON, engine_row
from qwen_tui_diagnostics.checks.units import dotted, listed
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]

OWN_PYTHON = (3, 11)
YEARS = (2025, 2040)
CLOCK_OFF_S = 300
_WINDOWS_FILESYSTEMS = frozenset({"9p", "drvfs", "v9fs"})
_CONSOLE_COLUMNS, _CONSOLE_LINES = 80, 24


def _platform(facts: Facts, target: Target) -> Verdict:
    name, machine = facts.text("system.kernel.name"), facts.text("system.kernel.machine")
    shown = t("{name} {release} on {machine}", name=name,
              release=facts.text("system.kernel.release"), machine=machine)  # fmt: skip
    if name != "Linux" or machine not in {"x86_64", "aarch64"}:
        return failed(
            shown,
            expected=t("Linux on x86_64 or aarch64"),
            consequence=t("SGLang and vLLM have no builds for this platform"),
            remedy=fix(t("run the engine on Linux (WSL2 works) and use `qwen-tui attach` here")),
        )
    return ok(shown)


def _glibc(facts: Facts, target: Target) -> Verdict:
    version = facts.integers("system.glibc")
    wanted: tuple[int, ...] = (2, 34)
    if facts.has("engine.installs.0.version"):
        row = engine_row(facts.text("engine.installs.0.version"))
        wanted = row.glibc if row is not None else wanted
    shown = t("glibc {version}", version=dotted(version))
    if version < wanted:
        return failed(
            shown,
            expected=t("{wanted} or newer for the engine's wheels", wanted=dotted(wanted)),
            consequence=t("pip finds no wheel, or its libraries do not load"),
            remedy=fix(
                t("run the engine in a container, or on a newer distribution (Ubuntu 22.04)"),
                "docker run --gpus all lmsysorg/sglang:latest …",
            ),
        )
    return ok(shown)


def _engine_python(facts: Facts, target: Target) -> Verdict:
    version = facts.integers("engine.installs.0.python")[:2]
    engine = facts.text("engine.installs.0.engine")
    row = engine_row(facts.text("engine.installs.0.version")) if engine == "sglang" else None
    oldest, newest = SGLANG_PYTHON if row is None else row.python
    if engine == "vllm":
        oldest, newest = VLLM_PYTHON
    shown = t("{engine} runs in Python {version}", engine=engine, version=dotted(version))
    if not oldest <= version <= newest:
        return failed(
            shown,
            expected=t("{oldest} to {newest}", oldest=dotted(oldest), newest=dotted(newest)),
            consequence=t("its compiled parts have no build for this Python"),
            remedy=fix(
                t("make an environment with a Python in that range"),
                *install_commands(engine),
            ),
        )
    return ok(shown)


def _own_python(facts: Facts, target: Target) -> Verdict:
    version = facts.integers("system.python")
    shown = t("Python {version} runs qwen-tui", version=dotted(version))
    if version < OWN_PYTHON:
        return failed(
            shown,
            expected=t("3.11 or newer"),
            consequence=t("qwen-tui does not run"),
            remedy=fix(t("install a newer Python")),
        )
    return ok(shown)


_SIGNS = {
    "variable container": t("variable container"),
    "control group": t("control group"),
    "overlay root": t("overlay root"),
}
_FIRST = "process 1 is "


def _sign(word: str) -> Text | str:
    if word.startswith(_FIRST):
        return t("process 1 is {name}", name=word.removeprefix(_FIRST))
    return _SIGNS.get(word, word)


def _container(facts: Facts, target: Target) -> Verdict:
    inside = facts.flag("system.container")
    signs = [_sign(word) for word in facts.texts("system.container_signs")]
    if inside:
        return ok(t("inside a container ({signs})", signs=listed(signs)))
    if signs:
        return ok(t("not in a container; {signs} alone is no proof", signs=listed(signs)))
    return ok(t("not in a container"))


def _wsl(facts: Facts, target: Target) -> Verdict:
    if not facts.flag("system.wsl"):
        return not_applicable(t("not WSL"))
    for entry in facts.rows("disk.paths"):
        if not {"model", "ple"} & set(entry.texts("roles")):
            continue
        point, kind = entry.text("mount.point"), entry.text("mount.filesystem")
        if kind in _WINDOWS_FILESYSTEMS or re.match(r"/mnt/[a-z](/|$)", point):
            return warned(
                t("{path} is on the Windows side ({kind})", path=entry.text("path"), kind=kind),
                expected=t("the model on WSL's own ext4 disk"),
                consequence=t("loading is many times slower, direct reads do not work"),
                remedy=fix(t("move the model into WSL's disk"), "mv /mnt/c/… ~/models/"),
            )
    return ok(
        t("WSL2: pinned memory is limited, sizes of processes are not reported"),
        t("some GiB of a big card are used invisibly"),
    )


def _docker(facts: Facts, target: Target) -> Verdict:
    runtime = facts.text("container.runtime")
    if not facts.text("container.tool"):
        return failed(
            t("{runtime} is not installed", runtime=runtime),
            expected=t("{runtime}, as the profile says", runtime=runtime),
            consequence=t("the launch is refused"),
            remedy=fix(t("install it, or use a profile with a Python interpreter")),
        )
    if facts.has("container.daemon_error"):
        return failed(
            t("{runtime} does not answer: {error}", runtime=runtime,
              error=facts.text("container.daemon_error")),
            expected=t("a daemon that this user may ask"),
            consequence=t("the launch is refused"),
            remedy=fix(
                t("start the daemon, or join its group and log in again"),
                f"sudo systemctl start {runtime}",
                f"sudo usermod -aG {runtime} $USER",
                privileged=True,
            ),
        )  # fmt: skip
    runtimes = facts.texts("container.runtimes")
    if "nvidia" in runtimes or facts.flag("container.cdi"):
        if facts.flag("container.snap"):
            return warned(
                t("{runtime} from snap", runtime=runtime),
                expected=t("the distribution's or Docker's packages"),
                consequence=t("snap hides devices and folders from the container"),
                remedy=fix(t("use the packages of your distribution or of Docker")),
            )
        return ok(t("{runtime} gives GPUs to containers", runtime=runtime))
    return failed(
        t("{runtime} has no NVIDIA runtime and no CDI devices", runtime=runtime),
        expected=t("the NVIDIA Container Toolkit, configured"),
        consequence=t("could not select device driver with capabilities: gpu"),
        remedy=fix(
            t("install the toolkit, configure it, restart the daemon"),
            f"sudo nvidia-ctk runtime configure --runtime={runtime}",
            f"sudo systemctl restart {runtime}",
            privileged=True,
        ),
    )


def _in_container(target: Target) -> Text | None:
    return None if target.image else t("the profile does not run in a container")


def _locale(facts: Facts, target: Target) -> Verdict:
    encoding = facts.text("system.encoding")
    output = (
        facts.text("system.terminal.encoding")
        if facts.has("system.terminal.encoding")
        else encoding
    )
    if {"utf8"} >= {encoding.lower().replace("-", ""), output.lower().replace("-", "")}:
        return ok(t("UTF-8"))
    return warned(
        t("{encoding}, output {output}", encoding=encoding, output=output),
        expected=t("UTF-8"),
        consequence=t("logs with Chinese text or symbols break naive programs"),
        remedy=fix(t("use UTF-8"), "export LANG=C.UTF-8 PYTHONUTF8=1", env={"PYTHONUTF8": "1"}),
    )


def _clock(facts: Facts, target: Target) -> Verdict:
    year = facts.integer("system.year")
    remedy = fix(t("set the clock"), "sudo timedatectl set-ntp true", privileged=True)
    if not YEARS[0] <= year <= YEARS[1]:
        return warned(
            t("the year is {year}", year=year),
            expected=t("the present"),
            consequence=t("certificates and signed addresses are refused"),
            remedy=remedy,
        )
    if facts.has("hub.clock_off_s"):
        off = facts.integer("hub.clock_off_s")
        if abs(off) > CLOCK_OFF_S:
            return warned(
                t("the clock is {seconds} s off the Hub's", seconds=off),
                expected=t("within 5 minutes"),
                consequence=t("signed download addresses expire at once"),
                remedy=remedy,
            )
        return ok(t("within {seconds} s of the Hub's clock", seconds=abs(off)))
    return skipped(
        SkipReason.DISABLED,
        t("the year is plausible; compared with the Hub's clock only where the Hub is asked"),
    )


def _terminal(facts: Facts, target: Target) -> Verdict:
    terminal = facts.at("system.terminal")
    if not terminal.flag("stdout_tty"):
        return not_applicable(t("standard output is not a terminal: the report needs none"))
    name = terminal.text("term") if terminal.has("term") else ""
    columns, lines = terminal.integer("columns"), terminal.integer("lines")
    shown = t("{name}, {columns}x{lines}", name=name or "?", columns=columns, lines=lines)
    if name in {"", "dumb"}:
        return warned(
            shown,
            expected=t("a terminal that can move its cursor"),
            consequence=t("the console cannot be drawn; every command still works"),
            remedy=fix(t("set TERM to what the terminal is"), "export TERM=xterm-256color"),
        )
    if columns < _CONSOLE_COLUMNS or lines < _CONSOLE_LINES:
        return warned(
            shown,
            expected=t("80x24 or more"),
            consequence=t("the console cuts its panels"),
            remedy=fix(t("enlarge the window")),
        )
    return ok(shown)


def _numa(facts: Facts, target: Target) -> Verdict:
    nodes = facts.integers("topology.nodes")
    if len(nodes) < 2:
        return not_applicable(t("one memory node"))
    own = set(facts.integers("topology.own_nodes"))
    away: list[tuple[Text, int]] = []
    for device in facts.rows("driver.pci"):
        node = device.integer("numa_node")
        if node >= 0 and node not in own:
            there = t("{device} on node {node}", device=device.text("bus_id"), node=node)
            away.append((there, node))
    if away:
        return warned(
            t("{devices}, this process on node {own}", devices=listed([there for there, _ in away]),
              own=", ".join(map(str, sorted(own)))),
            expected=t("processor and card on one node"),
            consequence=t("every transfer crosses the sockets"),
            remedy=fix(t("start the engine on the card's node"),
                       f"numactl -N {away[0][1]} qwen-tui up PROFILE"),
        )  # fmt: skip
    return ok(t("processors of every card's node may be used"))


def _has_engine(target: Target) -> Text | None:
    if target.simulated:
        return t("the simulated engine is part of qwen-tui")
    return t("the profile runs in a container") if target.image else None


CHECKS: tuple[Check, ...] = (
    Check(
        "sys.platform", t("platform"), _platform, ("system",),
        t("the engines exist for Linux on x86_64 and aarch64 only"),
        required=always,
    ),
    Check(
        "sys.glibc", t("C library"), _glibc, ("system", "engine"),
        t("the engines' wheels need glibc 2.34; Ubuntu 20.04 has 2.31"),
        required=lambda target: target.needs_gpu, wanted=_has_engine,
    ),
    Check(
        "sys.own_python", t("Python of qwen-tui"), _own_python, ("system",),
        t("qwen-tui needs Python 3.11"),
        required=always,
    ),
    Check(
        "sys.python", t("Python of the engine"), _engine_python, ("engine",),
        t("each engine release has wheels for certain Pythons only"),
        required=lambda target: target.profile is not None and not target.image,
        wanted=_has_engine, explained_by=("engine.found",),
    ),
    *LIMIT_CHECKS,
    Check(
        "sys.numa", t("sockets"), _numa, ("topology", "driver"),
        t("a card on the other socket is slower to load and to serve"),
        wanted=with_gpu,
    ),
    Check(
        "sys.container", t("where this runs"), _container, ("system",),
        t("inside a container limits, devices and memory are the container's"),
    ),
    Check(
        "sys.wsl", t("WSL2"), _wsl, ("system", "disk"),
        t("Windows folders go through 9p, and pinned memory is limited"),
    ),
    Check(
        "sys.docker", t("container runtime"), _docker, ("container",),
        t("without NVIDIA's runtime a container sees no GPU"),
        required=always, wanted=_in_container,
    ),
    Check(
        "sys.locale", t("character encoding"), _locale, ("system",),
        t("logs with CJK text crash programs in a non-UTF-8 locale"),
    ),
    Check(
        "sys.clock", t("clock"), _clock, ("system",),
        t("a wrong clock makes certificates and signed addresses invalid"),
        uses=("hub",),
    ),
    Check(
        "sys.terminal", t("terminal"), _terminal, ("system",),
        t("the console needs a terminal of 80x24 that can move its cursor"),
    ),
)  # fmt: skip
