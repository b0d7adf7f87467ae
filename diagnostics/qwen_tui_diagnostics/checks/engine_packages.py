"""Checks of the packages in the engine's environment, by metadata alone."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    failed,
    fix,
    not_applicable,
    ok,
    warned,
    with_gpu,
)
from qwen_tui_diagnostics.checks.devices import selected
from qwen_tui_diagnostics.checks.needs import install_commands
from qwen_tui_diagnostics.checks.tables import (
    FLASHINFER_STRICT_UNTIL,
    capability_row,
)
from qwen_tui_diagnostics.checks.units import dotted, listed
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range, satisfies

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["PACKAGE_CHECKS", "arch_usable", "has_engine", "is_judged", "requirement_of"]

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_ARCH = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")
_FAMILY = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")


def has_engine(target: Target) -> Text | None:
    """Apply where a real engine runs in an interpreter of this machine."""
    if target.simulated:
        return t("the simulated engine is part of qwen-tui")
    return t("the profile runs in a container") if target.image else None


def is_judged(target: Target) -> bool:
    """Required when a profile is judged."""
    return target.profile is not None


def requirement_of(text: str) -> tuple[str, str] | None:
    """Return name and specifier of a ``Requires-Dist`` without a marker; ``None`` for the rest.

    A line with an environment marker is left out: evaluating it here could be wrong for the
    engine's interpreter.
    """
    match = _REQUIREMENT.fullmatch(text.strip())
    if match is None or match[3] or not match[2].strip():
        return None
    return re.sub(r"[-_.]+", "-", match[1]).lower(), match[2].strip()


def _pins(facts: Facts, target: Target) -> Verdict:
    install = facts.at("engine.installs.0")
    engine = install.text("engine")
    packages = install.at("packages")
    read = set(facts.texts("engine.packages_read"))
    broken: list[Text] = []
    loose: list[Text] = []
    checked = 0
    for line in install.texts("requires"):
        requirement = requirement_of(line)
        if requirement is None:
            continue
        name, wanted = requirement
        if not packages.has(name):
            if name in read:
                broken.append(
                    t("{name} is not installed, {wanted} needed", name=name, wanted=wanted)
                )
            continue
        version = packages.text(name)
        try:
            fits = satisfies(version, wanted)
        except InputError:
            loose.append(
                t("{name} {version} ({wanted}?)", name=name, version=version, wanted=wanted)
            )
            continue
        checked += 1
        if not fits:
            text = t(
                "{name} {version} installed, {wanted} needed",
                name=name,
                version=version,
                wanted=wanted,
            )
            (broken if wanted.startswith("==") else loose).append(text)
    remedy = fix(
        t("reinstall the engine with its own pins, into a fresh environment"),
        *install_commands(engine, f"=={install.text('version')}"),
    )
    if broken:
        return failed(
            t("{packages}", packages=listed(broken)),
            *loose,
            expected=t("the versions that {engine} pins", engine=engine),
            consequence=t("undefined symbols, or an assertion at start"),
            remedy=remedy,
        )
    if loose:
        return warned(
            t("{packages}", packages=listed(loose)),
            expected=t("the versions that {engine} asks for", engine=engine),
            consequence=t("untested together"),
            remedy=remedy,
        )
    if not checked:
        return not_applicable(t("{engine} names no versions for these packages", engine=engine))
    return ok(t("{count} pinned packages fit", count=checked))


def _kernel_dup(facts: Facts, target: Target) -> Verdict:
    install = facts.at("engine.installs.0")
    if install.text("engine") != "sglang":
        return not_applicable(t("only SGLang has this package"))
    packages = install.at("packages")
    old, new = packages.has("sgl-kernel"), packages.has("sglang-kernel")
    python = shlex.quote(install.text("interpreter"))
    if old and new:
        return failed(
            t("both sgl-kernel and sglang-kernel are installed"),
            expected=t("one of them"),
            consequence=t("both own the module sgl_kernel: their files overwrite each other"),
            remedy=fix(
                t("remove both, then install the new one again"),
                f"{python} -m pip uninstall -y sgl-kernel sglang-kernel",
                f"{python} -m pip install sglang-kernel=={packages.text('sglang-kernel')}",
            ),
        )
    if not old and not new:
        return warned(
            t("no kernel package"),
            expected=t("sglang-kernel"),
            consequence=t("SGLang stops when it imports its kernels"),
            remedy=fix(t("reinstall the engine"), *install_commands("sglang")),
        )
    name = "sglang-kernel" if new else "sgl-kernel"
    return ok(t("{name} {version}", name=name, version=packages.text(name)))


def _flashinfer(facts: Facts, target: Target) -> Verdict:
    packages = facts.at("engine.installs.0.packages")
    interpreter = shlex.quote(facts.text("engine.installs.0.interpreter"))
    if not packages.has("flashinfer-python"):
        return not_applicable(t("FlashInfer is not installed"))
    versions = {
        name: packages.text(name).partition("+")[0] for name in _FAMILY if packages.has(name)
    }
    python = versions["flashinfer-python"]
    different = [f"{name} {version}" for name, version in versions.items() if version != python]
    if not different:
        if len(versions) == 1:
            return ok(t("flashinfer {version}", version=python))
        return ok(t("flashinfer {version} and its prebuilt kernels", version=python))
    shown = t("flashinfer-python {version}, but {others}", version=python,
              others=listed(different))  # fmt: skip
    remedy = fix(
        t("remove what an upgrade has left over"),
        f"{interpreter} -m pip uninstall -y flashinfer-cubin flashinfer-jit-cache",
        docs="https://github.com/flashinfer-ai/flashinfer/issues/4781",
    )
    if in_range(python, None, FLASHINFER_STRICT_UNTIL):
        return failed(
            shown,
            expected=t("one version"),
            consequence=t("importing FlashInfer raises a RuntimeError: the engine cannot start"),
            remedy=remedy,
        )
    return warned(
        shown,
        expected=t("one version"),
        consequence=t("the prebuilt kernels are ignored; they are fetched or compiled at run time"),
        remedy=remedy,
    )


def arch_usable(flags: str, capability: tuple[int, ...]) -> str:
    """Tell how torch's architecture flags serve a card: ``cubin``, ``ptx`` or ``none``.

    A cubin runs on the same major with an equal or higher minor; an ``f`` target on its family; an
    ``a`` target on exactly its card; PTX on every newer card. sm_120 is fine on a 12.1 card.
    """
    outcome = "none"
    for kind, major, minor, suffix in _ARCH.findall(flags):
        built = (int(major), int(minor))
        if kind == "compute":
            if built <= tuple(capability) and not suffix:
                outcome = "ptx"
            continue
        if suffix == "a":
            fits = built == tuple(capability)
        else:
            fits = built[0] == capability[0] and built[1] <= capability[1]
        if fits:
            return "cubin"
    return outcome


def _engine_on_gpu(target: Target) -> Text | None:
    """Apply to launches of an engine on a GPU: a CPU build of torch is right for the others."""
    return has_engine(target) or with_gpu(target)


def _torch_cuda(facts: Facts, target: Target) -> Verdict:
    torch = facts.at("engine.installs.0.torch")
    version = torch.text("version")
    reinstall = fix(
        t("install the engine again, with a torch that is built for CUDA"),
        *install_commands(target.engine),
    )
    if not torch.has("cuda"):
        return failed(
            t("torch {version} is built without CUDA", version=version),
            expected=t("a CUDA build"),
            consequence=t("the engine finds no GPU"),
            remedy=reinstall,
        )
    cuda = torch.integers("cuda")
    shown = t("torch {version}, CUDA {cuda}", version=version, cuda=dotted(cuda))
    capability = max(device.integers("compute_capability") for device in selected(facts, target))
    row = capability_row(capability)
    if row is not None and cuda < row.torch_cuda:
        return failed(
            shown,
            expected=t("CUDA {wanted} or newer for compute capability {capability}",
                       wanted=dotted(row.torch_cuda), capability=dotted(capability)),
            consequence=t("no kernel image is available for execution on the device"),
            remedy=fix(
                t("install an engine whose torch is built with CUDA 12.8 or newer (cu128, cu130)"),
                *install_commands(target.engine),
                docs="https://github.com/pytorch/pytorch/issues/149845",
            ),
        )  # fmt: skip
    if facts.has("torch.arch_flags"):
        use = arch_usable(facts.text("torch.arch_flags"), capability)
        if use == "none":
            return failed(
                shown,
                t("built for: {flags}", flags=facts.text("torch.arch_flags")),
                expected=t("code for compute capability {capability}",
                           capability=dotted(capability)),
                consequence=t("no kernel image is available for execution on the device"),
                remedy=reinstall,
            )  # fmt: skip
        if use == "ptx":
            return warned(
                shown,
                expected=t("compiled code for this card"),
                consequence=t("every kernel is translated at the first use: a slow start"),
                remedy=reinstall,
            )
    return ok(shown)


def _probe(facts: Facts, target: Target) -> Verdict:
    version = facts.text("torch.version")
    if facts.has("torch.kernel_error"):
        return failed(
            t("torch {version} cannot run on the GPU: {error}", version=version,
              error=facts.text("torch.kernel_error")),
            *((t("on visible device {number}", number=facts.integer("torch.device")),)
              if facts.has("torch.device") else ()),
            expected=t("a small sum on the GPU"),
            consequence=t("the engine cannot run either"),
            remedy=fix(t("see driver.cuda_api, engine.torch_cuda and gpu.selected")),
        )  # fmt: skip
    if not facts.flag("torch.available"):
        return failed(
            t("torch {version} sees no GPU", version=version),
            expected=t("a visible GPU"),
            consequence=t("the engine cannot run"),
            remedy=fix(t("see driver.cuda_api, engine.torch_cuda and gpu.selected")),
        )
    if facts.number("torch.sum") != 2048.0:
        return failed(
            t("a small sum on the GPU is wrong: {got}", got=facts.number("torch.sum")),
            expected=t("2048"),
            consequence=t("results cannot be trusted"),
            remedy=fix(t("check the card's memory and power")),
        )
    count = facts.integer("torch.devices") if facts.has("torch.devices") else 1
    return ok(
        t("torch {version} computes on the GPU", version=version)
        if count == 1
        else t("torch {version} computes on {count} GPUs", version=version, count=count),
        t("imported in {seconds} s", seconds=facts.number("torch.import_s")),
    )


def _user_site(facts: Facts, target: Target) -> Verdict:
    if not facts.flag("engine.installs.0.user_site"):
        return ok(t("packages in the home folder are not seen"))
    shadows = facts.texts("engine.installs.0.user_site_shadows")
    if shadows:
        return warned(
            t("{names} in ~/.local come first", names=listed(shadows)),
            expected=t("the engine's own packages"),
            consequence=t("another version is imported than the one that is installed beside it"),
            remedy=fix(
                t("start the engine without them"),
                "export PYTHONNOUSERSITE=1",
                env={"PYTHONNOUSERSITE": "1"},
            ),
        )
    return ok(t("packages in the home folder are seen; none shadows the engine's"))


_EXPLAINED = ("engine.found",)

PACKAGE_CHECKS: tuple[Check, ...] = (
    Check(
        "engine.pins", t("pinned packages"), _pins, ("engine",),
        t("a broken pin shows up later as an undefined symbol"),
        required=is_judged, wanted=has_engine, explained_by=_EXPLAINED,
        evidence=("https://github.com/sgl-project/sglang/issues/10891",),
    ),
    Check(
        "engine.kernel_dup", t("one kernel package"), _kernel_dup, ("engine",),
        t("sgl-kernel was renamed; both together overwrite each other's files"),
        required=is_judged, wanted=has_engine, explained_by=_EXPLAINED,
    ),
    Check(
        "engine.flashinfer", t("FlashInfer's parts agree"), _flashinfer, ("engine",),
        t("an upgrade leaves the old prebuilt kernels behind"),
        required=is_judged, wanted=has_engine, explained_by=_EXPLAINED,
        evidence=("https://github.com/vllm-project/vllm/issues/49804",
                  "https://github.com/flashinfer-ai/flashinfer/issues/4781"),
    ),
    Check(
        "engine.torch_cuda", t("torch fits the card"), _torch_cuda, ("engine", "gpu", "env"),
        t("a torch without code for the card fails at the first kernel"),
        required=lambda target: target.profile is not None and target.needs_gpu,
        wanted=_engine_on_gpu, explained_by=(*_EXPLAINED, "driver.nvml", "gpu.selected"),
        uses=("torch",),
        evidence=("https://github.com/sgl-project/sglang/issues/7249",
                  "https://github.com/pytorch/pytorch/issues/149845"),
    ),
    Check(
        "engine.cuda_probe", t("torch computes on the GPU"), _probe, ("torch",),
        t("the only proof that driver, torch and card work together; costs seconds"),
        wanted=_engine_on_gpu, explained_by=(*_EXPLAINED, "driver.nvml"),
    ),
    Check(
        "engine.user_site", t("packages in the home folder"), _user_site, ("engine",),
        t("packages in ~/.local can come before the engine's own"),
        wanted=has_engine, explained_by=_EXPLAINED,
    ),
)  # fmt: skip
