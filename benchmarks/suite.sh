#!/usr/bin/env bash
# The whole table, unattended: every data set with xmc's presets fast and default and with every peer, one after another.
#   benchmarks/suite.sh DATA OUT [NAME ...]     DATA: the folder of data sets; NAME: only these, in this order
# Adds a line for each row to OUT/results.jsonl. Killed or run again, it goes on where it stopped: finished rows
# are kept, a row that was cut off keeps its finished stages. ENVIRONMENTS: where benchmarks/peers/setup.sh made the
# peers' environments (default: benchmarks/peers/environments); a peer without one is left out, with a message.
# At the end OUT/pairs.jsonl tells by paired intervals which rows differ.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
data=$1 out=$2
shift 2
names=("${@:-reuters21578 bibtex delicious debtags tib-core-en eurlex57k yso-titles-en}")
# Bags of words have no text for the transformer of the default preset.
bags="bibtex delicious eurlex4k wiki10-31k amazoncat-13k amazon-670k wikipedia-500k"
peers=(tfidf-neighbours omikuji-parabel omikuji-bonsai pecos-xr-linear napkinxc-br tfidf-linear-svc
    annif-mllm annif-ensemble sentence-names sentence-neighbours)
environments=${ENVIRONMENTS:-$here/peers/environments}

# row NAME SYSTEM COMMAND...: runs it unless its line is there; what fails is told and does not stop the others.
row() {
    local folder=$out/$1/$2
    [ -e "$folder/done" ] && return
    mkdir -p "$out/$1"
    echo "$1 $2" >&2
    if "${@:3}" -o "$folder" --data "$data" --results "$out/results.jsonl" >"$folder.json"; then
        touch "$folder/done"
    fi
}

# shellcheck disable=SC2068
for name in ${names[@]}; do
    for preset in fast default; do
        [[ $preset = default && " $bags " = *" $name "* ]] && continue
        for system in index train; do
            row "$name" "$system-$preset" python -m xmc bench "$name" "preset=$preset" "bench.system=$system"
        done
    done
    for peer in "${peers[@]}"; do
        row "$name" "$peer" python "$here/peers/run.py" "$peer" "$name" --environments "$environments"
    done
done
python "$here/pairs.py" "$data" "$out"
