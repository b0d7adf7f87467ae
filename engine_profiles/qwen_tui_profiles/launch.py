"""From a profile to the exact argument list and environment of its engine.

Always a list for ``exec``, never a shell line. Flags are spelt for the engine version that is
there (:mod:`qwen_tui_profiles.flags`); a flag that the version lacks stays as it was written,
because dropping it silently would launch something else than the profile says. The rules report it.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui_profiles.profile import ContainerLaunch, EngineKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["ENGINE_MODULES", "MODEL_FLAGS", "LaunchSpec", "build_launch", "engine_arguments"]

ENGINE_MODULES: Mapping[EngineKind, str] = MappingProxyType(
    {
        EngineKind.SGLANG: "sglang.launch_server",
        EngineKind.VLLM: "vllm.entrypoints.openai.api_server",
        EngineKind.DEMO: "qwen_tui.demo_engine",
    }
)
"""The module that ``python -m`` runs for each engine."""

MODEL_FLAGS: Mapping[EngineKind, str] = MappingProxyType(
    {
        EngineKind.SGLANG: "--model-path",
        EngineKind.VLLM: "--model",
        EngineKind.DEMO: "--model-path",
    }
)
"""The flag that names the model's folder."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What to execute."""

    argv: tuple[str, ...]
    """Program and arguments."""
    env: Mapping[str, str]
    """Variables to add to the environment of the child."""


def build_launch(
    profile: EngineProfile, *, interpreter: str, engine_version: str | None = None
) -> LaunchSpec:
    """Return the command of a profile.

    Args:
        profile: What to launch.
        interpreter: Python of the engine; not used for a container, which has its own.
        engine_version: Version found, for the spelling of flags; ``None`` = as written.
    """
    module = ENGINE_MODULES[profile.engine]
    arguments = engine_arguments(profile, engine_version=engine_version)
    if isinstance(profile.launch, ContainerLaunch):
        return LaunchSpec(
            _container_command(profile, profile.launch, ("-m", module, *arguments)), profile.env
        )
    return LaunchSpec((interpreter, "-m", module, *arguments), profile.env)


def engine_arguments(
    profile: EngineProfile, *, engine_version: str | None = None
) -> tuple[str, ...]:
    """Return the engine's own arguments: model, address, then the profile's flags."""
    from qwen_tui_profiles.flags import respell

    out: list[str] = []
    model = profile.model.path or profile.model.repo
    if model is not None:
        out += [MODEL_FLAGS[profile.engine], os.path.expanduser(model)]  # noqa: PTH111 (a repo id is no path)
    if profile.model.served_name is not None:
        out += ["--served-model-name", profile.model.served_name]
    host = "0.0.0.0" if isinstance(profile.launch, ContainerLaunch) else profile.host
    out += ["--host", host, "--port", str(profile.port)]
    # A fork's version number says nothing about upstream's flag names.
    version = engine_version if profile.build is None else None
    return (*out, *respell(profile.engine, profile.argv, version))


def _container_command(
    profile: EngineProfile, launch: ContainerLaunch, arguments: tuple[str, ...]
) -> tuple[str, ...]:
    """Return ``docker run …``: published on the profile's address only, values kept out of argv.

    Inside its own network namespace the engine must listen on every address; what is reachable
    from outside is decided by ``--publish``. ``--env NAME`` takes the value from the client's
    environment, so that no value of it stands in the process list.
    """
    options: list[str] = []
    given = {item.partition("=")[0] for item in launch.args}
    if not given & {"--network", "--net", "--publish", "-p"}:
        address = f"[{profile.host}]" if ":" in profile.host else profile.host
        options += ["--publish", f"{address}:{profile.port}:{profile.port}"]
    if "--name" not in given:
        options += ["--name", f"qwen-tui-{profile.name}"]
    if profile.model.path is not None and not given & {"--volume", "-v", "--mount"}:
        folder = os.path.expanduser(profile.model.path)  # noqa: PTH111
        options += ["--volume", f"{folder}:{folder}:ro"]
    for name in profile.env:
        options += ["--env", name]
    return (
        launch.runtime,
        "run",
        "--rm",
        "--init",
        *options,
        *launch.args,
        "--entrypoint",
        "python3",
        launch.image,
        *arguments,
    )
