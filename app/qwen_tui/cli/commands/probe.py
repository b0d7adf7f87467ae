"""``qwen-tui probe``: streaming requests of a chosen kind, timed where their bytes arrive."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qwen_tui.cli.target import ServerTarget
    from qwen_tui.services.probe.compare import Comparison
    from qwen_tui.services.snapshots import ProbeResult
    from qwen_tui_profiles.findings import Finding
    from qwen_tui_profiles.text import Text

_UNKNOWN = "—"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from qwen_tui.cli.target import add_target_arguments
    from qwen_tui.services.probe.probing import kind_names

    parser.add_argument(
        "--kind", choices=kind_names(), default="prose", help=tr(t("the kind of work to ask for"))
    )
    add_target_arguments(parser)
    parser.add_argument("--model", metavar="NAME", help=tr(t("the model, instead of the first")))
    parser.add_argument(
        "--runs",
        type=_positive,
        metavar="N",
        help=tr(t("probe N times after a discarded run (default: 1, with --gateway 3)")),
    )
    parser.add_argument(
        "--gateway",
        metavar="URL",
        help=tr(
            t(
                "probe through this gateway as well, and show the difference (default, without "
                "--url: the one under [gateway] in config.toml)"
            )
        ),
    )
    parser.add_argument(
        "--gateway-key-env", metavar="NAME", help=tr(t("variable that holds the gateway's key"))
    )
    parser.add_argument(
        "--gateway-model", metavar="NAME", help=tr(t("the model's name at the gateway"))
    )
    parser.add_argument(
        "--gateway-compose",
        type=Path,
        metavar="FILE",
        help=tr(t("compose file of the gateway, looked through for debug logging")),
    )
    parser.add_argument(
        "--curl", action="store_true", help=tr(t("print the request as a curl command instead"))
    )
    parser.add_argument("--json", action="store_true", help=tr(t("print one JSON document")))


def run(args: argparse.Namespace) -> int:
    """Probe and say what came of it."""
    from qwen_tui.cli.target import read_key, resolve_target
    from qwen_tui.services.probe.document import probe_json
    from qwen_tui.services.probe.probing import BOUNDARY
    from qwen_tui_profiles.errors import UsageError

    if args.gateway and args.kind == BOUNDARY:
        raise UsageError(
            t("The boundary is the engine's own: it is not compared through a gateway."),
            t("Leave --gateway out."),
        )
    if not args.url and not args.gateway and not args.curl and args.kind != BOUNDARY:
        _take_settings(args)
    target = resolve_target(args)
    if args.curl:
        print(asyncio.run(_curl(args, target)))
        return 0
    comparison = None
    findings: list[Finding] = []
    if args.gateway:
        # The engine's key is nobody else's business: a gateway gets only the key that is its own.
        key = read_key(args.gateway_key_env) if args.gateway_key_env else None
        comparison = asyncio.run(_compare(args, target, key))
        results = comparison.direct
        findings = _gateway_findings(args.gateway, args.gateway_compose, comparison.source)
    else:
        results = asyncio.run(_repeat(args, target))
    if args.json:
        document = probe_json(target.url, results, comparison, args.gateway, findings)
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _tell(results)
        if comparison is not None:
            _tell_gateway(comparison)
        for finding in findings:
            print(f"{finding.severity.value.upper()} {tr(finding.title)}\n  {tr(finding.evidence)}")
            if finding.remedy is not None:
                print(f"  → {tr(finding.remedy)}")
    everything = [*results, *(() if comparison is None else comparison.gateway)]
    if all(r.outcome == "not_applicable" for r in everything):
        return 2
    return 0 if all(r.error is None for r in everything) else 1


def _take_settings(args: argparse.Namespace) -> None:
    """Take the gateway in front of our own server from the settings, where there is one."""
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.settings import load_settings

    settings = load_settings(Paths.default())
    if settings.gateway is not None:
        args.gateway = settings.gateway
        args.gateway_model = args.gateway_model or settings.gateway_model
        if args.gateway_key_env is None and os.environ.get(settings.gateway_key_env or ""):
            # A variable that is not set is no key, as in the console: the gateway says what it
            # wants, and the direct way is measured all the same.
            args.gateway_key_env = settings.gateway_key_env


async def _repeat(args: argparse.Namespace, target: ServerTarget) -> tuple[ProbeResult, ...]:
    from qwen_tui.services.probe.compare import Route, repeat

    route = Route(target.url, target.api_key, args.model)
    return await repeat(route, kind=args.kind, runs=args.runs or 1)


async def _compare(
    args: argparse.Namespace, target: ServerTarget, gateway_key: str | None
) -> Comparison:
    from qwen_tui.services.probe.compare import Route, compare

    return await compare(
        Route(target.url, target.api_key, args.model),
        Route(args.gateway, gateway_key, args.gateway_model),
        kind=args.kind,
        runs=args.runs or 3,
    )


async def _curl(args: argparse.Namespace, target: ServerTarget) -> str:
    from qwen_tui.services.keys import key_variable
    from qwen_tui.services.live.target import Target
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.probe.probing import curl_command
    from qwen_tui.services.probe.served import find_served
    from qwen_tui.services.settings import load_settings

    served = await find_served(Target.parse(target.url), api_key=target.api_key)
    variable: str | None = args.api_key_env
    if variable is None and target.api_key is not None:
        settings = await asyncio.to_thread(load_settings, Paths.default())
        variable = key_variable(target.api_key, settings.fleet_keys)
    return curl_command(
        target.url,
        args.kind,
        args.model or served.model,
        key_variable=variable,
        sglang=served.sglang,
    )


def _gateway_findings(url: str, compose: Path | None, source: str) -> list[Finding]:
    from qwen_tui.services.live.gateway import compose_findings, debug_findings, running_gateways
    from qwen_tui.services.live.target import Target

    found: list[Finding] = []
    if source in {"litellm", "other", "unknown"}:  # else it is known to be something else
        found = debug_findings(running_gateways(), Target.parse(url).port)
    return found + (compose_findings(compose) if compose is not None else [])


def _tell(results: Sequence[ProbeResult]) -> None:
    for number, result in enumerate(results, 1):
        if len(results) > 1:
            print(tr(t("run {n}", n=number)))
        _tell_one(result)


def _tell_one(result: ProbeResult) -> None:
    if result.ttft_ms is not None or result.tokens is not None:
        for line in _lines(result):
            print(tr(line))
    if result.detail is not None:
        print(tr(result.detail))
    if result.error is not None:
        print(f"{result.outcome}: {tr(result.error)}", file=sys.stderr)


def _lines(result: ProbeResult) -> list[Text]:
    return [
        t(
            "TTFT {ttft} ms · TTFO {ttfo} ms (first visible token)",
            ttft=_figure(result.ttft_ms, ",.1f"),
            ttfo=_figure(result.ttfo_ms, ",.1f"),
        ),
        t(
            "{tokens} tokens, {reasoning} of them reasoning, at {speed} tok/s "
            "({per_token} ms a token)",
            tokens=_figure(result.tokens, ",d"),
            reasoning=_figure(result.reasoning_tokens, ",d"),
            speed=_figure(result.decode_tok_s, ",.1f"),
            per_token=_figure(result.ms_per_token, ",.2f"),
        ),
        t(
            "{chunks} chunks, gap p50 {p50} ms, p95 {p95} ms, longest {longest} ms",
            chunks=_figure(result.chunks, ",d"),
            p50=_figure(result.chunk_gap_p50_ms, ",.1f"),
            p95=_figure(result.chunk_gap_p95_ms, ",.1f"),
            longest=_figure(result.chunk_gap_max_ms, ",.1f"),
        ),
        t(
            "prompt {prompt} tokens, {cached} from the cache · accept length {accept}",
            prompt=_figure(result.prompt_tokens, ",d"),
            cached=_figure(result.cached_tokens, ",d"),
            accept=_figure(result.accept_length, ".2f"),
        ),
    ]


def _tell_gateway(comparison: Comparison) -> None:
    from qwen_tui.services.probe.compare import median_of

    for result in comparison.gateway:
        if result.error is not None:
            print(tr(t("through the gateway: {error}", error=result.error)), file=sys.stderr)
    if median_of(comparison.gateway, "ttft_ms") is None:
        return
    ratio = comparison.decode_ratio
    print(
        tr(
            t(
                "through the gateway: TTFT {ttft} ms ({added} ms), decode {speed} tok/s "
                "({ratio} of direct), medians of {n} runs",
                ttft=_figure(median_of(comparison.gateway, "ttft_ms"), ",.1f"),
                added=_figure(comparison.ttft_added_ms, "+,.1f"),
                speed=_figure(median_of(comparison.gateway, "decode_tok_s"), ",.1f"),
                ratio=_figure(ratio, ".0%"),
                n=len(comparison.gateway),
            )
        )
    )
    for line in _passed_on(comparison):
        print(tr(line))
    queue = comparison.queue_time
    if queue is not None:
        print(
            tr(
                t(
                    "requests waited {mean} ms inside the gateway on average ({n} requests)",
                    mean=_figure(queue.mean_ms, ",.1f"),
                    n=queue.n,
                )
            )
        )


def _passed_on(comparison: Comparison) -> Iterator[Text]:
    """Say what the gateway's answers tell of tokens, and what they leave out."""
    from qwen_tui.services.probe.compare import median_of

    last = comparison.gateway[-1]
    yield t(
        "through the gateway: {tokens} tokens, prompt {prompt} tokens, {cached} from the cache",
        tokens=_figure(last.tokens, ",d"),
        prompt=_figure(last.prompt_tokens, ",d"),
        cached=_figure(last.cached_tokens, ",d"),
    )
    direct = median_of(comparison.direct, "cached_tokens")
    if direct is not None and last.cached_tokens is None:
        yield t("Cached tokens are not told through the gateway.")


def _figure(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None else format(value, form)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(tr(t("must be a whole number from 1 to 100")))
    return value
