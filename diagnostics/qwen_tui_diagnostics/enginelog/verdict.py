"""Words for a death: class, sentence, remedy in the right direction, evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.clamps import evidence_of, safe_text
from qwen_tui_diagnostics.enginelog.death import EchoSeen, Hit
from qwen_tui_diagnostics.enginelog.echoes import CORE_GONE
from qwen_tui_diagnostics.enginelog.report import PHASES, Fatal
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog.boot import Boot
    from qwen_tui_profiles.findings import Evidence

__all__ = ["fatal_of", "phase_at"]

_ORDER = {phase: index for index, phase in enumerate(PHASES)}

_PROFILING = t(
    "The trial run before the pool is sized does not fit beside the weights: lower "
    "--max-num-batched-tokens and --max-num-seqs, or use a smaller quantisation."
)

# Functions in a traceback that tell where a boot was, outermost first.
_FRAMES: dict[str, str] = {
    "load_model": "load_weights",
    "_handle_max_mamba_cache": "state_pool",
    "alloc_memory_pool": "kv_pool",
    "init_memory_pool": "kv_pool",
    "init_memory_pools": "kv_pool",
    "init_cuda_graphs": "graph_capture",
    "init_all_cuda_graphs": "graph_capture",
    "init_device_graphs": "graph_capture",
    "capture_model": "graph_capture",
    "determine_available_memory": "kv_pool",
    "event_loop_normal": "serving",
    "event_loop_overlap": "serving",
}


def fatal_of(boot: Boot) -> tuple[Fatal | None, Hit | EchoSeen | None]:
    """Return the death of ``boot`` and the line that names its cause, if the log has one."""
    root = boot.root()
    if root is None or isinstance(root, EchoSeen):
        return (None if root is None else _from_echo(boot, root)), root
    echo = next((e for e in boot.death.echoes if abs(e.line.number - root.line.number) < 500), None)
    lines = [root.line]  # the cause first, its echo after it
    if echo is not None and echo.line.number != root.line.number:
        lines.append(echo.line)
    evidence = tuple(evidence_of(line, boot.secrets) for line in lines)
    if root.cause is None:
        kind = _generic_kind(boot, root.phase)
        if kind == "engine_start_failed" and root.refusal and root.phase in {None, "args"}:
            return _refusal(evidence), root
        return (
            Fatal(
                kind,
                t("The engine died of an exception that has no class of its own."),
                t("Read the exception below; search the engine's issues for its text."),
                evidence,
            ),
            root,
        )
    remedy = root.cause.remedy
    if root.cause.kind == "cuda_oom":
        profiling = root.trace is not None and "profile_run" in root.trace.frames
        remedy = _PROFILING if profiling else _oom_remedy(boot, phase_at(boot, root))
    summary = root.cause.summary
    if root.groups:
        shown = {k: safe_text(v, boot.secrets) for k, v in root.groups.items()}
        summary = Text(summary.template, {**summary.fields, **shown})
    return Fatal(root.cause.kind, summary, remedy, evidence), root


def _refusal(evidence: tuple[Evidence, ...]) -> Fatal:
    return Fatal(
        "bad_argument",
        t("The engine's checks of its arguments refused the command line."),
        t("The last lines of the traceback name the check; `qwen-tui lint` knows many of them."),
        evidence,
    )


def phase_at(boot: Boot, root: Hit | EchoSeen) -> str | None:
    """Return the phase in which the cause struck; ``None`` when the log does not tell."""
    seen = root.phase
    hit = root if isinstance(root, Hit) else None
    stated = hit.cause.phase if hit is not None and hit.cause is not None else None
    if stated is not None and _ORDER[stated] >= _ORDER.get(seen or "", -1):
        return stated
    if seen is None and hit is not None and hit.cause is None and hit.refusal:
        return "args"
    if seen is None and boot.ready:
        return "serving"
    if seen in {"ready", "serving"}:
        return "serving"
    frames = hit.trace.frames if hit is not None and hit.trace is not None else []
    hint = next((_FRAMES[f] for f in frames if f in _FRAMES), None)
    if hint == "serving":
        return "serving" if boot.ready else (seen or "warmup")
    if hint is not None and _ORDER[hint] > _ORDER.get(seen or "", -1):
        return hint
    return seen


def _generic_kind(boot: Boot, phase: str | None) -> str:
    if any(e.echo.name in {"scheduler_exception", "manager_exception"} for e in boot.death.echoes):
        return "scheduler_crash"
    return "scheduler_crash" if boot.ready or phase == "serving" else "engine_start_failed"


def _from_echo(boot: Boot, root: EchoSeen) -> Fatal:
    evidence = (evidence_of(root.line, boot.secrets),)
    if root.code == -9:
        return Fatal(
            "killed",
            t("A process of the engine was killed from outside."),
            t("Usually the host ran out of memory (`dmesg -T | grep -i oom`)."),
            evidence,
        )
    if root.echo.name == CORE_GONE:
        return Fatal(
            _generic_kind(boot, root.phase),
            t("The engine core ended without an exception of its own."),
            t("It was killed from outside (often the host ran out of memory: "
              "`dmesg -T | grep -i oom`) or crashed in native code."),
            evidence,
        )  # fmt: skip
    return Fatal(
        _generic_kind(boot, root.phase),
        t("A process of the engine died; the log does not hold the cause."),
        t("Look at the lines before this log begins or after it ends; start again with the whole "
          "output kept."),
        evidence,
    )  # fmt: skip


def _oom_remedy(boot: Boot, phase: str | None) -> Text:
    share = "--gpu-memory-utilization" if boot.printed_by == "vllm" else "--mem-fraction-static"
    if phase in {"args", "distributed", "load_weights", "load_draft"}:
        return t(
            "The model does not fit while it loads: use a smaller quantisation or more GPUs, or "
            "free the GPU of other processes. {share} does not help here.",
            share=share,
        )
    if phase in {"ready", "serving"}:
        return t(
            "Too little memory is left beside the pool: lower {share} (or shorten the prefill "
            "chunk), so that requests have head-room.",
            share=share,
        )
    return t(
        "The pool took the memory that graphs and workspaces need: lower {share}, or capture "
        "fewer graph sizes.",
        share=share,
    )
