"""What an engine's files say of its build, without running any of them.

Version of torch and CUDA from ``torch/version.py``, the flags from the argument files, the model
types from Transformers' folders, the model classes from the engine's own registry.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from qwen_tui_diagnostics.probes.files import read_text, try_text
from qwen_tui_profiles.flags import respell
from qwen_tui_profiles.flags.source import read_sglang, read_vllm
from qwen_tui_profiles.flags.spec import Arity, FlagTable
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.probes.dist_info import Distribution

__all__ = ["build_facts", "check_flags", "torch_facts"]

_ASSIGNED = re.compile(r"^(__version__|cuda|hip|git_version)\b[^=\n]*=\s*['\"]([^'\"]*)['\"]", re.M)
_REGISTRIES = {"sglang": "sglang/srt/models", "vllm": "vllm/model_executor/models"}
_SHOWN = 5


def build_facts(
    context: Context,
    engine: str,
    packages: Mapping[str, Distribution],
    folders: Sequence[Path],
) -> dict[str, Any]:
    """Return ``{torch, flags, model}`` of an engine; a part that cannot be read is left out."""
    facts: dict[str, Any] = {}
    torch = torch_facts(folders)
    if torch:
        facts["torch"] = torch
    places = (*folders, *_checkouts(packages[engine]))
    root = next((f for f in places if (f / engine).is_dir()), None)
    if root is not None and context.target.argv:
        # The launch writes the flags in the names of the version that is there.
        version = packages[engine].version
        argv = respell(EngineKind(engine), context.target.argv, version)
        flags = check_flags(engine, root, argv)
        if flags is not None:
            facts["flags"] = flags
    if context.target.model_path:
        model = _model_support(Path(context.target.model_path), engine, root, folders)
        if model is not None:
            facts["model"] = model
    return facts


def _checkouts(distribution: Distribution) -> tuple[Path, ...]:
    """Return where the package of an editable installation may lie."""
    parts = urlsplit(distribution.url or "")
    if not distribution.editable or parts.scheme != "file":
        return ()
    checkout = Path(unquote(parts.path))
    # SGLang keeps its package below `python/`; `pip install -e ./python` names that folder.
    return checkout, checkout / "python"


def torch_facts(folders: Sequence[Path]) -> dict[str, Any]:
    """Return ``{version, cuda?, hip?}`` from ``torch/version.py``."""
    for folder in folders:
        text = try_text(folder / "torch/version.py")
        if text is None:
            continue
        values = {name: clean(value) for name, value in _ASSIGNED.findall(text)}
        facts: dict[str, Any] = {"version": values.get("__version__", "")}
        numbers = values.get("cuda", "").split(".")
        if len(numbers) >= 2 and all(part.isdecimal() for part in numbers[:2]):
            facts["cuda"] = [int(part) for part in numbers[:2]]
        if "hip" in values:
            facts["hip"] = values["hip"]
        return facts
    return {}


def check_flags(engine: str, root: Path, argv: Sequence[str]) -> dict[str, Any] | None:
    """Compare a command line with the flags that this build declares.

    Returns:
        ``{declared, unknown, ambiguous, bad_values, deprecated, refused}``, or ``None`` when the
        argument files cannot be read.
    """
    try:
        specs = read_sglang(root) if engine == "sglang" else read_vllm(root)
    except (OSError, SyntaxError, ValueError):
        return None
    if not specs:
        return None
    table = FlagTable(engine, "installed", specs)
    answer: dict[str, Any] = {
        "declared": len(specs),
        "unknown": [], "ambiguous": [], "bad_values": [], "deprecated": [], "refused": [],
    }  # fmt: skip
    for index, item in enumerate(argv):
        if not item.startswith("--") or item == "--":
            continue
        name, equals, inline = item.partition("=")
        spec = table.find(name)
        if spec is None:
            many = table.candidates(name)
            answer["ambiguous" if len(many) > 1 else "unknown"].append(
                {"flag": clean(name), "near": list(many[:_SHOWN] or table.near(name))}
            )
            continue
        if spec.refused:
            answer["refused"].append({"flag": clean(name), "why": clean(spec.refused)})
        if spec.use:
            answer["deprecated"].append({"flag": clean(name), "use": clean(spec.use)})
        value = inline if equals else (argv[index + 1] if index + 1 < len(argv) else None)
        limited = spec.choices if spec.arity is Arity.ONE else None
        if limited and value is not None and value not in limited:
            answer["bad_values"].append(
                {"flag": clean(name), "value": clean(value), "choices": list(limited)}
            )
    return answer


def _model_support(
    model: Path, engine: str, root: Path | None, folders: Sequence[Path]
) -> dict[str, Any] | None:
    """Look for the checkpoint's type in Transformers and its class in the engine's registry."""
    try:
        config: Any = json.loads(read_text(model / "config.json"))
        kind = str(config["model_type"])
        classes = [str(name) for name in config.get("architectures") or []]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    facts: dict[str, Any] = {
        "model_type": clean(kind),
        "architectures": [clean(c) for c in classes],
    }
    transformers = next((f for f in folders if (f / "transformers/models").is_dir()), None)
    if transformers is not None and re.fullmatch(r"[a-z0-9_\-]+", kind):
        names = {kind, kind.replace("-", "_")}
        folder = transformers / "transformers/models"
        auto = try_text(folder / "auto/configuration_auto.py") or ""
        facts["in_transformers"] = any((folder / name).is_dir() for name in names) or (
            f'"{kind}"' in auto
        )
    if root is not None and classes:
        facts["in_engine"] = _declares(root / _REGISTRIES[engine], classes)
    return facts


def _declares(registry: Path, classes: Sequence[str]) -> bool:
    """Tell whether a file of the registry defines one of the classes (or names it in a table)."""
    needles = [f"class {name}(".encode() for name in classes]
    quoted = [f'"{name}"'.encode() for name in classes]
    for path in sorted(registry.glob("*.py")):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if any(needle in data for needle in needles):
            return True
        if path.name == "registry.py" and any(needle in data for needle in quoted):
            return True
    return False
