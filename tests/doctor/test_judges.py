"""Every check on literal facts: what makes it OK, what makes it speak, in which words.

A row (``support.doctor_rows``) starts from a healthy machine, an RTX 5090 workstation with SGLang
0.5.23, and changes facts. Expectations come from the vendors' tables and the public reports named
beside the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_diagnostics.checks import CHECKS
from qwen_tui_diagnostics.facts import Absence
from qwen_tui_diagnostics.result import SkipReason, Status
from qwen_tui_profiles.text import Text
from support.doctor_machines import (
    GIB,
    TARGET_27B,
    TARGET_FLASH,
    absent_facts,
    card,
    verdict,
    workstation,
)
from support.doctor_rows import ROWS
from support.doctor_rows.base import ALONE, FAIL, OK, SKIP, TWO, WARN, base, cards, gpu

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target


@pytest.mark.parametrize(
    ("check_id", "facts", "target", "status", "phrase"),
    [pytest.param(*row, id=f"{row[0]}-{row[3]}-{row[4][:24]}") for row in ROWS],
)
def test_judge(
    check_id: str, facts: dict[str, Any], target: Target, status: Status, phrase: str
) -> None:
    result = verdict(check_id, facts, target)
    text = f"{result.observed} {' '.join(map(str, result.detail))}"
    assert result.status is status, f"{result.observed} {result.detail}"
    assert phrase in text
    if status is FAIL and not str(result.observed).startswith("could not be read"):
        assert result.expected is not None
        assert result.consequence is not None
        assert result.remedy is not None
    if status is SKIP:
        assert result.reason is not None


def test_every_check_has_a_row_that_is_ok_and_one_that_is_not() -> None:
    speaks = {row[0] for row in ROWS if row[3] in {WARN, FAIL}}
    quiet = {
        check.id for check in CHECKS if verdict(check.id, workstation(), TARGET_27B).status is OK
    } | {row[0] for row in ROWS if row[3] is OK}
    # Reports a place or a pointer, and has nothing to complain about.
    never_speaks = {"sys.container", "hub.verify", "sys.own_python"}
    never_ok = {"hub.verify"}
    assert {check.id for check in CHECKS} - speaks == never_speaks
    assert {check.id for check in CHECKS} - quiet == never_ok


def test_an_unreadable_required_fact_is_not_a_skip() -> None:
    facts = gpu(memory_free_bytes=None)
    absent = absent_facts() | {
        "gpu.devices.0.memory_free_bytes": Absence(SkipReason.NOT_PERMITTED, Text("not-permitted"))
    }
    result = verdict("gpu.vram_free", facts, TARGET_27B, absent)
    assert result.status is WARN
    assert "gpu.devices.0.memory_free_bytes" in str(result.observed)
    assert "not-permitted" in str(result.observed)


def test_geforce_without_mig_is_not_a_warning() -> None:
    result = verdict("gpu.mig", workstation())
    assert result.status is SKIP
    assert result.reason is SkipReason.NOT_APPLICABLE


def test_the_cut_of_the_mask_is_named() -> None:
    facts = cards(card(), card())
    facts["env"]["set"]["CUDA_VISIBLE_DEVICES"] = "0,7,1"
    facts["env"]["unset"].remove("CUDA_VISIBLE_DEVICES")
    result = verdict("gpu.selected", facts, TWO)
    assert result.status is FAIL
    assert "'7'" in str(result.detail[0])


@pytest.mark.parametrize(
    ("engine", "argv", "gpus", "gpus_a_replica"),
    [
        ("sglang", "", 1, 1),
        ("sglang", "--tp 2", 2, 2),
        ("sglang", "--tp-size 2 --pp-size 2 --nnodes 2", 2, 4),
        ("sglang", "--dp-size 2", 2, 1),
        ("sglang", "--dp-size=2 --tp-size=2", 4, 2),
        ("sglang", "--dp-size 4 --tp-size 4 --enable-dp-attention", 4, 4),
        ("vllm", "--data-parallel-size 2 --tensor-parallel-size 2", 4, 2),
        ("vllm", "-dp 4 -dpl 2", 2, 1),
        ("sglang", "--dp-size two", 1, 1),
    ],
)
def test_gpus_of_a_launch(engine: str, argv: str, gpus: int, gpus_a_replica: int) -> None:
    target = replace(TARGET_27B, engine=engine, argv=tuple(argv.split()))
    assert (target.gpus, target.gpus_a_replica) == (gpus, gpus_a_replica)


def test_each_replica_has_a_gpu_that_is_judged() -> None:
    replicas = replace(TARGET_27B, argv=(*TARGET_27B.argv, "--dp-size", "2"))
    facts = cards(card(), card())
    chosen = str(verdict("gpu.selected", facts, replicas).observed)
    assert "GPU 0" in chosen
    assert "GPU 1" in chosen
    assert verdict("gpu.selected", cards(card()), replicas).status is FAIL
    assert verdict("gpu.vram_free", facts, replicas).status is OK
    facts["gpu"]["devices"][1]["memory_free_bytes"] = 1 * GIB
    full = verdict("gpu.vram_free", facts, replicas)
    assert full.status is FAIL
    assert "GPU 1" in str(full.observed)
    between = verdict("gpu.p2p", facts, replicas)
    assert (between.status, str(between.observed)) == (SKIP, "each replica has one GPU")


def test_our_own_server_counts_as_free_memory() -> None:
    facts = gpu(
        memory_free_bytes=1 * GIB,
        processes=[{"pid": 7, "kind": "compute", "used_bytes": 30 * GIB, "name": "sglang"}],
    )
    assert verdict("gpu.vram_free", facts).status is FAIL
    assert verdict("gpu.vram_free", facts, replace(TARGET_27B, own_pids=(7,))).status is OK


def test_the_rate_of_a_disk_is_given_in_tokens() -> None:
    # 100,000 reads/s ÷ 16.6 reads a token = 6,024 tokens/s.
    facts = base(bench__samples__random_512__reads_per_s=100_000.0)
    result = verdict("disk.randread", facts, TARGET_FLASH)
    assert "6,024 tokens/s" in " ".join(map(str, result.detail))


def test_several_engines_are_listed() -> None:
    facts = workstation()
    facts["engine"]["installs"].append(facts["engine"]["installs"][0] | {"interpreter": "/b"})
    assert verdict("engine.found", facts).status is WARN
    assert verdict("engine.found", facts, ALONE).status is OK
