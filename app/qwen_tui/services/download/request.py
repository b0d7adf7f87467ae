"""What is asked of a download, in one frozen value that crosses the process border as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["DownloadRequest"]


@dataclass(frozen=True, slots=True)
class DownloadRequest:
    """One download, fully resolved: no defaults are looked up behind the border."""

    repo: str
    """``organisation/name``."""
    revision: str = "main"
    dest: str | None = None
    """Local folder; ``None`` = the Hub's cache."""
    endpoint: str | None = None
    """Mirror; ``None`` = ``HF_ENDPOINT``, else the Hub itself."""
    include: tuple[str, ...] = ()
    """Glob patterns over paths in the repository; empty = all."""
    exclude: tuple[str, ...] = ()
    loaded_only: bool = False
    """Leave out weights that an engine does not open (``--for PROFILE``)."""
    workers: int = 4
    """Files transferred at the same time."""
    limit_bytes_s: int | None = None
    """Total speed limit."""
    stall_s: float = 30.0
    """Silence after which a connection is given up."""
    attempts: int = 5
    """Tries in a row without a byte of progress before a file is given up."""
    backoff_s: float = 1.0
    """First pause between tries; it doubles, up to a minute."""
    sync_bytes: int = 64 << 20
    """Bytes after which what was received is made durable."""
    sync_s: float = 5.0
    """Seconds after which it is, however little it was."""
    known_bytes_s: float | None = None
    """Speed measured last time at this endpoint; the plan's estimate rests on it."""
    engine: str | None = None
    """Engine that the checkpoint is judged for afterwards; ``None`` = the usual one."""
    speculative: bool = False
    """Whether that launch uses the MTP head."""
    language_only: bool = False
    """Whether it builds no vision tower."""
    quantization: str | None = None
    """Its ``--quantization``."""

    def to_json(self) -> str:
        """Return the request as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DownloadRequest:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: It is no such line.
        """
        values: dict[str, Any] = json.loads(text)
        known = {f.name for f in fields(cls)}
        kept: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known
        }
        return cls(**kept)
