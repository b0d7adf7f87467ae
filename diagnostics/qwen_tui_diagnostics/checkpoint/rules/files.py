"""Files and index: what must hold before a tensor can be looked at."""

from __future__ import annotations

from qwen_tui_diagnostics.checkpoint.collect import Rule
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

_E, _W, _I = Severity.ERROR, Severity.WARN, Severity.INFO
_FORMAT = "safetensors 0.8.0, reader"
_LOADER = "sglang 0.5.17–0.5.23, weight loader"
_AGAIN = t("Download this file again (qwen-tui download).")

RULES: tuple[Rule, ...] = (
    Rule("F01", _E, t("no safetensors file in the folder"),
         t("The engine finds no weights it can load and refuses to start."),
         t("Download the checkpoint again, or pick a release in safetensors."), _LOADER),
    Rule("F02", _E, t("a Git LFS pointer stands where the data should be"),
         t("The reader takes the text for an enormous header: HeaderTooLarge."),
         t("Run git lfs pull, or fetch the file with qwen-tui download."),
         "huggingface/transformers#27923"),
    Rule("F03", _E, t("a saved error page instead of data"),
         t("The reader refuses the file; the engine does not start."),
         t("The server sent a message: check token, mirror and name, then download it again."),
         _FORMAT),
    Rule("F10", _E, t("a file cannot be read"),
         t("The engine stops when it opens the file."),
         t("Restore the file or the blob it links to; check its permissions."), _LOADER),
    Rule("F04", _E, t("the file ends inside its header"),
         t("The reader refuses the file; the engine does not start."), _AGAIN, _FORMAT),
    Rule("F05", _E, t("the header cannot be read"),
         t("The reader refuses the whole file; the engine does not start."),
         t("Download this file again; if it stays so, it needs a newer safetensors or is broken "
           "in the release."), _FORMAT),
    Rule("F06", _E, t("the header's offsets do not cover the data"),
         t("The reader refuses the whole file; the engine does not start."),
         t("Download this file again; a file written by hand needs a correct header."), _FORMAT),
    Rule("F07", _E, t("the file does not end where its data ends"),
         t("The reader says `incomplete metadata, file not fully covered`; the engine does not "
           "start."), _AGAIN, "hiyouga/LlamaFactory#2922"),
    Rule("F08", _W, t("a name occurs twice in one header"),
         t("The reader takes the last entry without a word."),
         t("Export the file again."), _FORMAT),
    Rule("F09", _W, t("an unfinished download is left in the folder"),
         t("The engine ignores it; a file that it stands for may be missing or half empty."),
         t("Finish the download (qwen-tui download), or delete the leftover."),
         "huggingface_hub 2.4.0, aria2"),
    Rule("F11", _W, t("a file has holes where data should be"),
         t("Holes read as zeros: the engine loads them as weights without complaint."),
         t("The file was preallocated and never filled: download it again."),
         "lseek(2), SEEK_HOLE"),
    Rule("N01", _E, t("the index cannot be read"),
         t("The engine reads this index to choose files and stops."),
         t("Download model.safetensors.index.json again, or regenerate it."), _LOADER),
    Rule("N08", _E, t("the index names a file in a subfolder"),
         t("SGLang looks for files in the top folder only: this one is dropped without a word and "
           "its parameters stay uninitialized. The output is garbage."),
         t("Move the file up and name it so in the index."), _LOADER,
         t("vLLM refuses to start: the file is not among those it lists.")),
    Rule("N02", _E, t("the index names files that are not there"),
         t("The engine refuses to start: `references … shard file(s) missing`."),
         t("Finish the download, or regenerate the index for the files that are here."),
         "sgl-project/sglang#32279"),
    Rule("N09", _E, t("numbered files are missing and there is no index"),
         t("The engine loads the files that are there; the parameters of the others stay "
           "uninitialized. The server starts and the output is garbage."),
         t("Download the missing numbers and the index."), _LOADER,
         t("vLLM refuses to start: weights were not initialized.")),
    Rule("N03", _E, t("the index lists tensors that no loaded file holds"),
         t("Keys of the index are not consulted: the parameters stay uninitialized and the output "
           "is garbage."),
         t("A file is of another revision: download it again, or regenerate the index."), _LOADER,
         t("vLLM refuses to start if the tensors are needed.")),
    Rule("N07", _W, t("files in the folder that the index never names"),
         t("The engine drops them without a word."),
         t("Add their tensors to the index, or delete the files."), _LOADER),
    Rule("N05", _W, t("one tensor is stored in several loaded files"),
         t("The file that comes last by name wins."),
         t("Delete the stale copy."), "vllm-project/vllm#40765"),
    Rule("N10", _W, t("leftover files beside the checkpoint"),
         t("Without an index every file is loaded; the last by name wins."),
         t("Remove the leftovers."), "vllm-project/vllm#40765"),
    Rule("N04", _W, t("tensors lie in another file than the index says"),
         t("SGLang and vLLM load them all the same; transformers fails."),
         t("Regenerate the index."), _LOADER),
    Rule("N06", _W, t("loaded files hold tensors that the index lacks"),
         t("SGLang and vLLM load them all the same."),
         t("Regenerate the index, or remove the tensors."), _LOADER),
    Rule("N11", _I, t("total_size of the index differs from the tensors"),
         t("No engine reads it; it is often the sign of a stale index."),
         t("Regenerate the index."), _LOADER),
    Rule("F12", _I, t("an unusual but valid header"),
         t("None: every reader accepts it."), None, _FORMAT),
)  # fmt: skip
