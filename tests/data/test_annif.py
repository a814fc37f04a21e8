from __future__ import annotations

import gzip

import pytest

from xmc.data import annif
from xmc.data.formats import open_corpus, read_labels
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import raising
from xmc.errors import InputError

YSO = "http://www.yso.fi/onto/yso/"
# Titles and subjects of the General Finnish Ontology YSO (CC0).
TITLES = (
    f"Viikinkien valtakunta\t<{YSO}p12738> <{YSO}p15031>\nKronologinen Raamattu\t<{YSO}p7785>\nRiimukivet\t\n"
)


def documents(path, report=None):
    return list(raising(annif.read_documents(path, ReadOptions(), report or ReadReport())))


def labels(path, language="en", report=None):
    return list(annif.read_labels(path, ReadOptions(language=language), report or ReadReport()))


@pytest.mark.parametrize(
    "content", [TITLES, gzip.compress(TITLES.encode()), "\ufeff" + TITLES.replace("\n", "\r\n")]
)
def test_a_tsv_corpus_is_read(write, content):
    path = write("titles.tsv", content)
    read = documents(path)
    assert [d.text for d in read] == ["Viikinkien valtakunta", "Kronologinen Raamattu", "Riimukivet"]
    assert [d.labels for d in read] == [[f"{YSO}p12738", f"{YSO}p15031"], [f"{YSO}p7785"], []]
    assert [d.place for d in read] == [f"{path}:{n}" for n in (1, 2, 3)]
    assert [batch.ids for batch in open_corpus([path]).batches()] == [["1", "2", "3"]]


@pytest.mark.parametrize(
    ("line", "text", "gold"),
    [
        (f"one\t{YSO}p1 {YSO}p2", "one", [f"{YSO}p1", f"{YSO}p2"]),
        (f"one\t<{YSO}p1>\t<{YSO}p2>", "one", [f"{YSO}p1", f"{YSO}p2"]),
        ("one\tL1 L2", "one", ["L1", "L2"]),
        (f"a\ttab\there\t<{YSO}p1>", "a tab here", [f"{YSO}p1"]),
        (f"see\thttp://x.org\t<{YSO}p1>", "see http://x.org", [f"{YSO}p1"]),
        (f"see\thttp://x.org\t{YSO}p1", "see", ["http://x.org", f"{YSO}p1"]),
        ("no\tsubject\t", "no subject", []),
        (" one \t", " one ", []),
    ],
)
def test_subjects_are_told_from_tabs_in_the_text(write, line, text, gold):
    (document,) = documents(write("titles.tsv", line + "\n"))
    assert (document.text, document.labels) == (text, gold)


def test_tabs_in_texts_are_counted(write):
    path = write("titles.tsv", f"a\tb\t<{YSO}p1>\n")
    report = ReadReport()
    documents(path, report)
    assert report.lines() == [f"1 document had a tab in the text, which became a blank ({path}:1)"]


@pytest.mark.parametrize(
    ("line", "message"),
    [("no tab at all", "titles.tsv:2: no tab in 'no tab at all'"), ("a\tb\tc d", "titles.tsv:2: 3 columns")],
)
def test_a_line_without_subjects_column_is_named(write, line, message):
    with pytest.raises(InputError) as error:
        documents(write("titles.tsv", f"ok\t<{YSO}p1>\n{line}\n"))
    assert message in str(error.value)


def test_a_csv_corpus_may_have_ids_and_cells_of_several_lines(write):
    path = write(
        "documents.csv",
        'document_id,title,text,subject_uris\nd1,x,"one,\n""two""",<u:1> u:2\nd2,y,three,\n',
    )
    read = documents(path)
    assert [d[:3] for d in read] == [("d1", 'one,\n"two"', ["u:1", "u:2"]), ("d2", "three", [])]
    assert [d.place for d in read] == [f"{path}:2", f"{path}:4"]
    assert [batch.ids for batch in open_corpus([path]).batches()] == [["d1", "d2"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,subject_uris\na,<u:1>,x\n", "documents.csv:2: 3 columns"),
        ('text,subject_uris\na,<u:1>\n"open,<u:1>\n', "documents.csv:3: not CSV"),
        ("title,subject_uris\na,<u:1>\n", "one named text was wanted"),
    ],
)
def test_a_broken_csv_corpus_is_refused(write, content, message):
    with pytest.raises(InputError) as error:
        documents(write("documents.csv", content))
    assert message in str(error.value)


def test_a_folder_of_full_texts_takes_uris_before_label_texts(write):
    write("full/b.txt", "zwei\nZeilen")
    write("full/b.tsv", f"<{YSO}p1>\tone\tignored\n<{YSO}p2>\ttwo\n")
    write("full/b.key", "other\n")
    write("full/a.txt", "eins")
    write("full/a.key", "networking\ncomputer science\n\n")
    path = write("full/c.txt", "drei")
    read = documents(path.parent)
    assert [d.id for d in read] == ["a", "b", "c"]
    assert [d.text for d in read] == ["eins", "zwei\nZeilen", "drei"]
    assert [d.labels for d in read] == [["networking", "computer science"], [f"{YSO}p1", f"{YSO}p2"], None]
    assert [batch.ids for batch in open_corpus([path.parent]).batches()] == [["a", "b", "c"]]


def test_a_tsv_vocabulary_is_read_and_what_has_no_label_is_retired(write):
    path = write("yso.tsv", f"<{YSO}p1>\tfish\n<{YSO}p2>\tlaw\t34\n<{YSO}p3>\t\n<{YSO}p4>\n")
    report = ReadReport()
    read = labels(path, report=report)
    assert [(label.id, label.text, label.retired) for label in read] == [
        (f"{YSO}p1", "fish", False),
        (f"{YSO}p2", "law", False),
        (f"{YSO}p3", "", True),
        (f"{YSO}p4", "", True),
    ]
    assert report.counts == {
        "subjects had a third column (a notation), which was not read": 1,
        "subjects had no label and were retired": 2,
    }
    assert read_labels(path).retired.tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("line", "message"),
    [("<u:1>\ta\tb\tc", "yso.tsv:1: 4 columns"), ("\tfish", "yso.tsv:1: no URI before the tab")],
)
def test_a_broken_tsv_vocabulary_is_refused(write, line, message):
    with pytest.raises(InputError) as error:
        labels(write("yso.tsv", line + "\n"))
    assert message in str(error.value)


VOCABULARY = 'uri,notation,label_fi,label_en\nu:1,,kala,fish\nu:2,,"laki, oikeus",\nu:3,,,\n'


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", ["fish", "laki, oikeus", ""]),
        ("fi", ["kala", "laki, oikeus", ""]),
        ("en-GB", ["fish", "laki, oikeus", ""]),
    ],
)
def test_a_csv_vocabulary_gives_the_language_asked_for(write, language, texts):
    path = write("yso.csv", VOCABULARY)
    report = ReadReport()
    read = labels(path, language, report)
    assert [label.text for label in read] == texts
    assert [label.retired for label in read] == [False, False, True]
    taken = f"subjects had no label in language={language}: another language was taken"
    assert report.counts.get(taken, 0) == (language != "fi")
    assert read_labels(path, ReadOptions(language=language)).texts.to_pylist() == texts


def test_a_csv_vocabulary_without_labels_is_refused(write):
    with pytest.raises(InputError, match="no column label_fi"):
        labels(write("yso.csv", "uri,notation\nu:1,3\n"), "fi")
