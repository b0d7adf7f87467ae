"""What every test shares: slow ones and those that need a GPU run only when asked for by marker."""

from __future__ import annotations

import os

import pytest

# Expected sentences are English, whatever the locale and choice of whoever runs the tests.
os.environ["LC_ALL"] = "C.UTF-8"
os.environ.pop("QWEN_TUI_LANG", None)

ON_DEMAND = {
    "slow": "minutes long: run with -m slow",
    "gpu": "needs an NVIDIA GPU: run with -m gpu",
    "sglang": "boots a real SGLang for minutes: run with make test-real",
    "vllm": "boots a real vLLM for minutes: run with make test-real",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip, with the reason, what is not part of the default suite."""
    asked = str(config.option.markexpr)
    for item in items:
        for marker, reason in ON_DEMAND.items():
            if marker not in asked and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
