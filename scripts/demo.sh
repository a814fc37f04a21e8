#!/usr/bin/env bash
# Index, tag and evaluate the sample in benchmarks/data/tib-core-en, and show some results; writes into demo/.
# Settings given to this script go to `xmc index` (for example: scripts/demo.sh preset=fast).
set -euo pipefail
cd "$(dirname "$0")/.."

sample=benchmarks/data/tib-core-en
out=demo

run() {
    printf '\n$ %s\n' "$*" >&2
    "$@"
}

# Only what an earlier demo wrote; a model or output that exists already would not be made again.
rm -rf "$out/model" "$out/report"
rm -rf "$out/dev.jsonl"*
mkdir -p "$out"

run xmc inspect "$sample"/{labels,train,dev}.jsonl.gz
run xmc index --labels "$sample/labels.jsonl.gz" --docs "$sample/train.jsonl.gz" -o "$out/model" "$@"
run xmc inspect "$out/model"
run xmc tag --model "$out/model" --docs "$sample/dev.jsonl.gz" -o "$out/dev.jsonl"
run xmc eval --gold "$sample/dev.jsonl.gz" --pred "$out/dev.jsonl" --train "$sample/train.jsonl.gz" \
    --labels "$sample/labels.jsonl.gz" --report "$out/report"
run python scripts/show.py --labels "$sample/labels.jsonl.gz" --gold "$sample/dev.jsonl.gz" --pred "$out/dev.jsonl"
