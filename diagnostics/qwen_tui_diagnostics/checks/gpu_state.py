"""Checks of a card's state: link, limits, clocks, heat, ECC, modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    failed,
    fix,
    not_applicable,
    ok,
    required_with_gpu,
    skipped,
    warned,
    with_gpu,
)
from qwen_tui_diagnostics.checks.devices import name_of, selected
from qwen_tui_diagnostics.checks.driver import bare_metal, several_cards
from qwen_tui_diagnostics.checks.needs import needs_of
from qwen_tui_diagnostics.checks.units import MIB, gib, listed
from qwen_tui_diagnostics.result import SkipReason, Status
from qwen_tui_profiles.text import listing, t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict

__all__ = ["STATE_CHECKS"]

OLD_BAR_BYTES = 256 * MIB
HOT_C = 83.0
NEAR_SLOWDOWN_C = 5.0
BUSY = 0.5
"""Utilisation from which the link's generation means something: it drops at idle."""
_POWER_CAP, _HARDWARE, _THERMAL, _HARDWARE_THERMAL, _BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
_ORDER = (Status.FAIL, Status.WARN, Status.SKIP, Status.OK)


def _each(judge: Callable[[Facts, Target], Verdict]) -> Callable[[Facts, Target], Verdict]:
    """Judge every selected card; the worst speaks."""

    def whole(facts: Facts, target: Target) -> Verdict:
        verdicts = [judge(device, target) for device in selected(facts, target)]
        return min(verdicts, key=lambda verdict: _ORDER.index(verdict.status))

    return whole


def _discrete(judge: Callable[[Facts, Target], Verdict]) -> Callable[[Facts, Target], Verdict]:
    """Leave integrated parts out: they have no link, no BAR and no limits of their own."""

    def on_card(device: Facts, target: Target) -> Verdict:
        if device.flag("unified"):
            return not_applicable(t("{name} is an integrated part", name=name_of(device)))
        return judge(device, target)

    return _each(on_card)


def _display(device: Facts, target: Target) -> Verdict:
    active = device.flag("display_active")
    fraction = target.memory_fraction
    if active and fraction is not None and fraction >= 0.95:
        return warned(
            t("{name} drives a display, and the profile takes {percent} % of it",
              name=name_of(device), percent=round(fraction * 100)),
            expected=t("a card without a display, or a fraction below 0.95"),
            consequence=t("the desktop's memory grows during use and ends in out of memory"),
            remedy=fix(t("leave 1.5 GiB to the desktop, or drive it with another GPU")),
        )  # fmt: skip
    if active:
        return ok(t("{name} drives a display", name=name_of(device)))
    return ok(t("{name} drives no display", name=name_of(device)))


def _pcie(device: Facts, target: Target) -> Verdict:
    width, widest = device.integer("pcie_width"), device.integer("pcie_width_max")
    generation = device.integer("pcie_generation")
    best = device.integer("pcie_generation_max")
    busy = device.has("utilisation") and device.number("utilisation") >= BUSY
    shown = t("{name}: x{width} of x{widest}, generation {now} of {best}{idle}",
              name=name_of(device), width=width, widest=widest, now=generation, best=best,
              idle="" if busy or generation == best else ", idle")  # fmt: skip
    consequence = t("slower loading, and slower traffic between cards")
    if width < 8:
        return warned(
            shown,
            expected=t("x8 or wider"),
            consequence=consequence,
            remedy=fix(t("use the slot next to the processor; check risers and lane sharing")),
        )
    if busy and (width < widest or generation < best):
        return warned(
            shown,
            expected=t("full width and generation under load"),
            consequence=consequence,
            remedy=fix(t("reseat the card; check the slot, the riser and the BIOS")),
        )
    return ok(shown)


def _rebar(device: Facts, target: Target) -> Verdict:
    window, total = device.integer("bar1_total_bytes"), device.integer("memory_total_bytes")
    shown = t("{name}: window of {window} onto {total}", name=name_of(device), window=gib(window),
              total=gib(total))  # fmt: skip
    if window <= OLD_BAR_BYTES:
        return warned(
            shown,
            expected=t("a window as big as the memory"),
            consequence=t("slower loading; with Blackwell the card may not be found at all"),
            remedy=fix(t("turn on Above 4G decoding and Resizable BAR in the BIOS")),
        )
    return ok(shown)


def _power(device: Facts, target: Target) -> Verdict:
    limit, default = device.number("power_limit_w"), device.number("power_default_w")
    shown = t("{name}: {limit} W of {default} W", name=name_of(device), limit=round(limit),
              default=round(default))  # fmt: skip
    if default > 0 and limit < 0.8 * default:
        return warned(
            shown,
            expected=t("80 % of the default or more"),
            consequence=t("prefill is slower in proportion, decoding less so"),
            remedy=fix(
                t("raise the limit, if power supply and cooling allow it"),
                f"sudo nvidia-smi -i {device.integer('index')} -pl {round(default)}",
                privileged=True,
            ),
        )
    return ok(shown)


_THROTTLE = {
    "idle": t("idle"),
    "application clocks": t("application clocks"),
    "power cap": t("power cap"),
    "hardware slowdown": t("hardware slowdown"),
    "sync boost": t("sync boost"),
    "thermal": t("thermal"),
    "hardware thermal": t("hardware thermal"),
    "power brake": t("power brake"),
    "display clocks": t("display clocks"),
}


def _throttle(device: Facts, target: Target) -> Verdict:
    bits = device.integer("throttle_bits")
    words = listing([_THROTTLE.get(w, w) for w in device.texts("throttle_reasons")] or [t("none")])
    shown = t("{name}: {reasons}", name=name_of(device), reasons=words)
    idle = device.has("utilisation") and device.number("utilisation") < 0.1
    bad = bits & (_HARDWARE | _HARDWARE_THERMAL | _BRAKE | _THERMAL)
    if bad or (bits & _POWER_CAP and idle):
        return warned(
            shown,
            expected=t("none, or idle"),
            consequence=t("the clocks are held down: every figure is lower than the card's own"),
            remedy=fix(t("look at heat, the power cable and the power supply"),
                       "nvidia-smi -q -d PERFORMANCE"),
        )  # fmt: skip
    return ok(shown)


def _temperature(device: Facts, target: Target) -> Verdict:
    now = device.number("temperature_c")
    slowdown = (
        device.number("temperature_slowdown_c") if device.has("temperature_slowdown_c") else None
    )
    limit = min(HOT_C, slowdown - NEAR_SLOWDOWN_C) if slowdown is not None else HOT_C
    shown = t("{name}: {now} degrees C", name=name_of(device), now=round(now))
    if now >= limit:
        return warned(
            shown,
            expected=t("below {limit} degrees C", limit=round(limit)),
            consequence=t("the card lowers its clocks soon"),
            remedy=fix(t("improve the air flow, or lower the power limit")),
        )
    return ok(shown)


def _ecc(device: Facts, target: Target) -> Verdict:
    enabled, pending = device.flag("ecc_enabled"), device.flag("ecc_pending")
    if enabled != pending:
        return warned(
            t("{name}: ECC changes at the next reboot", name=name_of(device)),
            expected=t("no change pending"),
            consequence=t("free memory will differ after the reboot"),
            remedy=fix(t("reboot"), "sudo reboot", privileged=True),
        )
    if not enabled:
        return ok(t("{name}: ECC is off", name=name_of(device)))
    errors = device.integer("ecc_uncorrected")
    if errors:
        return warned(
            t("{name}: {count} uncorrected memory errors", name=name_of(device), count=errors),
            expected=t("none"),
            consequence=t("results may be wrong; the page is retired at the next reboot"),
            remedy=fix(t("reboot; if it repeats, have the card replaced")),
        )
    return ok(t("{name}: ECC on, no uncorrected error", name=name_of(device)))


def _mig(device: Facts, target: Target) -> Verdict:
    if not device.has("mig_enabled"):
        absence = device.why_absent("mig_enabled")
        if absence.reason is SkipReason.UNSUPPORTED and str(absence.detail) == "unsupported":
            return not_applicable(t("{name} cannot be partitioned", name=name_of(device)))
    if not device.flag("mig_enabled"):
        return ok(t("{name} is not partitioned", name=name_of(device)))
    if device.has("slice"):
        return ok(t("{name}: the slice {uuid} is used", name=name_of(device),
                    uuid=device.text("slice")))  # fmt: skip
    return warned(
        t("{name} is partitioned (MIG)", name=name_of(device)),
        expected=t("the whole card, or a profile written for a slice"),
        consequence=t("a slice has less memory than the card; sizes of processes are not reported"),
        remedy=fix(
            t("turn MIG off, or give the slice's UUID in CUDA_VISIBLE_DEVICES"),
            f"sudo nvidia-smi -i {device.integer('index')} -mig 0",
            privileged=True,
        ),
    )


def _mig_size(facts: Facts, target: Target) -> Verdict:
    verdict = _each(_mig)(facts, target)
    needs = needs_of(target, facts)
    if needs is None:
        return verdict
    for device in selected(facts, target):
        # With a slice selected, its memory stands in the place of the card's.
        if device.has("mig_enabled") and device.flag("mig_enabled") and device.has("slice"):
            size = device.integer("memory_total_bytes")
            if size < needs.gpu_floor_bytes:
                return failed(
                    t("{name}: the slice has {size}", name=name_of(device), size=gib(size)),
                    expected=t("{need}", need=gib(needs.gpu_floor_bytes)),
                    consequence=t("the model does not fit"),
                    remedy=fix(t("use a bigger slice, or turn MIG off")),
                )
    return verdict


def _compute_mode(device: Facts, target: Target) -> Verdict:
    mode = device.integer("compute_mode")
    command = f"sudo nvidia-smi -i {device.integer('index')} -c 0"
    if mode == 2:
        return failed(
            t("{name}: compute is prohibited", name=name_of(device)),
            expected=t("default compute mode"),
            consequence=t("no process may use CUDA on it"),
            remedy=fix(t("set the default mode"), command, privileged=True),
        )
    if mode in {1, 3}:
        return warned(
            t("{name}: exclusive, one process at a time", name=name_of(device)),
            expected=t("default compute mode"),
            consequence=t("a second process (a benchmark, a swap) is refused while one runs"),
            remedy=fix(t("set the default mode"), command, privileged=True),
        )
    return ok(t("{name}: default compute mode", name=name_of(device)))


def _persistence(facts: Facts, target: Target) -> Verdict:
    devices = selected(facts, target)
    if all(device.flag("persistence") for device in devices):
        return ok(t("on"))
    if any(device.has("display_active") and device.flag("display_active") for device in devices):
        return ok(t("off; the display keeps the driver loaded"))
    return warned(
        t("off, and nothing else keeps the driver loaded"),
        expected=t("on"),
        consequence=t("every start is 1 to 3 s slower"),
        remedy=fix(t("start the persistence daemon"),
                   "sudo systemctl enable --now nvidia-persistenced", privileged=True),
    )  # fmt: skip


def _pairs(facts: Facts) -> list[tuple[int, int]]:
    """Return the pairs of cards without peer access.

    Raises:
        MissingFact: the list has another shape.
    """
    whole = facts.at("gpu")
    count = whole.length("p2p_without")
    rows = [whole.integers(f"p2p_without.{number}") for number in range(count)]
    return [(row[0], row[1]) for row in rows if len(row) == 2]


def _p2p(facts: Facts, target: Target) -> Verdict:
    if not facts.has("gpu.p2p_without"):
        absence = facts.why_absent("gpu.p2p_without")
        return skipped(absence.reason, t("NVML does not tell"))
    used = {device.integer("index") for device in selected(facts, target)}
    apart = [pair for pair in _pairs(facts) if set(pair) <= used]
    if not apart:
        return ok(t("the cards read each other's memory"))
    iommu = facts.has("topology.iommu") and facts.flag("topology.iommu")
    return warned(
        t("the cards cannot read each other's memory: {pairs}",
          pairs=listed([t("{a} and {b}", a=a, b=b) for a, b in apart])),
        *((t("an IOMMU is active"),) if iommu else ()),
        expected=t("peer access"),
        consequence=t("traffic between cards goes through host memory; a hang is possible"),
        remedy=fix(t("if the start hangs, turn peer access off for NCCL"),
                   "export NCCL_P2P_DISABLE=1"),
    )  # fmt: skip


_EXPLAINED = ("driver.nvml", "gpu.selected")
_GPU = ("gpu", "env")

STATE_CHECKS: tuple[Check, ...] = (
    Check(
        "gpu.display", t("display on the card"), _discrete(_display), _GPU,
        t("a desktop on the card takes memory that grows during use"),
        wanted=with_gpu, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.pcie", t("PCIe link"), _discrete(_pcie), _GPU,
        t("a narrow link slows loading and several cards; at idle a low generation is normal"),
        wanted=with_gpu, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.rebar", t("Resizable BAR"), _discrete(_rebar), _GPU,
        t("some Blackwell cards are not found without it"),
        wanted=with_gpu, explained_by=_EXPLAINED,
        evidence=("https://github.com/NVIDIA/open-gpu-kernel-modules/issues/862",),
    ),
    Check(
        "gpu.power", t("power limit"), _discrete(_power), _GPU,
        t("a lowered limit explains slow prefill"),
        wanted=with_gpu, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.throttle", t("clocks are free"), _each(_throttle), _GPU,
        t("a throttled card makes every measurement wrong"),
        wanted=with_gpu, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.temp", t("temperature"), _each(_temperature), _GPU,
        t("near its limit a card lowers its clocks"),
        wanted=with_gpu, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.ecc", t("memory errors"), _each(_ecc), _GPU,
        t("uncorrected errors make results wrong without a message"),
        wanted=with_gpu, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.mig", t("partitioning"), _mig_size, ("gpu", "env", "model"),
        t("a slice of a card has less memory, and reports no sizes of processes"),
        required=required_with_gpu, wanted=with_gpu, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.compute_mode", t("compute mode"), _each(_compute_mode), _GPU,
        t("an exclusive card refuses the second process, a prohibited one every process"),
        required=required_with_gpu, wanted=with_gpu, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.persistence", t("persistence mode"), _persistence, (*_GPU, "system"),
        t("without it the driver is loaded anew for every start on a machine without a display"),
        wanted=with_gpu, applies=bare_metal, explained_by=_EXPLAINED,
    ),
    Check(
        "gpu.p2p", t("access between cards"), _p2p, (*_GPU, "topology"),
        t("without peer access NCCL goes through host memory"),
        wanted=several_cards, explained_by=_EXPLAINED,
    ),
)  # fmt: skip
