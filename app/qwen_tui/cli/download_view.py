"""How a download looks: bars on a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from qwen_tui.services.download.narration import (
    duration,
    event_lines,
    progress_line,
    result_lines,
    size,
)
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from types import TracebackType

    from qwen_tui_profiles.errors import DownloadError

__all__ = ["View", "make_view", "rate"]

_PLAIN_EVERY_S = 10.0


class View(Protocol):
    """Shows the events of one download."""

    def __enter__(self) -> View:
        """Begin."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End, whatever happened."""
        ...

    def show(self, event: dict[str, Any]) -> None:
        """Show one event of the worker."""
        ...

    def stopping(self) -> None:
        """Say that the download is being stopped."""
        ...

    def end(self, result: dict[str, Any], plan: dict[str, Any]) -> None:
        """Show the result."""
        ...

    def failed(self, event: dict[str, Any], error: DownloadError) -> None:
        """Show a failure of the whole download where the caller's own message does not."""
        ...


def make_view(*, as_json: bool, schema: str) -> View:
    """Return the view that fits the output."""
    if as_json:
        return _JsonView(schema)
    return _BarView() if sys.stderr.isatty() else _PlainView()


class _JsonView:
    """One JSON document a line on standard output."""

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def show(self, event: dict[str, Any]) -> None:
        print(json.dumps({"schema": self._schema, **event}, ensure_ascii=False), flush=True)

    def stopping(self) -> None:
        print(tr(_STOPPING), file=sys.stderr)

    def end(self, result: dict[str, Any], plan: dict[str, Any]) -> None:
        del plan
        self.show(result)

    def failed(self, event: dict[str, Any], error: DownloadError) -> None:
        remedy = None if error.remedy is None else str(error.remedy)
        self.show({**event, "event": "error", "message": str(error.message), "remedy": remedy})


class _PlainView:
    """Lines on standard error, the result on standard output."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()

    def show(self, event: dict[str, Any]) -> None:
        if event["event"] == "progress":
            now = time.monotonic()
            if now - self._last >= _PLAIN_EVERY_S:
                self._last = now
                self._say(progress_line(event))
            return
        for line in event_lines(event):
            self._say(line)

    def stopping(self) -> None:
        self._say(_STOPPING)

    def end(self, result: dict[str, Any], plan: dict[str, Any]) -> None:
        for line in result_lines(result, plan):
            print(tr(line))

    def failed(self, event: dict[str, Any], error: DownloadError) -> None:
        """Nothing: the command prints every error on standard error."""

    def _say(self, line: Text) -> None:
        print(tr(line), file=sys.stderr, flush=True)


class _BarView(_PlainView):
    """Bars of the files in flight and of the whole, above them what happened."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            # The worker's own figures: rich's keep the last speed while nothing comes.
            TextColumn("{task.fields[speed]:>10}"),
            TextColumn("{task.fields[left]:>12}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._total: Any = None
        self._bars: dict[str, Any] = {}

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, event: dict[str, Any]) -> None:
        if event["event"] == "progress":
            self._bar(event)
            return
        for line in event_lines(event):
            self._progress.console.print(tr(line), markup=False, highlight=False)

    def _say(self, line: Text) -> None:
        self._progress.console.print(tr(line), markup=False, highlight=False)

    def _bar(self, event: dict[str, Any]) -> None:
        if self._total is None:
            self._progress.start()
            self._total = self._progress.add_task(
                tr(t("all")), total=event["total_bytes"], speed="", left=""
            )
        speed, left = rate(event["bytes_s"], event["total_bytes"] - event["done_bytes"])
        self._progress.update(self._total, completed=event["done_bytes"], speed=speed, left=left)
        active = {f["path"]: f for f in event["files"]}
        for path in [p for p in self._bars if p not in active]:
            self._progress.remove_task(self._bars.pop(path))
        for path, file in active.items():
            if path not in self._bars:
                self._bars[path] = self._progress.add_task(
                    path, total=file["size"], speed="", left=""
                )
            label = (
                _short(path) if file["state"] == "running" else f"{_short(path)} {file['state']}"
            )
            missing = None if file["size"] is None else file["size"] - file["done_bytes"]
            speed, left = rate(file["bytes_s"], missing)
            self._progress.update(
                self._bars[path],
                completed=file["done_bytes"],
                description=label,
                speed=speed,
                left=left,
            )


_STOPPING = t("Stopping; what was received is kept. Once more to end at once.")


def rate(bytes_s: float | None, left_bytes: int | None) -> tuple[str, str]:
    """Return speed and remaining time over the last seconds, as text; unknown is a dash."""
    speed = "—" if bytes_s is None else f"{tr(size(bytes_s))}/s"
    left = tr(duration(left_bytes / bytes_s)) if bytes_s and left_bytes is not None else "—"
    return speed, left


def _short(path: str, width: int = 40) -> str:
    path = clean(path)
    return path if len(path) <= width else "…" + path[-(width - 1) :]
