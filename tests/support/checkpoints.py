"""Synthetic checkpoints: tiny, whole, and healthy until a test breaks one thing.

The model obeys every alignment rule of the kernels: hidden 128, two layers, one of each kind. It is
written from the published layouts, with the standard library only.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ["BITS", "Checkpoint", "Tensor", "healthy", "write_safetensors"]

BITS = {"BF16": 16, "F16": 16, "F32": 32, "I32": 32, "I64": 64, "U8": 8, "I8": 8, "F8_E4M3": 8,
        "U32": 32, "F8_E5M2": 8, "F8_E8M0": 8}  # fmt: skip


@dataclass
class Tensor:
    """One tensor to be written."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | None = None

    def content(self) -> bytes:
        """Return its bytes: 0x38 throughout (1.0 in E4M3) unless given."""
        if self.data is not None:
            return self.data
        return b"\x38" * (prod(self.shape) * BITS[self.dtype] // 8)


def write_safetensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write one file as the usual writers do."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blobs = []
    position = 0
    for name, tensor in tensors.items():
        blob = tensor.content()
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [position, position + len(blob)],
        }
        position += len(blob)
        blobs.append(blob)
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"".join(blobs))


@dataclass
class Checkpoint:
    """Files to be written; tests change it before."""

    config: dict[str, Any]
    files: dict[str, dict[str, Tensor]]
    """File → tensors."""
    index: bool = True
    others: dict[str, str] = field(default_factory=dict)
    """Small text files."""
    hf_quant: dict[str, Any] | None = None

    @property
    def quant(self) -> dict[str, Any]:
        """The quantization config."""
        found: dict[str, Any] = self.config["quantization_config"]
        return found

    def file_of(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of the file that holds a tensor."""
        return next(tensors for tensors in self.files.values() if name in tensors)

    def get(self, name: str) -> Tensor:
        """Return a tensor."""
        return self.file_of(name)[name]

    def pop(self, name: str) -> Tensor:
        """Remove a tensor."""
        return self.file_of(name).pop(name)

    def rename(self, change: Callable[[str], str]) -> None:
        """Rename every tensor."""
        for file, tensors in self.files.items():
            self.files[file] = {change(name): tensor for name, tensor in tensors.items()}

    def replace(self, module: str, tensors: dict[str, Tensor]) -> None:
        """Store a module in another way."""
        holder = next(t for t in self.files.values() if any(n.startswith(module + ".") for n in t))
        for name in [n for n in holder if n.startswith(module + ".")]:
            del holder[name]
        for suffix, tensor in tensors.items():
            holder[f"{module}.{suffix}"] = tensor

    def write(self, folder: Path) -> Path:
        """Write everything and return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        weight_map: dict[str, str] = {}
        total = 0
        for file, tensors in self.files.items():
            write_safetensors(folder / file, tensors)
            for name, tensor in tensors.items():
                weight_map[name] = file
                total += len(tensor.content())
        if self.index:
            (folder / "model.safetensors.index.json").write_text(
                json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map})
            )
        if self.hf_quant is not None:
            (folder / "hf_quant_config.json").write_text(json.dumps(self.hf_quant))
        for name, text in self.others.items():
            (folder / name).write_text(text)
        return folder


SMALL = {
    "tokenizer.json": '{"version": "1.0"}',
    "tokenizer_config.json": "{}",
    "generation_config.json": "{}",
    "chat_template.jinja": "{{ messages }}",
    "preprocessor_config.json": "{}",
}

H, INTER, VOCAB = 128, 128, 256
VISION = {
    "depth": 1, "hidden_size": 64, "intermediate_size": 96, "patch_size": 16, "in_channels": 3,
    "temporal_patch_size": 2, "spatial_merge_size": 2, "num_position_embeddings": 16,
    "out_hidden_size": H,
}  # fmt: skip
PREFIX = "model.language_model."


def text_config(*, experts: int = 0, layers: int = 2) -> dict[str, Any]:
    """Return the text part of the tiny model's config."""
    kinds = ["linear_attention", "full_attention"] * (layers // 2)
    config: dict[str, Any] = {
        "hidden_size": H, "num_hidden_layers": layers, "layer_types": kinds,
        "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 128,
        "attn_output_gate": True, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
        "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4,
        "vocab_size": VOCAB, "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
        "tie_word_embeddings": False,
    }  # fmt: skip
    if experts:
        config |= {"num_experts": experts, "moe_intermediate_size": INTER,
                   "shared_expert_intermediate_size": INTER}  # fmt: skip
    else:
        config["intermediate_size"] = INTER
    return config


def _attention(at: str) -> dict[str, tuple[int, ...]]:
    return {
        f"{at}.self_attn.q_proj": (256, H), f"{at}.self_attn.k_proj": (128, H),
        f"{at}.self_attn.v_proj": (128, H), f"{at}.self_attn.o_proj": (H, 128),
        f"{at}.self_attn.q_norm.weight": (128,), f"{at}.self_attn.k_norm.weight": (128,),
    }  # fmt: skip


def _delta(at: str) -> dict[str, tuple[int, ...]]:
    at = f"{at}.linear_attn"
    return {
        f"{at}.in_proj_qkv": (384, H), f"{at}.in_proj_z": (128, H), f"{at}.in_proj_b": (2, H),
        f"{at}.in_proj_a": (2, H), f"{at}.out_proj": (H, 128), f"{at}.conv1d.weight": (384, 1, 4),
        f"{at}.A_log": (2,), f"{at}.dt_bias": (2,), f"{at}.norm.weight": (64,),
    }  # fmt: skip


def _rest(at: str, experts: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        f"{at}.input_layernorm.weight": (H,), f"{at}.post_attention_layernorm.weight": (H,),
    }  # fmt: skip
    mlp = f"{at}.mlp"
    blocks = [mlp]
    if experts:
        shapes |= {f"{mlp}.gate.weight": (experts, H), f"{mlp}.shared_expert_gate.weight": (1, H)}
        blocks = [f"{mlp}.shared_expert", *(f"{mlp}.experts.{i}" for i in range(experts))]
    for block in blocks:
        shapes |= {f"{block}.gate_proj": (INTER, H), f"{block}.up_proj": (INTER, H),
                   f"{block}.down_proj": (H, INTER)}  # fmt: skip
    return shapes


def layout(
    *, prefix: str = PREFIX, experts: int = 0, layers: int = 2
) -> dict[str, tuple[int, ...]]:
    """Return names and shapes; a name without a suffix is a linear module."""
    shapes: dict[str, tuple[int, ...]] = {
        f"{prefix}embed_tokens.weight": (VOCAB, H), f"{prefix}norm.weight": (H,),
        "lm_head": (VOCAB, H),
    }  # fmt: skip
    for layer in range(layers):
        at = f"{prefix}layers.{layer}"
        shapes |= _delta(at) if layer % 2 == 0 else _attention(at)
        shapes |= _rest(at, experts)
    shapes |= {"mtp.fc.weight": (H, 2 * H), "mtp.norm.weight": (H,),
               "mtp.pre_fc_norm_embedding.weight": (H,),
               "mtp.pre_fc_norm_hidden.weight": (H,)}  # fmt: skip
    return shapes | _attention("mtp.layers.0") | _rest("mtp.layers.0", experts)


def vision_layout() -> dict[str, tuple[int, ...]]:
    """Return the tensors of the tiny tower."""
    w, inner = 64, 96
    shapes: dict[str, tuple[int, ...]] = {
        "patch_embed.proj.weight": (w, 3, 2, 16, 16), "patch_embed.proj.bias": (w,),
        "pos_embed.weight": (16, w), "merger.norm.weight": (w,), "merger.norm.bias": (w,),
        "merger.linear_fc1.weight": (4 * w, 4 * w), "merger.linear_fc1.bias": (4 * w,),
        "merger.linear_fc2.weight": (H, 4 * w), "merger.linear_fc2.bias": (H,),
    }  # fmt: skip
    for name, rows, columns in (
        ("attn.qkv", 3 * w, w), ("attn.proj", w, w), ("mlp.linear_fc1", inner, w),
        ("mlp.linear_fc2", w, inner),
    ):  # fmt: skip
        shapes |= {f"blocks.0.{name}.weight": (rows, columns), f"blocks.0.{name}.bias": (rows,)}
    for name in ("norm1", "norm2"):
        shapes |= {f"blocks.0.{name}.weight": (w,), f"blocks.0.{name}.bias": (w,)}
    return {f"model.visual.{name}": shape for name, shape in shapes.items()}


def dense(n: int, k: int) -> dict[str, Tensor]:
    """Return an unquantized matrix."""
    return {"weight": Tensor("BF16", (n, k))}


def int_packed(n: int, k: int, group: int = 128, *, scale: str = "BF16") -> dict[str, Tensor]:
    """Return compressed-tensors int4."""
    return {
        "weight_packed": Tensor("I32", (n, k // 8)),
        "weight_scale": Tensor(scale, (n, k // group)),
        "weight_shape": Tensor("I64", (2,), struct.pack("<2q", n, k)),
    }


def nvfp4_packed(n: int, k: int, *, acts: bool = True) -> dict[str, Tensor]:
    """Return compressed-tensors NVFP4."""
    tensors = {
        "weight_packed": Tensor("U8", (n, k // 2)),
        "weight_scale": Tensor("F8_E4M3", (n, k // 16)),
        "weight_global_scale": Tensor("F32", (1,)),
    }
    return tensors | ({"input_global_scale": Tensor("F32", (1,))} if acts else {})


def nvfp4(n: int, k: int, *, acts: bool = True) -> dict[str, Tensor]:
    """Return ModelOpt NVFP4."""
    tensors = {
        "weight": Tensor("U8", (n, k // 2)),
        "weight_scale": Tensor("F8_E4M3", (n, k // 16)),
        "weight_scale_2": Tensor("F32", ()),
    }
    return tensors | ({"input_scale": Tensor("F32", ())} if acts else {})


def fp8_tensor(n: int, k: int) -> dict[str, Tensor]:
    """Return ModelOpt FP8."""
    return {"weight": Tensor("F8_E4M3", (n, k)), "weight_scale": Tensor("F32", ()),
            "input_scale": Tensor("F32", ())}  # fmt: skip


def fp8_channel(n: int, k: int) -> dict[str, Tensor]:
    """Return compressed-tensors FP8 with one scale a row."""
    return {"weight": Tensor("F8_E4M3", (n, k)), "weight_scale": Tensor("BF16", (n, 1))}


def fp8_block(n: int, k: int) -> dict[str, Tensor]:
    """Return FP8 in blocks of 128 x 128."""
    return {"weight": Tensor("F8_E4M3", (n, k)),
            "weight_scale_inv": Tensor("BF16", (-(-n // 128), -(-k // 128)))}  # fmt: skip


def int8_channel(n: int, k: int) -> dict[str, Tensor]:
    """Return compressed-tensors int8."""
    return {"weight": Tensor("I8", (n, k)), "weight_scale": Tensor("BF16", (n, 1))}


def awq(n: int, k: int, group: int = 128) -> dict[str, Tensor]:
    """Return AWQ gemm."""
    return {"qweight": Tensor("I32", (k, n // 8)), "qzeros": Tensor("I32", (k // group, n // 8)),
            "scales": Tensor("F16", (k // group, n))}  # fmt: skip


def gptq(n: int, k: int, group: int = 128) -> dict[str, Tensor]:
    """Return GPTQ."""
    index = struct.pack(f"<{k}i", *(i // group for i in range(k)))
    return {
        "qweight": Tensor("I32", (k // 8, n)),
        "qzeros": Tensor("I32", (k // group, n // 8)),
        "scales": Tensor("F16", (k // group, n)),
        "g_idx": Tensor("I32", (k,), index),
    }


def _int_channel(n: int, k: int) -> dict[str, Tensor]:
    return int_packed(n, k) | {"weight_scale": Tensor("BF16", (n, 1))}


def _int_zero(n: int, k: int) -> dict[str, Tensor]:
    return int_packed(n, k) | {"weight_zero_point": Tensor("I32", (-(-n // 8), k // 128))}


def _fp8_ct_block(n: int, k: int) -> dict[str, Tensor]:
    return {"weight": Tensor("F8_E4M3", (n, k)),
            "weight_scale": Tensor("BF16", (-(-n // 128), -(-k // 128)))}  # fmt: skip


def _mxfp4(n: int, k: int) -> dict[str, Tensor]:
    return {"weight_packed": Tensor("U8", (n, k // 2)), "weight_scale": Tensor("U8", (n, k // 32))}


def _mxfp8(n: int, k: int) -> dict[str, Tensor]:
    return {"weight": Tensor("F8_E4M3", (n, k)), "weight_scale": Tensor("U8", (n, k // 32))}


def _nvfp4_awq(n: int, k: int) -> dict[str, Tensor]:
    return nvfp4(n, k) | {"pre_quant_scale": Tensor("BF16", (k,))}


def _gptq8(n: int, k: int) -> dict[str, Tensor]:
    return gptq(n, k) | {"qweight": Tensor("I32", (k // 4, n)),
                         "qzeros": Tensor("I32", (k // 128, n // 4))}  # fmt: skip


def _ct(fmt: str, weights: dict[str, Any], acts: Any, ignore: list[str]) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors", "format": fmt, "ignore": ignore,
        "quantization_status": "compressed", "kv_cache_scheme": None,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                      "input_activations": acts, "format": fmt}},
    }  # fmt: skip


_CT_IGNORE = ["lm_head", "re:^mtp.*", "re:.*visual.*", "re:.*linear_attn\\.in_proj_[ab]$"]
_INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}
_FP4 = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group",
        "group_size": 16}  # fmt: skip
_ACT4 = {**_FP4, "dynamic": "local"}
_FP8C = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel"}
_ACT8 = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}
_INT8C = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}
_ACTI8 = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}
_MO_IGNORE = ["lm_head", "mtp.layers.0*", "model.visual*",
              f"{PREFIX}layers.0.linear_attn.in_proj_a",
              f"{PREFIX}layers.0.linear_attn.in_proj_b"]  # fmt: skip


def _gates(name: str) -> bool:
    return name.endswith(("in_proj_a", "in_proj_b"))


def _usual(name: str) -> bool:
    """Whether releases quantize a matrix: not the gates, head or MTP layer."""
    return not (_gates(name) or name == "lm_head" or name.startswith("mtp."))


def healthy(kind: str, *, vision: bool = True, mtp: bool = True, experts: int = 0,
            layers: int = 2, arch: str | None = None) -> Checkpoint:  # fmt: skip
    """Return a healthy checkpoint of a format.

    Args:
        kind: A key of :data:`KINDS`.
        vision: With tower (wrapped class) or as the text-only class.
        mtp: With MTP head.
        experts: Routed experts per layer, stored one by one; 0 = dense.
        layers: Layers, an even number.
        arch: Another architecture than the one that fits.
    """
    store, quant, chosen, hf_quant = KINDS[kind]
    prefix = PREFIX if vision else "model."
    moe = "Moe" if experts else ""
    name = arch or (
        f"Qwen3_5{moe}ForConditionalGeneration" if vision else f"Qwen3_5{moe}ForCausalLM"
    )
    text = text_config(experts=experts, layers=layers)
    if not mtp:
        text["mtp_num_hidden_layers"] = 0
    config: dict[str, Any] = {"architectures": [name], "model_type": "qwen3_5",
                              "tie_word_embeddings": False}  # fmt: skip
    if vision:
        config |= {"text_config": text, "vision_config": dict(VISION)}
    else:
        config |= text
    if quant is not None:
        config["quantization_config"] = json.loads(json.dumps(quant).replace(PREFIX, prefix))
    main: dict[str, Tensor] = {}
    draft: dict[str, Tensor] = {}
    for item, shape in layout(prefix=prefix, experts=experts, layers=layers).items():
        into = draft if item.startswith("mtp.") else main
        if item.endswith((".weight", "A_log", "dt_bias")):
            dtype = "F32" if item.endswith(("A_log", "linear_attn.norm.weight")) else "BF16"
            into[item] = Tensor(dtype, shape)
            continue
        n, k = shape
        tensors = store(item, n, k) if chosen(item) else dense(n, k)
        into |= {f"{item}.{suffix}": tensor for suffix, tensor in tensors.items()}
    if vision:
        main |= {item: Tensor("BF16", shape) for item, shape in vision_layout().items()}
    files = {"model.safetensors": main}
    if mtp:
        files["model_mtp.safetensors"] = draft
    return Checkpoint(config, files, others=dict(SMALL), hf_quant=hf_quant)


def _mixed_layers() -> dict[str, Any]:
    layers: dict[str, Any] = {"lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16}}
    for layer in (0, 1):
        for part in ("gate_proj", "up_proj", "down_proj"):
            layers[f"{PREFIX}layers.{layer}.mlp.{part}"] = {
                "quant_algo": "W4A16_NVFP4", "group_size": 16}  # fmt: skip
    for part in ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj"):
        layers[f"{PREFIX}layers.0.{part}"] = {"quant_algo": "FP8"}
    for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
        layers[f"{PREFIX}layers.1.self_attn.{part}"] = {"quant_algo": "FP8"}
    return layers


def _store_mo_mixed(name: str, n: int, k: int) -> dict[str, Tensor]:
    return nvfp4(n, k, acts=False) if ".mlp." in name or name == "lm_head" else fp8_tensor(n, k)


def _store_ct_mixed(name: str, n: int, k: int) -> dict[str, Tensor]:
    return nvfp4_packed(n, k) if ".mlp." in name else fp8_channel(n, k)


_CT_MIXED = {
    "quant_method": "compressed-tensors", "format": "mixed-precision",
    "ignore": ["re:^mtp.*", "re:.*visual.*", "re:.*in_proj_[ab]$"],
    "config_groups": {
        "group_0": {"targets": ["re:.*mlp\\..*_proj$"], "weights": _FP4,
                    "input_activations": _ACT4, "format": "nvfp4-pack-quantized"},
        "group_1": {"targets": ["re:.*self_attn.*", "re:.*linear_attn.*", "lm_head"],
                    "weights": _FP8C, "input_activations": _ACT8, "format": "float-quantized"},
    },
}  # fmt: skip
_FP8_SKIP = ["lm_head", "model.visual.merger", "mtp.fc", "mtp.layers.0.mlp.gate",
             f"{PREFIX}layers.0.linear_attn.conv1d", f"{PREFIX}layers.0.linear_attn.in_proj_a",
             f"{PREFIX}layers.0.linear_attn.in_proj_b", f"{PREFIX}layers.0.mlp.gate",
             f"{PREFIX}layers.1.mlp.gate"]  # fmt: skip


def _with_mtp(name: str) -> bool:
    return not (_gates(name) or name == "lm_head")


def _plain(store: Callable[[int, int], dict[str, Tensor]]) -> Any:
    def of(name: str, n: int, k: int) -> dict[str, Tensor]:
        del name
        return store(n, k)

    return of


def _every(name: str) -> bool:
    return _usual(name) or name == "lm_head"


KINDS: dict[str, tuple[Any, dict[str, Any] | None, Callable[[str], bool], Any]] = {
    "bf16": (_plain(dense), None, _usual, None),
    "ct-int4": (_plain(int_packed), _ct("pack-quantized", _INT4, None, _CT_IGNORE), _usual, None),
    "ct-nvfp4": (_plain(nvfp4_packed), _ct("nvfp4-pack-quantized", _FP4, _ACT4, _CT_IGNORE),
                 _usual, None),
    "ct-fp8": (_plain(fp8_channel), _ct("float-quantized", _FP8C, _ACT8, _CT_IGNORE), _usual,
               None),
    "ct-int8": (_plain(int8_channel), _ct("int-quantized", _INT8C, _ACTI8, _CT_IGNORE), _usual,
                None),
    "ct-mixed": (_store_ct_mixed, _CT_MIXED, _every, None),
    "mo-nvfp4": (_plain(nvfp4), {"quant_method": "modelopt", "quant_algo": "NVFP4",
                                 "ignore": _MO_IGNORE}, _usual, None),
    "mo-nvfp4-hf": (_plain(nvfp4), None, _usual,
                    {"producer": {"name": "modelopt"},
                     "quantization": {"quant_algo": "NVFP4", "group_size": 16,
                                      "kv_cache_quant_algo": None,
                                      "exclude_modules": _MO_IGNORE}}),
    "mo-fp8": (_plain(fp8_tensor), {"quant_method": "modelopt", "quant_algo": "FP8",
                                    "ignore": _MO_IGNORE}, _usual, None),
    "mo-mixed": (_store_mo_mixed, {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
                                   "ignore": ["mtp*", "model.visual*"],
                                   "quantized_layers": _mixed_layers()}, _every, None),
    "fp8-block": (_plain(fp8_block), {"quant_method": "fp8", "fmt": "e4m3",
                                      "activation_scheme": "dynamic",
                                      "weight_block_size": [128, 128],
                                      "modules_to_not_convert": _FP8_SKIP}, _with_mtp, None),
    "awq": (_plain(awq), {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True,
                          "version": "gemm",
                          "modules_to_not_convert": ["visual", "mtp", "in_proj_b", "lm_head"]},
            _usual, None),
    "gptq": (_plain(gptq), {"quant_method": "gptq", "bits": 4, "group_size": 128,
                            "desc_act": False, "sym": True, "lm_head": False,
                            "checkpoint_format": "gptq",
                            "dynamic": {"-:.*in_proj_ba": {}, "-:^mtp.*": {},
                                        "-:.*visual.*": {}}}, _usual, None),
    "auto-round": (_plain(gptq), {"quant_method": "auto-round", "bits": 4, "group_size": 128,
                                  "sym": True, "packing_format": "auto_round:auto_gptq",
                                  "block_name_to_quantize": "model.language_model.layers",
                                  "extra_config": {".*in_proj_[ab]$": {"bits": 16}}},
                   _usual, None),
    "ct-int4-channel": (_plain(_int_channel), _ct("pack-quantized", {
        **_INT4, "strategy": "channel", "group_size": None}, None, _CT_IGNORE), _usual, None),
    "ct-int4-zero": (_plain(_int_zero), _ct("pack-quantized", {**_INT4, "symmetric": False}, None,
                                            _CT_IGNORE), _usual, None),
    "ct-nvfp4a16": (_plain(lambda n, k: nvfp4_packed(n, k, acts=False)),
                    _ct("nvfp4-pack-quantized", _FP4, None, _CT_IGNORE), _usual, None),
    "ct-fp8-block": (_plain(_fp8_ct_block), _ct("float-quantized", {
        "num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
        _ACT8, _CT_IGNORE), _usual, None),
    "ct-mxfp4": (_plain(_mxfp4), _ct("mxfp4-pack-quantized", {**_FP4, "group_size": 32,
                                                              "strategy": "group"}, None,
                                     _CT_IGNORE), _usual, None),
    "mo-w4a16": (_plain(lambda n, k: nvfp4(n, k, acts=False)), {
        "quant_method": "modelopt", "quant_algo": "W4A16_NVFP4", "ignore": _MO_IGNORE}, _usual,
        None),
    "mo-nvfp4-awq": (_plain(_nvfp4_awq), {"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ",
                                          "ignore": _MO_IGNORE}, _usual, None),
    "mo-mxfp8": (_plain(_mxfp8), {"quant_method": "modelopt", "quant_algo": "MXFP8",
                                  "ignore": _MO_IGNORE}, _usual, None),
    "fp8-tensor": (_plain(fp8_tensor), {"quant_method": "fp8", "activation_scheme": "static",
                                        "ignored_layers": _FP8_SKIP}, _with_mtp, None),
    "gptq-int8": (_plain(_gptq8), {"quant_method": "gptq", "bits": 8, "group_size": 128,
                                   "desc_act": True, "sym": True,
                                   "dynamic": {"-:.*in_proj_ba": {}, "-:^mtp.*": {}}}, _usual,
                  None),
}  # fmt: skip
"""Format → (how a matrix is stored, quantization config, which are quantized, hf_quant)."""


def names_of(checkpoint: Checkpoint) -> Iterable[str]:
    """Yield every tensor's name."""
    for tensors in checkpoint.files.values():
        yield from tensors
