"""Causes of death: modules, devices, ports, time-outs, kills, the engine's own checks."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.causes import Cause, cause
from qwen_tui_profiles.text import t

__all__ = ["PROCESS_CAUSES"]


PROCESS_CAUSES: tuple[Cause, ...] = (
    cause(
        "module_missing",
        "No module named",
        r"^(?:ModuleNotFoundError|ImportError): No module named '?(?P<module>[\w.]+)",
        t("The Python module {module} is not installed.", module=""),
        t("Install it into the engine's environment, or reinstall the engine with its extras."),
        firm=False,
    ),
    cause(
        "module_missing",
        "No module named",
        r"^\S*python[\d.]*(?:\.exe)?: (?:Error while finding module specification for .*|"
        r"(?=No module named ))\(?(?:ModuleNotFoundError: )?No module named '?(?P<module>[\w.]+)",
        t("The Python module {module} is not installed.", module=""),
        t("Install it into the engine's environment, or start with the interpreter that has it."),
        phase="args",
    ),
    cause(
        "module_missing",
        "ImportError: ",
        r"^ImportError: (?!.*No module named)",
        t("A library or name that the engine imports does not exist in this environment."),
        t("Install matching versions: reinstall the engine in an environment of its own."),
        firm=False,
    ),
    cause(
        "port_in_use",
        "ddress already in use",
        r"(?:\[Errno 98\].*|OSError: .*|Error: .*)[Aa]ddress already in use",
        t("Another process listens on the port."),
        t("Stop that process or choose another --port; children of an earlier server may hold it."),
    ),
    cause(
        "port_in_use",
        "is not available in",
        r"ValueError: .* at \d+ is not available in \d+ seconds",
        t("A port that the engine needs inside is taken."),
        t("Stop the process that holds it, or choose other ports."),
        engine="sglang",
    ),
    cause(
        "engine_start_failed",
        "Failed to infer device type",
        r"Failed to infer device type",
        t("No device was found: no driver, no GPU, or a CPU build."),
        t("Check the driver with `qwen-tui doctor`; in a container pass the GPUs to it."),
        phase="args",
        engine="vllm",
    ),
    cause(
        "engine_start_failed",
        "Timed out waiting for engine core",
        r"Timed out waiting for engine core processes to start",
        t("The engine core did not start in time."),
        t("Raise VLLM_ENGINE_READY_TIMEOUT_S: a first start compiles for many minutes."),
        engine="vllm",
    ),
    cause(
        "scheduler_crash",
        "emory leak detected",
        r"(?:memory leak detected!|Mem Leak Detected!)",
        t("The engine's own check found that its pools do not add up."),
        t("An engine defect: report it upstream with the lines above."),
        engine="sglang",
    ),
    cause(
        "scheduler_crash",
        "Mem Leak Detected!",
        r"Mem Leak Detected!",
        t("The engine's own check found that its pools do not add up."),
        t("An engine defect: report it upstream with the lines above."),
        engine="sglang",
    ),
    cause(
        "watchdog_timeout",
        "atchdog timeout",
        r"[Ww]atchdog timeout \(self\.watchdog_timeout=",
        t("A step took longer than the watchdog allows, so the engine ended itself."),
        t("Raise --watchdog-timeout when the step is known to be slow; else see the stacks above."),
        engine="sglang",
    ),
    cause(
        "killed",
        "killed",
        r"(?:Main process exited, code=killed|has been killed by the OOM killer)",
        t("The process was killed from outside."),
        t("Usually the host ran out of memory (`dmesg -T | grep -i oom`): free some, or add swap."),
    ),
    cause(
        "killed",
        "Killed",
        r"^(?:.*\bline \d+: +\d+ )?Killed\b(?:\s|$)",
        t("The process was killed from outside."),
        t("Usually the host ran out of memory (`dmesg -T | grep -i oom`): free some, or add swap."),
    ),
    cause(
        "killed",
        "exit code",
        r"(?:crashed with exit code|exit code:|exited with code|died unexpectedly.*exit code:?) "
        r"?-9\b",
        t("A process of the engine was killed from outside."),
        t("Usually the host ran out of memory (`dmesg -T | grep -i oom`): free some, or add swap."),
    ),
    cause(
        "killed",
        "exited with code 137",
        r"exited with code 137\b",
        t("The container was killed from outside."),
        t("Usually the host or the container's memory limit: raise it, or free host memory."),
    ),
    cause(
        "scheduler_crash",
        "out of memory. Try to lower your batch size",
        r"(?:Prefill|Decode) out of memory\. Try to lower your batch size",
        t("A batch was admitted that the pools cannot hold."),
        t(
            "Lower --max-running-requests or raise --schedule-conservativeness; the static share "
            "does not help."
        ),
        engine="sglang",
    ),
    cause(
        "scheduler_crash",
        "Fatal Python error: ",
        r"^Fatal Python error: (?P<what>Aborted|Segmentation fault|Bus error|Illegal instruction)",
        t("Native code ended a process of the engine: {what}.", what=""),
        t("A defect of a kernel or library: another backend or another release may not have it."),
    ),
    cause(
        "scheduler_crash",
        "terminate called after throwing",
        r"terminate called after throwing an instance of '(?P<what>[^']*)'",
        t("Native code ended a process of the engine: {what}.", what=""),
        t("A defect of a kernel or library: another backend or another release may not have it."),
    ),
    cause(
        "scheduler_crash",
        "alloc_req_slots runs out of memory",
        r"alloc_req_slots runs out of memory",
        t("More requests ran than the engine has request slots for."),
        t("Lower --max-running-requests."),
        engine="sglang",
    ),
)
