#!/usr/bin/env bash
# One row of the README's table: index, tag and evaluate a data set, with CPU seconds and peak memory.
#   benchmarks/run.sh DATA OUT [SETTING ...]     DATA: a folder with labels, train and dev .jsonl.gz
# Settings go to `xmc index`. Needs GNU time (/usr/bin/time).
set -euo pipefail
data=$1 out=$2
shift 2
mkdir -p "$out"
measure() { /usr/bin/time -f "$1: %U s user, %S s system, %e s wall, %M KiB peak" "${@:2}"; }

measure index xmc index --labels "$data/labels.jsonl.gz" --docs "$data/train.jsonl.gz" -o "$out/model" "$@"
measure tag xmc tag --model "$out/model" --docs "$data/dev.jsonl.gz" -o "$out/dev.jsonl" top_k=100
measure eval xmc eval --gold "$data/dev.jsonl.gz" --pred "$out/dev.jsonl" --train "$data/train.jsonl.gz" \
    --labels "$data/labels.jsonl.gz" --report "$out/report"
