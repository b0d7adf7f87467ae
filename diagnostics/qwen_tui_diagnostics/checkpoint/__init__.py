"""Is this checkpoint what it says it is, and will this engine read it so?

Three things no engine does before a launch: bytes (every file is whole), names (every tensor that
the architecture needs exists once, with the right shape, in a file that is really opened), and
declaration against evidence (what the engine would build for a module equals what is stored).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.judge import NEWEST, Judgement, verify_source
from qwen_tui_diagnostics.checkpoint.report import (
    Assumed,
    CheckpointFinding,
    Inventory,
    Judged,
    Reach,
    Verdict,
    VerifyReport,
)
from qwen_tui_diagnostics.checkpoint.source import open_folder

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "NEWEST",
    "Assumed",
    "CheckpointFinding",
    "Inventory",
    "Judged",
    "Judgement",
    "Reach",
    "Verdict",
    "VerifyReport",
    "verify",
    "verify_source",
]


def verify(
    path: Path | str,
    *,
    engine: str = "sglang",
    engine_version: str | None = None,
    speculative: bool = False,
    language_only: bool = False,
    quantization: str | None = None,
    content: Callable[[Judgement], Reach] | None = None,
    sampling: Callable[[Judgement], None] | None = None,
) -> VerifyReport:
    """Judge the checkpoint in a folder from its headers and configs.

    Args:
        path: The folder.
        engine: ``sglang`` or ``vllm``.
        engine_version: Release; None = the newest known one.
        speculative: The launch uses the MTP head.
        language_only: The launch builds no vision tower.
        quantization: The launch's ``--quantization``.
        content: A pass over whole files (hashes).
        sampling: A pass over samples of the data.

    Raises:
        InputError: There is no such folder, or it cannot be listed.
    """
    source = open_folder(Path(path))
    assumed = Assumed(
        engine=engine,
        engine_version=engine_version or NEWEST.get(engine, "0"),
        speculative=speculative,
        language_only=language_only,
        stated=engine_version is not None,
    )
    try:
        return verify_source(
            source, assumed, quantization=quantization, content=content, sampling=sampling
        )
    finally:
        source.close()
