"""Command lines as people paste them: shell, wrappers, containers, units, compose files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_tui_profiles.cmdline import parse_command, parse_text, parse_words, read_arguments
from qwen_tui_profiles.cmdline.docker import read_container_run
from qwen_tui_profiles.cmdline.shell import read_script
from qwen_tui_profiles.cmdline.yaml_subset import read_yaml
from qwen_tui_profiles.errors import InputError, QwenTuiError
from qwen_tui_profiles.flags import flag_table
from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from qwen_tui_profiles.cmdline import Arguments

S, V = EngineKind.SGLANG, EngineKind.VLLM


def arguments_of(text: str, version: str | None = None) -> Arguments:
    command = parse_command(text)
    return read_arguments(command.engine, command.argv, flag_table(command.engine, version))


@pytest.mark.parametrize(
    ("text", "engine", "argv"),
    [
        ("python -m sglang.launch_server --a 1", S, "--a 1"),
        ("python3.11 -u -X utf8 -m sglang.launch_server --a 1", S, "--a 1"),
        ("/opt/v/bin/python -m vllm.entrypoints.openai.api_server --a 1", V, "--a 1"),
        ("sglang serve --a 1", S, "--a 1"),
        ("/opt/v/bin/vllm serve m --a 1", V, "m --a 1"),
        ("python -m vllm serve m", V, "m"),
        ("python /opt/v/bin/vllm serve m", V, "m"),
        ("A=1 B=2 nohup sglang serve --a 1 > log 2>&1 &", S, "--a 1"),
        ("sudo -E env X=y numactl -N 0 sglang serve --a 1", S, "--a 1"),
        ("cd /x && source venv/bin/activate && exec sglang serve --a 1", S, "--a 1"),
        ("bash -lc 'source x; sglang serve --a \"1 2\"'", S, "--a '1 2'"),
        ("conda run -n e python -m sglang.launch_server --a 1", S, "--a 1"),
        ("uv run --with sglang python -m sglang.launch_server --a 1", S, "--a 1"),
        ("$ sglang serve --a 1", S, "--a 1"),
        ("--context-length 4096 --mem-fraction-static 0.9", S,
         "--context-length 4096 --mem-fraction-static 0.9"),
        ("--max-model-len 4096 --gpu-memory-utilization 0.9", V,
         "--max-model-len 4096 --gpu-memory-utilization 0.9"),
        ("sglang.launch_server --a 1", S, "--a 1"),
        ("python sglang/launch_server.py --a 1", S, "--a 1"),
        ("time sglang serve --a 1 | tee log", S, "--a 1"),
        ('["python3", "-m", "sglang.launch_server", "--a", "1"]', S, "--a 1"),
        ("sglang serve org/model --model-type llm --a 1", S, "--model-path org/model --a 1"),
    ],
)  # fmt: skip
def test_the_engine_is_found_behind_its_wrappers(text: str, engine: EngineKind, argv: str) -> None:
    command = parse_command(text)
    assert command.engine is engine
    assert list(command.argv) == shlex.split(argv)


def test_continuations_comments_and_variables() -> None:
    command = parse_command(
        """\
#!/usr/bin/env bash
set -euo pipefail
export MODEL="/data/my models/x"      # exported
PORT=${PORT:-30000}
EXTRA=(--tp-size 1 "--dtype" bfloat16)
EXTRA+=(--page-size "$PORT")
CUDA_VISIBLE_DEVICES=0 python -m sglang.launch_server \\
  --model-path "$MODEL" \\\t
  --port $PORT "${EXTRA[@]}" --json-model-override-args '{"a": "$MODEL"}' \\
  --tokenizer-path $(realpath x) --served-model-name "${NAME}" \\
  >> serve.log 2>&1
cat <<EOF
python -m sglang.launch_server --not-this
EOF
"""
    )
    assert command.argv == (
        *("--model-path", "/data/my models/x", "--port", "30000", "--tp-size", "1"),
        *("--dtype", "bfloat16", "--page-size", "30000"),
        *("--json-model-override-args", '{"a": "$MODEL"}'),
        *("--tokenizer-path", "$(realpath x)", "--served-model-name", "${NAME}"),
    )
    assert command.env == {"MODEL": "/data/my models/x", "CUDA_VISIBLE_DEVICES": "0"}
    assert command.unresolved == ("$(realpath x)", "${NAME}")


def test_the_last_launch_of_a_script_counts() -> None:
    text = "if a; then\n sglang serve --port 1\nelse\n exec sglang serve --port 2\nfi\n"
    assert parse_command(text).argv == ("--port", "2")


@pytest.mark.parametrize(
    "text", ["sglang serve 'open", 'sglang serve "open', "echo hi", "", "   ", "vllm bench serve x"]
)
def test_what_launches_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_command(text)


def test_a_quote_is_named_by_line_and_column() -> None:
    with pytest.raises(InputError, match="line 2, column 11"):
        parse_command("sglang serve \\\n --name x 'open\n")


@given(st.lists(st.text(max_size=12).filter(lambda s: "\0" not in s), max_size=6))
def test_words_that_shlex_quotes_come_back(words: list[str]) -> None:
    # NUL cannot stand in an argument; a no-break space is taken for a blank on purpose.
    kept = [word for word in words if "\u00a0" not in word and "\r" not in word]
    commands = read_script(shlex.join(["run", *kept]))
    assert [list(command.words) for command in commands] == [["run", *kept]]


@given(st.text(max_size=200))
def test_no_text_breaks_the_readers(text: str) -> None:
    for name in ("x.sh", "x.service", "x.yml"):
        try:
            parse_text(text, name)
        except QwenTuiError:
            continue


def test_docker_run_is_taken_apart() -> None:
    words = shlex.split(
        "docker --context far run -itd --rm --gpus all -p 127.0.0.1:8000:30000 -p 9000:9000 "
        "-e HF_TOKEN -eA=b --env C=d=e --ipc=host --shm-size 16g -v /m:/m:ro --entrypoint python3 "
        "lmsysorg/sglang:v0.5.17-cu130 -m sglang.launch_server --host 0.0.0.0"
    )
    run = read_container_run(words)
    assert run is not None
    assert run.image == "lmsysorg/sglang:v0.5.17-cu130"
    assert run.env == {"A": "b", "C": "d=e"}
    assert run.published == ("127.0.0.1", "0.0.0.0")
    assert not run.host_network
    assert run.command[:3] == ("python3", "-m", "sglang.launch_server")
    command = parse_words(words)
    assert command.image_version == "0.5.17"
    assert command.argv == ("--host", "0.0.0.0")


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("docker run vllm/vllm-openai:v0.33.0 --model x", V),
        ("podman run -d vllm/vllm-openai serve x --port 1", V),
        ("docker run qwen38-flash-dgx:v0.31 /hf/x --max-model-len 8192 --max-num-seqs 2", V),
        ("docker run my/own:1 --model-path x --mem-fraction-static 0.9", S),
        ("docker run my/own:1 bash -c 'python -m sglang.launch_server --model-path x'", S),
    ],
)
def test_images_that_start_the_engine_themselves(text: str, engine: EngineKind) -> None:
    assert parse_command(text).engine is engine


@pytest.mark.parametrize(
    "text",
    [
        "docker run litellm --config c.yaml --port 4000",
        "docker ps",
        "docker run",
        "docker run -p 1",
    ],
)
def test_other_containers_are_left_alone(text: str) -> None:
    with pytest.raises(InputError):
        parse_command(text)


def test_arguments_by_any_spelling() -> None:
    found = arguments_of("sglang serve --model x --tp 2 --max-run=3 --cuda-graph-bs-decode 1 2 4")
    assert found.value("--model-path") == "x"
    assert found.value("--tp-size") == "2"
    assert found.value("--max-running-requests") == "3"
    option = found.by_name["--cuda-graph-bs-decode"]
    assert option.values == ("1", "2", "4")
    assert found.troubles == ()


def test_a_switch_takes_no_value_and_can_be_taken_back() -> None:
    found = arguments_of("vllm serve --enable-prefix-caching x --no-enable-chunked-prefill")
    assert found.given("--enable-prefix-caching")
    assert found.positionals == ("x",)
    assert not found.given("--enable-chunked-prefill")


def test_vllm_takes_underscores_levels_and_dotted_members() -> None:
    found = arguments_of(
        "vllm serve x --max_model_len 8k -O3 -tp 2 -cc.cudagraph_mode=PIECEWISE "
        "--compilation-config.pass_config.fuse_norm true"
    )
    assert found.value("--max-model-len") == "8k"
    assert found.value("--optimization-level") == "3"
    assert found.value("--tensor-parallel-size") == "2"
    assert found.value("--compilation-config") == (
        '{"cudagraph_mode": "PIECEWISE", "pass_config": {"fuse_norm": "true"}}'
    )
    assert found.troubles == ()


def test_negative_numbers_are_values() -> None:
    assert (
        arguments_of("sglang serve --chunked-prefill-size -1").value("--chunked-prefill-size")
        == "-1"
    )


UNIT = """\
[Unit]
Description=engine
[Service]
Environment="MODEL=/data/my model" PORT=30001
Environment=FLAGS=--page-size\\x20x SPEC={"method":"mtp"}
Environment=MORE="--enable-metrics --sleep-on-idle"
EnvironmentFile=-/etc/sg.env
ExecStartPre=/bin/true
ExecStart=/opt/sg/bin/python -m sglang.launch_server \\
    --model-path ${MODEL} --port ${PORT} \\
    --served-model-name 'a b' $MORE
Restart=always
"""


def test_systemd_units() -> None:
    command = parse_text(UNIT, "sg.service")
    assert command.argv == (
        *("--model-path", "/data/my model", "--port", "30001", "--served-model-name", "a b"),
        *("--enable-metrics", "--sleep-on-idle"),
    )
    assert command.interpreter == "/opt/sg/bin/python"
    # systemd takes the quotes away, wherever they stand: the trap of JSON in Environment=.
    assert command.env["SPEC"] == "{method:mtp}"


COMPOSE = """\
x-note: "a # b"
services:
  proxy:
    image: ghcr.io/berriai/litellm:main
    command: ["--config", "/c.yaml", "--detailed_debug"]
  engine:   # the one
    image: "lmsysorg/sglang:v0.5.20"
    environment:
      CUDA_VISIBLE_DEVICES: "0"
      HF_HOME: ${HF_HOME:-/hf}
    ports: ["127.0.0.1:30000:30000"]
    volumes:
    - /data:/data:ro
    deploy:
      resources: {reservations: {devices: [{driver: nvidia, count: 1}]}}
    command: >-
      python3 -m sglang.launch_server
      --model-path ${MODEL:-/data/Qwen3.8-27B}
      --host 0.0.0.0
      --port 30000
volumes: {}
"""


def test_compose_files() -> None:
    command = parse_text(COMPOSE, "compose.yml")
    assert command.argv == (
        *("--model-path", "/data/Qwen3.8-27B", "--host", "0.0.0.0", "--port", "30000"),
    )
    assert command.env == {"CUDA_VISIBLE_DEVICES": "0", "HF_HOME": "/hf"}
    assert command.image_version == "0.5.20"
    assert command.container is not None
    assert command.container.published == ("127.0.0.1",)
    assert "--detailed_debug" in "\n".join(command.script)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 'x: y'\n", {"a": "1", "b": "x: y"}),
        ("- a\n- b: 1\n  c: 2\n- - x\n  - y\n", ["a", {"b": "1", "c": "2"}, ["x", "y"]]),
        ("a:\n- x\n- y\nb:\n  - z\n", {"a": ["x", "y"], "b": ["z"]}),
        ("a: |\n  one\n   two\nb: >\n  one\n  two\n\n  three\n",
         {"a": "one\n two\n", "b": "one two\nthree\n"}),
        ("a: [1, 'b, c', {d: e}]\n", {"a": ["1", "b, c", {"d": "e"}]}),
        ('a: "x\\ny"  # c\nb: ~\nc:\n', {"a": "x\ny", "b": None, "c": None}),
        ("a: one\n  two\nb: [1,\n  2]\n", {"a": "one two", "b": ["1", "2"]}),
        ("a: http://x:80/y#z\n", {"a": "http://x:80/y#z"}),
        ("", None),
    ],
)  # fmt: skip
def test_yaml(text: str, expected: object) -> None:
    assert read_yaml(text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: &x 1\n", 1),
        ("a: 1\nb: *x\n", 2),
        ("a:\n\tb: 1\n", 2),
        ("a: [1\n", 1),
        ("a: 1\n   b: 2\nc: 3\n", 2),
        ("a: 1\nc\n", 2),
        ("<<: x\n", 1),
    ],
)
def test_yaml_that_is_not_read_is_named_by_line(text: str, line: int) -> None:
    with pytest.raises(InputError, match=f"Line {line} "):
        read_yaml(text)
