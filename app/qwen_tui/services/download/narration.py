"""What a download says, for people: the words of its events, its plan and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qwen_tui.services.download.sentences import describe, retry_line
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import Text, from_record, t, tr

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["duration", "event_lines", "plan_lines", "progress_line", "result_lines", "size"]

_MOST_FILES = 20
"""Files that a plan names one by one; a checkpoint of 15 shards fits."""


def event_lines(event: dict[str, Any]) -> Iterator[Text]:
    """Return what a person should know of an event."""
    path = clean(str(event.get("path", "")))
    match event["event"]:
        case "ready":
            yield _ready_line(event)
        case "plan":
            yield from plan_lines(event)
        case "checking":
            yield t(
                "Checking {path}, {gb} hashed.",
                path=_short(path),
                gb=size(event["done_bytes"]),
            )
        case "resumed":
            yield t("{path} goes on from {gb}.", path=path, gb=size(event["bytes"]))
        case "restarted":
            yield _restart_line(event, path)
        case "retry":
            yield retry_line(event)
        case "mismatch":
            yield t(
                "{path} has a wrong hash: expected {expected}, got {found}. Kept as {kept}.",
                path=path,
                expected=event["expected"],
                found=event["found"],
                kept=event["kept"],
            )
        case "displaced":
            yield t(
                "Another {path} was here; it is kept in {kept}.",
                path=path,
                kept=event["kept"],
            )
        case "failed":
            yield describe(event["code"], event["fields"]).message
        case "file":
            yield _file_line(event, path)
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
        "  files: {n}, {total}; verified here {here}, kept {kept}, to fetch {fetch}",
        n=len(plan["files"]),
        total=size(plan["total_bytes"]),
        here=size(plan["here_bytes"]),
        kept=size(plan["kept_bytes"]),
        fetch=size(plan["fetch_bytes"]),
    )
    yield from _file_lines(plan["files"])
    if plan["unknown_sizes"]:
        yield t(
            "  without a size in the listing: {n}; they come on top of these figures",
            n=plan["unknown_sizes"],
        )
    changed = [f["path"] for f in plan["files"] if f["state"] == "differs"]
    if changed:
        yield t("  different content here, kept aside when replaced: {paths}", paths=_list(changed))
    if plan["left_out"]:
        yield t(
            "  left out, not loaded: {n}, {gb} ({paths})",
            n=len(plan["left_out"]),
            gb=size(sum(f["size"] or 0 for f in plan["left_out"])),
            paths=_list([f["path"] for f in plan["left_out"]]),
        )
    if plan["too_large"]:
        yield t("  over 50 GB, not to be had with Xet off: {paths}", paths=_list(plan["too_large"]))
    yield from _space_lines(plan)
    yield from _time_lines(plan)
    if plan["leftovers"]["count"]:
        yield t(
            "  unfinished files of other downloads lie here: {n}, {gb}; they cannot be continued",
            n=plan["leftovers"]["count"],
            gb=size(plan["leftovers"]["bytes"]),
        )
    for probe in plan["probes"]:
        yield _probe_line(probe)


def _file_lines(files: list[dict[str, Any]]) -> Iterator[Text]:
    """Return one line for each file, the largest first; many small ones as one line."""
    words = {
        "here": t("here, verified"),
        "part": t("begun"),
        "differs": t("other content here"),
        "missing": t("to fetch"),
    }
    ordered = sorted(files, key=lambda f: (-(f["size"] or 0), f["path"]))
    most = len(ordered) if len(ordered) <= _MOST_FILES + 1 else _MOST_FILES
    for file in ordered[:most]:
        state = words[file["state"]]
        if file["state"] == "part":
            state = t("{gb} of it here", gb=size(file["have_bytes"]))
        yield t(
            "    {gb:>10}  {path}  ({state})",
            gb=tr(size(file["size"])) if file["size"] is not None else "—",
            path=clean(file["path"]),
            state=state,
        )
    rest = ordered[most:]
    if rest:
        yield t(
            "    {gb:>10}  {n} smaller files ({fetch} of them to fetch)",
            gb=tr(size(sum(f["size"] or 0 for f in rest))),
            n=len(rest),
            fetch=sum(1 for f in rest if f["state"] != "here"),
        )


def _space_lines(plan: dict[str, Any]) -> Iterator[Text]:
    after = plan["free_after_bytes"]
    if after < 0:
        yield t(
            "  free now: {free}, {short} too little",
            free=size(plan["free_bytes"]),
            short=size(-after),
        )
    else:
        yield t(
            "  free now: {free}, afterwards: {after}",
            free=size(plan["free_bytes"]),
            after=size(after),
        )


def _time_lines(plan: dict[str, Any]) -> Iterator[Text]:
    if not plan["fetch_bytes"]:
        return
    if plan["eta_s"] is None:
        yield t("  time: —, no download from this endpoint was measured yet")
    else:
        yield t("  about {time} at the speed of last time", time=duration(plan["eta_s"]))


def result_lines(result: dict[str, Any], plan: dict[str, Any]) -> Iterator[Text]:
    """Return the result for a person."""
    seconds = max(float(result["seconds"]), 1e-3)
    fetched = result["fetched_bytes"]
    match result["status"]:
        case "complete":
            yield from _complete_lines(result, plan, seconds)
        case "cancelled":
            yield t("Stopped; {gb} came. The same command goes on from there.", gb=size(fetched))
        case _:
            yield t("Files that did not come: {n}.", n=len(result["failures"]))
            for failure in result["failures"]:
                error = describe(failure["code"], failure["fields"])
                yield t("  {path}: {what}", path=failure["path"], what=error.message)
                if error.remedy is not None:
                    yield t("    → {remedy}", remedy=error.remedy)
    sources = [h for h in result["hosts"] if h["bytes"]]
    if sources:
        yield t(
            "Bytes came from {hosts}; Xet was off.",
            hosts=", ".join(f"{h['host']} ({tr(size(h['bytes']))})" for h in sources),
        )
    if any(h["xet"] for h in sources):
        yield t("Xet's storage sent them over plain HTTP, through its bridge.")
    yield from _verify_lines(result)


def _complete_lines(result: dict[str, Any], plan: dict[str, Any], seconds: float) -> Iterator[Text]:
    fetched = result["fetched_bytes"]
    unproven = result.get("unproven", [])
    count = len(plan["files"])
    if fetched:
        yield t(
            "Complete: {folder}, {proven} of {n} hashes proven ({gb} in {time}, {speed}/s).",
            proven=count - len(unproven),
            n=count,
            folder=result["folder"],
            gb=size(fetched),
            time=duration(seconds),
            speed=size(fetched / seconds),
        )
    else:
        yield t(
            "Complete: {folder}, {proven} of {n} hashes proven; nothing had to be fetched.",
            proven=count - len(unproven),
            n=count,
            folder=result["folder"],
        )
    if unproven:
        yield t("Not proven, the server gave no hash for them: {paths}.", paths=_list(unproven))


_VERDICTS = {"ok": t("ok"), "warn": t("warn"), "error": t("error"), "unknown": t("unknown")}


def _verify_lines(result: dict[str, Any]) -> Iterator[Text]:
    if result["status"] != "complete":
        return
    verify = result.get("verify")
    if verify is None:
        yield t("The checkpoint was not judged: this installation has no verifier.")
        return
    yield t("verify: {verdict}", verdict=_VERDICTS.get(verify["verdict"], str(verify["verdict"])))
    if verify.get("problem"):
        yield t("  {problem}", problem=from_record(None, str(verify["problem"])))
    for finding in verify.get("findings", ()):
        yield t(
            "  {severity} {rule}: {title}",
            severity=finding["severity"],
            rule=finding["rule"],
            title=_said(finding, "title"),
        )
        files = finding.get("files") or ()
        if files:
            yield t("    in {paths}", paths=_list([str(f) for f in files]))
        if finding.get("remedy") and finding["severity"] != "info":
            yield t("    → {remedy}", remedy=_said(finding, "remedy"))


def _said(finding: dict[str, Any], name: str) -> Text:
    return from_record(finding.get(f"{name}_parts"), clean(str(finding[name])))


def _file_line(event: dict[str, Any], path: str) -> Text:
    if event["proven"]:
        return t("{path}: {gb}, hash proven.", path=path, gb=size(event["bytes"]))
    return t(
        "{path}: {gb}, not proven: the server gave no hash.", path=path, gb=size(event["bytes"])
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


def _restart_line(event: dict[str, Any], path: str) -> Text:
    why = {
        "changed": t("its content changed at the server"),
        "no_ranges": t("the server sends whole files only"),
        "range_refused": t("the server has fewer bytes"),
    }.get(event["why"], t("the server"))
    return t(
        "{path} begins anew, {gb} are lost: {why}.",
        path=path,
        gb=size(event["lost_bytes"]),
        why=why,
    )


def _probe_line(probe: dict[str, Any]) -> Text:
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


def progress_line(event: dict[str, Any]) -> Text:
    """Return one line about how far it is."""
    speed, eta = event["bytes_s"], event["eta_s"]
    return t(
        "{done} of {total}, {speed}/s, {eta} left",
        done=size(event["done_bytes"]),
        total=size(event["total_bytes"]),
        speed=t("—") if speed is None else size(speed),
        eta=t("—") if eta is None else duration(eta),
    )


def size(count: float) -> Text:
    """Return a number of bytes in decimal units."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return t("{number:,.1f} {unit}", number=count / scale, unit=unit)
    return t("{number} B", number=int(count))


def duration(seconds: float) -> Text:
    """Return a time in the two units that matter."""
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
