"""Which language people are spoken to in: asked for, remembered, or their locale's.

Nothing here reads a catalogue: English, the common case, costs a look at the environment and, where
there is a settings file, at that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qwen_tui.services.paths import Paths

__all__ = ["VARIABLE", "known_tag", "preferred_language", "remembered_language"]

VARIABLE = "QWEN_TUI_LANG"
"""Language of this one command, over settings and locale."""
LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
"""In the order of POSIX: the first that is set counts."""


def known_tag(asked: str) -> str | None:
    """Return the catalogue for ``zh_CN.UTF-8``, ``zh-Hans``, ``en_GB``; ``None``: none."""
    word = asked.replace("-", "_").partition("_")[0].partition(".")[0].lower()
    return {"zh": "zh_CN", "en": "en", "c": "en", "posix": "en"}.get(word)


def preferred_language(environ: Mapping[str, str], remembered: Callable[[], str | None]) -> str:
    """Return the tag to speak: of :data:`VARIABLE`, of the settings, of the locale, or ``en``.

    Args:
        environ: The environment.
        remembered: Reads the settings; called only when the variable does not decide.
    """
    asked = known_tag(environ.get(VARIABLE, ""))
    if asked is not None:
        return asked
    said = known_tag(remembered() or "")
    if said is not None:
        return said
    locale = next((environ[name] for name in LOCALE if environ.get(name)), "")
    return known_tag(locale) or "en"


def remembered_language(paths: Paths) -> str | None:
    """Return the language of the settings; a file that cannot be used counts as none here.

    What is wrong with the file is said by whatever uses the settings.
    """
    try:
        if b"language" not in paths.settings.read_bytes():
            return None
    except OSError:
        return None
    from qwen_tui.services.settings import load_settings  # TOML, only when it says something

    return load_settings(paths).language
