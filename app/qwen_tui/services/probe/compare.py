"""The same probe several times, directly and through a gateway: what does the gateway cost?

Direct and gateway requests alternate, so that both see the same server; one of each is sent first
and discarded (it fills the prefix cache and opens what has to be opened).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.live.catalogue import FRONTS
from qwen_tui.services.live.poller import MetricPoller
from qwen_tui.services.live.target import Target
from qwen_tui.services.probe.kinds import KINDS
from qwen_tui.services.probe.probing import probe
from qwen_tui.services.probe.served import longest_input

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import LatencySummary, ProbeResult

__all__ = ["Comparison", "Route", "compare", "repeat"]


@dataclass(frozen=True, slots=True)
class Route:
    """One way to the model."""

    url: str
    api_key: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of both ways, in the order in which they were sent; failures included."""

    direct: tuple[ProbeResult, ...]
    gateway: tuple[ProbeResult, ...]
    queue_time: LatencySummary | None = None
    """How long requests waited inside the gateway meanwhile, as its own metrics say."""
    source: str = "unknown"
    """What the gateway is by its metrics (see :class:`LiveSnapshot`)."""

    @property
    def ttft_added_ms(self) -> float | None:
        """Median TTFT through the gateway minus the direct one; ``None`` if one was not measured.

        Medians of few runs: the spread is in the results.
        """
        return _difference(self.direct, self.gateway, "ttft_ms")

    @property
    def ttfo_added_ms(self) -> float | None:
        """The same for the first visible token."""
        return _difference(self.direct, self.gateway, "ttfo_ms")

    @property
    def decode_ratio(self) -> float | None:
        """Decode speed through the gateway ÷ direct; 1.0 = the gateway costs nothing."""
        direct = median_of(self.direct, "decode_tok_s")
        gateway = median_of(self.gateway, "decode_tok_s")
        return None if not direct or gateway is None else gateway / direct


async def compare(direct: Route, gateway: Route, *, kind: str, runs: int = 3) -> Comparison:
    """Probe both ways ``runs`` times each, after one discarded pair.

    A way that fails in that first pair is left at that; the other is measured all the same. Both
    are sent prompts of the same length: what the server takes, its gateway does not tell.

    Raises:
        UsageError: an address or the kind is not usable.
    """
    found: dict[str, list[ProbeResult]] = {"direct": [], "gateway": []}
    metrics = MetricPoller(gateway.url, gateway.api_key)
    await metrics.poll()
    context = None
    if kind in KINDS and KINDS[kind].within is not None:
        context = await longest_input(Target.parse(direct.url), api_key=direct.api_key)
    routes = {"direct": direct, "gateway": gateway}
    for number in range(-1, runs):
        for name, route in tuple(routes.items()):
            result = await probe(
                route.url, kind=kind, api_key=route.api_key, model=route.model, context=context
            )
            failed = result.error is not None and result.ttft_ms is None
            if number >= 0 or failed:
                found[name].append(result)
            if number < 0 and failed:
                del routes[name]  # no use in asking again what cannot be reached
    after = await metrics.poll()
    window = after.five_minutes if after.source in FRONTS else None
    return Comparison(
        tuple(found["direct"]),
        tuple(found["gateway"]),
        None if window is None else window.queue_time,
        after.source,
    )


async def repeat(route: Route, *, kind: str, runs: int) -> tuple[ProbeResult, ...]:
    """Probe one way ``runs`` times; with more than one, a first request is discarded.

    Raises:
        UsageError: the address or the kind is not usable.
    """
    results: list[ProbeResult] = []
    for number in range(-1 if runs > 1 else 0, runs):
        result = await probe(route.url, kind=kind, api_key=route.api_key, model=route.model)
        failed = result.error is not None and result.ttft_ms is None
        if number >= 0 or failed:
            results.append(result)
        if failed:
            break
    return tuple(results)


def median_of(results: tuple[ProbeResult, ...], field: str) -> float | None:
    """Return the median of a figure over the results that have it."""
    values = [v for r in results if (v := getattr(r, field)) is not None]
    return statistics.median(values) if values else None


def _difference(
    direct: tuple[ProbeResult, ...], gateway: tuple[ProbeResult, ...], field: str
) -> float | None:
    one, other = median_of(direct, field), median_of(gateway, field)
    return None if one is None or other is None else other - one
