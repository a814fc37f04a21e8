"""Models that were cut, or changed by a hostile hand that corrected the manifest: one line, no traceback."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import data_files, docs_file, forged, index, labels_file, synthetic, tag, xmc
from xmc.artifacts import load_array, load_csr, save_array, save_csr

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    labels, docs = synthetic(20, 30)
    return index(folder / "m", labels_file(folder / "l.jsonl", labels), docs_file(folder / "d.jsonl", docs))


def refusal(model: Path, folder: Path, capsys) -> str:
    """The one line with which tagging with a model is refused."""
    docs, out = docs_file(folder / "docs.jsonl"), folder / "out.jsonl"
    capsys.readouterr()
    assert xmc("tag", "--model", model, "--docs", docs, "-o", out) == 2
    said = capsys.readouterr().err
    assert said.startswith("xmc: error: ")
    assert said.count("\n") == 1
    assert "bug" not in said
    assert not out.exists()
    return said


FILES = [
    "encoder/dual.json",
    "encoder/lexical.json",
    "encoder/lexical_idf.npy",
    "encoder/lexical_keys.npy",
    "index/index.json",
    "index/rows.npy",
    "index/vectors.npy",
    "labels.arrow",
    "matcher/names.npz",
    "matcher/starts.npy",
    "memory/documents.arrow",
    "memory/index/vectors.npy",
    "memory/labels.npz",
    "weights.json",
]


def test_every_kind_of_file_is_among_those_that_are_damaged_here(model):
    assert set(FILES) <= set(data_files(model))


@pytest.mark.parametrize("file", [*FILES, "manifest.json"])
def test_a_file_that_was_cut(model, tmp_path, capsys, file):
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    content = (broken / file).read_bytes()
    cut = content[:-100] if len(content) > 100 else content[:-1]
    (broken / file).write_bytes(cut)
    before = {p: p.read_bytes() for p in broken.rglob("*") if p.is_file()}
    said = refusal(broken, tmp_path, capsys)
    assert "xmc index" in said
    if file != "manifest.json":
        assert f"{file}: expected {len(content)} bytes, found {len(cut)}" in said
    assert {p: p.read_bytes() for p in broken.rglob("*") if p.is_file()} == before


# A model may be without these, and the parts that they are the mark of.
OPTIONAL = ("matcher/names.npz", "memory/labels.npz")
DAMAGES = [(f, d) for f in FILES for d in ("cut", "empty", "other bytes")]


@pytest.mark.parametrize(("file", "damage"), DAMAGES + [(f, "gone") for f in FILES if f not in OPTIONAL])
def test_a_damaged_file_that_the_manifest_vouches_for(model, tmp_path, capsys, file, damage):
    def change(path: Path) -> None:
        content = (path / file).read_bytes()
        altered = {"cut": content[: len(content) // 2], "empty": b"", "other bytes": b"\x93\xff" * 40}
        (path / file).unlink()
        if damage != "gone":
            (path / file).write_bytes(altered[damage])

    refusal(forged(model, tmp_path / "forged", change), tmp_path, capsys)


def array(file: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda path: save_array(path / file, change(np.array(load_array(path / file))))


def matrix(file: str, change: Callable) -> Change:
    return lambda path: save_csr(path / file, change(load_csr(path / file)))


def text(file: str, old: str, new: str) -> Change:
    def change(path: Path) -> None:
        content = (path / file).read_text()
        assert old in content
        (path / file).write_text(content.replace(old, new))

    return change


def swap(one: str, other: str) -> Change:
    def change(path: Path) -> None:
        (path / one).rename(path / "aside")
        (path / other).rename(path / one)
        (path / "aside").rename(path / other)

    return change


def one_nan(values: np.ndarray) -> np.ndarray:
    values.flat[values.size // 2] = np.nan
    return values


CHANGES: dict[str, Change] = {
    "NaN in the label vectors": array("index/vectors.npy", one_nan),
    "infinite label vectors": array("index/vectors.npy", lambda a: np.full_like(a, np.inf)),
    "huge label vectors": array("index/vectors.npy", lambda a: a * np.float32(1e30)),
    "label vectors of another width": array("index/vectors.npy", lambda a: a[:, :-1]),
    "fewer label vectors": array("index/vectors.npy", lambda a: a[:-1]),
    "doubles for label vectors": array("index/vectors.npy", lambda a: a.astype(float)),
    "rows beyond the labels": array("index/rows.npy", lambda a: a + 1),
    "rows twice": array("index/rows.npy", lambda a: np.zeros_like(a)),
    "NaN in the memory": array("memory/index/vectors.npy", one_nan),
    "long vectors in the memory": array("memory/index/vectors.npy", lambda a: a * np.float32(1e9)),
    "labels and memory swapped": swap("index", "memory/index"),
    "vectors swapped": swap("index/vectors.npy", "memory/index/vectors.npy"),
    "rows and vectors swapped": swap("index/rows.npy", "index/vectors.npy"),
    "words and weights swapped": swap("encoder/lexical_keys.npy", "encoder/lexical_idf.npy"),
    "matrices swapped": swap("matcher/names.npz", "memory/labels.npz"),
    "NaN in the weights of words": array("encoder/lexical_idf.npy", one_nan),
    "weights of other words": array("encoder/lexical_idf.npy", lambda a: a[:-1]),
    "words out of order": array("encoder/lexical_keys.npy", lambda a: a[::-1]),
    "another number of buckets": text("encoder/lexical.json", '"ngram_bits": 17', '"ngram_bits": 16'),
    "another dimension": text("encoder/lexical.json", '"dim": 512', '"dim": 256'),
    "no number for a dimension": text("encoder/lexical.json", '"dim": 512', '"dim": "512"'),
    "an endless projection": text("encoder/lexical.json", '"nonzeros": 16', '"nonzeros": 100000'),
    "a dense tower that is not there": text("encoder/dual.json", '"dense": false', '"dense": true'),
    "a share beyond one": text("encoder/dual.json", '"share": 0.0', '"share": 7.0'),
    "words of another kind": text("encoder/dual.json", '"words": "lexical"', '"words": "given"'),
    "NaN in the matcher": matrix("matcher/names.npz", lambda m: m * np.float32(np.nan)),
    "huge numbers in the matcher": matrix("matcher/names.npz", lambda m: m * np.float32(1e30)),
    "names of fewer features": matrix("matcher/names.npz", lambda m: m[:, :-1]),
    "names of fewer labels": array("matcher/starts.npy", lambda a: np.delete(a, 1)),
    "bounds that fall": array("matcher/starts.npy", lambda a: a[::-1]),
    "documents with half a label": matrix("memory/labels.npz", lambda m: m * np.float32(0.5)),
    "fewer documents": matrix("memory/labels.npz", lambda m: m[:-1]),
    "documents of fewer labels": matrix("memory/labels.npz", lambda m: m[:, :-1]),
    "NaN for a weight": text("weights.json", '"votes*seen": ', '"votes*seen": NaN, "x": '),
    "an infinite weight": text("weights.json", '"votes*seen": ', '"votes*seen": 1e999, "x": '),
    "a weight too many": text("weights.json", '"votes*seen": ', '"x": 1.0, "votes*seen": '),
    "a weight too few": text("weights.json", '"votes*seen": ', '"x": '),
    "no curve": text("weights.json", '"probability"', '"curve"'),
    "an infinite slope": text("weights.json", '"probability": [', '"probability": [1e999], "x": ['),
    "a curve of three": text("weights.json", '"probability": [', '"probability": [1.0,'),
    "a structure that is not there": text("index/index.json", '"structure": null', '"structure": "hnsw"'),
    "no kind of index": text("index/index.json", '"kind": "auto"', '"kind": "magic"'),
    "no object": lambda path: (path / "weights.json").write_text("[]"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_that_the_manifest_vouches_for(model, tmp_path, capsys, change):
    refusal(forged(model, tmp_path / "forged", change), tmp_path, capsys)


@pytest.mark.parametrize(
    "change",
    [
        array("index/vectors.npy", np.zeros_like),
        array("index/vectors.npy", lambda a: a * np.float32(1e10)),
        text("index/index.json", '"metric": "ip"', '"metric": "cosine"'),
        text("memory/index/index.json", '"metric": "cosine"', '"metric": "ip"'),
        text("weights.json", '"probability": [', '"probability": [-1e12, 1e12], "x": ['),
    ],
)
def test_a_change_that_makes_nonsense_is_computed_without_a_fault(model, tmp_path, change):
    docs = docs_file(tmp_path / "docs.jsonl")
    found = tag(forged(model, tmp_path / "forged", change), docs, tmp_path / "out.jsonl")
    assert all(len(each["suggestions"]) == 10 for each in found.values())


def test_a_file_that_is_not_in_the_manifest_is_not_used(model, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    (copy / "memory" / "windows").mkdir()
    (copy / "memory" / "windows" / "vectors.npy").write_bytes(b"x")
    assert "is not part of the artifact" in refusal(copy, tmp_path, capsys)


def test_compressed_members_that_would_fill_the_memory(model, tmp_path, capsys):
    def change(path: Path) -> None:
        with zipfile.ZipFile(path / "memory" / "labels.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("data", "format", "indices", "indptr", "shape"):
                archive.writestr(f"{name}.npy", b"\0" * 1_000_000)

    refusal(forged(model, tmp_path / "forged", change), tmp_path, capsys)
