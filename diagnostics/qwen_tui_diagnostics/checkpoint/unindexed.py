"""Files that the index never names, and tensors that no known module has (rules N07, M14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.collect import Findings
from qwen_tui_diagnostics.checkpoint.headers import BESIDE, read_shards
from qwen_tui_diagnostics.checkpoint.stock import canonical
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.checkpoint.architecture import Dims
    from qwen_tui_diagnostics.checkpoint.judge import Judgement

__all__ = ["check_unindexed", "check_unknown_modules"]

_NEEDED = ("layers.", "embed_tokens.", "norm.", "lm_head.", "visual.")
_TOP = frozenset({"mtp", "visual", "lm_head", "embed_tokens", "norm", "hyper_connection_mixer"})
_IN_LAYER = frozenset({
    "self_attn", "linear_attn", "mlp", "ple", "attn_hyper_connection", "mlp_hyper_connection",
    "input_layernorm", "post_attention_layernorm",
})  # fmt: skip


def _is_known(module: str) -> bool:
    """Whether a module belongs to the family's layouts."""
    head, _, rest = module.partition(".")
    if head != "layers":
        return head in _TOP
    number, _, part = rest.partition(".")
    return number.isdecimal() and part.partition(".")[0] in _IN_LAYER


def check_unindexed(j: Judgement, dims: Dims, *, known: bool) -> None:
    """Report files that the engine drops; what they hold is then not reported as missing."""
    if j.index.weight_map is None:
        return
    names = [name for name in j.index.skipped if not BESIDE.match(name)]
    # With no file of the index here, the others are another sharding (reported so).
    if not names or not j.index.loaded:
        return
    shards = read_shards(j.source, names, Findings(j.assumed.engine))
    held: dict[str, str] = {}
    for name, shard in shards.items():
        for key in shard.header.tensors if shard.header else ():
            held[key] = name
    loaded = {
        key
        for shard in j.shards.values()
        if shard.header is not None
        for key in shard.header.tensors
    }
    alone = [key for key in held if key not in loaded]
    drafts = [key for key in alone if canonical(key)[1].startswith("mtp.")]
    needed = [key for key in alone if known and canonical(key)[1].startswith(_NEEDED)]
    draft = bool(drafts) and dims.mtp_layers > 0
    serious = bool(needed) or (draft and j.assumed.speculative)
    if needed:
        detail = t("They alone hold {count} tensors that the model needs.", count=len(needed))
    elif draft:
        detail = t(
            "They alone hold the MTP head ({count} tensors): speculation runs without it.",
            count=len(drafts),
        )
    else:
        detail = t("What they hold is not missed.")
    j.found.add(
        "N07",
        severity=Severity.ERROR if serious else Severity.WARN,
        evidence=", ".join(names[:3]),
        detail=detail,
        tensors=needed or drafts or alone,
        count=len(names),
        files=names,
    )
    j.stock.claim(alone)


def check_unknown_modules(j: Judgement) -> None:
    """Report tensors that belong to no module of the architecture."""
    unknown = [
        stored.key
        for module, parts in j.stock.modules.items()
        if not _is_known(module)
        for suffix, stored in parts.items()
        if not (suffix == "inv_freq" or module.endswith("rotary_emb"))
    ]
    if unknown and not j.found.has("M07"):
        j.found.add("M14", evidence=unknown[0], tensors=unknown, count=len(unknown))
