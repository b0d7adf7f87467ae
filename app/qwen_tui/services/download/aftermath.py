"""After a download: the checkpoint is judged from its headers, and the verdict is part of it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["judge"]

_MODULE = "qwen_tui_diagnostics.checkpoint"


def judge(folder: Path) -> dict[str, Any] | None:
    """Return the ``qwen-tui.verify/1`` document of a folder.

    Returns:
        None when the verifier is not part of this installation.

    Raises:
        QwenTuiError: The folder cannot be judged.
    """
    try:
        checkpoint = importlib.import_module(_MODULE)
    except ModuleNotFoundError as error:
        if error.name != _MODULE:
            raise
        return None
    verify = getattr(checkpoint, "verify", None)
    if verify is None:
        return None
    document: dict[str, Any] = verify(folder).as_json()
    return document
