"""Reading an engine's flags out of its source text, without importing or running any of it.

SGLang declares them in three styles over time (``add_argument`` calls up to 0.5.13, ``A[type, …]``
fields of ``ServerArgs`` from 0.5.14, the same in ``arg_groups/fields`` from 0.5.20); vLLM builds
them from the fields of its config classes. All are plain syntax, so :mod:`ast` is enough, and
0.2 s where ``--help`` needs a working torch and 8 to 18 s.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from qwen_tui_profiles.flags.spec import Arity, FlagSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["read_sglang", "read_vllm", "sglang_flags", "vllm_flags"]

_NO_VALUE_ACTIONS = ("store_true", "store_false", "store_const", "StoreTrue", "StoreConst")
_OPTIONAL = re.compile(r"^(?:typing\.)?Optional\[(.*)\]$", re.DOTALL)
_Names = dict[str, ast.expr]


def read_sglang(site_packages: Path) -> tuple[FlagSpec, ...]:
    """Return the flags of the SGLang that is unpacked in ``site_packages``.

    Raises:
        OSError: its argument files are not there.
        SyntaxError: they are written for a newer Python than this one.
    """
    root = site_packages / "sglang" / "srt"
    files = [root / "server_args.py", *sorted((root / "arg_groups").rglob("*.py"))]
    return sglang_flags({str(file): file.read_text(encoding="utf-8") for file in files})


def read_vllm(site_packages: Path) -> tuple[FlagSpec, ...]:
    """Return the flags of the vLLM that is unpacked in ``site_packages``.

    Raises:
        OSError: its argument files are not there.
        SyntaxError: they are written for a newer Python than this one.
    """
    root = site_packages / "vllm"
    texts = [file.read_text(encoding="utf-8") for file in root.rglob("entrypoints/**/cli_args.py")]
    frontend = next((text for text in texts if "class FrontendArgs" in text), None)
    if frontend is None:
        raise FileNotFoundError(root / "entrypoints" / "cli_args.py")
    configs = [*sorted((root / "config").rglob("*.py")), *root.glob("config.py")]
    return vllm_flags(
        (root / "engine" / "arg_utils.py").read_text(encoding="utf-8"),
        frontend,
        {str(file): file.read_text(encoding="utf-8") for file in configs},
    )


def sglang_flags(sources: Mapping[str, str]) -> tuple[FlagSpec, ...]:
    """Return the flags that SGLang's argument files declare.

    Args:
        sources: Name → text of ``server_args.py`` and every file below ``arg_groups``.

    Raises:
        SyntaxError: a file is not Python of a version that this interpreter reads.
    """
    trees = [ast.parse(text) for text in sources.values()]
    names: _Names = {}
    for tree in trees:
        names.update(_constants(tree))
    found: dict[str, FlagSpec] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                specs = [s for item in node.body if (s := _annotated(item, names)) is not None]
            elif isinstance(node, ast.Call):
                spec = _add_argument(node, names)
                specs = [] if spec is None else [spec]
            else:
                continue
            for spec in specs:
                found.setdefault(spec.name, spec)
    return tuple(found.values())


def vllm_flags(
    engine_source: str, frontend_source: str, configs: Mapping[str, str]
) -> tuple[FlagSpec, ...]:
    """Return the flags of ``vllm serve``.

    Args:
        engine_source: ``engine/arg_utils.py``.
        frontend_source: ``entrypoints/**/cli_args.py`` that declares the front end.
        configs: Name → text of the files below ``config``; they hold the types.

    Raises:
        SyntaxError: a file is not Python of a version that this interpreter reads.
    """
    fields: dict[tuple[str, str], ast.expr] = {}
    names: _Names = {}
    for text in configs.values():
        tree = ast.parse(text)
        names.update(_constants(tree))
        fields.update(((name, field), kind) for name, field, kind in _class_fields(tree))
    engine = ast.parse(engine_source)
    names.update(_constants(engine))
    # `model_kwargs = get_kwargs(ModelConfig)`: which class a flag takes its type from.
    for node in ast.walk(engine):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call, target = node.value, node.targets[0]
            if _text(call.func) == "get_kwargs" and call.args:
                owner = _text(call.args[0])
                fields.update(
                    ((_text(target), field), kind)
                    for (name, field), kind in list(fields.items())
                    if name == owner
                )
    found: dict[str, FlagSpec] = {}
    for node in ast.walk(engine):
        spec = _vllm_argument(node, fields, names)
        if spec is not None:
            found.setdefault(spec.name, spec)
    frontend = ast.parse(frontend_source)
    names.update(_constants(frontend))
    for class_name, field, annotation in _class_fields(frontend):
        if class_name.endswith("FrontendArgs"):
            name = "--" + field.replace("_", "-")
            found.setdefault(name, _typed((name,), annotation, names, switch=True))
    for node in ast.walk(frontend):
        if isinstance(node, ast.Call):
            spec = _add_argument(node, names)
            if spec is not None:
                found.setdefault(spec.name, spec)
    return tuple(found.values())


def _annotated(item: ast.stmt, names: _Names) -> FlagSpec | None:
    """Read ``field: A[type, Arg(…) or "help", …]``."""
    if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
        return None
    annotation = item.annotation
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return None
    if _text(annotation.value) not in {"A", "Annotated"}:
        return None
    kind, *metadata = annotation.slice.elts
    arguments: dict[str, ast.expr] = {}
    declared = False
    for entry in metadata:
        if isinstance(entry, ast.Call) and _text(entry.func) == "Arg":
            arguments = _keywords(entry)
            declared = True
            break
        declared = declared or isinstance(entry, (ast.Constant, ast.BinOp, ast.JoinedStr))
    if not declared or _literal(arguments.get("no_cli"), names) is True:
        return None
    own = _literal(arguments.get("cli_name"), names)
    name = own if isinstance(own, str) else "--" + item.target.id.replace("_", "-")
    aliases = _literal(arguments.get("aliases"), names)
    spellings = (name, *(aliases if isinstance(aliases, list) else ()))
    if not name.startswith("-"):
        return None
    choices = _choices(arguments.get("choices"), names)
    action = arguments.get("action")
    extra = arguments.get("action_kwargs")
    if action is not None:
        nargs = None
        if isinstance(extra, ast.Dict):
            pairs = dict(zip((_literal(k, names) for k in extra.keys), extra.values, strict=True))
            nargs = _literal(pairs.get("nargs"), names)
            choices = choices or _choices(pairs.get("choices"), names)
        return FlagSpec(spellings, _action_arity(_text(action), nargs), choices)
    nargs = _literal(arguments.get("nargs"), names)
    if nargs is not None:
        return FlagSpec(spellings, _nargs_arity(nargs), choices)
    whole = "type_parser" in arguments
    return _typed(spellings, kind, names, switch=False, choices=choices, whole=whole)


def _add_argument(node: ast.Call, names: _Names) -> FlagSpec | None:
    """Read one ``parser.add_argument("--x", …)`` whose names are written out."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "add_argument":
        return None
    spellings = tuple(
        value
        for argument in node.args
        if isinstance(value := _literal(argument, names), str) and value.startswith("-")
    )
    if not spellings:
        return None
    # The long name is the one that people write and tables are keyed by.
    ordered = tuple(sorted(spellings, key=lambda name: not name.startswith("--")))
    arguments = _keywords(node)
    action = arguments.get("action")
    nargs = _literal(arguments.get("nargs"), names)
    if action is None:
        arity = Arity.ONE if nargs is None else _nargs_arity(nargs)
    elif "nargs" in arguments and nargs is None:
        # A constant action that was told to take a value (a valued flag that became a switch).
        arity = Arity.ONE
    else:
        arity = _action_arity(_text(action), nargs)
    use = _literal(arguments.get("new_flag"), names)
    refused = _literal(arguments.get("error_message"), names)
    kind = arguments.get("type")
    return FlagSpec(
        ordered,
        arity,
        _choices(arguments.get("choices"), names),
        use if isinstance(use, str) else None,
        " ".join(refused.split()) if isinstance(refused, str) else None,
        _number({_text(kind)}) if kind is not None and action is None else None,
    )


def _vllm_argument(
    node: ast.AST, fields: Mapping[tuple[str, str], ast.expr], names: _Names
) -> FlagSpec | None:
    """Read ``group.add_argument("--x", **kwargs["field"])``, also with defaults replaced."""
    if not isinstance(node, ast.Call):
        return None
    plain = _add_argument(node, names)
    if plain is None:
        return None
    for keyword in node.keywords:
        for part in ast.walk(keyword.value) if keyword.arg is None else ():
            if isinstance(part, ast.Subscript):
                field = _literal(part.slice, names)
                annotation = fields.get((_text(part.value), str(field)))
                if annotation is not None:
                    return _typed(plain.names, annotation, names, switch=True)
    return plain


def _typed(
    spellings: tuple[str, ...],
    annotation: ast.expr,
    names: _Names,
    *,
    switch: bool,
    choices: tuple[str, ...] | None = None,
    whole: bool = False,
) -> FlagSpec:
    """Derive the arity from a type; ``whole`` = a parser takes the value in one piece."""
    text = _text(annotation)
    if (match := _OPTIONAL.match(text)) is not None:
        text = match[1]
    parts = {part.strip() for part in text.split("|")} - {"None"}
    if choices is None:
        choices = _literal_choices(annotation, names)
    if "bool" in parts:
        if "str" in parts:
            return FlagSpec(spellings, Arity.OPTIONAL)
        return FlagSpec(spellings, Arity.SWITCH if switch else Arity.NONE)
    sequence = any(re.match(r"(?:typing\.)?(?:[Ll]ist|[Tt]uple|[Ss]et)\b", p) for p in parts)
    if sequence and not whole:
        return FlagSpec(spellings, Arity.MANY, choices)
    return FlagSpec(spellings, Arity.ONE, choices, number=None if whole else _number(parts))


def _number(parts: set[str]) -> str | None:
    """Return the numeric type that a parser converts with; None where it may take text."""
    if parts == {"int"}:
        return "int"
    return "float" if parts in ({"float"}, {"int", "float"}) else None


def _literal_choices(annotation: ast.expr, names: _Names) -> tuple[str, ...] | None:
    """Return the members when the type is one ``Literal`` (possibly named), else ``None``."""
    node: ast.expr = annotation
    others: list[str] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides = [node.left, node.right]
        others = [_text(side) for side in sides if _text(side) == "None"]
        sides = [side for side in sides if _text(side) != "None"]
        if len(sides) != 1:
            return None
        node = sides[0]
    if isinstance(node, ast.Subscript) and _text(node.value).endswith("Optional"):
        node = node.slice
    for _ in range(4):
        if isinstance(node, ast.Name) and node.id in names:
            node = names[node.id]
    if not isinstance(node, ast.Subscript) or _text(node.value).rpartition(".")[2] != "Literal":
        return None
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    values = [_literal(item, names) for item in items]
    if any(value is None for value in values):
        return None
    return (*(str(value) for value in values), *others)


def _action_arity(action: str, nargs: object) -> Arity:
    if "BooleanOptional" in action:
        return Arity.SWITCH
    if nargs is not None and nargs != 0:
        return _nargs_arity(nargs)
    if any(name in action for name in _NO_VALUE_ACTIONS) or action.endswith("DeprecatedAction"):
        return Arity.NONE
    return Arity.ONE


def _nargs_arity(nargs: object) -> Arity:
    if nargs == "?":
        return Arity.OPTIONAL
    if nargs == 0:
        return Arity.NONE
    return Arity.MANY if nargs in {"+", "*"} or isinstance(nargs, int) else Arity.ONE


def _choices(node: ast.expr | None, names: _Names) -> tuple[str, ...] | None:
    value = None if node is None else _literal(node, names)
    if isinstance(value, (list, tuple)) and value and all(item is not None for item in value):
        return tuple(str(item) for item in value)
    return None


def _literal(node: ast.expr | None, names: _Names, depth: int = 6) -> object:
    """Evaluate literals, names of literals and their concatenation; ``None`` for anything else."""
    if node is None or depth == 0:
        return None
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        items: list[object] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = _literal(item.value, names, depth - 1)
                items += inner if isinstance(inner, list) else [None]
            else:
                items.append(_literal(item, names, depth - 1))
        return items
    if isinstance(node, ast.Name):
        return _literal(names.get(node.id), names, depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = _literal(node.left, names, depth - 1)
        right = _literal(node.right, names, depth - 1)
        if isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(left, str) and isinstance(right, str):
            return left + right
    return None


def _constants(tree: ast.Module) -> _Names:
    """Return the module-level names and what they stand for."""
    out: _Names = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            out[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            out[node.target.id] = node.value
        elif isinstance(node, ast.TypeAlias if hasattr(ast, "TypeAlias") else ()):
            out[_text(node.name)] = node.value
    return out


def _class_fields(tree: ast.Module) -> Iterator[tuple[str, str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    yield node.name, item.target.id, item.annotation


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _text(node: ast.expr | Iterable[ast.expr]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node) if isinstance(node, ast.AST) else ""
