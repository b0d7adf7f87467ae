"""All passes in their order: files, index, model, quantization."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.architecture import read_dims
from qwen_tui_diagnostics.checkpoint.collect import Findings
from qwen_tui_diagnostics.checkpoint.configs import read_configs
from qwen_tui_diagnostics.checkpoint.declared.select import select_method
from qwen_tui_diagnostics.checkpoint.headers import (
    check_leftovers,
    read_shards,
    say_no_weights,
)
from qwen_tui_diagnostics.checkpoint.index import check_index, load_order, read_index
from qwen_tui_diagnostics.checkpoint.model_pass import check_model
from qwen_tui_diagnostics.checkpoint.quant_context import QuantContext
from qwen_tui_diagnostics.checkpoint.quant_pass import check_quantization
from qwen_tui_diagnostics.checkpoint.recorded import check_records
from qwen_tui_diagnostics.checkpoint.report import (
    Assumed,
    Inventory,
    Judged,
    Reach,
    VerifyReport,
)
from qwen_tui_diagnostics.checkpoint.small_files import check_small_files
from qwen_tui_diagnostics.checkpoint.stock import Stock, take_stock
from qwen_tui_diagnostics.checkpoint.unindexed import check_unindexed, check_unknown_modules
from qwen_tui_diagnostics.checkpoint.values import ValueReader
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui_diagnostics.checkpoint.configs import Configs
    from qwen_tui_diagnostics.checkpoint.declared.select import Selection
    from qwen_tui_diagnostics.checkpoint.headers import Shard
    from qwen_tui_diagnostics.checkpoint.index import Index
    from qwen_tui_diagnostics.checkpoint.source import Source

__all__ = ["NEWEST", "Judgement", "verify_source"]

NEWEST = {"sglang": "0.5.23", "vllm": "0.33.0"}
"""The newest release of each engine whose reading of checkpoints is known."""


@dataclass(slots=True)
class Judgement:
    """What later passes (content, sampling) work on."""

    source: Source
    found: Findings
    index: Index
    shards: dict[str, Shard]
    stock: Stock
    assumed: Assumed


def verify_source(
    source: Source,
    assumed: Assumed,
    *,
    quantization: str | None = None,
    content: Callable[[Judgement], Reach] | None = None,
    sampling: Callable[[Judgement], None] | None = None,
) -> VerifyReport:
    """Judge a checkpoint.

    Args:
        source: Where its files are.
        assumed: Engine, version and launch that it is judged for.
        quantization: The engine's ``--quantization``, where the launch has one.
        content: The pass over whole files.
        sampling: The pass over samples of the data.

    Raises:
        InputError: The folder cannot be listed.
    """
    # A hundred thousand tensors are a million objects, none of them garbage: collections would
    # walk them again and again (half of the time).
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _verify(
            source, assumed, quantization=quantization, content=content, sampling=sampling
        )
    finally:
        if collecting:
            gc.enable()


def _verify(
    source: Source,
    assumed: Assumed,
    *,
    quantization: str | None,
    content: Callable[[Judgement], Reach] | None,
    sampling: Callable[[Judgement], None] | None,
) -> VerifyReport:
    started = time.perf_counter()
    found = Findings(assumed.engine)
    index = read_index(source, found)
    if not index.loaded and not index.skipped and not index.missing:
        return _nothing(source, assumed, found, started)
    shards = read_shards(source, index.loaded, found)
    check_leftovers(source, found)
    reach_index = check_index(index, shards, found, engine=assumed.engine)
    order = load_order(index.loaded, assumed.engine)
    stock = take_stock(order, shards)
    readable = all(shard.header is not None for shard in shards.values())
    complex_ = any(shard.too_complex for shard in shards.values())
    # A cut file hides no names, and the index tells what a file that is not here would hold.
    whole = (readable or index.weight_map is not None) and not found.has("N01", "N09")
    stock.claim(index.lost)
    configs = read_configs(source, found)
    selection = select_method(configs, assumed, quantization=quantization)
    judgement = Judgement(source, found, index, shards, stock, assumed)
    model, quant = _judge_tensors(judgement, configs, selection, whole=whole)
    check_records(judgement)
    reach = Reach.NONE
    if content is not None:
        reach = content(judgement)
    if sampling is not None:
        sampling(judgement)
    return VerifyReport(
        path=source.label,
        judged=Judged(
            files=Reach.PARTIAL if complex_ else Reach.FULL,
            index=reach_index,
            model=model,
            quantization=quant,
            content=reach,
        ),
        architecture=configs.architecture,
        format="safetensors",
        quantization=_words(configs, selection),
        inventory=stock.inventory,
        findings=found.sorted(),
        assumed=assumed,
        seconds=time.perf_counter() - started,
    )


def _nothing(source: Source, assumed: Assumed, found: Findings, started: float) -> VerifyReport:
    form = say_no_weights(source, found)
    check_leftovers(source, found)
    return VerifyReport(
        path=source.label,
        judged=Judged(Reach.FULL, Reach.NONE, Reach.NONE, Reach.NONE, Reach.NONE),
        architecture=None,
        format=form,
        quantization=None,
        inventory=Inventory(),
        findings=found.sorted(),
        assumed=assumed,
        seconds=time.perf_counter() - started,
    )


def _judge_tensors(
    j: Judgement, configs: Configs, selection: Selection, *, whole: bool
) -> tuple[Reach, Reach]:
    """Run model and quantization pass as far as the config allows."""
    if not configs.readable:
        return Reach.NONE, Reach.NONE
    row = configs.row
    dims = read_dims(configs.config)
    check_small_files(j.source, dims, j.found)
    if row is None:
        j.found.add("M00", evidence=configs.architecture or "?", files=["config.json"])
        check_unindexed(j, dims, known=False)
        return Reach.NONE, Reach.NONE
    since = row.since.get(j.assumed.engine)
    if since is not None and not in_range(j.assumed.engine_version, since, None):
        j.found.add(
            "M02",
            evidence=f"{row.name}, {j.assumed.engine} {j.assumed.engine_version}",
            files=["config.json"],
            fields={
                "engine": j.assumed.engine,
                "version": j.assumed.engine_version,
                "needs": since,
            },
        )
    check_unindexed(j, dims, known=True)
    model = check_model(j.stock, dims, configs, j.found, j.assumed, whole=whole)
    if row.flash:
        from qwen_tui_diagnostics.checkpoint.ple import check_table

        check_table(j.stock, dims, j.found, whole=whole)
    check_unknown_modules(j)
    reach = Reach.FULL if whole and model.usable and not j.stock.claimed else Reach.PARTIAL
    if j.found.errors("FN"):
        reach = Reach.PARTIAL
    if dims.layers is None or not dims.kinds or dims.hidden is None:
        # Nothing could be compared: that is not known, and not a fault either.
        j.found.add(
            "M01",
            severity=Severity.INFO,
            evidence=t("no usable num_hidden_layers, layer_types or hidden_size"),
            consequence=t("The tensors were not compared with the config."),
            files=["config.json"],
        )
        reach = Reach.NONE
    quant = check_quantization(
        QuantContext(
            stock=j.stock,
            model=model,
            dims=dims,
            configs=configs,
            selection=selection,
            found=j.found,
            assumed=j.assumed,
            values=ValueReader(j.source, j.shards),
            whole=whole,
        )
    )
    if quant is Reach.FULL and j.found.errors("FN"):
        quant = Reach.PARTIAL
    return reach, quant


def _words(configs: Configs, selection: Selection) -> str | None:
    if not configs.readable:
        return None
    if selection.method is not None:
        return selection.method.words
    return selection.name or "none"
