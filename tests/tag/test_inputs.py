from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from xmc.data.corpus import Corpus
from xmc.data.paths import Given
from xmc.errors import InputError
from xmc.tag.inputs import mask_digest, read_inputs, times


def given(path: str | Path) -> list[Given]:
    return [Given(0, Path(path), [Path(path)])]


def test_a_file_is_known_by_its_bytes_and_not_by_name_or_time(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"one\n")
    before = read_inputs(given(tmp_path / "a.jsonl"))[0]
    os.utime(tmp_path / "a.jsonl", (1, 1))
    (tmp_path / "a.jsonl").rename(tmp_path / "b.jsonl")
    after = read_inputs(given(tmp_path / "b.jsonl"))[0]
    assert (before.size, before.sha256) == (after.size, after.sha256)
    (tmp_path / "b.jsonl").write_bytes(b"two\n")
    assert read_inputs(given(tmp_path / "b.jsonl"))[0].sha256 != before.sha256


def test_a_folder_is_known_by_the_names_and_bytes_in_it(tmp_path: Path) -> None:
    def digest() -> str:
        return read_inputs(given(tmp_path))[0].sha256

    (tmp_path / "b.txt").write_bytes(b"two")
    (tmp_path / "a.txt").write_bytes(b"one")
    seen = {digest()}
    (tmp_path / "a.txt").rename(tmp_path / "c.txt")
    seen.add(digest())
    (tmp_path / "c.txt").write_bytes(b"on")
    (tmp_path / "b.txt").write_bytes(b"etwo")
    seen.add(digest())
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.txt").write_bytes(b"")
    seen.add(digest())
    assert len(seen) == 4
    assert digest() in seen


def test_only_what_is_read_counts(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id": "a", "text": "one"}\n')
    corpus = Corpus([tmp_path])
    before = read_inputs(corpus.given), times(corpus.given)
    (tmp_path / "b.jsonl").write_bytes(b'{"id": "b", "text": "two"}\n')
    assert (read_inputs(corpus.given), times(corpus.given)) == before
    assert read_inputs(Corpus([tmp_path]).given) != before[0]


def test_a_pipe_is_never_the_same(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("-", tmp_path / "pipe"):
        assert read_inputs(given(path))[0].is_pipe
        assert times(given(path)) == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: No such file"):
        read_inputs(given(tmp_path / "none.jsonl"))


def test_a_file_that_went_away_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id": "a", "text": "one"}\n')
    corpus = Corpus([tmp_path])
    (tmp_path / "a.jsonl").unlink()
    for look in (times, read_inputs):
        with pytest.raises(InputError, match=r"a\.jsonl: No such file"):
            look(corpus.given)


def test_masks_have_digests_of_their_own() -> None:
    masks = [np.arange(9) > 3, np.arange(9) < 5, np.arange(10) > 4, np.zeros(9, bool)]
    assert mask_digest(None) is None
    assert len({mask_digest(mask) for mask in masks}) == 4
    assert mask_digest(masks[0]) == mask_digest(masks[0].copy())
