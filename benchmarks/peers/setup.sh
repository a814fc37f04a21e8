#!/usr/bin/env bash
# Makes the environment of a peer from its pinned requirements: benchmarks/peers/setup.sh linear|omikuji|pecos|napkinxc
# PYTHON names the interpreter (PECOS needs 3.10), ENVIRONMENTS the folder they go to.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
folder=${ENVIRONMENTS:-$here/environments}/$1
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --requirement "$here/requirements/$1.txt"
