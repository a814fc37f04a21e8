"""The data sets that `xmc bench` knows by name: where their publisher offers them, and what they must hold.

Counts stand here only where a publication gives them; every other file is checked by its reader alone.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from xmc.errors import SettingError

REPOSITORY = "http://manikvarma.org/downloads/XC/XMLRepository.html"
MULAN = "https://mulan.sourceforge.net/datasets-mlc.html"
REPOSITORY_TEXT = "its raw text: trn.json.gz, tst.json.gz, lbl.json.gz and the filter files"
REPOSITORY_FEATURES = "its bag-of-words features: the train and test files"


@dataclass(frozen=True)
class DataSet:
    """A published data set.

    source: the address of its publisher. files: what to download there. counts: by role (``train``,
    ``dev``, ``test``: documents; ``labels``). propensity: the choice of ``conf/propensity`` it is
    scored with. note: what a reader of the figures must know.
    """

    name: str
    source: str
    files: str
    counts: dict[str, int] = field(default_factory=dict)
    propensity: str = "default"
    note: str = ""


def _counts(train: int, test: int, labels: int, dev: int = 0) -> dict[str, int]:
    found = {"train": train, "dev": dev, "test": test, "labels": labels}
    return {role: n for role, n in found.items() if n}


OWN = "its documents and labels, and write train.jsonl.gz, dev.jsonl.gz and labels.jsonl.gz (JSON lines)"
DATA_SETS = {
    d.name: d
    for d in (
        DataSet(
            "eurlex57k",
            "http://nlp.cs.aueb.gr/software_and_datasets/EURLEX57K/",
            "datasets.zip (folders train, dev, test) and eurovoc_en.json, named EURLEX57K.json",
            {"train": 45_000, "dev": 6_000, "test": 6_000},
            note="the split of Chalkidis et al. (2019)",
        ),
        DataSet(
            "eurlex4k",
            REPOSITORY,
            REPOSITORY_FEATURES,
            note="several versions circulate, with other splits and label sets: name yours with a figure",
        ),
        DataSet("wiki10-31k", REPOSITORY, REPOSITORY_FEATURES),
        DataSet("amazoncat-13k", REPOSITORY, REPOSITORY_FEATURES, _counts(1_186_239, 306_782, 13_330)),
        DataSet(
            "lf-amazontitles-131k", REPOSITORY, REPOSITORY_TEXT, _counts(294_805, 134_835, 131_073), "amazon"
        ),
        DataSet(
            "lf-wikiseealsotitles-320k",
            REPOSITORY,
            REPOSITORY_TEXT,
            _counts(693_082, 177_515, 312_330),
            "wikipedia",
        ),
        DataSet(
            "lf-amazontitles-1.3m",
            REPOSITORY,
            REPOSITORY_TEXT,
            _counts(2_248_619, 970_237, 1_305_265),
            "amazon",
        ),
        DataSet("amazon-670k", REPOSITORY, REPOSITORY_FEATURES, _counts(490_449, 153_025, 670_091), "amazon"),
        DataSet(
            "wikipedia-500k",
            REPOSITORY,
            REPOSITORY_FEATURES,
            _counts(1_813_391, 783_743, 501_070),
            "wikipedia",
        ),
        DataSet(
            "bibtex",
            MULAN,
            "the files of its split, in the repository's sparse format",
            _counts(4_880, 2_515, 159),
        ),
        DataSet(
            "delicious",
            MULAN,
            "the files of its split, in the repository's sparse format",
            _counts(12_920, 3_185, 983),
            note="871 test rows repeat a training row",
        ),
        DataSet(
            "reuters21578",
            "https://www.daviddlewis.com/resources/testcollections/reuters21578/",
            OWN,
            {"train": 9_603, "dev": 3_299},
            note="all five category sets as labels; ModApte split, whose test part is dev here",
        ),
        DataSet(
            "tib-core-en",
            "https://github.com/jd-coderepos/llms4subjects",
            OWN,
            note="English records of the core collection with GND subjects; a sample is in benchmarks/data",
        ),
        DataSet("debtags", "https://wiki.debian.org/Debtags", OWN, note="split by source package"),
        DataSet(
            "yso-titles-en",
            "https://github.com/NatLibFi/Annif-corpora",
            OWN,
            note="gold labels are incomplete: prefer recall and propensity-scored metrics",
        ),
        DataSet(
            "wordnet-hypernyms",
            "https://wordnet.princeton.edu/download",
            "WordNet 3.0, make documents of its nouns' glosses and labels of all synsets, with "
            "train.jsonl.gz, dev.jsonl.gz and labels.jsonl.gz (JSON lines)",
            note="labels of a gloss are all its hypernyms, up to the root",
        ),
        DataSet(
            "pkg-names-1m",
            "https://wiki.debian.org/DebianRepository/Format",
            "the descriptions of packages; make labels.jsonl.gz (names and summaries of the PyPI and npm "
            "packages) and dev.jsonl.gz (each description with the one that it is of)",
            note="no training documents: a scale test for names alone",
        ),
    )
}


def named(name: str) -> DataSet:
    """The data set of that name, or SettingError with the nearest one."""
    if name in DATA_SETS:
        return DATA_SETS[name]
    near = difflib.get_close_matches(name, DATA_SETS, n=1)
    offer = f"did you mean {near[0]}?" if near else f"wanted a folder or one of {', '.join(DATA_SETS)}"
    raise SettingError(f"no folder and no known data set {name!r}: {offer}")
