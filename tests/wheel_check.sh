#!/usr/bin/env bash
# Builds the wheel, installs it into a clean environment, and uses it from there as a stranger would:
# version, help, the doctor on a machine that may have no GPU, and a boot of the demo profile.
# Usage: PYTHON=/path/to/python tests/wheel_check.sh   (needs `build backend` access to a package index)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=$(mktemp -d)
export QWEN_TUI_HOME=$work/home
qwen=$work/venv/bin/qwen-tui
cleanup() {
    [[ -x $qwen ]] && "$qwen" down >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT

"$python" -m pip wheel --quiet --no-deps --wheel-dir "$work/dist" .
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
"$work/venv/bin/python" -m pip install --quiet "$work"/dist/qwen_tui-*.whl

cd "$work" # so that nothing is imported from the checkout
"$qwen" --version
"$qwen" --help >/dev/null
"$qwen" doctor --profile demo-speed --json >doctor.json
"$work/venv/bin/python" - <<'PY'
import json

report = json.load(open("doctor.json"))
assert next(iter(report)) == "schema", report
assert not [c["id"] for c in report["checks"] if c["status"] == "FAIL"], report["verdict"]
print("doctor:", report["verdict"], report["counts"])
PY
port=$("$work/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$qwen" up demo-speed --port "$port"
"$qwen" status --json | "$work/venv/bin/python" -c '
import json, sys
status = json.load(sys.stdin)
assert status["state"] == "running" and status["ready"] is True, status
print("demo:", status["state"], status["url"], [c["arg"] for c in status["asked_got"]])'
"$qwen" down
"$qwen" status --json | "$work/venv/bin/python" -c '
import json, sys
assert json.load(sys.stdin)["state"] == "stopped"'
echo "wheel: ok"
