"""Causes of death, second part: weights, arguments, modules, ports, time-outs; and the echoes."""

from __future__ import annotations

import re

from qwen_tui_diagnostics.enginelog.fatal_table import (
    _ARGUMENT,
    _EXC,
    _WEIGHTS,
    Cause,
    Echo,
    _cause,
)
from qwen_tui_profiles.text import t

__all__ = ["ECHOES", "MORE_CAUSES"]

MORE_CAUSES: tuple[Cause, ...] = (
    # --- weights ---------------------------------------------------------------------------------
    _cause(
        "missing_weights",
        "Cannot find any model weights",
        r"Cannot find any model weights with",
        t("The folder holds no weights."),
        _WEIGHTS,
        phase="load_weights",
    ),
    _cause(
        "missing_weights",
        "Error while deserializing header",
        r"Error while deserializing header",
        t("A weight file is cut off, or a pointer stands where weights should be."),
        _WEIGHTS,
        phase="load_weights",
    ),
    _cause(
        "missing_weights",
        "were not initialized from checkpoint",
        r"weights were not initialized from checkpoint",
        t("The checkpoint lacks tensors that the model needs."),
        _WEIGHTS,
        phase="load_weights",
        engine="vllm",
    ),
    _cause(
        "missing_weights",
        "There is no module or parameter named",
        r"There is no module or parameter named",
        t("The checkpoint has tensors that this model class does not know."),
        _WEIGHTS,
        phase="load_weights",
        engine="vllm",
    ),
    _cause(
        "missing_weights",
        "KeyError: '",
        r"^KeyError: '(?:model|mtp|language_model|visual|lm_head)\.[\w.]+'",
        t("A tensor of the checkpoint and the model's class do not fit together."),
        _WEIGHTS,
        firm=False,
        phase="load_weights",
    ),
    _cause(
        "missing_weights",
        "CAS service error",
        r"CAS service error",
        t("The Hub's Xet storage refused the download."),
        t("Download first with Xet off (`qwen-tui download`), then serve the local folder."),
        phase="load_weights",
    ),
    _cause(
        "missing_weights",
        "No such file or directory: ",
        r"FileNotFoundError: .*\.(?:safetensors|bin|json)'?",
        t("A file of the checkpoint is missing."),
        _WEIGHTS,
        firm=False,
    ),
    # --- model unknown to this version ------------------------------------------------------------
    _cause(
        "bad_argument",
        "does not recognize this architecture",
        r"does not recognize this architecture",
        t("The installed Transformers does not know this model."),
        t("Use an engine release that supports the model (Qwen3.5 and later need a recent one)."),
        firm=False,
        phase="args",
    ),
    _cause(
        "bad_argument",
        "Model architectures",
        r"Model architectures .* are not supported for now",
        t("This engine version does not know the model's architecture."),
        t("Use an engine release that supports the model."),
        firm=False,
        phase="args",
    ),
    # --- arguments -------------------------------------------------------------------------------
    _cause(
        "bad_argument",
        "error: ",
        r"^[\w. -]*\w: error: (?:unrecognized arguments|ambiguous option|argument |the following arguments"
        r"|invalid choice|expected)",
        t("The command line has an argument that this version does not take."),
        _ARGUMENT,
        phase="args",
    ),
    _cause(
        "bad_argument",
        "is not compatible with radix cache when using",
        r"Speculative decoding for \S+ is not compatible with radix cache",
        t("Speculation with the prefix cache needs the extra-buffer state strategy."),
        t(
            "Pass --mamba-scheduler-strategy extra_buffer (from 0.5.14: "
            "--mamba-radix-cache-strategy), or turn the prefix cache off."
        ),
        phase="args",
        engine="sglang",
    ),
    _cause(
        "bad_argument",
        "HiRadixCache only supports",
        r"HiRadixCache only supports",
        t("The hierarchical cache of this version cannot hold a hybrid model's state."),
        t("Drop --enable-hierarchical-cache, or use a release that supports it for hybrid models."),
        phase="tree_cache",
        engine="sglang",
    ),
    _cause(
        "bad_argument",
        "extra_buffer",
        r"(?:Error|^)[: ]*.*(?:extra_buffer_lazy (?:is not yet supported|unsupported) with spec"
        r"|Lazy extra buffer requires overlap schedule"
        r"|mamba extra_buffer is not compatible with|extra_buffer is not supported for)",
        t("The state-cache strategy does not go with the other arguments on this version."),
        t("Choose extra_buffer, drop the conflicting flag, or use a release that allows it."),
        phase="args",
        engine="sglang",
    ),
    _cause(
        "bad_argument",
        "no_buffer ",
        r"AssertionError: no_buffer (?:only supports page_size=1|do not support overlap)",
        t("The no_buffer state strategy does not go with the other arguments."),
        t("Use page size 1 and --disable-overlap-schedule with it, or the extra_buffer strategy."),
        phase="args",
        engine="sglang",
    ),
    _cause(
        "bad_argument",
        "chunked_prefill_size must be divisible",
        r"chunked_prefill_size must be divisible by page_size",
        t("The prefill chunk is no multiple of the page size."),
        t("Make --chunked-prefill-size a multiple of --page-size."),
        phase="args",
        engine="sglang",
    ),
    _cause(
        "bad_argument",
        "mutually exclusive",
        r"(?:Error|^)[: ]*.*enable-hierarchical-cache and disable-radix-cache are mutually exclusive",
        t("Two arguments exclude each other."),
        _ARGUMENT,
        phase="args",
        engine="sglang",
    ),
    _cause(
        "bad_argument",
        "is not supported together with",
        r"^\w*(?:Error|Exception): .*is not supported together with",
        t("Two arguments exclude each other on this version."),
        _ARGUMENT,
        phase="args",
    ),
    _cause(
        "bad_argument",
        "requires --mamba-ssm-dtype",
        r"requires --mamba-ssm-dtype bfloat16",
        t("The linear-attention backend needs a bfloat16 state on this GPU."),
        t("Pass --mamba-ssm-dtype bfloat16."),
        phase="args",
        engine="sglang",
    ),
    _cause(
        "bad_argument",
        "max_num_batched_tokens (",
        r"max_num_batched_tokens \(\d+\) (?:must be greater than or equal to|is smaller than)",
        t("The prefill chunk is too small for the other limits."),
        t("Raise --max-num-batched-tokens, or lower --max-num-seqs or --max-model-len."),
        phase="args",
        engine="vllm",
    ),
    _cause(
        "bad_argument",
        "validation error for",
        r"ValidationError: \d+ validation errors? for",
        t("vLLM refused a value of its configuration."),
        _ARGUMENT,
        firm=False,
        phase="args",
        engine="vllm",
    ),
    _cause(
        "bad_argument",
        "not valid for this configuration",
        r"Selected backend \S+ is not valid for this configuration",
        t("The attention backend that was asked for does not fit this model or GPU."),
        t("Drop --attention-backend, or name one that the message allows."),
        engine="vllm",
    ),
    _cause(
        "bad_argument",
        "Invalid kv_cache_dtype",
        r"Invalid kv_cache_dtype",
        t("The KV data type is unknown to this version."),
        _ARGUMENT,
        phase="args",
        engine="vllm",
    ),
    _cause(
        "bad_argument",
        "No valid cudagraph sizes after rounding",
        r"No valid cudagraph sizes after rounding",
        t("No graph size is a multiple of the drafted tokens plus one."),
        _ARGUMENT,
        engine="vllm",
    ),
    _cause(
        "bad_argument",
        "currently not compatible with speculative decoding",
        r"Mamba cache mode 'align' is currently not compatible with speculative decoding",
        t("This version cannot speculate with the prefix cache on a hybrid model."),
        t("Turn the prefix cache off (--no-enable-prefix-caching), or use 0.17.1 or later."),
        phase="args",
        engine="vllm",
    ),
    _cause(
        "bad_argument",
        "mamba-block-size can only be set",
        r"--mamba-block-size can only be set with --enable-prefix-caching",
        t("The state block size needs the prefix cache."),
        _ARGUMENT,
        phase="args",
        engine="vllm",
    ),
    # --- modules, devices, ports, time -------------------------------------------------------------
    _cause(
        "module_missing",
        "No module named",
        r"^(?:ModuleNotFoundError|ImportError): No module named '?(?P<module>[\w.]+)",
        t("A Python module that the engine imports is not installed."),
        t("Install it into the engine's environment, or reinstall the engine with its extras."),
        firm=False,
    ),
    _cause(
        "module_missing",
        "ImportError: ",
        r"^ImportError: (?!.*No module named)",
        t("A library or name that the engine imports does not exist in this environment."),
        t("Install matching versions: reinstall the engine in an environment of its own."),
        firm=False,
    ),
    _cause(
        "engine_start_failed",
        "Failed to infer device type",
        r"Failed to infer device type",
        t("No device was found: no driver, no GPU, or a CPU build."),
        t("Check the driver with `qwen-tui doctor`; in a container pass the GPUs to it."),
        phase="args",
        engine="vllm",
    ),
    _cause(
        "engine_start_failed",
        "Timed out waiting for engine core",
        r"Timed out waiting for engine core processes to start",
        t("The engine core did not start in time."),
        t("Raise VLLM_ENGINE_READY_TIMEOUT_S: a first start compiles for many minutes."),
        engine="vllm",
    ),
    _cause(
        "port_in_use",
        "ddress already in use",
        r"(?:\[Errno 98\].*|OSError: .*|Error: .*)[Aa]ddress already in use",
        t("Another process listens on the port."),
        t("Stop that process or choose another --port; children of an earlier server may hold it."),
    ),
    _cause(
        "port_in_use",
        "is not available in",
        r"ValueError: .* at \d+ is not available in \d+ seconds",
        t("A port that the engine needs inside is taken."),
        t("Stop the process that holds it, or choose other ports."),
        engine="sglang",
    ),
    _cause(
        "watchdog_timeout",
        "atchdog timeout",
        r"[Ww]atchdog timeout \(self\.watchdog_timeout=",
        t("A step took longer than the watchdog allows, so the engine ended itself."),
        t("Raise --watchdog-timeout when the step is known to be slow; else see the stacks above."),
        engine="sglang",
    ),
    # --- generic run-time causes -------------------------------------------------------------------
    _cause(
        "kv_pool_no_memory",
        "alloc_req_slots runs out of memory",
        r"alloc_req_slots runs out of memory",
        t("More requests ran than the engine has request slots for."),
        t("Lower --max-running-requests."),
        engine="sglang",
    ),
    _cause(
        "scheduler_crash",
        "emory leak detected",
        r"(?:memory leak detected!|Mem Leak Detected!)",
        t("The engine's own check found that its pools do not add up."),
        t("An engine defect: report it upstream with the lines above."),
        engine="sglang",
    ),
    _cause(
        "scheduler_crash",
        "emory leak",
        r"Mem Leak Detected!",
        t("The engine's own check found that its pools do not add up."),
        t("An engine defect: report it upstream with the lines above."),
        engine="sglang",
    ),
    _cause(
        "killed",
        "killed",
        r"(?:Main process exited, code=killed|has been killed by the OOM killer)",
        t("The process was killed from outside."),
        t("Usually the host ran out of memory (`dmesg -T | grep -i oom`): free some, or add swap."),
    ),
    _cause(
        "killed",
        "Killed",
        r"^(?:.*: line \d+: +\d+ )?Killed\b(?:\s|$)",
        t("The process was killed from outside."),
        t("Usually the host ran out of memory (`dmesg -T | grep -i oom`): free some, or add swap."),
    ),
    _cause(
        "killed",
        "exit code",
        r"(?:crashed with exit code|exit code:|exited with code|died unexpectedly.*exit code:?) ?-9\b",
        t("A process of the engine was killed from outside."),
        t("Usually the host ran out of memory (`dmesg -T | grep -i oom`): free some, or add swap."),
    ),
)


def _echo(name: str, needle: str, pattern: str, engine: str, *, death: bool = True) -> Echo:
    return Echo(name, needle, re.compile(pattern), engine, death)


ECHOES: tuple[Echo, ...] = (
    _echo(
        "scheduler_exception", "Scheduler hit an exception", r"Scheduler hit an exception", "sglang"
    ),
    _echo(
        "manager_exception",
        "Manager hit an exception",
        r"(?:Detokenizer|Tokenizer)Manager hit an exception",
        "sglang",
    ),
    _echo(
        "sigquit",
        "eceived sigquit from a child",
        r"Received sigquit from a child process",
        "sglang",
    ),
    _echo("sigquit", "SIGQUIT received", r"SIGQUIT received\.", "sglang"),
    _echo(
        "subprocess",
        "crashed with exit code",
        r"Subprocess \S+ \(pid=\d+\) crashed with exit code (?P<code>-?\d+)",
        "sglang",
    ),
    _echo(
        "rank_died",
        "scheduler died during init",
        r"Rank \d+ scheduler died during initialization \(exit code: (?P<code>-?\d+)",
        "sglang",
    ),
    _echo("rank_died", "scheduler is dead", r"Rank \d+ scheduler is dead", "sglang"),
    _echo("init_failed", "Initialization failed.", r"Initialization failed\.", "sglang"),
    _echo(
        "graph_failed",
        "raph failed: ",
        r"^(?:Exception|RuntimeError): Capture .*(?i:cuda) graph failed: ",
        "sglang",
    ),
    _echo("core_failed", "EngineCore failed to start", r"EngineCore failed to start", "vllm"),
    _echo(
        "core_fatal",
        "EngineCore encountered a fatal error",
        r"EngineCore encountered a fatal error",
        "vllm",
    ),
    _echo(
        "core_issue", "EngineCore encountered an issue", r"EngineCore encountered an issue", "vllm"
    ),
    _echo(
        "worker_failed", "WorkerProc ", r"WorkerProc (?:failed to start|hit an exception)", "vllm"
    ),
    _echo(
        "core_init",
        "Engine core initialization failed",
        r"Engine core initialization failed",
        "vllm",
    ),
    _echo(
        "worker_died",
        "died unexpectedly",
        r"(?:Worker|Engine core) proc(?:ess)? \S+ died unexpectedly(?:.*exit code: (?P<code>-?\d+))?",
        "vllm",
    ),
    _echo("dead_error", "EngineDeadError", r"EngineDeadError", "vllm"),
)
