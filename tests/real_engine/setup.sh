#!/usr/bin/env bash
# Puts a real SGLang on this machine's CPU for `make test-real`: its own virtual environment and a
# tiny checkpoint. About 15 GB and some minutes the first time; a second call changes nothing.
# Usage: tests/real_engine/setup.sh [FOLDER]      (default: $QWEN_TUI_REAL_ENGINE or ~/.cache/qwen-tui-real-engine)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${QWEN_TUI_REAL_ENGINE:-$HOME/.cache/qwen-tui-real-engine}}
version=${SGLANG_VERSION:-0.5.23}
mkdir -p "$folder"
[[ -x $folder/venv/bin/python ]] || "${PYTHON:-python3.11}" -m venv "$folder/venv"
found=$("$folder/venv/bin/python" -c 'import importlib.metadata as m; print(m.version("sglang"))' 2>/dev/null || true)
if [[ $found != "$version" ]]; then
    "$folder/venv/bin/python" -m pip install --quiet --upgrade pip
    "$folder/venv/bin/python" -m pip install --quiet "sglang==$version"
fi
[[ -f $folder/tiny-gpt2/config.json ]] || "$folder/venv/bin/python" "$here/make_tiny_model.py" "$folder/tiny-gpt2"
echo "$folder"
