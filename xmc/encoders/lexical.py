"""LexicalTower: TF-IDF of words, word pairs and character n-grams, and its random projection.

The exact sparse features serve the label matcher and the evidence; the projection through an embedding bag
keeps their inner products up to noise of 1/sqrt(dim) (Johnson-Lindenstrauss; sparse signs after Achlioptas
2003 and Kane & Nelson 2014), so that they fit in one dense vector beside the dense tower's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xmc.artifacts import load_array, load_json, save_array, save_json
from xmc.data.records import DocumentBatch
from xmc.deadline import check_time
from xmc.encoders.leads import LEAD_SHARE, lead, longer_than_leads
from xmc.encoders.tokens import Words, gram_buckets, mix, pair_keys, split_words, word_keys
from xmc.errors import ArtifactError, InputError, SettingError

UNKNOWN_BITS = 16
ALIKE = 0.6  # share of a word's n-grams that make it a form of a label's word
MAX_COUNTED = 20_000_000


@dataclass(frozen=True)
class LexicalSettings:
    """What the lexical tower counts."""

    dim: int = 512
    ngram: int = 4
    ngram_bits: int = 17
    min_documents: int = 2
    max_features: int = 500_000
    nonzeros: int = 16
    seed: int = 0

    def validate(self) -> LexicalSettings:
        """Raises SettingError naming the field and the bad value."""
        for name, low, high in (
            ("dim", 8, 65_536),
            ("ngram", 2, 10),
            ("ngram_bits", 8, 24),
            ("min_documents", 1, 10**9),
            ("max_features", 0, 10**9),
            ("nonzeros", 1, self.dim),
            ("seed", 0, 2**63 - 1),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingError(f"encoder.lexical.{name}={value}: wanted {low} to {high}")
        return self

    @classmethod
    def load(cls, path: Path) -> LexicalSettings:
        """Read what ``save_json(path, asdict(settings))`` wrote. Raises ArtifactError for anything else."""
        saved = load_json(path)
        known = isinstance(saved, dict) and set(saved) == {field.name for field in fields(cls)}
        if not known or any(type(value) is not int for value in saved.values()):
            raise ArtifactError(f"{path}: not the settings of a lexical tower; rebuild the model")
        try:
            return cls(**saved).validate()
        except SettingError as error:
            raise ArtifactError(f"{path}: {error}; rebuild the model") from None


class FrequencyCount:
    """In how many texts each 64-bit key occurs, counted over a stream.

    Above ``MAX_COUNTED`` different keys those seen once are forgotten, which bounds the memory and can
    only cost features that are rare in the whole corpus.
    """

    def __init__(self) -> None:
        self.keys = np.zeros(0, np.uint64)
        self.counts = np.zeros(0, np.int64)
        self._fresh: list[tuple[np.ndarray, np.ndarray]] = []
        self._n_fresh = 0

    def add(self, keys: np.ndarray, text_rows: np.ndarray) -> None:
        """Count each key once for every text that it stands in."""
        distinct, codes = np.unique(keys, return_inverse=True)
        n_texts = int(text_rows.max(initial=0)) + 1
        once = np.unique(codes.astype(np.int64) * n_texts + text_rows)
        counts = np.bincount(once // n_texts, minlength=len(distinct))
        self._fresh.append((distinct, counts))
        self._n_fresh += len(distinct)
        if self._n_fresh > max(len(self.keys), 1_000_000):
            self._merge()

    def _merge(self) -> None:
        keys = np.concatenate([self.keys, *(k for k, _ in self._fresh)])
        counts = np.concatenate([self.counts, *(c for _, c in self._fresh)])
        self.keys, inverse = np.unique(keys, return_inverse=True)
        self.counts = np.bincount(inverse, counts, len(self.keys)).astype(np.int64)
        self._fresh, self._n_fresh = [], 0
        if len(self.keys) > MAX_COUNTED:
            self.keys, self.counts = self.keys[self.counts > 1], self.counts[self.counts > 1]

    def at_least(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Sorted keys that occur in at least ``n`` texts, and their counts."""
        self._merge()
        keep = self.counts >= n
        return self.keys[keep], self.counts[keep]


class SparseTower:
    """Sparse features weighted by ``idf`` (n_features,), and their random projection."""

    def __init__(self, settings: LexicalSettings, idf: np.ndarray) -> None:
        self.settings = settings.validate()
        self.idf = idf
        self._projection: sp.csr_matrix | None = None

    @property
    def dim(self) -> int:
        """Length of a projected row."""
        return self.settings.dim

    @property
    def n_features(self) -> int:
        """How many features a document has at most."""
        return len(self.idf)

    @property
    def n_words(self) -> int:
        """How many of them, the first ones, are not parts of others."""
        return len(self.idf)

    def project(self, features: sp.csr_matrix) -> np.ndarray:
        """(n, dim) float32 unit rows of (n, n_features) features; an empty row stays zero."""
        if self._projection is None:
            self._projection = random_projection(self.n_features, self.settings)
        return unit((features @ self._projection).toarray().astype(np.float32))


class LexicalTower(SparseTower):
    """Texts to sparse unit rows (``features``) and to dense unit rows (``encode``)."""

    def __init__(self, settings: LexicalSettings, keys: np.ndarray, idf: np.ndarray) -> None:
        super().__init__(settings, idf)
        self.keys = keys

    @property
    def n_words(self) -> int:
        """How many features, the first ones, are words and pairs of the vocabulary."""
        return len(self.keys)

    @property
    def n_features(self) -> int:
        """Vocabulary, hashed unknown words, hashed character n-grams, in this order."""
        return len(self.keys) + (1 << UNKNOWN_BITS) + (1 << self.settings.ngram_bits)

    @classmethod
    def fit(
        cls,
        documents: Iterable[Sequence[str]],
        labels: Iterable[Sequence[str]],
        settings: LexicalSettings | None = None,
    ) -> LexicalTower:
        """Vocabulary and IDF from batches of document texts and of label texts.

        Every word and pair of a label is kept, those of documents from ``min_documents`` on: a label's
        rare word is what finds it.
        """
        settings = (settings or LexicalSettings()).validate()
        counter = _Counter(settings)
        for batch in labels:
            counter.add(batch)
        label_keys, _ = counter.vocabulary.at_least(1)
        for batch in documents:
            counter.add(batch)
        return cls(settings, *counter.finish(label_keys))

    def counts(self, texts: Sequence[str]) -> sp.csr_matrix:
        """(n_texts, n_features) how often each feature occurs."""
        words = split_words(texts)
        check_time()
        keys = word_keys(words.distinct)
        columns = self._word_columns(keys)
        pairs, pair_rows = pair_keys(words, keys)
        pair_columns = self._known(pairs)
        rows = np.concatenate([words.text_rows, pair_rows[pair_columns >= 0]])
        cols = np.concatenate([columns[words.codes], pair_columns[pair_columns >= 0]])
        n_known = len(self.keys) + (1 << UNKNOWN_BITS)
        exact = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, cols)), shape=(len(texts), n_known))
        check_time()
        grams = _gram_counts(words, self.settings)
        check_time()
        return sp.hstack([exact, grams], format="csr", dtype=np.float32)

    def features_of(self, batch: DocumentBatch) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """(n_docs, n_features) of documents and of their leads, which weigh ``LEAD_SHARE`` in the former.

        Raises InputError for documents without texts.
        """
        if batch.texts is None:
            raise InputError(f"{batch.places[0]}: sparse features, but the model was built on texts")
        return self.with_leads(batch.texts, self.features(batch.texts))

    def with_leads(self, texts: Sequence[str], whole: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """(n_texts, n_features) of texts with their leads, and of these; ``whole``: of the texts without."""
        if not len(longer_than_leads(texts)):
            return whole, whole
        leads = self.features([lead(text) for text in texts])
        return unit_rows((1 - LEAD_SHARE) * whole + LEAD_SHARE * leads), leads

    def features(self, texts: Sequence[str]) -> sp.csr_matrix:
        """(n_texts, n_features) TF-IDF, unit rows; a text without a word gives an empty row."""
        matrix = self.counts(texts)
        matrix.sum_duplicates()
        matrix.data = (1 + np.log(matrix.data)) * self.idf[matrix.indices]
        return unit_rows(matrix)

    def words_of(self, words: pa.Array) -> TextWords:
        """Distinct (n_words,) words, folded, to be compared with labels."""
        columns = self._word_columns(word_keys(words))
        grams = gram_buckets(words, self.settings.ngram, self.settings.ngram_bits)
        return TextWords(words, columns, self.idf[columns], (grams > 0).astype(np.float32), self.n_features)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(n_texts, dim) float32 unit rows; a text without a word gives a zero row."""
        return self.project(self.features(texts))

    def _word_columns(self, keys: np.ndarray) -> np.ndarray:
        """Column of each word: its own, or one that unknown words share by hash."""
        columns = self._known(keys)
        unknown = columns < 0
        hashed = (keys[unknown] >> np.uint64(64 - UNKNOWN_BITS)).astype(np.int64)
        columns[unknown] = len(self.keys) + hashed
        return columns

    def _known(self, keys: np.ndarray) -> np.ndarray:
        """Column of each key in the vocabulary, -1 where it is not there."""
        if len(self.keys) == 0:
            return np.full(len(keys), -1, np.int64)
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[found] == keys, found, -1).astype(np.int64)

    def save(self, directory: Path) -> None:
        """Write settings, vocabulary and IDF; the projection follows from the seed."""
        save_json(directory / "lexical.json", asdict(self.settings))
        save_array(directory / "lexical_keys.npy", self.keys)
        save_array(directory / "lexical_idf.npy", self.idf)

    @classmethod
    def load(cls, directory: Path) -> LexicalTower:
        """Read what ``save`` wrote. Raises ArtifactError where the files do not fit each other."""
        settings = LexicalSettings.load(directory / "lexical.json")
        keys = load_array(directory / "lexical_keys.npy")
        if keys.dtype != np.uint64 or keys.ndim != 1 or (keys[1:] <= keys[:-1]).any():
            raise ArtifactError(f"{directory / 'lexical_keys.npy'}: not a vocabulary; rebuild the model")
        tower = cls(settings, keys, load_idf(directory / "lexical_idf.npy"))
        if tower.idf.shape != (tower.n_features,):
            raise ArtifactError(f"{directory}: lexical vocabulary and weights do not fit; rebuild the model")
        return tower


@dataclass(frozen=True)
class TextWords:
    """Distinct words, folded as they are matched.

    ``columns``, ``idf``: (n_words,) the feature that each one is, and its weight; ``grams``: (n_words,
    2**bits) the n-grams of each.
    """

    words: pa.Array
    columns: np.ndarray
    idf: np.ndarray
    grams: sp.csr_matrix
    n_features: int

    def take(self, rows: np.ndarray) -> TextWords:
        """Some of the words, in the order of their ``rows``."""
        words = self.words.take(pa.array(rows))
        return TextWords(words, self.columns[rows], self.idf[rows], self.grams[rows], self.n_features)

    def found(self, label: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """(n,) words that a label's (n_names, n_features) hold too, or most of whose n-grams they hold.

        Those that tell most come first. And (n,) how much of the label each holds, as in containment.
        """
        held = self._held
        held[label.indices, 0] = 1
        np.maximum.at(held[:, 1], label.indices, label.data**2)
        shared, weight = (self.grams @ held[-self.grams.shape[1] :]).T
        exact = held[self.columns]
        held[label.indices] = 0
        found = np.flatnonzero((exact[:, 0] > 0) | (shared > self._enough))
        order = found[np.argsort(-self.idf[found], kind="stable")]
        return order, (exact[:, 1] + weight)[order]

    @cached_property
    def _held(self) -> np.ndarray:
        """(n_features, 2) zeros: where a label's features are marked and weighed, and taken away again."""
        return np.zeros((self.n_features, 2), np.float32)

    @cached_property
    def _enough(self) -> np.ndarray:
        """(n_words,) shared n-grams above which a word is a form of a label's."""
        return ALIKE * np.maximum(np.diff(self.grams.indptr), 1)


class _Counter:
    """Collects what ``LexicalTower.fit`` needs in one pass."""

    def __init__(self, settings: LexicalSettings) -> None:
        self.settings = settings
        self.vocabulary = FrequencyCount()
        self.grams = np.zeros(1 << settings.ngram_bits, np.int64)
        self.n_texts = 0

    def add(self, texts: Sequence[str]) -> None:
        words = split_words(texts)
        keys = word_keys(words.distinct)
        pairs, pair_rows = pair_keys(words, keys)
        self.vocabulary.add(
            np.concatenate([keys[words.codes], pairs]), np.concatenate([words.text_rows, pair_rows])
        )
        self.grams += np.bincount(_gram_counts(words, self.settings).indices, minlength=len(self.grams))
        self.n_texts += len(texts)

    def finish(self, always: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vocabulary (those of ``always`` first when there are too many) and the IDF of all features."""
        keys, counts = self.vocabulary.at_least(1)
        lost = np.setdiff1d(always, keys)  # forgotten, so rare
        places = np.searchsorted(keys, lost)
        keys, counts = np.insert(keys, places, lost), np.insert(counts, places, 1)
        wanted = np.isin(keys, always) | (counts >= self.settings.min_documents)
        keys, counts = keys[wanted], counts[wanted]
        if len(keys) > self.settings.max_features:
            rank = np.lexsort((keys, -counts, ~np.isin(keys, always)))[: self.settings.max_features]
            keys, counts = keys[np.sort(rank)], counts[np.sort(rank)]
        frequencies = np.concatenate([counts, np.zeros(1 << UNKNOWN_BITS), self.grams])
        return keys, (1 + np.log((1 + self.n_texts) / (1 + frequencies))).astype(np.float32)


def _gram_counts(words: Words, settings: LexicalSettings) -> sp.csr_matrix:
    """(n_texts, 2**bits) character n-grams of each text, through its distinct words."""
    ones = np.ones(len(words.codes), np.float32)
    shape = (len(words.indptr) - 1, len(words.distinct))
    of_text = sp.csr_matrix((ones, words.codes, words.indptr), shape=shape)
    return (of_text @ gram_buckets(words.distinct, settings.ngram, settings.ngram_bits)).tocsr()


def random_projection(n_features: int, settings: LexicalSettings) -> sp.csr_matrix:
    """(n_features, dim) signs of 1/sqrt(nonzeros) in ``nonzeros`` hashed places of each row."""
    cells = np.arange(n_features * settings.nonzeros, dtype=np.uint64)
    bits = mix(cells + mix(np.full(1, settings.seed, np.uint64)))
    columns = ((bits >> np.uint64(32)) * np.uint64(settings.dim) >> np.uint64(32)).astype(np.int64)
    signs = np.where(bits & np.uint64(1), np.float32(1), np.float32(-1)) / np.sqrt(settings.nonzeros)
    indptr = np.arange(0, len(cells) + 1, settings.nonzeros)
    return sp.csr_matrix((signs.astype(np.float32), columns, indptr), shape=(n_features, settings.dim))


def unit(rows: np.ndarray) -> np.ndarray:
    """(n, dim) dense rows at length one; zero rows stay zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def unit_rows(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """The matrix with float32 rows of length one; empty rows stay empty."""
    wide = matrix.astype(np.float64)  # squares of large or small values leave the range of float32
    norms = np.sqrt(np.asarray(wide.multiply(wide).sum(axis=1)).ravel())
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    data = (wide.data * np.repeat(scale, np.diff(matrix.indptr))).astype(np.float32)
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), matrix.shape)


def load_idf(path: Path) -> np.ndarray:
    """(n_features,) the weights in an npy file. Raises ArtifactError where they cannot be weights."""
    idf = load_array(path, mmap=False)
    if idf.dtype != np.float32 or idf.ndim != 1 or not (np.isfinite(idf) & (idf > 0)).all():
        raise ArtifactError(f"{path}: not positive float32 weights; rebuild the model")
    return idf
