"""The catalogue, and what is taken out of foreign text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_tui_profiles.foreign import REDACTED, clean, is_secret_name, redact, redact_argv
from qwen_tui_profiles.text import Text, as_record, from_record, set_language, t, tr


def test_fields_are_filled_and_nested_texts_too() -> None:
    inner = t("{n} slots", n=8)
    assert str(t("bound by {what}", what=inner)) == "bound by 8 slots"
    assert tr(t("plain {braces stay")) == "plain {braces stay"


def test_values_are_never_templates() -> None:
    assert str(t("model {name}", name="{evil} {0}")) == "model {evil} {0}"


def test_a_broken_translation_does_not_raise() -> None:
    assert str(Text("missing {field}", {"other": 1})) == "missing {field}"


def test_an_unknown_language_says_so_and_stays_english() -> None:
    assert set_language("xx_XX") is False
    assert tr(t("Stop")) == "Stop"
    assert set_language("en_GB") is True


_VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)


@given(_VALUES, _VALUES, st.text())
def test_a_stored_sentence_comes_back_as_it_was(one: object, two: object, stray: str) -> None:
    text = t("{one} beside {inner}", one=one, inner=t("({two}) {stray}", two=two, stray=stray))
    stored = json.loads(json.dumps(as_record(text)))
    back = from_record(stored, str(text))
    assert str(back) == str(text)
    assert back.template == text.template
    assert isinstance(back.fields["inner"], Text)


def test_numbers_keep_their_format() -> None:
    text = t("{seconds:6.1f} s, {share:.0%}", seconds=12.34, share=0.5)
    assert str(from_record(as_record(text), str(text))) == "  12.3 s, 50%"


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        [],
        "text",
        {"template": "another sentence", "fields": {}},
        {"template": "It ended.", "fields": None},
        {"template": 4, "fields": {}},
        {"template": "{a.__class__}", "fields": {"a": "x"}},
        {"template": "{a:d}", "fields": {"a": "x"}},
    ],
)
def test_the_english_sentence_decides(record: object) -> None:
    assert str(from_record(record, "It ended.")) == "It ended."


def test_a_sentence_stored_without_its_parts_is_looked_up_whole() -> None:
    set_language("zh_CN")
    try:
        assert tr(from_record(None, "Stopped, as asked.")) == tr(t("Stopped, as asked."))
        assert tr(from_record(None, "Stopped, as asked.")) != "Stopped, as asked."
        assert tr(from_record(None, "")) == ""
        assert tr(from_record(None, "said by {nobody}")) == "said by {nobody}"
    finally:
        set_language("en")


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("\x1b[1;33mwarn\x1b[0m", "warn"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\rb\x00c\x9b31mred", "abcred"),
        ("tab\there", "tab here"),
        ("模型 27B", "模型 27B"),
        ("rtl\u202egnp", "rtlgnp"),
    ],
)
def test_control_sequences_go(raw: str, safe: str) -> None:
    assert clean(raw) == safe


@given(st.text())
def test_clean_leaves_no_control_character(raw: str) -> None:
    out = clean(raw)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in out)
    assert clean(out) == out


@pytest.mark.parametrize(
    "raw",
    [
        "HF_TOKEN=hf_abcdefghijklmnop",
        "Authorization: Bearer abc.def-ghi",
        "http://user:secretpw@proxy:3128/x",
        "https://cdn/x?token=verysecret&x=1",
        "server_args=ServerArgs(api_key='verysecret', port=1)",
        "{'api_key': 'verysecret', 'admin_api_key': \"verysecret\"}",
        "python -m x --api-key verysecret --port 1",
        "sk-abcdefghijkl",
    ],
)
def test_secrets_go(raw: str) -> None:
    out = redact(raw)
    assert REDACTED in out
    for secret in ("verysecret", "secretpw", "hf_abcdef", "abc.def", "sk-abcdef"):
        assert secret not in out


def test_what_is_no_secret_stays() -> None:
    line = "max_new_tokens=128, api_key=None, #new-token: 16, eos_token_id=2"
    assert redact(line) == line


def test_secret_flags_in_argv() -> None:
    argv = ["--api-key", "abcd", "--admin-api-key=efgh", "--port", "1", "--num-draft-token", "4"]
    assert redact_argv(argv) == (
        "--api-key",
        REDACTED,
        f"--admin-api-key={REDACTED}",
        "--port",
        "1",
        "--num-draft-token",
        "4",
    )


@pytest.mark.parametrize("name", ["api_key", "--api-key", "HF_TOKEN", "hf-token", "password"])
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["max_token", "eos_token", "num_draft_token", "--port", "tokens"])
def test_names_that_only_sound_secret(name: str) -> None:
    assert not is_secret_name(name)
