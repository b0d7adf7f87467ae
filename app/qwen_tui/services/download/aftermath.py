"""After a download: the checkpoint is judged from its headers, and the verdict is part of it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from qwen_tui.services.download.selection import is_weight
from qwen_tui_profiles.text import as_record, t

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from qwen_tui.services.download.request import DownloadRequest
    from qwen_tui_diagnostics.checkpoint.report import CheckpointFinding, VerifyReport

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
        return {"verdict": "unknown", "problem": str(t("no weights were asked for"))}
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
    report: VerifyReport = verify(folder, **settings)
    document = report.as_json()
    document["findings"] = [_with_parts(finding) for finding in report.findings]
    return document


def _with_parts(finding: CheckpointFinding) -> dict[str, Any]:
    """Return a finding with what its sentences are made of, to be said in any language."""
    row = finding.as_json()
    for name, text in (("title", finding.title), ("remedy", finding.remedy)):
        if text is not None and text.fields:
            row[f"{name}_parts"] = as_record(text)
    return row
