"""The words of every failure: what was observed and expected, and what to do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.errors import DownloadError
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import Text, from_record, t

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CODES", "describe", "retry_line"]


@dataclass(frozen=True, slots=True)
class _Row:
    message: Callable[[Mapping[str, Any]], Text]
    remedy: Text | None


def describe(code: str, fields: Mapping[str, Any]) -> DownloadError:
    """Return the error of a code of the worker."""
    safe = {k: _safe(v) for k, v in fields.items()}
    row = _ROWS.get(code)
    if row is None:
        return DownloadError(
            t("The download failed: {code}.", code=code),
            t("Run it again: what was received is kept."),
        )
    return DownloadError(row.message(safe), row.remedy)


def retry_line(event: Mapping[str, Any]) -> Text:
    """Return one line about a connection that is tried again."""
    error = describe(str(event["code"]), event["fields"])
    return t(
        "{path}: {what} Next connection in {wait:.0f} s (try {attempt}).",
        path=_safe(event["path"]),
        what=error.message,
        wait=float(event["wait_s"]),
        attempt=event["attempt"],
    )


def _safe(value: Any) -> Any:
    return redact(clean(value)) if isinstance(value, str) else value


def _gb(value: Any) -> str:
    return f"{int(value) / 1e9:,.1f} GB" if isinstance(value, int | float) else "—"


def _rate_limited(fields: Mapping[str, Any]) -> Text:
    wait = fields.get("wait_s")
    if not isinstance(wait, int | float) or wait <= 0:
        return t("{host} asks to slow down (429).", host=fields["host"])
    return t(
        "{host} asks to slow down (429) and to come back in {wait:,.0f} s.",
        host=fields["host"],
        wait=wait,
    )


def _clock(stamp: Any) -> str:
    if not isinstance(stamp, int | float):
        return "—"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stamp))


_KEEP = t("What was received is kept: run the same command again to go on.")
_XET_REMEDY = t(
    "This mirror passes file bytes on to Xet's storage, which it does not stand in for. Use a "
    "mirror that serves the bytes itself, or leave HF_ENDPOINT unset; keep HF_HUB_DISABLE_XET=1."
)

_ROWS: dict[str, _Row] = {
    "bad_repo_id": _Row(
        lambda f: t("{repo} is no repository name; expected organisation/name.", repo=f["repo"]),
        t("Copy the name from the model page, for example RedHatAI/Qwen3.8-27B-INT4."),
    ),
    "bad_redirect": _Row(
        lambda f: t("{host} redirects without an end or a target.", host=f["host"]),
        t("Try the Hub itself: leave HF_ENDPOINT and --endpoint unset."),
    ),
    "bad_listing": _Row(
        lambda f: t(
            "The listing of {repo} holds an impossible {what}: {value}.",
            repo=f["repo"],
            what=t("hash of {path}", path=f["path"]) if f.get("path") else t("commit"),
            value=f["value"],
        ),
        t("Do not trust this mirror; try the Hub itself: leave HF_ENDPOINT and --endpoint unset."),
    ),
    "bad_range": _Row(
        lambda f: t("{host} answered another range than was asked for.", host=f["host"]), _KEEP
    ),
    "changed": _Row(
        lambda f: t("{host} now has another content for this file.", host=f["host"]), _KEEP
    ),
    "connect": _Row(
        lambda f: t("{host} refuses connections ({reason}).", host=f["host"], reason=f["reason"]),
        t("Check the address, the proxy variables and the network."),
    ),
    "disk_error": _Row(
        lambda f: t("{path} cannot be used: {reason}.", path=f["path"], reason=f["reason"]), _KEEP
    ),
    "dns": _Row(
        lambda f: t("The name {host} cannot be resolved.", host=f["host"]),
        t("Check the network; behind a firewall set HTTPS_PROXY or --endpoint of a mirror."),
    ),
    "downgrade": _Row(
        lambda f: t(
            "{host} redirects from https to plain http at {target}.",
            host=f["host"],
            target=f["target"],
        ),
        t("Do not use this mirror."),
    ),
    "dropped": _Row(lambda f: t("{host} closed the connection.", host=f["host"]), _KEEP),
    "empty_listing": _Row(
        lambda f: t("The listing of {repo} names no files.", repo=f["repo"]),
        t("The mirror may not know this repository; try the Hub itself."),
    ),
    "entry_not_found": _Row(
        lambda f: t("{host} lists a file that it does not have.", host=f["host"]),
        t("A mirror may lag behind: try again later or leave HF_ENDPOINT unset."),
    ),
    "forbidden": _Row(
        lambda f: t("{host} refuses access (403).", host=f["host"]),
        t("Check that the token may read this repository (fine-grained tokens name them)."),
    ),
    "gated": _Row(
        lambda f: t(
            "The repository is gated and {host} refuses ({status}).",
            host=f["host"],
            status=f.get("status", 403),
        ),
        t(
            "Accept its terms on the model page with your account, then log in with `hf auth "
            "login` or set HF_TOKEN."
        ),
    ),
    "hash_mismatch": _Row(
        lambda f: t(
            "{path} came twice with a wrong SHA-256: expected {expected}, got {found}.",
            path=f["path"],
            expected=f["expected"],
            found=f["found"],
        ),
        t("The server's copy is damaged, or something on the way changes it: use another mirror."),
    ),
    "in_the_way": _Row(
        lambda f: t(
            "{path} is in the way: the repository has something else there.", path=f["path"]
        ),
        t("Move it, or choose another --dest."),
    ),
    "index_too_large": _Row(
        lambda f: t("{path} is too large to be an index.", path=f["path"]),
        t("Leave --for out and choose files with --include."),
    ),
    "leads_out": _Row(
        lambda f: t(
            "{path} is a link that leads out of the folder, to {target}.",
            path=f["path"],
            target=f["target"],
        ),
        t("Remove the link, or give the folder that it leads to as --dest."),
    ),
    "locked": _Row(
        lambda f: t(
            "Another download writes to {folder} (process {pid}, since {since}).",
            folder=f["folder"],
            pid=f.get("pid") or "—",
            since=_clock(f.get("started")),
        ),
        t("Wait for it or stop it, then run this again."),
    ),
    "no_listing": _Row(
        lambda f: t("{host} answers, but not as the Hub does.", host=f["host"]),
        t("Is it a login page of the network, or no mirror? Check HF_ENDPOINT and --endpoint."),
    ),
    "no_permission": _Row(
        lambda f: t("{path} cannot be written: {reason}.", path=f["path"], reason=f["reason"]),
        t("Choose a folder of your own with --dest."),
    ),
    "no_space": _Row(
        lambda f: t("The disk of {path} is full.", path=f["path"]),
        t("Make room and run the same command again: what was received is kept."),
    ),
    "no_token": _Row(
        lambda f: t("The Hub's client cannot get a token: {reason}.", reason=f["reason"]),
        t("Set HF_TOKEN, or log in again with `hf auth login`."),
    ),
    "not_enough_space": _Row(
        lambda f: t(
            "{needed} have to come, {free} are free.", needed=_gb(f["needed"]), free=_gb(f["free"])
        ),
        t("Make room, choose another --dest, or take fewer files with --include or --for."),
    ),
    "not_found": _Row(
        lambda f: t("{host} knows no such repository (404).", host=f["host"]),
        t("Check the name; a private repository looks like this without a token."),
    ),
    "nothing_matches": _Row(
        lambda f: t(
            "None of the {files} files of {repo} matches the patterns.",
            files=f["files"],
            repo=f["repo"],
        ),
        t("Check --include and --exclude; patterns see the whole path."),
    ),
    "odd_redirect": _Row(
        lambda f: t(
            "{host} redirects to an address of the kind {scheme}:, which is not followed.",
            host=f["host"],
            scheme=f["scheme"] or "—",
        ),
        t("Do not use this mirror."),
    ),
    "offline": _Row(
        lambda _f: t("HF_HUB_OFFLINE is set, so nothing may be fetched."),
        t("Unset HF_HUB_OFFLINE for this command."),
    ),
    "other_commit": _Row(
        lambda f: t(
            "Commit {asked} was asked for, and the listing is of {got}.",
            asked=f["asked"],
            got=f["got"],
        ),
        t("The mirror holds another state of the repository: try the Hub itself."),
    ),
    "proxy": _Row(
        lambda f: t(
            "The proxy did not lead to {host} ({reason}).",
            host=f["host"],
            reason=from_record(None, f["reason"]),
        ),
        t("Check HTTPS_PROXY and NO_PROXY."),
    ),
    "proxy_down": _Row(
        lambda f: t(
            "The proxy {proxy} on the way to {host} cannot be reached ({reason}).",
            proxy=f["proxy"],
            host=f["host"],
            reason=f["reason"],
        ),
        t("Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY."),
    ),
    "quota": _Row(
        lambda f: t("Your disk quota is used up at {path}.", path=f["path"]),
        t("Make room and run the same command again: what was received is kept."),
    ),
    "range_refused": _Row(
        lambda f: t("{host} has fewer bytes of this file than are here.", host=f["host"]), _KEEP
    ),
    "rate_limited": _Row(
        _rate_limited,
        t("Wait a few minutes; a token (`hf auth login`) raises the limit."),
    ),
    "read_only": _Row(
        lambda f: t("{path} is on a read-only file system.", path=f["path"]),
        t("Choose another folder with --dest."),
    ),
    "revision_not_found": _Row(
        lambda f: t("{host} knows the repository, not the revision.", host=f["host"]),
        t("Check --revision: a branch, a tag or a commit."),
    ),
    "server_error": _Row(
        lambda f: t("{host} fails ({status}).", host=f["host"], status=f["status"]),
        t("The fault is the server's: try again later, or another mirror."),
    ),
    "size_mismatch": _Row(
        lambda f: t(
            "{host} sends {found} bytes of {path}; the listing says {expected}.",
            host=f["host"],
            found=f["found"],
            path=f["path"],
            expected=f["expected"],
        ),
        t("The mirror holds another file or an error page: use another mirror."),
    ),
    "stalled": _Row(lambda f: t("{host} has sent nothing for a while.", host=f["host"]), _KEEP),
    "storage_refused": _Row(
        lambda f: t(
            "The storage host {host} refuses ({status}).", host=f["host"], status=f["status"]
        ),
        t("The mirror redirects to a host that does not let you in: use another mirror."),
    ),
    "timeout": _Row(
        lambda f: t("{host} does not answer.", host=f["host"]),
        t("Check the network; behind a firewall set HTTPS_PROXY or --endpoint of a mirror."),
    ),
    "tls": _Row(
        lambda f: t(
            "The certificate of {host} is not trusted ({reason}).",
            host=f["host"],
            reason=f["reason"],
        ),
        t("Behind a company proxy set SSL_CERT_FILE to its CA bundle; check the clock."),
    ),
    "token_invalid": _Row(
        lambda f: t("{host} does not accept the token.", host=f["host"]),
        t("It may have expired: log in again with `hf auth login`, or unset HF_TOKEN."),
    ),
    "too_large": _Row(
        lambda f: t(
            "Over 50 GB, which the Hub sends through Xet only: {paths}.",
            paths=", ".join(str(p) for p in f["paths"]),
        ),
        t("Leave them out with --exclude, or fetch them with `hf download` and Xet on."),
    ),
    "too_long": _Row(
        lambda f: t(
            "{host} sends more bytes of {path} than listed.", host=f["host"], path=f["path"]
        ),
        t("The mirror holds another file: use another mirror."),
    ),
    "too_short": _Row(
        lambda f: t("{host} ended {path} too early.", host=f["host"], path=f["path"]), _KEEP
    ),
    "unauthorized": _Row(
        lambda f: t("{host} wants a token (401).", host=f["host"]),
        t("Check the name; for a private or gated repository log in with `hf auth login`."),
    ),
    "unexpected_status": _Row(
        lambda f: t("{host} answered with status {status}.", host=f["host"], status=f["status"]),
        t("Try again later, or another mirror."),
    ),
    "unsafe_path": _Row(
        lambda f: t("The listing names an unsafe path: {path}.", path=f["path"]),
        t("Do not trust this repository or mirror."),
    ),
    "worker_died": _Row(
        lambda f: t(
            "The download process ended with {code}. {last}", code=f["code"], last=f["last"]
        ),
        _KEEP,
    ),
    "xet_on": _Row(
        lambda _f: t("Xet is on in the download process; it should be off."),
        t("This is a fault of qwen-tui: please report it."),
    ),
    "xet_refused": _Row(
        lambda f: t(
            "The file host redirects to Xet's storage {host}, which refuses ({status}).",
            host=f["host"],
            status=f["status"],
        ),
        _XET_REMEDY,
    ),
    "xet_unreachable": _Row(
        lambda f: t(
            "The file host redirects to Xet's storage {host}, which cannot be reached.",
            host=f["host"],
        ),
        _XET_REMEDY,
    ),
}

CODES = frozenset(_ROWS)
"""Every code that has words."""
