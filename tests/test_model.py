from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import LABELS, data_files, docs_file, index, labels_file
from xmc.artifacts import ArtifactWriter
from xmc.data.labels import LabelSet
from xmc.data.records import Label
from xmc.encoders.dual import DualEncoder
from xmc.encoders.given import GivenTower
from xmc.encoders.lexical import LexicalSettings
from xmc.errors import ArtifactError
from xmc.index.kinds import make_index
from xmc.index.matcher import LabelMatcher
from xmc.model import Model


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return index(folder / "model", labels_file(folder / "l.jsonl"), docs_file(folder / "d.jsonl"))


@pytest.fixture
def model(path) -> Model:
    return Model.load(path)


def save(model: Model, out: Path) -> Path:
    with ArtifactWriter(out, "model") as writer:
        model.save(writer.path)
    return out


def test_saved_again_it_is_the_same_to_the_byte(model, path, tmp_path):
    assert data_files(save(model, tmp_path / "again")) == data_files(path)


def test_without_matcher_and_memory(model, tmp_path):
    bare = Model.load(save(replace(model, matcher=None, memory=None), tmp_path / "bare"))
    assert (bare.matcher, bare.memory) == (None, None)
    assert bare.frequency.tolist() == [0] * len(LABELS)


def test_frequency_and_scoreable(model):
    assert model.frequency.tolist() == [1, 2, 1, 2]
    assert model.scoreable.tolist() == [True] * 4
    retired = LabelSet.from_records(Label(i, t, retired=i == "L1") for i, t in LABELS)
    assert replace(model, labels=retired).scoreable.tolist() == [False, True, True, True]


def test_without_a_trained_tower_documents_count_as_they_are(model):
    assert model.counted.tolist() == model.frequency.tolist()


def test_its_id_is_that_of_the_artifact(model, tmp_path):
    assert len(model.id) == 64
    without = save(replace(model, matcher=None), tmp_path / "other")
    assert Model.load(without).id != model.id


def vectors(n: int, dim: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, dim)).astype(np.float32)


def index_of(dim: int):
    made = make_index("exact", dim, "ip")
    made.add(np.arange(4), vectors(4, dim))
    return made


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("index", lambda m: replace(m, index=index_of(7))),
        ("matcher", lambda m: replace(m, matcher=LabelMatcher(m.matcher.features, np.array([0, 1, 2, 4])))),
        ("matcher", lambda m: replace(m, matcher=LabelMatcher(m.matcher.features[:, :-1], m.matcher.starts))),
        ("memory", lambda m: replace(m, memory=replace(m.memory, index=index_of(9)))),
        ("index", lambda m: replace(m, encoder=given())),
        ("linear", lambda m: replace(m, linear=m.linear.widened(9))),
    ],
)
def test_parts_of_other_sizes_are_refused(model, tmp_path, part, changed):
    with pytest.raises(ArtifactError, match=rf"odd: {part} is .*, wanted .*; rebuild it with `xmc index`"):
        Model.load(save(changed(model), tmp_path / "odd"))


def given() -> DualEncoder:
    return DualEncoder(None, GivenTower(LexicalSettings(dim=16), np.ones(5, np.float32)))


def test_another_artifact_is_no_model(tmp_path):
    with ArtifactWriter(tmp_path / "vectors", "vectors"):
        pass
    with pytest.raises(ArtifactError, match="holds a vectors, not a model"):
        Model.load(tmp_path / "vectors")
