from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.tag.overlap import label_set
from xmc.data.labels import LabelSet
from xmc.errors import SettingError
from xmc.tag.lines import CSV_COLUMNS, escaped, guarded, unescaped, unguarded
from xmc.tag.readers import read_suggestions
from xmc.tag.suggestions import EMPTY_TEXT, PARTS, Evidence, Passage, Suggestions
from xmc.tag.writers import KNOWN, format_of

ODD = [
    "=1+1",
    "'",
    "a,b",
    'a "quoted" id',
    "tab\tin",
    "back\\slash\\t",
    "e\u0301",
    "قانون",
    "👩‍⚖️",
    "\u202eRTL",
]
ODD += ["  blanks  ", "@x", "-5", "+5", "＝SUM(A1)", "14.10", "06", "x\u2028y\u0085z", "</script>", "<uri>"]


@pytest.fixture
def labels() -> LabelSet:
    return label_set(
        ("L1", "air transport"),
        ("L2", "=HYPERLINK(1)"),
        ("L3", "قانون"),
        ("L4", "budget, annual"),
        ("L5", ""),
    )


@pytest.fixture
def shards() -> list[Suggestions]:
    """Two shards of two documents, one of them without suggestions."""
    scores = np.array([0.93, 1 / 3, 1e-7, 16777216.0], dtype=np.float32)
    first = Suggestions(["d1", "d2"], [0, 3, 3], [3, 0, 4], scores[:3], ["", EMPTY_TEXT])  # type: ignore[arg-type]
    second = Suggestions(["d3", "d4"], [0, 0, 1], [1], -scores[3:], ["no_vector", ""])  # type: ignore[arg-type]
    return [first, second]


def write(out: Path, shards: list[Suggestions], labels: LabelSet, evidence: bool = False) -> Path:
    chosen = format_of(out, evidence)
    parts = []
    for i, shard in enumerate(shards):
        parts.append(out.with_name(f"{out.name}.{i}.part"))
        parts[-1].write_bytes(chosen.encode(shard, labels))
    chosen.merge(parts, out, labels)
    return out


def plain(shards: list[Suggestions], labels: LabelSet) -> list[tuple[str, list[tuple[str, float]], str]]:
    whole = Suggestions.concat(shards)
    pairs = [(labels.id(r), float(s)) for r, s in zip(whole.rows, whole.scores, strict=True)]
    spans = zip(whole.indptr[:-1], whole.indptr[1:], strict=True)
    return [(i, pairs[a:b], r) for i, (a, b), r in zip(whole.doc_ids, spans, whole.reasons, strict=True)]


def read(path: Path) -> list[tuple[str, list[tuple[str, float]], str]]:
    """As float32: text gives a score with the digits that tell it from every other float32."""
    return [
        (d.id, [(i, float(np.float32(s))) for i, s in zip(d.label_ids, d.scores, strict=True)], d.reason)
        for d in read_suggestions(path)
    ]


@pytest.mark.parametrize("suffix", KNOWN)
def test_every_format_reads_back(
    suffix: str, tmp_path: Path, shards: list[Suggestions], labels: LabelSet
) -> None:
    assert read(write(tmp_path / f"tags{suffix}", shards, labels)) == plain(shards, labels)


@pytest.mark.parametrize("suffix", KNOWN)
def test_the_same_parts_give_the_same_bytes_under_any_name(
    suffix: str, tmp_path: Path, shards: list[Suggestions], labels: LabelSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / f"tags{suffix}", shards, labels).read_bytes()
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    assert write(tmp_path / f"other{suffix}", shards, labels).read_bytes() == first


@pytest.mark.parametrize("suffix", KNOWN)
def test_no_documents_give_an_empty_output(suffix: str, tmp_path: Path, labels: LabelSet) -> None:
    assert read(write(tmp_path / f"none{suffix}", [], labels)) == []
    assert read(write(tmp_path / f"empty{suffix}", [Suggestions.empty([], [])], labels)) == []


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet", ".npz"])
def test_odd_ids_and_texts_read_back(suffix: str, tmp_path: Path) -> None:
    labels = label_set(*((odd, odd) for odd in ODD))
    n = len(ODD)
    each = Suggestions(ODD, np.arange(n + 1), np.arange(n), np.linspace(1, 0, n), [""] * n)
    assert read(write(tmp_path / f"odd{suffix}", [each], labels)) == plain([each], labels)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet", ".npz"])
def test_a_lone_surrogate_does_not_crash_and_keeps_ids_apart(
    suffix: str, tmp_path: Path, labels: LabelSet
) -> None:
    odd = Suggestions.empty(["a\ud800", "a\udfff"], [EMPTY_TEXT, EMPTY_TEXT])
    ids = [d.id for d in read_suggestions(write(tmp_path / f"odd{suffix}", [odd], labels))]
    written = ["a\ud800", "a\udfff"] if suffix in (".jsonl", ".npz") else ["a\\ud800", "a\\udfff"]
    assert ids == [unescaped(w) if suffix == ".tsv" else w for w in written]


def test_jsonl_lines(tmp_path: Path, shards: list[Suggestions], labels: LabelSet) -> None:
    lines = write(tmp_path / "tags.jsonl", shards, labels).read_text("utf-8").splitlines()
    assert lines[0] == (
        '{"id": "d1", "suggestions": [{"id": "L4", "text": "budget, annual", "score": 0.93}, '
        '{"id": "L1", "text": "air transport", "score": 0.33333334}, '
        '{"id": "L5", "text": "", "score": 1e-07}]}'
    )
    assert lines[1] == '{"id": "d2", "suggestions": [], "reason": "empty_text"}'
    assert len(lines) == 4


def test_jsonl_lines_end_at_line_feeds_alone(tmp_path: Path, labels: LabelSet) -> None:
    odd = Suggestions.empty(["a\u2028b\u0085c\u2029d\x0be"], [EMPTY_TEXT])
    text = write(tmp_path / "tags.jsonl", [odd], labels).read_text("utf-8")
    assert len(text.splitlines()) == 1
    assert json.loads(text)["id"] == odd.doc_ids[0]


def test_compressed_lines_are_one_stream(tmp_path: Path, shards: list[Suggestions], labels: LabelSet) -> None:
    raw = write(tmp_path / "tags.jsonl", shards, labels).read_bytes()
    assert gzip.decompress(write(tmp_path / "tags.jsonl.gz", shards, labels).read_bytes()) == raw
    frame = write(tmp_path / "tags.jsonl.zst", shards, labels).read_bytes()
    assert zstandard.ZstdDecompressor().stream_reader(io.BytesIO(frame)).read() == raw


def test_evidence_in_jsonl_and_parquet(tmp_path: Path, labels: LabelSet) -> None:
    shares = dict.fromkeys(PARTS, 0.25)
    first = Evidence([("t1", 0.1), ("t\ud800", 1 / 3)], ["air"], Passage(4, 8, "a\ud800ir"), shares)
    evidence = [first, Evidence([], []), Evidence([], [], Passage(2, 900, None))]
    tagged = Suggestions(["d1", "d2"], [0, 3, 3], [0, 1, 2], [0.5, 0.25, 0.1], ["", EMPTY_TEXT], evidence)  # type: ignore[arg-type]
    line = write(tmp_path / "e.jsonl", [tagged], labels, True).read_text("utf-8").splitlines()[0]
    found = [suggestion["evidence"] for suggestion in json.loads(line)["suggestions"]]
    assert found[0] == {
        "neighbours": [{"id": "t1", "similarity": 0.1}, {"id": "t\ud800", "similarity": 0.33333334}],
        "words": ["air"],
        "passage": {"start": 4, "end": 8, "text": "a\ud800ir"},
        "shares": shares,
    }
    assert found[1] == {"neighbours": [], "words": []}
    assert found[2]["passage"] == {"start": 2, "end": 900}
    rows = pq.read_table(write(tmp_path / "e.parquet", [tagged], labels, True)).to_pylist()
    found = [suggestion["evidence"] for suggestion in rows[0]["suggestions"]]
    assert [n["id"] for n in found[0]["neighbours"]] == ["t1", "t\\ud800"]
    assert found[0]["passage"] == {"start": 4, "end": 8, "text": "a\\ud800ir"}
    assert (found[0]["words"], found[0]["shares"]) == (["air"], shares)
    assert found[1] == {"neighbours": [], "words": [], "passage": None, "shares": None}
    assert found[2]["passage"] == {"start": 2, "end": 900, "text": None}


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".npz"])
def test_evidence_elsewhere_is_refused(suffix: str) -> None:
    with pytest.raises(SettingError, match="no place for evidence"):
        format_of(f"tags{suffix}", evidence=True)


def test_csv_rows(tmp_path: Path, shards: list[Suggestions], labels: LabelSet) -> None:
    raw = write(tmp_path / "tags.csv", shards, labels).read_bytes()
    assert raw.count(b"\r\n") == 7
    rows = list(csv.reader(io.StringIO(raw.decode(), newline="")))
    assert rows == [
        CSV_COLUMNS,
        ["d1", "1", "L4", "budget, annual", "0.93", ""],
        ["d1", "2", "L1", "air transport", "0.33333334", ""],
        ["d1", "3", "L5", "", "1e-07", ""],
        ["d2", "", "", "", "", "empty_text"],
        ["d3", "", "", "", "", "no_vector"],
        ["d4", "1", "L2", "'=HYPERLINK(1)", "-1.6777216e+07", ""],
    ]


def test_no_cell_of_csv_text_begins_a_formula(tmp_path: Path) -> None:
    labels = label_set(*((odd, odd) for odd in ODD))
    n = len(ODD)
    each = Suggestions(ODD, np.arange(n + 1), np.arange(n), np.ones(n), [""] * n)
    with write(tmp_path / "odd.csv", [each], labels).open(encoding="utf-8", newline="") as text:
        cells = [cell for row in list(csv.reader(text))[1:] for cell in (row[0], row[2], row[3])]
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n＝＋－＠"))]


def test_annif_lines_after_the_document(tmp_path: Path, labels: LabelSet) -> None:
    odd = label_set(("http://example.org/a", "two\twords"))
    tagged = Suggestions(["d\t1", "d2"], [0, 1, 1], [0], [0.5], ["", EMPTY_TEXT])  # type: ignore[arg-type]
    text = write(tmp_path / "tags.tsv", [tagged], odd).read_text("utf-8")
    assert text == "d\\t1\t<http://example.org/a>\ttwo words\t0.5\nd2\t\t\t\tempty_text\n"


def test_parquet_has_a_row_group_a_shard(tmp_path: Path, shards: list[Suggestions], labels: LabelSet) -> None:
    path = write(tmp_path / "tags.parquet", shards, labels)
    assert pq.ParquetFile(path).num_row_groups == 2
    rows = pq.read_table(path).to_pylist()
    assert [row["reason"] for row in rows] == [None, "empty_text", "no_vector", None]
    assert rows[0]["suggestions"][0] == {
        "id": "L4",
        "text": "budget, annual",
        "score": pytest.approx(0.93),
    }


def test_npz_is_a_scipy_matrix_with_ids_beside(
    tmp_path: Path, shards: list[Suggestions], labels: LabelSet
) -> None:
    path = write(tmp_path / "tags.npz", shards, labels)
    matrix = scipy.sparse.load_npz(path)
    assert matrix.shape == (4, 5)
    assert matrix.dtype == np.float32
    assert matrix.has_canonical_format
    assert matrix[0].toarray().tolist()[0] == np.array([1 / 3, 0, 0, 0.93, 1e-7], np.float32).tolist()
    with np.load(path, allow_pickle=False) as entries:
        documents = [json.loads(line) for line in entries["documents.jsonl"].splitlines()]
        names = [json.loads(line) for line in entries["labels.jsonl"].splitlines()]
    assert documents == [
        {"id": "d1"},
        {"id": "d2", "reason": "empty_text"},
        {"id": "d3", "reason": "no_vector"},
        {"id": "d4"},
    ]
    assert names[3] == {"id": "L4", "text": "budget, annual"}


def test_npz_keeps_a_score_of_zero(tmp_path: Path, labels: LabelSet) -> None:
    zero = Suggestions(["d1"], [0, 2], [1, 3], [0.5, 0.0], [""])  # type: ignore[arg-type]
    assert read(write(tmp_path / "tags.npz", [zero], labels)) == plain([zero], labels)


@pytest.mark.parametrize("out", ["tags.txt", "tags", "tags.jsonl.bz2", "tags.gz", "jsonl"])
def test_an_unknown_suffix_names_the_known_ones(out: str) -> None:
    with pytest.raises(SettingError, match=r"\.jsonl, \.jsonl\.gz, .*\.parquet, \.npz"):
        format_of(out)


def test_suffixes_in_capitals_and_paths_with_syntax() -> None:
    assert format_of("TAGS.JSONL").name == "JSONL"
    assert format_of("/data/a=b,c#1/@x y.v2.csv").name == "CSV"
    assert format_of("-").name == "JSONL"


@given(st.text())
def test_guarding_and_escaping_are_undone(text: str) -> None:
    assert unguarded(guarded(text)) == text
    assert unescaped(escaped(text)) == text
    assert not set("\t\n\r") & set(escaped(text))


@given(st.lists(st.tuples(st.text(min_size=1), st.floats(width=32, allow_nan=False, allow_infinity=False))))
def test_any_text_and_score_survive_every_line_format(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[str, float]]
) -> None:
    texts = [text for text, _ in found]
    labels = label_set(("only", "one"))
    n = len(found)
    scores = [score for _, score in found]
    # Every other document has no suggestion.
    counts = np.arange(n) % 2
    indptr = np.concatenate([[0], np.cumsum(counts)])
    kept = [s for s, c in zip(scores, counts, strict=True) if c]
    ids = [f"{i}{text}" for i, text in enumerate(texts)]
    reasons = ["" if c else EMPTY_TEXT for c in counts]
    tagged = Suggestions(ids, indptr, np.zeros(len(kept)), np.array(kept), reasons)
    folder = tmp_path_factory.mktemp("any")
    for suffix in (".jsonl", ".csv", ".tsv"):
        assert read(write(folder / f"tags{suffix}", [tagged], labels)) == plain([tagged], labels)
