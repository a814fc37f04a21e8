"""What a build reads first: documents that teach, and behind them those that judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import DOCS, docs_file, jsonl, labels_file
from tests.cases.test_sparse_features import corpus
from xmc import source as module
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError, SettingError
from xmc.source import Source, read_source

DEV = [("e1", "Annual fisheries", ["L2"]), ("e2", "Islands", []), ("e3", "Air", ["L1", "L4"])]


@pytest.fixture
def labels(tmp_path) -> Path:
    return labels_file(tmp_path / "labels.jsonl")


@pytest.fixture
def docs(tmp_path) -> Path:
    return docs_file(tmp_path / "docs.jsonl")


def read(
    labels: Path | None, docs: list[Path], dev: list[Path], pairs: Path | None = None, **policy
) -> Source:
    return read_source(labels, docs, pairs, ReadOptions(**policy), ReadReport(), dev)


def test_documents_that_judge_come_last(labels, docs, tmp_path):
    dev = [docs_file(tmp_path / "a.jsonl", DEV[:1]), docs_file(tmp_path / "b.jsonl", DEV[1:])]
    found = read(labels, [docs], dev)
    assert found.ids == ["d1", "d2", "d3", "d4", "d5", "e1", "e2", "e3"]
    assert (found.n_own, found.n_dev) == (5, 3)
    assert found.gold.toarray()[5:].tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_documents_of_the_model_are_read_again_without_them(size, labels, docs, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SHARD", size)
    found = read(labels, [docs], [docs_file(tmp_path / "dev.jsonl", DEV)])
    assert [i for batch in found.own_batches() for i in batch.ids] == found.ids[:5]
    assert [i for batch in found.batches() for i in batch.ids] == found.ids


def test_without_dev_all_documents_are_the_models(labels, docs):
    found = read(labels, [docs], [])
    assert (found.n_own, found.n_dev) == (5, 0)
    assert sum(map(len, found.own_batches())) == 5


def test_dev_alone(labels, tmp_path):
    found = read(labels, [], [docs_file(tmp_path / "dev.jsonl", DEV)])
    assert (found.n_own, found.n_dev) == (0, 3)
    assert sum(map(len, found.own_batches())) == 0


def test_repeated_ids_between_the_files(labels, docs, tmp_path):
    dev = docs_file(tmp_path / "dev.jsonl", [*DEV, DOCS[1]])
    with pytest.raises(InputError, match=r"'d2' stands twice: .*docs\.jsonl:2 and .*dev\.jsonl:4"):
        read(labels, [docs], [dev])
    found = read(labels, [docs], [dev], on_duplicate="first")
    assert (found.n_own, found.n_dev) == (5, 3)


def test_repeats_that_are_left_out_of_the_documents_that_teach(labels, tmp_path):
    docs = docs_file(tmp_path / "docs.jsonl", [*DOCS, DOCS[0]])
    found = read(labels, [docs], [docs_file(tmp_path / "dev.jsonl", DEV)], on_duplicate="first")
    assert (found.n_own, found.n_dev) == (5, 3)


def test_a_file_does_not_teach_and_judge(labels, docs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match=r"--dev docs\.jsonl: is among --docs too"):
        read(labels, [docs], [Path("docs.jsonl")])


@pytest.mark.parametrize(("more", "policy"), [([], {}), (DOCS, {"on_duplicate": "first"})])
def test_a_file_without_documents_cannot_judge(more, policy, labels, docs, tmp_path):
    dev = docs_file(tmp_path / "dev.jsonl", more)
    with pytest.raises(InputError, match=r"dev\.jsonl: holds no document for --dev, or only those of --docs"):
        read(labels, [docs], [dev], **policy)


@pytest.mark.parametrize(("gold", "policy"), [([], {}), (["L9"], {"on_unknown_label": "skip"})])
def test_documents_without_gold_labels_cannot_judge(gold, policy, labels, docs, tmp_path):
    dev = docs_file(tmp_path / "dev.jsonl", [("e1", "Air", gold), ("e2", "Sea", gold)])
    with pytest.raises(
        InputError, match=r"dev\.jsonl: no document for --dev has a gold label .*\(2 without\)"
    ):
        read(labels, [docs], [dev], **policy)


def test_unknown_labels_of_documents_that_judge(labels, docs, tmp_path):
    dev = docs_file(tmp_path / "dev.jsonl", [("e1", "Moon", ["L9", "L1"])])
    with pytest.raises(InputError, match=r"1 gold label outside vocabulary \(1 different\): 'L9' at .*dev"):
        read(labels, [docs], [dev])
    assert read(labels, [docs], [dev], on_unknown_label="skip").gold[5].nnz == 1
    added = read(labels, [docs], [dev], on_unknown_label="add")
    assert len(added.labels) == 5
    assert added.gold[:5, 4].nnz == 0
    assert added.gold[5, 4] == 1


def test_texts_and_rows_of_features_do_not_mix(labels, docs, tmp_path):
    with pytest.raises(InputError, match=r"sparse features and .* text; files of one kind were wanted"):
        read(labels, [docs], [corpus(tmp_path / "dev.txt", 5)])


def test_documents_without_ids_are_numbered_through(tmp_path):
    found = read(None, [corpus(tmp_path / "train.txt", 6)], [corpus(tmp_path / "dev.txt", 4, 1)])
    assert found.ids == [str(i) for i in range(1, 11)]
    assert (found.n_own, found.n_dev) == (6, 4)


def test_a_filter_is_for_the_documents_that_teach(labels, docs, tmp_path):
    dev = [docs_file(tmp_path / "dev.jsonl", DEV)]
    pairs = jsonl(tmp_path / "filter.txt", [])
    pairs.write_text("4 1\n")
    assert np.diff(read(labels, [docs], dev, pairs).gold.indptr).tolist() == [1, 2, 1, 1, 0, 1, 0, 2]
    pairs.write_text("5 1\n")
    with pytest.raises(InputError, match=r"names document or label rows beyond 5 and 4"):
        read(labels, [docs], dev, pairs)
