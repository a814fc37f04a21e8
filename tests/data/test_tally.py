from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xmc.data.tally import Findings, Hashes, Lengths, hashes


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_quantiles_are_those_of_the_sorted_list(values):
    lengths = Lengths()
    lengths.add(values)
    summary = lengths.summary()
    assert summary["min"] == min(values)
    assert summary["max"] == max(values)
    assert summary["median"] == np.quantile(values, 0.5, method="inverted_cdf")
    assert summary["p90"] == np.quantile(values, 0.9, method="inverted_cdf")


def test_no_lengths_have_no_summary():
    assert Lengths().summary() == {}


@given(st.lists(st.lists(st.integers(0, 50), max_size=20), max_size=20))
def test_repeats_are_found_within_and_between_batches(batches):
    passed, seen = Hashes(), set()
    for batch in batches:
        again = []
        for value in batch:
            again.append(value in seen)
            seen.add(value)
        assert passed.add(np.array(batch, dtype=np.int64)).tolist() == again
    assert len(passed) == len(seen)
    assert passed.has(np.arange(60)).tolist() == [value in seen for value in range(60)]


def test_equal_values_have_equal_hashes():
    a, b, c = hashes(["fish", "fish", "law"])
    assert a == b != c


def test_findings_keep_counts_and_the_first_examples():
    findings = Findings()
    for i in range(5):
        findings.add("texts with tabs", f"d{i}")
    findings.add_where("texts with dots", np.array([False, True]), ["d1", "d2"])
    assert findings.lines() == ["texts with tabs: 5 (d0, d1, d2, ...)", "texts with dots: 1 (d2)"]
    assert findings.to_json()["texts with dots"] == {"n": 1, "examples": ["d2"]}
