"""Text that others wrote (logs, model names, Hub metadata) made safe, and secrets taken out of it.

Both happen at the edge where the text enters, so that nothing downstream has to remember to do it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["REDACTED", "clean", "is_secret_name", "redact", "redact_argv"]

REDACTED = "<redacted>"

# CSI, OSC (to BEL or ST), the two-character escapes, then every control character but tab.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
# C0 without tab, DEL, C1, line and paragraph separators, and the bidirectional overrides
# that reorder a line.
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")

_SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:api[-_]?key|admin[-_]?api[-_]?key|token|secret|password|passwd|hf[-_]?token"
    r"|authorization|access[-_]?key|private[-_]?key|ssl[-_]?keyfile[-_]?password|watermark[-_]?key)$",
    re.IGNORECASE,
)
# Counters and sizes that end in the word "token" without being one.
_NOT_SECRET = re.compile(
    r"(?:max|num|new|eos|bos|pad|draft|total|stop|mask|image|video|per)[-_]?token$", re.IGNORECASE
)

_SECRET_VALUES = (
    re.compile(r"\bhf_[A-Za-z0-9]{8,}\b"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{8,}"),
    re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{4,}"),
    re.compile(r"(?i)(://)[^/\s:@'\"]+:[^/\s@'\"]+(?=@)"),
    re.compile(
        r"(?i)([?&](?:token|key|api_key|apikey|access_token|signature|sig|x-amz-signature|x-amz-credential|policy)=)[^&\s'\"]+"
    ),
    re.compile(
        r"""(?i)(['"]?(?:admin_)?api[_-]?key['"]?\s*[=:]\s*)(?!None\b|null\b)(?:'[^']*'|"[^"]*"|[^\s,)}'"]+)"""
    ),
    re.compile(r"(?i)(--(?:admin-)?api-key[= ])(?:'[^']*'|\"[^\"]*\"|\S+)"),
    re.compile(
        r"(?i)(\b(?:HF_TOKEN|HUGGING_FACE_HUB_TOKEN|OPENAI_API_KEY|VLLM_API_KEY|SGLANG_API_KEY)\s*=\s*)(?:'[^']*'|\"[^\"]*\"|\S+)"
    ),
)


def clean(text: str) -> str:
    """Strip terminal control sequences and control characters; tabs become one blank."""
    if text.isprintable() and "\t" not in text:
        return text
    return _CONTROLS.sub("", _ESCAPES.sub("", text)).replace("\t", " ")


def is_secret_name(name: str) -> bool:
    """Tell whether a flag, field or variable of this name holds a secret."""
    bare = name.lstrip("-")
    return bool(_SECRET_NAME.search(bare)) and not _NOT_SECRET.search(bare)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace secrets in free text: token shapes, credentials in URLs, and the given values."""
    for value in secrets:
        if len(value) >= 4:
            text = text.replace(value, REDACTED)
    for pattern in _SECRET_VALUES:
        text = pattern.sub(lambda m: (m.group(1) if m.re.groups else "") + REDACTED, text)
    return text


def redact_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Replace the values of secret flags (``--api-key X`` and ``--api-key=X``)."""
    out: list[str] = []
    hide_next = False
    for item in argv:
        if hide_next:
            out.append(REDACTED)
            hide_next = False
            continue
        name, equals, _ = item.partition("=")
        if item.startswith("-") and is_secret_name(name):
            out.append(f"{name}={REDACTED}" if equals else item)
            hide_next = not equals
        else:
            out.append(redact(item))
    return tuple(out)
