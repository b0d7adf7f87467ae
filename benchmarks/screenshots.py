"""Makes the screens of README: the real console over the demo engine, exported as SVG by Textual.

    python benchmarks/screenshots.py [FOLDER]

Nothing is drawn by hand: a demo server is launched by the console itself, takes real requests for
half a minute, and is stopped at the end. It needs the port of the demo profiles (30000) and about
two minutes.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from qwen_tui.services.console_real import RealConsole
from qwen_tui.services.paths import Paths
from qwen_tui.services.probe import probe
from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui.app import ConsoleApp
from qwen_tui.ui.screens.doctor import DoctorScreen
from qwen_tui.ui.screens.picker import PickProbe

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

FOLDER = Path(__file__).parents[1] / "docs" / "screens"
LOAD_S = 30.0
KINDS = ("prose", "code", "long", "code", "prose")


async def until(pilot: Pilot[None], true: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Wait for the console to come to a state."""
    for _ in range(int(limit_s / 0.05)):
        if true():
            await pilot.pause()
            return
        await pilot.pause(0.05)
    raise SystemExit(f"the console did not come to the expected state: {pilot.app.screen}")


async def load(url: str, seconds: float) -> None:
    """Send bounded loopback traffic of mixed kinds, three at a time (two run, one waits)."""
    end = asyncio.get_running_loop().time() + seconds

    async def client(number: int) -> None:
        turn = number
        while asyncio.get_running_loop().time() < end:
            await probe(url, kind=KINDS[turn % len(KINDS)])
            turn += 1

    await asyncio.gather(*(client(n) for n in range(3)))


async def scene(folder: Path, size: tuple[int, int], *, whole: bool) -> None:
    """Go through one life of the demo server and keep the screens of it."""
    width, height = size

    def keep(pilot: Pilot[None], name: str) -> None:
        path = folder / f"{name}-{width}x{height}.svg"
        path.write_text(pilot.app.export_screenshot(title="qwen-tui"), encoding="utf-8")
        print(path)

    with tempfile.TemporaryDirectory() as home:
        root = Path(home)
        (root / "config").mkdir()
        (root / "config" / "config.toml").write_text('[console]\nguide = "done"\n')
        app = ConsoleApp(RealConsole(Paths(root / "config", root / "state", root / "cache")))
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.view.selected is not None and app.view.server_known)
            app.change(selected=app.view.profiles.find("demo-speed"))
            if whole:
                await pilot.press("d")
                await until(pilot, lambda: isinstance(app.screen, DoctorScreen))
                doctor = cast("DoctorScreen", app.screen)
                await until(pilot, lambda: not doctor.running)
                await pilot.pause(0.2)
                keep(pilot, "doctor")
                await pilot.press("escape")
            await pilot.press("s")
            await until(pilot, lambda: app.view.server.phase == "load_weights")
            await pilot.pause(0.3)
            if whole:
                keep(pilot, "boot")
            await until(pilot, lambda: app.view.server.state is ServerState.RUNNING)
            url = str(app.view.server.url)
            traffic = asyncio.create_task(load(url, LOAD_S))
            await pilot.pause(LOAD_S / 2)
            await pilot.press("p")
            await until(pilot, lambda: isinstance(app.screen, PickProbe))
            await pilot.press("enter")
            await until(pilot, lambda: app.view.probe is not None and app.view.busy is None)
            await pilot.pause(0.3)
            if whole:
                keep(pilot, "probe")
            await pilot.press("escape")
            await pilot.pause(LOAD_S / 4)
            keep(pilot, "home-live")
            if whole:
                await pilot.press("s")
                await pilot.pause(0.3)
                keep(pilot, "swap")
                await pilot.press("escape")
                for key, name in (("5", "plan"), ("6", "boot-memory"), ("4", "profiles")):
                    await pilot.press(key)
                    await pilot.pause(2.0)
                    keep(pilot, name)
                await pilot.press("1")
            traffic.cancel()
            await asyncio.gather(traffic, return_exceptions=True)
            await pilot.press("x", "enter")
            await until(pilot, lambda: app.view.server.state is ServerState.STOPPED)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(scene(folder, (80, 24), whole=True))
    asyncio.run(scene(folder, (120, 40), whole=False))


if __name__ == "__main__":
    main()
