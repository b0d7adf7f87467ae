"""Rows for engine, network and Hub."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

from support.doctor_machines import TARGET_27B, TARGET_FLASH, changed, workstation
from support.doctor_rows.base import (
    DOWNLOAD,
    FAIL,
    OK,
    SKIP,
    WARN,
    base,
    engine,
    env,
    folder,
    gpu,
    package,
)

if TYPE_CHECKING:
    from support.doctor_rows.base import Row

OURS = base(
    server={"answers": True, "model": "qwen3.8"},
    port__bind_errno=errno.EADDRINUSE,
    port__owners=[{"pid": 99, "name": "python3"}],
)

ROWS: list[Row] = [
    # --- engine -------------------------------------------------------------------------------
    ("engine.found", workstation(), TARGET_27B, OK, "sglang 0.5.23 in /opt/sglang/bin/python"),
    ("engine.found", base(engine__installs=[]), TARGET_27B, FAIL, "(1 looked at)"),
    ("engine.found", base(engine__named_missing="/nope/python"), TARGET_27B, FAIL, "/nope/python"),
    ("engine.version", workstation(), TARGET_27B, OK, "sglang 0.5.23"),
    ("engine.version", engine(version="0.5.17"), TARGET_27B, WARN, "0.5.17"),
    ("engine.version", changed(engine(version="0.5.19"),
                               model__config__architectures=["Qwen4ExpForConditionalGeneration"]),
     TARGET_FLASH, FAIL, "0.5.19"),
    # A fork reports an odd version: its commit is what counts.
    ("engine.version", changed(engine(version="0.5.6.dev9+g7df4aea", url="https://x/y.git",
                                      commit="7df4aea02b00"),
                               model__config__architectures=["Qwen4ExpForConditionalGeneration"]),
     TARGET_FLASH, WARN, "0.5.6.dev9"),
    ("engine.pins", workstation(), TARGET_27B, OK, "4 pinned"),
    ("engine.pins", package(sglang_kernel="0.4.5"), TARGET_27B, FAIL,
     "sglang-kernel 0.4.5 installed, ==0.4.10 needed"),
    ("engine.pins", package(torch=None), TARGET_27B, FAIL, "torch is not installed"),
    ("engine.pins", package(torch="2.14.1+cu130"), TARGET_27B, OK, "4 pinned"),
    ("engine.kernel_dup", package(sgl_kernel="0.3.21"), TARGET_27B, FAIL, "both"),
    ("engine.kernel_dup", package(sglang_kernel=None), TARGET_27B, WARN, "no kernel package"),
    ("engine.flashinfer", workstation(), TARGET_27B, OK, "flashinfer 0.7.2"),
    # vllm#49804: cubin 0.6.13 beside 0.6.14 raises; from 0.7.0 it is ignored
    ("engine.flashinfer", package(flashinfer_python="0.6.14", flashinfer_cubin="0.6.13"),
     TARGET_27B, FAIL, "flashinfer-cubin 0.6.13"),
    ("engine.flashinfer", package(flashinfer_cubin="0.6.13"), TARGET_27B, WARN, "0.6.13"),
    ("engine.flashinfer", package(flashinfer_jit_cache="0.7.2+cu130"), TARGET_27B, OK, "prebuilt"),
    ("engine.fp4_zeros", package(flashinfer_python="0.6.3"), TARGET_27B, FAIL, "0.6.3"),
    ("engine.fp4_zeros", package(flashinfer_python="0.6.4"), TARGET_27B, OK, "0.6.4"),
    ("engine.torch_cuda", workstation(), TARGET_27B, OK, "CUDA 13.0"),
    ("engine.torch_cuda", engine(torch={"version": "2.14.1+cpu"}), TARGET_27B, FAIL,
     "without CUDA"),
    # A CPU build is what such a profile wants (vLLM 0.32.0+cpu).
    ("engine.torch_cuda", engine(torch={"version": "2.14.1+cpu"}),
     replace(TARGET_27B, needs_gpu=False), SKIP, "does not use a GPU"),
    # sglang#7249, pytorch#149845: no kernel image
    ("engine.torch_cuda", engine(torch={"version": "2.6.0+cu124", "cuda": [12, 4]}), TARGET_27B,
     FAIL, "CUDA 12.4"),
    ("engine.torch_cuda", base(torch__arch_flags="sm_80 sm_90"), TARGET_27B, FAIL, "2.14.1"),
    ("engine.torch_cuda", base(torch__arch_flags="sm_80 compute_90"), TARGET_27B, WARN, "2.14.1"),
    # sm_120 is fine on a 12.1 card: do not demand an exact match.
    ("engine.torch_cuda", changed(gpu(compute_capability=[12, 1]), torch__arch_flags="sm_120"),
     TARGET_27B, OK, "2.14.1"),
    ("engine.cuda_probe", base(torch__devices=8), TARGET_27B, OK, "computes on 8 GPUs"),
    ("engine.cuda_probe", base(torch__kernel_error="no kernel image", torch__device=3),
     TARGET_27B, FAIL, "on visible device 3"),
    ("engine.cuda_probe", workstation(), TARGET_27B, OK, "computes"),
    ("engine.cuda_probe", base(torch__available=False), TARGET_27B, FAIL, "sees no GPU"),
    ("engine.cuda_probe", base(torch__kernel_error="CUDA error: no kernel image"), TARGET_27B, FAIL,
     "no kernel image"),
    ("engine.cuda_probe", base(torch__sum=0.0), TARGET_27B, FAIL, "wrong"),
    # blackfish#322
    ("engine.model_type", engine(model__in_engine=False), TARGET_27B, FAIL, "not among"),
    ("engine.model_type", engine(model__in_transformers=False), TARGET_27B, WARN, "Transformers"),
    ("engine.flags", engine(flags__unknown=[{"flag": "--bogus", "near": ["--bonus"]}]), TARGET_27B,
     FAIL, "--bogus is unknown; near: --bonus"),
    ("engine.flags", engine(flags__bad_values=[
        {"flag": "--kv-cache-dtype", "value": "fp9", "choices": ["auto", "fp8_e4m3"]}]),
     TARGET_27B, FAIL, "fp9"),
    ("engine.flags", engine(flags__deprecated=[{"flag": "--old", "use": "--new"}]), TARGET_27B,
     WARN, "--old"),
    ("engine.flags", engine(flags__ambiguous=[{"flag": "--cuda-graph-max-bs", "near": ["--a"]}]),
     TARGET_27B, FAIL, "ambiguous"),
    ("engine.asked", workstation(), TARGET_27B, OK, "accepts"),
    ("engine.asked", base(asked__complaint="argument --kv-cache-dtype: invalid choice: 'fp9'"),
     TARGET_27B, FAIL, "invalid choice"),
    ("engine.env", env(FLASHINFER_DISABLE_VERSION_CHECK="1"), TARGET_27B, WARN, "version check"),
    ("engine.env", env(CUDA_LAUNCH_BLOCKING="0"), TARGET_27B, OK, "no variable"),
    ("engine.instance", base(server={"answers": True, "model": "qwen3.8"}), TARGET_27B, WARN,
     "qwen3.8"),
    # Our own server on the port: nothing to be afraid of, whichever profile it runs.
    ("engine.instance", OURS, replace(TARGET_27B, own_pids=(99,), own_profile=TARGET_27B.profile),
     OK, "it is our own"),
    ("engine.instance", OURS, replace(TARGET_27B, own_pids=(99,), own_profile="other"), OK,
     "with profile other"),
    ("engine.instance", OURS, replace(TARGET_27B, own_pids=(98,), own_profile="other"), WARN,
     "serves qwen3.8"),
    ("engine.user_site", engine(user_site=True, user_site_shadows=["torch"]), TARGET_27B, WARN,
     "torch"),
    ("engine.user_site", engine(user_site=True, user_site_shadows=[]), TARGET_27B, OK, "none"),
    # --- network ------------------------------------------------------------------------------
    ("net.port", workstation(), TARGET_27B, OK, "127.0.0.1:30000 is free"),
    ("net.port", base(port__bind_errno=errno.EADDRINUSE, port__next_free=30001,
                      port__owners=[{"pid": 99, "name": "python3"}]), TARGET_27B, FAIL,
     "127.0.0.1:30000 is taken by python3 (99)"),
    ("net.port", base(port__bind_errno=errno.EADDRINUSE,
                      port__owners=[{"pid": 99, "name": "python3"}]),
     replace(TARGET_27B, own_pids=(99,)), OK, "our own server"),
    # A container's port is held by its runtime.
    ("net.port", base(port__bind_errno=errno.EADDRINUSE,
                      port__owners=[{"pid": 7, "name": "docker-proxy"}]),
     replace(TARGET_27B, own_pids=(99,), own_port=30000), OK, "our own server"),
    ("net.port", base(port__bind_errno=errno.EADDRINUSE,
                      port__owners=[{"pid": 7, "name": "docker-proxy"}]),
     replace(TARGET_27B, own_pids=(99,), own_port=30001), FAIL, "docker-proxy (7)"),
    ("net.port", base(port__bind_errno=errno.EACCES, port__port=80), TARGET_27B, FAIL, "denied"),
    ("net.port", base(port__bind_errno=errno.EADDRNOTAVAIL), TARGET_27B, FAIL, "assign"),
    ("net.port_range", base(port__port=40000), TARGET_27B, WARN, "40000"),
    ("net.aux_ports", base(port__nccl_taken=3000), TARGET_27B, WARN, "3000"),
    # sglang#9155, #9814
    ("net.loopback_proxy", env(http_proxy="http://proxy:3128"), TARGET_27B, FAIL, "NO_PROXY lacks"),
    ("net.loopback_proxy", env(http_proxy="http://p:1", no_proxy="127.0.0.1,localhost"),
     TARGET_27B, OK, "excepted"),
    ("net.loopback_proxy", env(http_proxy="http://p:1", no_proxy="127.0.0.1,localhost"),
     replace(TARGET_27B, host="0.0.0.0"), FAIL, "0.0.0.0"),
    ("net.loopback_proxy", env(http_proxy="http://p:1", NO_PROXY="*"), TARGET_27B, OK, "excepted"),
    # sglang#28503
    ("net.loopback_proxy", env(http_proxy="htp:/bad proxy"), TARGET_27B, FAIL, "not an address"),
    ("net.exposure", base(port__host="0.0.0.0"), TARGET_27B, WARN, "everybody"),
    ("net.exposure", base(port__host="0.0.0.0"), replace(TARGET_27B, argv=("--api-key", "x")), OK,
     "0.0.0.0"),
    # --- Hub ----------------------------------------------------------------------------------
    ("hub.reach", workstation(), DOWNLOAD, OK, "answers"),
    ("hub.reach", base(hub__error="tls"), DOWNLOAD, FAIL, "certificate"),
    # hf-mirror-site#50: metadata passes, the big files' host does not
    ("hub.reach", base(hub__redirect_error="timeout"), DOWNLOAD, FAIL, "cas-bridge.xethub.hf.co"),
    ("hub.reach", base(hub__seconds=4.0), DOWNLOAD, WARN, "4.0 s"),
    # huggingface_hub#4475
    ("hub.xet", env(HF_ENDPOINT="https://hf-mirror.com"), TARGET_27B, WARN, "Xet is on"),
    ("hub.xet", env(HF_ENDPOINT="https://hf-mirror.com", HF_HUB_DISABLE_XET="yes"), TARGET_27B, OK,
     "Xet is off"),
    ("hub.xet", env(HF_ENDPOINT="https://huggingface.co/"), TARGET_27B, OK, "no mirror"),
    ("hub.token", base(hub__token_from="HF_TOKEN", hub__token_length=37), DOWNLOAD, OK,
     "37 characters"),
    ("hub.token", base(hub__token_from="HF_TOKEN", hub__token_length=37, hub__status=401,
                       hub__error_message="Invalid credentials in Authorization header"),
     DOWNLOAD, FAIL, "37 characters"),
    ("hub.token", base(hub__gated=True), DOWNLOAD, WARN, "none"),
    ("hub.gated", base(hub__status=403, hub__error_code="GatedRepo", hub__token_length=37),
     DOWNLOAD, FAIL, "gated (403)"),
    ("hub.gated", base(hub__status=401, hub__error_code="RepoNotFound"), DOWNLOAD, FAIL,
     "not found, or no access"),
    # huggingface_hub#2742
    ("hub.space", changed(folder(space__available_bytes=10 * 10**9),
                          hub__missing_bytes=19 * 10**9), DOWNLOAD, FAIL, "19.0 GB to download"),
    ("hub.space", changed(folder(space__available_bytes=int(19.5e9)),
                          hub__missing_bytes=19 * 10**9), DOWNLOAD, WARN, "19.0 GB"),
    # huggingface_hub#4196
    ("hub.resume", base(hub__client_version="1.18.0", hub__largest_bytes=16_900_000_000), DOWNLOAD,
     WARN, "1.18.0"),
    ("hub.resume", base(hub__largest_bytes=16_900_000_000), DOWNLOAD, OK, "1.17.0"),
    ("hub.transfer", env(HF_HUB_ENABLE_HF_TRANSFER="1"), TARGET_27B, WARN, "ignores it"),
    ("hub.transfer", changed(env(HF_HUB_ENABLE_HF_TRANSFER="1"), hub__client_version="0.36.0"),
     TARGET_27B, FAIL, "not installed"),
    ("hub.offline", env(HF_HUB_OFFLINE="1"), TARGET_27B, WARN, "HF_HUB_OFFLINE"),
    ("hub.offline", changed(env(HF_HUB_OFFLINE="1"), env__from_profile=["HF_HUB_OFFLINE"]),
     TARGET_27B, OK, "no offline"),
    ("hub.verify", workstation(), TARGET_27B, SKIP, "not hashed"),
]  # fmt: skip
