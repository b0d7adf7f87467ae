"""Our figures as a Prometheus text file for node_exporter's textfile collector.

Only what the engine does not export itself: windowed rates, percentiles, usable limits, the bound
and the alarms. An unknown figure is absent, because an absent series is how Prometheus says
"unknown"; a 0 would be a number. The file is replaced atomically: nobody reads half of it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from qwen_tui.services.paths import write_private
from qwen_tui_profiles.errors import ConfigError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from qwen_tui.services.snapshots import GpuSnapshot, LatencySummary, LiveSnapshot

__all__ = ["TextfileKeeper", "exposition_text", "write_textfile"]


class _Row(NamedTuple):
    name: str
    help: str
    field: str


_GAUGES = (
    _Row("running_requests", "Requests running.", "running"),
    _Row("queued_requests", "Requests waiting.", "queue"),
    _Row("max_running_requests", "Effective limit of running requests.", "max_running_requests"),
    _Row("context_usable_tokens", "Longest request that the server takes.", "context_usable"),
    _Row("kv_used_ratio", "Share of the KV pool in use.", "kv_used"),
    _Row("kv_tokens", "Size of the KV pool in tokens.", "kv_tokens"),
    _Row("state_slots_used_ratio", "Share of the state slots in use.", "mamba_used"),
    _Row("state_slots", "State slots.", "mamba_slots"),
    _Row(
        "decode_tokens_per_second",
        "Generated tokens per second of decoding, 10 s window.",
        "decode_tok_s",
    ),
    _Row(
        "prefill_tokens_per_second",
        "Computed prompt tokens per second of prefill.",
        "prefill_tok_s",
    ),
    _Row(
        "accept_length_tokens",
        "Tokens per verify step with the bonus token, 1 min window.",
        "accept_length",
    ),
    _Row("cache_hit_ratio", "Cached share of the prompt tokens, 1 min window.", "cache_hit_rate"),
    _Row(
        "energy_joules_per_1000_tokens", "GPU energy per 1000 generated tokens.", "energy_j_per_1k"
    ),
)
_LATENCIES = (
    ("ttft", "Time to first token."),
    ("itl", "Time between tokens."),
    ("e2e", "Time of a whole request."),
    ("queue_time", "Time in the queue."),
)
_QUANTILES = (("0.5", "p50_ms"), ("0.9", "p90_ms"), ("0.95", "p95_ms"), ("0.99", "p99_ms"))
_GPU = (
    _Row("gpu_memory_used_bytes", "GPU memory in use.", "memory_used_bytes"),
    _Row("gpu_memory_ours_bytes", "GPU memory in use by the server.", "memory_ours_bytes"),
    _Row("gpu_memory_total_bytes", "GPU memory.", "memory_total_bytes"),
    _Row("gpu_utilisation_ratio", "Share of time with a kernel running.", "utilisation"),
    _Row("gpu_power_watts", "Power drawn.", "power_w"),
    _Row("gpu_temperature_celsius", "GPU temperature.", "temperature_c"),
)


def exposition_text(snapshots: dict[str, LiveSnapshot], gpus: tuple[GpuSnapshot, ...] = ()) -> str:
    """Return the file's text for one or more servers (by URL) and the machine's GPUs."""
    lines: list[str] = []
    _family(
        lines,
        "up",
        "Whether the server's figures are fresh.",
        (
            (_labels(server=url), 0.0 if s.error is not None or s.stale_s is not None else 1.0)
            for url, s in snapshots.items()
        ),
    )
    # Figures of a server that does not answer are old: they are left out, not repeated.
    fresh = {u: s for u, s in snapshots.items() if s.error is None and s.stale_s is None}
    for row in _GAUGES:
        _family(
            lines,
            row.name,
            row.help,
            ((_labels(server=url), getattr(s, row.field)) for url, s in fresh.items()),
        )
    for key, text in _LATENCIES:
        _family(
            lines,
            f"{key}_seconds",
            f"{text} 1 min window, interpolated.",
            (pair for url, s in fresh.items() for pair in _quantiles(url, _minute(s, key))),
        )
    _family(
        lines,
        "bound",
        "What limits the server now (value is always 1).",
        (
            (_labels(server=url, kind=s.bound.kind), 1.0)
            for url, s in fresh.items()
            if s.bound is not None
        ),
    )
    _family(
        lines,
        "alarm",
        "Alarms that stand (value is always 1).",
        (
            (_labels(server=url, kind=a.kind, severity=a.severity.value), 1.0)
            for url, s in fresh.items()
            for a in s.alarms
        ),
    )
    for row in _GPU:
        _family(
            lines,
            row.name,
            row.help,
            ((_labels(gpu=str(g.index), name=g.name), getattr(g, row.field)) for g in gpus),
        )
    return "".join(line + "\n" for line in lines)


def write_textfile(path: Path, text: str) -> None:
    """Replace ``path`` atomically, readable for the collector.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        # node_exporter runs as another user and may look at any moment; there is no secret in it.
        write_private(path, text.encode(), mode=0o644)
    except OSError as error:
        raise ConfigError(
            t(
                "Cannot write {path}: {reason}.",
                path=str(path),
                reason=error.strerror or type(error).__name__,
            ),
            t("Name a file in a folder that exists and that you may write to."),
        ) from error


class TextfileKeeper:
    """Keeps one text file true for as long as it is written, and absent afterwards.

    node_exporter serves what stands in the file until somebody removes it: figures that nobody
    renews would say ``qwen_tui_up 1`` of a server that died long ago.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = False
        self.problem: ConfigError | None = None
        """Why the last call could not write it; ``None`` = it did."""

    def write(self, text: str) -> bool:
        """Replace the file; False when this is the first of some writes that failed.

        Raises:
            ConfigError: the very first write failed: nothing will come of it.
        """
        before = self.problem
        try:
            write_textfile(self._path, text)
        except ConfigError as error:
            if not self._written:
                raise
            self.problem = error
            self.remove()
            return before is not None
        self._written = True
        self.problem = None
        return True

    def remove(self) -> None:
        """Take the file away: nobody renews it from here on."""
        if self._written:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


def _minute(snapshot: LiveSnapshot, key: str) -> LatencySummary | None:
    if len(snapshot.windows) < 2:
        return None
    found: LatencySummary | None = getattr(snapshot.windows[1], key)
    return found


def _quantiles(url: str, summary: LatencySummary | None) -> Iterator[tuple[str, float | None]]:
    for quantile, field in _QUANTILES:
        value = None if summary is None else getattr(summary, field)
        yield _labels(server=url, quantile=quantile), None if value is None else value / 1000


def _family(
    lines: list[str], name: str, text: str, samples: Iterator[tuple[str, float | None]]
) -> None:
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    lines.append(f"# HELP qwen_tui_{name} {text}")
    lines.append(f"# TYPE qwen_tui_{name} gauge")
    lines.extend(f"qwen_tui_{name}{labels} {float(value)!r}" for labels, value in known)


def _labels(**labels: str) -> str:
    body = ",".join(
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"'))
        for name, value in labels.items()
    )
    return f"{{{body}}}"
