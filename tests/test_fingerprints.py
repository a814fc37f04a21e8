from __future__ import annotations

import scipy.sparse as sp

from xmc.data.records import DocumentBatch
from xmc.fingerprints import Fingerprints


def numbers(texts: list[str] | None, features: sp.csr_matrix | None = None, ids: str = "abc") -> list[int]:
    seen = Fingerprints()
    n = features.shape[0] if texts is None else len(texts)
    seen.see(DocumentBatch(list(ids[:n]), texts, features, None, [""] * n))
    return seen.numbers().tolist()


def test_equal_texts_are_equal_whatever_their_ids_are():
    one, other = numbers(["fish", "ships", "fish"]), numbers(["ships", "fish"], ids="xy")
    assert one[0] == one[2] == other[1]
    assert one[1] == other[0] != one[0]


def test_they_are_the_same_in_every_process():
    assert numbers(["fish"]) == [6793464316614646896]


def test_rows_of_features_count_with_places_and_values():
    rows = sp.csr_matrix([[0, 1, 2], [0, 1, 3], [0, 1, 2]], dtype="float32")
    found = numbers(None, rows)
    assert found[0] == found[2] != found[1]


def test_half_a_surrogate_pair_is_text_too():
    assert len(set(numbers(["\ud800", "\udfff"]))) == 2
