"""``qwen-tui probe``: one streaming request, timed where its bytes arrive."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui.services.snapshots import ProbeResult

SCHEMA = "qwen-tui.probe/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from qwen_tui.cli.target import add_target_arguments
    from qwen_tui.services.probe.probing import kind_names

    parser.add_argument(
        "--kind", choices=kind_names(), default="prose", help=tr(t("the kind of work to ask for"))
    )
    add_target_arguments(parser)
    parser.add_argument("--model", metavar="NAME", help=tr(t("the model, instead of the first")))
    parser.add_argument("--json", action="store_true", help=tr(t("print one JSON document")))


def run(args: argparse.Namespace) -> int:
    """Probe once and say what came of it."""
    from qwen_tui.cli.target import resolve_target
    from qwen_tui.services.probe import probe

    target = resolve_target(args)
    result = asyncio.run(
        probe(target.url, kind=args.kind, api_key=target.api_key, model=args.model)
    )
    if args.json:
        print(json.dumps(probe_json(result, target.url), indent=2, ensure_ascii=False))
    else:
        _tell(result)
    return 0 if result.error is None else 1


def probe_json(result: ProbeResult, url: str) -> dict[str, object]:
    """Return the ``qwen-tui.probe/1`` document, in English."""
    return {
        "schema": SCHEMA,
        "url": url,
        "kind": result.kind,
        "model": result.model,
        "outcome": result.outcome,
        "error": None if result.error is None else str(result.error),
        "ttft_ms": _round(result.ttft_ms),
        "ttfo_ms": _round(result.ttfo_ms),
        "tokens": result.tokens,
        "reasoning_tokens": result.reasoning_tokens,
        "prompt_tokens": result.prompt_tokens,
        "cached_tokens": result.cached_tokens,
        "decode_tok_s": _round(result.decode_tok_s),
        "accept_length": _round(result.accept_length),
        "chunks": result.chunks,
        "chunk_gap_ms": {
            "p50": _round(result.chunk_gap_p50_ms),
            "p95": _round(result.chunk_gap_p95_ms),
            "max": _round(result.chunk_gap_max_ms),
        },
        "ms_per_token": _round(result.ms_per_token),
        "finish_reason": result.finish_reason,
    }


def _tell(result: ProbeResult) -> None:
    unknown = "—"

    def figure(value: float | None, form: str) -> str:
        return unknown if value is None else format(value, form)

    lines = [
        t(
            "TTFT {ttft} ms · TTFO {ttfo} ms (first visible token)",
            ttft=figure(result.ttft_ms, ",.1f"),
            ttfo=figure(result.ttfo_ms, ",.1f"),
        ),
        t(
            "{tokens} tokens, {reasoning} of them reasoning, at {speed} tok/s "
            "({per_token} ms a token)",
            tokens=figure(result.tokens, ",d"),
            reasoning=figure(result.reasoning_tokens, ",d"),
            speed=figure(result.decode_tok_s, ",.1f"),
            per_token=figure(result.ms_per_token, ",.2f"),
        ),
        t(
            "{chunks} chunks, gap p50 {p50} ms, p95 {p95} ms, longest {longest} ms",
            chunks=figure(result.chunks, ",d"),
            p50=figure(result.chunk_gap_p50_ms, ",.1f"),
            p95=figure(result.chunk_gap_p95_ms, ",.1f"),
            longest=figure(result.chunk_gap_max_ms, ",.1f"),
        ),
        t(
            "prompt {prompt} tokens, {cached} from the cache · accept length {accept}",
            prompt=figure(result.prompt_tokens, ",d"),
            cached=figure(result.cached_tokens, ",d"),
            accept=figure(result.accept_length, ".2f"),
        ),
    ]
    if result.outcome not in {"no_answer", "refused"}:
        for line in lines:
            print(tr(line))
    if result.error is not None:
        print(f"{result.outcome}: {tr(result.error)}", file=sys.stderr)


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
