"""``qwen-tui watch``: live figures as JSON lines or for a terminal, one line a snapshot."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import LiveSnapshot

SCHEMA = "qwen-tui.live/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from qwen_tui.cli.target import add_target_arguments

    add_target_arguments(parser)
    parser.add_argument("--json", action="store_true", help=tr(t("one JSON document a line")))
    parser.add_argument(
        "--count",
        type=_positive,
        metavar="N",
        help=tr(t("end after N snapshots (default: go on until interrupted)")),
    )


def run(args: argparse.Namespace) -> int:
    """Watch until interrupted; 1 when no snapshot ever had figures."""
    from qwen_tui.cli.target import resolve_target

    target = resolve_target(args)
    return asyncio.run(_watch(args, target.url, target.api_key))


async def _watch(args: argparse.Namespace, url: str, api_key: str | None) -> int:
    from qwen_tui.services.live import MetricPoller

    seen = False
    left: int | None = args.count
    async for snapshot in MetricPoller(url, api_key).stream():
        seen = seen or snapshot.error is None
        if args.json:
            print(json.dumps(live_json(snapshot, url), ensure_ascii=False), flush=True)
        else:
            print(_line(snapshot), flush=True)
        if left is not None:
            left -= 1
            if left <= 0:
                break
    return 0 if seen else 1


def live_json(snapshot: LiveSnapshot, url: str | None) -> dict[str, object]:
    """Return the ``qwen-tui.live/1`` document, in English. Unknown is null."""
    ttft = snapshot.ttft
    return {
        "schema": SCHEMA,
        "url": url,
        "at": round(snapshot.at, 3),
        "source": snapshot.source,
        "stale_s": _round(snapshot.stale_s),
        "error": None if snapshot.error is None else str(snapshot.error),
        "running": snapshot.running,
        "queue": snapshot.queue,
        "kv_used": _round(snapshot.kv_used, 4),
        "kv_used_tokens": snapshot.kv_used_tokens,
        "kv_tokens": snapshot.kv_tokens,
        "mamba_used": _round(snapshot.mamba_used, 4),
        "mamba_used_slots": snapshot.mamba_used_slots,
        "mamba_slots": snapshot.mamba_slots,
        "decode_tok_s": _round(snapshot.decode_tok_s),
        "prefill_tok_s": _round(snapshot.prefill_tok_s),
        "accept_length": _round(snapshot.accept_length),
        "draft_tokens": snapshot.draft_tokens,
        "cache_hit_rate": _round(snapshot.cache_hit_rate, 4),
        "window_s": _round(snapshot.window_s),
        "ttft_ms": None
        if ttft is None
        else {
            "p50": _round(ttft.p50_ms),
            "p95": _round(ttft.p95_ms),
            "window_s": _round(ttft.window_s),
            "n": ttft.n,
        },
        "max_running_requests": snapshot.max_running_requests,
        "context_usable": snapshot.context_usable,
        "bound_by": None if snapshot.bound_by is None else str(snapshot.bound_by),
    }


def _line(snapshot: LiveSnapshot) -> str:
    if snapshot.error is not None:
        age = "" if snapshot.stale_s is None else tr(t(" ({s:.0f} s old)", s=snapshot.stale_s))
        return f"{snapshot.source}: {tr(snapshot.error)}{age}"
    ttft = snapshot.ttft
    return tr(
        t(
            "running {running}  waiting {queue}  KV {kv}  decode {decode} tok/s  "
            "accept {accept}  hit {hit}  TTFT p50 {p50} p95 {p95} ms",
            running=_show(snapshot.running, "d"),
            queue=_show(snapshot.queue, "d"),
            kv=_show(snapshot.kv_used, ".0%"),
            decode=_show(snapshot.decode_tok_s, ".1f"),
            accept=_show(snapshot.accept_length, ".2f"),
            hit=_show(snapshot.cache_hit_rate, ".0%"),
            p50=_show(None if ttft is None else ttft.p50_ms, ",.0f"),
            p95=_show(None if ttft is None else ttft.p95_ms, ",.0f"),
        )
    )


def _show(value: float | None, form: str) -> str:
    return "—" if value is None else format(value, form)


def _round(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(tr(t("must be 1 or more")))
    return value
