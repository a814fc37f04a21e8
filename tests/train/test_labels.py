from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from tests.train.made import N_DEV, N_LABELS, made, recipe, tower_for
from xmc.network import LabelPrototypeNetwork
from xmc.propensity import inverse_propensity
from xmc.train import labels
from xmc.train.checkpoint import Checkpoints
from xmc.train.data import TrainingData, mean_ndcg, mean_psp
from xmc.train.labels import LabelSide
from xmc.train.loop import RECIPES, Trainer

each_loss = pytest.mark.parametrize("loss", RECIPES)
RARE, UNSEEN, RETIRED, WORDLESS = 3, 5, 8, 14  # labels; the last is without words, but not without vector


def rare() -> TrainingData:
    """One label with one document, one without any, a retired one, and one without words and documents."""
    data = made()
    gold = data.gold.tolil()
    gold[np.flatnonzero(gold[:, RARE].toarray())[1:], RARE] = 0
    for label in (UNSEEN, RETIRED, WORDLESS):
        gold[:, label] = 0
    dense = data.label_dense.copy()
    dense[[0, WORDLESS]] = 0  # label 0 has documents, and no text at all
    active = np.arange(N_LABELS) != RETIRED
    return replace(data, gold=gold.tocsr(), label_dense=dense, active=active)


def side_of(data: TrainingData, loss: str = "decoupled_softmax") -> LabelSide:
    """Before training, but with weights that all count."""
    tower = tower_for(data)
    torch.manual_seed(0)
    network = LabelPrototypeNetwork(tower.dim, (0.7, 0.4))
    with torch.no_grad():
        network.gates[:, 1] = torch.tensor([0.1, 0.2])
        for layer in network.up:
            layer.weight.normal_(0, 0.3)
    side = LabelSide(data, tower, network, RECIPES[loss].by_text)
    side.free.rows.normal_()
    side.free.own[:, 0].normal_()
    return side


def sums_of(side: LabelSide) -> Tensor:
    """(n_seen, dim) what the sums should be, in the order of ``place``."""
    seen = side.place >= 0
    whole = torch.from_numpy(side.data.gold.toarray()).T @ side.latest.float()
    return whole[seen][side.place[seen].argsort()]


def encoded(data: TrainingData, rows: np.ndarray) -> Tensor:
    tower = tower_for(data)
    return torch.from_numpy(tower.encode(data.features[rows], data.towers[rows, : data.dense_dim]))


@each_loss
def test_the_sums_are_at_first_those_of_the_documents_as_they_are(loss):
    data = rare()
    side = side_of(data, loss)
    assert torch.allclose(side.latest[data.docs].float(), encoded(data, data.docs), atol=1e-3)
    assert not side.latest[data.dev].any()
    assert torch.allclose(side.sums, sums_of(side), atol=1e-4)


@each_loss
def test_running_sums_equal_the_sums_of_the_latest_vectors(loss, tmp_path):
    data = rare()
    trainer = Trainer(data, tower_for(data), recipe(loss))
    start, found = trainer.labels.latest.clone(), []

    def tick(n: int) -> None:
        found.append((trainer.labels.sums - sums_of(trainer.labels)).abs().max())

    trainer.run(Checkpoints(tmp_path, "same"), lambda line: None, tick)
    assert len(found) == 1 + trainer.n_steps
    assert max(found) < 1e-3
    assert (trainer.labels.latest != start)[data.docs].any(dim=1).all()


def test_remembered_vectors_take_the_place_of_older_ones():
    side, docs = side_of(rare()), np.array([4, 9, 30])
    before = side.latest.clone()
    fresh = functional.normalize(torch.randn(3, side.tower.dim), dim=1)
    side.remember(docs, fresh)
    assert torch.equal(side.latest[docs], fresh.half())
    others = np.setdiff1d(np.arange(len(before)), docs)
    assert torch.equal(side.latest[others], before[others])
    assert torch.allclose(side.sums, sums_of(side), atol=1e-4)


def pairs_of(side: LabelSide, docs: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the batch and columns of ``side.rows`` of gold pairs, and some vectors of the documents."""
    is_gold = torch.from_numpy(side.data.gold[docs][:, side.rows].toarray() > 0)
    torch.manual_seed(1)
    return (*is_gold.nonzero(as_tuple=True), torch.randn(len(docs), side.tower.dim))


@each_loss
def test_a_document_is_left_out_of_the_centroids_of_its_own_labels(loss):
    side, docs = side_of(rare(), loss), np.arange(0, 60, 2)
    of_doc, column, kept = pairs_of(side, docs)
    found = side.without_own(side.side(side.rows), torch.from_numpy(docs), kept, of_doc, column)
    for pair, (i, j) in enumerate(zip(of_doc.tolist(), column.tolist(), strict=True)):
        label = side.rows[j]
        others = np.setdiff1d(np.flatnonzero(side.data.gold[:, label].toarray()), docs[i])
        centroid = functional.normalize(side.latest[others].float().sum(dim=0, keepdim=True), dim=1)
        free = side.free.take(side.place[label][None])
        n = torch.tensor([float(len(others))])
        prototype = side.network(side.text[label][None], centroid, free.vectors, n, n + 1)[0]
        assert found[pair].item() == pytest.approx((kept[i] @ prototype + free.bias).item(), abs=2e-2)


@each_loss
def test_the_only_document_of_a_label_is_scored_by_its_text(loss):
    data = rare()
    side, docs = side_of(data, loss), data.gold[:, RARE].nonzero()[0]
    kept = torch.randn(1, side.tower.dim)
    column = torch.from_numpy(np.flatnonzero(side.rows == RARE))
    at = torch.zeros(1, dtype=torch.long)
    found = side.without_own(side.side(side.rows), torch.from_numpy(docs), kept, at, column)
    nothing = torch.zeros(1, side.tower.dim)
    wanted = side.network(side.text[[RARE]], nothing, nothing, torch.zeros(1))
    bias = side.free.own[side.place[RARE], 0]
    assert found.item() == pytest.approx(((kept * wanted).sum() + bias).item(), rel=1e-5)


def test_nothing_but_the_bias_is_left_of_a_label_of_one_document_and_no_text():
    data = rare()
    gold = data.gold.tolil()
    gold[1:, 0] = 0
    gold[0, 0] = 1
    side = side_of(replace(data, gold=gold.tocsr()))
    docs, at = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    assert side.rows[0] == 0
    found = side.without_own(side.side(side.rows), docs, torch.randn(1, side.tower.dim), at, at)
    assert found.item() == pytest.approx(side.free.own[0, 0].item(), rel=1e-5)


@pytest.mark.parametrize(("loss", "unseen"), [("bce", []), ("decoupled_softmax", [UNSEEN])])
def test_which_labels_take_part(loss, unseen):
    data = rare()
    seen = np.flatnonzero(data.frequency > 0)
    assert side_of(data, loss).rows.tolist() == sorted([*seen, *unseen])
    assert not {RETIRED, WORDLESS} & set(seen)


def test_texts_lie_where_documents_of_the_same_words_do():
    data = rare()
    side = side_of(data)
    tower = tower_for(data)
    wanted = tower.encode(data.label_features[side.rows], data.label_dense[side.rows])
    assert torch.equal(side.text[side.rows], torch.from_numpy(wanted))
    assert not side.text[[0, RETIRED, WORDLESS]].any()


def test_gradients_reach_the_free_vectors_that_are_used():
    side = side_of(rare())
    rows = np.array([RARE, UNSEEN, 20])
    made_side = side.side(rows)
    taken = made_side.taken
    assert side.place[made_side.rows[[0, 2]]].tolist() == taken.at.tolist() == taken.own_at.tolist()
    (made_side.prototypes.sum() + made_side.bias.sum()).backward()
    assert taken.own.grad.tolist() == [[1], [1]]
    assert not taken.rows.grad[0].any()  # one document: its free vector does not count
    assert taken.rows.grad[1].all()
    assert made_side.bias[1] == 0


def test_blocks_of_any_size_give_the_same_prototypes(monkeypatch):
    side = side_of(rare())
    whole = side.prototypes(side.rows)
    monkeypatch.setattr(labels, "BLOCK", 7)
    pieces = side_of(rare())
    assert torch.allclose(pieces.prototypes(side.rows), whole, atol=1e-4)
    assert torch.allclose(pieces.text, side.text, atol=1e-6)


def scores_of(side: LabelSide, rows: np.ndarray) -> np.ndarray:
    vectors, prototypes = encoded(side.data, rows), side.prototypes(side.rows)
    return (vectors @ prototypes[:, :-1].T + prototypes[:, -1]).numpy()


@each_loss
def test_quality_is_the_ndcg_of_the_best_five(loss):
    side = side_of(rare(), loss)
    ranked = side.rows[np.argsort(-scores_of(side, side.data.dev))[:, :5]]
    assert side.quality() == pytest.approx(mean_ndcg(ranked, side.data.dev_gold), abs=1e-6)
    assert 0 < side.quality() < 1


@each_loss
def test_quality_can_be_psp_by_training_frequency(loss):
    side = side_of(rare(), loss)
    data = side.data
    ranked = side.rows[np.argsort(-scores_of(side, data.dev))[:, :5]]
    weights = inverse_propensity(data.frequency, len(data.docs), 0.55, 1.5)
    assert side.quality("psp") == pytest.approx(mean_psp(ranked, data.dev_gold, weights), abs=1e-6)
    assert side.quality("psp") != side.quality()


def test_quality_without_documents_or_gold_labels_or_labels_is_nothing():
    data = made()
    no_gold = sp.csr_matrix((N_DEV, N_LABELS), dtype=np.float32)
    for other in (
        made(n_dev=0),
        replace(data, dev_gold=no_gold),
        replace(data, active=np.zeros(N_LABELS, bool)),
    ):
        assert side_of(other).quality() == 0


def test_labels_of_which_nothing_is_known_rank_last():
    side = side_of(rare(), "bce")
    unknown = side.rows[:3]
    side.free.rows[unknown] = side.free.own[unknown] = 0
    side.text[unknown] = side.sums[side.place[unknown]] = 0
    assert not side.prototypes(unknown).any()
    ranked = np.searchsorted(side.rows, side._search(side.data.dev, len(side.rows)))
    scores = scores_of(side, side.data.dev)
    assert np.allclose(np.take_along_axis(scores, ranked, 1), -np.sort(-scores), atol=1e-5)


@pytest.mark.parametrize("n_labels", [1, 3])
def test_fewer_labels_than_are_ranked(n_labels):
    active = np.arange(N_LABELS) < n_labels
    gold = made().gold.multiply(active).tocsr()
    gold.eliminate_zeros()
    side = side_of(replace(made(), active=active, gold=gold))
    assert len(side.rows) == n_labels
    assert 0 <= side.quality() <= 1


def test_hard_labels_are_those_that_score_highest():
    side = side_of(rare())
    side.mine()
    docs = side.data.docs[[0, 11, 200]]
    wanted = side.rows[np.argsort(-scores_of(side, docs))[:, : labels.N_HARD]]
    found = side.hard_for(docs).reshape(3, labels.N_HARD)
    assert [set(row) for row in found] == [set(row) for row in wanted]


def test_binary_cross_entropy_mines_nothing():
    side = side_of(rare(), "bce")
    side.mine()
    assert side.hard_for(side.data.docs).size == 0


def test_biases_start_at_the_log_of_how_often_a_label_is_right():
    data = rare()
    tower = tower_for(data)
    side = LabelSide(data, tower, LabelPrototypeNetwork(tower.dim, (0.0, 0.0)), by_text=False)
    counts = data.frequency[side.rows]
    assert side.free.own[:, 0].numpy() == pytest.approx(np.log((counts + 0.5) / len(data.docs)), rel=1e-5)


def test_the_dense_vectors_alone_are_a_text():
    data = rare()
    assert not data.label_features[7].nnz
    assert side_of(data).has_text[7]
    assert not side_of(replace(data, dense_dim=0, label_dense=data.label_dense[:, :0])).has_text[7]
