"""Knobs and wishes: every price is a difference of two solutions, every answer can be planned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from plan.boots import config
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.plan.predict import PlanRequest, predict

if TYPE_CHECKING:
    from qwen_tui_profiles.plan.result import Knob, Plan

_SEED_004 = (
    "--kv-cache-dtype fp8_e4m3 --page-size 1 --mem-fraction-static 0.92 --max-mamba-cache-size 16 "
    "--mamba-ssm-dtype bfloat16 --max-running-requests 2 --speculative-algorithm NEXTN "
    "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
)


def _request(
    args: str = _SEED_004, *, context: int | None = None, requests: int | None = None
) -> PlanRequest:
    return PlanRequest(
        args.split(),
        config("qwen38-27b"),
        engine_version="0.5.17",
        free_gib=29.903,
        weights_gib=17.67,
        draft_gib=5.53,
        want_context=context,
        want_requests=requests,
    )


def _knob(plan: Plan, flag: str, part: str = "") -> Knob:
    return next(k for k in plan.knobs if k.flag == flag and part in str(k.change))


def test_price_of_a_slot_and_of_a_request() -> None:
    # §7.7: one bf16 slot = 2,394 tokens of fp8; one more request at D = 4 = 9,576 and its slots.
    plan = predict(_request())
    assert _knob(plan, "--max-mamba-cache-size").tokens == pytest.approx(-2_394, abs=1)
    more = _knob(plan, "--max-running-requests")
    assert more.requests == 1
    assert more.tokens == pytest.approx(-9_576, abs=2)


def test_price_of_a_hundredth_of_the_fraction() -> None:
    plan = predict(_request())
    expected = 0.01 * (29.903 + 0.10) * (1 << 30) / 32_768
    assert _knob(plan, "--mem-fraction-static").tokens == pytest.approx(expected, abs=2)


def test_price_of_the_quantized_head() -> None:
    # 2.37 → 0.67 GiB (seed 000), at 32,768 B a token.
    knob = _knob(predict(_request()), "lm_head")
    assert "2.37 to 0.67" in str(knob.change)
    assert knob.tokens == pytest.approx((2.3682 - 0.6661) * (1 << 30) / 32_768, rel=0.001)


def test_price_of_the_draft_path_is_four_fifths() -> None:
    with_path = predict(_request(_SEED_004 + " --speculative-draft-model-path /models/int4"))
    assert with_path.kv_tokens.value is not None
    knob = _knob(with_path, "--speculative-draft-model-path")
    assert knob.tokens == pytest.approx(4 * with_path.kv_tokens.value, abs=5)


@pytest.mark.parametrize(
    ("context", "requests"), [(65_536, None), (131_072, 1), (None, 3), (40_000, 2)]
)
def test_answer_holds_when_it_is_planned(context: int | None, requests: int | None) -> None:
    start = _SEED_004 + " --speculative-draft-model-path /models/int4"
    wanted = predict(_request(start, context=context, requests=requests)).wanted
    assert wanted is not None
    assert wanted.reached
    again = predict(_request(" ".join(wanted.args)))
    assert again.fits
    assert again.kv_tokens.value == wanted.tokens
    if context is not None:
        assert again.kv_tokens.value is not None
        assert again.kv_tokens.value >= context
    if requests is not None:
        assert again.requests is not None
        assert again.requests >= requests
    assert again.slack_gib is not None
    assert again.slack_gib >= 1.5


def test_drafts_are_given_up_last() -> None:
    wanted = predict(_request(context=131_072)).wanted
    assert wanted is not None
    assert wanted.reached
    assert "--speculative-algorithm" in wanted.args
    longer = predict(_request(context=250_000)).wanted
    assert longer is not None
    assert "--speculative-algorithm" not in longer.args


def test_more_than_the_model_declares_cannot_be_had() -> None:
    wanted = predict(_request(context=1_000_000)).wanted
    assert wanted is not None
    assert not wanted.reached
    assert "262144" in str(wanted.why)
    assert wanted.steps == ()


def test_wish_is_answered_even_where_the_start_does_not_fit() -> None:
    wanted = predict(_request(_SEED_004.replace("0.92", "0.60"), context=32_768)).wanted
    assert wanted is not None
    assert wanted.reached


@pytest.mark.parametrize(("context", "requests"), [(0, None), (-5, None), (None, 0)])
def test_absurd_wish_is_a_usage_error(context: int | None, requests: int | None) -> None:
    with pytest.raises(UsageError):
        predict(_request(context=context, requests=requests))


def test_steps_add_up_and_the_fraction_moves_once() -> None:
    """Drafts off, at a fraction of 0.97 that leaves too little to run in without them."""
    flags = (
        "--kv-cache-dtype fp8_e4m3 --mamba-ssm-dtype bfloat16 --max-mamba-cache-size 6 "
        "--max-running-requests 1 --mem-fraction-static 0.97 --speculative-algorithm NEXTN "
        "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
    )
    request = PlanRequest(
        flags.split(),
        config("qwen38-27b"),
        engine_version="0.5.17",
        free_gib=30.8,
        weights_gib=18.59,
        draft_gib=5.53,
    )
    before = predict(request)
    wanted = predict(replace(request, want_context=200_000)).wanted
    assert wanted is not None
    assert wanted.reached
    assert [s.flag for s in wanted.steps].count("--mem-fraction-static") == 1
    assert before.kv_tokens.value is not None
    gained = sum(s.tokens for s in wanted.steps if s.tokens is not None)
    assert before.kv_tokens.value + gained == wanted.tokens


def test_requests_that_nobody_asked_for_go_before_the_drafts() -> None:
    """Unset requests mean 48, whose state takes half of the pool; one is enough for one request."""
    request = PlanRequest(
        (
            "--kv-cache-dtype=fp8_e4m3",
            "--mem-fraction-static=0.95",
            "--speculative-algorithm=NEXTN",
        ),
        config("qwen38-27b"),
        engine_version="0.5.17",
        free_gib=30.8,
        weights_gib=18.59,
        draft_gib=5.53,
    )
    wanted = predict(replace(request, want_context=110_000)).wanted
    assert wanted is not None
    assert wanted.reached
    assert wanted.got_requests == 1
    assert "--speculative-algorithm=NEXTN" in wanted.args
    # What was asked for stays.
    asked = replace(request, args=(*request.args, "--max-running-requests", "3"))
    kept = predict(replace(asked, want_context=110_000)).wanted
    assert kept is not None
    assert "--max-running-requests" not in {step.flag for step in kept.steps}
