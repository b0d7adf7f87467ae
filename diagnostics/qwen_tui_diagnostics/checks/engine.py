"""Checks of the engine: found, which version, does it know the model and the flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    always,
    failed,
    fix,
    not_applicable,
    ok,
    warned,
)
from qwen_tui_diagnostics.checks.engine_packages import PACKAGE_CHECKS, has_engine, is_judged
from qwen_tui_diagnostics.checks.needs import install_commands
from qwen_tui_diagnostics.checks.net import is_ours
from qwen_tui_diagnostics.checks.tables import FIRST_RELEASES, FLASHINFER_ZEROS
from qwen_tui_diagnostics.checks.units import listed
from qwen_tui_diagnostics.checks.variables import variable
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range, satisfies

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]

NAMED = "named"
"""Origin of an interpreter that the profile or the command line names."""

_BEHAVIOUR = (
    ("FLASHINFER_DISABLE_VERSION_CHECK", t("FlashInfer's version check is off")),
    ("SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK", t("the kernel package's version check is off")),
    ("CUDA_LAUNCH_BLOCKING", t("every kernel is waited for: slow")),
    ("SGL_FORCE_SHUTDOWN", t("a stop does not drain requests")),
)


def _found(facts: Facts, target: Target) -> Verdict:
    engine = target.engine or "sglang"
    missing = facts.text("engine.named_missing")
    if missing:
        source = facts.text("engine.named_by") if facts.has("engine.named_by") else NAMED
        shown = (
            t("{path} is not an interpreter", path=missing)
            if source == NAMED
            else t("{path} in {source} is not an interpreter", path=missing, source=source)
        )
        return failed(
            shown,
            expected=t("a Python with {engine} installed", engine=engine),
            consequence=t("the launch is refused"),
            remedy=fix(t("correct it where it is named, or pass --python")),
        )
    installs, looked = facts.rows("engine.installs"), facts.texts("engine.looked_at")
    if not installs:
        return failed(
            t(
                "no {engine} in any Python here ({count} looked at)",
                engine=engine,
                count=len(looked),
            ),
            *(t("looked at {path}", path=path) for path in looked[:8]),
            expected=t("a Python with {engine} installed", engine=engine),
            consequence=t("there is nothing to launch"),
            remedy=fix(
                t("install it into an environment of its own, or name yours with --python"),
                *install_commands(engine),
            ),
        )
    lines = [_line(install) for install in installs]
    if len(lines) > 1 and target.interpreter is None and target.profile is not None:
        return warned(
            lines[0],
            *(t("also: {line}", line=line) for line in lines[1:]),
            expected=t("one engine, or one that the profile names"),
            consequence=t("the first is used; another may be meant"),
            remedy=fix(t("name the interpreter in the profile, or pass --python")),
        )
    return ok(lines[0], *lines[1:])


def _line(install: Facts) -> Text:
    return t(
        "{engine} {version} in {path} ({origin})",
        engine=install.text("engine"),
        version=install.text("version"),
        path=install.text("interpreter"),
        origin=install.text("origin"),
    )


def _version(facts: Facts, target: Target) -> Verdict:
    install = facts.at("engine.installs.0")
    engine, version = install.text("engine"), install.text("version")
    shown = t("{engine} {version}", engine=engine, version=version)
    source = _source(install)
    detail = (source,) if source is not None else ()
    is_source_build = version.startswith("0.0.0") or ".dev" in version
    for prefix, name, since in FIRST_RELEASES:
        classes = _architectures(facts)
        if name != engine or not any(item.startswith(prefix) for item in classes):
            continue
        if source is None and not is_source_build and not _in(version, since):
            return failed(
                shown,
                *detail,
                expected=t("{since} or newer for {model}", since=since, model=prefix),
                consequence=t("the engine has no such model class"),
                remedy=fix(t("install a newer release"), *install_commands(engine)),
            )
    wanted = target.engine_versions
    if is_source_build:
        return warned(
            shown,
            *detail,
            expected=t("a release, or the commit that the profile was tried with"),
            consequence=t("tables of this program go by releases; a source build may differ"),
        )
    if wanted is not None:
        try:
            fits = satisfies(version, wanted)
        except InputError:
            fits = False
        if not fits:
            return warned(
                shown,
                *detail,
                expected=t("{wanted}, which the profile is written for", wanted=wanted),
                consequence=t("untested: flags and defaults may differ"),
                remedy=fix(
                    t("install a release in that range"),
                    *install_commands(engine, wanted),
                ),
            )
    return ok(shown, *detail)


def _in(version: str, since: str) -> bool:
    try:
        return in_range(version, since, None)
    except InputError:
        return True


def _architectures(facts: Facts) -> tuple[str, ...]:
    if facts.has("model.config.architectures"):
        return facts.texts("model.config.architectures")
    return ()


def _source(install: Facts) -> Text | None:
    if install.has("commit"):
        return t("built from {url} at {commit}", url=install.text("url"),
                 commit=install.text("commit")[:12])  # fmt: skip
    if install.has("url"):
        editable = install.has("editable") and install.flag("editable")
        kind = "editable, " if editable else ""
        return t("a build of its own: {kind}{url}", kind=kind, url=install.text("url"))
    return None


def _model_type(facts: Facts, target: Target) -> Verdict:
    model = facts.at("engine.installs.0.model")
    kind = model.text("model_type")
    classes = listed(model.texts("architectures"))
    in_engine = model.flag("in_engine")
    in_transformers = model.flag("in_transformers")
    docs = "https://github.com/princeton-ddss/blackfish/issues/322"
    upgrade = fix(
        t("install a newer engine; its own pin brings the right Transformers"),
        *install_commands(target.engine),
        docs=docs,
    )
    if in_engine and in_transformers:
        return ok(t("{kind} ({classes}) is known to engine and Transformers", kind=kind,
                    classes=classes))  # fmt: skip
    if in_engine:
        return warned(
            t("{kind}: the engine knows it, Transformers does not", kind=kind),
            expected=t("both"),
            consequence=t("the engine's own configuration class has to step in"),
            remedy=upgrade,
        )
    return failed(
        t("{kind} ({classes}) is not among the engine's models", kind=kind, classes=classes),
        expected=t("a class of that name in the installed engine"),
        consequence=t("the checkpoint has a model type that is not recognised"),
        remedy=upgrade,
    )


def _has_model(target: Target) -> Text | None:
    if not target.model_path:
        return t("the profile names no local model folder")
    return has_engine(target)


def _model_there(facts: Facts, target: Target) -> Text | None:
    return None if facts.flag("model.exists") else t("the model is not there yet")


def _flags(facts: Facts, target: Target) -> Verdict:
    flags = facts.at("engine.installs.0.flags")
    declared = flags.integer("declared")
    problems: list[Text] = []
    for row in flags.rows("unknown"):
        near = row.texts("near")
        problems.append(
            t("{flag} is unknown; near: {near}", flag=row.text("flag"), near=listed(near))
            if near
            else t("{flag} is unknown", flag=row.text("flag"))
        )
    problems += [
        t("{flag} is ambiguous: {near}", flag=row.text("flag"), near=listed(row.texts("near")))
        for row in flags.rows("ambiguous")
    ]
    problems += [
        t("{flag} {value}: not one of {choices}", flag=row.text("flag"), value=row.text("value"),
          choices=listed(row.texts("choices"), 8))
        for row in flags.rows("bad_values")
    ]  # fmt: skip
    problems += [
        t("{flag} was removed: {why}", flag=row.text("flag"), why=row.text("why"))
        for row in flags.rows("refused")
    ]
    if problems:
        return failed(
            problems[0],
            *problems[1:],
            expected=t("flags of the installed build ({count} declared)", count=declared),
            consequence=t("the engine ends at once with a usage error"),
            remedy=fix(
                t("correct the profile"), f"qwen-tui profiles edit {target.profile or 'NAME'}"
            ),
        )
    old = [row.text("flag") for row in flags.rows("deprecated")]
    if old:
        return warned(
            t("deprecated: {flags}", flags=listed(old)),
            expected=t("the new spelling"),
            consequence=t("a later release refuses them"),
        )
    return ok(t("every flag is one of the {count} that the build declares", count=declared))


def _has_flags(target: Target) -> Text | None:
    why = has_engine(target)
    if why is not None:
        return why
    return None if target.argv else t("the profile has no flags")


def _asked(facts: Facts, target: Target) -> Verdict:
    complaint = facts.text("asked.complaint")
    if not complaint:
        return ok(t("the engine's own parser accepts the command line"))
    return failed(
        t("the engine objects: {complaint}", complaint=complaint),
        expected=t("a command line that the installed engine accepts"),
        consequence=t("the engine ends at once with a usage error"),
        remedy=fix(t("correct the profile"), f"qwen-tui profiles edit {target.profile or 'NAME'}"),
    )


def _environment(facts: Facts, target: Target) -> Verdict:
    values = {name: variable(facts, name) or "" for name, _ in _BEHAVIOUR}
    active = {name for name, value in values.items() if value.lower() not in {"", "0", "false"}}
    found = [
        t("{name}: {effect}", name=name, effect=effect)
        for name, effect in _BEHAVIOUR
        if name in active
    ]
    if found:
        written = facts.texts("env.from_profile") if facts.has("env.from_profile") else ()
        of_profile = set(written) & active
        detail = [
            t("set by the profile: {names}", names=listed(sorted(of_profile), len(_BEHAVIOUR)))
        ] if of_profile else []  # fmt: skip
        if of_profile == active:
            # Somebody wrote it down on purpose; it is told, and nothing has to be done.
            return ok(found[0], *found[1:], *detail)
        return warned(
            found[0],
            *found[1:],
            *detail,
            expected=t("no such variable"),
            consequence=t("the engine behaves differently from what this report assumes"),
            remedy=fix(t("unset what you did not mean"),
                       *(f"unset {name}" for name, _ in _BEHAVIOUR
                         if name in active - of_profile)),
        )  # fmt: skip
    return ok(t("no variable changes the engine's behaviour"))


def _instance(facts: Facts, target: Target) -> Verdict:
    if not facts.flag("server.answers"):
        return ok(t("no server answers on the port"))
    model = facts.text("server.model") if facts.has("server.model") else ""
    shown = (
        t("a server answers on the port and serves {model}", model=model)
        if model
        else t("something answers on the port")
    )
    if is_ours(facts, target):
        if target.own_profile is None or target.own_profile == target.profile:
            return ok(t("it is our own: {shown}", shown=shown))
        return ok(
            t("our own server runs, with profile {profile}", profile=target.own_profile),
            shown,
            t("`qwen-tui swap {profile}` stops it first", profile=target.profile or "PROFILE"),
        )
    return warned(
        shown,
        expected=t("nothing, before a launch"),
        consequence=t("a second engine cannot have the port, and hardly the memory"),
        remedy=fix(
            t("watch it, stop it where it was started, or use another port"),
            f"qwen-tui attach http://127.0.0.1:{target.port}",
        ),
    )


def _flashinfer_floor(facts: Facts, target: Target) -> Verdict:
    if not facts.has("engine.installs.0.packages.flashinfer-python"):
        facts.at("engine.installs.0.packages")
        return not_applicable(t("FlashInfer is not installed"))
    version = facts.text("engine.installs.0.packages.flashinfer-python")
    shown = t("flashinfer-python {version}", version=version)
    if in_range(version, None, FLASHINFER_ZEROS):
        return failed(
            shown,
            expected=t("newer than {bad}", bad=FLASHINFER_ZEROS),
            consequence=t("one FP4 product on SM 12.0 is all zeros: wrong answers, no error"),
            remedy=fix(
                t("upgrade the engine; its pin brings a newer one"),
                *install_commands(target.engine),
                docs="https://github.com/flashinfer-ai/flashinfer/issues/2577",
            ),
        )
    return ok(shown)


_EXPLAINED = ("engine.found",)

CHECKS: tuple[Check, ...] = (
    Check(
        "engine.found", t("engine is installed"), _found, ("engine",),
        t("the engine lives in an interpreter of its own; it is found by metadata, never imported"),
        required=always, wanted=has_engine,
    ),
    Check(
        "engine.version", t("engine version"), _version, ("engine", "model"),
        t("models and flags come and go with releases; a fork is told apart by its commit"),
        required=is_judged, wanted=has_engine, explained_by=_EXPLAINED,
    ),
    *PACKAGE_CHECKS,
    Check(
        "engine.fp4_zeros", t("FP4 kernels are right"), _flashinfer_floor, ("engine",),
        t("an old FlashInfer returns zeros from one FP4 path: a matter of correctness"),
        required=is_judged, wanted=has_engine, explained_by=_EXPLAINED,
        evidence=("https://github.com/flashinfer-ai/flashinfer/issues/2577",),
    ),
    Check(
        "engine.model_type", t("engine knows the model"), _model_type, ("engine", "model"),
        t("a model type that Transformers or the engine does not know stops the start"),
        required=is_judged, wanted=_has_model, applies=_model_there,
        explained_by=(*_EXPLAINED, "model.folder", "model.config"),
        evidence=("https://github.com/princeton-ddss/blackfish/issues/322",),
    ),
    Check(
        "engine.flags", t("engine knows the flags"), _flags, ("engine",),
        t("the flags are read from the installed build's own files, without running it"),
        required=is_judged, wanted=_has_flags, explained_by=_EXPLAINED,
    ),
    Check(
        "engine.asked", t("engine accepts the command line"), _asked, ("asked",),
        t("the engine's own parser has the last word; it is asked without starting anything"),
        wanted=_has_flags, explained_by=(*_EXPLAINED, "engine.flags"),
    ),
    Check(
        "engine.env", t("variables that change the engine"), _environment, ("env",),
        t("a forgotten variable explains many a strange report"),
        wanted=has_engine,
    ),
    Check(
        "engine.instance", t("no other server in the way"), _instance, ("server", "port"),
        t("a running server holds port and memory; better watch it than start a second"),
        explained_by=("net.port",),
    ),
)  # fmt: skip
