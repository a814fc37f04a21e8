"""What format modules hand over: documents, labels and batches of documents, as the file has them.

A format module only parses. Cleaning of control characters, counting of empty texts, merging of repeated
gold labels, numbering of documents without an id and the checks for duplicates happen once, behind it
(`corpus.Corpus` and `labels.LabelSet.from_records`).

A document format is a module of ``xmc.data`` with one of

    read_documents(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Document | Fault]
    read_batches(path: Path, size: int, options: ReadOptions, report: ReadReport) -> Iterator[DocumentBatch]

(the second for documents that are rows of given sparse features, every batch of at most ``size``). The first
yields a record that is no document as a `Fault`, so that the corpus can go on behind it; what it raises ends
the file. One that a folder may have as a whole, which ``path`` then is, also has

    folder_files(folder: Folder, options: ReadOptions) -> set[str]

the names of the files in a folder that it reads; none where the folder is not of this format. A label format
is a module with

    read_labels(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Label]

`detect` holds the tables of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from xmc.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix


class LabelName(str):
    """A gold label that a file gives by its text, not by its id."""

    __slots__ = ()


class Document(NamedTuple):
    """One text document.

    id: "" where the file gives its documents no ids; the corpus then numbers them from 1.
    labels: gold label ids (or `LabelName`s); None where the file has no gold labels, [] for a document
        without any.
    place: ``file:line``, for messages.
    """

    id: str
    text: str
    labels: list[str] | None
    place: str


class Fault(NamedTuple):
    """A record that is no document.

    place: ``file:line``, or the file alone where what is left of it could not be read.
    error: what is wrong with it.
    id: of the document, "" where it is not known.
    ends_file: the rest of the file was not read.
    """

    place: str
    error: InputError
    id: str = ""
    ends_file: bool = False

    @property
    def reason(self) -> str:
        """What is wrong, without the place."""
        return str(self.error).removeprefix(f"{self.place}: ")


def attempt(make: Callable[[], Document], where: str) -> Document | Fault:
    """The document that ``make`` gives, or what is wrong with the record at ``where``."""
    try:
        return make()
    except InputError as error:
        return Fault(where, error)


def raising(records: Iterator[Document | Fault]) -> Iterator[Document]:
    """The documents; the first fault is raised."""
    for record in records:
        if isinstance(record, Fault):
            raise record.error
        yield record


class Label(NamedTuple):
    """One label of a vocabulary: its text, other names, description and the ids of broader labels."""

    id: str
    text: str
    alt: tuple[str, ...] = ()
    description: str = ""
    broader: tuple[str, ...] = ()
    retired: bool = False
    place: str = ""


@dataclass
class DocumentBatch:
    """Some documents of a corpus, all fields parallel.

    ids: "" in a format module's batch stands for "no id", as in `Document`.
    texts: None for documents that are rows of given sparse features.
    features: (n_docs, n_features) float32, or None for text documents.
    labels: gold label ids of each document; None where the format or file has none.
    places: ``file:line`` of each document.
    faults: records beside these that are no documents.
    """

    ids: list[str]
    texts: list[str] | None
    features: csr_matrix | None
    labels: list[list[str]] | None
    places: list[str]
    faults: list[Fault] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: np.ndarray) -> DocumentBatch:
        """The documents at the (n,) rows, in their order, without the faults."""

        def pick(values: list) -> list:
            return [values[i] for i in rows]

        return DocumentBatch(
            pick(self.ids),
            None if self.texts is None else pick(self.texts),
            None if self.features is None else self.features[rows],
            None if self.labels is None else pick(self.labels),
            pick(self.places),
        )
