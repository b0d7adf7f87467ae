"""Headers from people who mean harm, and headers that merely broke."""

from __future__ import annotations

import json
import random
import resource
import struct
import sys
import types
from typing import TYPE_CHECKING

import pytest

from checkpoint.faults import edit_header
from qwen_tui_diagnostics.checkpoint import Verdict, verify
from qwen_tui_profiles.safetensors_header import HeaderError, HeaderFault, parse_header
from support.checkpoints import healthy

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _framework(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader imports the framework that it is asked for; listing keys uses nothing of it."""
    if "numpy" not in sys.modules:
        monkeypatch.setitem(sys.modules, "numpy", types.ModuleType("numpy"))


HEADER = json.dumps({
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "b\\x": {"dtype": "U8", "shape": [], "data_offsets": [16, 17]},
    "c": {"dtype": "BF16", "shape": [0, 4], "data_offsets": [17, 17], "x": [True, 1.5, None]},
}).encode()  # fmt: skip
DATA = b"8" * 17
PIECES = (
    b"0", b"-0", b"1.0", b"true", b"1e2", b"NaN", b"\\ud800", b"[", b"]", b"{", b"}", b",",
    b"\x00", b"\xff", b'"', b" ", b"null", b"18446744073709551616", b"-1", b":", b"\\u0041", b"F4",
    b"C64", b"1E999", b'"dtype"', b'"__metadata__"', b"16", b"17",
)  # fmt: skip


def _mutated(rng: random.Random) -> bytes:
    raw = bytearray(HEADER)
    for _ in range(rng.randint(1, 3)):
        at, dice = rng.randrange(len(raw)), rng.random()
        if dice < 0.3:
            raw[at] = rng.randrange(256)
        elif dice < 0.6:
            raw[at:at] = rng.choice(PIECES)
        elif dice < 0.8:
            raw[at : at + rng.randint(1, 4)] = rng.choice(PIECES)
        else:
            del raw[at : at + rng.randint(1, 8)]
    return bytes(raw)


def _fuzz(count: int, folder: Path, seed: int) -> None:
    """What the reference reader refuses is never taken; nothing crashes."""
    from safetensors import SafetensorError, safe_open

    rng = random.Random(seed)
    path = folder / "x.safetensors"
    accepted = 0
    for _ in range(count):
        raw = _mutated(rng)
        path.write_bytes(struct.pack("<Q", len(raw)) + raw + DATA)
        try:
            header = parse_header(raw)
        except HeaderError:
            continue
        if header.data_bytes != len(DATA):
            continue
        accepted += 1
        try:
            with safe_open(path, "numpy") as file:
                keys = set(file.keys())
        except SafetensorError as error:
            raise AssertionError(f"{error}: {raw!r}") from error
        assert keys == set(header.tensors)
    assert accepted > count // 200


def test_mutated_headers(tmp_path: Path) -> None:
    _fuzz(2000, tmp_path, 20261129)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_thousand_mutated_headers(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _fuzz(100_000, tmp_path, 7)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 << 10, f"{grown} KiB"


def test_mutated_checkpoints_are_judged(tmp_path: Path) -> None:
    """The whole command survives: a verdict comes out, and never ok for a refused file."""
    from safetensors import SafetensorError, safe_open

    folder = healthy("ct-int4", mtp=False).write(tmp_path / "x")
    path = folder / "model.safetensors"
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    rng = random.Random(3)
    for _ in range(150):
        raw = bytearray(data[8 : 8 + length])
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(raw))
            raw[at : at + rng.randint(0, 3)] = rng.choice(PIECES)
        path.write_bytes(struct.pack("<Q", len(raw)) + bytes(raw) + data[8 + length :])
        verdict = verify(folder).verdict
        try:
            with safe_open(path, "numpy") as file:
                file.keys()
        except SafetensorError:
            assert verdict in {Verdict.ERROR, Verdict.UNKNOWN}


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b'{"a":' * 5000, HeaderFault.JSON),
        (b"[" * 100_000, HeaderFault.JSON),
        (b'{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],'
         b'"data_offsets":[0,4]}}', HeaderFault.SIZE),
        (b'{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}', HeaderFault.SIZE),
        (b'{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}', HeaderFault.ENTRY),
        (b'{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}', HeaderFault.ENTRY),
        (b'{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}', HeaderFault.ENTRY),
        (b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', HeaderFault.OFFSETS),
        (b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,-0]}}', HeaderFault.ENTRY),
        (b'{"a":{"dtype":"X8","shape":[1],"data_offsets":[0,1]}}', HeaderFault.DTYPE),
        (b'{"a":{"dtype":"U8","shape":' + b"9" * 5000 + b"}}", HeaderFault.JSON),
        (b'{"__metadata__":{"a":1}}', HeaderFault.JSON),
        (b'{"a\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', HeaderFault.JSON),
        (b"{}\0\0", HeaderFault.JSON),
        (b"", HeaderFault.JSON),
    ],
)  # fmt: skip
def test_refused(raw: bytes, fault: HeaderFault) -> None:
    with pytest.raises(HeaderError) as error:
        parse_header(raw)
    assert error.value.fault is fault


def test_a_bomb_of_brackets_is_not_parsed() -> None:
    raw = b"[" + b"[],[]," * 1_100_000 + b"[]]"
    with pytest.raises(HeaderError) as error:
        parse_header(raw)
    assert error.value.fault is HeaderFault.TOO_COMPLEX


@pytest.mark.parametrize("claim", [2**63, 2**64 - 1, 99_999_999, 100_000_001, 7])
def test_claimed_lengths_allocate_nothing(claim: int, tmp_path: Path) -> None:
    folder = healthy("bf16", vision=False, mtp=False).write(tmp_path / "x")
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", claim) + path.read_bytes()[8:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = verify(folder)
    assert report.verdict is Verdict.ERROR
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


def test_a_huge_sparse_header_is_not_read(tmp_path: Path) -> None:
    folder = healthy("bf16", vision=False, mtp=False).write(tmp_path / "x")
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 90_000_000))
        file.truncate(90_000_008)
    report = verify(folder)
    # Too large for any release: not looked at, and so never ok.
    assert report.verdict is Verdict.UNKNOWN


def test_names_cannot_reach_the_terminal(tmp_path: Path) -> None:
    folder = healthy("bf16", vision=False, mtp=False).write(tmp_path / "x")
    evil = "\\u001b]0;pwned\\u0007[red]x"
    edit_header(lambda raw: raw.replace(b"model.norm.weight", evil.encode(), 1))(folder)
    document = json.dumps(verify(folder).as_json(), ensure_ascii=False)
    assert "\\u001b" not in document
    assert "\\u0007" not in document


def test_expressions_that_never_end_are_not_tried(tmp_path: Path) -> None:
    checkpoint = healthy("ct-int4")
    checkpoint.quant["ignore"].append("re:(a+)+$")
    report = verify(checkpoint.write(tmp_path / "x"))
    assert report.findings[0].rule == "Q16"
    assert report.seconds < 1


def test_absurd_configs_are_survived(tmp_path: Path) -> None:
    for number, change in enumerate((
        {"num_hidden_layers": 10**9}, {"num_hidden_layers": "two"}, {"layer_types": "x"},
        {"hidden_size": -1}, {"num_experts": 10**12}, {"head_dim": None}, {"vocab_size": 1e300},
        {"layer_types": [None, 3]},
    )):  # fmt: skip
        checkpoint = healthy("bf16")
        checkpoint.config["text_config"].update(change)
        report = verify(checkpoint.write(tmp_path / str(number)))
        assert report.as_json()["schema"] == "qwen-tui.verify/1"
    for number, quant in enumerate((
        {"quant_method": "compressed-tensors", "config_groups": []},
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": 3}}},
        {"quant_method": "modelopt", "quantized_layers": 7, "quant_algo": "MIXED_PRECISION"},
        {"quant_method": 7}, {"quant_method": "awq", "bits": 0}, {"quant_method": "fp8",
         "weight_block_size": [0, 0]}, {"quant_method": "gptq", "dynamic": {"+:(": {}}},
        {"quant_method": "auto-round", "extra_config": {"[": {}}},
    )):  # fmt: skip
        checkpoint = healthy("bf16")
        checkpoint.config["quantization_config"] = quant
        report = verify(checkpoint.write(tmp_path / f"q{number}"))
        assert report.verdict is not Verdict.OK


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    import os

    folder = healthy("bf16").write(tmp_path / "x")
    (folder / "model_mtp.safetensors").unlink()
    os.mkfifo(folder / "model_mtp.safetensors")
    report = verify(folder)
    assert report.findings[0].rule == "F10"
