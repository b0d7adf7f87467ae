"""No check may be green when its fact could not be read: remove every fact in turn and look.

Two rules, for every machine, every check and every fact:

1. A check that read the fact on its way to OK is not OK without it, unless the table below says why
   the rest still proves it.
2. A check that was not OK does not become OK because a fact is gone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_diagnostics.checks import CHECKS
from qwen_tui_diagnostics.facts import Absence, Facts
from qwen_tui_diagnostics.probes.collectors import COLLECTORS
from qwen_tui_diagnostics.result import CheckResult, SkipReason, Status
from qwen_tui_diagnostics.runner import judge
from qwen_tui_profiles.text import Text
from support.doctor_machines import (
    TARGET_27B,
    TARGET_FLASH,
    absent_facts,
    card,
    changed,
    gpu_facts,
    workstation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_diagnostics.check import Check
    from qwen_tui_diagnostics.context import Target

# (checks, facts, why the checks may stay OK without the fact). Checks are globs, facts patterns.
STILL_PROVED: tuple[tuple[str, str, str], ...] = (
    ("*", r"gpu\.devices\.\d+\.(name|bus_id|uuid)", "only names the card in the sentence"),
    ("*", r"env\.set", "what is not set stays listed in env.unset; what was set is then unknown"),
    ("*", r"disk\.paths\.\d+\.device.*", "disk.mount: removable disks also show by mount point"),
    ("driver.min", r"gpu\.devices\.\d+(\.compute_capability)?",
     "the family's minimum (580) is above what any card needs (570)"),
    ("driver.min", r"engine\.installs\.0\.torch(\.\w+)?", "the release table knows it as well"),
    ("driver.cuda_api", r"engine\.installs\.0\.torch(\.\w+)?", "the same"),
    ("driver.versions_match", r"driver\.library\.[\w-]+", "the other library is compared; without "
     "both the check is not OK"),
    ("driver.versions_match", r"driver\.library|gpu(\.library_version)?", "the loaded library and "
     "the installed ones stand in for each other"),
    ("driver.open_module", r"gpu(\..*)?", "the open module is right for every card"),
    ("gpu.vram_total", r"model(\..*)?", "the family is known from the profile's name too"),
    ("gpu.vram_free", r"model\.config(\.\w+)?", "the plan reads the whole document"),
    ("gpu.vram_free", r"engine(\..*)?", "the newest release's arithmetic is used"),
    ("gpu.vram_free", r"gpu\.devices\.\d+\.processes.*", "who holds the rest is detail; free "
     "memory is what is judged"),
    ("gpu.holders", r"gpu\.devices\.\d+\.processes\.\d+\.name", "the name is only shown"),
    ("gpu.pcie|gpu.throttle", r"gpu\.devices\.\d+\.utilisation", "unknown load is taken for idle "
     "where idle excuses nothing else, and for busy in the power-cap check"),
    ("gpu.temp", r"gpu\.devices\.\d+\.temperature_slowdown_c", "83 degrees is the limit without"),
    ("gpu.persistence", r"gpu\.devices\.\d+\.display_active", "persistence is on"),
    ("cuda.ninja", r"engine(\..*)?|toolkit\.ninja", "one of two places is enough"),
    ("cuda.nvcc_version", r"engine\.installs\.0\.torch(\.\w+)?", "the release table knows it"),
    ("cuda.jit_cache", r"toolkit\.caches\.\d+\.versions", "only --fix reads it"),
    ("sys.glibc", r"engine(\..*)?", "2.34, which every release since 0.5.11 needs, is assumed"),
    ("sys.ram|disk.mount|disk.space|disk.seq", r"model(\..*)?|hub(\..*)?",
     "the family is known from the profile's name, and its published size is assumed"),
    ("sys.swap", r"memory\.zram", "only shown"),
    ("sys.cpu", r"system\.scaling_\w+", "a governor only adds a warning; many machines have none"),
    ("sys.locale", r"system\.terminal.*", "the locale decides where there is no terminal"),
    ("sys.clock", r"hub(\..*)?", "compared only when the Hub was asked; the sentence says so"),
    ("disk.odirect|disk.align", r"disk\.paths\.\d+\.shard.*", "the scratch file proves the same"),
    ("disk.align", r"disk\.paths\.\d+\.direct\.alignment\.\w+", "the shard itself tells"),
    ("disk.align", r"disk\.paths\.\d+\.direct(\.alignment)?", "the shard itself tells"),
    ("engine.version", r"model(\..*)?|engine\.installs\.0\.(url|commit|editable)",
     "a source build only adds a warning; the model's class is judged by engine.model_type"),
    ("engine.kernel_dup|engine.flashinfer|engine.fp4_zeros",
     r"engine\.installs\.0\.packages\.[\w-]+", "not installed is a fact of the package list"),
    ("engine.torch_cuda", r"torch(\..*)?", "--cuda-probe is optional; the build's CUDA is judged"),
    ("hub.reach", r"hub\.redirect_\w+", "a mirror that serves files itself redirects nowhere"),
    ("hub.token", r"hub\.gated", "only a gated model without a token warns"),
)  # fmt: skip


def machines() -> Iterator[tuple[str, dict[str, Any], dict[str, Absence], Target]]:
    yield "27b on a 5090", workstation(), absent_facts(), TARGET_27B
    flash = workstation(TARGET_FLASH)
    flash["gpu"], absent = gpu_facts(
        card(
            Name="NVIDIA RTX PRO 6000 Blackwell",
            MemoryInfo_v2={
                "total": 97887 * 1024**2, "free": 97000 * 1024**2, "used": 0, "reserved": 1,
            },
        )
    )  # fmt: skip
    flash["gpu"]["devices"][0]["processes"] = []
    flash["model"]["config"] = {"model_type": "qwen4_exp", "architectures": ["Qwen4ExpForX"]}
    del flash["model"]["document"]
    yield "flash-next over NVMe", flash, absent, TARGET_FLASH
    pair = workstation()
    pair["gpu"], absent = gpu_facts(card(P2P=0, AddressingMode=0), card(P2P=0, AddressingMode=0))
    for device in pair["gpu"]["devices"]:
        device["processes"] = []
    two = replace(TARGET_27B, argv=(*TARGET_27B.argv, "--tp-size", "2"))
    yield "two cards", pair, absent, two
    alone = workstation()
    del alone["model"]
    nothing = replace(TARGET_27B, profile=None, argv=(), engine=None, model_path=None, repo=None)
    yield "no profile", alone, absent_facts(), nothing
    yield "troubled", troubled(), absent_facts(), TARGET_27B


def troubled() -> dict[str, Any]:
    """Return a machine on which much is wrong: nothing of it may turn green by a missing fact."""
    facts = changed(
        workstation(),
        driver__nouveau=True,
        driver__module_version="580.95.05",
        driver__open_module=False,
        gpu__driver_version="570.86.10",
        gpu__cuda_version=[12, 8],
        port__bind_errno=98,
        memory__available_bytes=5 * 1024**3,
        memory__shm_total_bytes=64 * 1024**2,
        model__missing_count=1,
        model__missing=["model-00002-of-00002.safetensors"],
        model__tokenizer=False,
        toolkit__nvcc_version=[12, 4],
        toolkit__compiler_major=16,
        system__glibc=[2, 31],
        system__encoding="ANSI_X3.4-1968",
        server__answers=True,
    )
    facts["env"]["set"] |= {
        "HTTP_PROXY": "http://proxy:3128",
        "HF_ENDPOINT": "https://hf-mirror.com",
    }
    facts["env"]["unset"] = [
        name for name in facts["env"]["unset"] if name not in facts["env"]["set"]
    ]
    facts["driver"]["xid"] = {"count": 2, "codes": [79], "lost": True, "last": "NVRM: Xid 79"}
    facts["gpu"]["devices"][0] |= {"temperature_c": 90.0, "throttle_bits": 0x48}
    facts["disk"]["paths"][0]["space"]["available_bytes"] = 10
    facts["disk"]["paths"][0]["space"]["inodes_available"] = 0
    facts["disk"]["paths"][0]["direct"]["resident"] = 256
    facts["engine"]["installs"][0]["packages"]["torch"] = "2.11.0"
    facts["engine"]["installs"][0]["flags"]["unknown"] = [{"flag": "--bogus", "near": []}]
    return facts


def leaves(value: Any, prefix: str = "") -> Iterator[str]:
    """Give the path of every value, inner ones included."""
    if prefix and not prefix.startswith("model.document."):
        yield prefix
    if prefix == "model.document":
        return
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        items = enumerate(value)
    for key, inner in items:
        yield from leaves(inner, f"{prefix}.{key}" if prefix else str(key))


def without(tree: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a copy of the tree without one value; untouched branches are shared."""

    def cut(value: Any, names: list[str]) -> Any:
        if isinstance(value, dict):
            copy: Any = dict(value)
            key: Any = names[0]
        else:
            copy = list(value)
            key = int(names[0])
        if len(names) == 1:
            # An element of a list keeps its place, so that the others keep their paths.
            if isinstance(copy, dict):
                del copy[key]
            else:
                copy[key] = {}
        else:
            copy[key] = cut(value[key], names[1:])
        return copy

    result: dict[str, Any] = cut(tree, path.split("."))
    return result


def judged(
    check: Check, tree: dict[str, Any], absent: dict[str, Absence], target: Target
) -> tuple[CheckResult, set[str]]:
    trace: set[str] = set()
    return judge(check, Facts(tree, absent, trace=trace), target), trace


def excused(check_id: str, path: str) -> bool:
    return any(
        fnmatchcase(check_id, glob) and re.fullmatch(pattern, path)
        for names, pattern, _ in STILL_PROVED
        for glob in names.split("|")
    )


@pytest.mark.parametrize(
    ("tree", "absent", "target"),
    [pytest.param(*rest, id=name) for name, *rest in machines()],
)
def test_a_missing_fact_never_earns_ok(
    tree: dict[str, Any], absent: dict[str, Absence], target: Target
) -> None:
    baseline = {check.id: judged(check, tree, absent, target) for check in CHECKS}
    paths = list(leaves(tree))
    problems: list[str] = []
    for number, path in enumerate(paths):
        reason = list(SkipReason)[number % len(SkipReason)]
        if reason is SkipReason.NOT_APPLICABLE:
            reason = SkipReason.UNSUPPORTED
        cut, gone = without(tree, path), absent | {path: Absence(reason, Text("removed"))}
        for check in CHECKS:
            before, trace = baseline[check.id]
            touched = any(read == path or read.startswith(path + ".") for read in trace)
            if not touched:
                continue
            after, _ = judged(check, cut, gone, target)
            assert not str(after.observed).startswith("the check itself failed"), (check.id, path)
            if after.status is not Status.OK:
                continue
            if before.status is not Status.OK:
                problems.append(f"{check.id} turned OK without {path}")
            elif not excused(check.id, path):
                problems.append(f"{check.id} stayed OK without {path}")
    assert not problems, "\n".join(sorted(set(problems)))


def test_nothing_is_ok_when_no_collector_answered() -> None:
    absent = {c.name: Absence(SkipReason.TIMEOUT, Text("no answer within 5 s")) for c in COLLECTORS}
    for target in (TARGET_27B, TARGET_FLASH, replace(TARGET_27B, profile=None)):
        for check in CHECKS:
            result = judge(check, Facts({}, absent), target)
            assert result.status is not Status.OK, check.id
            if check.wanted(target) is None and check.required(target):
                assert result.status is Status.FAIL, check.id


def test_a_healthy_machine_is_green_and_the_troubled_one_is_not() -> None:
    statuses = {
        check.id: judge(check, Facts(workstation(), absent_facts()), TARGET_27B).status
        for check in CHECKS
    }
    assert {i for i, s in statuses.items() if s in {Status.FAIL, Status.WARN}} == set()
    bad = {
        check.id
        for check in CHECKS
        if judge(check, Facts(troubled(), absent_facts()), TARGET_27B).status is Status.FAIL
    }
    assert {"driver.nouveau", "driver.min", "net.port", "model.index", "engine.flags"} <= bad


def test_judges_read_only_the_collectors_that_they_declare() -> None:
    for _, tree, absent, target in machines():
        for check in CHECKS:
            _, trace = judged(check, tree, absent, target)
            read = {path.partition(".")[0] for path in trace}
            assert read <= set(check.sources) | set(check.uses), check.id


def test_every_source_is_a_collector_and_every_explainer_a_check() -> None:
    names = {collector.name for collector in COLLECTORS}
    ids = [check.id for check in CHECKS]
    assert len(ids) == len(set(ids))
    for check in CHECKS:
        assert set(check.sources) | set(check.uses) <= names, check.id
        assert set(check.explained_by) <= set(ids), check.id
        assert str(check.title), check.id
        assert str(check.why), check.id


def test_explanations_have_no_cycle() -> None:
    explained = {check.id: set(check.explained_by) for check in CHECKS}
    while explained:
        free = {name for name, roots in explained.items() if not roots & set(explained)}
        assert free, explained
        for name in free:
            del explained[name]
