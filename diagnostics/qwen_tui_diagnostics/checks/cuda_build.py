"""Checks of what a kernel build needs besides nvcc: ninja, a compiler, memory, a cache."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, failed, fix, ok, warned
from qwen_tui_diagnostics.checks.devices import selected
from qwen_tui_diagnostics.checks.jit import compiles, judged_launch, problem
from qwen_tui_diagnostics.checks.tables import BYTES_PER_JIT_JOB, CONSUMER_BLACKWELL, JIT_BASE_BYTES
from qwen_tui_diagnostics.checks.units import GIB, gib, listed
from qwen_tui_diagnostics.checks.variables import variable
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["BUILD_CHECKS"]

CACHE_LOW_BYTES = 5 * GIB
CACHE_GOOD_BYTES = 10 * GIB


def _python(facts: Facts) -> str:
    """Return the engine's interpreter for a command line."""
    place = "engine.installs.0.interpreter"
    return shlex.quote(facts.text(place)) if facts.has(place) else "python"


def _ninja(facts: Facts, target: Target) -> Verdict:
    on_path = facts.text("toolkit.ninja")
    beside = facts.has("engine.installs.0.ninja") and facts.flag("engine.installs.0.ninja")
    if beside:
        return ok(t("ninja is beside the engine's Python; our launch puts it on PATH"))
    if on_path:
        return ok(t("{path}", path=on_path))
    return problem(
        target,
        t("no ninja beside the engine's Python and none on PATH"),
        expected=t("ninja"),
        consequence=t("the first kernel cannot be built: ninja not found"),
        remedy=fix(
            t("install it into the engine's environment"),
            f"{_python(facts)} -m pip install ninja",
            docs="https://github.com/vllm-project/vllm/issues/49029",
        ),
    )


def _compiler(facts: Facts, target: Target) -> Verdict:
    path = facts.text("toolkit.compiler")
    if not path:
        return problem(
            target,
            t("no C++ compiler"),
            expected=t("g++"),
            consequence=t("nvcc and Triton need one for every kernel"),
            remedy=fix(t("install it"), "sudo apt install g++", privileged=True),
        )
    major, limit = facts.integer("toolkit.compiler_major"), facts.integer("toolkit.compiler_limit")
    shown = t("g++ {major}; this CUDA allows up to {limit}", major=major, limit=limit)
    if major > limit:
        return problem(
            target,
            shown,
            expected=t("g++ {limit} or older", limit=limit),
            consequence=t("nvcc stops: unsupported GNU version"),
            remedy=fix(
                t("let nvcc use an older compiler"),
                f"sudo apt install g++-{limit}",
                f"export NVCC_CCBIN=g++-{limit}",
                privileged=True,
            ),
        )
    return ok(shown)


def _python_header(facts: Facts, target: Target) -> Verdict:
    if facts.flag("engine.installs.0.python_h"):
        return ok(t("Python.h is there"))
    version = facts.integers("engine.installs.0.python")
    package = f"python{version[0]}.{version[1]}-dev"
    return warned(
        t("no Python.h for the engine's interpreter"),
        expected=t("the interpreter's headers"),
        consequence=t("Triton cannot build its launchers"),
        remedy=fix(t("install the headers"), f"sudo apt install {package}", privileged=True),
    )


def _jit_memory(facts: Facts, target: Target) -> Verdict:
    available = facts.integer("memory.available_bytes")
    if facts.flag("memory.limited"):
        available = min(available, facts.integer("memory.limit_bytes"))
    cpus = facts.integer("system.cpus")
    set_jobs = variable(facts, "MAX_JOBS") or ""
    jobs = int(set_jobs) if set_jobs.isdecimal() and int(set_jobs) > 0 else cpus + 2
    need = jobs * BYTES_PER_JIT_JOB + JIT_BASE_BYTES
    shown = t("{jobs} compilers at once, {available} available", jobs=jobs,
              available=gib(available))  # fmt: skip
    consequence = t("the compilers are killed (code 137); a GB10 locks up")
    fitting = max(1, (available - JIT_BASE_BYTES) // BYTES_PER_JIT_JOB)
    remedy = fix(
        t("limit the compilers for the first start"),
        f"export MAX_JOBS={fitting}",
        env={"MAX_JOBS": str(fitting)},
        docs="https://github.com/flashinfer-ai/flashinfer/issues/3634",
    )
    if available < BYTES_PER_JIT_JOB:
        return failed(
            shown, expected=t("8 GiB for a single compiler"), consequence=consequence, remedy=remedy
        )
    if need > available and jobs > fitting:
        return warned(
            shown,
            expected=t("{need} at 8 GiB each and 16 GiB beside", need=gib(need)),
            consequence=consequence,
            remedy=remedy,
        )
    return ok(shown)


def _big_kernels(facts: Facts, target: Target) -> Text | None:
    capabilities = [d.integers("compute_capability") for d in selected(facts, target)]
    if max(capabilities) < CONSUMER_BLACKWELL:
        return t("only the kernels of consumer Blackwell take 8 GiB a compiler")
    return None


def _jit_cache(facts: Facts, target: Target) -> Verdict:
    low: list[Text] = []
    bad: list[Text] = []
    for row in facts.rows("toolkit.caches"):
        name, path = row.text("name"), row.text("path")
        if not row.flag("writable"):
            bad.append(t("{path} is not writable", path=path))
        elif row.flag("noexec") and name != "temporary":
            bad.append(t("{path} is mounted noexec", path=path))
        elif row.integer("available_bytes") < CACHE_LOW_BYTES:
            bad.append(t("{path} has {size}", path=path, size=gib(row.integer("available_bytes"))))
        elif row.integer("available_bytes") < CACHE_GOOD_BYTES:
            low.append(t("{path} has {size}", path=path, size=gib(row.integer("available_bytes"))))
    remedy = fix(
        t("point the caches to a local folder that allows execution"),
        "export FLASHINFER_WORKSPACE_BASE=$HOME TRITON_CACHE_DIR=$HOME/.triton",
    )
    if bad:
        return problem(
            target,
            t("{problems}", problems=listed(bad)),
            expected=t("writable, executable, 5 GiB free"),
            consequence=t("a built kernel cannot be stored or mapped into memory"),
            remedy=remedy,
        )
    if low:
        return warned(
            t("{problems}", problems=listed(low)),
            expected=t("10 GiB free"),
            consequence=t("caches of several engine versions fill it"),
            remedy=remedy,
        )
    return ok(t("kernel caches are writable and executable"))


BUILD_CHECKS: tuple[Check, ...] = (
    Check(
        "cuda.ninja", t("ninja"), _ninja, ("toolkit", "engine"),
        t("FlashInfer runs ninja by name: an environment that is not activated hides it"),
        required=judged_launch, wanted=compiles,
        evidence=("https://github.com/vllm-project/vllm/issues/49029",),
    ),
    Check(
        "cuda.host_cc", t("host compiler"), _compiler, ("toolkit",),
        t("every CUDA release has a newest GCC that it accepts"),
        required=judged_launch, wanted=compiles, explained_by=("cuda.nvcc", "cuda.home"),
    ),
    Check(
        "cuda.python_h", t("Python headers"), _python_header, ("engine",),
        t("Triton compiles a small C module per kernel"),
        wanted=compiles, explained_by=("engine.found",),
    ),
    Check(
        "cuda.jit_memory", t("memory for kernel builds"), _jit_memory,
        ("memory", "system", "env", "gpu"),
        t("ninja starts cores + 2 compilers of up to 8 GiB each: OOM kill, or a locked-up GB10"),
        required=judged_launch, wanted=compiles, applies=_big_kernels,
        explained_by=("driver.nvml", "gpu.selected"),
        evidence=("https://github.com/flashinfer-ai/flashinfer/issues/3634",),
    ),
    Check(
        "cuda.jit_cache", t("kernel caches"), _jit_cache, ("toolkit",),
        t("on noexec a built kernel fails with 'failed to map segment from shared object'"),
        required=judged_launch, wanted=compiles,
    ),
)  # fmt: skip
