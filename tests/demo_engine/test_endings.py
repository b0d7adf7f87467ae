"""How the engine dies: on purpose, by faults, with and without its child."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import psutil
import pytest

from support.demo_server import HYBRID, QUICK, running


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_term_drains_and_ends_clean() -> None:
    quick = (*QUICK, "--demo-token-ms", "5")
    with running(*HYBRID, "--demo-child", quick=quick) as server:
        child = psutil.Process(server.process.pid).children()[0]
        answers: list[int] = []
        ask = {"text": "x", "sampling_params": {"max_new_tokens": 150, "ignore_eos": True}}
        thread = threading.Thread(target=lambda: answers.append(server.ask("/generate", ask)[0]))
        thread.start()
        while not server.ask("/v1/loads")[1]["loads"][0]["num_running_reqs"]:
            time.sleep(0.005)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("SIGTERM received. signum=None frame=None. Draining requests and shutting")
        assert server.ask("/ready")[0] == 503
        assert server.wait() == 0
        thread.join()
        assert answers == [200]
        server.wait_for("Gracefully exiting... Remaining number of requests 0.")
        assert not child.is_running()
        assert port_is_free(server.port)


def test_term_while_loading_kills_at_once() -> None:
    with running("--demo-child", ready=False, quick=("--demo-load-seconds", "8")) as server:
        server.wait_for("Load weight begin")
        child = psutil.Process(server.process.pid).children()[0]
        assert port_is_free(server.port)
        server.process.send_signal(signal.SIGTERM)
        assert server.wait() == -signal.SIGTERM
        gone, _ = psutil.wait_procs([child], timeout=5)
        assert gone == [child]


def test_a_killed_engine_takes_its_child_along() -> None:
    with running("--demo-child") as server:
        child = psutil.Process(server.process.pid).children()[0]
        server.process.kill()
        gone, _ = psutil.wait_procs([child], timeout=5)
        assert gone == [child]


def test_term_to_the_whole_group_is_a_crash() -> None:
    """Recorded: the scheduler dies first and the parent takes the crash path."""
    quick = (*QUICK, "--demo-drain-poll-seconds", "5")
    with running("--demo-child", quick=quick) as server:
        os.killpg(server.process.pid, signal.SIGTERM)
        assert server.wait() == -signal.SIGKILL
        server.wait_for("crashed with exit code -15. Triggering SIGQUIT for cleanup...")


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("oom-load", "torch.OutOfMemoryError: CUDA out of memory."),
        ("crash-load", "ModuleNotFoundError: No module named 'vllm'"),
        ("missing-weights", "RuntimeError: Cannot find any model weights with `/models/x`"),
    ],
)
def test_load_faults(fault: str, line: str) -> None:
    with running("--model-path", "/models/x", "--demo-fault", fault, ready=False) as server:
        assert server.wait() == -signal.SIGKILL
        assert "Scheduler hit an exception: Traceback (most recent call last):" in server.log
        assert line in server.log
        assert "Received sigquit from a child process." in server.log
        assert "fired up" not in server.log


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("oom-first-token", "Triton Error [CUDA]: out of memory"),
        ("slot-exhaustion", "AssertionError: Can not alloc mamba cache"),
        ("crash-running", "RuntimeError: CUDA error: an illegal memory access"),
        ("scheduler-killed", "crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
    ],
)
def test_run_faults_strike_after_readiness(fault: str, line: str) -> None:
    with running("--demo-fault", fault, "--demo-token-ms", "30") as server:
        with pytest.raises(OSError, match=r"Remote end closed|Connection reset"):
            server.ask("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 100}})
        assert server.wait() == -signal.SIGKILL
        assert line in server.log
        assert server.log.index("fired up") < server.log.index(line)


def test_a_server_that_ends_without_a_word() -> None:
    with running("--demo-fault", "exit-load", ready=False) as server:
        assert server.wait() == 1
        assert "Load weight" not in server.log


def test_hang_while_loading() -> None:
    with running("--demo-fault", "hang-load", ready=False) as server:
        server.wait_for("Load weight begin")
        time.sleep(0.2)
        assert server.process.poll() is None
        assert port_is_free(server.port)


def test_term_is_ignored_when_asked() -> None:
    with running("--demo-fault", "ignore-term") as server:
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.process.poll() is None
        assert server.ask("/ready")[0] == 200


def test_broken_bytes_in_the_log() -> None:
    with running("--demo-fault", "bad-utf8") as server, pytest.raises(UnicodeDecodeError):
        server.raw.decode("utf-8")


def test_a_taken_port_shows_after_the_boot() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with running("--port", str(port), ready=False) as server:
            assert server.wait() == 1
            assert "[Errno 98] error while attempting to bind on address" in server.log
            assert "max_total_num_tokens=" in server.log


def test_a_refused_command_line_ends_with_the_engines_words() -> None:
    with running("--context-length", "1000000", ready=False) as server:
        assert server.wait() == 1
        assert server.log.splitlines()[-1].startswith("ValueError: Warning: User-specified")


def test_what_has_no_effect_is_said() -> None:
    with running("--enable-fused-qk-norm-rope", "--trust-remote-code") as server:
        line = server.wait_for("accepted, with no effect on the simulation")
        assert line.endswith("--enable-fused-qk-norm-rope, --trust-remote-code")
