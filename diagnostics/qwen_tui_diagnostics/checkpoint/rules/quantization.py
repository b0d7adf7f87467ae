"""What the engine would build for each module against what is stored."""

from __future__ import annotations

from qwen_tui_diagnostics.checkpoint.collect import Rule
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

__all__ = ["CONFIG_RULES", "RULES"]

_E, _W, _I = Severity.ERROR, Severity.WARN, Severity.INFO
_CONFIG = "sglang 0.5.17–0.5.23, layers/quantization"
_GARBAGE = t(
    "The stored tensors find no parameter: SGLang warns at most, starts, answers HTTP 200 and the "
    "output is garbage."
)
_VLLM = t("vLLM stops at the first tensor that finds no parameter.")
_REFUSES = t("The engine stops with an assertion on the shapes.")

CONFIG_RULES: tuple[Rule, ...] = (
    Rule("Q17", _E, t("quantization_config stands under text_config only"),
         t("SGLang does not look there: it builds an unquantized model. Garbage, or out of "
           "memory."),
         t("Move it to the top level of config.json, or launch with --quantization {method}."),
         "ai-dynamo/aiconfigurator#454"),
    Rule("Q01", _E, t("a quantization that this engine does not take"),
         t("The engine refuses to start."),
         t("Take a release in a format for this engine, or another engine version."), _CONFIG),
    Rule("Q00", _I, t("a quantization that the verifier does not know"),
         t("What the engine builds was not compared with what is stored."),
         None, "table of quantization methods"),
)  # fmt: skip
"""What is wrong with the config itself, before any tensor is looked at."""

RULES: tuple[Rule, ...] = (
    Rule("Q20", _E, t("the declared quantization is not the stored one"),
         _GARBAGE, t("A wrong config.json was copied in: take it from the same release."),
         _CONFIG, _VLLM),
    Rule("Q16", _E, t("modules that no target of the quantization config covers"),
         t("The engine stops: `Unable to find matching target`."),
         t("Add the modules to a group's targets, or to ignore."),
         "vllm-project/llm-compressor#1763"),
    Rule("Q05", _E, t("parts of one fused matrix are quantized differently"),
         t("The engine builds them as one matrix and stops: `Found different quantization "
           "schemes`."),
         t("Quantize all parts of the matrix, or none."), "sgl-project/sglang#18189"),
    Rule("Q12", _E, t("a quantized output head that this engine does not load"),
         t("The head is built unquantized and stays uninitialized: every token is garbage."),
         t("Take a release with a BF16 head, or an engine version that loads it."),
         "mudler/vllm.cpp#164", t("vLLM stops at the head's tensors.")),
    Rule("Q13", _E, t("quantized embedding or vision tower"),
         t("The engine never builds these quantized: garbage, or an assertion on the shapes."),
         t("Take a release that keeps them BF16."), _CONFIG),
    Rule("Q14", _E, t("matrices that the quantized kernels cannot take"),
         t("The kernel's size checks fail and the engine stops."),
         t("Keep these matrices BF16."), "sgl-project/sglang#30598"),
    Rule("Q02", _E, t("the config leaves modules unquantized that are stored quantized"),
         _GARBAGE, t("Delete the entry from the config's list of unquantized modules."),
         "sgl-project/sglang#22287", _VLLM),
    Rule("Q03", _E, t("the config quantizes modules that are stored unquantized"),
         _GARBAGE, t("Add to the list of unquantized modules: {entry}"),
         "vllm-project/vllm#40252", _VLLM),
    Rule("Q08", _E, t("a scale or weight of an impossible dtype"),
         t("The copy into the parameter fails, or the values are misread."),
         t("Export the checkpoint again."), _CONFIG),
    Rule("Q09", _E, t("packed weights do not unpack to the shape of config.json"),
         _REFUSES, t("The config belongs to another size, or the export is broken."), _CONFIG),
    Rule("Q10", _E, t("scales are for another group size than the declared one"),
         _REFUSES, t("Set group_size (or block size) to what the scales were made for."), _CONFIG),
    Rule("Q06", _E, t("scales or other companions of quantized weights are missing"),
         t("The parameter keeps uninitialized memory: the server starts and the output is "
           "garbage, or it stops with a KeyError."),
         t("Export the checkpoint again, or take another release."), "sgl-project/sglang#3604"),
    Rule("Q15", _W, t("the MTP head is not stored as the engine builds it"),
         t("Nothing fails: the draft's parameters stay uninitialized and acceptance is near zero."),
         t("Add the head to the config's list of unquantized modules ({entry}), or launch without "
           "speculation."), "ROCm/ATOM#755", t("vLLM stops when the draft is loaded.")),
    Rule("Q18", _W, t("config.json and hf_quant_config.json disagree"),
         t("SGLang follows config.json."),
         t("Make them agree: they come from different exports."), _CONFIG),
    Rule("Q11", _W, t("parts of one fused matrix have different global scales"),
         t("SGLang keeps the largest and does not rescale: the other parts come out wrong by the "
           "ratio."),
         t("Export again with shared scales for fused matrices."), "sgl-project/sglang#29151"),
    Rule("Q21", _W, t("modules stored in another way than their peers"),
         t("They load, but the export mixed two recipes: quality or speed may differ."),
         t("Compare with the release's own description, or export again."), _CONFIG),
    Rule("Q04", _I, t("entries of the unquantized list match no module"),
         t("They have no effect."), None, "sgl-project/sglang#23687"),
    Rule("Q07", _W, t("scales without the weight that they belong to"),
         t("They find no parameter and are skipped."),
         t("Leftovers of a rewrite: export the checkpoint again."), _CONFIG),
    Rule("Q19", _I, t("KV cache scales and their declaration differ"),
         t("Declared without scales: 1.0 is used. Stored without declaration: ignored."),
         t("Declare the FP8 KV cache, or leave the scales out."), "sgl-project/sglang#31220"),
)  # fmt: skip
