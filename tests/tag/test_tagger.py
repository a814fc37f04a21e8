from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cases.corpus_t import DOCS, docs_file, index, jsonl, labels_file, synthetic
from xmc.data.records import DocumentBatch
from xmc.errors import ArtifactError, InputError, SettingError
from xmc.tag.suggestions import Suggestions, TagOptions
from xmc.tag.tagger import Tagger, probability

LABELS = [("L1", "air transport"), ("L2", "fisheries"), ("L3", "قانون"), ("L4", "budget, annual"), ("L5", "")]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return index(folder / "model", labels_file(folder / "l.jsonl", LABELS), docs_file(folder / "d.jsonl"))


@pytest.fixture(scope="module")
def tagger(path) -> Tagger:
    return Tagger.load(path)


def batch(*texts: str) -> DocumentBatch:
    names = [f"q{i}" for i in range(len(texts))]
    return DocumentBatch(names, list(texts), None, None, names)


def by_doc(found: Suggestions) -> list[list[int]]:
    return [found.rows[a:b].tolist() for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True)]


def test_texts_from_python(tagger):
    found = tagger.tag(["Air transport law", "", "قانون"], top_k=2)
    assert [len(each) for each in found] == [2, 0, 2]
    assert (found[0][0].id, found[0][0].text) == ("L1", "air transport")
    assert found[2][0].id == "L3"
    assert 1 > found[0][0].score > found[0][1].score > 0
    assert tagger.tag([]) == []
    assert tagger.tag(["fish"], top_k=0) == [[]]


def test_what_is_no_list_of_texts_is_refused(tagger):
    with pytest.raises(InputError, match="one text was given; wanted a list of texts"):
        tagger.tag("air transport")
    with pytest.raises(InputError, match="text 1 is a NoneType; wanted str"):
        tagger.tag(["a", None])
    with pytest.raises(SettingError, match="top_k=-1"):
        tagger.tag(["a"], top_k=-1)


def test_half_a_surrogate_pair_and_controls_are_read_as_the_corpus_reads_them(tagger):
    found = tagger.tag(["fish\x00eries \ud800 fisheries"])
    assert found[0][0].id == "L2"


def test_labels_are_ranked_and_never_repeated(tagger):
    found = tagger.tag_batch(batch(*(text for _, text, _ in DOCS)), TagOptions(top_k=100))
    assert found.counts.tolist() == [4] * 5
    assert all(sorted(rows) == [0, 1, 2, 3] for rows in by_doc(found))
    assert all((np.diff(found.slice(i, i + 1).scores) <= 0).all() for i in range(5))
    assert [rows[0] for rows in by_doc(found)] == [0, 3, 2, 3, 1]


def test_every_document_without_suggestions_has_its_reason(tagger):
    texts = ["", "  \n", "\u200b", "\ufe0f", "!!!", "fish"]
    found = tagger.tag_batch(batch(*texts), TagOptions())
    assert found.reasons == ["empty_text"] * 4 + ["no_vector", ""]
    assert found.counts.tolist() == [0] * 5 + [4]
    nothing = tagger.tag_batch(batch(*texts[:5]), TagOptions(evidence=True))
    assert nothing.reasons == found.reasons[:5]
    assert nothing.evidence in (None, [])
    assert len(tagger.tag_batch(batch(), TagOptions())) == 0


def test_only_allowed_labels(tagger):
    allowed = np.array([False, True, False, True, True])
    found = tagger.tag_batch(batch("air transport and fisheries", ""), TagOptions(allowed=allowed))
    assert by_doc(found)[0][0] == 1
    assert set(found.rows) == {1, 3}
    nobody = tagger.tag_batch(batch("air", ""), TagOptions(allowed=np.zeros(5, bool)))
    assert nobody.reasons == ["no_allowed_label", "empty_text"]


def test_a_threshold_cuts_and_says_so(tagger):
    texts = [text for _, text, _ in DOCS]
    everything = tagger.tag_batch(batch(*texts), TagOptions())
    cut = float(np.sort(everything.scores)[-4])
    found = tagger.tag_batch(batch(*texts), TagOptions(threshold=cut))
    assert found.n_suggestions == 4
    assert found.scores.min() >= np.float32(cut)
    none = tagger.tag_batch(batch(*texts), TagOptions(threshold=2.0))
    assert none.reasons == ["below_threshold"] * 5


def test_options_out_of_range(tagger):
    with pytest.raises(SettingError, match="top_k=-1"):
        tagger.tag_batch(batch("a"), TagOptions(top_k=-1))


def test_evidence_names_the_neighbours_that_voted_and_the_words_that_matched(tagger):
    found = tagger.tag_batch(batch("Annual budgets of the fleet", "", "قانون"), TagOptions(evidence=True))
    assert len(found.evidence) == found.n_suggestions == 8
    by_label = dict(zip(found.rows[:4].tolist(), found.evidence[:4], strict=True))
    assert [doc_id for doc_id, _ in by_label[3].neighbours] == ["d4", "d2"]
    assert sorted(by_label[3].words) == ["annual", "budgets"]
    assert by_label[2].words == []
    for each in found.evidence:
        similarities = [s for _, s in each.neighbours]
        assert similarities == sorted(similarities, reverse=True)
        assert all(0 < s <= 1 + 1e-6 for s in similarities)
    gold = {doc_id: labels for doc_id, _, labels in DOCS}
    for row, each in zip(found.rows, found.evidence, strict=True):
        assert all(LABELS[row][0] in gold[doc_id] for doc_id, _ in each.neighbours)


def test_evidence_changes_no_suggestion(tagger):
    texts = [text for _, text, _ in DOCS]
    plain, told = (tagger.tag_batch(batch(*texts), TagOptions(evidence=e)) for e in (False, True))
    assert (plain.rows == told.rows).all()
    assert (plain.scores == told.scores).all()


def test_evidence_without_documents(tmp_path):
    tagger = Tagger.load(index(tmp_path / "model", labels_file(tmp_path / "l.jsonl")))
    (first, *_) = tagger.tag_batch(batch("fisheries"), TagOptions(evidence=True)).evidence
    assert first.neighbours == []
    assert first.words == ["fisheries"]


def test_evidence_of_a_memory_without_any_vector(tmp_path):
    docs = docs_file(tmp_path / "d.jsonl", [("d1", "", ["L1"]), ("d2", "!!!", [])])
    tagger = Tagger.load(index(tmp_path / "model", labels_file(tmp_path / "l.jsonl"), docs))
    found = tagger.tag_batch(batch("fisheries"), TagOptions(evidence=True))
    assert found.rows[0] == 1
    assert found.evidence[0].neighbours == []


def test_a_batch_of_any_size_gives_the_same(tmp_path):
    labels, docs = synthetic(60, 120)
    made = labels_file(tmp_path / "l.jsonl", labels), docs_file(tmp_path / "d.jsonl", docs[40:])
    tagger = Tagger.load(index(tmp_path / "model", *made))
    texts = [text for _, text, _ in docs[:40]]
    texts[7] = ""
    whole = tagger.tag_batch(batch(*texts), TagOptions())
    for size in (1, 3, 39):
        parts = [tagger.tag_batch(batch(*texts[i : i + size]), TagOptions()) for i in range(0, 40, size)]
        joined = Suggestions.concat(parts)
        assert (joined.rows == whole.rows).all()
        assert (joined.scores == whole.scores).all()
        assert joined.reasons == whole.reasons


def test_more_suggestions_than_the_index_gives_candidates(tmp_path):
    labels, _ = synthetic(450, 1)
    tagger = Tagger.load(index(tmp_path / "model", labels_file(tmp_path / "l.jsonl", labels)))
    found = tagger.tag_batch(batch(labels[7][1]), TagOptions(top_k=400))
    assert found.counts.tolist() == [400]
    assert len(set(found.rows)) == 400
    assert found.rows[0] == 7


def test_no_label_can_be_scored(tmp_path):
    labels = labels_file(tmp_path / "l.jsonl", [("L1", ""), ("L2", "...")])
    tagger = Tagger.load(index(tmp_path / "model", labels))
    assert tagger.tag_batch(batch("fish", ""), TagOptions()).reasons == ["no_allowed_label", "empty_text"]


def test_retired_labels_are_never_suggested(tmp_path):
    records = ({"id": i, "text": t, "retired": i == "L2"} for i, t in LABELS)
    labels = jsonl(tmp_path / "l.jsonl", records)
    docs = docs_file(tmp_path / "d.jsonl", [d for d in DOCS if "L2" not in d[2]])
    tagger = Tagger.load(index(tmp_path / "model", labels, docs))
    assert set(tagger.tag_batch(batch("fisheries", "fisheries budget"), TagOptions()).rows) == {0, 2, 3}


def test_documents_of_features_are_refused_by_a_model_of_texts(tagger):
    rows = DocumentBatch(["1"], None, sp.csr_matrix((1, 3)), None, ["x.txt:2"])
    with pytest.raises(InputError, match=r"x\.txt:2: sparse features, but the model was built on texts"):
        tagger.tag_batch(rows, TagOptions())


def test_what_is_not_there_is_no_model(tmp_path):
    with pytest.raises(ArtifactError, match="nowhere"):
        Tagger.load(tmp_path / "nowhere")


def test_probabilities_rise_with_scores_and_overflow_nothing():
    scores = np.array([-1e30, -5, 0, 5, 1e30], np.float32)
    found = probability(2 * scores - 1)
    assert found.dtype == np.float32
    assert found == pytest.approx(
        [0, 1 / (1 + np.exp(11)), 1 / (1 + np.e), 1 / (1 + np.exp(-9)), 1], abs=1e-6
    )


def test_a_stream_of_texts_is_tagged_as_it_is_read(tagger):
    taken = []

    def texts():
        for i in range(20):
            taken.append(i)
            yield f"air transport and fisheries {i}"

    found = tagger.tag_stream(texts(), top_k=2, size=3)
    assert taken == []
    first = next(found)
    assert len(taken) == 6  # one batch used, the next at work
    assert [first, *found] == tagger.tag([f"air transport and fisheries {i}" for i in range(20)], top_k=2)
    assert list(tagger.tag_stream([])) == []


def test_a_stream_names_what_is_wrong_at_once_or_in_its_turn(tagger):
    with pytest.raises(InputError, match="one text was given"):
        tagger.tag_stream("a text")
    with pytest.raises(SettingError, match="size=0"):
        tagger.tag_stream([], size=0)
    with pytest.raises(SettingError, match="top_k"):
        tagger.tag_stream([], top_k=-1)
    found = tagger.tag_stream(["fisheries", "air", 3], size=2)
    assert len([next(found), next(found)]) == 2
    with pytest.raises(InputError, match="text 2 is a int"):
        next(found)


def test_threads_are_a_number_from_one_up(path):
    with pytest.raises(SettingError, match="threads=0"):
        Tagger.load(path, threads=0)
