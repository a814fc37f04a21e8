"""What `benchmarks/rerank_lift.py` takes away from a reranker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rerank.made import random_inputs

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="not a checkout")


def test_each_change_takes_away_what_it_says(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    changes, inputs = __import__("rerank_lift").changes(0), random_inputs()
    permuted = changes["reranker, flags permuted"](inputs).carried
    assert not permuted.equal(inputs.carried)
    assert permuted.sum(dim=2).equal(inputs.carried.sum(dim=2))
    none = changes["reranker, no neighbours"](inputs)
    assert not none.near.any()
    assert none.windows.equal(inputs.windows)
    assert changes["reranker, another's flags"](inputs).carried[1].equal(inputs.carried[0])
    assert changes["whole"](inputs) is inputs
