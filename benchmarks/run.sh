#!/usr/bin/env bash
# One row of the README's table: make a model, tag and evaluate a data set, with CPU seconds and peak memory.
#   benchmarks/run.sh index|train DATA OUT [SETTING ...]     DATA: a folder with labels, train and dev .jsonl.gz
# Settings go to `xmc index` or `xmc train`. Needs GNU time (/usr/bin/time).
set -euo pipefail
command=$1 data=$2 out=$3
shift 3
mkdir -p "$out"
measure() { /usr/bin/time -f "$1: %U s user, %S s system, %e s wall, %M KiB peak" "${@:2}"; }

measure "$command" xmc "$command" --labels "$data/labels.jsonl.gz" --docs "$data/train.jsonl.gz" -o "$out/model" "$@"
measure tag xmc tag --model "$out/model" --docs "$data/dev.jsonl.gz" -o "$out/dev.jsonl" top_k=100
measure eval xmc eval --gold "$data/dev.jsonl.gz" --pred "$out/dev.jsonl" --train "$data/train.jsonl.gz" \
    --labels "$data/labels.jsonl.gz" --report "$out/report"
