#!/usr/bin/env bash
# The whole gate: format, lint, types, tests. Uses the python of the active virtual environment, or
# makes one in .venv. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
if [ -z "${VIRTUAL_ENV:-}" ]; then
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    python=.venv/bin/python
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "swcaffe needs Python 3.10 or newer, found $("$python" --version)" >&2
    exit 2
}
if ! "$python" -c 'import swcaffe, pytest, mypy, ruff, matplotlib' 2>/dev/null; then
    "$python" -m pip install --quiet --editable '.[dev,plot]'
    for package in plyvel 'mpi4py mpich'; do # tests that need them are skipped without
        # shellcheck disable=SC2086
        "$python" -m pip install --quiet --only-binary :all: $package ||
            echo "no wheel of $package for this Python: tests that need it are skipped"
    done
fi

echo "== format";  "$python" -m ruff format --check .
echo "== lint";    "$python" -m ruff check .
echo "== types";   "$python" -m mypy
echo "== tests";   "$python" -m pytest -q "$@"
