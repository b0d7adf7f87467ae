"""What the console shows at one moment, and the questions that its parts ask about it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from qwen_tui.services.console import GpuView, ProfileList
from qwen_tui.services.snapshots import ServerSnapshot, ServerState
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qwen_tui.services.console import LogChunk
    from qwen_tui.services.download.job import DownloadSnapshot
    from qwen_tui.services.snapshots import Alarm, LiveSnapshot, ProbeResult
    from qwen_tui_profiles.findings import Clamp
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["LogBuffer", "Series", "View", "clamp_key"]

ALIVE = frozenset(
    {
        ServerState.STARTING,
        ServerState.RUNNING,
        ServerState.STOPPING,
        ServerState.UNREACHABLE,
    }
)

# Of a download (words of DownloadPhase, which costs too much to import before the first paint).
TRANSFERRING = frozenset({"running", "paused", "stopping"})

# Points kept for the curves: the widest curve that a 200-column terminal shows.
POINTS = 240


def _p50(name: str) -> Callable[[LiveSnapshot], float | None]:
    """Return what reads the median of a histogram over the last minute."""

    def read(live: LiveSnapshot) -> float | None:
        summary = getattr(live.minute, name, None)
        return None if summary is None else summary.p50_ms

    return read


class Series:
    """The recent values behind the curves; ``None`` where a value was unknown."""

    VALUES: ClassVar[Mapping[str, Callable[[LiveSnapshot], float | None]]] = {
        "ttft_ms": lambda live: None if live.ttft is None else live.ttft.p50_ms,
        "decode_tok_s": lambda live: live.decode_tok_s,
        "accept_length": lambda live: live.accept_length,
        "cache_hit_rate": lambda live: live.cache_hit_rate,
        "itl_ms": _p50("itl"),
        "prefill_tok_s": lambda live: live.prefill_tok_s,
        "queue_time_ms": _p50("queue_time"),
        "e2e_ms": _p50("e2e"),
        "energy_j_per_1k": lambda live: live.energy_j_per_1k,
        "running": lambda live: live.running,
    }

    def __init__(self) -> None:
        self._values: dict[str, deque[float | None]] = {
            name: deque(maxlen=POINTS) for name in self.VALUES
        }

    def add(self, live: LiveSnapshot) -> None:
        """Append one snapshot's values; a stale one adds unknowns, not old values again."""
        fresh = live.stale_s is None
        for name, read in self.VALUES.items():
            self._values[name].append(read(live) if fresh else None)

    def of(self, name: str) -> tuple[float | None, ...]:
        """Return the values of one curve, oldest first."""
        return tuple(self._values[name])

    def known(self, name: str) -> bool:
        """Tell whether any value of a curve is known."""
        return any(v is not None for v in self._values[name])

    def peak(self, name: str) -> float | None:
        """Return the largest value seen, or ``None`` when there was none."""
        return max((v for v in self._values[name] if v is not None), default=None)


class LogBuffer:
    """The last lines of the engine's log, numbered, so that each panel takes what it lacks."""

    def __init__(self, limit: int = 5000) -> None:
        self._lines: deque[str] = deque(maxlen=limit)
        self.total = 0
        """Lines ever added since the last restart."""
        self.epoch = 0
        """Grows when the log begins again; a panel then clears itself."""

    def add(self, chunk: LogChunk) -> None:
        """Append a chunk; what was left out is said in a line of its own."""
        if chunk.restart:
            self.clear()
        lines = list(chunk.lines)
        if chunk.dropped:
            lines.insert(0, tr(t("({count} lines left out here)", count=f"{chunk.dropped:,}")))
        self._lines.extend(lines)
        self.total += len(lines)

    def clear(self) -> None:
        """Forget everything: another log follows."""
        self._lines.clear()
        self.total = 0
        self.epoch += 1

    def since(self, seen: int) -> list[str]:
        """Return the lines after the first ``seen`` ones, as far as they are still kept."""
        missing = min(self.total - seen, len(self._lines))
        return list(self._lines)[-missing:] if missing > 0 else []


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Everything that the screens show. Replaced as a whole; compared by identity."""

    server: ServerSnapshot = field(default_factory=lambda: ServerSnapshot(ServerState.STOPPED))
    server_known: bool = False
    """False until the first look at the state folder."""
    live: LiveSnapshot | None = None
    series: Series = field(default_factory=Series)
    gpu: GpuView = field(default_factory=lambda: GpuView(known=False))
    profiles: ProfileList = field(default_factory=lambda: ProfileList(()))
    selected: EngineProfile | None = None
    selected_why: Text | None = None
    """Why this one is selected, where the user did not choose it."""
    acknowledged: frozenset[str] = frozenset()
    predicted_kv: int | None = None
    """KV tokens that the plan foresaw for the running server."""
    seen_alarms: frozenset[str] = frozenset()
    """Kinds of alarms that were acknowledged for this server."""
    probe: ProbeResult | None = None
    probe_at: float | None = None
    """Unix time of the last probe's answer."""
    busy: Text | None = None
    """What is being done right now (probing, stopping, swapping)."""
    download: DownloadSnapshot | None = None
    """The download that goes on, or whose end was not looked at; renewed once a per cent."""
    swapping: bool = False
    """A swap of this console is under way."""
    said: Text | None = None
    """How the last thing that was asked for ended; stays until the next one or ``Seen``."""
    said_failed: bool = False
    controls: bool = True
    """Whether this console may act; another one that was first may, while this one watches."""
    controller: int | None = None
    """Pid of the console that acts, where it is not this one."""
    paused: bool = False
    interval_s: float = 1.0
    """How often figures are asked for, in seconds."""
    steps: frozenset[str] = frozenset()
    """First steps that were done in this console, by the places that know."""
    skipped: frozenset[str] = frozenset()
    log_total: int = 0
    """Lines of log so far; a change says that there is news in the buffer."""

    def but(self, **changes: object) -> View:
        """Return a copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def alive(self) -> bool:
        """Whether there is a server process (or address) that we care for."""
        return self.server.state in ALIVE

    @property
    def ours(self) -> bool:
        """Whether we may stop it."""
        return self.alive and not self.server.attached

    @property
    def ended(self) -> bool:
        """Whether an ending waits to be seen."""
        return self.server.state in {ServerState.FATAL, ServerState.EXITED}

    @property
    def profile(self) -> EngineProfile | None:
        """The profile in question: the running one, else the selected one."""
        if self.alive:
            return self.profiles.find(self.server.profile)
        return self.selected

    @property
    def partner(self) -> EngineProfile | None:
        """The other side of the running profile's pair."""
        return self.profiles.partner(self.profile)

    @property
    def simulated(self) -> bool:
        """Whether what is shown is (or would be) the built-in simulation."""
        if self.alive:
            return self.server.simulated
        return self.selected is not None and self.selected.simulated

    @property
    def clamps(self) -> tuple[Clamp, ...]:
        """Values that the engine did not take as asked, unseen ones first."""
        report = self.server.report
        if report is None:
            return ()
        return tuple(sorted(report.clamps, key=self.seen))

    def seen(self, clamp: Clamp) -> bool:
        """Whether the user has acknowledged this clamp."""
        return clamp_key(self.server.profile, clamp) in self.acknowledged

    @property
    def unseen(self) -> tuple[Clamp, ...]:
        """Clamps that wait for an acknowledgement."""
        return tuple(c for c in self.clamps if not self.seen(c))

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What is wrong with how it serves, and was not acknowledged."""
        live = self.live
        if live is None:
            return ()
        return tuple(a for a in live.alarms if a.kind not in self.seen_alarms)

    @property
    def downloading(self) -> bool:
        """Whether a download would be broken off."""
        return self.download is not None and self.download.phase in TRANSFERRING

    @property
    def in_flight(self) -> Text | None:
        """Requests that a stop would cut off; ``None`` when there are none or nobody knows."""
        if self.live is None or self.live.stale_s is not None:
            return None
        running, queue = self.live.running or 0, self.live.queue or 0
        if not running and not queue:
            return None
        return t("{running} running, {queue} waiting", running=running, queue=queue)


def clamp_key(profile: str | None, clamp: Clamp) -> str:
    """Return what makes a clamp the same one at the next boot: profile, flag, asked, got."""
    return f"{profile}|{clamp.arg}|{clamp.asked}|{clamp.got}"
