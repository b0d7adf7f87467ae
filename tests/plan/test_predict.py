"""The plan as a whole: other families, refusals, unknowns, bad input, intervals, host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.boots import BOOTS, config
from qwen_tui_profiles.errors import InputError, QwenTuiError, UsageError
from qwen_tui_profiles.plan.headers import StoredSizes
from qwen_tui_profiles.plan.predict import PlanRequest, predict
from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.result import Plan

_GIB = 1 << 30
_LLAMA: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
_MLA: dict[str, object] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "moe_intermediate_size": 1024,
    "num_hidden_layers": 24,
    "first_k_dense_replace": 1,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "q_lora_rank": 768,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "vocab_size": 100000,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def _sglang(
    args: str, document: dict[str, object], version: str = "0.5.23", **more: object
) -> Plan:
    more.setdefault("free_gib", 30.0)
    return predict(PlanRequest(args.split(), document, engine_version=version, **more))  # type: ignore[arg-type]


def test_plain_gqa_by_hand() -> None:
    plan = _sglang("--mem-fraction-static 0.9 --kv-cache-dtype fp8_e4m3", _LLAMA, weights_gib=15.0)
    # 32 layers · 8 heads · 2 · 128 · 1 B = 65,536 B a token; 30 − 15 − 30.10·0.1 GiB, less
    # the 2 MiB that the rotary cache grows by: 131,328 · 512 B instead of 131,072 · 512 B.
    assert plan.cell_bytes == 65_536
    expected = (30.0 - 15.0 - 30.10 * 0.1 - 2 / 1024) * _GIB // 65_536
    assert plan.kv_tokens.value == pytest.approx(expected, abs=1)
    assert plan.state is None
    assert plan.fits
    # max(min(tokens/context·512, 4096), 2048) without a request limit of one's own.
    assert plan.requests == 2_048


def test_old_printed_gqa_boot() -> None:
    # Qwen2-7B on a 24 GB card: 22.76 GB free, 8.37 after the weights, fraction 0.88.
    document = {
        **_LLAMA,
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
    }
    plan = _sglang(
        "--mem-fraction-static 0.88", document, "0.5.9", free_gib=22.76, weights_gib=14.39
    )
    assert plan.kv_tokens.value == pytest.approx(105_531, rel=0.003)
    assert plan.context_usable == plan.kv_tokens.value - 6  # type: ignore[operator]
    clamp = next(c for c in plan.clamps if c.arg == "--context-length")
    assert clamp.asked == 131_072


def test_mla_keeps_one_latent_a_token() -> None:
    plan = _sglang("--mem-fraction-static 0.9", _MLA)
    assert plan.cell_bytes == 24 * (512 + 64) * 2


def test_moe_counts_every_expert() -> None:
    document = config("qwen35-35b-a3b")
    plan = _sglang("--mem-fraction-static 0.9 --max-mamba-cache-size 8", document, free_gib=94.0)
    # 40 layers of 256 experts of 3·2048·512 parameters are 60 GiB on their own.
    assert plan.weights_gib is not None
    assert plan.weights_gib > 40 * 256 * 3 * 2048 * 512 * 2 / _GIB
    assert plan.fits


def test_unknown_class_is_not_guessed() -> None:
    for name in ("FancyForCausalLM", "DeepseekV32ForCausalLM", "Gemma3ForCausalLM"):
        plan = _sglang("--mem-fraction-static 0.9", {**_LLAMA, "architectures": [name]})
        assert plan.fits is None
        assert plan.kv_tokens.value is None
        assert [f.rule for f in plan.findings] == ["plan-architecture-unknown"]
        assert name in str(plan.findings[0].title)


def test_weights_that_dimensions_do_not_give() -> None:
    plan = _sglang("--mem-fraction-static 0.9", config("flash-next"), free_gib=94.0)
    assert plan.fits is None
    assert plan.findings[0].rule == "plan-weights-unknown"
    stored = StoredSizes(60 * _GIB, _GIB, _GIB, _GIB, _GIB, 51_200_245_760, 10, 2)
    sized = _sglang(
        "--mem-fraction-static 0.9 --max-mamba-cache-size 16 --kv-cache-dtype fp8_e4m3",
        config("flash-next"),
        free_gib=94.0,
        stored=stored,
    )
    assert sized.fits
    # 12 layers · 2 heads · 512 · 1 B and 12 · 128·2/4 B of compressed index keys.
    assert sized.cell_bytes == 12 * 1_024 + 12 * 64
    assert sized.kv_tokens.value is not None
    assert sized.kv_tokens.value % 64 == 0
    table = next(line for line in sized.budget if line.part == "ple_table")
    assert table.where == "host"
    assert table.gib == pytest.approx(47.68, abs=0.01)


def test_ple_row_cache_of_the_fork_is_host_memory_and_disk_reads() -> None:
    stored = StoredSizes(60 * _GIB, _GIB, _GIB, _GIB, _GIB, 0, 10, 2)
    plan = _sglang(
        "--mem-fraction-static 0.9 --max-mamba-cache-size 16",
        config("flash-next"),
        free_gib=94.0,
        stored=stored,
        env={
            "SGLANG_QWEN4_PLE_NVME_CACHE_MODE": "row",
            "SGLANG_QWEN4_PLE_NVME_CACHE_BYTES": "536870912",
            "SGLANG_QWEN4_PLE_NVME_CACHE_PAGES": "0",
        },
    )
    parts = {line.part: line for line in plan.budget}
    assert parts["ple_cache"].gib == 0.5
    assert parts["ple_cache"].where == "host"
    # From the dimensions: 16 · 20,000,000 rows of 160 B.
    assert parts["ple_reads"].gib == pytest.approx(47.68, abs=0.01)
    assert "16.6" in str(parts["ple_reads"].basis)
    paged = _sglang(
        "--mem-fraction-static 0.9 --max-mamba-cache-size 16",
        config("flash-next"),
        free_gib=94.0,
        stored=stored,
        env={"SGLANG_QWEN4_PLE_NVME_CACHE_PAGES": "5242880"},
    )
    assert next(x.gib for x in paged.budget if x.part == "ple_cache") == 20.0


def test_hicache_takes_host_memory() -> None:
    boot = next(b for b in BOOTS if b.name == "tiny-hicache")
    plan = _sglang(boot.args, config(boot.model), "0.5.17", free_gib=boot.free_gib)
    line = next(x for x in plan.budget if x.part == "hicache")
    # The log: 240,956 tokens in 1.97 GB, and 0.04 GB for the states; 2 GB are 1.86 GiB.
    assert line.gib == pytest.approx(1.8626, abs=0.001)
    tokens = int(str(line.basis).split(": ")[1].split()[0])
    assert tokens == pytest.approx(240_956, rel=0.002)


def test_gpu_lines_add_up_to_the_free_memory() -> None:
    for boot in BOOTS:
        plan = _sglang(boot.args, config(boot.model), "0.5.17", free_gib=boot.free_gib)
        if plan.fits:
            total = sum(line.gib or 0.0 for line in plan.budget if line.where == "gpu")
            assert total == pytest.approx(boot.free_gib, abs=1e-6)
            assert all(str(line.basis) for line in plan.budget)


def test_refusals_before_the_pools() -> None:
    lazy = (
        "--mem-fraction-static 0.9 --mamba-radix-cache-strategy extra_buffer_lazy "
        "--max-mamba-cache-size 8 --speculative-algorithm NEXTN"
    )
    document = config("qwen38-27b")
    for version, starts in (("0.5.14", False), ("0.5.16", False), ("0.5.17", True)):
        plan = _sglang(lazy, document, version, free_gib=94.0)
        assert plan.fits is starts
        assert (plan.failure_class is None) is starts
    long = _sglang("--mem-fraction-static 0.9 --context-length 1000000", document, free_gib=94.0)
    assert long.failure_class == "context_too_long"
    allowed = _sglang(
        "--mem-fraction-static 0.9 --context-length 1000000",
        document,
        free_gib=94.0,
        env={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
    )
    assert allowed.fits
    old = _sglang("--mem-fraction-static 0.9", config("hybrid-27b"), "0.5.14", free_gib=94.0)
    assert old.fits is False
    assert "0.5.17" in str(old.failure)


def test_minimum_fraction_is_named_and_enough() -> None:
    args = "--kv-cache-dtype fp8_e4m3 --max-mamba-cache-size 8 --mem-fraction-static "
    plan = _sglang(args + "0.40", config("qwen38-27b"), free_gib=94.0)
    assert plan.failure_class == "kv_pool_no_memory"
    assert plan.minimum_fraction is not None
    better = _sglang(
        args + f"{plan.minimum_fraction + 0.001:g}", config("qwen38-27b"), free_gib=94.0
    )
    assert better.failure is None


def test_draft_weights_are_counted_from_0_5_14_on() -> None:
    args = (
        "--mem-fraction-static 0.9 --kv-cache-dtype fp8_e4m3 --max-mamba-cache-size 16 "
        "--max-running-requests 2 --mamba-scheduler-strategy extra_buffer "
        "--speculative-algorithm NEXTN"
    )
    before = _sglang(args, config("qwen38-27b"), "0.5.13", free_gib=94.0)
    after = _sglang(args, config("qwen38-27b"), "0.5.14", free_gib=94.0)
    assert before.kv_tokens.value is not None
    assert after.kv_tokens.value is not None
    difference = (before.kv_tokens.value - after.kv_tokens.value) * 32_768 / _GIB
    assert difference == pytest.approx(5.53, abs=0.003)
    # Either way it is on the card: the slack pays for what the pools did not.
    assert before.slack_gib is not None
    assert after.slack_gib is not None
    assert after.slack_gib - before.slack_gib > 5


def test_unclamped_intermediates_up_to_0_5_12() -> None:
    args = (
        "--mem-fraction-static 0.9 --max-mamba-cache-size 16 --mamba-ssm-dtype bfloat16 "
        "--kv-cache-dtype fp8_e4m3 --mamba-scheduler-strategy extra_buffer "
        "--max-running-requests {n} --speculative-algorithm NEXTN"
    )
    tokens = [
        _sglang(args.format(n=n), config("qwen38-27b"), "0.5.12", free_gib=94.0).kv_tokens.value
        for n in (4, 5)
    ]
    assert tokens[0] is not None
    assert tokens[1] is not None
    # One request more is charged 4 bf16 states although the slots admit 3 in both.
    assert tokens[0] - tokens[1] == pytest.approx(4 * 78_446_592 / 32_768, abs=1)


def test_multimodal_reserve_by_release() -> None:
    args = "--mem-fraction-static 0.9 --max-mamba-cache-size 8 --kv-cache-dtype fp8_e4m3"
    by_version = {
        version: _sglang(args, config("qwen38-27b"), version, free_gib=94.0).kv_tokens.value
        for version in ("0.5.17", "0.5.18")
    }
    assert by_version["0.5.17"] is not None
    assert by_version["0.5.18"] is not None
    # 100 MiB are kept back from 0.5.18 on; text classes keep nothing.
    lost = (by_version["0.5.17"] - by_version["0.5.18"]) * 32_768 / (1 << 20)
    assert lost == pytest.approx(100, abs=0.1)
    on_card = _sglang(
        args + " --mm-feature-transport cuda_ipc", config("qwen38-27b"), "0.5.18", free_gib=94.0
    ).kv_tokens.value
    assert on_card is not None
    assert (by_version["0.5.18"] - on_card) * 32_768 / (1 << 20) == pytest.approx(1024, abs=0.1)


def test_live_free_memory_knows_the_feature_pool_of_0_5_17() -> None:
    # An idle H200 offers 139.80 GiB; the recorded boots printed 139.09–139.13 for text classes and
    # 137.58 for the wrapped one.
    for name, printed in (("hybrid-27b", 139.11), ("hybrid-27b-cg", 137.58)):
        plan = _sglang(
            "--mem-fraction-static 0.62 --max-mamba-cache-size 8 --kv-cache-dtype fp8_e4m3",
            config(name),
            "0.5.17",
            free_gib=None,
            live_free_gib=139.80,
        )
        exact = _sglang(
            "--mem-fraction-static 0.62 --max-mamba-cache-size 8 --kv-cache-dtype fp8_e4m3",
            config(name),
            "0.5.17",
            free_gib=printed,
        )
        assert exact.kv_tokens.value is not None
        assert plan.kv_tokens.value == pytest.approx(exact.kv_tokens.value, rel=0.005)
        assert plan.kv_tokens.low is not None
        assert plan.kv_tokens.high is not None
        assert plan.kv_tokens.low < exact.kv_tokens.value < plan.kv_tokens.high
        assert any(item.name == "free_gib" for item in plan.assumed)


def test_total_alone_is_a_wider_interval() -> None:
    args = "--mem-fraction-static 0.9 --max-mamba-cache-size 8 --kv-cache-dtype fp8_e4m3"
    given = _sglang(args, config("qwen38-27b"), free_gib=94.0)
    total = _sglang(args, config("qwen38-27b"), free_gib=None, total_gib=95.6)

    def width(plan: Plan) -> int:
        assert plan.kv_tokens.low is not None
        assert plan.kv_tokens.high is not None
        return plan.kv_tokens.high - plan.kv_tokens.low

    assert width(total) > 2 * width(given)


@pytest.mark.parametrize(
    ("total", "name", "version", "printed"),
    [
        # H200: the recorded boots of both classes; RTX 5090: what seed 000's rows come to.
        (143_771 / 1024, "hybrid-27b", "0.5.17", 139.11),
        (143_771 / 1024, "hybrid-27b-cg", "0.5.17", 137.58),
        (32_607 / 1024, "qwen38-27b", "0.5.18", 31.01),
    ],
)
def test_total_alone_comes_near_the_printed_memory(
    total: float, name: str, version: str, printed: float
) -> None:
    plan = _sglang(
        "--mem-fraction-static 0.97 --max-mamba-cache-size 8",
        config(name),
        version,
        free_gib=None,
        total_gib=total,
        weights_gib=18.0,
    )
    taken = next(item.value for item in plan.assumed if item.name == "free_gib")
    assert taken == pytest.approx(printed, abs=0.06)


def test_both_sizes_do_what_each_is_for() -> None:
    # The printed free memory sizes the pools, the total feeds the automatic fraction.
    args = (
        "--max-mamba-cache-size 8 --kv-cache-dtype fp8_e4m3 --cuda-graph-backend-prefill disabled"
    )
    plan = _sglang(args, config("hybrid-27b"), "0.5.17", free_gib=139.13, total_gib=143_771 / 1024)
    # 512 + 1.5·8192 + 128 + 2·256 = 13,440 MiB of 143,771.
    assert plan.fraction == round((143_771 - 13_440) / 143_771, 3)
    assert not any(item.name == "total_gib" for item in plan.assumed)


def test_speculation_notes() -> None:
    args = (
        "--mem-fraction-static 0.9 --max-mamba-cache-size 8 --speculative-algorithm EAGLE "
        "--speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 9 "
        "--enable-mixed-chunk"
    )
    plan = _sglang(args, config("qwen38-27b"), free_gib=94.0)
    clamps = {c.arg: (c.asked, c.got) for c in plan.clamps}
    assert clamps["--speculative-num-draft-tokens"] == (9, 6)
    assert clamps["--enable-mixed-chunk"] == (True, False)
    assert {c.arg: c.got for c in plan.adjustments}["--max-running-requests"] in {1, 48}
    with pytest.raises(UsageError, match="num-steps"):
        _sglang(
            "--mem-fraction-static 0.9 --speculative-algorithm EAGLE --speculative-eagle-topk 1",
            config("qwen38-27b"),
        )


def test_checkpoint_without_a_head_cannot_draft() -> None:
    document = config("hybrid-27b")
    document["mtp_num_hidden_layers"] = 0
    args = "--mem-fraction-static 0.9 --max-mamba-cache-size 8 --speculative-algorithm NEXTN"
    plan = _sglang(args, document, free_gib=94.0)
    assert any(f.rule == "plan-no-draft-head" for f in plan.findings)


def test_draft_from_another_checkpoint_needs_its_size() -> None:
    args = (
        "--mem-fraction-static 0.9 --speculative-algorithm EAGLE3 "
        "--speculative-draft-model-path /models/draft --speculative-num-steps 3"
    )
    plan = _sglang(args, _LLAMA)
    assert plan.fits is None
    assert plan.findings[0].rule == "plan-draft-unknown"
    sized = _sglang(args, _LLAMA, draft_gib=1.5)
    assert sized.draft_gib == 1.5
    assert sized.fits


def test_little_headroom_is_a_finding() -> None:
    # Seed 000: without drafts 0.97 leaves 0.93 GiB and dies, 0.90 leaves 3.1 and works.
    args = "--kv-cache-dtype fp8_e4m3 --max-mamba-cache-size 8 --mem-fraction-static "
    for fraction, fires in (("0.97", True), ("0.90", False)):
        plan = _sglang(args + fraction, config("qwen38-27b"), free_gib=31.01, weights_gib=18.59)
        assert any(f.rule == "plan-little-headroom" for f in plan.findings) is fires


@pytest.mark.parametrize("free", [-1.0, 0.0, float("nan"), float("inf"), 1e9])
def test_absurd_free_memory_is_named(free: float) -> None:
    with pytest.raises(InputError, match="--free-gib"):
        _sglang("--mem-fraction-static 0.9", config("qwen38-27b"), free_gib=free)


def test_no_memory_size_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="memory"):
        _sglang("--mem-fraction-static 0.9", config("qwen38-27b"), free_gib=None)


def test_simulated_engine_has_no_plan() -> None:
    with pytest.raises(UsageError):
        predict(PlanRequest([], config("qwen38-27b"), engine=EngineKind.DEMO, free_gib=30))


@settings(max_examples=150, deadline=None)
@given(
    fraction=st.floats(0.05, 0.99),
    slots=st.none() | st.integers(1, 400),
    requests=st.none() | st.integers(1, 500),
    page=st.sampled_from([1, 16, 32, 64]),
    ratio=st.none() | st.floats(0.01, 20),
    limit=st.none() | st.integers(1, 10**7),
    drafts=st.booleans(),
    free=st.floats(20, 200),
    version=st.sampled_from(["0.5.9", "0.5.13", "0.5.14", "0.5.17", "0.5.23"]),
)
def test_any_launch_is_planned_or_refused_by_name(
    fraction: float,
    slots: int | None,
    requests: int | None,
    page: int,
    ratio: float | None,
    limit: int | None,
    drafts: bool,
    free: float,
    version: str,
) -> None:
    args = ["--mem-fraction-static", f"{fraction:.3f}", "--page-size", str(page)]
    for flag, value in (
        ("--max-mamba-cache-size", slots),
        ("--max-running-requests", requests),
        ("--mamba-full-memory-ratio", ratio),
        ("--max-total-tokens", limit),
    ):
        if value is not None:
            args += [flag, str(value)]
    if drafts:
        args += ["--speculative-algorithm", "NEXTN", "--mamba-scheduler-strategy", "extra_buffer"]
    try:
        plan = predict(
            PlanRequest(args, config("qwen38-27b"), engine_version=version, free_gib=free)
        )
    except QwenTuiError:
        return
    tokens = plan.kv_tokens
    if tokens.value is None:
        assert plan.fits is False
        assert plan.failure is not None
        return
    assert tokens.value > 0
    assert tokens.high is not None
    assert (tokens.low or 0) <= tokens.value <= tokens.high
    if page > 1 and plan.failure is None and version not in {"0.5.9", "0.5.13"}:
        assert tokens.value % page == 0
    if limit is not None:
        assert tokens.value <= limit
    if requests is not None and plan.requests is not None:
        assert plan.requests <= requests
    document = plan.as_json()
    assert document["schema"] == "qwen-tui.plan/1"
