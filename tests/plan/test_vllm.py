"""vLLM: layouts and token counts that real boots printed, without a free parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from plan.boots import config
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.plan.model import read_model
from qwen_tui_profiles.plan.predict import PlanRequest, predict
from qwen_tui_profiles.plan.solve_vllm import block_layout
from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.result import Plan


@dataclass(frozen=True)
class Printed:
    name: str
    model: str
    version: str
    args: str
    kv_gib: float
    blocks: int
    block_tokens: int
    full_request: int
    tokens: int
    concurrency: float


_MTP = '--speculative-config {{"method":"mtp","num_speculative_tokens":{n}}} '

PRINTED = (
    Printed(
        "27B fp8, MTP 2, align",
        "qwen38-27b",
        "0.28.0",
        _MTP.format(n=2) + "--kv-cache-dtype fp8 --max-model-len 262144",
        48.6,
        936,
        1_600,
        176,
        1_394_129,
        5.32,
    ),
    Printed(
        "35B-A3B bf16, MTP 3, align",
        "qwen35-35b-a3b",
        "0.28.0",
        _MTP.format(n=3) + "--max-model-len 200000",
        71.15,
        3_163,
        1_072,
        202,
        3_131_683,
        15.66,
    ),
    Printed(
        "35B-A3B fp8, 0.20.0, old meaning of the token count",
        "qwen35-35b-a3b",
        "0.20.0",
        "--kv-cache-dtype fp8 --max-model-len 65536 --enable-prefix-caching",
        2.95,
        147,
        2_096,
        38,
        75_456,
        3.87,
    ),
    Printed(
        "seed 003, cache off",
        "flash-next",
        "0.30.0",
        _MTP.format(n=3) + "--max-model-len 262144 --no-enable-prefix-caching",
        18.13,
        443,
        1_600,
        181,
        641_601,
        2.45,
    ),
    Printed(
        "seed 003, 10.82 GiB at a context of 32,768",
        "flash-next",
        "0.30.0",
        _MTP.format(n=3) + "--max-model-len 32768 --no-enable-prefix-caching",
        10.82,
        264,
        1_600,
        38,
        227_651,
        6.95,
    ),
)


def _plan(row: Printed) -> Plan:
    return predict(
        PlanRequest(
            row.args.split(),
            config(row.model),
            engine=EngineKind.VLLM,
            engine_version=row.version,
            kv_memory_gib=row.kv_gib,
        )
    )


@pytest.mark.parametrize("row", PRINTED, ids=lambda r: r.name)
def test_printed_pool(row: Printed) -> None:
    plan = _plan(row)
    details = plan.details["vllm"]
    assert isinstance(details, dict)
    assert details["block_tokens"] == row.block_tokens
    assert details["blocks"]["value"] == row.blocks
    assert details["blocks_per_full_request"] == row.full_request
    assert plan.kv_tokens.value == row.tokens
    assert details["concurrency"]["value"] == pytest.approx(row.concurrency, abs=0.006)


@pytest.mark.parametrize(
    ("kv_bytes", "drafts", "block"), [(2, 0, 784), (1, 0, 1_568), (2, 2, 800), (1, 3, 1_600)]
)
def test_block_of_the_27b(kv_bytes: int, drafts: int, block: int) -> None:
    # vllm #47430 prints 784; the others follow from the same page.
    layout = block_layout(
        read_model(config("qwen38-27b")),
        engine_version="0.23.0",
        kv_bytes=kv_bytes,
        state_dtype=None,
        drafts=drafts,
        prefix_caching=False,
    )
    assert layout.block_tokens == block


def test_fixed_blocks_bound_short_requests() -> None:
    # Seed 003: 452 blocks (18.5 GiB) hold 25 requests of one block, 19 of 8K, 11 of 32K, 2 full.
    row = Printed(
        "",
        "flash-next",
        "0.30.0",
        PRINTED[3].args + " --max-num-seqs 64",
        18.5,
        452,
        1_600,
        181,
        0,
        0.0,
    )
    plan = _plan(row)
    details = plan.details["vllm"]
    assert isinstance(details, dict)
    assert details["at_once"] == {"2048": 23, "8192": 19, "32768": 11, "262144": 2}
    assert plan.requests == 25
    assert plan.limited_by == "state blocks"
    assert any(f.rule == "plan-vllm-state-blocks" for f in plan.findings)


def test_pool_too_small_names_the_context_that_fits() -> None:
    # A 27B that died on 0.27.x: "15,984 fit" in 1.56 GiB, 4.76 GiB needed for 65,536.
    flags = "--mamba-ssm-cache-dtype bfloat16 --max-model-len 65536 --enable-prefix-caching"
    plan = predict(
        PlanRequest(
            [*_MTP.format(n=4).split(), *flags.split()],
            config("qwen38-27b"),
            engine=EngineKind.VLLM,
            engine_version="0.27.1",
            kv_memory_gib=1.56,
        )
    )
    assert plan.fits is False
    assert plan.failure_class == "context_exceeds_kv"
    assert plan.context_usable == 15_984
    details = plan.details["vllm"]
    assert isinstance(details, dict)
    assert details["block_tokens"] == 432
    needed = details["blocks_per_full_request"] * details["block_bytes"] / (1 << 30)
    assert needed == pytest.approx(4.76, abs=0.005)


def test_unpredictable_profiling_run_is_an_interval() -> None:
    plan = predict(
        PlanRequest(
            ["--gpu-memory-utilization", "0.9", "--max-model-len", "32768"],
            config("qwen38-27b"),
            engine=EngineKind.VLLM,
            engine_version="0.33.0",
            total_gib=79.6,
        )
    )
    tokens = plan.kv_tokens
    assert tokens.low is not None
    assert tokens.value is not None
    assert tokens.high is not None
    assert tokens.low < tokens.value < tokens.high
    assert any(item.name == "profiling_overhead_gib" for item in plan.assumed)


def test_verdict_is_open_where_the_profiling_run_decides() -> None:
    # Beside 51 GiB of weights one full request fits always, never, or only if profiling is modest.
    verdicts = set()
    for total in (60.0, 64.0, 66.0, 70.0, 90.0):
        plan = predict(
            PlanRequest(
                [
                    "--gpu-memory-utilization",
                    "0.9",
                    "--max-model-len",
                    "131072",
                    "--max-num-seqs",
                    "4",
                ],
                config("qwen38-27b"),
                engine=EngineKind.VLLM,
                engine_version="0.33.0",
                total_gib=total,
            )
        )
        verdicts.add(plan.fits)
    assert verdicts == {True, False, None}


def test_bad_speculative_config_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        predict(
            PlanRequest(
                ["--speculative-config", "{nonsense"],
                config("qwen38-27b"),
                engine=EngineKind.VLLM,
                kv_memory_gib=10,
            )
        )
