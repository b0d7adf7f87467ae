"""The layouts against published totals, and Flash-Next with its n-gram table."""

from __future__ import annotations

import json
from math import prod
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_diagnostics.checkpoint import Reach, Verdict, verify
from qwen_tui_diagnostics.checkpoint.architecture import ARCHITECTURES, read_dims
from qwen_tui_diagnostics.checkpoint.layout import (
    Experts,
    Need,
    mtp_needs,
    text_needs,
    vision_needs,
)
from qwen_tui_diagnostics.checkpoint.ple import table_rows
from support.checkpoints import PREFIX, Checkpoint, H, Tensor, fp8_tensor, healthy, nvfp4

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DENSE_27B: dict[str, Any] = {
    "tie_word_embeddings": False,
    "text_config": {
        "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64,
        "full_attention_interval": 4, "num_attention_heads": 24, "num_key_value_heads": 4,
        "head_dim": 256, "attn_output_gate": True, "linear_num_key_heads": 16,
        "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "vocab_size": 248320, "mtp_num_hidden_layers": 1,
    },
    "vision_config": {
        "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16,
        "in_channels": 3, "temporal_patch_size": 2, "spatial_merge_size": 2,
        "num_position_embeddings": 2304, "out_hidden_size": 5120,
    },
}  # fmt: skip


def _size(need: Need | Experts) -> int:
    assert isinstance(need, Need)
    # The tower's norm is not sized by the config: 1152 wide, as published.
    shape = need.shape or (1152,)
    assert None not in shape
    return prod(d for d in shape if d is not None)


def test_the_27b_adds_up_to_the_published_total() -> None:
    row, dims = ARCHITECTURES["Qwen3_5ForConditionalGeneration"], read_dims(DENSE_27B)
    text = [need for layer in range(64) for need in text_needs(row, dims, layer)]
    draft, tower = list(mtp_needs(row, dims)), list(vision_needs(dims))
    assert (len(text) + 3, len(draft), len(tower)) == (851, 15, 333)
    assert sum(map(_size, tower)) == 460_730_096
    embed_and_head = 2 * 248320 * 5120 + 5120
    total = sum(map(_size, (*text, *draft, *tower))) + embed_and_head
    # A_log and the delta nets' norms are stored in F32.
    assert 2 * total + 2 * 48 * (48 + 128) == 55_562_872_800


def test_rows_of_the_table() -> None:
    """Published: 320,001,536 rows; the tiny one is 11 + 13 + 17 + 19 = 60."""
    big = {"ngram_size": 3, "heads_per_ngram": 8, "ngram_vocab_size_base": 20_000_000,
           "make_ngram_vocab_size_divisible_by": 128}  # fmt: skip
    rows = table_rows(big, 0)
    assert rows is not None
    assert rows % 128 == 0
    assert abs(rows - 320_001_536) < 128
    assert table_rows({"ngram_size": 3, "heads_per_ngram": 2, "ngram_vocab_size_base": 8}, 0) == 60


def flash(*, parts: int = 4) -> Checkpoint:
    """Return a tiny Flash-Next: NVFP4 experts, BF16 backbone, FP8 table in files of its own."""
    checkpoint = healthy("bf16", experts=2, arch="Qwen4ExpForConditionalGeneration")
    text = checkpoint.config["text_config"]
    text |= {
        "hc_count": 4, "hc_lowrank": 32, "ple_layer_ids": [2], "ngram_size": 3,
        "heads_per_ngram": 2, "ngram_vocab_size_base": 8, "split_ngram_parts": parts,
        "ple_embed_dim": 64, "ple_embedding_dtype": "float8_e4m3fn",
    }  # fmt: skip
    for file, tensors in checkpoint.files.items():
        checkpoint.files[file] = {
            name: tensor
            for name, tensor in tensors.items()
            if "layernorm" not in name and name not in {f"{PREFIX}norm.weight", "mtp.norm.weight",
                                                        "mtp.fc.weight"}
        }  # fmt: skip
    main = checkpoint.files["model.safetensors"]
    draft = checkpoint.files["model_mtp.safetensors"]
    hyper = ("hc_norm", "input_mix_weight_down", "input_mix_weight_up", "block_inject_weight")
    for tensors, at in ((main, f"{PREFIX}layers.0"), (main, f"{PREFIX}layers.1"),
                        (draft, "mtp.layers.0")):  # fmt: skip
        for place in ("attn_hyper_connection", "mlp_hyper_connection"):
            for name in hyper:
                tensors[f"{at}.{place}.{name}"] = Tensor("BF16", (H,))
    for tensors, at in ((main, PREFIX.rstrip(".")), (draft, "mtp")):
        for name in hyper[:3]:
            tensors[f"{at}.hyper_connection_mixer.{name}"] = Tensor("BF16", (H,))
    for tensors, at in ((main, f"{PREFIX}layers.1"), (draft, "mtp.layers.0")):
        for name in ("index_qk_proj", "q_layernorm", "k_layernorm"):
            tensors[f"{at}.self_attn.indexer.{name}.weight"] = Tensor("BF16", (H,))
    for name in ("fc_embedding", "fc_hidden"):
        draft[f"mtp.{name}.weight"] = Tensor("BF16", (H, H))
    ple = f"{PREFIX}layers.1.ple"
    for name in ("key_proj", "value_proj", "norm_key", "norm_query", "norm_conv", "conv1d"):
        main[f"{ple}.{name}.weight"] = Tensor("BF16", (H,))
    for name in ("layer_multipliers", "ngram_heads_vocab_sizes", "ngram_heads_offsets"):
        main[f"{ple}.ple_embedding.{name}"] = Tensor("I64", (4,))
    main[f"{ple}.ple_embedding.ngram_embedding.weight_scale"] = Tensor("F32", (1,))
    # 4 heads: 11 + 13 + 17 + 19 = 60 rows, 64 / 4 = 16 wide.
    checkpoint.files["model-plefp8-00001.safetensors"] = {
        f"{ple}.ple_embedding.ngram_embedding.shard_{k}.weight": Tensor("F8_E4M3", (15, 16))
        for k in range(parts)
    }
    layers: dict[str, Any] = {}
    for layer in (0, 1):
        layers[f"{PREFIX}layers.{layer}.mlp.experts"] = {"quant_algo": "NVFP4", "group_size": 16}
        for number in range(2):
            for part in ("gate_proj", "up_proj", "down_proj"):
                checkpoint.replace(
                    f"{PREFIX}layers.{layer}.mlp.experts.{number}.{part}", nvfp4(H, H)
                )
    layers[f"{ple}.ple_embedding.ngram_embedding"] = {"quant_algo": "FP8"}
    checkpoint.config["quantization_config"] = {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "ignore": ["lm_head", "mtp*"],
        "quantized_layers": layers,
    }  # fmt: skip
    return checkpoint


def test_a_healthy_flash_next(tmp_path: Path) -> None:
    folder = flash().write(tmp_path / "x")
    report = verify(folder, speculative=True)
    assert not report.findings, [(f.rule, f.evidence, str(f.detail)) for f in report.findings]
    assert (report.verdict, report.judged.model, report.judged.quantization) == (
        Verdict.OK, Reach.FULL, Reach.FULL,
    )  # fmt: skip
    assert report.inventory.by_part["ple"] == 60 * 16 + 4
    old = verify(folder, engine_version="0.5.19")
    assert old.findings[0].rule == "M02"
    assert "0.5.20" in str(old.findings[0].remedy)


TABLE = f"{PREFIX}layers.1.ple.ple_embedding.ngram_embedding"


def _unsplit(c: Checkpoint) -> None:
    c.files["model-plefp8-00001.safetensors"] = {f"{TABLE}.weight": Tensor("F8_E4M3", (60, 16))}


@pytest.mark.parametrize(
    ("change", "say"),
    [
        (lambda c: c.pop(f"{TABLE}.shard_2.weight"), "Shards 2 are missing"),
        (lambda c: c.config["text_config"].update(split_ngram_parts=3), "too many"),
        (lambda c: setattr(c.get(f"{TABLE}.shard_1.weight"), "shape", (15, 8)), "width"),
        (lambda c: setattr(c.get(f"{TABLE}.shard_1.weight"), "dtype", "I8"), "dtype"),
        (lambda c: setattr(c.get(f"{TABLE}.shard_1.weight"), "shape", (14, 16)), "60 rows"),
        (lambda c: c.config["text_config"].update(ple_embed_dim=128), "width"),
        (_unsplit, "numbered shards"),
    ],
)
def test_a_broken_table(change: Callable[[Checkpoint], object], say: str, tmp_path: Path) -> None:
    checkpoint = flash()
    change(checkpoint)
    report = verify(checkpoint.write(tmp_path / "x"))
    assert [f.rule for f in report.findings] == ["M12"], [(f.rule, f.evidence)
                                                         for f in report.findings]  # fmt: skip
    assert say in str(report.findings[0].detail)


def test_fused_experts_are_a_form_of_their_own(tmp_path: Path) -> None:
    checkpoint = healthy("bf16", experts=2)
    for file, tensors in checkpoint.files.items():
        kept = {name: t for name, t in tensors.items() if ".experts." not in name}
        for at in {name.partition(".experts.")[0] for name in tensors if ".experts." in name}:
            kept[f"{at}.experts.gate_up_proj"] = Tensor("BF16", (2, 256, H))
            kept[f"{at}.experts.down_proj"] = Tensor("BF16", (2, H, 128))
        checkpoint.files[file] = kept
    report = verify(checkpoint.write(tmp_path / "x"))
    assert not report.findings, [(f.rule, f.evidence) for f in report.findings]
    checkpoint.get(f"{PREFIX}layers.0.mlp.experts.down_proj").shape = (2, H, 64)
    report = verify(checkpoint.write(tmp_path / "y"))
    assert [f.rule for f in report.findings] == ["M05"]


def test_engine_prefixes_follow_the_architecture(tmp_path: Path) -> None:
    """The same list works in one engine and not in the other; the message names the engine."""
    checkpoint = healthy("mo-fp8")
    gates = "language_model.model.layers.0.linear_attn.in_proj_"
    checkpoint.quant["ignore"] = ["lm_head", "mtp*", "model.visual*", f"{gates}a", f"{gates}b"]
    folder = checkpoint.write(tmp_path / "x")
    assert not verify(folder, engine="vllm").findings
    finding = verify(folder).findings[0]
    assert finding.rule == "Q03"
    assert "sglang" in str(finding.detail)
    assert f"{PREFIX}layers.0.linear_attn.in_proj_a" in str(finding.remedy)


def test_a_draft_follows_the_version(tmp_path: Path) -> None:
    """ModelOpt mixed: quantized MTP layers are built so from 0.5.21 on."""
    checkpoint = healthy("mo-mixed")
    checkpoint.quant["ignore"] = ["model.visual*"]
    for part, (n, k) in {"q_proj": (256, H), "k_proj": (128, H), "v_proj": (128, H),
                         "o_proj": (H, 128)}.items():  # fmt: skip
        name = f"mtp.layers.0.self_attn.{part}"
        checkpoint.replace(name, fp8_tensor(n, k))
        checkpoint.quant["quantized_layers"][name] = {"quant_algo": "FP8"}
    folder = checkpoint.write(tmp_path / "x")
    assert not verify(folder, engine_version="0.5.21", speculative=True).findings
    old = verify(folder, engine_version="0.5.19", speculative=True)
    assert [(f.rule, f.severity.value) for f in old.findings] == [("Q15", "error")]


def test_json_is_one_document(tmp_path: Path) -> None:
    text = json.dumps(verify(flash().write(tmp_path / "x")).as_json())
    assert json.loads(text)["verdict"] == "ok"
