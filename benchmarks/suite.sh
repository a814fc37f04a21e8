#!/usr/bin/env bash
# The whole table, unattended: every data set with xmc's presets fast and default and with every peer, one after another.
#   benchmarks/suite.sh DATA OUT [NAME ...]     DATA: the folder of data sets; NAME: only these, in this order
# Adds a line for each row to OUT/results.jsonl. Killed or run again, it goes on where it stopped: finished rows
# are kept, a row that was cut off keeps its finished stages. ENVIRONMENTS: where benchmarks/peers/setup.sh made the
# peers' environments (default: benchmarks/peers/environments); a peer without one is left out, with a message.
# At the end OUT/pairs.jsonl tells by paired intervals which rows differ. The exit code is 1 where a row is missing.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
data=$1 out=$2
shift 2
all="reuters21578 bibtex delicious debtags tib-core-en eurlex57k yso-titles-en wordnet-hypernyms pkg-names-1m"
names=("${@:-$all}")
# Bags of words have no text for the transformer of the default preset, nor for peers that read texts.
bags="bibtex delicious eurlex4k wiki10-31k amazoncat-13k amazon-670k wikipedia-500k"
# No training documents, and too many names for a transformer on a CPU.
names_only="pkg-names-1m"
# Weights of every word for every label, as scikit-learn keeps them, take tens of gigabytes.
wide="eurlex57k yso-titles-en wordnet-hypernyms wiki10-31k amazoncat-13k amazon-670k wikipedia-500k"
peers=(tfidf-neighbours omikuji-parabel omikuji-bonsai pecos-xr-linear napkinxc-br)
readers=(annif-mllm annif-ensemble sentence-names sentence-neighbours)
environments=${ENVIRONMENTS:-$here/peers/environments}
missing=0

# row NAME SYSTEM COMMAND...: runs it unless its line is there; what fails is told and does not stop the others.
row() {
    local folder=$out/$1/$2
    [ -e "$folder/done" ] && return
    mkdir -p "$out/$1"
    echo "$1 $2" >&2
    if "${@:3}" -o "$folder" --data "$data" --results "$out/results.jsonl" >"$folder.json"; then
        touch "$folder/done"
    else
        missing=1
    fi
}

ours() { row "$1" "$3-$2" python -m xmc bench "$1" "preset=$2" "bench.system=$3"; }
peer() { row "$1" "$2" python "$here/peers/run.py" "$2" "$1" --environments "$environments"; }
among() { [[ " $2 " = *" $1 "* ]]; }

# shellcheck disable=SC2068
for name in ${names[@]}; do
    ours "$name" fast index
    among "$name" "$names_only" && continue
    ours "$name" fast train
    if ! among "$name" "$bags"; then
        ours "$name" default index
        ours "$name" default train
    fi
    for each in "${peers[@]}"; do peer "$name" "$each"; done
    among "$name" "$wide" || peer "$name" tfidf-linear-svc
    if ! among "$name" "$bags"; then
        for each in "${readers[@]}"; do peer "$name" "$each"; done
    fi
done
python "$here/pairs.py" "$data" "$out" || missing=1
exit "$missing"
