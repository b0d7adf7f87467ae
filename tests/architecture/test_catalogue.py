"""Every sentence for people is in the catalogue, translated whole, and shown in the language asked.

When one of these fails after a change of sentences: ``tools/catalogue.py extract``, ``update``,
translate what ``missing`` prints (``merge``), ``compile``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import catalogue
from qwen_tui.cli import main
from qwen_tui.services.language import known_tag, preferred_language, remembered_language
from qwen_tui.services.paths import Paths
from qwen_tui_profiles.text import language, set_language, t, tr
from support.console_pilot import opened, shown
from support.fake_console import FakeConsole, running

if TYPE_CHECKING:
    from collections.abc import Iterator

HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def found() -> catalogue.Messages:
    return catalogue.sources()


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("QWEN_TUI_LANG", "zh_CN")
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path))
    # main() changes argparse's look-up with the language: put back with it.
    monkeypatch.setattr("argparse._", lambda sentence: sentence)
    yield
    set_language("en")


def test_the_template_file_is_what_the_sources_say(found: catalogue.Messages) -> None:
    assert catalogue.template_ids() == found.keys()


@pytest.mark.parametrize("tag", catalogue.LANGUAGES)
def test_nothing_is_missing_unused_broken_or_not_compiled(
    tag: str, found: catalogue.Messages
) -> None:
    assert list(catalogue.language_problems(found, tag)) == []


def test_there_is_something_to_translate(found: catalogue.Messages) -> None:
    """The rest of this file would hold for an empty catalogue too."""
    assert len(found) > 3000
    said = catalogue.translations("zh_CN")
    assert sum(bool(HAN.search(text)) for text in said.values()) > 0.95 * len(said)


def test_adjacent_literals_are_one_template_and_data_counts() -> None:
    source = 'x = t(\n    "one {a} "\n    "and {b}",\n    a=t("inner"),\n    b=2,\n)'
    assert set(catalogue.templates_of(source, Path("x.py"))) == {"one {a} and {b}", "inner"}
    preset = 'title = "T"\nnotes = ["N"]\n[provenance]\n"args.x" = { source = "s", note = "P" }'
    assert list(catalogue.preset_texts(preset)) == ["T", "N", "P"]


def test_a_template_that_is_no_literal_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x\.py:1: .* no literal"):
        list(catalogue.templates_of('t(f"one {a}")', Path("x.py")))


@pytest.mark.parametrize(
    ("template", "translation", "whole"),
    [
        ("{a} of {b:,.1f}", "{b:,.1f} 中的 {a}", True),
        ("{a} and {a}", "{a}", True),
        ("{a}", "{b}", False),
        ("{a:,.1f}", "{a}", False),
        ("{a!r}", "{a}", False),
        ("{a} of {b}", "{a}", False),
        ("{a}", "{a", False),
        ("none", "{a}", False),
        ("braces {{x}} {a}", "花括号 {{x}} {a}", True),
        ("%(a)s: %s", "%(a)s：%s", True),
        ("%(a)s: %s", "%s：%(a)s", False),
    ],
)
def test_placeholders(template: str, translation: str, whole: bool) -> None:
    assert (catalogue.broken(template, translation) is None) is whole


@pytest.mark.parametrize(
    ("asked", "tag"),
    [
        ("zh", "zh_CN"),
        ("zh_CN.UTF-8", "zh_CN"),
        ("zh-Hans", "zh_CN"),
        ("en_GB.UTF-8", "en"),
        ("C.UTF-8", "en"),
        ("POSIX", "en"),
        ("de_DE.UTF-8", None),
        ("zha", None),
        ("", None),
    ],
)
def test_tags(asked: str, tag: str | None) -> None:
    assert known_tag(asked) == tag


@pytest.mark.parametrize(
    ("environ", "remembered", "tag"),
    [
        ({}, None, "en"),
        ({"LANG": "zh_CN.UTF-8"}, None, "zh_CN"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "en_US.UTF-8"}, None, "zh_CN"),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, None, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "en", "en"),
        ({"LANG": "en_US.UTF-8"}, "zh_CN", "zh_CN"),
        ({"QWEN_TUI_LANG": "zh", "LANG": "en_US.UTF-8"}, "en", "zh_CN"),
        ({"QWEN_TUI_LANG": "xx"}, "zh_CN", "zh_CN"),
    ],
)
def test_who_decides(environ: dict[str, str], remembered: str | None, tag: str) -> None:
    assert preferred_language(environ, lambda: remembered) == tag


def test_the_settings_are_read(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    assert remembered_language(paths) is None
    paths.settings.write_text('language = "zh_CN"\n', encoding="utf-8")
    assert remembered_language(paths) == "zh_CN"
    paths.settings.write_text("language = [broken\n", encoding="utf-8")
    assert remembered_language(paths) is None


def test_the_doctor_speaks_chinese_and_its_json_english(
    chinese: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--profile", "demo-speed", "--bench", "off"]) in {0, 1}
    report = capsys.readouterr().out
    assert "磁盘" in report
    assert "引擎" in report
    assert main(["doctor", "--profile", "demo-speed", "--bench", "off", "--json"]) in {0, 1}
    document = capsys.readouterr().out
    assert next(iter(json.loads(document))) == "schema"
    assert not HAN.search(document)


def test_help_and_refusals_are_chinese(chinese: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "用法：" in capsys.readouterr().out
    assert main(["web", "--host", "0.0.0.0"]) == 2
    assert "回环地址" in capsys.readouterr().err
    assert language() == "zh_CN"


async def test_the_console_speaks_chinese_and_back_by_key(chinese: None) -> None:
    set_language("zh_CN")
    async with opened(FakeConsole(running()), (120, 40)) as pilot:
        header, *_ = shown(pilot).splitlines()
        assert tr(t("RUNNING")) in header
        assert HAN.search(header)
        await pilot.press("ctrl+l")
        await pilot.pause(0.2)
        assert language() == "en"
        assert not HAN.search(shown(pilot).splitlines()[0])
