"""What is known of checkpoints that are not on this disk yet, so that they can be planned for.

Only dimensions (a ``config.json``) and sizes that public launch records print; a plan made with
them says so in ``assumed``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = ["KNOWN_MODELS", "KnownModel", "known_model"]

_HERE = Path(__file__).parent
_LARGEST_NAME = 300


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One row."""

    pattern: str
    """Stands in the last part of the folder's or repository's name, in lower case."""
    folder: Path
    """Holds ``config.json``."""
    weights_gib: float | None
    """``mem usage`` that the engine prints after the target's weights; None = from the
    dimensions, if at all."""
    draft_gib: float | None
    source: Text
    """Where the size was printed, or where the dimensions come from."""


_QWEN_27B = r"qwen3\.[568]-27b"
_DENSE_27B = _HERE / "qwen3.8-27b"

# The first row that matches holds. Another quantizer's release of the same name has other sizes
# (unsloth's NVFP4 keeps most matrices in FP8), so that it is not known here.
KNOWN_MODELS: tuple[KnownModel, ...] = (
    KnownModel(
        rf"^(?!.*unsloth).*{_QWEN_27B}.*int4",
        _DENSE_27B,
        17.67,
        5.53,
        t("launch record of RedHatAI's INT4 (seed 004)"),
    ),
    KnownModel(
        rf"^(?!.*unsloth).*{_QWEN_27B}.*nvfp4",
        _DENSE_27B,
        18.59,
        5.53,
        t("launch record of NVIDIA's NVFP4 (seed 000)"),
    ),
    KnownModel(
        rf"{_QWEN_27B}(-instruct|-bf16)?$",
        _DENSE_27B,
        None,
        None,
        t("dimensions of the 27B in bfloat16; recorded boots printed them within 0.01 GiB"),
    ),
    KnownModel(
        r"qwen3\.8-flash-next",
        _HERE / "qwen3.8-flash-next",
        None,
        None,
        t("dimensions of Flash-Next; no launch record prints its weights"),
    ),
)


def known_model(name: str) -> KnownModel | None:
    """Return what is known of a checkpoint by its folder's or repository's name."""
    lower = name.strip().rstrip("/").lower()[-_LARGEST_NAME:]
    return next((m for m in KNOWN_MODELS if re.search(m.pattern, lower)), None)
