"""Checks of what a download from the Hub depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, failed, fix, ok, skipped, warned
from qwen_tui_diagnostics.checks.folders import role_entry
from qwen_tui_diagnostics.checks.tables import HF_TRANSFER_GONE, HUB_RESUME_LOST
from qwen_tui_diagnostics.checks.units import gb, gib
from qwen_tui_diagnostics.checks.variables import variable
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]

DEFAULT_ENDPOINT = "https://huggingface.co"
TRUE_WORDS = frozenset({"1", "ON", "YES", "TRUE"})
"""What huggingface_hub takes for true, in any case (2.4.0)."""
SLOW_S = 2.0
BIG_FILE_BYTES = 5 * 10**9

_ERRORS = {
    "dns": t("its name cannot be resolved"),
    "tls": t("its certificate is refused (a company proxy?)"),
    "timeout": t("no answer within 5 s"),
    "refused": t("the connection is refused"),
    "network": t("the network does not lead there"),
}


def truthy(facts: Facts, name: str) -> bool:
    """Tell whether a variable is set to one of the Hub's words for true."""
    return (variable(facts, name) or "").upper() in TRUE_WORDS


def _downloads(target: Target) -> Text | None:
    """Apply where something may have to be downloaded."""
    if target.online or target.repo:
        return None
    return t("nothing is downloaded for this profile")


def _uses_hub(target: Target) -> Text | None:
    if target.profile is None or target.repo or target.online:
        return None
    return t("nothing is downloaded for this profile")


def _with_profile(target: Target) -> bool:
    return target.profile is not None


def _reach(facts: Facts, target: Target) -> Verdict:
    endpoint = facts.text("hub.endpoint")
    consequence = t("the model cannot be downloaded")
    error = facts.text("hub.error")
    if error:
        return failed(
            t("{endpoint}: {reason}", endpoint=endpoint, reason=_ERRORS.get(error, error)),
            expected=t("an answer within 5 s"),
            consequence=consequence,
            remedy=fix(
                t("check the network, set a proxy (HTTPS_PROXY) or a mirror (HF_ENDPOINT)"),
                "curl -sSI https://huggingface.co",
            ),
        )
    status = facts.integer("hub.status")
    host = facts.text("hub.redirect_host") if facts.has("hub.redirect_host") else ""
    detail = (t("big files come from {host}", host=host),) if host else ()
    error = facts.text("hub.redirect_error") if host else ""
    if error:
        return failed(
            t("{endpoint} answers, {host}, where big files come from, does not: {reason}",
              endpoint=endpoint, host=host, reason=_ERRORS.get(error, error)),
            expected=t("both hosts answer"),
            consequence=consequence,
            remedy=fix(
                t("allow that host in the firewall, or use a mirror that serves the files itself"),
                docs="https://github.com/padeoe/hf-mirror-site/issues/50",
            ),
        )  # fmt: skip
    if status >= 500:
        return failed(
            t("{endpoint} answers with {status}", endpoint=endpoint, status=status),
            expected=t("200"),
            consequence=consequence,
            remedy=fix(t("wait, or use a mirror (HF_ENDPOINT)")),
        )
    seconds = facts.number("hub.seconds")
    if seconds > SLOW_S:
        return warned(
            t("{endpoint} took {seconds} s", endpoint=endpoint, seconds=round(seconds, 1)),
            *detail,
            expected=t("less than 2 s"),
            consequence=t("many small requests make the download slow"),
            remedy=fix(t("use a nearer mirror (HF_ENDPOINT)")),
        )
    return ok(t("{endpoint} answers", endpoint=endpoint), *detail)


def _xet(facts: Facts, target: Target) -> Verdict:
    endpoint = (variable(facts, "HF_ENDPOINT") or "").rstrip("/")
    mirror = bool(endpoint) and endpoint != DEFAULT_ENDPOINT
    if truthy(facts, "HF_HUB_DISABLE_XET"):
        return ok(t("Xet is off: big files take the classic route"))
    if mirror:
        return warned(
            t("HF_ENDPOINT is {endpoint}, and Xet is on", endpoint=endpoint),
            expected=t("HF_HUB_DISABLE_XET=1 beside a mirror"),
            consequence=t("big files go to the Xet servers past the mirror: 401 or a timeout"),
            remedy=fix(
                t("set it before the download starts (`qwen-tui download` does so by itself)"),
                "export HF_HUB_DISABLE_XET=1",
                env={"HF_HUB_DISABLE_XET": "1"},
                docs="https://github.com/huggingface/huggingface_hub/issues/4475",
            ),
        )
    return ok(t("no mirror is set; `qwen-tui download` turns Xet off in its own process"))


def _token(facts: Facts, target: Target) -> Verdict:
    origin = facts.text("hub.token_from")
    length = facts.integer("hub.token_length") if facts.has("hub.token_length") else 0
    shown = (
        t("present, from {origin}, {length} characters", origin=origin, length=length)
        if length
        else t("none")
    )
    message = facts.text("hub.error_message").lower() if facts.has("hub.error_message") else ""
    status = facts.integer("hub.status")
    if length and status == 401 and "invalid" in message:
        return failed(
            shown,
            expected=t("a token that the Hub accepts"),
            consequence=t("even public models are refused with a bad token"),
            remedy=fix(t("log in again, or remove the token"), "hf auth login"),
        )
    if not length and facts.has("hub.gated") and facts.flag("hub.gated"):
        return warned(
            shown,
            expected=t("a token: the model is gated"),
            consequence=t("the download ends with 401"),
            remedy=fix(t("log in"), "hf auth login"),
        )
    return ok(shown)


def _gated(facts: Facts, target: Target) -> Verdict:
    status = facts.integer("hub.status")
    code = facts.text("hub.error_code") if facts.has("hub.error_code") else ""
    token = facts.has("hub.token_length")
    repo = target.repo or ""
    consequence = t("the model cannot be downloaded")
    if status == 200:
        return ok(t("{repo} may be read", repo=repo))
    if code == "GatedRepo":
        text = (
            t("accept the licence on the model's page with this account")
            if token
            else t("accept the licence on the model's page, then log in")
        )
        return failed(
            t("{repo} is gated ({status})", repo=repo, status=status),
            expected=t("access"),
            consequence=consequence,
            remedy=fix(text, "hf auth login", docs=f"https://huggingface.co/{repo}"),
        )
    if status in {401, 403, 404}:
        return failed(
            t("{repo}: not found, or no access ({status})", repo=repo, status=status),
            expected=t("a repository that this account may read"),
            consequence=consequence,
            remedy=fix(t("check the name; if it is private or gated, log in"), "hf auth login"),
        )
    return warned(
        t("{repo}: the Hub answers with {status}", repo=repo, status=status),
        expected=t("200"),
        consequence=consequence,
        remedy=fix(t("try again later")),
    )


def _space(facts: Facts, target: Target) -> Verdict:
    missing = facts.integer("hub.missing_bytes")
    entry = role_entry(facts, "model", "hub", "cache")
    if entry is None:
        return skipped(SkipReason.NOT_APPLICABLE, t("the launch names no folder"))
    available = entry.integer("space.available_bytes")
    shown = t("{missing} to download, {available} available", missing=gb(missing),
              available=gib(available))  # fmt: skip
    consequence = t("the Hub client only warns, file by file, and leaves half a model")
    remedy = fix(t("free some space, or choose a folder on another disk"))
    if available < missing:
        return failed(
            shown, expected=t("{need}", need=gb(missing)), consequence=consequence, remedy=remedy
        )
    if available < missing * 1.05:
        return warned(
            shown, expected=t("5 % more than the model"), consequence=consequence, remedy=remedy
        )
    return ok(shown)


def _resume(facts: Facts, target: Target) -> Verdict:
    version = facts.text("hub.client_version")
    largest = facts.integer("hub.largest_bytes")
    shown = t("huggingface_hub {version}, biggest file {size}", version=version, size=gb(largest))
    if largest > BIG_FILE_BYTES and in_range(version, HUB_RESUME_LOST, None):
        return warned(
            shown,
            expected=t("a client that resumes"),
            consequence=t("`hf download` starts an interrupted file again from zero"),
            remedy=fix(
                t("download with ranges, which resumes"),
                f"qwen-tui download {target.repo or 'REPO'}",
                docs="https://github.com/huggingface/huggingface_hub/issues/4196",
            ),
        )
    return ok(shown)


def _transfer(facts: Facts, target: Target) -> Verdict:
    if not truthy(facts, "HF_HUB_ENABLE_HF_TRANSFER"):
        return ok(t("HF_HUB_ENABLE_HF_TRANSFER is not set"))
    version = facts.text("hub.client_version")
    if in_range(version, HF_TRANSFER_GONE, None):
        return warned(
            t("HF_HUB_ENABLE_HF_TRANSFER is set; huggingface_hub {version} ignores it",
              version=version),
            expected=t("HF_XET_HIGH_PERFORMANCE, if anything"),
            consequence=t("no effect but a warning"),
            remedy=fix(t("unset it"), "unset HF_HUB_ENABLE_HF_TRANSFER"),
        )  # fmt: skip
    if not facts.flag("hub.transfer_installed"):
        return failed(
            t("HF_HUB_ENABLE_HF_TRANSFER is set, hf_transfer is not installed"),
            expected=t("the package, or no variable"),
            consequence=t("every download ends with an import error"),
            remedy=fix(
                t("unset it"),
                "unset HF_HUB_ENABLE_HF_TRANSFER",
                env={"HF_HUB_ENABLE_HF_TRANSFER": "0"},
            ),
        )
    return ok(t("hf_transfer is installed"))


def _offline(facts: Facts, target: Target) -> Verdict:
    # A profile may keep its engine offline; that does not stop a download.
    own = facts.texts("env.from_profile")
    names = [
        name
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
        if truthy(facts, name) and name not in own
    ]
    if not names:
        return ok(t("no offline variable is set"))
    return warned(
        t("{names} is set", names=", ".join(names)),
        expected=t("not set while something is downloaded"),
        consequence=t("the client refuses every request"),
        remedy=fix(t("unset it for the download"), *(f"unset {name}" for name in names)),
    )


def _verify(facts: Facts, target: Target) -> Verdict:
    facts.flag("model.exists")
    return skipped(
        SkipReason.DISABLED,
        t("content is not hashed here (about 1.5 GB/s a core)"),
        fix(t("check it once after the download"), f"qwen-tui verify {target.model_path} --hash"),
    )


def _has_model(target: Target) -> Text | None:
    return None if target.model_path else t("the profile names no local model folder")


_REACH = ("hub.reach",)

CHECKS: tuple[Check, ...] = (
    Check(
        "hub.reach", t("Hub can be reached"), _reach, ("hub",),
        t("mirrors pass metadata on and may send big files to a host that is blocked"),
        required=_with_profile, wanted=_downloads,
        evidence=("https://github.com/padeoe/hf-mirror-site/issues/50",),
    ),
    Check(
        "hub.xet", t("mirror and Xet"), _xet, ("env",),
        t("with Xet on, big files bypass HF_ENDPOINT and end in 401 behind a mirror"),
        required=_with_profile, wanted=_uses_hub,
        evidence=("https://github.com/huggingface/huggingface_hub/issues/4475",
                  "https://github.com/huggingface/xet-core/issues/404"),
    ),
    Check(
        "hub.token", t("Hub token"), _token, ("hub",),
        t("a bad token is refused even for public models"),
        required=_with_profile, wanted=_downloads, explained_by=_REACH,
    ),
    Check(
        "hub.gated", t("access to the model"), _gated, ("hub",),
        t("gated, private and misspelt repositories answer almost alike"),
        required=_with_profile, wanted=_downloads, explained_by=(*_REACH, "hub.token"),
    ),
    Check(
        "hub.space", t("room for the download"), _space, ("hub", "disk"),
        t("the client checks file by file and only warns"),
        required=_with_profile, wanted=_downloads,
        explained_by=(*_REACH, "hub.token", "hub.gated", "disk.path"),
        evidence=("https://github.com/huggingface/huggingface_hub/issues/2742",),
    ),
    Check(
        "hub.resume", t("interrupted downloads"), _resume, ("hub",),
        t("since huggingface_hub 1.18 an interrupted file starts again from zero"),
        wanted=_downloads, explained_by=(*_REACH, "hub.token", "hub.gated"),
        evidence=("https://github.com/huggingface/huggingface_hub/issues/4196",),
    ),
    Check(
        "hub.transfer", t("hf_transfer"), _transfer, ("env",),
        t("an old variable is ignored, or breaks every download"),
        wanted=_uses_hub, uses=("hub",),
    ),
    Check(
        "hub.offline", t("offline variables"), _offline, ("env",),
        t("a forgotten offline variable makes every download fail"),
        wanted=_uses_hub,
    ),
    Check(
        "hub.verify", t("content of the model"), _verify, ("model",),
        t("a wrong byte in a shard gives wrong answers, not an error"),
        wanted=_has_model,
    ),
)  # fmt: skip
