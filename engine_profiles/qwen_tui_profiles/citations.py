"""Sources of knowledge in the language of the reader.

A source is a short citation: ``seed 000, second trap; argument resolution source 0.5.9-0.5.23``.
Repositories, file names, versions and the names of recorded boots stay as they are; the words
between them come from the table below. Documents (JSON) keep the English citation.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import Text, language, t, tr

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PHRASES", "cited", "words_left"]

PHRASES: tuple[Text, ...] = (
    # What was read of an engine.
    t("HTTP surface of both engines"),
    t("HTTP surface"),
    t("argument merging source"),
    t("argument parser source"),
    t("argument resolution source"),
    t("argument resolution"),
    t("argument logging"),
    t("front-end argument source"),
    t("argument source"),
    t("attention registry source"),
    t("backend selection source"),
    t("block sizing source"),
    t("cache configuration source"),
    t("scheduler configuration source"),
    t("configuration source"),
    t("compilation source"),
    t("environment source"),
    t("environment of the released packages"),
    t("flag help and offload source"),
    t("flag tables of the released packages"),
    t("boot order of the released packages"),
    t("model registry of the released packages"),
    t("kv budget source"),
    t("loader source"),
    t("metrics source"),
    t("model source"),
    t("pool sizing source"),
    t("pool source"),
    t("quantization source"),
    t("speculation source"),
    t("state budget source"),
    t("time-out source"),
    t("vLLM cache source"),
    t("cache source"),
    t("engine source"),
    t("source of"),
    t("and later"),
    t("every release"),
    t("inferred"),
    t("up to"),
    t("and the pool sizes of"),
    t("the flag's meaning"),
    # What was computed or seen.
    t("server_args line of recorded boots"),
    t("recorded boots on an H200"),
    t("recorded boots"),
    t("recorded boot"),
    t("not confirmed by a recorded boot"),
    t("137.58 against 139.11 GiB free"),
    t("block arithmetic"),
    t("452 blocks hold 25 short requests"),
    t("cache arithmetic for the 27B"),
    t("cache arithmetic"),
    t("engine arithmetic"),
    t("slot table"),
    t("memory plan"),
    t("printed figures"),
    t("the last runtime line"),
    t("the planner's table of classes"),
    t("the planner's table of schemes"),
    t("no mtp.* tensors"),
    t("the draft's own embedding and head are dropped late"),
    t("accept length counts the bonus token: 1.00 means nothing was accepted"),
    t("vLLM prints concurrency times context, SGLang token slots"),
    # How an engine was found.
    t("this interpreter"),
    t("container image"),
    t("on PATH"),
    t("profile"),
    # Places in the seeds.
    t("header and measured and rejected"),
    t("header and rejected table"),
    t("measured and rejected"),
    t("measurement protocol"),
    t("prompt field order"),
    t("second of the two biggest wins"),
    t("first trap"),
    t("second trap"),
    t("third trap"),
    t("with and without MTP"),
    t("0.9 GiB left died at the first request"),
    t("+107 % at 63,000 tokens without it"),
    t("installation"),
    t("introduction"),
    t("default 256K context"),
    t("launch"),
    t("optional row cache"),
    t("row cache"),
    t("GDN fusion"),
    t("how many at once"),
    t("install"),
    t("known issues"),
    t("prefix caching"),
    t("accuracy"),
    t("settings"),
    t("turn thinking off"),
    t("why it behaves this way"),
    t("tier A"),
    t("tier B"),
    t("open"),
)
"""Longer phrases stand before those that they contain."""

_NAMES = re.compile(
    r"""
      [\w.-]+/[\w.-]+(?:\ ?\#\d+)?      # repository, file, with an issue
    | \bPRs?\b | \#\d+ | §\d+
    | \bseeds?\ \d{3}(?:\ and\ \d{3})?
    | \b(?:sglang|SGLang|vLLM|NVML|MTP|QSA|H200|qwen-tui)\b
    | \bFlash-Next\b | \bQwen[\d.]+(?:-\w+)?\b
    | \b[a-z]+\d*(?:-[a-z0-9]+)+\b       # names of recorded boots
    | \bconfig\.json\b | \b\w*_\w+\b     # files, keys and functions
    | \d+\.\d+(?:\.\d+)?\ (?:to|and)\ \d+\.\d+(?:\.\d+)?
    | \bR\ x\ D\ x\ slot,\ R\ =\ \d+
    """,
    re.VERBOSE,
)
_PHRASES = {str(phrase): phrase for phrase in PHRASES}


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(rf"(?<![\w/-]){re.escape(p)}(?![\w/-])" for p in _PHRASES))


def cited(source: str) -> str:
    """Return a source with its words in the language in use."""
    if language() == "en":
        return source
    return _pattern().sub(lambda found: tr(_PHRASES[found[0]]), source)


def words_left(sources: Iterable[str]) -> dict[str, str]:
    """Return the sources of which words are in no phrase, with what is left of them."""
    left = {
        source: re.sub(r"[\d\W_]+", " ", _NAMES.sub(" ", _pattern().sub(" ", source))).strip()
        for source in sources
    }
    return {source: rest for source, rest in left.items() if rest}
