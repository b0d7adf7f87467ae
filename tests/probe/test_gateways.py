"""What a real gateway says when something is wrong, told as what it is.

Bodies as LiteLLM 1.108.7 (without a database) and sglang-router 0.3.2 sent them.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

import pytest

from qwen_tui.cli.commands.probe import _passed_on, _take_settings
from qwen_tui.services.probe import probe
from qwen_tui.services.probe.compare import Comparison, Route, compare
from qwen_tui.services.snapshots import ProbeResult
from support.metrics_server import Handler, document, serve, sse

if TYPE_CHECKING:
    from pathlib import Path

JSON = "application/json"
NO_DATABASE = {
    "error": {
        "message": "No connected db.",
        "type": "no_db_connection",
        "param": None,
        "code": "400",
    }
}
NO_MODEL = {
    "error": {
        "message": "/chat/completions: Invalid model name passed in model=nosuch. "
        "Call `/v1/models` to view available models for your key.",
        "type": "None",
        "param": "None",
        "code": "400",
    }
}
UPSTREAM = {
    "error": {
        "message": "litellm.InternalServerError: InternalServerError: OpenAIException - Connection "
        "error.LiteLLM: model group 'dead' failed with the error above. No fallback was attempted.",
        "type": None,
        "param": None,
        "code": "500",
    }
}
ROUTER_DOWN = {
    "error": {
        "type": "Service Unavailable",
        "code": "no_available_workers",
        "message": "No available workers (all circuits open or unhealthy)",
    }
}


def models(name: str = "m") -> Handler:
    return document(json.dumps({"data": [{"id": name, "owned_by": "openai"}]}), kind=JSON)


def answer() -> Handler:
    said = {
        "choices": [{"index": 0, "delta": {"content": "Hello"}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5},
    }
    return sse([(0.01, json.dumps(said)), (0.0, "[DONE]")])


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (400, NO_MODEL, "refused the request with 400: /chat/completions: Invalid model name"),
        (500, UPSTREAM, "failed at the request with 500: litellm.InternalServerError"),
        (503, ROUTER_DOWN, "failed at the request with 503: No available workers (all circuits"),
        (400, NO_DATABASE, "No connected db. (LiteLLM without a database says so of a key that"),
    ],
)
async def test_errors_of_a_gateway(status: int, body: object, sentence: str) -> None:
    refused = document(json.dumps(body), status, JSON)
    async with serve({"/v1/models": models(), "/v1/chat/completions": refused}) as server:
        result = await probe(server.url)
    assert result.outcome == "refused"
    assert sentence in str(result.error)


async def test_a_gateway_that_lists_no_models_is_asked_all_the_same_when_the_model_is_known() -> (
    None
):
    closed = document("Internal Server Error", 500)
    async with serve({"/v1/models": closed, "/v1/chat/completions": answer()}) as server:
        named = await probe(server.url, model="alias")
        unnamed = await probe(server.url)
    assert named.outcome == "ok"
    assert unnamed.outcome == "no_answer"
    assert str(unnamed.error).endswith("/v1/models answered 500: Internal Server Error")


async def test_a_gateway_whose_metrics_are_locked_is_compared_all_the_same() -> None:
    locked = document('"… set `litellm_settings.require_auth_for_metrics_endpoint: false` …"', 401)
    routes = {"/v1/models": models(), "/v1/chat/completions": answer()}
    async with serve(routes) as one, serve({**routes, "/metrics": locked}) as two:
        found = await compare(Route(one.url), Route(two.url), kind="prose", runs=1)
    assert found.source == "litellm"
    assert found.queue_time is None
    assert found.ttft_added_ms is not None


async def test_both_ways_are_sent_a_prompt_that_the_engine_takes() -> None:
    """LiteLLM's list of models has no max_model_len."""
    entry = {"id": "m", "owned_by": "vllm", "max_model_len": 1024}
    engine = {
        "/v1/models": document(json.dumps({"data": [entry]}), kind=JSON),
        "/v1/chat/completions": answer(),
    }
    gateway = {"/v1/models": models(), "/v1/chat/completions": answer()}
    async with serve(engine) as one, serve(gateway) as two:
        await compare(Route(one.url), Route(two.url), kind="long", runs=1)
        for server in (one, two):
            asked = [json.loads(r.body)["messages"][0]["content"] for r in server.seen if r.body]
            assert len(asked) == 2
            assert max(map(len, asked)) < 1024


def result(cached: int | None) -> ProbeResult:
    return ProbeResult(
        ttft_ms=1,
        ttfo_ms=1,
        tokens=384,
        decode_tok_s=1,
        cached_tokens=cached,
        prompt_tokens=50,
        accept_length=None,
    )


def test_tokens_through_the_gateway_and_their_absence() -> None:
    both = Comparison((result(49),), (result(49),))
    assert [str(line) for line in _passed_on(both)] == [
        "through the gateway: 384 tokens, prompt 50 tokens, 49 from the cache"
    ]
    one = [str(line) for line in _passed_on(Comparison((result(49),), (result(None),)))]
    assert one == [
        "through the gateway: 384 tokens, prompt 50 tokens, — from the cache",
        "Cached tokens are not told through the gateway.",
    ]
    assert len(list(_passed_on(Comparison((result(None),), (result(None),))))) == 1


def test_the_configured_gateway_is_taken_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path))
    (tmp_path / "config").mkdir()
    args = argparse.Namespace(gateway=None, gateway_model=None, gateway_key_env="MINE")
    _take_settings(args)
    assert args.gateway is None
    (tmp_path / "config" / "config.toml").write_text(
        '[gateway]\nurl = "http://127.0.0.1:4000"\nmodel = "alias"\nkey-env = "GATE_KEY"\n'
    )
    _take_settings(args)
    assert vars(args) == {
        "gateway": "http://127.0.0.1:4000",
        "gateway_model": "alias",
        "gateway_key_env": "MINE",
    }
    for held, taken in ((None, None), ("secret", "GATE_KEY")):
        if held is not None:
            monkeypatch.setenv("GATE_KEY", held)
        args = argparse.Namespace(gateway=None, gateway_model=None, gateway_key_env=None)
        _take_settings(args)
        assert args.gateway_key_env == taken, "a variable that is not set stops no probe"
