"""After a download: the checkpoint is judged from its headers, and the verdict is part of it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from qwen_tui.services.download.selection import is_weight
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from qwen_tui.services.download.request import DownloadRequest

__all__ = ["judge"]

_MODULE = "qwen_tui_diagnostics.checkpoint"


def judge(
    folder: Path,
    request: DownloadRequest | None = None,
    plan: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Return the ``qwen-tui.verify/1`` document of a folder, judged for the request's engine.

    A plan without weights is no checkpoint: it gets the verdict ``unknown`` with the reason.

    Returns:
        None when the verifier is not part of this installation.

    Raises:
        QwenTuiError: The folder cannot be judged.
    """
    if plan is not None and not any(is_weight(f["path"]) for f in plan["files"]):
        return {"verdict": "unknown", "problem": tr(t("no weights were asked for"))}
    try:
        checkpoint = importlib.import_module(_MODULE)
    except ModuleNotFoundError as error:
        if error.name != _MODULE:
            raise
        return None
    verify = getattr(checkpoint, "verify", None)
    if verify is None:
        return None
    settings: dict[str, Any] = {}
    if request is not None and request.engine is not None:
        settings = {
            "engine": request.engine,
            "speculative": request.speculative,
            "language_only": request.language_only,
            "quantization": request.quantization,
        }
    document: dict[str, Any] = verify(folder, **settings).as_json()
    return document
