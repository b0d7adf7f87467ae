"""The engine as a process: boot, HTTP surface, limits."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.demo_server import HYBRID, QUICK, READY, DemoServer, running

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).parent / "data" / "sglang-0.5.23-cpu.ready.log"
KEY = "sk-test-key-0123456789"


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with running(*HYBRID) as server:
        yield server


@pytest.fixture(scope="module")
def slow() -> Iterator[DemoServer]:
    """Each decode forward takes 20 ms."""
    with running(*HYBRID, quick=(*QUICK, "--demo-token-ms", "20")) as server:
        yield server


def body(text: str = "Tell a story.", **more: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], **more}


# What a recorded boot of 0.5.23 prints from the pools on, one pattern a line, in this order.
ORDER = (
    "SIMULATED ENGINE",
    "server_args={'model_path'",
    "Init parallel begin.",
    "Memory baseline taken. mem usage=",
    "Load weight begin. avail mem=30.79 GB",
    "Load weight end. elapsed=",
    "Load weight begin. avail mem=12.18 GB",
    "type=Qwen3_5ForCausalLMMTP",
    "is capped to 2 by the mamba state cache",
    "Mamba Cache is allocated. max_mamba_cache_size: 8, conv_state size: 0.02GB",
    "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 119648",
    "Memory pool end. avail mem=",
    "Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=6",
    "Capture target verify CUDA graph end. bs=[1, 2]",
    "Capture draft extend CUDA graph end.",
    "max_total_num_tokens=119648, chunked_prefill_size=2048, max_prefill_tokens=16384, "
    "max_running_requests=2, context_len=159776, available_gpu_mem=",
    "Tree cache initialized: source=default impl=UnifiedRadixCache",
    "Engine startup timings (s): load_weight=",
    "Started server process [",
    "Application startup complete.",
    "Uvicorn running on http://127.0.0.1:",
    '"GET /model_info HTTP/1.1" 200 OK',
    "Prefill batch, #new-seq: 1",
    '"POST /freeze_gc HTTP/1.1" 200 OK',
    READY,
)


def test_the_boot_prints_sglangs_phases_in_order(server: DemoServer) -> None:
    position = 0
    for part in ORDER:
        found = server.log.find(part, position)
        assert found >= 0, f"{part!r} not after {ORDER[ORDER.index(part) - 1]!r}"
        position = found
    first = server.log.splitlines()[0]
    assert "SIMULATED ENGINE" in first


def shape(line: str) -> str:
    """Return a line with every number, address and list as a placeholder."""
    line = re.sub(r"\d+(\.\d+)?", "N", line)
    return re.sub(r"bs=\[[N, ]*\]", "bs=[]", line)


def test_shared_lines_have_the_recorded_shape(server: DemoServer) -> None:
    """Every line that the recorded CPU boot and ours both print differs in its numbers only."""
    ours = {shape(line) for line in server.log.splitlines()}
    wanted = [
        "Init parallel begin",
        "Init parallel ends",
        "Memory baseline taken",
        "Load weight begin",
        "Memory pool end",
        "Disable prefill CUDA graph",
        "Engine startup timings",
        "Started server process",
        "Waiting for application startup",
        "Application startup complete",
        "Uvicorn running",
        "GET /model_info",
        "POST /freeze_gc",
        READY,
    ]
    recorded = RECORDED.read_text().splitlines()
    for start in wanted:
        line = next(ln for ln in recorded if start in ln)
        assert shape(line) in ours, line


def test_chat_with_reasoning_usage_and_a_cached_second_time(server: DemoServer) -> None:
    question = body("You are a careful assistant. " * 100, max_tokens=64)
    first = server.ask("/v1/chat/completions", question)[1]
    second = server.ask("/v1/chat/completions", question)[1]
    message = first["choices"][0]["message"]
    assert message["reasoning_content"]
    assert first["usage"]["completion_tokens"] == 64
    assert first["choices"][0]["finish_reason"] == "length"
    assert first["usage"]["prompt_tokens_details"] is None
    # States are kept at multiples of 64, the page is 32, and the last token is always computed.
    prompt = first["usage"]["prompt_tokens"]
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == (prompt - 1) // 64 * 64


def test_text_in_front_of_a_prompt_ends_the_sharing(server: DemoServer) -> None:
    tail = " The same long instructions follow here." * 100
    server.ask("/v1/chat/completions", body("turn 1" + tail, max_tokens=4))
    answer = server.ask("/v1/chat/completions", body("turn 2" + tail, max_tokens=4))[1]
    assert answer["usage"]["prompt_tokens_details"] is None


def test_the_next_turn_of_a_chat_starts_behind_the_last(server: DemoServer) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "A new chat. " * 200}]
    first = server.ask("/v1/chat/completions", {"messages": messages, "max_tokens": 32})[1]
    messages += [
        {"role": "assistant", "content": first["choices"][0]["message"]["content"]},
        {"role": "user", "content": "And now?"},
    ]
    second = server.ask("/v1/chat/completions", {"messages": messages, "max_tokens": 32})[1]
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert 0 <= first["usage"]["prompt_tokens"] - cached <= 2 * 64


def test_stream_and_plain_answers_agree(server: DemoServer) -> None:
    question = body("Write a python function.", max_tokens=200)
    plain = server.ask("/v1/chat/completions", question)[1]
    events = server.events(
        "/v1/chat/completions",
        {**question, "stream": True, "stream_options": {"include_usage": True}},
    )
    assert events[-1] == "[DONE]"
    usage = events[-2]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
    deltas = [e["choices"][0]["delta"] for e in events[:-2]]
    assert deltas[0]["role"] == "assistant"
    message = plain["choices"][0]["message"]
    for field in ("content", "reasoning_content"):
        assert "".join(d[field] or "" for d in deltas) == message[field]
    assert events[-3]["choices"][0]["finish_reason"] == plain["choices"][0]["finish_reason"]


def test_usage_comes_only_when_asked(server: DemoServer) -> None:
    events = server.events("/v1/chat/completions", body(stream=True, max_tokens=4))
    assert all(e["usage"] is None for e in events if e != "[DONE]")


def test_tool_calls(server: DemoServer) -> None:
    function = {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    question = body("How is the weather?", tools=[{"type": "function", "function": function}])
    choice = server.ask("/v1/chat/completions", question)[1]["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {
        "name": "get_weather",
        "arguments": '{"city": "simulated"}',
    }
    events = server.events("/v1/chat/completions", {**question, "stream": True})
    calls = [call for e in events[:-1] for call in (e["choices"][0]["delta"]["tool_calls"] or [])]
    assert calls[0]["function"]["name"] == "get_weather"
    assert "".join(c["function"]["arguments"] for c in calls) == '{"city": "simulated"}'


def test_generate_tells_cached_tokens_and_accept_length(server: DemoServer) -> None:
    text = "def add(a, b): write code, please. " * 40
    params = {"max_new_tokens": 300, "ignore_eos": True}
    server.ask("/generate", {"text": text, "sampling_params": params})
    meta = server.ask("/generate", {"text": text, "sampling_params": params})[1]["meta_info"]
    assert meta["completion_tokens"] == 300
    assert meta["cached_tokens"] == (meta["prompt_tokens"] - 1) // 64 * 64
    assert meta["finish_reason"] == {"type": "length", "length": 300}
    steps = meta["spec_verify_ct"]
    assert meta["spec_num_proposed_drafts"] == steps * 5
    assert sum(meta["spec_correct_drafts_histogram"]) == steps
    assert meta["spec_accept_length"] == pytest.approx(300 / steps)
    # Code: drafts are accepted with 0.82 each, so 3.87 tokens a step on the average.
    assert 3.2 < meta["spec_accept_length"] < 4.6


def test_prose_is_accepted_less(server: DemoServer) -> None:
    ask = {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 300, "ignore_eos": 1}}
    meta = server.ask("/generate", ask)[1]["meta_info"]
    assert 1.25 < meta["spec_accept_length"] < 2.5


def test_requests_beyond_the_effective_limit_wait(slow: DemoServer) -> None:
    ask = {"text": "story", "sampling_params": {"max_new_tokens": 60, "ignore_eos": True}}
    seen: list[tuple[int, int]] = []
    with ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(slow.ask, "/generate", ask) for _ in range(5)]
        while not all(a.done() for a in answers):
            load = slow.ask("/v1/loads?include=core")[1]["loads"][0]
            seen.append((load["num_running_reqs"], load["num_waiting_reqs"]))
            time.sleep(0.01)
    assert {a.result()[0] for a in answers} == {200}
    assert max(running for running, _ in seen) == 2
    assert (2, 3) in seen


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_place(slow: DemoServer, stream: bool) -> None:
    params = {"max_new_tokens": 9999, "ignore_eos": True}
    ask = {"text": "story", "sampling_params": params, "stream": stream}
    payload = json.dumps(ask).encode()
    with socket.create_connection(("127.0.0.1", slow.port)) as connection:
        connection.sendall(
            b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(payload), payload)
        )
        until = time.monotonic() + 5
        while slow.ask("/v1/loads")[1]["loads"][0]["num_running_reqs"] == 0:
            assert time.monotonic() < until
    until = time.monotonic() + 5
    while slow.ask("/v1/loads")[1]["loads"][0]["num_running_reqs"]:
        assert time.monotonic() < until


@pytest.mark.parametrize("stream", [False, True])
def test_too_long_for_the_declared_context(server: DemoServer, stream: bool) -> None:
    status, answer = server.ask("/v1/chat/completions", body("word " * 160_000, stream=stream))
    assert status == 400
    assert answer["type"] == "BadRequestError"
    assert re.fullmatch(
        r"The input \(\d+ tokens\) is longer than the model's context length \(159776 tokens\)\.",
        answer["message"],
    )


def test_too_many_tokens_asked(server: DemoServer) -> None:
    status, answer = server.ask("/v1/chat/completions", body("hi", max_tokens=159_776))
    assert status == 400
    assert answer["message"].startswith(
        "Requested token count exceeds the model's maximum context length of 159776 tokens."
    )


def test_fits_the_context_but_not_the_pool(server: DemoServer) -> None:
    long = "word " * 120_000
    status, answer = server.ask("/v1/chat/completions", body(long))
    assert status == 400
    assert "exceeds the maximum allowed length (119642 tokens)" in answer["message"]
    events = server.events("/v1/chat/completions", body(long, stream=True))
    assert "119642" in events[0]["error"]["message"]
    assert events[1] == "[DONE]"


@pytest.mark.parametrize(
    "payload", [{}, {"messages": []}, {"messages": "x"}, {"messages": [1]}, body(max_tokens=0)]
)
def test_bodies_that_cannot_be_used(server: DemoServer, payload: object) -> None:
    status, answer = server.ask("/v1/chat/completions", payload)
    assert (status, answer["code"], answer["object"]) == (400, 400, "error")


def test_server_info(server: DemoServer) -> None:
    info = server.ask("/server_info")[1]
    state = info["internal_states"][0]
    assert info["version"] == "0.5.23"
    assert info["max_running_requests"] == 4
    assert state["effective_max_running_requests_per_dp"] == 2
    assert info["max_total_num_tokens"] == state["memory_usage"]["token_capacity"] == 119_648
    assert info["max_req_input_len"] == 119_642
    assert "--max-running-requests 4" in info["launch_command"]
    assert state["max_mamba_cache_size"] == 8
    assert set(state["memory_usage"]["graph"]) == {
        "prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend"
    }  # fmt: skip


def test_models_declares_what_was_declared(server: DemoServer) -> None:
    assert server.ask("/v1/models")[1]["data"][0]["max_model_len"] == 159_776


def test_old_paths_answer_with_a_notice(server: DemoServer) -> None:
    assert server.ask("/get_model_info")[1] == server.ask("/model_info")[1]
    # What it cannot do it does not claim: a probe with a picture is then told that it is none.
    assert server.ask("/model_info")[1]["has_image_understanding"] is False
    server.wait_for("Endpoint '/get_model_info' is deprecated")
    assert server.ask("/get_load") == (404, {"detail": "Not Found"})


def test_a_full_pool_retracts_and_still_answers() -> None:
    """1,024 tokens for two requests of 700: one goes back to the queue, none is lost."""
    quick = (*QUICK, "--demo-token-ms", "1")
    with running(*HYBRID, "--max-total-tokens", "1024", quick=quick) as server:
        ask = {"text": "story " * 90, "sampling_params": {"max_new_tokens": 600, "ignore_eos": 1}}
        with ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(server.ask, "/generate", ask) for _ in range(2)]
            metas = [a.result()[1]["meta_info"] for a in answers]
        assert [m["completion_tokens"] for m in metas] == [600, 600]
        assert sum(m["num_retractions"] for m in metas) > 0
        server.wait_for("KV cache pool is full. Retract requests. #retracted_reqs: 1")
        load = server.ask("/v1/loads")[1]["loads"][0]
        assert (load["num_running_reqs"], load["num_used_tokens"]) == (0, 0)


def test_abort_ends_one_request_or_all(slow: DemoServer) -> None:
    ask = {"text": "x", "sampling_params": {"max_new_tokens": 9999, "ignore_eos": True}}
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(slow.ask, "/generate", {**ask, "rid": f"r{n}"}) for n in range(3)]
        until = time.monotonic() + 5
        while slow.ask("/v1/loads")[1]["loads"][0]["num_waiting_reqs"] != 1:
            assert time.monotonic() < until
        assert slow.ask("/abort_request", {"rid": "r0"})[0] == 200
        answers[0].result(5)
        assert not answers[1].done()
        slow.ask("/abort_request", {"abort_all": True})
        for answer in answers:
            answer.result(5)
    assert slow.ask("/v1/loads")[1]["loads"][0]["num_used_tokens"] == 0


def test_flush_is_refused_while_something_runs(slow: DemoServer) -> None:
    assert slow.ask("/flush_cache", method="POST")[0] == 200
    ask = {"text": "story", "sampling_params": {"max_new_tokens": 40, "ignore_eos": True}}
    thread = threading.Thread(target=slow.ask, args=("/generate", ask))
    thread.start()
    until = time.monotonic() + 5
    while slow.ask("/v1/loads")[1]["loads"][0]["num_running_reqs"] == 0:
        assert time.monotonic() < until
    assert slow.ask("/flush_cache")[0] == 400
    assert slow.ask("/flush_cache?timeout=10")[0] == 200
    thread.join()


def test_decode_lines_come_every_forty_forwards(server: DemoServer) -> None:
    sampling = {"max_new_tokens": 400, "ignore_eos": True}
    assert server.ask("/generate", {"text": "x", "sampling_params": sampling})[0] == 200
    line = server.wait_for("Decode batch")
    assert re.fullmatch(
        r"\[[-0-9: ]+\] Decode batch, #running-req: \d+, #full token: \d+, "
        r"full token usage: \d\.\d\d, mamba num: \d+, mamba usage: \d\.\d\d, "
        r"accept len: \d\.\d\d, accept rate: \d\.\d\d, cuda graph: True, "
        r"gen throughput \(token/s\): \d+\.\d\d, #queue-req: \d+",
        line,
    )


def test_keys() -> None:
    with running("--api-key", KEY, "--admin-api-key", "admin-key-1234", "--enable-metrics") as s:
        assert s.ask("/v1/models") == (401, {"error": "Unauthorized"})
        assert s.ask("/v1/models", key="wrong")[0] == 401
        assert s.ask("/v1/models", key=KEY)[0] == 200
        for path in ("/health", "/ready", "/metrics"):
            assert s.ask(path)[0] == 200
        assert s.ask("/flush_cache", key=KEY)[0] == 401
        assert s.ask("/flush_cache", key="admin-key-1234")[0] == 200
        info = s.ask("/server_info", key=KEY)[1]
        assert KEY not in info["launch_command"]


def test_queue_limit_and_metrics_off() -> None:
    with running(*HYBRID[:-2], "--max-queued-requests", "0") as s:
        assert s.ask("/metrics")[0] == 404
        assert s.ask("/generate", {"text": "x"})[0] == 503


def test_ready_without_delays_takes_less_than_a_second() -> None:
    began = time.monotonic()
    with running(*HYBRID):
        assert time.monotonic() - began < 3.0
