"""The sentences of :mod:`argparse` that a user may read, in the language in use.

argparse looks its own sentences up with :func:`gettext.gettext`, in a domain that is the process's
and by the locale alone; ours may also come from the settings. So its look-up is replaced, for a
language other than English only. A sentence that another Python words differently stays English.
"""

from __future__ import annotations

import argparse

from qwen_tui_profiles.text import t, tr

__all__ = ["speak"]

SENTENCES = (
    t("usage: "),
    t("options"),
    t("positional arguments"),
    t("show this help message and exit"),
    t("%(prog)s: error: %(message)s\n"),
    t("argument %(argument_name)s: %(message)s"),
    t("expected one argument"),
    t("expected at least one argument"),
    t("expected at most one argument"),
    t("invalid choice: %(value)r (choose from %(choices)s)"),
    t("invalid %(type)s value: %(value)r"),
    t("not allowed with argument %s"),
    t("one of the arguments %s is required"),
    t("the following arguments are required: %s"),
    t("unrecognized arguments: %s"),
    t("ambiguous option: %(option)s could match %(matches)s"),
)


def speak() -> None:
    """Let argparse speak the language in use."""
    known = {sentence.template: sentence for sentence in SENTENCES}

    def look_up(sentence: str) -> str:
        return tr(known.get(sentence, sentence))

    if hasattr(argparse, "_"):
        setattr(argparse, "_", look_up)  # noqa: B010 - typeshed does not know the module's look-up
