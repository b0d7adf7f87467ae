"""What the conditions of rules can ask: facts about one launch, each known or :data:`UNKNOWN`.

Everything comes from the command itself, unless the caller knows more (:class:`ModelFacts` from
``config.json``, the card from NVML, pool sizes from the planner). A model that is only a path is
judged by its name where the name is telling, and stays unknown where it is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules.ask import Asker
from qwen_tui_profiles.rules.expression import UNKNOWN
from qwen_tui_profiles.rules.models import ModelFacts
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qwen_tui_profiles.cmdline import Arguments, EngineCommand

__all__ = ["FACT_NAMES", "Facts"]

_GB10 = 121
_BIG_CARD_GIB = 60
"""Above it the engine itself reserves 10 GiB and more; figures of 32 GB cards say little."""


@dataclass(frozen=True)
class Facts:
    """The facts of one launch and the functions that conditions may call."""

    values: Mapping[str, object]
    command: EngineCommand
    arguments: Arguments
    calls: Mapping[str, Callable[..., object]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        command: EngineCommand,
        arguments: Arguments,
        version: str,
        *,
        model: ModelFacts | None = None,
        card: int | None = None,
        card_gib: float | None = None,
        kv_tokens: int | None = None,
        version_stated: bool = True,
        fork: bool = False,
    ) -> Facts:
        """Establish everything that can be established about ``command``.

        Args:
            command: The launch.
            arguments: Its flags, read for ``version``.
            version: Engine version that is judged for.
            model: What is known of the checkpoint beyond its name.
            card: Compute capability times ten (120), when known.
            card_gib: Memory of the card, when known.
            kv_tokens: Pool size as planned or measured, when known.
            version_stated: False when the version is only assumed.
            fork: Whether the engine is known to be the build that the launch needs.
        """
        ask = Asker(command, arguments)
        image = command.container.image if command.container else None
        config = next((w for w in command.argv if w.startswith("--config=")), None)
        script = "\n".join(command.script)
        values: dict[str, object] = {
            "version_stated": version_stated,
            "fork": fork,
            "needs_fork": ask.needs_fork(),
            "card": _or_unknown(card if card is not None else ask.card()),
            "card_gib": _or_unknown(card_gib),
            "kv_tokens": _or_unknown(kv_tokens),
            # Known to be so; a card that is not known is neither of the three.
            "big_card": _is_big(card, card_gib),
            "discrete": card is not None and card != _GB10,
            "unified": card == _GB10,
            "entry": command.entry,
            "container": command.container is not None,
            "flash_image": image is not None and "flash-dgx" in image.lower(),
            "config_glued": config is not None,
            "gateway_debug": "litellm" in script and "--detailed_debug" in script,
        }
        values |= ask.model_values(model or ModelFacts())
        values |= ask.network_values()
        if command.engine is EngineKind.VLLM:
            values |= {**dict.fromkeys(_SGLANG_FACTS, UNKNOWN), **ask.vllm_values()}
        else:
            values |= {**dict.fromkeys(_VLLM_FACTS, UNKNOWN), **ask.sglang_values(values, version)}
        calls = {
            **ask.calls(),
            "release": lambda line: in_range(version, str(line), str(line)),
        }
        return cls(values, command, arguments, calls)


_SGLANG_FACTS = (
    *("algorithm", "steps", "topk", "drafts_asked", "drafts", "slots", "requests", "fraction"),
    *("page", "chunk", "radix", "overlap", "strategy", "strategy_asked", "per_request", "served"),
    *("extra_buffer", "track_interval", "max_total", "mtp"),
)
_VLLM_FACTS = (
    *("method", "draft_count", "prefix_caching", "utilization", "sequences", "batched"),
    *("graph_mode", "compile_level"),
)
FACT_NAMES = frozenset(
    {
        *_SGLANG_FACTS,
        *_VLLM_FACTS,
        *("version_stated", "fork", "needs_fork", "card", "card_gib", "kv_tokens", "entry"),
        *("big_card", "discrete", "unified"),
        *("container", "flash_image", "config_glued", "gateway_debug", "architecture"),
        *("billions", "model", "kind", "foreign_model", "hybrid", "wrapped", "quant"),
        *("declared_context", "open_host", "context", "speculative", "tp"),
    }
)
"""Every name that a condition may use."""


def _is_big(card: int | None, card_gib: float | None) -> bool:
    if card_gib is not None:
        return card_gib > _BIG_CARD_GIB
    return card in {90, 100, 103}


def _or_unknown(value: object) -> object:
    return UNKNOWN if value is None else value
