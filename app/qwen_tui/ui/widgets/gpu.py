"""The panel of the GPUs, from NVML; says so when there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.services.live.context import is_here
from qwen_tui.services.live.target import Target
from qwen_tui.ui import figures
from qwen_tui.ui.cells import bar, fit, wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.panel import Panel
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import GpuSnapshot
    from qwen_tui.ui.state import View

__all__ = ["GpuPanel", "gpu_lines"]


class GpuPanel(Panel):
    """Memory, load, power and heat of each GPU."""

    def concerns(self, old: View, new: View) -> bool:
        """The GPUs, and whose they are."""
        return old.gpu is not new.gpu or old.server.url != new.server.url

    def titles(self) -> tuple[Content | str, Content | str]:
        """Name the GPU."""
        gpus, url = self.view.gpu.gpus, self.view.server.url
        elsewhere = url is not None and bool(gpus) and not is_here(Target.parse(url).host)
        whose = tr(t("of this machine, not of the server")) if elsewhere else ""
        if len(gpus) == 1:
            return Content(
                tr(t("GPU {index}  {name}", index=gpus[0].index, name=short_name(gpus[0].name)))
            ), whose
        return tr(t("GPU")), whose

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the readings for this size."""
        return gpu_lines(self.view, width)


def gpu_lines(view: View, width: int) -> list[Content]:
    """Return the readings, one block per GPU, or why there are none."""
    gpu = view.gpu
    if not gpu.known:
        return [Content.styled(tr(t("Asking NVML …")), "$foreground-muted")]
    if not gpu.gpus:
        why = gpu.problem or t("NVML lists no GPU.")
        out = wrapped((tr(why), ""), width)
        if gpu.remedy is not None:
            out += wrapped((f"{glyphs().remedy} {tr(gpu.remedy)}", "$foreground-muted"), width)
        return out
    several = len(gpu.gpus) > 1
    return [line for one in gpu.gpus for line in _block(one, width, named=several)]


def _block(gpu: GpuSnapshot, width: int, *, named: bool) -> list[Content]:
    out: list[Content] = []
    if named:
        out.append(Content.styled(f"{gpu.index} {short_name(gpu.name)}", "bold"))
    memory = tr(
        t(
            "{used} of {total} GiB",
            used=figures.gib(gpu.memory_used_bytes),
            total=figures.gib(gpu.memory_total_bytes),
        )
    )
    ours = ""
    if gpu.memory_ours_bytes is not None:
        ours = "  " + tr(t("ours {gib}", gib=figures.gib(gpu.memory_ours_bytes)))
    out.append(Content.assemble((memory, "bold"), ours))
    share = None
    if gpu.memory_used_bytes is not None and gpu.memory_total_bytes:
        share = gpu.memory_used_bytes / gpu.memory_total_bytes
    out.append(bar(share, width, "$accent"))
    power = tr(
        t(
            "{draw} of {limit} W",
            draw=figures.count(gpu.power_w),
            limit=figures.count(gpu.power_limit_w),
        )
    )
    heat = tr(t("{celsius} °C", celsius=figures.count(gpu.temperature_c)))
    out.append(fit(f"{figures.share(gpu.utilisation)}  {power}  {heat}", width))
    if gpu.throttle is not None:
        out += wrapped((f"{glyphs().warn} {tr(gpu.throttle)}", "$warning"), width)
    return out


def short_name(name: str) -> str:
    """Return the card's name without its maker, which every card here has."""
    return name.removeprefix("NVIDIA ").strip() or name
