"""State of gated delta-net (GDN, "mamba") layers in SGLang: sizes, slots per request, clamps.

A hybrid model keeps one recurrent state per running request and linear layer, in *slots* of a pool
beside the KV cache. How many slots one request reserves depends on the radix-cache strategy and on
the release; requests that find no slots are clamped away (silently in old releases).

Source: ``_calculate_mamba_ratio`` and the strategy resolution of the released wheels 0.5.9–0.5.23;
the byte sizes reproduce the ``Mamba Cache is allocated`` lines of recorded boots to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.plan.fields import whole
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

__all__ = [
    "NEWEST_CHECKED",
    "StateDims",
    "Strategy",
    "clamp_requests",
    "intermediate_window_rows",
    "replay_ring_bytes",
    "resolve_strategy",
    "slots_per_request",
]

NEWEST_CHECKED = "0.5.23"
"""Newest SGLang release that the tables of this module were read from."""

_CONV_BYTES = 2
"""The convolution window is kept in bfloat16 whatever the state dtype is."""

_STATE_BYTES = {
    "float32": 4,
    "fp32": 4,
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "fp16": 2,
}


@dataclass(frozen=True, slots=True)
class StateDims:
    """Dimensions that decide the size of one recurrent state; per GPU (``tp_size`` 1)."""

    layers: int
    """Linear-attention layers. The draft head has none."""
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    declared_dtype: str
    """``mamba_ssm_dtype`` of the checkpoint; float32 where it declares none."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> StateDims | None:
        """Read the dimensions from a checkpoint's ``config.json``.

        Args:
            config: The parsed document; the text part may be nested under ``text_config``.

        Returns:
            None for a model without linear-attention layers.

        Raises:
            InputError: A field is missing or not a positive whole number.
        """
        nested = config.get("text_config")
        text = nested if isinstance(nested, Mapping) else config
        if "linear_num_value_heads" not in text:
            return None
        layers = _linear_layers(text)
        dtype = text.get("mamba_ssm_dtype")
        return cls(
            layers=layers,
            key_heads=whole(text, "linear_num_key_heads"),
            value_heads=whole(text, "linear_num_value_heads"),
            key_dim=whole(text, "linear_key_head_dim"),
            value_dim=whole(text, "linear_value_head_dim"),
            conv_kernel=whole(text, "linear_conv_kernel_dim"),
            declared_dtype=dtype if isinstance(dtype, str) else "float32",
        )

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution window: queries, keys and values together."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def conv_bytes(self) -> int:
        """Bytes of one layer's convolution window (kernel − 1 columns of bfloat16)."""
        return self.conv_channels * (self.conv_kernel - 1) * _CONV_BYTES

    def ssm_bytes(self, dtype: str | None = None) -> int:
        """Bytes of one layer's recurrent state.

        Args:
            dtype: ``--mamba-ssm-dtype``; None = as the checkpoint declares.

        Raises:
            InputError: The dtype is not one that the engine stores states in.
        """
        name = (dtype or self.declared_dtype).removeprefix("torch.")
        if name not in _STATE_BYTES:
            raise InputError(
                t(
                    "The state dtype {dtype} is not one of {known}.",
                    dtype=name,
                    known="float32, bfloat16, float16",
                ),
                t("Set --mamba-ssm-dtype bfloat16 or float32."),
            )
        return self.value_heads * self.value_dim * self.key_dim * _STATE_BYTES[name]

    def slot_bytes(self, dtype: str | None = None) -> int:
        """Bytes of one state slot over all linear layers (27B: 146.8125 MiB fp32, 74.8125 bf16)."""
        return self.layers * (self.ssm_bytes(dtype) + self.conv_bytes)

    def main_bytes(self, slots: int, dtype: str | None = None) -> int:
        """Bytes allocated for a pool of ``slots`` slots; the engine adds one padding slot."""
        return (slots + 1) * self.slot_bytes(dtype)

    def intermediate_bytes(
        self,
        requests: int,
        draft_tokens: int,
        dtype: str | None = None,
        *,
        engine_version: str | None = None,
    ) -> int:
        """Bytes allocated for the states that verification of drafts can roll back to.

        Args:
            requests: Effective concurrent requests; one padding row is added.
            draft_tokens: Tokens verified per step (``--speculative-num-draft-tokens``); 0 = none.
            dtype: State dtype; None = as the checkpoint declares.
            engine_version: SGLang release; None = the newest known.
        """
        if draft_tokens <= 0:
            return 0
        rows = (requests + 1) * self.layers
        window = intermediate_window_rows(draft_tokens, self.conv_kernel, engine_version)
        return rows * (
            draft_tokens * self.ssm_bytes(dtype) + self.conv_channels * window * _CONV_BYTES
        )


def replay_ring_bytes(
    dims: StateDims, *, draft_tokens: int, cache_length: int, engine_version: str | None = None
) -> tuple[int, int]:
    """Return what ReplaySSM keeps instead of rollback states: bytes per slot, bytes per request.

    0.5.17–0.5.19 keep a window of raw inputs as long as the drafts with every slot; from 0.5.20 on
    it is a ring of ``--linear-replayssm-cache-len`` steps per running request.
    """
    if in_range(engine_version or NEWEST_CHECKED, None, "0.5.19"):
        values = dims.value_heads * dims.value_dim * _CONV_BYTES
        keys = dims.key_heads * dims.key_dim * _CONV_BYTES
        gates = 2 * dims.value_heads * 4
        return dims.layers * draft_tokens * (values + keys + gates), 0
    values = 2 * dims.value_heads * dims.value_dim * _CONV_BYTES
    keys = 2 * dims.key_heads * dims.key_dim * _CONV_BYTES
    return 0, dims.layers * cache_length * (values + keys + dims.value_heads * 4)


@dataclass(frozen=True, slots=True)
class Strategy:
    """The radix-cache strategy that is in force after argument resolution."""

    name: str
    """``no_buffer``, ``extra_buffer`` or ``extra_buffer_lazy``."""
    overlap: bool
    """Whether the overlap schedule is still on; resolution switches it off in some cases."""
    listed: bool
    """False where the release does not resolve ``auto`` for this class; it then counts as
    ``no_buffer`` but keeps its overlap schedule."""


@dataclass(frozen=True, slots=True)
class _SlotRow:
    strategy: str
    overlap: bool | None
    speculative: bool | None
    since: str | None
    until: str | None
    slots: int


# ``None`` in a condition = either. The first row that matches holds.
_SLOTS: tuple[_SlotRow, ...] = (
    _SlotRow("no_buffer", None, None, None, "0.5.6", 3),
    _SlotRow("no_buffer", None, False, "0.5.7", "0.5.7", 5),
    _SlotRow("no_buffer", None, None, "0.5.7", None, 3),
    _SlotRow("extra_buffer", None, False, "0.5.7", "0.5.9", 5),
    _SlotRow("extra_buffer", None, True, "0.5.7", "0.5.9", 4),
    _SlotRow("extra_buffer", True, None, "0.5.10", None, 5),
    _SlotRow("extra_buffer", False, None, "0.5.10", None, 4),
    _SlotRow("extra_buffer_lazy", None, None, "0.5.13", None, 4),
)


@dataclass(frozen=True, slots=True)
class _ListedRow:
    architectures: frozenset[str]
    since: str
    evidence: str


# From which release ``auto`` may become ``extra_buffer`` for a class.
_LISTED: tuple[_ListedRow, ...] = (
    _ListedRow(
        frozenset(
            {
                "Qwen3_5ForConditionalGeneration",
                "Qwen3_5MoeForConditionalGeneration",
                "Qwen3NextForCausalLM",
            }
        ),
        "0.5.14",
        "class list of 0.5.14; recorded boots of 0.5.17 count 5 slots",
    ),
    _ListedRow(
        frozenset({"Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"}),
        "0.5.19",
        "absent from the class lists of 0.5.17 and 0.5.18 (recorded boots count 3), in 0.5.19's",
    ),
    _ListedRow(
        frozenset({"Qwen4ExpForConditionalGeneration"}),
        "0.5.20",
        "class list of 0.5.20",
    ),
)


def slots_per_request(
    *,
    engine_version: str | None,
    strategy: str,
    radix_cache: bool,
    overlap: bool,
    speculative: bool,
) -> int | None:
    """Return how many state slots SGLang reserves for one running request (S).

    Args:
        engine_version: SGLang release; None = the newest known.
        strategy: The resolved strategy (see :func:`resolve_strategy`).
        radix_cache: False with ``--disable-radix-cache``: one slot a request.
        overlap: Whether the overlap schedule is on after resolution.
        speculative: Whether speculative decoding is on.

    Returns:
        None where the release does not have the strategy.
    """
    if not radix_cache:
        return 1
    version = engine_version or NEWEST_CHECKED
    for row in _SLOTS:
        if (
            row.strategy == strategy
            and row.overlap in {None, overlap}
            and row.speculative in {None, speculative}
            and in_range(version, row.since, row.until)
        ):
            return row.slots
    return None


def clamp_requests(asked: int | None, slots: int | None, per_request: int | None) -> int | None:
    """Return the concurrent requests that the state pool admits: ``min(asked, slots // S)``.

    Args:
        asked: ``--max-running-requests`` or its default; None = not known.
        slots: ``--max-mamba-cache-size`` or the solved pool size; None = not known.
        per_request: S of :func:`slots_per_request`; None = not known.

    Returns:
        None when it cannot be told. 0 means that the engine refuses to start.
    """
    if slots is None or per_request is None:
        return None
    admitted = max(slots, 0) // per_request
    return admitted if asked is None else min(asked, admitted)


def resolve_strategy(
    asked: str | None,
    *,
    engine_version: str | None,
    architecture: str | None,
    speculative: bool,
    overlap: bool,
    linear_backend: str | None,
    page_size: int | None,
) -> Strategy:
    """Resolve ``--mamba-radix-cache-strategy`` (``--mamba-scheduler-strategy``) as the engine does.

    Args:
        asked: The flag as given; None = not given, which is ``auto``.
        engine_version: SGLang release; None = the newest known.
        architecture: ``architectures[0]`` of the checkpoint; None = a listed class is assumed.
        speculative: Whether speculative decoding is on.
        overlap: False with ``--disable-overlap-schedule``.
        linear_backend: ``--linear-attn-backend``; None = its default, triton.
        page_size: ``--page-size``; None = its default, 1.

    Returns:
        The strategy in force. Combinations that a release refuses to start with are the business
        of the rules; here they resolve as asked.
    """
    version = engine_version or NEWEST_CHECKED
    name = asked or "auto"
    if name != "auto":
        # Before 0.5.14 a no_buffer launch without drafts lost its overlap schedule with a warning;
        # from then on the engine asserts that it is off already.
        drops = name == "no_buffer" and not speculative and in_range(version, "0.5.7", "0.5.13")
        return Strategy(name, overlap and not drops, True)
    if in_range(version, None, "0.5.13"):
        return Strategy("no_buffer", overlap and speculative, True)
    row = next((r for r in _LISTED if architecture in r.architectures), None)
    if architecture is not None and row is not None and not in_range(version, row.since, None):
        return Strategy("no_buffer", overlap, False)
    paged = page_size is not None and page_size > 1
    if (overlap or paged) and linear_backend in {None, "triton"}:
        return Strategy("extra_buffer", overlap, True)
    return Strategy("no_buffer", False, True)


def intermediate_window_rows(
    draft_tokens: int, conv_kernel: int, engine_version: str | None = None
) -> int:
    """Return the convolution columns kept per request while drafts are verified.

    From 0.5.14 overlapping windows are stored once (D + kernel − 2 columns); before, each of the
    D drafts kept its own kernel − 1 columns.
    """
    if in_range(engine_version or NEWEST_CHECKED, "0.5.14", None):
        return draft_tokens + conv_kernel - 2
    return draft_tokens * (conv_kernel - 1)


def _linear_layers(text: Mapping[str, object]) -> int:
    kinds = text.get("layer_types")
    if isinstance(kinds, list | tuple):
        return sum(1 for kind in kinds if kind == "linear_attention")
    total = whole(text, "num_hidden_layers")
    interval = whole(text, "full_attention_interval")
    return total - total // interval
