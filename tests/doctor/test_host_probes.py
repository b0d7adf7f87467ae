"""Collectors of the host over small fake roots: /proc, /sys, /dev, control groups, environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_tui_diagnostics.context import Context, Target
from qwen_tui_diagnostics.facts import Gathered
from qwen_tui_diagnostics.probes import (
    driver,
    environment,
    gpu,
    memory,
    nvidia_smi,
    raw,
    rings,
    system,
    toolkit,
    topology,
)
from qwen_tui_diagnostics.probes.meminfo import read_meminfo
from qwen_tui_diagnostics.probes.nvml import Nvml
from support.fake_nvml import Code, FakeNvml, h200

GIB = 1024**3


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def run(module: Any, root: Path, **changes: Any) -> Gathered:
    found = Gathered()
    values: dict[str, Any] = {"env": {"PATH": "/nonexistent"}, "home": root / "home"}
    module.collect(Context(root=root, **(values | changes)), found)
    json.dumps(found.values)  # everything is a JSON value
    return found


MEMINFO = "MemTotal: 64000 kB\nMemFree: 1000 kB\nMemAvailable: 50000 kB\nSwapTotal: 0 kB\n"


# --- memory and control groups -------------------------------------------------------------------


def test_the_lowest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/a.slice/b.scope\n",
            "sys/fs/cgroup/a.slice/b.scope/memory.max": "max\n",
            "sys/fs/cgroup/a.slice/memory.max": str(16 * GIB),
            "sys/fs/cgroup/a.slice/memory.current": str(3 * GIB),
            "sys/fs/cgroup/memory.max": str(32 * GIB),
        },
    )
    values = run(memory, root).values["memory"]
    assert values["limited"] is True
    assert values["limit_bytes"] == 16 * GIB
    assert values["limit_used_bytes"] == 3 * GIB
    assert values["total_bytes"] == 64000 * 1024


def test_version_one_control_groups(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "11:cpu,cpuacct:/x\n9:memory:/docker/abc\n",
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/docker/memory.limit_in_bytes": str(8 * GIB),
        },
    )
    values = run(memory, root).values["memory"]
    assert values["limit_bytes"] == 8 * GIB


def test_no_limit_and_unknown_limit_differ(tmp_path: Path) -> None:
    root = write(tmp_path / "a", {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n"})
    assert run(memory, root).values["memory"]["limited"] is False
    root = write(tmp_path / "b", {"proc/meminfo": MEMINFO})
    found = run(memory, root)
    assert "limited" not in found.values["memory"]
    assert "memory.limited" in found.absent


def test_missing_meminfo_is_absent_and_not_zero(tmp_path: Path) -> None:
    found = run(memory, tmp_path)
    assert "total_bytes" not in found.values["memory"]
    assert "memory.total_bytes" in found.absent


@given(st.text())
def test_meminfo_never_raises(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "meminfo").write_text(text, encoding="utf-8", newline="")
        assert all(isinstance(value, int) for value in read_meminfo(Path(folder)).values())


def test_sysctls_are_read_in_small_pieces() -> None:
    """The kernel allocates the size of the read: 4 MiB for two digits ends in ENOMEM."""
    if not Path("/proc/sys/vm/swappiness").exists():
        pytest.skip("no /proc/sys")
    found = Gathered()
    memory.collect(Context(), found)
    assert isinstance(found.values["memory"]["swappiness"], int)


# --- container, WSL ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "env", "inside"),
    [
        ({"proc/self/cgroup": "0::/\n", "proc/1/comm": "systemd\n"}, {}, False),
        # It also exists in machine images made from containers.
        ({"proc/self/cgroup": "0::/\n", ".dockerenv": "", "proc/1/comm": "agent\n"}, {}, False),
        ({"proc/self/cgroup": "0::/docker/0abc\n"}, {}, True),
        ({"proc/self/cgroup": "0::/\n", "run/.containerenv": ""}, {}, True),
        ({"proc/self/cgroup": "0::/\n"}, {"container": "podman"}, True),
        (
            {
                "proc/self/cgroup": "0::/\n", ".dockerenv": "", "proc/1/comm": "python\n",
                "proc/self/mountinfo": "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/x\n",
            },
            {},
            True,
        ),
    ],
)  # fmt: skip
def test_container_signs(
    tmp_path: Path, files: dict[str, str], env: dict[str, str], inside: bool
) -> None:
    found = run(system, write(tmp_path, files), env=env)
    assert found.values["system"]["container"] is inside


def test_an_invisible_proc_does_not_say_no_container(tmp_path: Path) -> None:
    found = run(system, tmp_path)
    assert "container" not in found.values["system"]
    assert "system.container" in found.absent


def test_wsl_and_capabilities(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/version": "Linux version 6.6.87-microsoft-standard-WSL2",
            "proc/self/status": "CapEff:\t0000000000004000\nSeccomp:\t2\n",
        },
    )
    values = run(system, root).values["system"]
    assert values["wsl"] is True
    assert values["ipc_lock"] is True
    assert values["seccomp"] == 2


# --- driver --------------------------------------------------------------------------------------


def nvidia_tree(root: Path) -> Path:
    write(
        root,
        {
            "sys/module/nvidia/version": "580.95.05\n",
            "proc/driver/nvidia/version": (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release\n"
            ),
            "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
            "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
            "sys/bus/pci/devices/0000:01:00.0/device": "0x2b85\n",
            "sys/bus/pci/devices/0000:01:00.0/numa_node": "-1\n",
            # its audio function is no GPU
            "sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n",
            "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n",
            "sys/bus/pci/devices/0000:02:00.0/vendor": "0x8086\n",
            "sys/bus/pci/devices/0000:02:00.0/class": "0x030000\n",
            "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.09": "",
            "dev/nvidiactl": "",
            "dev/nvidia0": "",
        },
    )
    library = root / "usr/lib/x86_64-linux-gnu"
    (library / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.126.09")
    (root / "sys/bus/pci/drivers/nvidia").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:01:00.0/driver").symlink_to("../../drivers/nvidia")
    return root


def test_driver_facts_from_sysfs(tmp_path: Path) -> None:
    found = run(driver, nvidia_tree(tmp_path))
    values = found.values["driver"]
    assert values["module_version"] == "580.95.05"
    assert values["library"] == {"libnvidia-ml": "580.126.09"}
    assert values["open_module"] is True
    assert values["pci"] == [
        {"bus_id": "0000:01:00.0", "device": "0x2b85", "driver": "nvidia", "numa_node": -1}
    ]
    assert [node["name"] for node in values["nodes"]] == ["nvidiactl", "nvidia0"]
    assert values["nouveau"] is False


def test_nouveau_and_secure_boot(tmp_path: Path) -> None:
    root = write(tmp_path, {"sys/module/nouveau/refcnt": "1\n"})
    variable = root / "sys/firmware/efi/efivars"
    variable.mkdir(parents=True)
    name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    (variable / name).write_bytes(b"\x06\x00\x00\x00\x01")
    values = run(driver, root).values["driver"]
    assert values["nouveau"] is True
    assert values["secure_boot"] is True


XIDS = """\
[  10.1] nvidia: module license 'NVIDIA' taints kernel.
[ 812.3] NVRM: Xid (PCI:0000:01:00): 8, pid=1234, name=python, Channel 00000010
[ 900.0] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.
[ 901.0] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x24:0x72:1568)
"""


def test_kernel_messages() -> None:
    found = driver.parse_xids(XIDS)
    assert found["count"] == 2
    assert found["codes"] == [8, 79]
    assert found["last_code"] == 79
    assert found["lost"] is True
    assert "fallen off" in found["last"]
    assert found["init_failed"].startswith("RmInitAdapter failed")
    assert driver.parse_xids("") == {"count": 0, "codes": [], "lost": False}


@pytest.mark.parametrize(
    ("log", "from_s"),
    [
        ("[    0.000000] Linux version 6.18\n[   12.5] NVRM: loading\n", 0.0),
        ("[90000.125000] usb 1-1: new device\n", 90000.125),  # the ring has turned
        ("", None),
        ("kernel log without times\n", None),
    ],
)
def test_a_kernel_log_says_how_far_back_it_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, from_s: float | None
) -> None:
    (tmp_path / "root/sys/module/nvidia").mkdir(parents=True)
    tool = tmp_path / "bin/dmesg"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\nprintf '%s' '{log}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    found = run(driver, tmp_path / "root")
    if from_s is None:
        assert "driver.xid" in found.absent
    else:
        assert found.values["driver"]["xid"]["from_s"] == from_s


@given(st.text())
def test_kernel_messages_never_raise(text: str) -> None:
    assert driver.parse_xids(text)["count"] >= 0


# --- GPU -----------------------------------------------------------------------------------------


def test_absences_of_a_card_are_facts_with_reasons() -> None:
    found = Gathered()
    gpu.gather(Context(), found, Nvml(FakeNvml(h200(PowerUsage=Code(4)), h200())))
    assert found.values["gpu"]["nvml_code"] == 0
    assert len(found.values["gpu"]["devices"]) == 2
    assert found.absent["gpu.devices.0.power_w"].reason.value == "not-permitted"
    assert str(found.absent["gpu.devices.1.fan"].detail) == "unsupported"
    assert found.values["gpu"]["devices"][1]["power_w"] == pytest.approx(79.068)


def test_the_library_that_is_loaded_is_known_by_its_file(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {"proc/self/maps": "7f00-7f01 r-xp 0 00:1 9 /usr/lib/wsl/lib/libnvidia-ml.so.580.95.05\n"},
    )
    assert gpu.loaded_library(Context(root=root)) == "580.95.05"
    assert gpu.loaded_library(Context(root=tmp_path / "none")) is None


SMI = """\
0, NVIDIA GeForce RTX 5090, 580.95.05, 32607, 612, 31500, 12.0, 41.20, 38, [N/A]
1, NVIDIA GB10, 580.95.05, [N/A], [Not Supported], [N/A], 12.1, ERR!, 41, Disabled
garbage
"""


def test_nvidia_smi_values_that_are_not_there_are_left_out() -> None:
    first, second = nvidia_smi.parse(SMI)
    assert first["memory_total_bytes"] == 32607 * 1024**2
    assert first["compute_capability"] == [12, 0]
    assert "mig_enabled" not in first
    assert first["unified"] is False
    assert "memory_total_bytes" not in second
    assert "power_w" not in second
    assert "unified" not in second
    assert second["mig_enabled"] is False


@given(st.text())
def test_nvidia_smi_output_never_raises(text: str) -> None:
    assert isinstance(nvidia_smi.parse(text), list)


def test_nvidia_smi_stands_in_and_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'X'\n{SMI}X\n")
    tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    found = Gathered()
    gpu.gather(Context(env=env), found, Nvml(FakeNvml(init=999)))
    assert found.values["gpu"]["source"] == "nvidia-smi"
    assert found.values["gpu"]["nvml_code"] == 999
    assert found.values["gpu"]["driver_version"] == "580.95.05"
    tool.write_text("#!/bin/sh\nexec sleep 30\n")
    monkeypatch.setattr(nvidia_smi, "LIMIT_S", 0.2)
    found = Gathered()
    gpu.gather(Context(env=env), found, Nvml(FakeNvml(init=999)))
    assert found.values["gpu"]["smi"] == "timeout"
    assert "devices" not in found.values["gpu"]


# --- environment, topology, rings ----------------------------------------------------------------


def test_only_known_variables_are_read_and_secrets_never(tmp_path: Path) -> None:
    secret = "hf_" + "a" * 34
    env = {
        "HF_TOKEN": secret, "HTTP_PROXY": f"http://me:{secret}@proxy:3128", "SOMETHING": "private",
        "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    target = Target(env={"MAX_JOBS": "4", "OWN": "x"})
    found = run(environment, tmp_path, env=env, target=target)
    text = json.dumps(found.values)
    assert secret not in text
    assert "private" not in text
    assert found.values["env"]["secret_length"] == {"HF_TOKEN": 37}
    # An empty variable is set: an empty mask hides every card.
    assert found.values["env"]["set"]["CUDA_VISIBLE_DEVICES"] == ""
    assert found.values["env"]["set"]["MAX_JOBS"] == "4"
    assert found.values["env"]["from_profile"] == ["MAX_JOBS"]
    assert "HF_ENDPOINT" in found.values["env"]["unset"]


def test_cpu_lists() -> None:
    assert topology.parse_cpu_list("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    assert topology.parse_cpu_list("") == set()
    assert topology.parse_cpu_list("x,1-,3") == {3}


def test_numa_nodes(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    root = write(
        tmp_path,
        {
            "sys/devices/system/node/node0/cpulist": f"{cpu}\n",
            "sys/devices/system/node/node1/cpulist": "4000-4001\n",
        },
    )
    values = run(topology, root).values["topology"]
    assert values["nodes"] == [0, 1]
    assert values["own_nodes"] == [0]


def test_rings_are_tried_and_sysctls_read(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/sys/kernel/io_uring_disabled": "1\n"})
    found = run(rings, root)
    assert found.values["rings"]["depth"] == 512
    assert isinstance(found.values["rings"]["errno"], int)
    assert found.values["rings"]["sysctl"] == 1
    assert "rings.aio_used" in found.absent


# --- tool chain ----------------------------------------------------------------------------------


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


NVCC = "echo 'Cuda compilation tools, release 12.9, V12.9.86'"


def test_nvcc_is_found_in_the_engines_order(tmp_path: Path) -> None:
    script(tmp_path / "usr/local/cuda/bin/nvcc", NVCC.replace("12.9", "13.0"))
    script(tmp_path / "path/nvcc", NVCC)
    script(tmp_path / "home12/bin/nvcc", NVCC.replace("12.9", "12.8"))
    write(tmp_path, {"home12/include/crt/host_config.h": "#if __GNUC__ > 14\n#error\n#endif\n"})
    path = f"{tmp_path}/path:/usr/bin:/bin"
    values = run(toolkit, tmp_path, env={"PATH": path}).values["toolkit"]
    assert (values["nvcc_origin"], values["nvcc_version"]) == ("PATH", [12, 9])
    values = run(toolkit, tmp_path, env={"PATH": "/usr/bin:/bin"}).values["toolkit"]
    if values["nvcc_origin"] != "PATH":
        assert (values["nvcc_origin"], values["nvcc_version"]) == ("/usr/local/cuda", [13, 0])
    env = {"PATH": path, "CUDA_HOME": f"{tmp_path}/home12", "CUDA_PATH": "/ignored"}
    values = run(toolkit, tmp_path, env=env).values["toolkit"]
    assert (values["nvcc_origin"], values["nvcc_version"]) == ("CUDA_HOME", [12, 8])
    assert values["compiler_limit"] == 14


def test_a_broken_cuda_home_hides_nvcc_as_it_does_for_the_engine(tmp_path: Path) -> None:
    script(tmp_path / "path/nvcc", NVCC)
    env = {"PATH": f"{tmp_path}/path:/usr/bin:/bin", "CUDA_HOME": f":{tmp_path}"}
    values = run(toolkit, tmp_path, env=env).values["toolkit"]
    assert values["nvcc"] == ""
    assert values["home"].startswith(":")
    assert values["home_exists"] is False


def test_library_path_is_searched_for_cuda(tmp_path: Path) -> None:
    write(tmp_path, {"lib/libcudart.so.12": "", "lib/libncclx.so": "", "empty/x": ""})
    env = {"PATH": "/bin", "LD_LIBRARY_PATH": f"{tmp_path}/lib::{tmp_path}/empty:/gone"}
    values = run(toolkit, tmp_path, env=env).values["toolkit"]
    (hit,) = values["library_path"]
    assert hit["cudart_major"] == 12
    assert hit["libraries"] == ["cudart"]


def test_cache_folders_follow_their_variables(tmp_path: Path) -> None:
    (tmp_path / "work/.cache/flashinfer/0.7.2").mkdir(parents=True)
    (tmp_path / "work/.cache/flashinfer/0.6.14").mkdir()
    env = {"PATH": "/bin", "FLASHINFER_WORKSPACE_BASE": f"{tmp_path}/work"}
    rows = {r["name"]: r for r in run(toolkit, tmp_path, env=env).values["toolkit"]["caches"]}
    assert rows["flashinfer"]["path"] == f"{tmp_path}/work/.cache/flashinfer"
    assert rows["flashinfer"]["versions"] == ["0.6.14", "0.7.2"]
    assert rows["triton"]["available_bytes"] > 0


def test_nvcc_versions() -> None:
    assert toolkit.parse_nvcc("Cuda compilation tools, release 13.0, V13.0.88") == [13, 0]
    assert toolkit.parse_nvcc("nothing") is None


def test_raw_outputs_are_masked() -> None:
    text = raw.mask(
        "GPU UUID : GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9\n  Serial Number : 1320\x1b[31m\n"
    )
    assert "GPU-0a1b2c3d" in text
    assert "4e5f" not in text
    assert "1320" not in text
    assert "\x1b" not in text
