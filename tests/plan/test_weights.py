"""Weights: from dimensions against published totals, from headers, under quantization."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest

from plan.boots import config
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.plan.headers import has_weights, read_stored_sizes
from qwen_tui_profiles.plan.model import read_config, read_model
from qwen_tui_profiles.plan.schemes import read_quantization
from qwen_tui_profiles.plan.shapes import draft_matrices, target_matrices, vision_matrices
from qwen_tui_profiles.plan.weights import (
    GIB,
    Weights,
    weights_from_dims,
    weights_from_headers,
)

if TYPE_CHECKING:
    from pathlib import Path


def _weights(document: dict[str, object]) -> Weights:
    weights = weights_from_dims(read_model(document))
    assert weights is not None
    return weights


def test_dimensions_add_up_to_the_published_total() -> None:
    # 55,562,872,800 bytes is the total of the BF16 release, norms of the MTP layer included.
    facts = read_model(config("qwen38-27b"))
    matrices = [*target_matrices(facts), *draft_matrices(facts)]
    parameters = sum(m.rows * m.columns * m.copies for m in matrices)
    tower = sum(m.rows * m.columns for m in vision_matrices(facts.vision) or ())
    assert tower == 460_730_096
    assert 2 * (parameters + tower) == pytest.approx(55_562_872_800, rel=5e-7)


# "mem usage" of the recorded boots, in GiB.
@pytest.mark.parametrize(
    ("name", "target", "draft"),
    [("hybrid-27b", 50.16, 5.53), ("hybrid-27b-cg", 50.19, 5.53), ("hybrid-tiny", 1.45, None)],
)
def test_recorded_mem_usage(name: str, target: float, draft: float | None) -> None:
    weights = _weights(config(name))
    assert weights.target / GIB == pytest.approx(target, abs=0.02)
    if draft is not None:
        assert weights.draft / GIB == pytest.approx(draft, abs=0.006)
        assert weights.draft_late / GIB == pytest.approx(4.736, abs=0.001)


def test_rotary_cache_of_the_27b() -> None:
    assert _weights(config("hybrid-27b")).rotary / GIB == 0.0625


def test_shards_of_the_8b_dense_line() -> None:
    # Qwen3-8B: 8,190,735,360 parameters (its published total_size is 16,381,470,720 bytes).
    document: dict[str, object] = {
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    weights = _weights(document)
    assert weights.stored == 16_381_470_720
    assert weights.draft == 0


def _int4() -> dict[str, object]:
    document = config("qwen38-27b")
    document["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "ignore": ["lm_head", "re:.*visual.*", "re:^mtp.*", "re:.*in_proj_[ab]$"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True},
            }
        },
    }
    return document


def test_int4_release_of_seed_004() -> None:
    # 19.5 GB were downloaded, 17.67 GiB printed once on the card.
    weights = _weights(_int4())
    draft = weights.draft - weights.draft_late
    assert (weights.stored + draft) / 1e9 == pytest.approx(19.5, abs=0.1)
    assert weights.target_low / GIB < 17.67 < weights.target_high / GIB
    # Without the allocator's segments a quarter of a GiB would be missing.
    assert weights.target - weights.stored - weights.rotary > 0.2 * GIB
    # The head stays bfloat16: 2.37 GiB; NVFP4 would be 0.67 (seed 000).
    assert weights.head / GIB == pytest.approx(2.37, abs=0.005)


def test_ignored_modules_stay_dense_under_any_spelling() -> None:
    quantization = read_quantization(_int4()["quantization_config"])  # type: ignore[arg-type]
    assert quantization.scheme_of("layers.0.linear_attn.in_proj_a") is None
    assert quantization.scheme_of("lm_head") is None
    assert quantization.scheme_of("mtp.layers.0.mlp.up_proj") is None
    scheme = quantization.scheme_of("layers.0.linear_attn.in_proj_qkv")
    assert scheme is not None
    assert scheme.bytes_of(10_240, 5_120) == 10_240 * 5_120 / 2 + 10_240 * 40 * 2


def test_mixed_modelopt_layers_have_their_own_sizes() -> None:
    quantization = read_quantization(
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {
                "model.language_model.layers.0.mlp.up_proj": {"quant_algo": "W4A16_NVFP4"},
                "model.language_model.layers.3.self_attn.q_proj": {"quant_algo": "FP8"},
                "lm_head": {"quant_algo": "NVFP4"},
            },
        }
    )
    up = quantization.scheme_of("layers.0.mlp.up_proj")
    query = quantization.scheme_of("layers.3.self_attn.q_proj")
    head = quantization.scheme_of("lm_head")
    assert up is not None
    assert query is not None
    assert head is not None
    assert up.bytes_of(16, 160) == 16 * 80 + 16 * 10
    assert query.bytes_of(16, 160) == 16 * 160
    assert head.bytes_of(248_320, 5_120) / GIB == pytest.approx(0.67, abs=0.005)
    assert quantization.scheme_of("layers.0.mlp.down_proj") is None


@pytest.mark.parametrize(
    ("quantization", "bytes_per_parameter"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 128 / 128),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
            0.5 + 2.5 / 128,
        ),
        ({"quant_method": "gptq", "bits": 8, "group_size": 64}, 1 + 2 / 64),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5 + 1 / 16),
    ],
)
def test_bytes_per_parameter(quantization: dict[str, object], bytes_per_parameter: float) -> None:
    scheme = read_quantization(quantization).scheme_of("layers.0.mlp.up_proj")
    assert scheme is not None
    assert scheme.bytes_of(1024, 1024) == pytest.approx(1024 * 1024 * bytes_per_parameter, rel=1e-6)


def test_unknown_method_says_so() -> None:
    document = config("qwen38-27b")
    document["quantization_config"] = {"quant_method": "exl9"}
    assert not _weights(document).scheme_known


def _write(path: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    header: dict[str, object] = {}
    offset = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


def test_headers_count_what_the_engine_loads(tmp_path: Path) -> None:
    _write(
        tmp_path / "model-00001-of-00002.safetensors",
        {
            "model.language_model.embed_tokens.weight": ("BF16", [8, 4], 64),
            "model.language_model.layers.0.mlp.up_proj.weight": ("BF16", [8, 4], 64),
            "model.visual.blocks.0.norm1.weight": ("BF16", [5], 10),
        },
    )
    _write(
        tmp_path / "model-00002-of-00002.safetensors",
        {"lm_head.weight": ("BF16", [8, 4], 64), "mtp.fc.weight": ("BF16", [4, 8], 64)},
    )
    _write(tmp_path / "stray.safetensors", {"model.other": ("BF16", [100], 200)})
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps(
            {
                "weight_map": {
                    "model.language_model.embed_tokens.weight": "model-00001-of-00002.safetensors",
                    "lm_head.weight": "model-00002-of-00002.safetensors",
                }
            }
        )
    )
    assert has_weights(tmp_path)
    stored = read_stored_sizes(tmp_path)
    assert (stored.target_bytes, stored.draft_bytes, stored.vision_bytes) == (192, 64, 10)
    assert (stored.embed_bytes, stored.head_bytes) == (64, 64)
    assert (stored.tensors, stored.files) == (5, 2)
    weights = weights_from_headers(read_model(config("hybrid-tiny")), stored)
    assert weights.stored == 192 + 10
    # Small tensors share a segment of 2 MiB; the rotary cache has its own 64 MiB.
    assert weights.target == (2 << 20) + weights.rotary
    assert weights.draft >= weights.draft_late


@pytest.mark.parametrize(
    "content",
    [b"", b"\x05", b"version https://git-lfs.github.com/spec/v1\n", struct.pack("<Q", 40) + b"{}"],
)
def test_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors"):
        read_stored_sizes(tmp_path)


def test_broken_header_entry_is_named(tmp_path: Path) -> None:
    text = json.dumps({"w": {"dtype": "BF16", "shape": [1], "data_offsets": [4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(InputError, match="data_offsets"):
        read_stored_sizes(tmp_path)


def test_shard_that_the_index_names_and_nobody_downloaded(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}})
    )
    with pytest.raises(InputError, match="model-00001-of-00002"):
        read_stored_sizes(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", '{"architectures": ['])
def test_broken_config_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"config\.json"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    "field", ["num_hidden_layers", "hidden_size", "vocab_size", "linear_num_value_heads"]
)
def test_missing_field_is_named(field: str) -> None:
    document = config("hybrid-27b")
    del document[field]
    with pytest.raises(InputError, match=field):
        read_model(document)


def test_absurd_number_is_named() -> None:
    document = config("hybrid-27b")
    document["hidden_size"] = 10**15
    with pytest.raises(InputError, match="hidden_size"):
        read_model(document)
