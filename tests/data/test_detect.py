from __future__ import annotations

import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zstandard

from xmc.data.detect import DOCUMENT_FORMATS, LABEL_FORMATS, document_format, label_format
from xmc.data.options import ReadOptions
from xmc.errors import InputError

OPTIONS = ReadOptions()


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": ["d1"], "text": ["x"]}), sink)
    return sink.getvalue()


def npz_bytes() -> bytes:
    sink = io.BytesIO()
    scipy.sparse.save_npz(sink, scipy.sparse.csr_matrix(np.eye(2)))
    return sink.getvalue()


DOCUMENTS = [
    ("docs.jsonl", '{"id": "d1", "text": "x"}\n', "jsonl"),
    ("docs", '{"id": "d1", "text": "x"}\n', "jsonl"),
    ("docs.csv", '\ufeff{"id": "d1", "text": "x"}\n', "jsonl"),
    ("docs.json", '[\n  {"id": "d1", "text": "x"}\n]\n', "jsonl"),
    ("docs.jsonl", "no JSON, with commas\n", "jsonl"),
    ("docs.jsonl", "no JSON,\twith a tab\n", "jsonl"),
    ("docs.json", "[]", "jsonl"),
    ("docs.csv", "id,text\n", "table"),
    ("docs.csv", "id\ttext\n", "table"),
    ("docs.tsv", "id;text\n", "table"),
    ("docs", "id,text,labels\nd1,x,<http://u>\n", "table"),
    ("docs.tsv", "id\ttext\tlabels\nd1\tx\t<http://u>\n", "table"),
    ("docs.txt", "d1\tships\n", "table"),
    ("docs.tsv", "ships\t<http://u/1> <http://u/2>\n", "annif"),
    ("docs.tsv", "no subject\t\nships\thttp://u/1\n", "annif"),
    ("docs.csv", "text,subject_uris\nships,<http://u/1>\n", "annif"),
    ("trn.json", '{"uid": "d1", "title": "x", "content": "", "target_ind": [0]}\n', "xmc_raw"),
    ("31958D1006.json", '{\n "celex_id": "31958D1006",\n "title": "x"\n}', "eurlex"),
    ("train.txt", "2 500 983\n 5:1\n", "xmc_repo"),
    ("train.txt", "3 5\n0,1 2:abc\n", "xmc_repo"),
    ("train.txt", "0,1 3:0.5 4:1\n", "xmc_repo"),
    ("train.csv", "2 1001 53\n3 \n3 \n", "xmc_repo"),
    ("delicious_trSplit.txt", "1 2 3 4\n5 6 7 8\n", "xmc_repo"),
    ("docs.jsonl", "", "jsonl"),
    ("docs.csv", "", "table"),
    ("docs", "", "jsonl"),
    ("docs.npz", parquet_bytes(), "parquet"),
    ("X.trn.npz", npz_bytes(), "pecos"),
]
LABELS = [
    ("labels.jsonl", '{"id": "L1", "text": "x"}\n', "jsonl"),
    ("labels.tsv", "L1\tair transport\n", "table"),
    ("labels", "L1\tair transport\n", "table"),
    ("labels.csv", "id,text\n", "table"),
    ("labels.tsv", "<http://u/1>\tships\n", "annif"),
    ("labels.csv", "uri,label_en,label_fi\n", "annif"),
    ("labels", "# a comment\n@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n", "skos"),
    ("labels.txt", '<?xml version="1.0"?>\n<rdf:RDF></rdf:RDF>', "skos"),
    ("labels.ttl", "", "skos"),
    ("lbl.json", '{"uid": "a", "title": "x"}\n', "xmc_raw"),
    ("EURLEX57K.json", '{\n "1": {\n  "concept_id": "1",\n  "label": "x"\n }\n}', "eurlex"),
    ("train.txt", "2 500 983\n 5:1\n", "xmc_repo"),
    ("labels", parquet_bytes(), "parquet"),
    ("Y.npz", npz_bytes(), "pecos"),
]


@pytest.mark.parametrize(("name", "content", "module"), DOCUMENTS)
def test_documents_are_told_by_content_and_then_by_suffix(
    write, name: str, content: str | bytes, module: str
):
    assert document_format(write(name, content), OPTIONS).module == module


@pytest.mark.parametrize(("name", "content", "module"), LABELS)
def test_labels_are_told_by_content_and_then_by_suffix(write, name: str, content: str | bytes, module: str):
    assert label_format(write(name, content), OPTIONS).module == module


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compressed_files_are_told_the_same_way(write, compress):
    for name, content, module in DOCUMENTS:
        data = content.encode() if isinstance(content, str) else content
        if module not in ("parquet", "pecos"):
            assert document_format(write(f"{name}.gz", compress(data)), OPTIONS).module == module


def test_folders_are_told_by_their_files(write):
    assert document_format(write("a/X.npz", b"").parent, OPTIONS).module == "pecos"
    assert document_format(write("b/1.txt", "x").parent, OPTIONS).module == "annif"
    record = '{"celex_id": "1"}'
    assert document_format(write("c/1.json", record).parent, OPTIONS).module == "eurlex"
    assert document_format(write("d/train/1.json", record).parent.parent, OPTIONS).module == "eurlex"
    assert document_format(write("e/state.json", "{}").parent, OPTIONS).module == "arrow"


def test_what_is_no_known_format_is_refused(write, tmp_path):
    with pytest.raises(
        InputError, match=r"notes\.txt: it begins 'just some text', which is no known format of doc"
    ):
        document_format(write("notes.txt", "just some text\n"), OPTIONS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=r"the folder holds \[\], which is no known format of labels; wanted"
    ):
        label_format(tmp_path / "empty", OPTIONS)
    with pytest.raises(InputError, match="no such file"):
        document_format(tmp_path / "missing.jsonl", OPTIONS)
    with pytest.raises(InputError, match=r"`encoding=utf-16-le`"):
        document_format(write("a.tsv", "id\ttext\nd1\tx\n".encode("utf-16-le")), OPTIONS)


@pytest.mark.parametrize("found", {*DOCUMENT_FORMATS, *LABEL_FORMATS}, ids=lambda f: f.name)
def test_every_format_has_its_readers(found):
    module = found.load()
    if found in DOCUMENT_FORMATS:
        assert hasattr(module, "read_documents") != hasattr(module, "read_batches")
    if found in LABEL_FORMATS or found.defines_labels:
        assert hasattr(module, "read_labels")
