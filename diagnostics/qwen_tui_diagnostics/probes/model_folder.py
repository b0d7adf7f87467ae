"""The cheap half of a checkpoint: folder, config, index against files. Nothing is hashed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.files import read_text
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.headers import has_weights, read_stored_sizes
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect"]

INDEX = "model.safetensors.index.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
_SHOWN = 3


def collect(context: Context, found: Gathered) -> None:
    """Gather ``model.*`` for a profile that names a local folder."""
    path = context.target.model_path
    if path is None:
        found.lack("model", SkipReason.NOT_APPLICABLE, t("the profile names no local folder"))
        return
    folder = Path(path)
    found.put("model.path", path)
    found.put("model.exists", folder.is_dir())
    if not folder.is_dir():
        return
    with found.attempt("model.shards", "model.shard_bytes"):
        files = sorted(folder.glob("*.safetensors"))
        # A link into a cache that was cleaned is still listed.
        dangling = [f.name for f in files if f.is_symlink() and not f.exists()]
        sizes = {f.name: f.stat().st_size for f in files if f.name not in dangling}
        found.put("model.dangling", [clean(name) for name in dangling[:_SHOWN]])
        found.put("model.shards", len(sizes))
        found.put("model.shard_bytes", sum(sizes.values()))
        found.put("model.partial", sorted(f.name for f in folder.rglob("*.incomplete"))[:_SHOWN])
        _index(folder, sizes, found)
    _config(folder, found)
    _stored(folder, found)
    found.put("model.tokenizer", any((folder / name).is_file() for name in _TOKENIZERS))
    with found.attempt("model.links_outside"):
        root = folder.resolve()
        outside = [
            f.name for f in sorted(folder.glob("*.safetensors")) if root not in f.resolve().parents
        ]
        found.put("model.links_outside", outside[:_SHOWN])
        found.put("model.links_outside_count", len(outside))


def _index(folder: Path, sizes: dict[str, int], found: Gathered) -> None:
    path = folder / INDEX
    if not path.exists():
        found.lack("model.missing", SkipReason.UNSUPPORTED, t("no index file"))
        found.put("model.indexed", False)
        return
    found.put("model.indexed", True)
    with found.attempt("model.missing", "model.missing_count"):
        weights = json.loads(path.read_bytes())["weight_map"]
        if not isinstance(weights, dict):
            raise TypeError(type(weights).__name__)
        named = {str(name) for name in weights.values()}
        missing = sorted(clean(name) for name in named - set(sizes))
        found.put("model.missing", missing[:_SHOWN])
        found.put("model.missing_count", len(missing))
        found.put("model.indexed_shards", len(named))


def _config(folder: Path, found: Gathered) -> None:
    with found.attempt("model.config"):
        config: Any = json.loads(read_text(folder / "config.json"))
        if not isinstance(config, dict):
            found.lack("model.config", SkipReason.UNSUPPORTED, t("config.json is not an object"))
            return
        text = config.get("text_config")
        inner = text if isinstance(text, dict) else config
        quantization = config.get("quantization_config")
        values: dict[str, Any] = {
            "model_type": config.get("model_type"),
            "architectures": config.get("architectures"),
            "text_model_type": inner.get("model_type"),
            "max_position_embeddings": inner.get("max_position_embeddings"),
            "quantization": quantization.get("quant_method")
            if isinstance(quantization, dict)
            else None,
        }
        found.put("model.config", {k: v for k, v in values.items() if v is not None})
        # The memory plan is arithmetic over the whole document.
        found.put("model.document", config)


def _stored(folder: Path, found: Gathered) -> None:
    """Add up the tensors by part, from the headers alone; the memory plan needs them."""
    if not has_weights(folder):
        found.lack("model.stored", SkipReason.NOT_APPLICABLE, t("no weights there"))
        return
    try:
        found.put("model.stored", asdict(read_stored_sizes(folder)))
    except (QwenTuiError, OSError) as error:
        found.lack("model.stored", SkipReason.UNSUPPORTED, clean(str(error))[:200])
