"""What a stop, a swap or leaving means for the server and its clients, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.services.snapshots import ServerState
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from qwen_tui.ui.state import View

__all__ = ["download_words", "fate_of_requests", "leave_words", "stop_consequences"]

ABORTING = frozenset({"vllm"})
"""Engines that abort running requests on TERM; SGLang finishes them first."""
LIMIT_S = 60
"""How long a stop waits for them (the supervisor's default)."""


def fate_of_requests(view: View) -> Text:
    """Say what a stop does to the requests in flight, as far as they are known."""
    requests = view.in_flight
    if requests is None:
        if view.live is None or view.live.stale_s is not None:
            return t("Whether requests are in flight is not known.")
        return t("No request is in flight.")
    if view.server.engine in ABORTING:
        return t("Requests in flight are cut off: {requests}.", requests=requests)
    return t(
        "Requests in flight: {requests}. The engine finishes them first, for at most {limit} s.",
        requests=requests,
        limit=LIMIT_S,
    )


def stop_consequences(view: View) -> list[Content]:
    """Return what a stop would cost, as far as it is known."""
    lines = [Content.styled(view.server.profile or tr(t("the server")), "bold")]
    if view.server.state is ServerState.STARTING:
        lines.append(Content(tr(t("The boot is broken off; nothing was served yet."))))
        return lines
    style = "bold $warning" if view.in_flight is not None else ""
    lines.append(Content.styled(tr(fate_of_requests(view)), style))
    lines.append(Content(tr(t("The prefix cache is lost; the next start loads the model again."))))
    return lines


def download_words(view: View) -> list[Content]:
    """Return what leaving does to a download that runs: stopped, resumable, nothing lost."""
    now = view.download
    if now is None or not view.downloading:
        return []
    from qwen_tui.services.download.narration import size

    plan = now.plan or {}
    repo, folder = clean(str(plan.get("repo", ""))), clean(str(plan.get("folder", "")))
    what = t(
        "The download of {repo} is stopped: {done} of {total} are here.",
        repo=repo,
        done=size(now.done_bytes or 0),
        total=size(now.total_bytes or 0),
    )
    rest = t("They stay in {folder}; fetching it again goes on from there.", folder=folder)
    return [Content.styled(tr(what), "bold $warning"), Content(tr(rest))]


def leave_words(view: View) -> list[Content]:
    """Return what leaving means for the server."""
    name = view.server.profile or tr(t("the server"))
    lines = [
        Content(
            tr(
                t(
                    "{name} goes on running at {url}. Open qwen-tui again to find it.",
                    name=name,
                    url=view.server.url or "",
                )
            )
        )
    ]
    if view.busy is not None:
        warning = t("Under way: {what}. Leaving now breaks it off.", what=view.busy)
        if view.swapping:
            warning = t(
                "Under way: {what}. It is still started if you leave now, but nothing goes back "
                "if it fails.",
                what=view.busy,
            )
        lines.append(Content.styled(tr(warning), "bold $warning"))
    if view.in_flight is not None:
        requests = t("Requests in flight: {requests}.", requests=view.in_flight)
        lines.append(Content.styled(tr(requests), "$warning"))
    return lines + download_words(view)
