#!/usr/bin/env bash
# Makes the environment of a peer from its pinned requirements: benchmarks/peers/setup.sh linear|omikuji|pecos|napkinxc
# PYTHON names the interpreter (PECOS needs 3.10), ENVIRONMENTS the folder they go to.
# requirements/NAME.alone.txt: packages that are installed without what they ask for, as the peer makes no use of it.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
folder=${ENVIRONMENTS:-$here/environments}/$1
"${PYTHON:-python3}" -m venv "$folder"
install() { "$folder/bin/python" -m pip install --quiet "$@"; }
install --requirement "$here/requirements/$1.txt"
[ ! -e "$here/requirements/$1.alone.txt" ] || install --no-deps --requirement "$here/requirements/$1.alone.txt"
