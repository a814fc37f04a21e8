import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest

from xmc.bench.datasets import DATA_SETS, named
from xmc.bench.layout import layout_of, refuse_other_counts
from xmc.bench.run import evaluation, own_system
from xmc.bench.task import task_of
from xmc.confdocs import groups
from xmc.data.formats import labels_of, open_corpus, read_filter, read_labels
from xmc.errors import InputError, SettingError

# Beginnings of the published files, in their formats.
RAW = '{"uid": "%s", "title": "%s", "content": "", "target_ind": [0, 1], "target_rel": [1.0, 1.0]}\n'
LABELS = '{"uid": "0590", "title": "Girls Ballet Tutu"}\n{"uid": "0007", "title": "Adult Ballet Tutu"}\n'
EURLEX = '{"celex_id": "%s", "title": "Commission Regulation", "header": "h", "recitals": ", r", '
EURLEX += '"main_body": ["Article 1"], "attachments": "a", "concepts": ["1118"]}'
CONCEPTS = '{"1118": {"label": "air transport", "alt_labels": ["aviation"], "parents": []}}'


def put(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder


PUBLISHED = {
    "raw text of the repository": {
        "trn.json.gz": RAW % ("0001", "Ballet shoes"),
        "tst.json.gz": RAW % ("0002", "Ballet dress"),
        "lbl.json.gz": LABELS,
        "filter_labels_train.txt": "0 1\n",
        "filter_labels_test.txt": "0 0\n",
    },
    "features of the repository": {
        "train.txt": "2 3 2\n0,1 0:0.5 2:1\n1 1:1\n",
        "test.txt": "1 3 2\n0 0:1\n",
    },
    "features of the repository, older names": {
        "wiki10_train.txt": "2 3 2\n0,1 0:0.5 2:1\n1 1:1\n",
        "wiki10_test.txt": "1 3 2\n0 0:1\n",
    },
    "one file with splits": {
        "Bibtex_data.txt": "3 3 2\n0,1 0:0.5 2:1\n1 1:1\n0 0:1\n",
        "bibtex_trSplit.txt": "1\n2\n",
        "bibtex_tstSplit.txt": "3\n",
    },
    "EURLEX57K": {
        "train/1.json": EURLEX % "31975R0001",
        "dev/2.json": EURLEX % "31975R0002",
        "test/3.json": EURLEX % "31975R0003",
        "EURLEX57K.json": CONCEPTS,
    },
    "JSON lines": {
        "train.jsonl.gz": '{"id": "d1", "text": "t", "labels": ["L1"]}\n',
        "dev.jsonl.gz": '{"id": "d2", "text": "t", "labels": ["L1"]}\n',
        "labels.jsonl.gz": '{"id": "L1", "text": "air"}\n',
    },
}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_published_files_are_found_and_read(tmp_path, kind):
    layout = layout_of(put(tmp_path, PUBLISHED[kind]))
    for role in ("train", *({"dev", "test"} & set(layout.files))):
        documents = [d for batch in open_corpus([layout.files[role]]).batches() for d in batch.labels]
        assert documents
        assert all(documents)
    labels = (
        read_labels(layout.files["labels"]) if "labels" in layout.files else labels_of(layout.files["train"])
    )
    assert len(labels)


def test_splits_and_filter_pairs_of_the_repository(tmp_path):
    layout = layout_of(put(tmp_path, PUBLISHED["raw text of the repository"]))
    assert layout.filter_of("test") == ["--filter", str(tmp_path / "filter_labels_test.txt")]
    assert read_filter(layout.files["filter-train"]).tolist() == [[0, 1]]
    assert layout.filter_of("dev") == []


def test_a_split_file_gives_its_own_documents(tmp_path):
    layout = layout_of(put(tmp_path, PUBLISHED["one file with splits"]))
    counts = {
        role: sum(len(b) for b in open_corpus([layout.files[role]]).batches()) for role in ("train", "test")
    }
    assert counts == {"train": 2, "test": 1}


def test_without_data_it_is_said_where_the_publisher_offers_it(tmp_path):
    with pytest.raises(InputError, match=r"no such folder.*XMLRepository.*trn.json.gz"):
        task_of("lf-amazontitles-131k", tmp_path, "auto", [], 0)
    put(tmp_path / "half", {"train.txt": "1 1 1\n0 0:1\n"})
    with pytest.raises(
        InputError,
        match=r"wanted training documents \(or labels at least\) and a dev or test split, found train",
    ):
        task_of(str(tmp_path / "half"), tmp_path, "auto", [], 0)


def test_without_training_documents_labels_are_enough(tmp_path):
    files = {name: text for name, text in PUBLISHED["JSON lines"].items() if not name.startswith("train")}
    task = task_of(str(put(tmp_path / "names", files)), tmp_path, "auto", [], 0)
    labels = ["--labels", str(tmp_path / "names" / "labels.jsonl.gz")]
    built = own_system(task, tmp_path / "out", [], "index", 10).stages[0].command
    assert "--docs" not in built
    assert "--train" not in evaluation(task, tmp_path / "out" / "predictions.jsonl")
    assert [str(part) for part in built[3:6]] == ["index", *labels]
    with pytest.raises(
        SettingError, match=r"no training documents, which `xmc train` wants; bench.system=index"
    ):
        own_system(task, tmp_path / "out", [], "train", 10)
    put(tmp_path / "nothing", {"dev.jsonl.gz": files["dev.jsonl.gz"]})
    with pytest.raises(InputError, match=r"training documents \(or labels at least\).* found dev"):
        task_of(str(tmp_path / "nothing"), tmp_path, "auto", [], 0)


def test_names_folders_and_splits(tmp_path):
    put(tmp_path / "bibtex", PUBLISHED["features of the repository"])
    task = task_of("bibtex", tmp_path, "auto", ["preset=fast", "coerce=true"], 7)
    assert (task.name, task.split, task.seed) == ("bibtex", "test", 7)
    assert task.evaluation == ["coerce=true", "propensity=default"]
    assert task.reading == ["coerce=true"]
    other = task_of(f"{tmp_path}/bibtex", tmp_path, "auto", ["propensity.a=0.6"], 0)
    assert other.known is None
    assert other.evaluation == ["propensity.a=0.6"]
    with pytest.raises(SettingError, match="did you mean bibtex"):
        task_of("bibtx", tmp_path, "auto", [], 0)
    with pytest.raises(InputError, match=r"no dev split; bench.split=test"):
        task_of("bibtex", tmp_path, "dev", [], 0)


@pytest.mark.parametrize(
    "beside", ["train.README", "labels.md", "labels.jsonl.gz.part", "train.jsonl~", "dev.txt.bak"]
)
def test_what_no_reader_knows_is_not_taken(tmp_path, beside):
    layout = layout_of(put(tmp_path, PUBLISHED["JSON lines"] | {beside: "about these files"}))
    assert {path.name for path in layout.files.values()} == set(PUBLISHED["JSON lines"])


@pytest.mark.parametrize(
    ("beside", "role"),
    [("train.csv", "train"), ("dev.jsonl", "dev"), ("val.tsv", "dev"), ("labels.ttl", "labels")],
)
def test_two_files_of_one_role_are_both_named(tmp_path, beside, role):
    ours = next(name for name in PUBLISHED["JSON lines"] if name.startswith(role))
    both = " and ".join(sorted((beside, ours)))
    with pytest.raises(InputError, match=f"{both} are all named as {role}; wanted one"):
        layout_of(put(tmp_path, PUBLISHED["JSON lines"] | {beside: "x"}))


def test_files_that_others_lead_to_are_known(tmp_path):
    layout = layout_of(put(tmp_path, PUBLISHED["one file with splits"]))
    assert layout.files["rows"].name == "Bibtex_data.txt"


def test_other_counts_than_published_are_refused():
    known = named("bibtex")
    refuse_other_counts({"train": 4880, "test": 2515, "labels": 159}, known)
    with pytest.raises(InputError, match=r"found 158 labels, published are 159; to measure another version"):
        refuse_other_counts({"train": 4880, "test": 2515, "labels": 158}, known)
    refuse_other_counts({"train": 1}, replace(known, counts={}))


def test_every_known_data_set_is_whole():
    for name, known in DATA_SETS.items():
        assert name == known.name
        assert re.match(r"https?://", known.source)
        assert known.propensity in groups()["propensity"]
        assert Path(name).name == name
