"""The tables of benchmarks/README.md, and that the lines kept there are the ones shown."""

import importlib.util
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="not a checkout")


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("bench_table", BENCHMARKS / "table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(system, ndcg, settings=(), zero=None, target="debtags"):
    metrics = {"P@1": [50.0, 40.0, 60.0], "nDCG@5": [ndcg, ndcg - 1, ndcg + 1], "R@50[zero]": [zero]}
    cost = {"cpu_s": 1234.4, "wall_s": 1.0, "peak_kib": 2048, "resumed": False}
    return {
        **{
            "data": Path(target).name,
            "target": target,
            "split": "dev",
            "system": system,
            "settings": list(settings),
            "metrics": metrics,
        },
        **{"documents": 10, "training_documents": 1000, "bins": {"zero": {"labels": 5, "gold": 1}}},
        **{"stages": {"build": cost, "tag": cost}, "tag_cpu_ms_per_document": 2.0, "model_bytes": 3_000_000},
        **{"hardware": {"processor": "CPU", "cpus": 2}, "git": "c0ffee", "time": "2026-01-01T00:00:00+00:00"},
    }


def pair(ours, peer, **differences):
    """What was found for two rows: a metric's difference and interval, by name in which _ stands for @."""
    named = {name.replace("_", "@"): list(found) for name, found in differences.items()}
    both = {"ours": identity(ours), "peer": identity(peer)}
    return both | {"differences": named, "resamples": 1000, "confidence": 0.9}


def identity(line):
    return [line["target"], line["split"], line["system"], *line["settings"], line["time"]]


def test_rows_are_ordered_and_name_their_command(table):
    shown = table.tables(
        [
            line("xmc index", 60, ["preset=fast", "bench.system=index"]),
            line("omikuji-bonsai", 50),
            line("xmc train", 70),
        ],
        [],
    )
    rows = [row for row in shown.splitlines() if row.startswith("| ")][1:]
    assert [row.split(" | ")[0] for row in rows] == [
        "| xmc train",
        "| xmc index preset=fast",
        "| omikuji-bonsai",
    ]
    assert "50.0 ± 10.0 | – | 70.0 ± 1.0" in rows[0]
    assert "1,234 | 2.0 | 2 | 3.0 |" in rows[0]
    assert "`xmc bench debtags -o OUT preset=fast bench.system=index`" in rows[1]
    assert "`python benchmarks/peers/run.py omikuji-bonsai debtags -o OUT`" in rows[2]


def test_the_first_lines_say_what_pairs_of_rows_tell_apart(table):
    ours, index = line("xmc train", 60, zero=40.0), line("xmc index", 55, ["bench.system=index"], zero=50.0)
    above, equal, below = line("a", 61, zero=0.0), line("b", 60), line("c", 50)
    found = [
        pair(ours, above, nDCG_5=(-1, -1.5, -0.5)),
        pair(ours, equal, nDCG_5=(0, -1, 1)),
        pair(ours, below, nDCG_5=(10, 5, 15), PSP_5=(9, 8, 10)),  # no row has PSP@5
        pair(index, above, nDCG_5=(-6, -7, -5)),  # not our best
    ]
    shown = table.tables([ours, index, above, equal, below], found).splitlines()
    assert "by paired 90 % intervals" in shown[0]
    assert shown[2:4] == [
        "- debtags, dev, nDCG@5: xmc train is **below** a; above c; not told apart from b",
        "",
    ]
    anew = line("xmc train", 60) | {"time": "2026-01-02T00:00:00+00:00"}
    assert table.tables([anew, above], found).startswith("### debtags")
    assert table.tables([ours], found).startswith("### debtags")
    assert table.tables([ours, above], []).startswith("### debtags")


def test_a_row_of_code_that_was_not_committed_is_marked(table):
    shown = table.tables(
        [line("xmc train", 60) | {"git": "c0ffee-dirty-decaf"}, line("a", 50) | {"git": None}], []
    )
    assert "| xmc train ‡ |" in shown
    assert "‡ made with files that were not committed" in shown
    assert "| a |" in shown
    assert "‡" not in table.tables([line("xmc train", 60)], [])


def test_the_last_of_equal_rows_counts(table):
    assert table.latest([line("a", 1), line("b", 2), line("a", 3)]) == [line("a", 3), line("b", 2)]
    others = [
        line("a", 1, ["bench.split=test"]),
        line("a", 1, ["eval.ks=5"]),
        line("a", 1, target="./debtags"),
    ]
    assert table.latest([line("a", 1), *others]) == [line("a", 1), *others]


def test_rows_of_another_folder_have_a_table_and_a_command_of_their_own(table):
    given = ["bench.split=dev", "index.kind=a b|c"]
    shown = table.tables([line("xmc train", 60), line("xmc train", 50, given, target="./debtags")], [])
    assert "### ./debtags, dev" in shown
    assert "### debtags, dev" in shown
    assert r"`xmc bench ./debtags -o OUT bench.split=dev 'index.kind=a b\|c'` |" in shown


def test_a_cost_that_is_not_known_whole_is_a_dash(table):
    cut = line("xmc train", 60)
    cut["stages"]["tag"] = {"cpu_s": None, "wall_s": None, "peak_kib": None, "resumed": True}
    cut["tag_cpu_ms_per_document"] = None
    assert " | 1,234 | – | – | 3.0 | " in table.tables([cut], [])


def test_the_page_shows_the_lines_that_are_kept(table):
    kept = (table.read(BENCHMARKS / f"{name}.jsonl") for name in ("results", "pairs"))
    shown = table.tables(table.latest(next(kept)), next(kept))
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert f"{table.BEGIN}\n{shown}{table.END}" in page
