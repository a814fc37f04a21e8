"""How a kind is chosen."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from xmc.errors import ResourceError, SettingError
from xmc.index.fitting import fit, n_lists
from xmc.index.kinds import KINDS, make_index


def test_an_unknown_kind_offers_the_nearest():
    with pytest.raises(SettingError, match=r"index.kind=ivfflat: wanted one of .*; did you mean ivf_flat\?"):
        make_index("ivfflat", 3)


def test_too_few_points_get_a_kind_that_fits():
    assert fit("ivf_pq", 3, strict=False)[0] == "exact"
    assert fit("ivf_pq", 50, strict=False)[0] == "exact"
    assert fit("ivf_pq", 1000, strict=False)[0] == "ivf_flat"
    assert fit("ivf_pq", 10_000, strict=False) == ("ivf_pq", "")
    assert fit("hnsw", 1, strict=False) == ("hnsw", "")
    assert all(n // n_lists(n) >= 39 for n in (312, 1000, 10**5, 10**6))


def test_strict_refuses_before_the_work():
    with pytest.raises(SettingError, match=r"needs 9984 vectors \(39 per cluster\), found 50"):
        make_index("ivf_pq", 8, n_rows_hint=50, strict=True)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ResourceError, match="device=cuda:77: not available here"):
        make_index("exact", 3, device="cuda:77")


@pytest.mark.parametrize("kind", KINDS)
def test_without_faiss_only_the_faiss_kinds_say_what_to_install(kind):
    code = (
        "import sys; sys.modules['faiss'] = None\n"
        "from xmc.index.kinds import make_index\n"
        "from xmc.errors import ResourceError\n"
        f"try: print('made', make_index({kind!r}, 3).kind)\n"
        "except ResourceError as error: print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    wanted = f"made {kind}" if kind in ("auto", "exact") else 'pip install "xmc[cpu]"'
    assert wanted in said.stdout


def test_constant_vectors_come_in_row_order():
    index = make_index("exact", 5)
    index.add(np.arange(500)[::-1], np.full((500, 5), 0.3, dtype=np.float32))
    assert index.search(np.ones((3, 5)), 10).rows.tolist() == [list(range(10))] * 3
