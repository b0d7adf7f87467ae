"""What a fresh interpreter must not import for the light commands (design §6)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for root in ("app", "engine_profiles", "diagnostics")
    for path in (ROOT / root).rglob("*.py")
)
HEAVY = ("textual", "httpx2", "pynvml", "huggingface_hub", "torch", "sglang", "vllm", "starlette")


def _imported_by(*argv: str) -> set[str]:
    code = (
        "import sys\n"
        "from qwen_tui.cli import main\n"
        "try:\n"
        f"    main({list(argv)!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("argv", [("--help",), ("--version",), ("doctor", "--help")])
def test_light_commands_import_nothing_heavy(argv: tuple[str, ...]) -> None:
    assert _imported_by(*argv).isdisjoint(HEAVY)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_do_one_thing(path: Path) -> None:
    """A file over 400 lines does more than one thing."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_catalogue_templates_are_literals(path: Path) -> None:
    """``t(...)`` takes one literal string, or the catalogue could not be extracted."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "t":
            assert node.args, f"{path}:{node.lineno}: t() without a template"
            template = node.args[0]
            assert isinstance(template, ast.Constant), f"{path}:{node.lineno}: not a literal"
            assert isinstance(template.value, str)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_shell(path: Path) -> None:
    """Commands are argument lists; nothing ever goes through a shell."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "shell":
            assert isinstance(node.value, ast.Constant), f"{path}:{node.lineno}"
            assert node.value.value is False, f"{path}:{node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            assert name not in {"os.system", "os.popen"}, f"{path}:{node.lineno}: {name}"
