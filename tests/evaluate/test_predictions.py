"""Every format that `xmc tag` writes is read back the same, and what would distort a score is refused."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions
from xmc.data.records import Label
from xmc.errors import InputError, SettingError
from xmc.evaluate.predictions import IdSpace, read_predictions
from xmc.tag.suggestions import Suggestions
from xmc.tag.writers import format_of

LABELS = [
    ("L1", "air transport"),
    ("=2+2", "fisheries"),
    ("L,3", "قانون"),
    ("L 4\t|", 'budget, "annual"'),
    ("'q", ""),
]
DOCS = ["d1", "a,b", "@x", "e\u0301\u2028", "empty"]


def suggestions():
    rows = np.array([[1, 0, 3], [2, 4, -1], [4, 1, 0], [3, -1, -1], [-1, -1, -1]])
    scores = np.array(
        [[0.9, 0.7, 0.3], [1e-7, -0.25, 0], [0.1, 0.5, 0.2], [1 / 3, 0, 0], [0, 0, 0]], np.float32
    )
    return Suggestions.from_matrix(DOCS, rows, scores, ["", "", "", "", "empty_text"])


def label_set():
    return LabelSet.from_records([Label(i, t) for i, t in LABELS])


def written(path):
    """What the tagger would leave at ``path``, in two parts."""
    form, labels, found = format_of(path), label_set(), suggestions()
    parts = []
    for n, part in enumerate((found.slice(0, 2), found.slice(2, 5))):
        parts.append(path.with_name(f"part{n}"))
        parts[-1].write_bytes(form.encode(part, labels))
    form.merge(parts, path, labels)
    return path


def flat(found, space):
    ids = list(space)
    docs = [
        (doc, [(ids[found.rows[j]], found.scores[j]) for j in range(found.indptr[i], found.indptr[i + 1])])
        for i, doc in enumerate(found.doc_ids)
    ]
    return {doc: sorted(pairs, key=lambda s: -s[1]) for doc, pairs in docs}


SUFFIXES = ["jsonl", "jsonl.gz", "jsonl.zst", "csv", "csv.gz", "tsv", "parquet", "npz"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_written_is_read(tmp_path, suffix):
    space = IdSpace()
    found = read_predictions(written(tmp_path / f"out.{suffix}"), space)
    assert flat(found, space) == {
        "d1": [("=2+2", 0.9), ("L1", 0.7), ("L 4\t|", 0.3)],
        "a,b": [("L,3", 1e-7), ("'q", -0.25)],
        "@x": [("=2+2", 0.5), ("L1", 0.2), ("'q", 0.1)],
        "e\u0301\u2028": [("L 4\t|", pytest.approx(1 / 3))],
        "empty": [],
    }


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_scores_to_the_last_bit(tmp_path, suffix):
    space, other = IdSpace(), IdSpace()
    one = read_predictions(written(tmp_path / "out.jsonl"), space)
    assert flat(one, space) == flat(read_predictions(written(tmp_path / f"x.{suffix}"), other), other)


def jsonl(path, *documents):
    path.write_text(
        "".join(d if isinstance(d, str) else json.dumps(d) + "\n" for d in documents), encoding="utf-8"
    )
    return path


def doc(doc_id, *suggestions):
    return {"id": doc_id, "suggestions": [{"id": i, "score": s} for i, s in suggestions]}


def test_aligned_to_gold_in_its_order(tmp_path):
    path = jsonl(
        tmp_path / "o.jsonl", doc("d2", ("a", 0.1), ("b", 0.5)), doc("other", ("c", 1)), doc("d1", ("b", 0.2))
    )
    space = IdSpace()
    ranked, missing, others = read_predictions(path, space).aligned(["d1", "d3", "d2"])
    assert (missing, others) == (1, 1)
    assert ranked.indptr.tolist() == [0, 1, 1, 3]
    assert [list(space)[row] for row in ranked.rows] == ["b", "b", "a"]


def test_equal_scores_keep_the_order_of_the_file(tmp_path):
    path = jsonl(tmp_path / "o.jsonl", doc("d1", ("c", 0.5), ("a", 0.5), ("b", 0.9), ("d", 0.5)))
    space = IdSpace({"a": 0, "b": 1, "c": 2, "d": 3})
    ranked, _, _ = read_predictions(path, space).aligned(["d1"])
    assert ranked.rows.tolist() == [1, 2, 0, 3]


def test_new_labels_come_after_those_of_the_vocabulary(tmp_path):
    space = IdSpace({"a": 0, "b": 1})
    read_predictions(jsonl(tmp_path / "o.jsonl", doc("d1", ("z", 1), ("b", 1))), space)
    assert space == {"a": 0, "b": 1, "z": 2}


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (
            [doc("d1", ("a", 1)), doc("d1")],
            "o.jsonl:2: document 'd1' is predicted twice, first at .*o.jsonl:1",
        ),
        (
            [doc("d0"), doc("d1", ("a", 1), ("b", 0), ("a", 2))],
            "o.jsonl:2: document 'd1': label 'a' is suggested twice",
        ),
        (
            ['{"id":"d1","suggestions":[{"id":"a","score":NaN}]}\n'],
            "o.jsonl:1: document 'd1': score nan for label 'a'",
        ),
        (['{"id":"d1","suggestions":[{"id":"a","score":-Infinity}]}\n'], "score -?inf"),
        (['{"id":"d1","suggestions":[{"id":"a","score":1' + "0" * 400 + "}]}\n"], "score inf"),
        (['{"id":"d1","suggestions":[{"id":"a","score":1e999}]}\n'], "score inf"),
        (['\n{"id":"d1"\n'], "o.jsonl:2: not valid JSON"),
        (["[" * 100_000 + "\n"], "o.jsonl:1: not valid JSON"),
        (["[1]\n"], "o.jsonl:1: wanted .*; found '\\[1\\]'"),
        ([{"id": "d1"}], "wanted .*suggestions"),
        ([{"id": "d1", "suggestions": ["a"]}], "document 'd1': a suggestion is not"),
        ([{"suggestions": []}], "o.jsonl:1: no id; wanted a string"),
        ([{"id": 7, "suggestions": []}], "id 7; wanted a string .*coerce=true"),
        ([doc("d1", (True, 1))], "id true; wanted a string"),
        ([doc("d1", ("a", "0.5"))], "label 'a': score \"0.5\"; wanted a number"),
        ([doc("d1", ("a", True))], "label 'a': score true"),
        ([doc("d1", ("a", None))], "label 'a': no score"),
    ],
)
def test_jsonl_that_is_refused(tmp_path, documents, message):
    with pytest.raises(InputError, match=message) as caught:
        read_predictions(jsonl(tmp_path / "o.jsonl", *documents), IdSpace())
    assert "\n" not in str(caught.value)


def test_numbers_as_ids_and_text_as_scores_pass_when_asked_for(tmp_path):
    space = IdSpace()
    path = jsonl(tmp_path / "o.jsonl", doc(7, (8, "0.5")))
    found = read_predictions(path, space, ReadOptions(coerce=True))
    assert (found.doc_ids, list(space), found.scores.tolist()) == (["7"], ["8"], [0.5])


def test_a_document_without_suggestions_and_blank_lines(tmp_path):
    found = read_predictions(jsonl(tmp_path / "o.jsonl", "\n", doc("d1"), "  \r\n"), IdSpace())
    assert (found.doc_ids, found.indptr.tolist()) == (["d1"], [0, 0])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "o.csv",
            "doc_id,label_id\nd1,a\n",
            "o.csv:1: columns 'doc_id', 'label_id'; wanted a header doc_id,rank",
        ),
        ("o.csv", "doc_id,label_id,score\nd1,a\n", "o.csv:2: 2 columns; wanted 3"),
        ("o.csv", "doc_id,label_id,score\nd1,a,x\n", "o.csv:2: score 'x'; wanted a number"),
        ("o.csv", "doc_id,label_id,score\nd1,a,nan\n", "score nan"),
        ("o.csv", 'doc_id,label_id,score\n"d1"x,a,1\n', "o.csv:2: not valid CSV"),
        (
            "o.csv",
            "doc_id,label_id,score\nd1,a,1\nd2,a,1\nd1,b,1\n",
            "o.csv:4: .* predicted twice",
        ),
        ("o.tsv", "d1\t<a>\tair\n", "o.tsv:1: found .*; wanted document id TAB <label id>"),
        ("o.tsv", "d1\ta\tair\t0.5\n", "o.tsv:1: found"),
        ("o.tsv", "d1\t<a>\tair\t\n", "o.tsv:1: score ''; wanted a number"),
        (
            "o.tsv",
            "d1\t<a>\tair\t1\nd1\t<a>\tair\t1\n",
            "o.tsv:1: .* 'a' is suggested twice",
        ),
        ("o.parquet", "no parquet", "o.parquet: .*; wanted a Parquet file with id: string"),
        ("o.npz", "no zip", "o.npz: not a score matrix"),
    ],
)
def test_other_files_that_are_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_predictions(path, IdSpace())
    assert "\n" not in str(caught.value)


def test_a_suffix_that_names_no_format(tmp_path):
    with pytest.raises(SettingError, match=r"out.txt: the suffix names no suggestion format; wanted one of"):
        read_predictions(tmp_path / "out.txt", IdSpace())


def test_a_missing_and_a_cut_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_predictions(tmp_path / "out.jsonl", IdSpace())
    (tmp_path / "cut.jsonl").write_bytes(gzip.compress(b'{"id": "d1", "suggestions": []}\n' * 50)[:-12])
    with pytest.raises(InputError, match="damaged gzip"):
        read_predictions(tmp_path / "cut.jsonl", IdSpace())


def parquet(path, rows, kind=None):
    kind = kind or pa.list_(pa.struct([("id", pa.string()), ("score", pa.float32())]))
    pq.write_table(
        pa.table({"id": [r[0] for r in rows], "suggestions": pa.array([r[1] for r in rows], kind)}), path
    )
    return path


def test_parquet_that_is_refused(tmp_path):
    path = tmp_path / "o.parquet"
    for rows, message in [
        ([("d1", [{"id": "a", "score": None}])], "an id or a score is null"),
        ([("d1", [{"id": None, "score": 1}])], "an id or a score is null"),
        ([("d1", [{"id": "a", "score": float("nan")}])], "row 1: document 'd1': score nan"),
        ([("d1", []), ("d1", [])], "row 2: document 'd1' is predicted twice"),
        ([(1, [])], "an id is of type int64"),
    ]:
        with pytest.raises(InputError, match=message):
            read_predictions(parquet(path, rows), IdSpace())
    with pytest.raises(InputError, match="wanted a Parquet file with"):
        read_predictions(parquet(path, [("d1", ["a"])], pa.list_(pa.string())), IdSpace())


def test_parquet_with_a_null_list_is_a_document_without_suggestions(tmp_path):
    rows = [("d1", None), ("d2", [{"id": "a", "score": 0.5}])]
    assert read_predictions(parquet(tmp_path / "o.parquet", rows), IdSpace()).indptr.tolist() == [0, 0, 1]


def matrix(path, **changed):
    parts = {
        "data": np.array([0.5, 0.0, 0.9], np.float32),
        "indices": np.array([0, 2, 1], np.int32),
        "indptr": np.array([0, 2, 3], np.int32),
        "shape": np.array([2, 3]),
        "format": np.array(b"csr"),
    }
    np.savez(path, **(parts | changed))
    return path


def test_a_score_matrix_of_scipy_takes_ids_from_gold_and_labels(tmp_path):
    sp.save_npz(tmp_path / "o.npz", sp.csr_matrix(np.array([[0.5, 0, 0.2], [0, 0.9, 0]])))
    space = IdSpace({"a": 0, "b": 1, "c": 2})
    found = read_predictions(tmp_path / "o.npz", space, None, ["d1", "d2"], ["a", "b", "c"])
    assert flat(found, space) == {"d1": [("a", 0.5), ("c", 0.2)], "d2": [("b", 0.9)]}
    with pytest.raises(InputError, match="2 rows in the score matrix but 3 gold documents"):
        read_predictions(tmp_path / "o.npz", space, None, ["d1", "d2", "d3"], ["a", "b", "c"])
    with pytest.raises(InputError, match="3 columns in the score matrix but 2 labels"):
        read_predictions(tmp_path / "o.npz", space, None, ["d1", "d2"], ["a", "b"])
    with pytest.raises(InputError, match="have no ids; give the labels"):
        read_predictions(tmp_path / "o.npz", space, None, ["d1", "d2"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"indices": np.array([0, 7, 1])}, "row 1: a column is outside 0 to 2"),
        ({"indices": np.array([0, 2, -1])}, "row 2: a column is outside 0 to 2"),
        ({"indices": np.array([0, 0, 1])}, "row 1: document 'd1': label 'a' is suggested twice"),
        ({"indptr": np.array([0, 3, 2])}, "indptr does not divide 3 entries into 2 rows"),
        ({"indptr": np.array([0, 2, 9])}, "indptr does not divide"),
        ({"indptr": np.array([0, 3])}, "indptr does not divide"),
        ({"data": np.array([0.5, np.nan, 1])}, "row 1: document 'd1': score nan for label 'c'"),
        ({"data": np.array(["a", "b", "c"])}, "wrong type or shape"),
        ({"data": np.array([{}, {}, {}], dtype=object)}, "not a score matrix"),
        ({"shape": np.array([2])}, "wrong type or shape"),
        ({"format": np.array(b"coo")}, "in format coo; wanted csr"),
    ],
)
def test_score_matrices_that_are_refused(tmp_path, changed, message):
    space = IdSpace({"a": 0, "b": 1, "c": 2})
    with pytest.raises(InputError, match=message):
        read_predictions(matrix(tmp_path / "o.npz", **changed), space, None, ["d1", "d2"], ["a", "b", "c"])
