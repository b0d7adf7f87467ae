"""The probe against scripted streams: times, counts, and every way in which a stream can end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui.services.probe import probe
from qwen_tui_profiles.errors import UsageError
from support.metrics_server import Handler, Request, document, serve, sse

if TYPE_CHECKING:
    import asyncio

MODELS = document(
    '{"object":"list","data":[{"id":"m","owned_by":"sglang","max_model_len":4096}]}',
    kind="application/json",
)


def chunk(delta: dict[str, Any], *, counted: int | None = None, finish: str | None = None) -> str:
    body: dict[str, Any] = {
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if counted is not None:
        body["usage"] = {"prompt_tokens": 20, "completion_tokens": counted}
    return json.dumps(body)


def usage(completion: int, **more: Any) -> str:
    return json.dumps(
        {
            "model": "m",
            "choices": [],
            "usage": {"prompt_tokens": 20, "completion_tokens": completion, **more},
        }
    )


def routes(handler: Handler) -> dict[str, Handler]:
    return {"/v1/models": MODELS, "/v1/chat/completions": handler}


async def test_reasoning_then_text_gives_two_times_and_the_servers_counts() -> None:
    steps = [
        (0.05, chunk({"role": "assistant", "content": ""})),
        (0.05, chunk({"reasoning_content": "hm"}, counted=1)),
        (0.10, chunk({"reasoning_content": "so"}, counted=4)),
        (0.10, chunk({"content": "Tides"}, counted=7)),
        (0.10, chunk({"content": " rise"}, counted=10)),
        (0.0, chunk({"content": ""}, counted=10, finish="stop")),
        (0.2, usage(10, reasoning_tokens=4, prompt_tokens_details={"cached_tokens": 16})),
        (0.0, "[DONE]"),
    ]
    script = sse(steps)
    async with serve(routes(script)) as server:
        result = await probe(server.url)
    assert result.error is None, str(result.error)
    assert result.outcome == "ok"
    # The first token came second (the role chunk is none), the first visible one fourth.
    first, visible, last = script.writes[1], script.writes[3], script.writes[4]
    assert first >= 99
    assert result.ttft_ms == pytest.approx(first, abs=15)
    assert result.ttfo_ms == pytest.approx(visible, abs=15)
    assert (result.tokens, result.reasoning_tokens, result.prompt_tokens) == (10, 4, 20)
    assert result.cached_tokens == 16
    # 9 tokens after the first chunk in about 0.3 s; the 0.2 s wait for usage is not decoding.
    assert result.ms_per_token == pytest.approx((last - first) / 9, rel=0.1)
    assert result.decode_tok_s == pytest.approx(9000 / (last - first), rel=0.1)
    # Four chunks 0.1 s apart: the gap is a figure of its own, three times the time per token.
    assert result.chunks == 4
    gaps = sorted(b - a for a, b in zip(script.writes[1:], script.writes[2:5], strict=False))
    assert result.chunk_gap_p50_ms == pytest.approx(gaps[1], abs=15)
    assert result.accept_length is None


async def test_tokens_without_text_leave_the_first_ones_time_and_the_speed_unknown() -> None:
    # As SGLang 0.5.17 streamed a model with random weights: 384 tokens, two chunks with text.
    steps = [
        (0.05, chunk({"role": "assistant", "content": ""})),
        (0.30, chunk({"content": "a"}, counted=150)),
        (0.05, chunk({"content": "b"}, counted=170)),
        (0.10, chunk({"content": ""}, counted=384, finish="length")),
        (0.0, "[DONE]"),
    ]
    script = sse(steps)
    async with serve(routes(script)) as server:
        result = await probe(server.url)
    assert result.outcome == "ok"
    assert result.ttft_ms is None
    assert result.ttfo_ms == pytest.approx(script.writes[1], abs=15)
    assert result.tokens == 384
    # 20 tokens of 170 in one gap: no measure of the speed.
    assert (result.decode_tok_s, result.ms_per_token) == (None, None)
    assert str(result.detail) == "The first 149 tokens had no text; when they came is not known."


async def test_an_answer_that_was_collected_on_the_way_has_no_speed() -> None:
    """A proxy without streaming hands over 200 tokens at once: that is not 200,000 tok/s."""
    steps = [
        (0.2, chunk({"content": "a"}, counted=1)),
        *((0.0, chunk({"content": "b"}, counted=n)) for n in range(2, 201)),
        (0.0, "[DONE]"),
    ]
    script = sse(steps)
    async with serve(routes(script)) as server:
        result = await probe(server.url)
    if script.writes[199] - script.writes[0] > 15:
        pytest.skip("the machine is too slow to send it at once")
    assert result.outcome == "ok"
    assert result.ttft_ms == pytest.approx(script.writes[0], abs=15)
    assert (result.decode_tok_s, result.ms_per_token) == (None, None)
    assert "came at once" in str(result.detail)


async def test_a_first_chunk_of_one_speculative_step_is_the_first_token() -> None:
    steps = [
        (0.10, chunk({"content": "abc"}, counted=8)),
        (0.10, chunk({"content": "def"}, counted=16, finish="stop")),
        (0.0, "[DONE]"),
    ]
    script = sse(steps)
    async with serve(routes(script)) as server:
        result = await probe(server.url)
    assert result.ttft_ms == pytest.approx(script.writes[0], abs=15)
    assert result.ms_per_token == pytest.approx((script.writes[1] - script.writes[0]) / 8, rel=0.1)
    assert result.detail is None


async def test_speculation_of_exactly_this_request() -> None:
    details = json.dumps(
        {
            "model": "m",
            "choices": [],
            "usage": {"prompt_tokens": 900, "completion_tokens": 64},
            "sglext": {
                "cached_tokens_details": {"device": 896, "host": 4},
                "spec_tokens_details": {
                    "spec_verify_ct": 21,
                    "spec_num_correct_drafts": 42,
                    "spec_accept_length": 3.05,
                },
            },
        }
    )
    steps = [
        (0.01, chunk({"content": "a"})),
        (0.01, chunk({"content": "b"})),
        (0, details),
        (0, "[DONE]"),
    ]
    async with serve(routes(sse(steps))) as server:
        result = await probe(server.url)
        sent = json.loads(server.seen[-1].body)
    assert result.cached_tokens == 900
    assert result.accept_length == pytest.approx(3.0)  # 1 bonus + 42 / 21
    assert sent["return_spec_tokens_details"] is True
    assert sent["stream_options"]["include_usage"] is True


@pytest.mark.parametrize(
    ("steps", "end", "outcome"),
    [
        ([(0, chunk({"role": "assistant"})), (0, usage(0)), (0, "[DONE]")], True, "empty"),
        ([(0, chunk({"content": ""})), (0, usage(128)), (0, "[DONE]")], True, "empty"),
        ([(0, chunk({"reasoning": "hm"})), (0, usage(5)), (0, "[DONE]")], True, "only_reasoning"),
        (
            [
                (0, chunk({"content": "a"})),
                (0, '{"error":{"message":"boom","code":500}}'),
                (0, "[DONE]"),
            ],
            True,
            "error_in_stream",
        ),
        (
            [(0, '{"object":"error","message":"boom","code":400}'), (0, "[DONE]")],
            True,
            "error_in_stream",
        ),
        ([(0, chunk({"content": "a"})), (0, usage(1))], True, "no_done"),
        ([(0, chunk({"content": "a"}))], False, "cut"),
    ],
)
async def test_endings_are_told_apart(
    steps: list[tuple[float, str]], end: bool, outcome: str
) -> None:
    async with serve(routes(sse(steps, end=end))) as server:
        result = await probe(server.url)
    assert result.outcome == outcome
    assert result.error is not None


async def test_a_stream_without_end_is_not_read_for_ever() -> None:
    async def flood(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        event = f"data: {chunk({'content': 'a'})}\n\n".encode() * 1000
        while True:
            writer.write(event)
            await writer.drain()

    async with serve(routes(flood)) as server:
        result = await probe(server.url)
    assert result.outcome == "no_answer"
    assert "more than 2 MiB" in str(result.error)


async def test_a_refusal_shows_the_servers_words() -> None:
    body = json.dumps(
        {"object": "error", "message": "Input length (9 tokens) exceeds", "code": 400}
    )
    async with serve(routes(document(body, 400, "application/json"))) as server:
        result = await probe(server.url)
    assert result.outcome == "refused"
    assert "400" in str(result.error)
    assert "Input length (9 tokens) exceeds" in str(result.error)
    assert result.ttft_ms is None


async def test_a_json_answer_instead_of_a_stream() -> None:
    async with serve(routes(document('{"choices":[]}', 200, "application/json"))) as server:
        result = await probe(server.url)
    assert result.outcome == "no_stream"


async def test_a_tool_call_is_visible_output_and_is_checked() -> None:
    call = {"tool_calls": [{"index": 0, "function": {"name": "get_weather", "arguments": "{}"}}]}
    good = [(0.0, chunk(call)), (0.0, usage(9)), (0.0, "[DONE]")]
    async with serve(routes(sse(good))) as server:
        result = await probe(server.url, kind="tool")
    assert result.outcome == "ok"
    assert result.ttfo_ms == result.ttft_ms
    text = [(0.0, chunk({"content": "It is sunny"})), (0.0, usage(9)), (0.0, "[DONE]")]
    async with serve(routes(sse(text))) as server:
        result = await probe(server.url, kind="tool")
    assert result.outcome == "wrong_answer"


async def test_nobody_there_and_bad_requests() -> None:
    async with serve({}) as server:
        url = server.url
    result = await probe(url)
    assert result.outcome == "no_answer"
    with pytest.raises(UsageError):
        await probe(url, kind="poem")


async def test_the_stream_is_stamped_at_the_read_even_when_the_loop_is_busy_after_it() -> None:
    """Events that arrive in one read share its time; parsing happens after the stream."""

    async def burst(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        events = (
            "".join(f"data: {chunk({'content': 'x'}, counted=i + 1)}\n\n" for i in range(5))
            + "data: [DONE]\n\n"
        )
        data = events.encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n")
        await writer.drain()

    async with serve(routes(burst)) as server:
        result = await probe(server.url)
    assert result.chunks == 5
    assert result.chunk_gap_max_ms == 0
    assert result.decode_tok_s is None, "no time passed: no speed is claimed"


@pytest.mark.parametrize("opening", ["<think>", ""])
async def test_reasoning_left_in_the_text_is_still_reasoning(opening: str) -> None:
    """No reasoning parser; the template may have put the opening tag into the prompt."""
    steps = [
        (0.02, chunk({"content": opening + "let me see"}, counted=4)),
        (0.1, chunk({"content": "</think>\n\n"}, counted=6)),
        (0.1, chunk({"content": "Blue"}, counted=7)),
        (0.0, usage(7)),
        (0.0, "[DONE]"),
    ]
    script = sse(steps)
    async with serve(routes(script)) as server:
        result = await probe(server.url)
    assert result.outcome == "ok"
    assert result.ttft_ms == pytest.approx(script.writes[0], abs=15)
    assert result.ttfo_ms == pytest.approx(script.writes[2], abs=15)


async def test_only_raw_reasoning_is_no_answer() -> None:
    steps = [(0.0, chunk({"content": "<think>and so on"})), (0.0, usage(4)), (0.0, "[DONE]")]
    async with serve(routes(sse(steps))) as server:
        result = await probe(server.url)
    assert result.outcome == "only_reasoning"
    assert result.ttft_ms is not None
    assert result.ttfo_ms is None
