"""Commands that take somebody else's command line behind ``--``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["take_trailing"]


def take_trailing(parser: argparse.ArgumentParser, name: str) -> None:
    """Let everything behind the first ``--`` pass untouched into ``args.<name>``.

    argparse itself would hand those words to whichever positional is still free, and refuses them
    when options stand between the positional and the ``--``.
    """
    original = parser.parse_known_args

    def parse_known_args(
        args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(args or ())
        cut = words.index("--") if "--" in words else len(words)
        parsed, unknown = original(words[:cut], namespace)
        setattr(parsed, name, tuple(words[cut + 1 :]))
        return parsed, unknown

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]
