from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.errors import SettingError
from xmc.tag.suggestions import BELOW_THRESHOLD, EMPTY_TEXT, Evidence, Suggestions, TagOptions


@pytest.fixture
def three() -> Suggestions:
    rows = np.array([[4, 2, 7], [-1, -1, -1], [1, 0, -1]])
    scores = np.array([[0.5, 0.9, 0.5], [0, 0, 0], [0.1, 0.3, 9.0]], dtype=np.float32)
    return Suggestions.from_matrix(["a", "b", "c"], rows, scores, ["", EMPTY_TEXT, ""])


def test_from_matrix_ranks_and_drops_padding(three: Suggestions) -> None:
    assert three.indptr.tolist() == [0, 3, 3, 5]
    assert three.rows.tolist() == [2, 4, 7, 0, 1]
    assert three.documents.tolist() == [0, 0, 0, 2, 2]
    assert three.reasons == ["", EMPTY_TEXT, ""]


def test_a_document_with_suggestions_has_no_reason() -> None:
    found = Suggestions.from_matrix(["a", "b"], np.array([[1], [-1]]), np.ones((2, 1)), ["why", "why"])
    assert found.reasons == ["", "why"]


def test_no_documents() -> None:
    nothing = Suggestions.from_matrix([], np.zeros((0, 5)), np.zeros((0, 5)))
    assert len(nothing.select(3, 0.5)) == 0
    assert len(Suggestions.concat([])) == 0


def test_top_k(three: Suggestions) -> None:
    best = three.select(1)
    assert best.rows.tolist() == [2, 0]
    assert best.reasons == three.reasons
    assert three.select(0).counts.tolist() == [0, 0, 0]
    assert three.select(100).rows.tolist() == three.rows.tolist()
    with pytest.raises(ValueError, match="top_k=-1"):
        three.select(-1)


def test_threshold_gives_the_reason_to_documents_that_lose_everything(three: Suggestions) -> None:
    passing = three.select(10, 0.5)
    assert passing.rows.tolist() == [2, 4, 7]
    assert passing.reasons == ["", EMPTY_TEXT, BELOW_THRESHOLD]


def test_a_score_equal_to_the_threshold_passes() -> None:
    tenths = np.array([[n / 10 for n in range(10)]], dtype=np.float32)
    ten = Suggestions.from_matrix(["a"], np.arange(10)[None], tenths)
    for n in range(10):
        assert len(ten.select(10, n / 10).rows) == 10 - n


def test_slices_and_concat_are_inverse(three: Suggestions) -> None:
    three.evidence = [Evidence([(str(i), 0.5)], []) for i in range(5)]
    whole = Suggestions.concat([three.slice(0, 1), three.slice(1, 1), three.slice(1, 3)])
    assert whole.doc_ids == three.doc_ids
    assert whole.indptr.tolist() == three.indptr.tolist()
    assert whole.rows.tolist() == three.rows.tolist()
    assert whole.scores.tolist() == three.scores.tolist()
    assert whole.reasons == three.reasons
    assert whole.evidence == three.evidence


def test_selecting_keeps_evidence_with_its_suggestion(three: Suggestions) -> None:
    three.evidence = [Evidence([], [str(row)]) for row in three.rows]
    kept = three.select(2, 0.2)
    assert kept.evidence is not None
    assert [e.words for e in kept.evidence] == [[str(row)] for row in kept.rows]


@pytest.mark.parametrize(
    ("indptr", "rows", "scores", "reasons"),
    [
        ([0], [], [], [""]),
        ([0, 2], [1], [0.5], [""]),
        ([0, 1], [1], [0.5, 0.5], [""]),
        ([0, 1], [1], [0.5], []),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    indptr: list[int], rows: list[int], scores: list[float], reasons: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"."):
        Suggestions(["a"], np.array(indptr), np.array(rows), np.array(scores), reasons)


def test_a_score_that_is_no_number_is_refused_and_its_document_named() -> None:
    with pytest.raises(ValueError, match="document 'c': score nan"):
        Suggestions(["a", "b", "c"], [0, 1, 1, 2], [0, 0], [1.0, np.nan], ["", "", ""])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [TagOptions(top_k=-1), TagOptions(top_k=True), TagOptions(threshold=float("nan"))]
)
def test_options_out_of_range(options: TagOptions) -> None:
    with pytest.raises(SettingError, match=r"top_k=|threshold=nan"):
        options.validate()


@given(
    st.lists(
        st.dictionaries(st.integers(0, 30), st.floats(-1e6, 1e6, width=32), max_size=12),
        max_size=8,
    ),
    st.integers(0, 13),
    st.one_of(st.none(), st.floats(-1e6, 1e6, width=32)),
)
def test_select_equals_sorting_each_document(
    found: list[dict[int, float]], top_k: int, threshold: float | None
) -> None:
    width = max([len(f) for f in found], default=0)
    rows, scores = np.full((len(found), width), -1), np.zeros((len(found), width), np.float32)
    for i, scored in enumerate(found):
        rows[i, : len(scored)] = list(scored)
        scores[i, : len(scored)] = list(scored.values())
    ids = [str(i) for i in range(len(found))]
    selected = Suggestions.from_matrix(ids, rows, scores).select(top_k, threshold)
    for i, expected in enumerate(found):
        best = sorted(expected.items(), key=lambda pair: (-pair[1], pair[0]))
        best = [pair for pair in best if threshold is None or pair[1] >= threshold][:top_k]
        own = slice(selected.indptr[i], selected.indptr[i + 1])
        assert selected.rows[own].tolist() == [row for row, _ in best]
        assert selected.scores[own].tolist() == [score for _, score in best]


def test_other_scores_give_another_order_and_ties_stay():
    found = Suggestions(["a", "b"], [0, 3, 5], [7, 2, 5, 1, 0], [9, 8, 7, 6, 5], ["", ""])
    again = found.rescored(np.array([0.2, 0.5, 0.2, 0.4, 0.4], np.float32))
    assert again.rows.tolist() == [2, 7, 5, 1, 0]
    assert again.scores == pytest.approx([0.5, 0.2, 0.2, 0.4, 0.4])
    assert found.rows.tolist() == [7, 2, 5, 1, 0]


def test_a_threshold_for_each_suggestion():
    found = Suggestions(["a", "b"], [0, 3, 5], [7, 2, 5, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5], ["", ""])
    chosen = found.select(10, np.array([0.95, 0.8, 0.1, 0.7, 0.7]))
    assert chosen.rows.tolist() == [2, 5]
    assert chosen.reasons == ["", "below_threshold"]


def test_what_a_rule_chose_is_told():
    assert TagOptions(threshold=0.5).lines() == []
    (one,) = TagOptions(10, 0.25, rule="micro_f1").lines()
    assert one == "threshold=micro_f1 chose 0.25; at most 10 suggestions a document"
    (four,) = TagOptions(10, (0.1, 0.2, 0.3, 0.4), rule="macro_f1").lines()
    assert "0.1 for labels with no document, 0.2 for labels with 1 to 9 documents" in four
    with pytest.raises(SettingError, match="threshold="):
        TagOptions(threshold=(0.1, float("nan"), 0.1, 0.1)).validate()
