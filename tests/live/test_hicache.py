"""A prefix cache that reaches into host memory, as SGLang 0.5.17 counted it on an H200.

48 prompts of 12 documents on a GPU pool of 16,384 tokens: each round needs what the round before
pushed out. The two scrapes were made before and after; the numbers in the arithmetic are theirs.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from qwen_tui.services.live.context import LiveContext
from qwen_tui.services.live.document import live_json
from qwen_tui.services.live.exposition import ExpositionParser
from qwen_tui.services.live.figures import FigureMaker
from qwen_tui.services.live.normalise import normalise, wanted_names
from qwen_tui.services.live.serverinfo import ServerLimits
from qwen_tui.services.live.windows import History
from qwen_tui.ui.window_lines import window_lines

DATA = Path(__file__).with_name("data") / "sglang-h200-0.5.17-hicache"


def test_hits_from_host_memory_are_hits_and_are_told_apart() -> None:
    parser, history = ExpositionParser(wanted_names().__contains__), History()
    for at, name in ((0.0, "before"), (9.0, "after")):
        text = gzip.decompress((DATA / f"{name}.prom.gz").read_bytes()).decode()
        reading = normalise(parser.parse(text))
        history.feed(reading, at)
    live = FigureMaker().snapshot(reading, history, ServerLimits(), LiveContext(), at=1_000_009)
    assert (live.hicache_used_tokens, live.hicache_tokens) == (51_808, 98_336)
    assert (live.kv_used_tokens, live.kv_evictable_tokens, live.kv_tokens) == (4_640, 9_024, 16_384)
    window = live.windows[0]
    assert window.prompt_tokens == 207_257 - 21
    assert window.cached_tokens == 154_560
    assert window.cached_host_tokens == 154_560, "all of them: the GPU's pool held none of it"
    assert window.cached_storage_tokens is None
    assert window.cache_hit_rate == pytest.approx(154_560 / 207_236)
    document = live_json(live, "http://127.0.0.1:30000", None)
    assert document["windows"][0]["cached_host_tokens"] == 154_560
    table = "\n".join(line.plain for line in window_lines(live, 80))
    assert "from host memory" in table
    assert "from a storage" not in table
