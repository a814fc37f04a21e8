from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tests.train.made import DENSE_DIM, N_DOCS, N_FEATURES, N_LABELS, made
from xmc.encoders.dual import Encoded
from xmc.encoders.lexical import UNKNOWN_BITS, LexicalSettings, LexicalTower
from xmc.encoders.writer import FeatureWriter
from xmc.settings import TrainSettings
from xmc.train import labels, loop, run
from xmc.train.loop import RECIPES
from xmc.train.run import ENOUGH, Split, Trained, TrainingSource, choose_columns, recipe_for, train

LABEL = 4
DATA = made()
GOLD = DATA.gold + sp.vstack([sp.csr_matrix((len(DATA.docs), N_LABELS), dtype=np.float32), DATA.dev_gold])
QUICK = TrainSettings(epochs=2, dim=8)
each_loss = pytest.mark.parametrize("loss", RECIPES)


def labels_of(n_docs: int, n_labels: int, per_label: int, unseen: int = 0) -> sp.csr_matrix:
    """Each label with so many documents, and others that no document has."""
    docs, labels = np.arange(n_labels * per_label) % n_docs, np.arange(n_labels).repeat(per_label)
    ones = np.ones(len(docs), np.float32)
    return sp.csr_matrix((ones, (docs, labels)), (n_docs, n_labels + unseen))


@pytest.mark.parametrize("unseen", [0, 1000])
@pytest.mark.parametrize(("per_label", "wanted"), [(ENOUGH - 1, "decoupled_softmax"), (ENOUGH, "bce")])
def test_the_loss_follows_from_the_documents_of_a_label_that_is_seen(per_label, unseen, wanted):
    assert recipe_for(labels_of(500, 50, per_label, unseen), TrainSettings(), 0).loss == wanted


@pytest.mark.parametrize(("more", "wanted"), [(0, "bce"), (1, "sampled_softmax")])
def test_too_many_labels_for_every_step_are_sampled_under_a_softmax(more, wanted):
    n_labels = RECIPES["bce"].label_limit + more
    assert recipe_for(labels_of(500, n_labels, ENOUGH), TrainSettings(), 0).loss == RECIPES[wanted].loss
    assert recipe_for(labels_of(500, n_labels, ENOUGH), TrainSettings(), 0).by_text is False


def test_without_gold_labels_there_is_a_recipe_too():
    assert recipe_for(sp.csr_matrix((5, 3), dtype=np.float32), TrainSettings(), 0).loss == "decoupled_softmax"
    assert recipe_for(sp.csr_matrix((0, 3), dtype=np.float32), TrainSettings(loss="bce"), 0).epochs == 40


@pytest.mark.parametrize(
    ("n_docs", "wanted"),
    [(12_000, 8), (15_000, 8), (30_000, 7), (60_000, 6), (240_000, 4), (1_000_000, 3), (10_000_000, 3)],
)
def test_many_documents_need_fewer_passes(n_docs, wanted):
    gold = sp.csr_matrix((n_docs, 1), dtype=np.float32)
    assert recipe_for(gold, TrainSettings(loss="bce"), 0).epochs == wanted
    assert recipe_for(gold, TrainSettings(loss="decoupled_softmax"), 0).epochs == 3


@pytest.mark.parametrize("loss", ["bce", "decoupled_softmax"])
def test_few_documents_are_passed_until_there_are_some_steps(loss):
    wanted = {1: 40, 100: 40, 300: 30, 1000: 12}
    found = {
        n: recipe_for(sp.csr_matrix((n, 1), dtype=np.float32), TrainSettings(loss=loss), 0).epochs
        for n in wanted
    }
    assert found == wanted


@each_loss
@pytest.mark.parametrize("per_label", [1, 20])
def test_settings_win(loss, per_label):
    gold = labels_of(100, 10, per_label)
    found = recipe_for(gold, TrainSettings(epochs=77, loss=loss, rate=0.5), 9)
    usual = RECIPES[loss]
    wanted = {"epochs": 77, "seed": 9, "rate": usual.rate / 2, "bag_rate": usual.bag_rate / 2}
    assert found == replace(usual, **wanted)


def source(work: Path, features: sp.csr_matrix, loss: str, lexical: object = None) -> TrainingSource:
    writer = FeatureWriter(work / "features")
    writer.append(features)
    writer.close()
    names = DATA.label_features
    texts = Encoded(None, names, np.hstack([DATA.label_dense, np.zeros((N_LABELS, 3), np.float32)]), names)
    settings = replace(QUICK, loss=loss)
    active = np.ones(N_LABELS, bool)
    return TrainingSource(
        work / "features",
        DATA.towers,
        DENSE_DIM,
        texts,
        lexical,
        active,
        np.arange(N_LABELS),
        settings,
        seed=1,
        n_own=len(DATA.towers),
    )


def columns_of(counts: list[int], work: Path, max_features: int = 100, lexical: object = None) -> list[int]:
    """Chosen among features that stand in so many documents each, of 10 that train and one that does not."""
    features = np.arange(10)[:, None] < np.array(counts)
    features = sp.csr_matrix(np.vstack([features, np.ones(len(counts))]), dtype=np.float32)
    given = source(work, features, "bce", lexical)
    given = replace(given, settings=replace(QUICK, max_features=max_features))
    found = choose_columns(features, np.arange(10), given)
    assert found.dtype == np.int64
    return found.tolist()


def test_features_need_two_documents_that_train(tmp_path):
    assert columns_of([0, 1, 2, 3, 1, 10], tmp_path) == [2, 3, 5]
    assert columns_of([1, 0], tmp_path) == []


def test_the_most_frequent_features_come_first(tmp_path):
    assert columns_of([3, 5, 5, 2, 9, 5], tmp_path, 3) == [1, 2, 4]


def test_documents_are_counted_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "BLOCK", 3)
    assert columns_of([0, 1, 2, 3, 1, 10], tmp_path) == [2, 3, 5]


@pytest.mark.parametrize("many", [False, True])
def test_unknown_words_get_no_embedding_and_parts_of_words_only_where_there_is_room(
    many, tmp_path, monkeypatch
):
    words = LexicalTower.fit([], [["one", "two"]], LexicalSettings(ngram_bits=8))
    n_words, n_unknown = len(words.keys), 1 << UNKNOWN_BITS
    counts = np.zeros(words.n_features, np.int64)
    counts[[0, n_words - 1, n_words, n_words + n_unknown - 1]] = 2
    counts[[n_words + n_unknown, words.n_features - 1]] = 2
    monkeypatch.setattr(run, "MAX_NONZEROS", 7 if many else 8)
    parts = [] if many else [n_words + n_unknown, words.n_features - 1]
    assert columns_of(counts.tolist(), tmp_path, lexical=words) == [0, n_words - 1, *parts]


def everyone(hidden: list[int], docs: np.ndarray = DATA.docs, n_epochs: int | None = None) -> Split:
    is_hidden = np.isin(np.arange(N_LABELS), hidden)
    return Split(docs, DATA.dev, is_hidden, n_epochs)


def trained(
    work: Path, loss: str, gold: sp.csr_matrix = GOLD, hidden: list[int] | None = None, retired: int = -1
) -> Trained:
    given = source(work, DATA.features, loss)
    given = replace(given, active=np.arange(N_LABELS) != retired)
    return train(
        given, gold, everyone(hidden or []), work, lambda line: None, lambda *_: nullcontext(lambda n: None)
    )


def same(one: Trained, other: Trained) -> bool:
    weights = other.tower.head.state_dict()
    heads = [torch.equal(value, weights[name]) for name, value in one.tower.head.state_dict().items()]
    bags = torch.equal(one.tower.bag, other.tower.bag)
    return all(heads) and bags and (one.prototypes == other.prototypes).all()


def without(label: int) -> sp.csr_matrix:
    """The gold labels, of which training documents never have that one."""
    gold = GOLD.tolil()
    gold[: len(DATA.docs), label] = 0
    return gold.tocsr()


@each_loss
@pytest.mark.parametrize("limit", [N_LABELS, N_LABELS - 4], ids=["all labels", "a sample of labels"])
def test_gold_labels_of_retired_labels_are_not_learned(loss, limit, tmp_path, monkeypatch):
    """All is as if no document had the label; what judges is told in full, but can not be found."""
    monkeypatch.setitem(RECIPES, loss, replace(RECIPES[loss], label_limit=limit))
    monkeypatch.setattr(labels, "N_HARD", 2)
    one = trained(tmp_path / "a", loss, retired=LABEL)
    assert same(one, trained(tmp_path / "b", loss, without(LABEL), retired=LABEL))
    assert not one.prototypes[LABEL].any()
    assert one.prototypes.any(axis=1).sum() == N_LABELS - 1
    assert not same(one, trained(tmp_path / "c", loss))


def test_hidden_labels_are_learned_by_their_text(tmp_path):
    loss = "decoupled_softmax"
    one = trained(tmp_path / "a", loss, hidden=[LABEL])
    assert same(one, trained(tmp_path / "b", loss, without(LABEL)))
    assert not same(one, trained(tmp_path / "c", loss))
    assert one.by_text
    assert one.prototypes[LABEL].any()
    assert (one.without(np.arange(N_LABELS) == LABEL) == one.prototypes).all()


def test_where_labels_are_not_learned_by_text_hidden_ones_are_left_out_afterwards(tmp_path):
    one = trained(tmp_path / "a", "bce", hidden=[LABEL])
    assert same(one, trained(tmp_path / "b", "bce"))
    assert not one.by_text
    left = one.without(np.arange(N_LABELS) == LABEL)
    assert not left[LABEL].any()
    assert (np.delete(left, LABEL, axis=0) == np.delete(one.prototypes, LABEL, axis=0)).all()


@pytest.mark.parametrize("loss", ["bce", "sampled_softmax", "decoupled_softmax"])
def test_documents_that_judge_are_not_learned_from(loss, tmp_path):
    """Their gold labels choose the epoch alone."""
    shuffled = sp.vstack([GOLD[DATA.docs], GOLD[DATA.dev[::-1]]], format="csr")
    one, other = trained(tmp_path / "a", loss), trained(tmp_path / "b", loss, shuffled)
    assert one.n_epochs == 2
    assert (one.n_epochs != other.n_epochs) or same(one, other)


@each_loss
@pytest.mark.parametrize("active", [False, True], ids=["all are retired", "no document has any"])
def test_nothing_to_learn(loss, active, tmp_path):
    gold = sp.csr_matrix(GOLD.shape, dtype=np.float32) if active else GOLD
    given = replace(source(tmp_path, DATA.features, loss), active=np.full(N_LABELS, active))
    bar = nullcontext(lambda n: None)
    found = train(given, gold, everyone([]), tmp_path, lambda line: None, lambda *_: bar)
    assert found.prototypes.any() == (active and RECIPES[loss].by_text)
    assert np.isfinite(found.prototypes).all()


def identity(work: Path, given: TrainingSource, gold: sp.csr_matrix = GOLD) -> str:
    recipe = recipe_for(gold[DATA.docs], given.settings, given.seed)
    data, tower, _, _ = run._prepared(given, gold, everyone([]), recipe, work)
    return run._identity(data, recipe, given.settings.dim, tower.columns, given.start)


@pytest.fixture
def same_words_elsewhere() -> sp.csr_matrix:
    """Each document's words that tell nothing become others, of the same weight."""
    moved = np.arange(N_FEATURES)
    moved[2 * N_LABELS :] = np.roll(moved[2 * N_LABELS :], 1)
    return DATA.features[:, moved]


@pytest.mark.parametrize(
    "change", [{"dim": 16}, {"rate": 0.5}, {"epochs": 3}, {"loss": "soft_top_k"}, {"free_vectors": 9}]
)
def test_other_settings_make_another_run(change, tmp_path):
    given = source(tmp_path, DATA.features, "bce")
    other = replace(given, settings=replace(given.settings, **change))
    assert identity(tmp_path, given) == identity(tmp_path, given)
    assert identity(tmp_path, given) != identity(tmp_path, other)
    assert identity(tmp_path, given) != identity(tmp_path, replace(given, seed=2))


@pytest.mark.parametrize("part", ["active", "same text", "texts", "names", "dense", "words"])
def test_other_texts_make_another_run(part, tmp_path, same_words_elsewhere):
    given = source(tmp_path / "a", DATA.features, "bce")
    texts, turned = given.texts, np.roll(np.arange(N_LABELS), 1)
    before = identity(tmp_path / "a", given)
    if part == "words":
        other = source(tmp_path / "b", same_words_elsewhere, "bce")
    else:
        changes = {
            "active": {"active": np.arange(N_LABELS) > 0},
            "same text": {"same_text": np.zeros(N_LABELS, np.int64)},
            "texts": {"texts": replace(texts, features=texts.features[turned])},
            "names": {"texts": replace(texts, lexical=texts.lexical[turned])},
            "dense": {"towers": DATA.towers[::-1]},
        }
        other = replace(given, **changes[part])
    assert identity(tmp_path / "b", other) != before


@pytest.mark.parametrize("rows", [DATA.docs, DATA.dev], ids=["that train", "that judge"])
def test_other_gold_labels_make_another_run(rows, tmp_path):
    given, order = source(tmp_path, DATA.features, "bce"), np.arange(N_DOCS)
    order[rows] = rows[::-1]
    assert identity(tmp_path, given, GOLD[order]) != identity(tmp_path, given)


def test_a_run_that_goes_on_takes_its_checkpoint(tmp_path, monkeypatch):
    first, steps = trained(tmp_path, "bce"), []
    monkeypatch.setattr(loop, "SAVE_EVERY", 0)
    trained(tmp_path, "bce")
    given, bar = source(tmp_path, DATA.features, "bce"), nullcontext(steps.append)
    again = train(given, GOLD, everyone([]), tmp_path, lambda line: None, lambda *_: bar)
    assert steps == [6]
    assert same(first, again)
