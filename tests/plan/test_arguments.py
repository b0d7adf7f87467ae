"""Engine arguments as typed: spellings, prefixes, and values that make no sense."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_tui_profiles.errors import QwenTuiError, UsageError
from qwen_tui_profiles.plan.arguments import read_sglang, read_vllm, split_pairs


def test_spellings_of_one_argument() -> None:
    for words in (
        ["--max-running-requests", "4"],
        ["--max-running-requests=4"],
        ["--max-running-req", "4"],
    ):
        assert read_sglang(words).max_running_requests == 4


def test_renamed_flags_mean_the_same() -> None:
    for flag in ("--mamba-scheduler-strategy", "--mamba-radix-cache-strategy"):
        assert read_sglang([flag, "extra_buffer"]).mamba_strategy == "extra_buffer"


def test_ambiguous_prefix_is_not_guessed() -> None:
    asked = read_sglang(["--max-", "4"])
    assert asked.max_running_requests is None
    assert asked.max_total_tokens is None


def test_last_spelling_wins_and_foreign_flags_pass() -> None:
    asked = read_sglang(
        "--page-size 16 --sleep-on-idle --page-size 32 --api-key x -tp 2".split()  # noqa: SIM905
    )
    assert asked.page_size == 32


def test_negative_chunk_is_a_value() -> None:
    assert read_sglang(["--chunked-prefill-size", "-1"]).chunked_prefill_size == -1


@pytest.mark.parametrize(
    "words",
    [
        ["--max-running-requests", "four"],
        ["--max-running-requests", "0"],
        ["--max-running-requests", "-3"],
        ["--max-total-tokens", "99999999999999999999"],
        ["--mem-fraction-static", "1.5"],
        ["--mem-fraction-static", "nan"],
        ["--mem-fraction-static", "-0.9"],
        ["--context-length"],
        ["--context-length", "--page-size"],
    ],
)
def test_nonsense_is_a_named_usage_error(words: list[str]) -> None:
    with pytest.raises(UsageError, match=words[0]):
        read_sglang(words)


def test_vllm_underscores_equal_dashes() -> None:
    assert read_vllm(["--max_num_seqs", "16"]).max_num_seqs == 16


@given(st.lists(st.text(max_size=12), max_size=12))
def test_any_words_are_read_or_refused_by_name(words: list[str]) -> None:
    split_pairs(words)
    for read in (read_sglang, read_vllm):
        # Anything but an error of ours would fail the test.
        with contextlib.suppress(QwenTuiError):
            read(words)
