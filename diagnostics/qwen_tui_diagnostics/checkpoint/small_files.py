"""Files beside the weights: tokenizer, chat template, generation config (rule M13)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.signatures import looks_like_page, read_pointer
from qwen_tui_diagnostics.checkpoint.source import FileKind
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.checkpoint.architecture import Dims
    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_diagnostics.checkpoint.source import Source

__all__ = ["check_small_files"]

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
_TEMPLATES = ("chat_template.jinja", "chat_template.json")
_SMALL = (
    "tokenizer_config.json", "generation_config.json", "preprocessor_config.json",
    "processor_config.json", "special_tokens_map.json", "chat_template.json",
)  # fmt: skip
_WEIGHTS_ONLY = frozenset({"config.json", "hf_quant_config.json", "model.safetensors.index.json"})
_LARGEST_BYTES = 32 << 20


def check_small_files(source: Source, dims: Dims, found: Findings) -> None:
    """Look for what a server needs beside the weights."""
    files = source.files()
    beside = [
        name
        for name, file in files.items()
        if name not in _WEIGHTS_ONLY
        and not name.endswith(".safetensors")
        and not name.startswith(".")
        and file.kind is FileKind.FILE
    ]
    if not beside:
        # Weights alone are a legitimate folder: the tokenizer may come from --tokenizer-path.
        found.add(
            "M13",
            severity=Severity.INFO,
            evidence=t("weights and config only"),
            detail=t("The folder holds weights alone; the tokenizer must come from elsewhere."),
            consequence=t("The engine needs --tokenizer-path."),
        )
        return
    broken = [name for name in (*_TOKENIZERS, *_SMALL) if name in files and _broken(source, name)]
    if not any(name in files for name in _TOKENIZERS) or any(n in broken for n in _TOKENIZERS):
        bad = [name for name in broken if name in _TOKENIZERS]
        found.add(
            "M13",
            severity=Severity.ERROR,
            evidence=t("{bad} is broken", bad=bad[0]) if bad else t("no tokenizer.json"),
            detail=t("No usable tokenizer is in the folder."),
            consequence=t("The engine refuses to start."),
            files=bad or ["tokenizer.json"],
        )
    missing = []
    if "generation_config.json" not in files:
        missing.append("generation_config.json")
    if not _has_template(source):
        missing.append("chat_template.jinja")
    if dims.vision is not None and not (
        {"preprocessor_config.json", "processor_config.json"} & files.keys()
    ):
        missing.append("preprocessor_config.json")
    others = [name for name in broken if name not in _TOKENIZERS]
    if missing or others:
        # One file that lacks was lost; where several lack, the folder is no full release.
        lost = bool(others) or len(missing) == 1
        found.add(
            "M13",
            severity=Severity.WARN if lost else Severity.INFO,
            evidence=", ".join(
                [*(f"no {name}" for name in missing), *(f"{name} is broken" for name in others)]
            ),
            files=[*missing, *others],
        )


def _has_template(source: Source) -> bool:
    files = source.files()
    if any(name in files for name in _TEMPLATES) or "chat_templates" in files:
        return True
    config = files.get("tokenizer_config.json")
    if config is None or config.kind is not FileKind.FILE or config.size > _LARGEST_BYTES:
        return False
    try:
        return b'"chat_template"' in source.read(config.name, 0, config.size)
    except OSError:
        return False


def _broken(source: Source, name: str) -> bool:
    """Whether a file is empty, a pointer, a page, or (when small) not JSON."""
    file = source.files()[name]
    if file.kind is not FileKind.FILE or file.size == 0:
        return True
    try:
        head = source.read(name, 0, min(file.size, 1024))
        if read_pointer(head) is not None or looks_like_page(head[:512]):
            return True
        if name in _SMALL and file.size < 1 << 20:
            json.loads(source.read(name, 0, file.size))
    except (OSError, ValueError, RecursionError):
        return True
    return False
