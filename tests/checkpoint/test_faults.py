"""Every rule has a checkpoint that breaks only it, and two faults come out cause first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from checkpoint.faults import FAULTS, FILE_FAULTS, Fault, FileFault
from qwen_tui_diagnostics.checkpoint import verify
from qwen_tui_diagnostics.checkpoint.collect import all_rules
from support.checkpoints import healthy

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_diagnostics.checkpoint import VerifyReport

# Not broken by a change of a healthy checkpoint: tested on their own.
ELSEWHERE = {"F01", "F12", "M00", "Q00", "M12",
             "H01", "H02", "H03", "H04", "H05", "H06", "S01", "S02"}  # fmt: skip


def _check(report: VerifyReport, fault: Fault | FileFault) -> None:
    found = [(f.rule, f.severity.value) for f in report.findings]
    first = report.findings[0] if report.findings else None
    assert first is not None, "silent"
    assert (first.rule, first.severity.value) == (fault.rule, fault.severity), (
        found,
        first.evidence,
        str(first.detail),
    )
    text = " ".join(
        [str(first.title), str(first.detail), str(first.evidence), *first.tensors, *first.files]
    )
    assert fault.say.lower() in text.lower(), text
    assert str(first.consequence)
    if fault.alone:
        others = [pair for pair in found[1:] if pair[1] != "info"]
        assert not others, (others, [str(f.detail) for f in report.findings[1:]])
    expected = {"error": "error", "warn": "warn", "info": "ok"}[fault.severity]
    assert report.verdict.value == expected


@pytest.mark.parametrize("fault", FILE_FAULTS, ids=lambda f: f.name)
def test_files(fault: FileFault, tmp_path: Path) -> None:
    folder = healthy(fault.kind).write(tmp_path / "x")
    fault.change(folder)
    _check(verify(folder), fault)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_tensors(fault: Fault, tmp_path: Path) -> None:
    checkpoint = healthy(fault.kind, **fault.healthy)
    fault.change(checkpoint)
    _check(verify(checkpoint.write(tmp_path / "x"), **fault.options), fault)


def test_every_rule_is_broken_by_something() -> None:
    broken = {fault.rule for fault in FAULTS} | {fault.rule for fault in FILE_FAULTS}
    assert set(all_rules()) - broken == ELSEWHERE


def _name(fault: object) -> str:
    assert isinstance(fault, Fault | FileFault)
    return fault.name


PAIRS = [
    (files, tensors)
    for files in FILE_FAULTS
    for tensors in FAULTS
    if files.severity == tensors.severity == "error"
    and files.rule[0] in "FN"
    and not tensors.options
    and tensors.rule in {"Q02", "Q03", "Q05", "Q10", "M05", "Q20"}
    and files.say in {"17,716,740,096", "5 bytes are missing", "1 of 2", "ghost", "BF17"}
]


@pytest.mark.parametrize(("files", "tensors"), PAIRS[::4], ids=_name)
def test_two_faults_cause_first(files: FileFault, tensors: Fault, tmp_path: Path) -> None:
    """Damaged bytes come before what the config gets wrong, and nothing is invented."""
    checkpoint = healthy(tensors.kind, **tensors.healthy)
    tensors.change(checkpoint)
    folder = checkpoint.write(tmp_path / "x")
    files.change(folder)
    report = verify(folder)
    rules = [f.rule for f in report.findings if f.severity.value == "error"]
    assert rules[0] == files.rule
    # What the lost file would have held is not reported as missing.
    assert "M03" not in rules
    assert report.judged.model.value == "partial"
    if files.rule in {"N03", "N02"}:
        assert tensors.rule in rules
