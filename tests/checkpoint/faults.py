"""One change that breaks one rule, for every rule; the tables that the tests walk through."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from support.checkpoints import (
    PREFIX,
    Checkpoint,
    Tensor,
    awq,
    dense,
    fp8_block,
    fp8_channel,
    fp8_tensor,
    gptq,
    int_packed,
    nvfp4,
    nvfp4_packed,
    write_safetensors,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["FAULTS", "FILE_FAULTS", "Fault", "FileFault"]

L0, L1 = f"{PREFIX}layers.0", f"{PREFIX}layers.1"
GATES = [f"{L0}.linear_attn.in_proj_a", f"{L0}.linear_attn.in_proj_b"]


@dataclass(frozen=True)
class Fault:
    """A change of a healthy checkpoint before it is written."""

    rule: str
    kind: str
    change: Callable[[Checkpoint], object]
    severity: str = "error"
    say: str = ""
    """Must occur in the finding's texts."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of ``verify``."""
    healthy: dict[str, Any] = field(default_factory=dict)
    """Arguments of ``healthy``."""
    alone: bool = True
    """No other finding but notes."""

    @property
    def name(self) -> str:
        return f"{self.rule}-{self.kind}-{self.say}"[:60]


@dataclass(frozen=True)
class FileFault:
    """A change of the written files."""

    rule: str
    change: Callable[[Path], object]
    severity: str = "error"
    say: str = ""
    kind: str = "bf16"
    alone: bool = True

    @property
    def name(self) -> str:
        return f"{self.rule}-{self.say}"[:60]


def _text(c: Checkpoint) -> dict[str, Any]:
    found: dict[str, Any] = c.config["text_config"]
    return found


def _without(c: Checkpoint, *names: str) -> None:
    c.quant["ignore"] = [entry for entry in c.quant["ignore"] if entry not in names]


def _unindexed_mtp(folder: Path) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"] = {k: v for k, v in index["weight_map"].items() if not k.startswith("mtp.")}
    del index["metadata"]
    path.write_text(json.dumps(index))


def edit_index(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return a change of the index document."""

    def apply(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        change(index)
        path.write_text(json.dumps(index))

    return apply


def edit_header(change: Callable[[bytes], bytes], name: str = "model.safetensors") -> Any:
    """Return a change of a file's header; the length in front of it follows."""

    def apply(folder: Path) -> None:
        data = (folder / name).read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        raw = change(data[8 : 8 + length])
        (folder / name).write_bytes(struct.pack("<Q", len(raw)) + raw + data[8 + length :])

    return apply


def _entry(edit: Callable[[dict[str, Any]], object]) -> Any:
    def change(raw: bytes) -> bytes:
        document = json.loads(raw)
        edit(document)
        return json.dumps(document).encode()

    return edit_header(change)


def _duplicate(*, same: bool) -> Any:
    def change(raw: bytes) -> bytes:
        document = json.loads(raw)
        name = f"{PREFIX}norm.weight"
        entry = dict(document[name])
        if not same:
            entry["dtype"] = "F16"
        text = json.dumps(document).rstrip()
        # The first one is the odd one; the reader takes the last.
        return ("{" + json.dumps(name) + ":" + json.dumps(entry) + "," + text[1:]).encode()

    return edit_header(change)


def _swap_offsets(document: dict[str, Any]) -> None:
    names = [name for name in document if name != "__metadata__"]
    document[names[1]]["data_offsets"][0] -= 8
    document[names[1]]["data_offsets"][1] -= 8


def write(name: str, data: bytes | str) -> Callable[[Path], object]:
    """Return a change that writes a file."""

    def apply(folder: Path) -> None:
        content = data.encode() if isinstance(data, str) else data
        (folder / name).write_bytes(content)

    return apply


def _cut(count: int) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-count])

    return apply


def _append(count: int) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        with (folder / "model.safetensors").open("ab") as file:
            file.write(b"\0" * count)

    return apply


def _copy_tensor(dtype: str, name: str = f"{PREFIX}norm.weight") -> Callable[[Path], object]:
    """Store one tensor of the first file in the MTP file, too (which is loaded later)."""

    def apply(folder: Path) -> None:
        write_safetensors(folder / "model_zz.safetensors", {name: Tensor(dtype, (128,))})
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        index["weight_map"]["extra.inv_freq"] = "model_zz.safetensors"
        del index["metadata"]
        path.write_text(json.dumps(index))
        write_safetensors(
            folder / "model_zz.safetensors",
            {name: Tensor(dtype, (128,)), "extra.inv_freq": Tensor("F32", (4,))},
        )

    return apply


def _dangling(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("../../blobs/gone")


def _directory(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()


def _sparse(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    with path.open("wb") as file:
        file.write(data[: 64 << 10])
        file.truncate(len(data))


def _subfolder(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "model_mtp.safetensors").rename(folder / "sub" / "x.safetensors")
    edit_index(
        lambda index: index["weight_map"].update(
            {key: "sub/x.safetensors" for key in index["weight_map"] if key.startswith("mtp.")}
        )
    )(folder)


def _numbered(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model.safetensors").rename(folder / "model-00001-of-00003.safetensors")
    (folder / "model_mtp.safetensors").rename(folder / "model-00003-of-00003.safetensors")


def _two_copies(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    (folder / "old.safetensors").write_bytes((folder / "model_mtp.safetensors").read_bytes())


def _move_key(index: dict[str, Any]) -> None:
    index["weight_map"]["lm_head.weight"] = "model_mtp.safetensors"


LFS = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 17716740096\n"
)
_W = "warn"
FILE_FAULTS: tuple[FileFault, ...] = (
    FileFault("F02", write("model.safetensors", LFS), say="17,716,740,096"),
    FileFault("F03", write("model.safetensors", "<!DOCTYPE html><html>401</html>"), say="401"),
    FileFault("F03", write("model.safetensors", '{"error":"gated"}'), say="gated"),
    FileFault("F04", write("model.safetensors", b""), say="0 bytes"),
    FileFault("F04", write("model.safetensors", b"1234"), say="4 bytes"),
    FileFault("F04", write("model.safetensors", struct.pack("<Q", 100_000_001) + b"{}"),
              say="100000001"),
    FileFault("F04", write("model.safetensors", struct.pack("<Q", 4000) + b"{}"), say="4000"),
    FileFault("F05", edit_header(lambda raw: raw.replace(b"BF16", b"BF17", 1)), say="BF17"),
    FileFault("F05", edit_header(lambda raw: raw[:-9] + b"\xff" + raw[-8:]), say="UTF-8"),
    FileFault("F05", edit_header(lambda raw: b"[" + raw[1:]), say="brace"),
    FileFault("F05", edit_header(lambda raw: raw.replace(b'"BF16"', b"NaN", 1)), say="NaN"),
    FileFault("F05", _entry(lambda d: d[f"{PREFIX}norm.weight"].pop("shape")), say="entry"),
    FileFault("F05", write("model.safetensors", b"GGUF\x03\0\0\0" + b"\0" * 64), say="GGUF"),
    FileFault("F06", _entry(_swap_offsets), say="overlap"),
    FileFault("F06", _entry(lambda d: d[f"{PREFIX}norm.weight"].update(shape=[127])), say="needs"),
    FileFault("F07", _cut(5), say="5 bytes are missing"),
    FileFault("F07", _append(3), say="3 bytes too long"),
    FileFault("F08", _duplicate(same=True), severity=_W, say="equal"),
    FileFault("F08", _duplicate(same=False), say="differ"),
    FileFault("F09", write("notes.safetensors.part", "x"), say="absent"),
    FileFault("F09", write("model.safetensors.aria2", "x"), say="preallocated"),
    FileFault("F09", write("model.safetensors.part", "x"), severity=_W),
    FileFault("F10", _dangling, say="link"),
    FileFault("F10", _directory, say="folder"),
    FileFault("F11", _sparse, severity=_W, say="bytes"),
    FileFault("N01", write("model.safetensors.index.json", "{"), say="not JSON"),
    FileFault("N01", write("model.safetensors.index.json", LFS), say="LFS"),
    FileFault("N01", write("model.safetensors.index.json", '{"metadata": {}}'), say="weight_map"),
    FileFault("N01", edit_index(lambda i: i["weight_map"].update(x="../y.safetensors")),
              say="relative"),
    FileFault("N02", lambda d: (d / "model_mtp.safetensors").unlink(), say="1 of 2"),
    FileFault("N02", edit_index(lambda i: i.update(weight_map={
        k: f"other-{v}" for k, v in i["weight_map"].items()})), say="another sharding"),
    FileFault("N03", edit_index(lambda i: i["weight_map"].update(ghost="model.safetensors")),
              say="ghost"),
    FileFault("N04", edit_index(_move_key), severity=_W, say="lm_head"),
    FileFault("N05", _copy_tensor("BF16"), say="model_zz"),
    FileFault("N05", _copy_tensor("F16"), say="differ"),
    FileFault("N06", edit_index(lambda i: (i["weight_map"].pop("lm_head.weight"),
                                           i.pop("metadata"))), severity=_W, say="lm_head"),
    FileFault("N07", _unindexed_mtp, severity=_W, say="MTP"),
    FileFault("N07", write("stray.safetensors", struct.pack("<Q", 8) + b"{}      "), severity=_W,
              say="stray"),
    FileFault("N08", _subfolder, say="sub/x"),
    FileFault("N09", _numbered, say="2"),
    FileFault("N10", _two_copies, severity=_W, say="15 tensors"),
    FileFault("N11", edit_index(lambda i: i["metadata"].update(total_size=12.0)), severity=_W,
              say="12"),
    FileFault("M01", lambda d: (d / "config.json").unlink(), say="absent"),
    FileFault("M01", write("config.json", "[]"), say="object"),
    FileFault("M01", write("config.json", "{}"), say="architectures"),
    FileFault("M13", lambda d: (d / "tokenizer.json").unlink(), say="tokenizer"),
    FileFault("M13", write("tokenizer.json", LFS), say="broken"),
    FileFault("M13", lambda d: (d / "generation_config.json").unlink(), severity=_W,
              say="generation"),
    FileFault("M13", lambda d: (d / "preprocessor_config.json").unlink(), severity=_W, say="prep"),
    FileFault("M13", lambda d: (d / "chat_template.jinja").unlink(), severity=_W, say="chat"),
)  # fmt: skip


def _double_layer(c: Checkpoint) -> None:
    # The stored layers are two; the config says four.
    _text(c).update(num_hidden_layers=4, layer_types=_text(c)["layer_types"] * 2)


def _rename_fused(c: Checkpoint) -> None:
    c.rename(lambda name: name.replace("in_proj_qkv.", "in_proj_qkvz."))


def _drop(c: Checkpoint, part: str) -> None:
    for tensors in c.files.values():
        for name in [name for name in tensors if part in name]:
            del tensors[name]


def both(*changes: Callable[[Checkpoint], object]) -> Callable[[Checkpoint], None]:
    """Return the changes as one."""

    def apply(c: Checkpoint) -> None:
        for change in changes:
            change(c)

    return apply


def _store(module: str, tensors: dict[str, Tensor]) -> Callable[[Checkpoint], object]:
    return lambda c: c.replace(module, tensors)


def _unlist(*names: str) -> Callable[[Checkpoint], object]:
    return lambda c: _without(c, *names)


def _unskip(c: Checkpoint) -> None:
    for name in GATES:
        c.quant["modules_to_not_convert"].remove(name)


def _sibling(c: Checkpoint) -> None:
    c.get(f"{L1}.self_attn.q_proj.weight_scale_2").data = struct.pack("<f", 1.0)
    for part in ("k_proj", "v_proj"):
        c.get(f"{L1}.self_attn.{part}.weight_scale_2").data = struct.pack("<f", 2.0)


def _kv(c: Checkpoint) -> None:
    c.file_of("lm_head.weight")[f"{L1}.self_attn.k_proj.k_scale"] = Tensor("F32", ())


def _dequantize(c: Checkpoint, part: str, n: int, k: int) -> None:
    c.replace(part, dense(n, k))


MODEL_FAULTS: tuple[Fault, ...] = (
    Fault("M02", "bf16", lambda c: c.config.update(
        architectures=["Qwen4ExpForConditionalGeneration"]), options={"engine_version": "0.5.19"},
        say="0.5.19", alone=False),
    Fault("M03", "bf16", lambda c: c.pop(f"{L0}.linear_attn.in_proj_a.weight"), say="in_proj_a"),
    Fault("M03", "ct-int4", lambda c: c.pop(f"{L0}.mlp.up_proj.weight_packed"), say="up_proj"),
    Fault("M03", "bf16", lambda c: c.pop(f"{L1}.mlp.experts.1.up_proj.weight"), say="experts.1",
          healthy={"experts": 3}),
    Fault("M04", "bf16", lambda c: _text(c).update(
        num_hidden_layers=1, layer_types=["linear_attention"]), say="has 1 layers"),
    Fault("M04", "bf16", _double_layer, say="2–3"),
    Fault("M04", "bf16", lambda c: _text(c).update(num_hidden_layers=3), say="length"),
    Fault("M04", "bf16", lambda c: _text(c)["layer_types"].reverse(), say="swapped"),
    Fault("M05", "bf16", lambda c: _text(c).update(intermediate_size=256), say="[256, 128]"),
    Fault("M05", "ct-int4", lambda c: _text(c).update(vocab_size=512), say="512"),
    Fault("M06", "bf16", lambda c: c.pop("lm_head.weight"), say="no lm_head"),
    Fault("M06", "bf16", both(lambda c: c.config.update(tie_word_embeddings=True),
                              lambda c: _text(c).update(tie_word_embeddings=True)), severity=_W,
          say="lm_head"),
    Fault("M07", "bf16", lambda c: c.config.update(
        architectures=["Qwen3_5ForCausalLM"], **c.config.pop("text_config")), say="model."),
    Fault("M07", "bf16", lambda c: c.rename(
        lambda n: n.replace(PREFIX, "language_model.model.")), say="language_model.model"),
    Fault("M07", "bf16", lambda c: c.rename(
        lambda n: n.replace(f"{PREFIX}layers.0", "model.layers.0")), say="mixed"),
    Fault("M08", "bf16", _rename_fused, say="in_proj_qkvz"),
    Fault("M09", "bf16", lambda c: c.files.pop("model_mtp.safetensors"), severity=_W, say="lost"),
    Fault("M09", "bf16", lambda c: c.files.pop("model_mtp.safetensors"), say="lost",
          options={"speculative": True}),
    Fault("M09", "bf16", lambda c: c.pop("mtp.fc.weight"), severity=_W, say="mtp.fc"),
    Fault("M10", "bf16", lambda c: _text(c).update(mtp_num_hidden_layers=0), severity="info"),
    Fault("M11", "bf16", lambda c: _drop(c, "visual"), say="vision"),
    Fault("M11", "bf16", lambda c: _drop(c, "visual"), severity=_W,
          options={"language_only": True}),
    Fault("M11", "bf16", lambda c: _drop(c, "visual.merger.norm"), say="merger"),
    Fault("M14", "bf16", lambda c: c.file_of("lm_head.weight").update(
        {"model.audio.x.weight": Tensor("BF16", (4,))}), severity="info", say="audio"),
)  # fmt: skip

QUANT_FAULTS: tuple[Fault, ...] = (
    # Q01: refused methods.
    Fault("Q01", "gptq", lambda c: c.quant.update(sym=False), say="plain gptq"),
    Fault("Q01", "gptq", lambda c: c.quant.update(sym=False), severity=_W,
          options={"engine_version": "0.5.17"}, say="sym"),
    Fault("Q01", "gptq", lambda c: c.quant.pop("desc_act"), say="absent"),
    Fault("Q01", "bf16", lambda c: c.config.update(quantization_config={"quant_method": "exl3"}),
          say="EXL3"),
    Fault("Q01", "bf16", lambda c: c.config.update(
        quantization={"bits": 4, "group_size": 64, "mode": "affine"}), say="MLX"),
    # Q02: excluded by an entry, stored quantized.
    Fault("Q02", "ct-int4", lambda c: c.quant["ignore"].append("re:.*self_attn.*"),
          say="re:.*self_attn.*"),
    Fault("Q02", "mo-nvfp4", lambda c: c.quant["ignore"].append(f"{L0}.mlp*"), say="layers.0.mlp"),
    Fault("Q02", "fp8-block", lambda c: c.quant["modules_to_not_convert"].append("self_attn"),
          say="self_attn", alone=False),
    Fault("Q02", "awq", lambda c: c.quant["modules_to_not_convert"].append("layers.1.mlp"),
          say="layers.1.mlp"),
    Fault("Q02", "gptq", lambda c: c.quant["dynamic"].update({"-:.*down_proj": {}}),
          say="down_proj"),
    Fault("Q02", "auto-round", lambda c: c.quant.update(block_name_to_quantize="model.layers"),
          say="block_name"),
    Fault("Q02", "mo-mixed", lambda c: [c.quant["quantized_layers"].pop(f"{L1}.mlp.{p}")
                                        for p in ("gate_proj", "up_proj")], say="gate_proj"),
    # Q03: quantized by the config, stored BF16.
    Fault("Q03", "ct-int4", lambda c: _without(c, "re:.*linear_attn\\.in_proj_[ab]$"),
          say="in_proj_b"),
    Fault("Q03", "mo-nvfp4", lambda c: _without(c, *GATES), say="in_proj_a"),
    Fault("Q03", "mo-nvfp4", lambda c: _without(c, "lm_head"), say="lm_head"),
    Fault("Q03", "mo-nvfp4", lambda c: c.quant.update(ignore=[
        e.replace(PREFIX, "model.") for e in c.quant["ignore"]]), say="does not match",
        alone=False),
    Fault("Q03", "awq", lambda c: c.quant["modules_to_not_convert"].remove("in_proj_b"),
          say="in_proj_a"),
    Fault("Q03", "gptq", lambda c: c.quant["dynamic"].pop("-:.*in_proj_ba"), say="in_proj_b"),
    Fault("Q03", "gptq", lambda c: (c.quant["dynamic"].pop("-:.*in_proj_ba"),
                                    c.quant["dynamic"].update({"-:.*in_proj_a$": {},
                                                               "-:.*in_proj_b$": {}})),
          say="in_proj_b"),
    Fault("Q03", "fp8-block", lambda c: [c.quant["modules_to_not_convert"].remove(g)
                                         for g in GATES], say="in_proj_a"),
    # Q04: an entry that means nothing.
    Fault("Q04", "ct-int4", lambda c: c.quant["ignore"].append("model.decoder.proj"),
          severity="info", say="decoder"),
    # Q05: parts of one matrix.
    Fault("Q05", "ct-int4", lambda c: c.quant["ignore"].append(f"{L1}.self_attn.q_proj"),
          say="q_proj"),
    Fault("Q05", "mo-nvfp4", lambda c: c.quant["ignore"].append(f"{L1}.self_attn.q_proj"),
          say="q_proj"),
    Fault("Q05", "fp8-block", lambda c: c.quant["modules_to_not_convert"].append(
        f"{L1}.mlp.up_proj"), say="up_proj"),
    Fault("Q05", "ct-int4", lambda c: _dequantize(c, f"{L1}.mlp.up_proj", 128, 128),
          say="stored quantized"),
    # Q06: companions.
    Fault("Q06", "ct-int4", lambda c: c.pop(f"{L1}.mlp.down_proj.weight_scale"),
          say="weight_scale"),
    Fault("Q06", "ct-nvfp4", lambda c: c.pop(f"{L1}.mlp.down_proj.input_global_scale"),
          say="input_global_scale"),
    Fault("Q06", "ct-nvfp4", lambda c: c.pop(f"{L1}.mlp.down_proj.weight_global_scale"),
          say="weight_global_scale"),
    Fault("Q06", "mo-nvfp4", lambda c: c.pop(f"{L1}.mlp.down_proj.input_scale"), say="input_scale"),
    Fault("Q06", "mo-fp8", lambda c: c.pop(f"{L1}.mlp.down_proj.weight_scale"), say="weight_scale"),
    Fault("Q06", "fp8-block", lambda c: c.pop(f"{L1}.mlp.down_proj.weight_scale_inv"),
          say="weight_scale_inv"),
    Fault("Q06", "awq", lambda c: c.pop(f"{L1}.mlp.down_proj.qzeros"), say="qzeros"),
    Fault("Q06", "gptq", lambda c: c.pop(f"{L1}.mlp.down_proj.g_idx"), severity=_W, say="g_idx"),
    Fault("Q06", "ct-int4", lambda c: c.pop(f"{L1}.mlp.experts.2.up_proj.weight_scale"),
          say="experts 2", healthy={"experts": 3}),
    # Q07: leftovers.
    Fault("Q07", "ct-int4", lambda c: c.file_of("lm_head.weight").update(
        {f"{L1}.mlp.extra.weight_scale": Tensor("BF16", (128, 1))}), severity=_W, say="extra"),
    Fault("Q07", "ct-int4", lambda c: c.file_of("lm_head.weight").update(
        {"lm_head.weight_scale": Tensor("BF16", (256, 1))}), severity=_W, say="lm_head"),
    # Q08: dtypes.
    Fault("Q08", "mo-nvfp4", lambda c: c.replace(f"{L1}.mlp.down_proj", nvfp4(128, 128) | {
        "weight_scale": Tensor("U8", (128, 8))}), say="F8_E4M3"),
    Fault("Q08", "awq", lambda c: c.replace(f"{L1}.mlp.down_proj", awq(128, 128) | {
        "qweight": Tensor("F32", (128, 16))}), say="I32"),
    Fault("Q08", "mo-fp8", lambda c: c.replace(f"{L1}.mlp.down_proj", fp8_tensor(128, 128) | {
        "weight": Tensor("F8_E5M2", (128, 128))}), say="F8_E5M2"),
    # Q09: packed shapes.
    Fault("Q09", "ct-int4", lambda c: c.replace(f"{L1}.mlp.down_proj", int_packed(128, 256)),
          say="[128, 32]"),
    Fault("Q09", "ct-int4", lambda c: c.replace(f"{L1}.mlp.down_proj", int_packed(128, 128) | {
        "weight_shape": Tensor("I64", (2,), struct.pack("<2q", 128, 256))}), say="[128, 256]"),
    Fault("Q09", "mo-nvfp4", lambda c: c.replace(f"{L1}.mlp.down_proj", nvfp4(128, 64)),
          say="[128, 32]"),
    # Q10: group sizes.
    Fault("Q10", "ct-int4", lambda c: c.replace(f"{L1}.mlp.down_proj", int_packed(128, 128, 64)),
          say="group size 64"),
    Fault("Q10", "awq", lambda c: c.quant.update(group_size=32), say="group size 128"),
    Fault("Q10", "gptq", lambda c: c.quant.update(group_size=64), say="group size 128"),
    Fault("Q10", "fp8-block", lambda c: c.replace(f"{L1}.mlp.down_proj", fp8_block(128, 128) | {
        "weight_scale_inv": Tensor("BF16", (2, 2))}), say="64x64"),
    # Q11: siblings.
    Fault("Q11", "mo-nvfp4", _sibling, severity=_W, say="factor of 2"),
    # Q12: the head.
    Fault("Q12", "ct-int4", both(_unlist("lm_head"), _store("lm_head", int_packed(256, 128))),
          say="lm_head"),
    Fault("Q12", "ct-mixed", lambda c: None, options={"engine_version": "0.5.17"}, say="FP8"),
    Fault("Q12", "fp8-block", lambda c: c.replace("lm_head", fp8_block(256, 128)), say="FP8"),
    Fault("Q12", "awq", lambda c: c.replace("lm_head", awq(256, 128)), say="AWQ"),
    Fault("Q12", "mo-fp8", both(_unlist("lm_head"), _store("lm_head", fp8_tensor(256, 128))),
          healthy={"vision": False}, say="lm_head.weight only"),
    # Q13: embedding and tower.
    Fault("Q13", "ct-fp8", lambda c: c.replace(f"{PREFIX}embed_tokens", fp8_channel(256, 128)),
          say="embed_tokens"),
    Fault("Q13", "ct-int4", lambda c: c.replace("model.visual.blocks.0.attn.proj",
                                                int_packed(64, 128) | {
        "bias": Tensor("BF16", (64,))}), say="visual"),
    # Q14: the gates.
    Fault("Q14", "ct-int4", both(_unlist("re:.*linear_attn\\.in_proj_[ab]$"),
                                  *(_store(g, int_packed(2, 128)) for g in GATES)),
          say="2 rows"),
    Fault("Q14", "fp8-block", both(_unskip, *(_store(g, fp8_block(2, 128)) for g in GATES)),
          say="2 rows"),
    # Q15: the MTP head.
    Fault("Q15", "ct-int4", lambda c: _without(c, "re:^mtp.*"), severity=_W, say="mtp."),
    Fault("Q15", "ct-int4", lambda c: _without(c, "re:^mtp.*"), options={"speculative": True},
          say="mtp."),
    Fault("Q15", "awq", lambda c: c.quant["modules_to_not_convert"].remove("mtp"), severity=_W),
    Fault("Q15", "mo-nvfp4", lambda c: c.replace("mtp.layers.0.mlp.down_proj", nvfp4(128, 128)),
          severity=_W, say="NVFP4"),
    Fault("Q15", "mo-nvfp4", lambda c: c.replace("mtp.fc", nvfp4(128, 256)), severity=_W,
          say="mtp.fc"),
    Fault("Q15", "mo-nvfp4", lambda c: None, options={"engine": "vllm", "speculative": True},
          say="mtp.fc"),
    # Q16: targets.
    Fault("Q16", "ct-int4", lambda c: c.quant["config_groups"]["group_0"].update(
        targets=["re:.*mlp.*"]), say="self_attn"),
    Fault("Q16", "ct-mixed", lambda c: c.quant["config_groups"]["group_0"].pop("format"),
          say="group_0"),
    # Q17: nested.
    Fault("Q17", "ct-int4", lambda c: _text(c).update(
        quantization_config=c.config.pop("quantization_config")), say="text_config"),
    Fault("Q17", "ct-int4", lambda c: _text(c).update(
        quantization_config={"quant_method": "awq"}), severity=_W, say="differ"),
    # Q18: two configs.
    Fault("Q18", "mo-nvfp4", lambda c: setattr(c, "hf_quant", {"quantization": {
        "quant_algo": "FP8", "exclude_modules": c.quant["ignore"]}}), severity=_W, say="FP8"),
    # Q19: KV scales.
    Fault("Q19", "mo-fp8", _kv, severity=_W, say="k_scale"),
    Fault("Q19", "mo-fp8", lambda c: c.quant.update(
        kv_cache_scheme={"type": "float", "num_bits": 8, "dynamic": False}), severity="info"),
    # Q20: a config of another release.
    Fault("Q20", "ct-int4", lambda c: c.config.pop("quantization_config"), say="pack-quantized"),
    Fault("Q20", "fp8-block", lambda c: c.config.pop("quantization_config"), say="FP8"),
    Fault("Q20", "bf16", lambda c: c.config.update(quantization_config={
        "quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["mtp"]}),
        say="bf16"),
    Fault("Q20", "awq", lambda c: c.quant.update(quant_method="gptq", sym=True, desc_act=False,
                                                 dynamic={"-:.*in_proj_ba": {}, "-:^mtp": {}}),
          say="AWQ"),
    # Q21: odd ones out.
    Fault("Q21", "fp8-block", lambda c: c.replace(f"{L1}.mlp.down_proj", fp8_block(128, 128) | {
        "weight_scale_inv": Tensor("F32", (1, 1))}), severity=_W, say="F32"),
    Fault("Q21", "ct-int4", lambda c: c.replace(f"{L1}.mlp.down_proj", nvfp4_packed(128, 128)),
          say="NVFP4".lower()),
    Fault("Q21", "awq", lambda c: c.replace(f"{L1}.mlp.down_proj", gptq(128, 128)), say="GPTQ"),
)  # fmt: skip
FAULTS = (*MODEL_FAULTS, *QUANT_FAULTS)
