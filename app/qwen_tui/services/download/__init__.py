"""Fetching a checkpoint from the Hub: plan, transfer with resume, proof, manifest.

The network part runs in a child process (:mod:`~qwen_tui.services.download.worker`) that is started
with ``HF_HUB_DISABLE_XET=1``; ``huggingface_hub`` reads that variable once, at import. The parent
(:mod:`~qwen_tui.services.download.session`) talks to it in JSON lines and never imports the hub
library itself.
"""

from __future__ import annotations

from qwen_tui.services.download.request import DownloadRequest
from qwen_tui.services.download.session import DownloadSession

__all__ = ["DownloadRequest", "DownloadSession"]
