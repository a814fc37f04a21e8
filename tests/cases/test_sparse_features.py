"""Documents that are rows of sparse features (XMC repository format) through the whole path."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import data_files, docs_file, forged, ids, index, labels_file, tag, xmc
from xmc.artifacts import save_array
from xmc.tag.tagger import Tagger

N_FEATURES, N_LABELS = 60, 20


def corpus(path: Path, n_docs: int, seed: int = 0, n_features: int = N_FEATURES) -> Path:
    """Documents that hold two features of each of their one or two labels, and three of none."""
    draw = random.Random(seed)
    lines = [f"{n_docs} {n_features} {N_LABELS}"]
    for _ in range(n_docs):
        gold = sorted(draw.sample(range(N_LABELS), draw.randint(1, 2)))
        own = [feature for label in gold for feature in (2 * label, 2 * label + 1)]
        other = draw.sample(range(2 * N_LABELS, N_FEATURES), 3)
        values = {feature: draw.uniform(0.5, 3) for feature in own + other}
        features = " ".join(f"{f}:{values[f]:.4f}" for f in sorted(values))
        lines.append(f"{','.join(map(str, gold))} {features}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sparse")
    return index(folder / "model", None, corpus(folder / "train.txt", 120))


def test_index_tag_eval(model, tmp_path, capsys):
    test = corpus(tmp_path / "test.txt", 40, 1)
    found = tag(model, test, tmp_path / "out.jsonl")
    assert list(found) == [str(i + 1) for i in range(40)]
    capsys.readouterr()
    assert xmc("eval", "--gold", test, "--pred", tmp_path / "out.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["P@1"] > 90


def test_score_matrices_in_and_out(model, tmp_path, capsys):
    test = corpus(tmp_path / "test.txt", 10, 2)
    assert xmc("tag", "--model", model, "--docs", test, "-o", tmp_path / "out.npz", "top_k=3") == 0
    assert xmc("eval", "--gold", test, "--pred", tmp_path / "out.npz") == 0


def test_shards_of_any_size_give_the_same_output(model, tmp_path):
    test = corpus(tmp_path / "test.txt", 20, 3)
    for size in (1, 7, 1000):
        tag(model, test, tmp_path / f"{size}.jsonl", f"tag.shard_size={size}")
    assert len({(tmp_path / f"{size}.jsonl").read_bytes() for size in (1, 7, 1000)}) == 1


def test_the_same_again_gives_the_same_bytes(model, tmp_path):
    again = index(tmp_path / "model", None, corpus(tmp_path / "train.txt", 120))
    assert data_files(again) == data_files(model)


def test_documents_without_features_or_labels_and_features_that_weigh_nothing(tmp_path):
    docs = tmp_path / "docs.txt"
    docs.write_text("6 5 4\n0 0:1 1:2\n 1:1\n3 \n \n1 2:0.0\n2 3:1e-30 4:1e30\n")
    model = index(tmp_path / "model", None, docs)
    found = tag(model, docs, tmp_path / "out.jsonl", "tag.evidence=true")
    assert [each.get("reason") for each in found.values()] == [
        *(None, None, "no_vector", "no_vector", "no_vector", None)
    ]
    assert ids(found["1"])[0] == "0"
    assert ids(found["6"])[0] == "2"
    assert all("1" not in ids(each) and "3" not in ids(each) for each in found.values())


def test_negative_values_and_rows_that_are_opposite(tmp_path):
    docs = tmp_path / "docs.txt"
    docs.write_text("2 3 2\n0 0:1 1:-2\n1 0:-1 1:2\n")
    found = tag(index(tmp_path / "model", None, docs), docs, tmp_path / "out.jsonl", "top_k=1")
    assert [ids(each) for each in found.values()] == [["0"], ["1"]]


def test_another_number_of_features_is_refused(model, tmp_path, capsys):
    other = corpus(tmp_path / "other.txt", 3, 0, N_FEATURES + 1)
    assert xmc("tag", "--model", model, "--docs", other, "-o", tmp_path / "out.jsonl") == 2
    said = capsys.readouterr().err
    assert "other.txt:2: 61 features; the model was built on 60" in said
    assert said.count("\n") == 1


def test_texts_are_refused(model, tmp_path, capsys):
    docs = docs_file(tmp_path / "docs.jsonl")
    assert xmc("tag", "--model", model, "--docs", docs, "-o", tmp_path / "out.jsonl") == 2
    assert "text, but the model was built on sparse features" in capsys.readouterr().err


def test_labels_of_a_file_of_their_own(tmp_path):
    names = labels_file(tmp_path / "labels.jsonl", [(str(i), f"label {i}") for i in range(N_LABELS)])
    train = corpus(tmp_path / "train.txt", 50)
    found = tag(index(tmp_path / "model", names, train), train, tmp_path / "out.jsonl", "top_k=1")
    assert found["1"]["suggestions"][0]["text"].startswith("label ")


def test_a_dense_encoder_is_not_used_on_features(tmp_path):
    model = index(tmp_path / "model", None, corpus(tmp_path / "train.txt", 30), more=())
    assert Tagger.load(model).encoder.dense is None


def test_weights_of_another_number_of_features_are_refused(model, tmp_path, capsys):
    def shorten(path: Path) -> None:
        save_array(path / "encoder" / "given_idf.npy", np.ones(59, np.float32))

    other = forged(model, tmp_path / "forged", shorten)
    docs = corpus(tmp_path / "docs.txt", 3)
    assert xmc("tag", "--model", other, "--docs", docs, "-o", tmp_path / "out.jsonl") == 2
    assert "linear is (20, 60), wanted (20, 59)" in capsys.readouterr().err
