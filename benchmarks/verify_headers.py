"""How long ``verify`` takes on the headers of a 27B and of a 100,000-tensor MoE.

    python benchmarks/verify_headers.py [--runs 7]

Headers have the published names, dtypes and shapes; the data behind them is a hole (nobody writes
55 GB for this), so scalars are not read. Beside it, in the same process and on the same files:
listing the keys with ``safetensors.safe_open``. Budget: ≤ 15 ms and ≤ 1.0 s of CPU, beyond the
start of the interpreter and the imports. Results go to ``benchmarks/results/verify_headers.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
# Listing keys uses nothing of it, but the reader imports the framework that it is asked for.
sys.modules.setdefault("numpy", types.ModuleType("numpy"))

from benchmarks.machine import machine_facts  # noqa: E402
from safetensors import safe_open  # noqa: E402

from qwen_tui_diagnostics.checkpoint import verify  # noqa: E402
from support.checkpoints import BITS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

RESULT = ROOT / "benchmarks" / "results" / "verify_headers.json"
PREFIX = "model.language_model."
Shapes = dict[str, tuple[str, tuple[int, ...]]]


def attention(at: str, h: int, heads: int, kv: int, dim: int) -> Shapes:
    at += ".self_attn"
    return {
        f"{at}.q_proj.weight": ("BF16", (2 * heads * dim, h)),
        f"{at}.k_proj.weight": ("BF16", (kv * dim, h)),
        f"{at}.v_proj.weight": ("BF16", (kv * dim, h)),
        f"{at}.o_proj.weight": ("BF16", (h, heads * dim)),
        f"{at}.q_norm.weight": ("BF16", (dim,)),
        f"{at}.k_norm.weight": ("BF16", (dim,)),
    }


def delta(at: str, h: int) -> Shapes:
    at += ".linear_attn"
    return {
        f"{at}.in_proj_qkv.weight": ("BF16", (10240, h)),
        f"{at}.in_proj_z.weight": ("BF16", (6144, h)),
        f"{at}.in_proj_b.weight": ("BF16", (48, h)),
        f"{at}.in_proj_a.weight": ("BF16", (48, h)),
        f"{at}.out_proj.weight": ("BF16", (h, 6144)),
        f"{at}.conv1d.weight": ("BF16", (10240, 1, 4)),
        f"{at}.A_log": ("F32", (48,)),
        f"{at}.dt_bias": ("BF16", (48,)),
        f"{at}.norm.weight": ("F32", (128,)),
    }


def mlp(at: str, h: int, inner: int) -> Shapes:
    return {
        f"{at}.gate_proj.weight": ("BF16", (inner, h)),
        f"{at}.up_proj.weight": ("BF16", (inner, h)),
        f"{at}.down_proj.weight": ("BF16", (h, inner)),
    }


def norms(at: str, h: int) -> Shapes:
    return {
        f"{at}.input_layernorm.weight": ("BF16", (h,)),
        f"{at}.post_attention_layernorm.weight": ("BF16", (h,)),
    }


def expert(at: str, h: int, inner: int) -> Shapes:
    out: Shapes = {}
    for part, n, k in (("gate_proj", inner, h), ("up_proj", inner, h), ("down_proj", h, inner)):
        out[f"{at}.{part}.weight_packed"] = ("I32", (n, k // 8))
        out[f"{at}.{part}.weight_scale"] = ("BF16", (n, k // 128))
        out[f"{at}.{part}.weight_shape"] = ("I64", (2,))
    return out


def vision(h: int) -> Shapes:
    w, inner = 1152, 4304
    out: Shapes = {
        "patch_embed.proj.weight": ("BF16", (w, 3, 2, 16, 16)),
        "patch_embed.proj.bias": ("BF16", (w,)),
        "pos_embed.weight": ("BF16", (2304, w)),
        "merger.norm.weight": ("BF16", (w,)),
        "merger.norm.bias": ("BF16", (w,)),
        "merger.linear_fc1.weight": ("BF16", (4 * w, 4 * w)),
        "merger.linear_fc1.bias": ("BF16", (4 * w,)),
        "merger.linear_fc2.weight": ("BF16", (h, 4 * w)),
        "merger.linear_fc2.bias": ("BF16", (h,)),
    }
    for block in range(27):
        for name, n, k in (("attn.qkv", 3 * w, w), ("attn.proj", w, w),
                           ("mlp.linear_fc1", inner, w), ("mlp.linear_fc2", w, inner)):  # fmt: skip
            out[f"blocks.{block}.{name}.weight"] = ("BF16", (n, k))
            out[f"blocks.{block}.{name}.bias"] = ("BF16", (n,))
        for name in ("norm1", "norm2"):
            out[f"blocks.{block}.{name}.weight"] = ("BF16", (w,))
            out[f"blocks.{block}.{name}.bias"] = ("BF16", (w,))
    return {f"model.visual.{name}": value for name, value in out.items()}


def text(h: int, *, experts: int, layers: int, inner: int) -> dict[str, Any]:
    config: dict[str, Any] = {
        "hidden_size": h, "num_hidden_layers": layers, "full_attention_interval": 4,
        "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
        "attn_output_gate": True, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "vocab_size": 248320, "mtp_num_hidden_layers": 1,
    }  # fmt: skip
    if experts:
        config |= {"num_experts": experts, "moe_intermediate_size": inner,
                   "shared_expert_intermediate_size": inner}  # fmt: skip
    else:
        config["intermediate_size"] = inner
    return config


def model(h: int, *, experts: int, layers: int, inner: int) -> tuple[dict[str, Any], Shapes]:
    shapes: Shapes = {
        f"{PREFIX}embed_tokens.weight": ("BF16", (248320, h)),
        f"{PREFIX}norm.weight": ("BF16", (h,)),
        "lm_head.weight": ("BF16", (248320, h)),
        "mtp.fc.weight": ("BF16", (h, 2 * h)),
    }
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        shapes[f"mtp.{name}.weight"] = ("BF16", (h,))
    places = [(f"{PREFIX}layers.{i}", (i + 1) % 4 == 0) for i in range(layers)]
    for at, full in [*places, ("mtp.layers.0", True)]:
        shapes |= attention(at, h, 24, 4, 256) if full else delta(at, h)
        shapes |= norms(at, h)
        if experts:
            shapes[f"{at}.mlp.gate.weight"] = ("BF16", (experts, h))
            shapes[f"{at}.mlp.shared_expert_gate.weight"] = ("BF16", (1, h))
            shapes |= mlp(f"{at}.mlp.shared_expert", h, inner)
            for number in range(experts):
                shapes |= expert(f"{at}.mlp.experts.{number}", h, inner)
        else:
            shapes |= mlp(f"{at}.mlp", h, inner)
    shapes |= vision(h)
    moe = "Moe" if experts else ""
    config: dict[str, Any] = {
        "architectures": [f"Qwen3_5{moe}ForConditionalGeneration"],
        "tie_word_embeddings": False,
        "text_config": text(h, experts=experts, layers=layers, inner=inner),
        "vision_config": {
            "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16,
            "num_position_embeddings": 2304, "out_hidden_size": h,
        },
    }  # fmt: skip
    if experts:
        config["quantization_config"] = {
            "quant_method": "compressed-tensors", "format": "pack-quantized",
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*linear_attn.*", "re:.*shared_expert.*"],
            "config_groups": {"g": {"targets": ["Linear"], "weights": {
                "num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}},
        }  # fmt: skip
    return config, shapes


def write(folder: Path, config: dict[str, Any], shapes: Shapes, files: int) -> int:
    """Write sparse shards with an index and return the number of tensors."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    names = list(shapes)
    weight_map: dict[str, str] = {}
    for number in range(files):
        part = names[number * len(names) // files : (number + 1) * len(names) // files]
        file = f"model-{number + 1:05d}-of-{files:05d}.safetensors"
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        position = 0
        for name in part:
            dtype, shape = shapes[name]
            size = BITS[dtype] // 8
            for dim in shape:
                size *= dim
            header[name] = {"dtype": dtype, "shape": list(shape),
                            "data_offsets": [position, position + size]}  # fmt: skip
            position += size
            weight_map[name] = file
        raw = json.dumps(header, separators=(",", ":")).encode()
        raw += b" " * (-len(raw) % 8)
        with (folder / file).open("wb") as out:
            out.write(struct.pack("<Q", len(raw)) + raw)
            out.truncate(8 + len(raw) + position)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return len(names)


def timed(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Return the median wall and CPU milliseconds."""
    walls, cpus = [], []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append((time.perf_counter() - wall) * 1000)
        cpus.append((time.process_time() - cpu) * 1000)
    return statistics.median(walls), statistics.median(cpus)


def list_keys(folder: Path) -> int:
    count = 0
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "numpy") as file:
            count += len(file.keys())
    return count


def measure(name: str, folder: Path, tensors: int, runs: int, budget_ms: float) -> dict[str, Any]:
    list_keys(folder)
    ours = timed(lambda: verify(folder), runs)
    theirs = timed(lambda: list_keys(folder), runs)
    report = verify(folder)
    row = {
        "name": name,
        "tensors": tensors,
        "verify_wall_ms": round(ours[0], 2),
        "verify_cpu_ms": round(ours[1], 2),
        "safe_open_wall_ms": round(theirs[0], 2),
        "ratio": round(ours[0] / theirs[0], 2),
        "budget_ms": budget_ms,
        "within": ours[1] <= budget_ms,
        "findings": sorted({f.rule for f in report.findings}),
    }
    print(json.dumps(row))
    return row


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        rows = []
        config, shapes = model(5120, experts=0, layers=64, inner=17408)
        count = write(root / "dense", config, shapes, 15)
        rows.append(measure("27B, bf16", root / "dense", count, args.runs, 15.0))
        config, shapes = model(2048, experts=256, layers=44, inner=512)
        count = write(root / "moe", config, shapes, 12)
        rows.append(
            measure("MoE, int4 experts", root / "moe", count, max(3, args.runs // 2), 1000.0)
        )
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"machine": machine_facts(), "rows": rows}, indent=1) + "\n")
    return 0 if all(row["within"] for row in rows) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
