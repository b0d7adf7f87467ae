"""Healthy checkpoints give exactly ok: one that warns about good releases is switched off."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_diagnostics.checkpoint import Reach, Verdict, verify
from support.checkpoints import KINDS, PREFIX, Checkpoint, Tensor, healthy, write_safetensors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VARIANTS: tuple[dict[str, Any], ...] = ({}, {"vision": False}, {"mtp": False}, {"experts": 3})
# Lists of these formats name layers of the wrapped dense model.
WRAPPED_DENSE_ONLY = {"ct-mixed", "mo-mixed"}


def _fits(kind: str, variant: dict[str, Any]) -> bool:
    if kind in WRAPPED_DENSE_ONLY or (kind == "mo-nvfp4-hf" and variant.get("vision") is False):
        return variant in ({}, {"mtp": False})
    return True


CASES = [(k, v) for k in KINDS for v in VARIANTS if _fits(k, v)]


@pytest.mark.parametrize(("kind", "variant"), CASES, ids=str)
def test_every_format_is_ok(kind: str, variant: dict[str, Any], tmp_path: Path) -> None:
    folder = healthy(kind, **variant).write(tmp_path / "x")
    for version in ("0.5.19", "0.5.21", "0.5.23"):
        for speculative in (False, True):
            report = verify(folder, engine_version=version, speculative=speculative)
            assert not report.findings, [(f.rule, str(f.detail)) for f in report.findings]
            assert report.verdict is Verdict.OK
            judged = report.judged
            assert (judged.files, judged.index, judged.model, judged.quantization) == (
                Reach.FULL, Reach.FULL, Reach.FULL, Reach.FULL,
            )  # fmt: skip
            assert judged.content is Reach.NONE


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_vllm_reads_them_too(kind: str, tmp_path: Path) -> None:
    report = verify(healthy(kind).write(tmp_path / "x"), engine="vllm")
    rules = {(f.rule, f.evidence) for f in report.findings}
    # vLLM builds mtp.fc by the list; these exports leave it out (vllm-project/vllm#38832).
    short_list = kind.startswith("mo-") and kind != "mo-mixed"
    expected = {("Q15", "mtp.fc")} if short_list else set()
    assert rules == expected


def _index(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return apply


def _nothing(folder: Path) -> None:
    del folder


def _ignore(*entries: str) -> Callable[[Checkpoint], object]:
    return lambda c: c.quant["ignore"].extend(entries)


def _fused_gates(c: Checkpoint) -> None:
    gates = {f"{PREFIX}layers.0.linear_attn.in_proj_a", f"{PREFIX}layers.0.linear_attn.in_proj_b"}
    c.quant["ignore"] = [e for e in c.quant["ignore"] if e not in gates]
    c.quant["ignore"].append(f"{PREFIX}layers.0.linear_attn.in_proj_ba")


def _fused_ct(c: Checkpoint) -> None:
    c.quant["ignore"] = ["lm_head", "re:^mtp.*", f"{PREFIX}layers.0.linear_attn.in_proj_ba"]


def _half_scales(c: Checkpoint) -> None:
    for tensors in c.files.values():
        for name, tensor in tensors.items():
            if name.endswith("weight_scale"):
                tensor.dtype = "F16"


def _shape_i32(c: Checkpoint) -> None:
    for tensors in c.files.values():
        for name, tensor in list(tensors.items()):
            if name.endswith("weight_shape") and tensor.data is not None:
                shape = struct.unpack("<2q", tensor.data)
                tensors[name] = Tensor("I32", (2,), struct.pack("<2i", *shape))


def _odd_names(c: Checkpoint) -> None:
    c.files = {"weights-main.safetensors": c.files["model.safetensors"],
               "model_extra_tensors.safetensors": c.files["model_mtp.safetensors"]}  # fmt: skip


def _one_file(c: Checkpoint) -> None:
    c.files = {"model.safetensors": {k: v for f in c.files.values() for k, v in f.items()}}
    c.index = False


def _short_prefix(c: Checkpoint) -> None:
    c.rename(lambda name: name.replace(PREFIX, "model."))


def _kv_scales(c: Checkpoint) -> None:
    c.quant["kv_cache_scheme"] = {"type": "float", "num_bits": 8, "dynamic": False}
    for part in ("k", "v"):
        c.file_of("lm_head.weight")[f"{PREFIX}layers.1.self_attn.{part}_proj.{part}_scale"] = (
            Tensor("F32", ())
        )


TRAPS: dict[str, tuple[str, Callable[[Checkpoint], object], Callable[[Path], None]]] = {
    "container modules in ignore": (
        "ct-int4", _ignore(f"{PREFIX}layers.0.linear_attn", f"{PREFIX}layers.1.mlp", "model.visual",
                           "model.language_model"), _nothing),
    "MoE names in a dense model's list": (
        "fp8-block", lambda c: c.quant["modules_to_not_convert"].extend(
            ["mlp.gate", "model.layers.3.mlp.gate", "mlp.shared_expert_gate"]), _nothing),
    "the fused name instead of the shards (ModelOpt)": ("mo-nvfp4", _fused_gates, _nothing),
    "the fused name instead of the shards (compressed-tensors)": ("ct-int4", _fused_ct, _nothing),
    "an exclude list without mtp.fc": ("mo-nvfp4", lambda c: None, _nothing),
    "an index with files of unusual names": ("ct-int4", _odd_names, _nothing),
    "F16 scales in a BF16 model": ("ct-int4", _half_scales, _nothing),
    "weight_shape as I32": ("ct-int4", _shape_i32, _nothing),
    "an FP8 KV cache with its scales": ("mo-nvfp4", _kv_scales, _nothing),
    "no total_size": ("bf16", lambda c: None, _index(lambda i: i.pop("metadata"))),
    "total_size as a float": (
        "bf16", lambda c: None,
        _index(lambda i: i["metadata"].update(total_size=float(i["metadata"]["total_size"])))),
    "total_size 0": ("bf16", lambda c: None, _index(lambda i: i["metadata"].update(total_size=0))),
    "no index beside one file": ("ct-int4", _one_file, _nothing),
    "the short prefix in a wrapped class": ("bf16", _short_prefix, _nothing),
    "adapter files beside the index": (
        "bf16", lambda c: None,
        lambda d: write_safetensors(d / "adapter_model.safetensors", {"x": Tensor("F32", (1,))})),
    "an expression for a part that is not there": (
        "ct-int4", _ignore("re:.*audio_tower.*"), _nothing),
    "the Hub's own folder": (
        "bf16", lambda c: None, lambda d: (d / ".cache" / "huggingface").mkdir(parents=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_traps_stay_silent(name: str, tmp_path: Path) -> None:
    kind, change, after = TRAPS[name]
    checkpoint = healthy(kind)
    change(checkpoint)
    folder = checkpoint.write(tmp_path / "x")
    after(folder)
    report = verify(folder)
    assert not report.findings, [(f.rule, f.evidence, str(f.detail)) for f in report.findings]
    assert report.verdict is Verdict.OK


def test_inventory_adds_up(tmp_path: Path) -> None:
    checkpoint = healthy("ct-int4")
    report = verify(checkpoint.write(tmp_path / "x"))
    inventory = report.inventory
    stored = [t for tensors in checkpoint.files.values() for t in tensors.values()]
    assert inventory.tensors == len(stored)
    assert inventory.bytes == sum(len(t.content()) for t in stored)
    assert sum(inventory.by_part.values()) == inventory.bytes
    mtp = checkpoint.files["model_mtp.safetensors"].values()
    assert inventory.by_part["mtp"] == sum(len(t.content()) for t in mtp)
    assert inventory.by_part["lm_head"] == inventory.by_part["embed"] == 256 * 128 * 2
    assert inventory.shards == 2
    assert inventory.dtypes["mtp"] == {"BF16": inventory.by_part["mtp"]}
    assert report.quantization == "compressed-tensors int4 g128"


def test_an_unknown_architecture_is_unknown(tmp_path: Path) -> None:
    """A healthy Llama is neither ok nor wrong."""
    checkpoint = healthy("bf16", vision=False, mtp=False, arch="LlamaForCausalLM")
    report = verify(checkpoint.write(tmp_path / "x"))
    assert report.verdict is Verdict.UNKNOWN
    assert (report.judged.model, report.judged.quantization) == (Reach.NONE, Reach.NONE)
    assert report.judged.files is Reach.FULL
    assert [(f.rule, f.severity.value) for f in report.findings] == [("M00", "info")]


def test_an_unknown_quantization_is_unknown(tmp_path: Path) -> None:
    checkpoint = healthy("bf16")
    checkpoint.config["quantization_config"] = {"quant_method": "hqq", "nbits": 4}
    for part in ("up_proj", "gate_proj"):
        checkpoint.replace(f"{PREFIX}layers.1.mlp.{part}", {
            "W_q": Tensor("U8", (64, 128)), "scale": Tensor("F16", (128, 1)),
        })  # fmt: skip
    report = verify(checkpoint.write(tmp_path / "x"))
    assert report.verdict is Verdict.UNKNOWN
    assert report.judged.quantization is Reach.NONE
    assert report.judged.model is Reach.FULL
    assert [(f.rule, f.severity.value) for f in report.findings] == [("Q00", "info")]


def test_unknown_does_not_hide_damage(tmp_path: Path) -> None:
    checkpoint = healthy("bf16", vision=False, mtp=False, arch="LlamaForCausalLM")
    folder = checkpoint.write(tmp_path / "x")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    report = verify(folder)
    assert report.verdict is Verdict.ERROR
    assert report.findings[0].rule == "F07"


def test_bitsandbytes_is_recognised(tmp_path: Path) -> None:
    checkpoint = healthy("bf16")
    checkpoint.config["quantization_config"] = {"quant_method": "bitsandbytes",
                                                "load_in_4bit": True}  # fmt: skip
    module = f"{PREFIX}layers.1.mlp.up_proj"
    checkpoint.replace(module, {
        "weight": Tensor("U8", (128 * 64, 1)), "weight.absmax": Tensor("U8", (256,)),
        "weight.quant_map": Tensor("F32", (16,)),
        "weight.quant_state.bitsandbytes__nf4": Tensor("U8", (90,)),
    })  # fmt: skip
    folder = checkpoint.write(tmp_path / "x")
    report = verify(folder)
    assert [(f.rule, f.severity.value) for f in report.findings] == [("Q01", "info")]
    assert report.judged.quantization is Reach.PARTIAL
    assert verify(folder, speculative=True).verdict is Verdict.WARN


def test_mlx_is_named_first(tmp_path: Path) -> None:
    """Its key names are foreign, too; the format is the cause."""
    checkpoint = healthy("bf16", mtp=False)
    checkpoint.config["quantization"] = {"bits": 4, "group_size": 64, "mode": "affine"}
    checkpoint.rename(lambda name: name.replace(PREFIX, "language_model.model."))
    module = "language_model.model.layers.1.mlp.up_proj"
    checkpoint.replace(module, {
        "weight": Tensor("U32", (128, 16)), "scales": Tensor("BF16", (128, 2)),
        "biases": Tensor("BF16", (128, 2)),
    })  # fmt: skip
    report = verify(checkpoint.write(tmp_path / "x"))
    assert report.findings[0].rule == "Q01"
    assert "MLX" in str(report.findings[0].detail)
    assert report.verdict is Verdict.ERROR


def test_a_method_of_another_platform_is_unknown(tmp_path: Path) -> None:
    checkpoint = healthy("bf16")
    checkpoint.config["quantization_config"] = {"quant_method": "quark"}
    report = verify(checkpoint.write(tmp_path / "x"))
    assert [(f.rule, f.severity.value) for f in report.findings] == [("Q01", "warn")]
    assert report.verdict is Verdict.UNKNOWN


def test_a_config_without_dimensions_is_unknown(tmp_path: Path) -> None:
    checkpoint = healthy("bf16")
    del checkpoint.config["text_config"]["num_hidden_layers"]
    del checkpoint.config["text_config"]["layer_types"]
    report = verify(checkpoint.write(tmp_path / "x"))
    assert report.verdict is Verdict.UNKNOWN
    assert report.judged.model is Reach.NONE


def test_w4a16_needs_a_release(tmp_path: Path) -> None:
    folder = healthy("mo-w4a16").write(tmp_path / "x")
    old = verify(folder, engine_version="0.5.17")
    assert [f.rule for f in old.findings] == ["Q01"]
    assert "0.5.19" in str(old.findings[0].evidence)
