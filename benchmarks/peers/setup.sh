#!/usr/bin/env bash
# Makes the environment of a peer from its pinned requirements:
#   benchmarks/peers/setup.sh linear|omikuji|pecos|napkinxc|annif|sentence
# PYTHON names the interpreter (PECOS needs 3.10), ENVIRONMENTS the folder they go to.
# requirements/NAME.alone.txt: packages that are installed without what they ask for, as the peer makes no use of it.
# requirements/NAME.nltk.txt: names of NLTK's data packages, which lie where NLTK looks first, in the environment.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
folder=${ENVIRONMENTS:-$here/environments}/$1
"${PYTHON:-python3}" -m venv "$folder"
install() { "$folder/bin/python" -m pip install --quiet "$@"; }

# NLTK's own downloader, or, where its server is out of reach, the same files out of a wheel that carries them.
tokenizer() {
    local download="import nltk, sys; sys.exit(not nltk.download('$1', '$folder/nltk_data', quiet=True))"
    "$folder/bin/python" -c "$download" </dev/null && return
    echo "NLTK's server does not answer: $1 is taken out of a wheel of $carrier" >&2
    local got
    got=$(mktemp -d)
    "$folder/bin/python" -m pip download --quiet --no-deps --dest "$got" "$carrier"
    "$folder/bin/python" -m zipfile -e "$got"/*.whl "$got/all"
    mkdir -p "$folder/nltk_data/tokenizers"
    cp -r "$got/all/llama_index/core/_static/nltk_cache/tokenizers/$1" "$folder/nltk_data/tokenizers/"
    rm -r "$got"
}
carrier=llama-index-core==0.12.52

install --requirement "$here/requirements/$1.txt"
[ ! -e "$here/requirements/$1.alone.txt" ] || install --no-deps --requirement "$here/requirements/$1.alone.txt"
[ ! -e "$here/requirements/$1.nltk.txt" ] || tokenizer "$(cat "$here/requirements/$1.nltk.txt")"
