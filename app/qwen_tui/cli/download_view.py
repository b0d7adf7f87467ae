"""How a download looks: bars on a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ["View", "make_view", "plan_lines", "result_lines"]

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
                self._say(_progress_line(event))
            return
        for line in event_lines(event):
            self._say(line)

    def stopping(self) -> None:
        self._say(_STOPPING)

    def end(self, result: dict[str, Any], plan: dict[str, Any]) -> None:
        for line in result_lines(result, plan):
            print(tr(line))

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
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
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
            self._total = self._progress.add_task(tr(t("all")), total=event["total_bytes"])
        self._progress.update(self._total, completed=event["done_bytes"])
        active = {f["path"]: f for f in event["files"]}
        for path in [p for p in self._bars if p not in active]:
            self._progress.remove_task(self._bars.pop(path))
        for path, file in active.items():
            if path not in self._bars:
                self._bars[path] = self._progress.add_task(path, total=file["size"])
            label = (
                _short(path) if file["state"] == "running" else f"{_short(path)} {file['state']}"
            )
            self._progress.update(self._bars[path], completed=file["done_bytes"], description=label)


_STOPPING = t("Stopping; what was received is kept. Once more to end at once.")


def event_lines(event: dict[str, Any]) -> Iterator[Text]:
    """Return what a person should know of an event."""
    from qwen_tui.services.download.sentences import describe, retry_line

    match event["event"]:
        case "ready":
            yield _ready_line(event)
        case "plan":
            yield from plan_lines(event)
        case "checking":
            yield t(
                "Checking {path}, {gb} hashed.",
                path=_short(event["path"]),
                gb=_gb(event["done_bytes"]),
            )
        case "resumed":
            yield t("{path} goes on from {gb}.", path=event["path"], gb=_gb(event["bytes"]))
        case "restarted":
            yield _restart_line(event)
        case "retry":
            yield retry_line(event)
        case "mismatch":
            yield t(
                "{path} has a wrong hash: expected {expected}, got {found}. Kept as {kept}.",
                path=event["path"],
                expected=event["expected"],
                found=event["found"],
                kept=event["kept"],
            )
        case "displaced":
            yield t(
                "Another {path} was here; it is kept in {kept}.",
                path=event["path"],
                kept=event["kept"],
            )
        case "failed":
            yield describe(event["code"], event["fields"]).message
        case "file":
            yield t("{path}: {gb}, hash proven.", path=event["path"], gb=_gb(event["bytes"]))
        case _:
            return


def plan_lines(plan: dict[str, Any]) -> Iterator[Text]:
    """Return the plan for a person."""
    yield t(
        "{repo} at {revision} ({commit}) to {folder}",
        repo=plan["repo"],
        revision=clean(plan["revision"]),
        commit=plan["commit"][:12],
        folder=plan["folder"],
    )
    yield t(
        "  {n} files, {total}: {here} here and verified, {kept} kept of earlier, {fetch} to fetch",
        n=len(plan["files"]),
        total=_gb(plan["total_bytes"]),
        here=_gb(plan["here_bytes"]),
        kept=_gb(plan["kept_bytes"]),
        fetch=_gb(plan["fetch_bytes"]),
    )
    changed = [f["path"] for f in plan["files"] if f["state"] == "differs"]
    if changed:
        yield t("  different content here, kept aside when replaced: {paths}", paths=_list(changed))
    if plan["left_out"]:
        yield t(
            "  left out, not loaded: {n} files, {gb} ({paths})",
            n=len(plan["left_out"]),
            gb=_gb(sum(f["size"] or 0 for f in plan["left_out"])),
            paths=_list([f["path"] for f in plan["left_out"]]),
        )
    yield t("  free afterwards: {gb}", gb=_gb(plan["free_after_bytes"]))
    if plan["eta_s"] is not None:
        yield t("  about {time} at the speed of last time", time=_duration(plan["eta_s"]))
    if plan["leftovers"]["count"]:
        yield t(
            "  {n} unfinished files of other downloads lie here ({gb}); they cannot be continued",
            n=plan["leftovers"]["count"],
            gb=_gb(plan["leftovers"]["bytes"]),
        )
    for probe in plan["probes"]:
        yield _probe_line(probe)


def result_lines(result: dict[str, Any], plan: dict[str, Any]) -> Iterator[Text]:
    """Return the result for a person."""
    from qwen_tui.services.download.sentences import describe

    seconds = max(float(result["seconds"]), 1e-3)
    fetched = result["fetched_bytes"]
    match result["status"]:
        case "complete":
            yield t(
                "Complete: {n} files in {folder}, every hash proven ({gb} in {time}, {speed}/s).",
                n=len(plan["files"]),
                folder=result["folder"],
                gb=_gb(fetched),
                time=_duration(seconds),
                speed=_gb(fetched / seconds),
            )
        case "cancelled":
            yield t("Stopped; {gb} came. The same command goes on from there.", gb=_gb(fetched))
        case _:
            yield t("{n} files did not come.", n=len(result["failures"]))
            for failure in result["failures"]:
                error = describe(failure["code"], failure["fields"])
                yield t("  {path}: {what}", path=failure["path"], what=error.message)
                if error.remedy is not None:
                    yield t("    → {remedy}", remedy=error.remedy)
    sources = [h for h in result["hosts"] if h["bytes"]]
    if sources:
        yield t(
            "Bytes came from {hosts}; Xet was off.",
            hosts=", ".join(f"{h['host']} ({tr(_gb(h['bytes']))})" for h in sources),
        )
    yield from _verify_lines(result)


def _verify_lines(result: dict[str, Any]) -> Iterator[Text]:
    if result["status"] != "complete":
        return
    verify = result.get("verify")
    if verify is None:
        yield t("The checkpoint was not judged: this installation has no verifier.")
        return
    yield t("verify: {verdict}", verdict=str(verify["verdict"]))
    if verify.get("problem"):
        yield t("  {problem}", problem=verify["problem"])
    for finding in verify.get("findings", ()):
        yield t(
            "  {severity} {rule}: {title}",
            severity=finding["severity"],
            rule=finding["rule"],
            title=clean(str(finding["title"])),
        )


def _ready_line(event: dict[str, Any]) -> Text:
    token = event["token"]
    if token["present"]:
        return t(
            "Xet is off. Endpoint {endpoint}; token present, from {source}.",
            endpoint=redact(event["endpoint"]),
            source=token["from"],
        )
    return t("Xet is off. Endpoint {endpoint}; no token.", endpoint=redact(event["endpoint"]))


def _restart_line(event: dict[str, Any]) -> Text:
    why = {
        "changed": t("its content changed at the server"),
        "no_ranges": t("the server sends whole files only"),
        "range_refused": t("the server has fewer bytes"),
    }.get(event["why"], t("the server"))
    return t(
        "{path} begins anew, {gb} are lost: {why}.",
        path=event["path"],
        gb=_gb(event["lost_bytes"]),
        why=why,
    )


def _probe_line(probe: dict[str, Any]) -> Text:
    from qwen_tui.services.download.sentences import describe

    what = t("listing") if probe["what"] == "listing" else t("files")
    if "code" in probe:
        return t(
            "  {what}: {problem}",
            what=what,
            problem=describe(probe["code"], probe["fields"]).message,
        )
    if probe["what"] == "listing":
        return t("  {what}: {host}, {ms:.0f} ms", what=what, host=probe["host"], ms=probe["ms"])
    resume = t("can be continued") if probe["ranges"] else t("cannot be continued: no ranges")
    return t(
        "  {what}: {host} → {content}, {ms:.0f} ms, {resume}",
        what=what,
        host=probe["host"],
        content=probe["content_host"],
        ms=probe["ms"],
        resume=resume,
    )


def _progress_line(event: dict[str, Any]) -> Text:
    speed, eta = event["bytes_s"], event["eta_s"]
    return t(
        "{done} of {total}, {speed}/s, {eta} left",
        done=_gb(event["done_bytes"]),
        total=_gb(event["total_bytes"]),
        speed=t("—") if speed is None else _gb(speed),
        eta=t("—") if eta is None else _duration(eta),
    )


def _gb(size: float) -> Text:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return t("{number:,.1f} {unit}", number=size / scale, unit=unit)
    return t("{number} B", number=int(size))


def _duration(seconds: float) -> Text:
    whole = round(seconds)
    if whole >= 3600:
        return t("{h} h {m:02d} min", h=whole // 3600, m=whole % 3600 // 60)
    if whole >= 60:
        return t("{m} min {s:02d} s", m=whole // 60, s=whole % 60)
    return t("{s:.1f} s", s=seconds)


def _list(paths: list[str], most: int = 3) -> str:
    shown = ", ".join(clean(p) for p in paths[:most])
    return f"{shown}, …" if len(paths) > most else shown


def _short(path: str, width: int = 40) -> str:
    path = clean(path)
    return path if len(path) <= width else "…" + path[-(width - 1) :]
