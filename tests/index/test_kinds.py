"""How a kind is chosen."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from xmc.errors import ResourceError, SettingError
from xmc.index import kinds, structures
from xmc.index.fitting import fit, n_lists
from xmc.index.kinds import KINDS, load_index, make_index
from xmc.index.native import load_faiss


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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "cagra"])
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
    wanted = f"made {kind}" if kind in ("auto", "exact", "pca") else 'pip install "xmc[cpu]"'
    assert wanted in said.stdout


def test_constant_vectors_come_in_row_order():
    index = make_index("exact", 5)
    index.add(np.arange(500)[::-1], np.full((500, 5), 0.3, dtype=np.float32))
    assert index.search(np.ones((3, 5)), 10).rows.tolist() == [list(range(10))] * 3


def test_a_graph_that_needs_a_gpu_says_so_before_the_work(monkeypatch):
    monkeypatch.setattr(load_faiss(), "get_num_gpus", lambda: 0)
    with pytest.raises(ResourceError, match=r"found 0 GPUs .* choose index\.kind=hnsw"):
        make_index("cagra", 3)


def test_the_cpu_form_of_a_graph_built_on_a_gpu_is_searched_anywhere(monkeypatch, tmp_path):
    """What FAISS makes of a graph from a GPU; here the same class with links of its own."""
    faiss = load_faiss()

    def built(vectors):
        graph = faiss.IndexHNSWCagra(vectors.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
        graph.add(vectors)
        return graph

    monkeypatch.setattr(kinds, "require_cagra", lambda: None)
    monkeypatch.setattr(structures, "build_cagra", built)
    vectors = np.random.default_rng(0).standard_normal((500, 8)).astype(np.float32)
    index = make_index("cagra", 8)
    index.add(np.arange(500), vectors)
    index.compact()
    index.save(tmp_path)
    loaded = load_index(tmp_path)
    assert loaded.built_as == "cagra"
    assert loaded.search(vectors, 1).rows[:, 0].tolist() == list(range(500))
