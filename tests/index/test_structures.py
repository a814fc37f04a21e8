"""FAISS files that are damaged or of another index are refused; effort follows the wanted recall."""

from __future__ import annotations

import json

import numpy as np
import pytest

from xmc.errors import ArtifactError, InputError
from xmc.index.kinds import load_index, make_index


def clustered(n, seed, dim=10):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((30, dim))
    return (centres[rng.integers(30, size=n)] + 0.6 * rng.standard_normal((n, dim))).astype(np.float32)


def built(kind, recall=0.95, n=2000, dim=10):
    index = make_index(kind, dim, recall=recall)
    index.add(np.arange(n), clustered(n, 0, dim))
    index.compact(clustered(300, 1, dim))
    return index


@pytest.fixture(params=["hnsw", "ivf_flat", "ivf_sq8"])
def saved(request, tmp_path):
    built(request.param).save(tmp_path)
    return tmp_path


def test_a_cut_faiss_file_is_refused(saved):
    path = saved / "index.faiss"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match=rf"index.faiss: found {size - 100} bytes, wanted {size}"):
        load_index(saved)


def test_what_faiss_cannot_read_is_refused(saved):
    path = saved / "index.faiss"
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(ArtifactError, match="FAISS cannot read it"):
        load_index(saved)


def test_a_missing_faiss_file_is_refused(saved):
    (saved / "index.faiss").unlink()
    with pytest.raises(ArtifactError, match=r"index\.faiss: file is missing"):
        load_index(saved)


def test_the_faiss_file_of_another_index_is_refused(saved, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    built(json.loads((saved / "index.json").read_text())["kind"], n=1999).save(other)
    content = (other / "index.faiss").read_bytes()
    (saved / "index.faiss").write_bytes(content)
    described = json.loads((saved / "index.json").read_text())
    described["structure"]["bytes"] = len(content)
    (saved / "index.json").write_text(json.dumps(described))
    with pytest.raises(ArtifactError, match="of 1999 vectors, wanted 2000"):
        load_index(saved)


@pytest.mark.parametrize("structure", [[], {"name": "hnsw"}, {"name": "x", "bytes": 1, "breadth": 1}])
def test_a_damaged_description_is_refused(saved, structure):
    path = saved / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"structure": structure}))
    with pytest.raises(ArtifactError, match=r"index.json: structure is damaged"):
        load_index(saved)


@pytest.mark.parametrize("kind", ["hnsw", "ivf_flat", "ivf_sq8"])
def test_a_higher_recall_is_reached_with_more_effort(kind):
    low, high = built(kind, 0.5), built(kind, 0.999)
    exact = make_index("exact", 10)
    exact.add(np.arange(2000), clustered(2000, 0))
    queries = clustered(100, 2)
    wanted = exact.search(queries, 100).rows
    recalls = [recall(index.search(queries, 100).rows, wanted) for index in (low, high)]
    assert recalls[0] < recalls[1]
    assert recalls[1] > 0.99


def recall(found, wanted):
    return np.mean(
        [len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), wanted.tolist(), strict=True)]
    )


def test_a_product_quantiser_takes_a_length_that_its_subvectors_do_not_divide():
    index = built("ivf_pq", 0.9, n=10_000, dim=10)
    assert index.built_as == "ivf_pq"
    queries = clustered(50, 2)
    exact = make_index("exact", 10)
    exact.add(np.arange(10_000), clustered(10_000, 0))
    assert recall(index.search(queries, 100).rows, exact.search(queries, 100).rows) > 0.85


@pytest.mark.parametrize("recall", [0, 1.1, float("nan")])
def test_a_recall_out_of_range_is_refused(recall):
    with pytest.raises(InputError, match=r"index.recall"):
        make_index("hnsw", 4, recall=recall)


def test_principal_coordinates_reach_more_recall_with_more_candidates(monkeypatch):
    monkeypatch.setattr("xmc.index.principal.DIMS", 4)
    low, high = built("pca", 0.5), built("pca", 0.999)
    assert (low.built_as, high.built_as) == ("pca", "pca")
    assert low._effort.fetch < high._effort.fetch
    assert low.reached < high.reached


@pytest.mark.parametrize("damage", [lambda both: both[1:], lambda both: both.astype(np.float64)])
def test_principal_coordinates_of_another_index_are_refused(tmp_path, damage):
    built("pca").save(tmp_path)
    path = tmp_path / "principal.npy"
    described = json.loads((tmp_path / "index.json").read_text())
    np.save(path, damage(np.load(path)))
    described["structure"]["bytes"] = path.stat().st_size
    (tmp_path / "index.json").write_text(json.dumps(described))
    with pytest.raises(
        ArtifactError, match=r"principal.npy: found float(32|64) .*, wanted float32 \(2010, 1 to 10\)"
    ):
        load_index(tmp_path)


@pytest.mark.parametrize("n", [1, 5, 150])
def test_principal_coordinates_of_few_vectors_reach_the_recall(n):
    index = built("pca", 0.99, n)
    assert (index.built_as, index.notice, index.reached) == ("pca", "", 1.0)
