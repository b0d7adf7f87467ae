"""Who can reach the server, what leaks, what is not measured, and the way requests come in."""

from __future__ import annotations

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules.rule import Rule
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    Rule(
        id="no-model",
        severity=Severity.ERROR,
        title=t("No model is named"),
        what=t("`the following arguments are required: --model-path` (exit code 2)."),
        remedy=t("Add --model-path with a folder or a repository."),
        when=(
            "not has('--model-path', '--config')"
            " and entry not in ('flags', 'image', 'python -m qwen_tui.demo_engine')"
        ),
        source="argument source, every release",
        shows=(),
    ),
    Rule(
        id="open-host-sglang",
        severity=Severity.WARN,
        title=t("Anyone who reaches this machine can use the server: no API key"),
        what=t(
            "It listens beyond loopback, and generation, /flush_cache and the weights endpoints "
            "ask for no key."
        ),
        remedy=t("Use --host 127.0.0.1 (or publish on 127.0.0.1), or set an API key."),
        when="open_host and not has('--api-key')",
        source="HTTP surface 0.5.6-0.5.23",
        shows=("--host", "--port"),
    ),
    Rule(
        id="open-host-vllm",
        severity=Severity.WARN,
        title=t("Anyone who reaches this machine can use the server: no API key"),
        what=t("vLLM listens on every address unless --host says otherwise, and asks for no key."),
        remedy=t("Use --host 127.0.0.1 (or publish on 127.0.0.1), or set VLLM_API_KEY."),
        when="open_host and not has('--api-key') and env('VLLM_API_KEY') is None",
        engine=EngineKind.VLLM,
        source="HTTP surface 0.14.1-0.33.0",
        shows=("--host", "--port"),
        checked="0.33.0",
    ),
    Rule(
        id="api-key-visible",
        severity=Severity.WARN,
        title=t("The API key stands in the process list and in the engine's log"),
        what=t(
            "SGLang prints every argument at start, the key in clear (up to 0.5.23); vLLM hides it "
            "from 0.29.0 on. `ps` shows it to every user of the machine."
        ),
        remedy=t(
            "Put it where only the server reads it: --config FILE.yaml (mode 0600) for SGLang, "
            "VLLM_API_KEY for vLLM."
        ),
        when="literal('--api-key') or literal('--admin-api-key')",
        engine=None,
        source="server_args line of recorded boots; argument logging 0.5.6-0.5.23",
        shows=("--api-key", "--admin-api-key"),
    ),
    Rule(
        id="trust-remote-code",
        severity=Severity.WARN,
        title=t("--trust-remote-code runs Python that comes with the checkpoint"),
        what=t("The engine has the Qwen3.5/3.8 classes built in and does not need it."),
        remedy=t("Remove --trust-remote-code."),
        when="has('--trust-remote-code') and not foreign_model",
        engine=None,
        source="seed 004 §10; model registry of the released packages",
        shows=("--trust-remote-code",),
    ),
    Rule(
        id="metrics-off",
        severity=Severity.INFO,
        title=t("Without --enable-metrics nobody can watch the server"),
        what=t("/metrics answers 404; queue, cache use, hit rate and accept length are unknown."),
        remedy=t("Add --enable-metrics (and --enable-cache-report for cached tokens per reply)."),
        when="not has('--enable-metrics') and entry != 'flags'",
        source="HTTP surface 0.5.6-0.5.23",
        shows=(),
    ),
    Rule(
        id="idle-core",
        severity=Severity.INFO,
        title=t("An idle server keeps one CPU core busy"),
        what=t("97 to 101 percent of a core without --sleep-on-idle, 1.7 percent with it."),
        remedy=t("Add --sleep-on-idle."),
        when="not has('--sleep-on-idle') and entry != 'flags'",
        source="sgl-project/sglang #1730, #9863; MiaAI-Lab/Qwen3.8-27B-SGLang-DGX-Spark #4",
        shows=(),
    ),
    Rule(
        id="reasoning-in-answer",
        severity=Severity.INFO,
        title=t("Without --reasoning-parser the reasoning arrives inside the answer"),
        what=t("Clients then see raw <think> text, and time to first output cannot be told."),
        remedy=t("Add --reasoning-parser qwen3."),
        when="hybrid and not has('--reasoning-parser') and entry != 'flags'",
        engine=None,
        source="HTTP surface of both engines",
        models=("qwen3_5", "qwen3_5_moe", "flash_next"),
        shows=(),
    ),
    Rule(
        id="sampling-params-inert",
        severity=Severity.WARN,
        title=t("--preferred-sampling-params has no effect on chat completions"),
        what=t("Only /generate reads it."),
        remedy=t("Send the parameters with each request, or put them into generation_config.json."),
        when="has('--preferred-sampling-params')",
        source="sgl-project/sglang #39096",
        shows=("--preferred-sampling-params",),
    ),
    Rule(
        id="xet-ignores-mirror",
        severity=Severity.WARN,
        title=t("A mirror is set, but Xet downloads go around it"),
        what=t(
            "The Xet client asks cas-server.xethub.hf.co whatever HF_ENDPOINT says, and ends with "
            "401."
        ),
        remedy=t("Set HF_HUB_DISABLE_XET=1 as well."),
        when=(
            "env('HF_ENDPOINT') not in (None, '', 'https://huggingface.co')"
            " and env('HF_HUB_DISABLE_XET') not in ('1', 'true', 'True', 'on', 'ON', 'YES', 'yes')"
        ),
        engine=None,
        source="seed 004 §3; huggingface/huggingface_hub #4475",
        shows=("HF_ENDPOINT",),
    ),
    Rule(
        id="gateway-debug",
        severity=Severity.WARN,
        title=t("LiteLLM with --detailed_debug halves throughput at long context"),
        what=t(
            "It formats and logs the whole payload before the model is called: 39.5 against 81.8 "
            "effective tok/s and 2.87 s against 1.00 s to the first token at 63K. Its own overhead "
            "metric showed 0.6 ms."
        ),
        remedy=t("Remove --detailed_debug from the gateway."),
        when="gateway_debug",
        engine=None,
        source="seed 000, second of the two biggest wins",
        shows=(),
    ),
)
