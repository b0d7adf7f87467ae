"""Content against what the Hub recorded, and values sampled from the data."""

from __future__ import annotations

from qwen_tui_diagnostics.checkpoint.collect import Rule
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

__all__ = ["AFTER", "BEFORE"]

_E, _W, _I = Severity.ERROR, Severity.WARN, Severity.INFO
_HUB = "huggingface_hub 2.4.0, local metadata"

BEFORE: tuple[Rule, ...] = (
    Rule("H05", _E, t("files of the release are not here"),
         t("The engine needs them or works without what they carry."),
         t("Finish the download (qwen-tui download)."), _HUB),
    Rule("H01", _E, t("files have another size than the Hub recorded"),
         t("The content is not the release's: at best the engine refuses it."),
         t("Download them again (qwen-tui download)."), _HUB),
    Rule("H02", _E, t("the content of files is not what was recorded"),
         t("The weights differ from the release's; nothing in the engine notices."),
         t("Download them again (qwen-tui download)."), _HUB),
)  # fmt: skip
"""Causes of what the other passes see."""

AFTER: tuple[Rule, ...] = (
    Rule("S01", _E, t("scales that cannot be right"),
         t("Every product with this matrix is zero, infinite or NaN: the output is garbage."),
         t("Download the file again; if it stays so, the export is broken."),
         "arithmetic of the format"),
    Rule("S02", _W, t("weights that are all zero where they were sampled"),
         t("The engine loads them; the output is garbage if data was lost."),
         t("Run verify --hash, or download the file again."), "arithmetic of the format"),
    Rule("H03", _W, t("files of different revisions in one folder"),
         t("Weights and config may not belong together."),
         t("Download one revision whole (qwen-tui download)."), _HUB),
    Rule("H04", _I, t("files were changed after the download"),
         t("They are not compared with the recorded hash."), None, _HUB),
    Rule("H06", _I, t("no record of the release's hashes"),
         t("Content beyond the headers cannot be checked offline."),
         t("Keep a manifest: qwen-tui verify DIR --manifest write."), _HUB),
)  # fmt: skip
