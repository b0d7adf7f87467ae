"""The price of the requests that were asked for, against the pool arithmetic of SGLang 0.5.17."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen_tui_diagnostics.enginelog import LogReader

DATA = Path(__file__).parent / "data"
SLOT_FP32_BYTES = 153_944_064  # 48 layers of a 27B: fp32 state 3,145,728 + conv 61,440
CELL_FP8_BYTES = 32_768  # 16 full-attention layers · 4 heads · 512 · 1


def _remedy(name: str) -> str:
    reader = LogReader()
    reader.feed((DATA / name).read_bytes())
    reader.finish()
    (clamp,) = (c for c in reader.report().clamps if c.arg == "--max-running-requests")
    return str(clamp.remedy)


def test_slots_and_intermediate_states_are_both_priced() -> None:
    """Asked 4 with 8 slots of 4: 17 slots are 9 more, 2 requests · 6 drafted tokens 12 more."""
    remedy = _remedy("h200/cg27-lazy-5-1-6.log")
    assert "To get 4: --max-mamba-cache-size 17 (4 slots a request" in remedy
    price = (17 - 8 + 6 * (4 - 2)) * SLOT_FP32_BYTES / CELL_FP8_BYTES
    said = int(remedy.partition("about ")[2].partition(" tokens")[0].replace(",", ""))
    assert said == pytest.approx(price, rel=0.02)
    assert "bfloat16 halves" in remedy


def test_no_price_where_the_user_limits_the_pool() -> None:
    remedy = _remedy("h200/tiny-maxtotal.log")
    assert "To get 8: --max-mamba-cache-size 25 (3 slots a request, and one more)." in remedy
    assert "tokens of the KV pool" not in remedy


def test_without_the_figures_the_rule_is_told() -> None:
    """A single line in a gallery: slots and slots a request are known, bytes are not."""
    reader = LogReader(["--max-running-requests", "32"])
    reader.feed(
        b"[2026-09-01 10:00:00] max_running_requests is capped to 9 by the mamba state cache "
        b"(max_mamba_cache_size=47, 5 state slots per request). To raise it: increase "
        b"--mamba-full-memory-ratio or --max-mamba-cache-size, or halve the state size with "
        b"--mamba-ssm-dtype bfloat16.\n"
    )
    reader.finish()
    (clamp,) = (c for c in reader.report().clamps if c.arg == "--max-running-requests")
    assert (clamp.asked, clamp.got) == (32, 9)
    assert "--max-mamba-cache-size 161" in str(clamp.remedy)
    assert "tokens of the KV pool" not in str(clamp.remedy)
