"""The tensors against the architecture in ``config.json``."""

from __future__ import annotations

from qwen_tui_diagnostics.checkpoint.collect import Rule
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

__all__ = ["CONFIG_RULES", "RULES"]

_E, _W, _I = Severity.ERROR, Severity.WARN, Severity.INFO
_MODEL = "sglang 0.5.17–0.5.23, models/qwen3_5.py"
_GARBAGE = t(
    "SGLang warns at most `Parameter … not found in params_dict`, starts, answers HTTP 200 and "
    "the output is garbage: the parameters keep uninitialized memory."
)
_VLLM = t("vLLM refuses to start: weights were not initialized from the checkpoint.")
_SHAPES = t("The engine stops with an assertion on the shapes.")

CONFIG_RULES: tuple[Rule, ...] = (
    Rule("M01", _E, t("config.json cannot be used"),
         t("The engine refuses to start."), t("Download config.json again."), _MODEL),
    Rule("M02", _E, t("{engine} {version} does not have this architecture"),
         t("The engine refuses to start, or falls back to the slow generic implementation."),
         t("Use {engine} {needs} or newer."), _MODEL),
    Rule("M00", _I, t("an architecture that the verifier does not know"),
         t("Files and index were judged; tensors and quantization were not."),
         None, "table of architectures"),
)  # fmt: skip
"""What is wrong with the config itself, before any tensor is looked at."""

RULES: tuple[Rule, ...] = (
    Rule("M07", _E, t("the tensor names carry a prefix that this architecture does not load"),
         _GARBAGE,
         t("Rename the keys, or change `architectures` to the class that they belong to."),
         _MODEL, _VLLM),
    Rule("M08", _E, t("delta-net projections are stored fused, as in Qwen3-Next"),
         _GARBAGE, t("Export the checkpoint again with a converter for this architecture."),
         _MODEL, _VLLM),
    Rule("M04", _E, t("the layers in the files are not those of config.json"),
         _GARBAGE, t("config.json belongs to another size, or files are missing: take both from "
                     "one release."), _MODEL, _VLLM),
    Rule("M05", _E, t("shapes in the files are not those of config.json"),
         _SHAPES, t("config.json belongs to another size: take it from the same release."), _MODEL),
    Rule("M06", _E, t("output head and `tie_word_embeddings` contradict each other"),
         t("The head stays uninitialized: the output is garbage (0.5.23 stops with an error)."),
         t("Set tie_word_embeddings right, or add the head."), _MODEL, _VLLM),
    Rule("M03", _E, t("tensors that the architecture needs are missing"),
         _GARBAGE, t("The export is incomplete or pruned: download it again, or take another "
                     "release."), "sgl-project/sglang#33245", _VLLM),
    Rule("M12", _E, t("the n-gram table (PLE) is not whole"),
         t("Rows stay uninitialized without a word, or the loader refuses the layout."),
         t("Download the table's files again."), "ggml-org/llama.cpp#27742"),
    Rule("M11", _E, t("the vision tower is missing"),
         t("Its parameters stay uninitialized: images are read as noise."),
         t("Launch with --language-only (then verify with --language-only), or take a release "
           "with the tower."), _MODEL, _VLLM),
    Rule("M09", _W, t("the MTP head is missing or incomplete"),
         t("Nothing fails: speculation runs with an uninitialized head, the accept length is near "
           "1 and decoding is slower than without."),
         t("Take a release with the head, or launch without speculation."),
         "vllm-project/llm-compressor#2482"),
    Rule("M13", _W, t("files beside the weights are missing or broken"),
         t("Without a tokenizer the engine refuses to start; without a chat template chat requests "
           "fail; without the others defaults are used."),
         t("Download the small files of the release again."), _MODEL),
    Rule("M10", _I, t("an MTP head is stored, but the config declares none"),
         t("Speculation cannot use it."), t("Set mtp_num_hidden_layers."), _MODEL),
    Rule("M14", _I, t("tensors that belong to no known module"),
         t("SGLang warns and skips them."), None, _MODEL,
         t("vLLM stops at a tensor that it does not know.")),
)  # fmt: skip
