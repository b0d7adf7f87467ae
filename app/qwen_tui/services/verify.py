"""Judge a checkpoint: here from its folder, or far away from its headers alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint import NEWEST, verify
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from qwen_tui_diagnostics.checkpoint import VerifyReport

__all__ = ["VerifyOptions", "verify_checkpoint"]


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What to judge, and for what."""

    path: str
    engine: str | None = None
    """``sglang==0.5.17``, ``vllm``, …"""
    speculative: bool = False
    language_only: bool = False
    quantization: str | None = None


def verify_checkpoint(options: VerifyOptions) -> VerifyReport:
    """Run the passes that are asked for.

    Raises:
        UsageError: The engine is not known.
        InputError: The folder or repository cannot be read.
    """
    engine, version = engine_of(options.engine)
    return verify(
        Path(options.path).expanduser(),
        engine=engine,
        engine_version=version,
        speculative=options.speculative,
        language_only=options.language_only,
        quantization=options.quantization,
    )


def engine_of(spec: str | None) -> tuple[str, str | None]:
    """Read ``sglang==0.5.17``; without a version the newest known one is meant.

    Raises:
        UsageError: Another engine, or an unreadable version.
    """
    if spec is None:
        return "sglang", None
    name, separator, version = spec.partition("==")
    engine = name.strip().lower()
    if engine not in NEWEST:
        raise UsageError(
            t("{spec} is not an engine.", spec=repr(clean(spec)[:60])),
            t("Write sglang==0.5.17, vllm==0.33.0, or the name alone."),
        )
    return engine, str(Version.parse(version)) if separator else None
