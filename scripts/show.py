"""Show tagged documents for reading: title, gold labels, and suggestions with scores, ✓ where they agree."""

from __future__ import annotations

import argparse
import gzip
import json
import textwrap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

WIDTH = 100


def records(path: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file of JSON lines, gzipped or not."""
    with gzip.open(path) if path.endswith(".gz") else Path(path).open("rb") as file:
        yield from map(json.loads, file)


def show(document: dict[str, Any], suggestions: list[dict[str, Any]], texts: dict[str, str], n: int) -> str:
    """One document as a few lines."""
    gold = document["labels"]
    title = textwrap.shorten(document["text"].split("\n")[0], WIDTH, placeholder=" ...")
    lines = [f"{document['id']}  {title}"]
    lines += [f"    gold       {texts.get(label, label)}" for label in gold]
    for s in suggestions[:n]:
        lines.append(f"    {s['score']:9.3f}{'✓' if s['id'] in gold else ' '} {s['text']}")
    return "\n".join(lines)


def main() -> None:
    """Read the arguments and print the first documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", required=True, help="labels, JSON lines")
    parser.add_argument("--gold", required=True, help="documents with gold labels, JSON lines")
    parser.add_argument("--pred", required=True, help="suggestions, JSON lines, in the order of --gold")
    parser.add_argument("--documents", type=int, default=6, help="how many documents are shown (%(default)s)")
    parser.add_argument("--suggestions", type=int, default=5, help="how many of each (%(default)s)")
    args = parser.parse_args()
    texts = {label["id"]: label["text"] for label in records(args.labels)}
    pairs = zip(records(args.gold), records(args.pred), strict=True)
    for document, tagged in islice(pairs, args.documents):
        print(show(document, tagged["suggestions"], texts, args.suggestions), end="\n\n")


if __name__ == "__main__":
    main()
