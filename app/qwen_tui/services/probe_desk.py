"""The probe as the console asks it: every kind, directly and through the configured gateway."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from qwen_tui.services.desks import ProbeKind, ProbeMenu, ProbeReport
from qwen_tui.services.modules import load_module
from qwen_tui_profiles.errors import ConfigError, QwenTuiError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.probe.compare import Route
    from qwen_tui.services.settings import Settings
    from qwen_tui.services.snapshots import ProbeResult

__all__ = ["RealProbes", "probe_kinds"]

ASK_S = 3.0
"""How long the server may take to say what it takes, before the menu opens without."""


class RealProbes:
    """See :class:`~qwen_tui.services.desks.ProbeDesk`."""

    def __init__(
        self,
        paths: Paths,
        api_key: Callable[[str], Awaitable[str | None]],
        note: Callable[[ProbeResult], None] = lambda _: None,
        *,
        gateway: bool = True,
    ) -> None:
        """Prepare.

        Args:
            paths: Where the settings are.
            api_key: Returns the key that the server at an address may be sent.
            note: Is told every result, so that alarms can compare it with earlier ones.
            gateway: The configured gateway stands in front of these servers.
        """
        self._paths = paths
        self._api_key = api_key
        self._note = note
        self._through = gateway

    def kinds(self) -> tuple[ProbeKind, ...]:
        """Return the table's rows, and the boundary."""
        return probe_kinds()

    async def menu(self, url: str) -> ProbeMenu:
        """Ask for vision and usable context at once."""
        await load_module("qwen_tui.services.probe.probing")
        key = await self._api_key(url)
        settings = await asyncio.to_thread(self._settings)
        vision, usable = await asyncio.gather(_vision(url, key), _usable(url, key))
        kinds = tuple(k for k in self.kinds() if k.name != "image" or vision is not False)
        return ProbeMenu(kinds, usable, settings.gateway if self._through else None)

    async def send(self, url: str, kind: str) -> ProbeReport:
        """Send it, and with a gateway compare."""
        probing = await load_module("qwen_tui.services.probe.probing")
        key = await self._api_key(url)
        settings = await asyncio.to_thread(self._settings)
        result: ProbeResult
        if settings.gateway is None or not self._through or kind == probing.BOUNDARY:
            result = await probing.probe(url, kind=kind, api_key=key)
            self._note(result)
            return ProbeReport(url, result)
        comparing = await load_module("qwen_tui.services.probe.compare")
        direct = comparing.Route(url, key)
        comparison = await comparing.compare(direct, _gateway(settings), kind=kind, runs=1)
        result = comparison.direct[-1]
        self._note(result)
        return ProbeReport(url, result, settings.gateway, comparison)

    async def curl(self, url: str, kind: str) -> str:
        """Ask which model serves, and write the command."""
        from qwen_tui.services.keys import key_variable
        from qwen_tui.services.live.http1 import Target
        from qwen_tui.services.probe.probing import curl_command
        from qwen_tui.services.probe.served import find_served

        key = await self._api_key(url)
        served = await find_served(Target.parse(url), api_key=key)
        settings = await asyncio.to_thread(self._settings)
        variable = None if key is None else key_variable(key, settings.fleet_keys)
        return curl_command(url, kind, served.model, key_variable=variable, sglang=served.sglang)

    def _settings(self) -> Settings:
        from qwen_tui.services.settings import load_settings

        return load_settings(self._paths)


def probe_kinds() -> tuple[ProbeKind, ...]:
    """Return every kind of probe, the boundary last."""
    from qwen_tui.services.probe.boundary import MARGIN_TOKENS
    from qwen_tui.services.probe.kinds import KINDS
    from qwen_tui.services.probe.probing import BOUNDARY

    boundary = ProbeKind(
        BOUNDARY,
        t("boundary"),
        t("The usable context less {margin} must fit, one more must not.",
          margin=MARGIN_TOKENS),
    )  # fmt: skip
    return (*(ProbeKind(k.name, k.title, k.note) for k in KINDS.values()), boundary)


def _gateway(settings: Settings) -> Route:
    """Return the way through the gateway, which gets no key but its own."""
    from qwen_tui.services.probe.compare import Route

    assert settings.gateway is not None
    key = None
    if settings.gateway_key_env is not None:
        key = os.environ.get(settings.gateway_key_env)
        if not key:
            raise ConfigError(
                t("The environment variable {name} is not set.", name=settings.gateway_key_env),
                t("Set it to the gateway's key, or take key-env out of [gateway] in config.toml."),
            )
    return Route(settings.gateway, key, settings.gateway_model)


async def _vision(url: str, key: str | None) -> bool | None:
    from qwen_tui.services.live.http1 import Target
    from qwen_tui.services.probe.served import has_vision

    try:
        async with asyncio.timeout(ASK_S):
            return await has_vision(Target.parse(url), api_key=key)
    except (QwenTuiError, TimeoutError):
        return None


async def _usable(url: str, key: str | None) -> int | None:
    from qwen_tui.services.live.http1 import Target
    from qwen_tui.services.probe.served import longest_input

    try:
        async with asyncio.timeout(ASK_S):
            return await longest_input(Target.parse(url), api_key=key)
    except (QwenTuiError, TimeoutError):
        return None
