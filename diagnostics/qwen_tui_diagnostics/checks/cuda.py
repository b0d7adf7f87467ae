"""Checks of the tool chain: the engines compile kernels at the first start or the first request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, failed, fix, not_applicable, ok, warned
from qwen_tui_diagnostics.checks.cuda_build import BUILD_CHECKS
from qwen_tui_diagnostics.checks.jit import (
    compiles,
    judged_launch,
    newest_capability,
    prebuilt,
    problem,
)
from qwen_tui_diagnostics.checks.needs import engine_cuda
from qwen_tui_diagnostics.checks.tables import (
    CONSUMER_BLACKWELL,
    TRITON_KNOWS_SM121,
    capability_row,
)
from qwen_tui_diagnostics.checks.units import dotted, listed
from qwen_tui_diagnostics.checks.variables import variable
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS"]

_ARCH_ITEM = re.compile(r"(\d+)\.(\d+)([af]?)(\+PTX)?")
_ARCH_VARIABLES = ("FLASHINFER_CUDA_ARCH_LIST", "TORCH_CUDA_ARCH_LIST")
_LATE = t("the engine stops at the first kernel it has to compile, minutes into the start")


def _home(facts: Facts, target: Target) -> Verdict:
    if not facts.text("toolkit.home"):
        return ok(t("CUDA_HOME is not set: nvcc is searched on PATH and in /usr/local/cuda"))
    value, name = facts.text("toolkit.home"), facts.text("toolkit.home_variable")
    shown = t("{name}={value}", name=name, value=repr(value))
    docs = "https://github.com/vllm-project/vllm/issues/36077"
    if ":" in value or value != value.strip():
        return failed(
            shown,
            expected=t("one folder, without colon or blank"),
            consequence=t("the compiler's path begins with a colon: no such file"),
            remedy=fix(
                t("set it to the toolkit's folder alone"),
                "export CUDA_HOME=/usr/local/cuda",
                docs=docs,
            ),
        )
    if not facts.flag("toolkit.home_exists") or not facts.text("toolkit.nvcc"):
        return problem(
            target,
            shown,
            expected=t("a folder with bin/nvcc"),
            consequence=_LATE,
            remedy=fix(
                t("correct it, or unset it so that PATH decides"), f"unset {name}", docs=docs
            ),
        )
    return ok(shown)


def _nvcc(facts: Facts, target: Target) -> Verdict:
    path = facts.text("toolkit.nvcc")
    if path:
        return ok(t("{path}, from {origin}", path=path, origin=facts.text("toolkit.nvcc_origin")))
    shown = t("no nvcc: not in CUDA_HOME, on PATH or in /usr/local/cuda")
    remedy = fix(
        t("install the CUDA toolkit that the engine is built for, or point CUDA_HOME to it"),
        "export CUDA_HOME=/usr/local/cuda",
        docs="https://github.com/flashinfer-ai/flashinfer/issues/1919",
    )
    installed = facts.texts("toolkit.installed")
    detail = (t("installed but not found: {names}", names=listed(installed)),) if installed else ()
    if prebuilt(facts):
        return warned(
            shown,
            *detail,
            expected=t("nvcc"),
            consequence=t("kernels are prebuilt; one that is missing cannot be compiled"),
            remedy=remedy,
        )
    return problem(target, shown, *detail, expected=t("nvcc"), consequence=_LATE, remedy=remedy)


def _nvcc_version(facts: Facts, target: Target) -> Verdict:
    version = facts.integers("toolkit.nvcc_version")
    shown = t("nvcc {version}", version=dotted(version))
    capability = newest_capability(facts, target)
    row = capability_row(capability)
    if row is not None and version < row.nvcc:
        return problem(
            target,
            shown,
            expected=t("{wanted} or newer for compute capability {capability}",
                       wanted=dotted(row.nvcc), capability=dotted(capability)),
            consequence=t("nvcc does not know the card: unsupported gpu architecture"),
            remedy=fix(
                t("install a newer toolkit and put it first on PATH"),
                docs="https://github.com/FlashML-org/FreeToken/issues/119",
            ),
        )  # fmt: skip
    built = engine_cuda(facts, target)
    if built is not None and built[0][0] != version[0]:
        return warned(
            shown,
            expected=t("CUDA {major}, as the engine is built for", major=built[0][0]),
            consequence=t("compiled kernels and torch use different runtimes"),
            remedy=fix(t("install the toolkit of that major and put it first on PATH")),
        )
    if row is not None and version < row.nvcc_best:
        return warned(
            shown,
            expected=t("{wanted} for the family target {target}", wanted=dotted(row.nvcc_best),
                       target=row.flashinfer_target),
            consequence=t("FP4 kernels are compiled for one card of the family only"),
            remedy=fix(t("install a newer toolkit")),
        )  # fmt: skip
    return ok(shown)


def _arch_list(facts: Facts, target: Target) -> Verdict:
    lines = []
    for name in _ARCH_VARIABLES:
        value = variable(facts, name)
        if value is None:
            continue
        shown = t("{name}={value}", name=name, value=repr(value))
        separators = " ;" if name.startswith("TORCH") else " "
        items = [item for item in re.split(f"[{separators}]", value) if item]
        parsed = [_ARCH_ITEM.fullmatch(item) for item in items]
        if not items or not all(parsed) or value != " ".join(value.split()):
            return problem(
                target,
                shown,
                expected=t("items like 12.0f, one blank between them"),
                consequence=t("kernels are built for the wrong card or not at all"),
                remedy=fix(t("correct it, or leave it unset"), f"unset {name}"),
            )
        capability = newest_capability(facts, target)
        covers = any(m and _covers(m, capability) for m in parsed)
        if not covers:
            row = capability_row(capability)
            return warned(
                shown,
                expected=t("compute capability {capability}", capability=dotted(capability)),
                consequence=t("kernels are compiled for another card"),
                remedy=fix(
                    t("add this card"),
                    f"export {name}={row.flashinfer_target if row else dotted(capability)}",
                ),
            )
        lines.append(shown)
    if not lines:
        return ok(t("not set: the engine takes the card that is there"))
    return ok(lines[0], *lines[1:])


def _covers(item: re.Match[str], capability: tuple[int, ...]) -> bool:
    major, minor = int(item[1]), int(item[2])
    if (major, minor) == tuple(capability):
        return True
    same_major = major == capability[0] and minor <= capability[1]
    return bool((item[3] == "f" and same_major) or (item[4] and (major, minor) <= capability))


def _ptxas(facts: Facts, target: Target) -> Verdict:
    path = facts.text("toolkit.ptxas_override")
    if path:
        if facts.flag("toolkit.ptxas_usable"):
            return ok(t("Triton uses {path}", path=path))
        return problem(
            target,
            t("TRITON_PTXAS_PATH={path} cannot be executed", path=path),
            expected=t("an executable ptxas"),
            consequence=t("every Triton kernel fails to compile"),
            remedy=fix(t("correct the path"), "export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas"),
        )
    version = facts.text("engine.installs.0.packages.triton")
    if in_range(version, TRITON_KNOWS_SM121, None):
        return ok(t("Triton {version} knows this card", version=version))
    default = facts.text("toolkit.ptxas_default") or "/usr/local/cuda/bin/ptxas"
    return problem(
        target,
        t("Triton {version} brings a ptxas that does not know sm_121a", version=version),
        expected=t("Triton 3.6, or a ptxas of CUDA 12.9 or newer"),
        consequence=t("ptxas fatal: Value 'sm_121a' is not defined"),
        remedy=fix(
            t("let Triton use the toolkit's ptxas"),
            f"export TRITON_PTXAS_PATH={default}",
            env={"TRITON_PTXAS_PATH": default},
            docs="https://github.com/triton-lang/triton/issues/8539",
        ),
    )


def _on_gb10(facts: Facts, target: Target) -> Text | None:
    if newest_capability(facts, target) <= CONSUMER_BLACKWELL:
        return t("only compute capability 12.1 needs it")
    return None


def _ld_path(facts: Facts, target: Target) -> Verdict:
    rows = facts.rows("toolkit.library_path")
    if not rows:
        return ok(t("LD_LIBRARY_PATH holds no CUDA libraries"))
    built = engine_cuda(facts, target)
    for row in rows:
        folder = row.text("folder")
        shown = t("{folder} holds {names}", folder=folder,
                  names=listed(row.texts("libraries")) or "CUDA libraries")  # fmt: skip
        remedy = fix(t("take it out of LD_LIBRARY_PATH for the engine"), "unset LD_LIBRARY_PATH")
        if row.flag("stubs"):
            return warned(
                shown,
                expected=t("no stubs folder"),
                consequence=t("CUDA loads an empty library and does not initialise"),
                remedy=remedy,
            )
        if row.flag("compat"):
            return warned(
                shown,
                expected=t("no compat folder on a consumer card"),
                consequence=t("forward compatibility works on data-centre cards only"),
                remedy=remedy,
            )
        if (
            built is not None
            and row.has("cudart_major")
            and row.integer("cudart_major") != built[0][0]
        ):
            return warned(
                shown,
                expected=t("CUDA {major} libraries, or none", major=built[0][0]),
                consequence=t("they come before the engine's own and do not fit it"),
                remedy=remedy,
            )
    return ok(t("LD_LIBRARY_PATH holds CUDA libraries of the engine's major"))


def _headers(facts: Facts, target: Target) -> Verdict:
    missing = facts.texts("toolkit.headers_missing")
    if not missing:
        return ok(t("curand and C++ headers are beside nvcc"))
    return warned(
        t("{names} not found beside nvcc", names=listed(missing)),
        expected=t("a complete toolkit"),
        consequence=t("some kernels do not compile: no such file"),
        remedy=fix(
            t("install the full toolkit, or add the folder of the nvidia wheels"),
            'export FLASHINFER_EXTRA_CUDAFLAGS="-I$FOLDER"',
            docs="https://github.com/flashinfer-ai/flashinfer/issues/4410",
        ),
    )


def _libcuda_link(facts: Facts, target: Target) -> Verdict:
    if facts.flag("toolkit.libcuda_link"):
        return ok(t("the linker finds libcuda"))
    if not facts.text("toolkit.nvcc"):
        return not_applicable(t("nothing is compiled without nvcc"))
    return warned(
        t("neither ldconfig nor a stubs folder has libcuda.so"),
        expected=t("libcuda.so for -lcuda"),
        consequence=t("linking a kernel fails: cannot find -lcuda"),
        remedy=fix(
            t("add the toolkit's stubs folder"),
            'export FLASHINFER_EXTRA_LDFLAGS="-L/usr/local/cuda/lib64/stubs"',
            docs="https://github.com/flashinfer-ai/flashinfer/issues/4410",
        ),
    )


_TOOLKIT = ("toolkit",)
_WITH_CARD = ("toolkit", "gpu", "env", "engine")

CHECKS: tuple[Check, ...] = (
    Check(
        "cuda.home", t("CUDA_HOME"), _home, _TOOLKIT,
        t("FlashInfer takes it verbatim: a stray colon becomes part of the compiler's path"),
        required=judged_launch, wanted=compiles,
        evidence=("https://github.com/vllm-project/vllm/issues/36077",),
    ),
    Check(
        "cuda.nvcc", t("CUDA compiler"), _nvcc, ("toolkit", "engine"),
        t("'Could not find nvcc' appears only at the first kernel"),
        required=judged_launch, wanted=compiles, explained_by=("cuda.home",),
        evidence=("https://github.com/flashinfer-ai/flashinfer/issues/1919",
                  "https://github.com/vllm-project/vllm/issues/49497"),
    ),
    Check(
        "cuda.nvcc_version", t("CUDA compiler knows the card"), _nvcc_version, _WITH_CARD,
        t("an nvcc older than the card has no target for it"),
        required=judged_launch, wanted=compiles,
        explained_by=("cuda.home", "cuda.nvcc", "driver.nvml", "gpu.selected"),
        evidence=("https://github.com/FlashML-org/FreeToken/issues/119",),
    ),
    Check(
        "cuda.arch_list", t("architecture lists"), _arch_list, ("env", "gpu"),
        t("a list that does not cover the card, or cannot be read, builds useless kernels"),
        required=judged_launch, wanted=compiles, explained_by=("driver.nvml", "gpu.selected"),
        evidence=("https://github.com/FlashML-org/FreeToken/issues/119",),
    ),
    *BUILD_CHECKS,
    Check(
        "cuda.ptxas", t("Triton's assembler"), _ptxas, _WITH_CARD,
        t("the ptxas inside older Triton does not know the GB10"),
        required=judged_launch, wanted=compiles, applies=_on_gb10,
        explained_by=("driver.nvml", "gpu.selected", "engine.found"),
        evidence=("https://github.com/triton-lang/triton/issues/8539",),
    ),
    Check(
        "cuda.headers", t("CUDA headers"), _headers, _TOOLKIT,
        t("conda tool chains lack headers that kernels include"),
        wanted=compiles, explained_by=("cuda.nvcc", "cuda.home"),
        evidence=("https://github.com/flashinfer-ai/flashinfer/issues/4410",),
    ),
    Check(
        "cuda.libcuda_link", t("linking against the driver"), _libcuda_link, _TOOLKIT,
        t("containers and conda often lack libcuda.so for the linker"),
        wanted=compiles, explained_by=("cuda.nvcc", "cuda.home", "driver.nvml"),
        evidence=("https://github.com/flashinfer-ai/flashinfer/issues/4410",),
    ),
    Check(
        "cuda.ld_path", t("LD_LIBRARY_PATH"), _ld_path, ("toolkit", "engine"),
        t("foreign CUDA libraries come before the engine's own"),
        wanted=compiles,
    ),
)  # fmt: skip
