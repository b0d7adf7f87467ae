"""``qwen-tui watch``: live figures of one or more servers, a line or a JSON document a snapshot."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from qwen_tui.cli.target import ServerTarget
    from qwen_tui.services.live.textfile import TextfileKeeper
    from qwen_tui.services.snapshots import GpuSnapshot, LiveSnapshot, ReplicaSnapshot
    from qwen_tui_profiles.findings import Clamp

_GPU_INTERVAL_S = 2.0
_MOST_REPLICAS = 8
"""In a line; `--json` has them all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from qwen_tui.cli.target import add_target_arguments

    add_target_arguments(parser, several=True)
    parser.add_argument(
        "--fleet",
        action="store_true",
        help=tr(t("the servers under [fleet] in config.toml, as the console's Fleet shows them")),
    )
    parser.add_argument("--json", action="store_true", help=tr(t("one JSON document a line")))
    parser.add_argument(
        "--textfile",
        type=Path,
        metavar="FILE",
        help=tr(t("keep FILE up to date for Prometheus' node_exporter (name it *.prom)")),
    )
    parser.add_argument(
        "--count",
        type=_positive,
        metavar="N",
        help=tr(t("end after N snapshots (default: go on until interrupted)")),
    )
    parser.add_argument("--no-gpu", action="store_true", help=tr(t("do not ask NVML")))


def run(args: argparse.Namespace) -> int:
    """Watch until interrupted; 1 when no snapshot ever had figures."""
    from qwen_tui.cli.target import resolve_targets

    targets = _fleet(args) if args.fleet else resolve_targets(args)
    watch = _Watch(
        {target.url: target.api_key for target in targets},
        targets[0].pid,
        targets[0].clamps,
        targets[0].requests_a_replica,
        as_json=args.json,
        textfile=args.textfile,
    )
    if args.textfile is not None:
        # Ended in order by TERM too (a service manager): no figure stays that nobody renews.
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, signal.default_int_handler)
    return asyncio.run(watch.go(args.count, with_gpu=not args.no_gpu))


def _fleet(args: argparse.Namespace) -> list[ServerTarget]:
    """Return the fleet's servers, each with its own key, behind those that were given."""
    from qwen_tui.cli.target import ServerTarget, resolve_targets
    from qwen_tui.services.keys import fleet_key
    from qwen_tui.services.live.target import Target
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.settings import load_settings
    from qwen_tui_profiles.errors import UsageError

    settings = load_settings(Paths.default())
    if not args.url and not settings.fleet:
        raise UsageError(
            t("No server stands under [fleet] in config.toml."),
            t('Write urls = ["http://HOST:PORT"] there, or add it in the console\'s Fleet.'),
        )
    given = resolve_targets(args) if args.url else []
    fleet = [ServerTarget(url, fleet_key(url, settings.fleet_keys)) for url in settings.fleet]
    known = {Target.parse(target.url).url for target in given}
    return [*given, *(one for one in fleet if Target.parse(one.url).url not in known)]


@dataclass(slots=True)
class _Watch:
    servers: dict[str, str | None]
    """Address → API key."""
    pid: int | None
    clamps: tuple[Clamp, ...]
    requests_a_replica: int | None
    as_json: bool
    textfile: Path | None
    keeper: TextfileKeeper | None = None
    gpus: tuple[GpuSnapshot, ...] | None = None
    latest: dict[str, LiveSnapshot] = field(default_factory=dict)
    noted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What was said of each server beside its figures; said again when it changes."""

    async def go(self, count: int | None, *, with_gpu: bool) -> int:
        from qwen_tui.services.live.context import LiveContext
        from qwen_tui.services.live.fleet import Fleet

        fleet = Fleet(
            tuple(self.servers),
            key=self.servers.get,
            context=lambda: LiveContext(self.gpus or (), self.clamps, self.requests_a_replica),
        )
        sampling = asyncio.create_task(self._sample_gpus()) if with_gpu else None
        seen = False
        stream = fleet.stream()
        try:
            async with contextlib.aclosing(stream):
                async for item in stream:
                    self.latest = fleet.latest
                    seen = seen or item.snapshot.error is None
                    self._show(item.url, item.snapshot)
                    if count is not None:
                        count -= 1
                        if count <= 0:
                            break
        finally:
            if sampling is not None:
                sampling.cancel()
            # A run that was asked for so many leaves its last figures: a timer renews them.
            if self.keeper is not None and count is None:
                self.keeper.remove()
        return 0 if seen else 1

    async def _sample_gpus(self) -> None:
        from qwen_tui.services.gpu import GpuSampler

        stream: AsyncGenerator[tuple[GpuSnapshot, ...], None] = GpuSampler(
            server_pid=lambda: self.pid
        ).stream(_GPU_INTERVAL_S)
        async with contextlib.aclosing(stream):
            async for sample in stream:
                self.gpus = sample or None

    def _show(self, url: str, snapshot: LiveSnapshot) -> None:
        if self.textfile is not None:
            from qwen_tui.services.live.textfile import TextfileKeeper, exposition_text

            if self.keeper is None:
                self.keeper = TextfileKeeper(self.textfile)
            if not self.keeper.write(exposition_text(self.latest, self.gpus or ())):
                problem = self.keeper.problem
                why = t("unknown") if problem is None else problem.message
                said = t("{problem} It is tried again; until then the file is gone.", problem=why)
                print(tr(said), file=sys.stderr, flush=True)
            if not self.as_json:
                return
        if self.as_json:
            from qwen_tui.services.live.context import is_here
            from qwen_tui.services.live.document import live_json
            from qwen_tui.services.live.target import Target

            # This machine's GPUs are none of a server elsewhere.
            gpus = self.gpus if is_here(Target.parse(url).host) else None
            print(json.dumps(live_json(snapshot, url, gpus), ensure_ascii=False), flush=True)
        else:
            name = f"{url}  " if len(self.servers) > 1 else ""
            print(name + _line(snapshot), flush=True)
            notes = tuple(tr(note) for note in snapshot.notes)
            if notes != self.noted.get(url, ()):
                self.noted[url] = notes
                for note in notes:
                    print(f"  {note}", flush=True)


def _line(snapshot: LiveSnapshot) -> str:
    from qwen_tui.services.live.fronts import front_words

    if snapshot.error is not None:
        age = "" if snapshot.stale_s is None else tr(t(" ({s:.0f} s old)", s=snapshot.stale_s))
        return f"{snapshot.source}: {tr(snapshot.error)}{age}"
    front = front_words(snapshot)
    line = _figures(snapshot) if front is None else tr(front)
    if len(snapshot.replicas) > 1:
        told = [_replica(r) for r in snapshot.replicas[:_MOST_REPLICAS]]
        left = len(snapshot.replicas) - len(told)
        line += f"  [{', '.join(told)}" + (f", … +{left}]" if left else "]")
    if front is None and snapshot.bound_by is not None:
        line += "  · " + tr(snapshot.bound_by)
    for alarm in snapshot.alarms:
        line += f"\n  {alarm.severity.value.upper()} {tr(alarm.text)}"
    return line


def _figures(snapshot: LiveSnapshot) -> str:
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


def _replica(replica: ReplicaSnapshot) -> str:
    """Return running + waiting requests of one replica, or that it does not answer."""
    rank = replica.rank.removeprefix("http://")
    if replica.healthy is False:
        return f"{rank}: " + tr(t("does not answer"))
    if replica.running is None and replica.healthy:
        return f"{rank}: " + tr(t("healthy"))
    running, queue = _show(replica.running, "d"), _show(replica.queue, "d")
    return f"{rank}: {running}+{queue}"


def _show(value: float | None, form: str) -> str:
    return "—" if value is None else format(value, form)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(tr(t("must be a whole number, 1 or more")))
    return value
