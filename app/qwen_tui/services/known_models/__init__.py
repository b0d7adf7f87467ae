"""What is assumed of a checkpoint that is not on this disk yet, so that it can be planned for.

Only dimensions (a ``config.json``) and sizes that public launch records print; a plan made with
them says so in ``assumed``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["KNOWN_MODELS", "KnownModel", "known_model"]

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One row."""

    words: tuple[str, ...]
    """All of them stand in the folder's or repository's name, in lower case."""
    folder: Path
    """Holds ``config.json``."""
    weights_gib: float
    """``mem usage`` that the engine prints after the target's weights."""
    draft_gib: float
    source: str


KNOWN_MODELS: tuple[KnownModel, ...] = (
    KnownModel(
        ("27b", "int4"), _HERE / "qwen3.8-27b", 17.67, 5.53, "launch record of RedHatAI's INT4"
    ),
    KnownModel(
        ("27b", "nvfp4"), _HERE / "qwen3.8-27b", 18.59, 5.53, "launch record of NVIDIA's NVFP4"
    ),
)


def known_model(name: str) -> KnownModel | None:
    """Return what is known of a checkpoint by its folder's or repository's name."""
    lower = name.lower()
    return next((m for m in KNOWN_MODELS if all(word in lower for word in m.words)), None)
