"""A gateway with debug logging is found by its command line or its compose file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.live.gateway import compose_findings, debug_findings, running_gateways
from qwen_tui_profiles.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = [
    (10, ("/usr/bin/python3", "/usr/local/bin/litellm", "--config", "c.yaml", "--detailed_debug")),
    (11, ("/usr/bin/python3", "/usr/local/bin/litellm", "--config", "c.yaml")),
    (12, ("litellm", "--debug", "--api-key", "sk-verysecretkey")),
]


def test_debug_flags_are_found_and_secrets_are_not_shown() -> None:
    findings = debug_findings(PROCESSES)
    assert [str(f.evidence).split(":")[0] for f in findings] == ["pid 10", "pid 12"]
    assert all(f.rule == "gateway_debug_logging" for f in findings)
    assert "verysecret" not in " ".join(str(f.evidence) for f in findings)


def test_looking_at_the_machine_finds_no_gateway_in_this_test_run() -> None:
    # The word in an argument far behind (this file's name) does not make a gateway.
    assert all("pytest" not in " ".join(argv) for _, argv in running_gateways())


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
