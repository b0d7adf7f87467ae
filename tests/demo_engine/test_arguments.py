"""The command line: SGLang's flags, its refusals, its changes of values."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from qwen_tui.demo_engine.arguments import parse_command, server_args_template
from qwen_tui.demo_engine.settings import Refused, resolve

RECORDED = Path(__file__).parent / "data" / "sglang-0.5.23-cpu.ready.log"


def exits(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as raised:
        parse_command(argv)
    assert raised.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_unknown_flags_end_like_argparse(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits(capsys, "--bogus", "1").endswith("error: unrecognized arguments: --bogus 1")


def test_removed_spellings_are_ambiguous_as_in_0_5_23(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Recorded: ambiguous option: --cuda-graph-max-bs could match …-decode, …-prefill."""
    assert exits(capsys, "--cuda-graph-max-bs", "1").endswith(
        "error: ambiguous option: --cuda-graph-max-bs could match "
        "--cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill"
    )


def test_bad_choices(capsys: pytest.CaptureFixture[str]) -> None:
    last = exits(capsys, "--kv-cache-dtype", "fp9")
    assert "error: argument --kv-cache-dtype: invalid choice: 'fp9' (choose from" in last


def test_sizes_flags_and_prefixes() -> None:
    command = parse_command(["--max-run", "2", "--context-length", "128Ki", "--enable-metrics"])
    assert command.given["max_running_requests"] == 2
    assert command.given["context_length"] == 131072
    assert command.given["enable_metrics"] is True


def test_server_args_has_the_recorded_fields_in_order() -> None:
    line = next(ln for ln in RECORDED.read_text().splitlines() if "server_args={" in ln)
    # The sample is cut after 400 characters; what is there has to agree.
    names = re.findall(r"'(\w+)': ", line)
    assert len(names) > 5
    assert list(server_args_template())[: len(names)] == names
    assert len(server_args_template()) == 546


def test_the_printed_dict_is_a_literal_and_resolved() -> None:
    settings, lines = resolve(
        parse_command(["--speculative-algorithm", "NEXTN", "--enable-mixed-chunk"])
    )
    fields = ast.literal_eval(repr(settings.server_args))
    assert fields["speculative_algorithm"] == "EAGLE"
    assert fields["speculative_num_steps"], fields["speculative_num_draft_tokens"] == (3, 4)
    assert fields["max_running_requests"] == 48
    assert fields["enable_mixed_chunk"] is False
    assert any(ln.startswith("Max running requests is reset to 48") for ln in lines)
    assert any(ln.startswith("Mixed chunked prefill is disabled: EAGLE") for ln in lines)


def test_topk_one_forces_the_draft_tokens() -> None:
    argv = ["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "5"]
    argv += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
    settings, lines = resolve(parse_command(argv))
    assert settings.draft_tokens == 6
    assert any("adjusted to speculative_num_steps + 1" in ln for ln in lines)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--context-length", "1000000"], "greater than the derived context_length (262144)"),
        (["--chunked-prefill-size", "1000", "--page-size", "64"], "divisible by page_size"),
        (
            ["--mamba-radix-cache-strategy", "extra_buffer_lazy", "--disable-overlap-schedule"],
            "Lazy extra buffer requires overlap schedule",
        ),
        (["--mamba-radix-cache-strategy", "no_buffer"], "do not support overlap schedule"),
        (["--enable-hierarchical-cache", "--disable-radix-cache"], "mutually exclusive"),
    ],
)
def test_combinations_that_sglang_refuses(argv: list[str], words: str) -> None:
    with pytest.raises(Refused, match=re.escape(words)):
        resolve(parse_command(argv))


@pytest.mark.parametrize(
    ("argv", "slots"),
    [
        (["--disable-radix-cache"], 1),
        (["--mamba-radix-cache-strategy", "no_buffer", "--disable-overlap-schedule"], 3),
        (["--mamba-radix-cache-strategy", "extra_buffer", "--disable-overlap-schedule"], 4),
        ([], 5),
        (["--mamba-radix-cache-strategy", "extra_buffer_lazy"], 4),
    ],
)
def test_slots_per_request(argv: list[str], slots: int) -> None:
    settings, _ = resolve(parse_command(argv))
    assert settings.slots_per_request == slots
