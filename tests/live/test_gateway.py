"""A gateway with debug logging is found by its command line or its compose file."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.live.gateway import (
    GatewayProcess,
    compose_findings,
    debug_findings,
    running_gateways,
)
from qwen_tui_profiles.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_profiles.findings import Finding

LITELLM = ("/usr/bin/python3", "/usr/local/bin/litellm", "--config", "c.yaml")
PROCESSES = [
    GatewayProcess(10, (*LITELLM, "--detailed_debug", "--api-key", "sk-verysecretkey")),
    GatewayProcess(11, LITELLM),
    # INFO: a line a request, not the request.
    GatewayProcess(12, (*LITELLM, "--debug"), ("LITELLM_LOG=DEBUG",)),
    GatewayProcess(13, LITELLM, ("LITELLM_LOG=DEBUG",)),
    GatewayProcess(14, LITELLM, ("LITELLM_LOG=ERROR", "DETAILED_DEBUG=False")),
    GatewayProcess(15, LITELLM, ("DETAILED_DEBUG=true",)),
]


def said(findings: list[Finding]) -> list[str]:
    return [str(f.evidence) for f in findings]


def test_debug_flags_and_variables_are_found_and_secrets_are_not_shown() -> None:
    findings = debug_findings(PROCESSES)
    assert [line.split(":")[0] for line in said(findings)] == ["pid 10", "pid 13", "pid 15"]
    assert all(f.rule == "gateway_debug_logging" for f in findings)
    assert "verysecret" not in " ".join(said(findings))
    assert said(findings)[1] == "pid 13: LITELLM_LOG=DEBUG"


def test_of_several_gateways_the_one_that_was_asked_counts() -> None:
    debugging = GatewayProcess(10, (*LITELLM, "--detailed_debug"), ports=frozenset({4001}))
    quiet = GatewayProcess(11, LITELLM, ports=frozenset({4000}))
    assert debug_findings([debugging, quiet], 4000) == []
    assert len(debug_findings([debugging, quiet], 4001)) == 1
    # In a container its port is another one: then whatever runs may be it.
    assert len(debug_findings([debugging, quiet], 8080)) == 1


@pytest.mark.parametrize(
    "arguments", [("--config", "c.yaml"), ("-c", "c.yaml"), ("--config=c.yaml",)]
)
def test_the_configuration_of_a_running_gateway_is_read(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "c.yaml").write_text(
        "litellm_settings:\n  callbacks: [prometheus]\n  set_verbose: True\n"
    )
    gateway = GatewayProcess(10, ("litellm", *arguments), folder=tmp_path)
    assert said(debug_findings([gateway])) == [f"{tmp_path / 'c.yaml'}:3: set_verbose: True"]
    (tmp_path / "c.yaml").unlink()
    assert debug_findings([gateway]) == []
    os.mkfifo(tmp_path / "c.yaml")
    assert debug_findings([gateway]) == []


def test_a_process_of_ours_is_looked_at(tmp_path: Path) -> None:
    program = tmp_path / "litellm"
    program.write_text(
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "print(s.getsockname()[1], flush=True)\ninput()\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(program), "--config", "c.yaml"],
        env={"LITELLM_LOG": "DEBUG", "SECRET": "x"},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        (found,) = [g for g in running_gateways() if g.pid == process.pid]
    finally:
        process.communicate(b"\n")
    assert found.variables == ("LITELLM_LOG=DEBUG",)
    assert found.folder == tmp_path.resolve()
    assert found.ports == {port}


def test_the_word_in_an_argument_far_behind_makes_no_gateway() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", "--model", "litellm"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.pid not in {g.pid for g in running_gateways()}
    finally:
        process.communicate(b"\n")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("services:\n  litellm:\n    command: [--config, /c.yaml, --detailed_debug]\n", [3]),
        (
            'services:\n  p:\n    image: x/litellm\n    environment:\n      LITELLM_LOG: "DEBUG"\n',
            [5],
        ),
        ("services:\n  litellm:\n    command: [--config, /c.yaml]  # not --detailed_debug\n", []),
        ("services:\n  other:\n    command: [--debug]\n", []),
        ("", []),
    ],
)
def test_compose_files(tmp_path: Path, text: str, lines: list[int]) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(text)
    found = compose_findings(path)
    assert [int(str(f.evidence).removeprefix(f"{path}:").split(":")[0]) for f in found] == lines


def test_a_compose_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.yaml"):
        compose_findings(tmp_path / "nothing.yaml")
    with pytest.raises(InputError):
        compose_findings(tmp_path)
