"""Reading one launch: every answer is a value, ``None`` (absent) or unknown."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.gdn import resolve_strategy, slots_per_request
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules.expression import UNKNOWN, Unknown
from qwen_tui_profiles.rules.models import describe_model
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qwen_tui_profiles.cmdline import Arguments, EngineCommand
    from qwen_tui_profiles.rules.models import ModelFacts

__all__ = ["FORK_VARIABLES", "Asker"]

_MTP_ALGORITHMS = frozenset({"EAGLE", "NEXTN"})
_STATE_FLAGS = ("--max-mamba-cache-size", "--mamba-ssm-dtype", "--mamba-radix-cache-strategy",
                "--mamba-scheduler-strategy", "--mamba-full-memory-ratio")  # fmt: skip
_LOOPBACK = re.compile(r"127\.|localhost$|::1$")
FORK_VARIABLES = ("SGLANG_QWEN4_PLE_NVME_", "VLLM_PLE_MMAP")
"""Beginnings of variables that no release reads, only a fork or a patched image."""

_Maybe = object


class Asker:
    """Reads one command; every answer is a value, ``None`` (absent) or :data:`UNKNOWN`."""

    def __init__(self, command: EngineCommand, arguments: Arguments) -> None:
        self.command = command
        self.arguments = arguments
        # `$EXTRA` or "${ARGS[@]}" as a word of its own may hold any flag.
        # vLLM's first word is the model.
        words = arguments.positionals[1 if command.engine is EngineKind.VLLM else 0 :]
        self.open = any("$" in word or "`" in word for word in words)

    def calls(self) -> Mapping[str, Callable[..., object]]:
        """Return the functions that conditions may call, by name."""
        return {
            "has": self.has,
            "val": self.val,
            "num": self.num,
            "env": self.env,
            "env_num": self.env_num,
            "under": self.under,
            "json_ok": self.json_ok,
            "taken_back": self.taken_back,
            "ends_with": self.ends_with,
            "literal": self.literal,
            "whole_number": self.whole_number,
        }

    def has(self, *names: str) -> _Maybe:
        """Whether one of the flags was given; unknown when unseen words may hold it."""
        if any(self.arguments.given(name) for name in names):
            return True
        return UNKNOWN if self.open else False

    def without(self, name: str) -> _Maybe:
        """Whether a flag was not given."""
        given = self.has(name)
        return UNKNOWN if given is UNKNOWN else not given

    def val(self, name: str) -> _Maybe:
        """First value of a flag."""
        value = self.arguments.value(name)
        if value is None:
            return UNKNOWN if self.open and not self.arguments.given(name) else None
        return UNKNOWN if "$" in value else value

    def num(self, name: str) -> _Maybe:
        """First value of a flag as a number; vLLM's k, K, m, M, … are understood."""
        return _number(self.val(name))

    def env(self, name: str) -> _Maybe:
        """Value of a variable that the command sets."""
        value = self.command.env.get(name)
        return UNKNOWN if value is not None and "$" in value else value

    def env_num(self, name: str) -> _Maybe:
        """Value of a variable as a number; text that is none is unknown to arithmetic."""
        return _number(self.env(name))

    def under(self, name: str, *path: str) -> _Maybe:
        """Member of a flag whose value is JSON."""
        value = self.val(name)
        if value is None or isinstance(value, Unknown):
            return value
        try:
            found: object = json.loads(str(value))
        except ValueError:
            return UNKNOWN
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def json_ok(self, name: str) -> _Maybe:
        """Whether a flag's value is JSON; true when it was not given."""
        value = self.val(name)
        if value is None or isinstance(value, Unknown):
            return True if value is None else UNKNOWN
        try:
            json.loads(str(value))
        except ValueError:
            return False
        return True

    def taken_back(self, name: str) -> bool:
        """Whether a switch was given as ``--no-…``."""
        option = self.arguments.by_name.get(name)
        return option is not None and option.negated

    def ends_with(self, name: str, suffix: str) -> bool:
        """Whether the text of a flag's value ends so."""
        return (self.arguments.value(name) or "").endswith(suffix)

    def literal(self, name: str) -> bool:
        """Whether a flag's value is written out, not taken from a variable."""
        value = self.arguments.value(name)
        return bool(value) and "$" not in str(value)

    def whole_number(self, name: str) -> _Maybe:
        """Whether a variable holds a whole number; true when it is not set."""
        value = self.env(name)
        if value is None or isinstance(value, Unknown):
            return True if value is None else UNKNOWN
        return re.fullmatch(r"-?\d+", str(value).strip()) is not None

    def needs_fork(self) -> bool:
        """Whether a variable is set that only a fork or a patched image reads."""
        return any(name.startswith(FORK_VARIABLES) for name in self.command.env)

    def card(self) -> int | None:
        """Compute capability that the command itself names (FlashInfer's architecture list)."""
        for name in ("FLASHINFER_CUDA_ARCH_LIST", "TORCH_CUDA_ARCH_LIST"):
            match = re.fullmatch(r"(\d+)\.(\d)[af]?(?:\+PTX)?", self.command.env.get(name, ""))
            if match is not None:
                return int(match[1]) * 10 + int(match[2])
        return None

    def model_name(self) -> _Maybe:
        """Path or repository of the checkpoint."""
        for name in ("--model-path", "--model", "--served-model-name"):
            value = self.val(name)
            if value is not None and value is not UNKNOWN:
                return value
        first = next(iter(self.arguments.positionals), None)
        if first is not None and self.command.engine is EngineKind.VLLM:
            return UNKNOWN if "$" in first else first
        return self.val("--model-path")

    def model_values(self, known: ModelFacts) -> dict[str, object]:
        """Facts about the checkpoint."""
        name = self.model_name()
        named = (name, self.val("--served-model-name"))
        method = self.val("--quantization")
        return {
            "model": name,
            **describe_model(
                known,
                " ".join(part for part in named if isinstance(part, str)),
                method if isinstance(method, str) else "",
                forked=self.needs_fork(),
                # Nobody sizes a state pool for a model that has none.
                has_state=any(self.arguments.given(name) for name in _STATE_FLAGS),
            ),
        }

    def network_values(self) -> dict[str, object]:
        """``open_host``: whether others than this machine can reach the port."""
        host = self.val("--host")
        run = self.command.container
        reachable: object
        if run is not None and not run.host_network:
            # Inside a container the engine listens everywhere; publishing decides.
            reachable = any(not _LOOPBACK.match(address) for address in run.published)
        elif host is UNKNOWN:
            reachable = UNKNOWN
        elif host is None:
            # SGLang listens on loopback by default, vLLM on every address.
            reachable = self.command.engine is EngineKind.VLLM
        else:
            reachable = not _LOOPBACK.match(str(host))
        return {"open_host": reachable}

    def sglang_values(self, values: Mapping[str, object], version: str) -> dict[str, object]:
        """Facts of an SGLang launch; ``values`` are those established before."""
        algorithm = self.val("--speculative-algorithm")
        upper = algorithm.upper() if isinstance(algorithm, str) else algorithm
        speculative: object = UNKNOWN if algorithm is UNKNOWN else algorithm is not None
        steps, topk = self.num("--speculative-num-steps"), self.num("--speculative-eagle-topk")
        asked = self.num("--speculative-num-draft-tokens")
        mtp: object = UNKNOWN if upper is UNKNOWN else upper in _MTP_ALGORITHMS
        drafts: object = asked
        if mtp is True:
            # Nothing given: (3, 1, 4) for Qwen; a chain (topk 1) always verifies steps + 1.
            drafts = 4 if steps is None else asked
            if isinstance(steps, (int, float)) and (topk == 1 or asked is None):
                drafts = int(steps) + 1
        radix = self.without("--disable-radix-cache")
        overlap = self.without("--disable-overlap-schedule")
        page, chunk = self.num("--page-size"), self.num("--chunked-prefill-size")
        state = self._state(
            values, version, speculative=speculative, radix=radix, overlap=overlap, page=page
        )
        return {
            "algorithm": upper,
            "speculative": speculative,
            "mtp": mtp,
            "steps": steps,
            "topk": topk,
            "drafts_asked": asked,
            "drafts": drafts,
            "fraction": self.num("--mem-fraction-static"),
            "page": page,
            "chunk": chunk,
            "radix": radix,
            "overlap": overlap,
            "context": self.num("--context-length"),
            "max_total": self.num("--max-total-tokens"),
            "track_interval": self.num("--mamba-track-interval"),
            "tp": self.num("--tp-size"),
            **state,
        }

    def _state(
        self,
        values: Mapping[str, object],
        version: str,
        *,
        speculative: object,
        radix: object,
        overlap: object,
        page: object,
    ) -> dict[str, object]:
        """State slots: strategy in force, slots a request, requests that the slots serve."""
        asked = self.val("--mamba-radix-cache-strategy")
        if asked is None:
            asked = self.val("--mamba-scheduler-strategy")
        slots = self.num("--max-mamba-cache-size")
        requests = self.num("--max-running-requests")
        inputs = (asked, page, speculative, radix, overlap)
        unknown = UNKNOWN in inputs or not in_range(version, "0.5.7", None)
        strategy: object = UNKNOWN
        per_request: object = UNKNOWN
        if not unknown:
            architecture = values.get("architecture")
            resolved = resolve_strategy(
                str(asked) if asked is not None else None,
                engine_version=version,
                architecture=architecture if isinstance(architecture, str) else None,
                speculative=speculative is True,
                overlap=overlap is True,
                linear_backend=self.arguments.value("--linear-attn-backend"),
                page_size=int(page) if isinstance(page, (int, float)) else None,
            )
            strategy = resolved.name
            counted = slots_per_request(
                engine_version=version,
                strategy=resolved.name,
                radix_cache=radix is True,
                overlap=resolved.overlap,
                speculative=speculative is True,
            )
            if counted is not None and self._skips_decode_lock(version) and radix is True:
                counted -= resolved.name.startswith("extra_buffer")
            per_request = UNKNOWN if counted is None else counted
        served: object = UNKNOWN
        if isinstance(slots, (int, float)) and isinstance(per_request, int):
            served = int(slots) // per_request
        elif slots is None:
            served = None
        return {
            "strategy": strategy,
            "strategy_asked": asked,
            "extra_buffer": UNKNOWN
            if strategy is UNKNOWN
            else str(strategy).startswith("extra_buffer") and radix is True,
            "per_request": per_request,
            "slots": slots,
            "requests": requests,
            "served": served,
        }

    def _skips_decode_lock(self, version: str) -> bool:
        """Whether the switch is on that lets a running request hold one slot less."""
        value = self.env("SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK")
        on = str(value).lower() in {"1", "true", "yes", "on"}
        return on and in_range(version, "0.5.17", None)

    def _switch(self, name: str) -> _Maybe:
        """True or False as a switch was given; ``None`` when it was not."""
        option = self.arguments.by_name.get(name)
        if option is None:
            return UNKNOWN if self.open else None
        return not option.negated

    def vllm_values(self) -> dict[str, object]:
        """Facts of a vLLM launch."""
        method = self.under("--speculative-config", "method")
        count = self.under("--speculative-config", "num_speculative_tokens")
        if not self.arguments.given("--speculative-config"):
            method, count = self.val("--spec-method"), self.num("--spec-tokens")
        graph = self.under("--compilation-config", "cudagraph_mode")
        level = self.val("--optimization-level")
        if level is None:
            level = self.under("--compilation-config", "mode")
        if level is None:
            level = self.under("--compilation-config", "level")
        return {
            "speculative": self.has("--speculative-config", "--spec-method"),
            "method": method,
            "draft_count": _number(count),
            "prefix_caching": self._switch("--enable-prefix-caching"),
            "utilization": self.num("--gpu-memory-utilization"),
            "sequences": self.num("--max-num-seqs"),
            "batched": self.num("--max-num-batched-tokens"),
            "context": self.num("--max-model-len"),
            "graph_mode": graph.upper() if isinstance(graph, str) else graph,
            "compile_level": level if level is UNKNOWN or level is None else str(level),
            "tp": self.num("--tensor-parallel-size"),
        }


_SUFFIXES = {
    **{"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12},
    **{"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40},
}


def _number(value: object) -> object:
    """Return a number; ``None`` stays absent, text that is no number becomes unknown."""
    if value is None or isinstance(value, (Unknown, bool)):
        return value if not isinstance(value, bool) else int(value)
    text = str(value).strip()
    match = re.fullmatch(r"(-?(?:\d+(?:\.\d*)?|\.\d+))([kKmMgGtT])?i?", text)
    if match is None:
        return UNKNOWN
    scaled = float(match[1]) * _SUFFIXES.get(match[2] or "", 1)
    return int(scaled) if scaled.is_integer() and "." not in match[1] else scaled
