# Sourced by the scripts beside it: programs of the system that tests need.
set -euo pipefail

# ensure_program WHAT NOT_TESTED PACKAGE PROGRAM...: install the Debian package if there is none of
# the programs. Where that is not possible, say what will not be tested.
ensure_program() {
    local what=$1 not_tested=$2 package=$3 program as_root=()
    for program in "${@:4}"; do
        ! command -v "$program" >/dev/null 2>&1 || return 0
    done
    [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
    if command -v apt-get >/dev/null 2>&1 && "${as_root[@]}" true 2>/dev/null; then
        echo "Installing $what (once) ..." >&2
        "${as_root[@]}" apt-get update -qq >/dev/null
        DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq "$package" >/dev/null
    else
        echo "There is no $what, and it cannot be installed here: $not_tested will NOT be tested." >&2
    fi
}
