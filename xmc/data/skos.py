"""SKOS vocabularies in Turtle (N-Triples is a part of it) and RDF/XML, streamed into labels.

A label's id is its concept's URI. Its text is the first preferred label found in this order: the language
asked for, a variant of it (``en-GB`` for ``en``, ``en`` for ``en-GB``), no language, English, any other
language in alphabetical order. Other names and the description are taken in the language of the text.
Concepts that are deprecated come as retired labels. Everything that was taken from another language or left
out is counted.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rdflib import Graph
from rdflib.namespace import DCTERMS, OWL, RDF, RDFS, SKOS
from rdflib.plugins.parsers.notation3 import BadSyntax
from rdflib.store import Store
from rdflib.term import BNode, Identifier, Literal, Node, URIRef

from xmc.data import files
from xmc.data.languages import distance, is_other
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Label
from xmc.data.text import shorten
from xmc.errors import InputError, place

_XML = re.compile(rb"(\xef\xbb\xbf)?\s*<(\?xml|!|\w*:?RDF\b)", re.IGNORECASE)
_DEPRECATED_TYPE = re.compile(r"[#/](\w*Deprecated\w*|Obsolete\w*)$")
_DEPRECATED_STATUS = re.compile(r"(deprecated|obsolete|withdrawn|retired)$", re.IGNORECASE)
# Relative names in a file without a base resolve against this, not against where the file happens to lie.
_NO_BASE = "relative:"

Texts = list[tuple[str, str]]  # (language in lower case, text)


@dataclass
class _Concept:
    preferred: Texts = field(default_factory=list)
    names: Texts = field(default_factory=list)
    definitions: Texts = field(default_factory=list)
    notes: Texts = field(default_factory=list)
    broader: list[str] = field(default_factory=list)
    is_concept: bool = False
    retired: bool = False


def read_labels(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Label]:
    """The concepts of a vocabulary, in the order in which the file first names them.

    Raises InputError with the line of a syntax error, and for RDF/XML with a document type declaration:
    entities are never expanded and nothing outside the file is read.
    """
    sink = _Concepts(report)
    graph = Graph(store=sink, bind_namespaces="none")
    with files.open_bytes(path) as stream, _warnings_counted(report):
        is_xml = _XML.match(stream.peek(200)) is not None  # type: ignore[attr-defined]
        (_parse_xml if is_xml else _parse_turtle)(stream, graph, path)
    concepts = {uri: c for uri, c in sink.concepts.items() if c.is_concept}
    if not concepts:
        raise InputError(f"{path}: holds no skos:Concept; a SKOS vocabulary was wanted")
    for uri, concept in concepts.items():
        yield _label(uri, concept, str(path), options.language.lower(), report)


# --- parsing


@contextmanager
def _warnings_counted(report: ReadReport) -> Iterator[None]:
    """Count what rdflib would print about odd names; about odd values of literals it is silenced."""

    def count(record: logging.LogRecord) -> bool:
        report.count("names were no valid URIs", shorten(record.getMessage()))
        return False

    logger = logging.getLogger("rdflib.term")
    logger.addFilter(count)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.removeFilter(count)


def _parse_turtle(stream: BinaryIO, graph: Graph, path: Path) -> None:
    try:
        graph.parse(stream, format="turtle", publicID=_NO_BASE)
    except BadSyntax as error:
        reason = re.search(r"Bad syntax \((.*)\) at \^", error.message, re.DOTALL)
        raise _bad(path, error.lines + 1, "no Turtle", reason[1] if reason else error.message) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: invalid UTF-8 byte {error.object[error.start]:02X}; Turtle is UTF-8"
        ) from None
    except RecursionError:
        raise InputError(f"{path}: brackets are nested too deeply for a vocabulary") from None
    except (ValueError, LookupError, AssertionError, TypeError, AttributeError) as error:
        # What rdflib raises for some malformed names and literals, without a line.
        raise _bad(path, None, "no Turtle", error) from None


def _parse_xml(stream: BinaryIO, graph: Graph, path: Path) -> None:
    from xml.sax import SAXException, SAXParseException
    from xml.sax.handler import feature_external_ges, feature_namespaces

    from defusedxml.common import DefusedXmlException
    from defusedxml.sax import make_parser
    from rdflib.exceptions import ParserError
    from rdflib.plugins.parsers.rdfxml import RDFXMLHandler

    class Handler(RDFXMLHandler):
        def absolutize(self, uri: str) -> URIRef:
            """A whole URI as it is, which spares most of the time that joining takes."""
            return URIRef(uri) if "://" in uri else super().absolutize(uri)

    parser = make_parser()
    parser.forbid_dtd = True
    parser.setFeature(feature_namespaces, True)
    parser.setFeature(feature_external_ges, False)
    handler = Handler(graph)
    handler.setDocumentLocator(parser)
    parser.setContentHandler(handler)
    try:
        parser.parse(_source(stream))
    except DefusedXmlException:
        found = "has a document type declaration (DTD), whose entities are not expanded for safety"
        raise InputError(f"{path}: {found}; convert the file to Turtle or to RDF/XML without it") from None
    except SAXParseException as error:
        raise _bad(path, error.getLineNumber(), "no XML", error.getMessage()) from None
    except (SAXException, ParserError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise _bad(path, parser.getLineNumber(), "no RDF/XML", error) from None


def _source(stream: BinaryIO) -> Any:
    from rdflib.parser import InputSource

    source = InputSource(_NO_BASE)
    source.setByteStream(stream)
    return source


def _bad(path: Path, line: int | None, what: str, error: object) -> InputError:
    reason = shorten(" ".join(str(error).split()) or type(error).__name__, 100)
    return InputError(f"{place(path, line)}: {what}: {reason}; wanted a SKOS vocabulary in Turtle or RDF/XML")


class _Concepts(Store):
    """A sink for rdflib's parsers that keeps what makes a label, and no graph: half the time and memory."""

    def __init__(self, report: ReadReport) -> None:
        super().__init__()
        self._report = report
        self.concepts: dict[str, _Concept] = {}
        self._takers: dict[Identifier, Callable[[_Concept, Node, Node], None]] = {
            RDF.type: self._type,
            SKOS.prefLabel: lambda c, _, o: _take(c.preferred, o),
            RDFS.label: lambda c, _, o: _take(c.preferred, o),
            SKOS.altLabel: lambda c, _, o: _take(c.names, o),
            SKOS.definition: lambda c, _, o: _take(c.definitions, o),
            SKOS.scopeNote: lambda c, _, o: _take(c.notes, o),
            SKOS.broader: lambda c, _, o: c.broader.append(str(o)),
            SKOS.narrower: lambda _, s, o: self._concept(o).broader.append(str(s)),
            OWL.deprecated: lambda c, _, o: _retire(c, str(o).lower() in ("true", "1")),
            DCTERMS.isReplacedBy: lambda c, _, o: _retire(c, True),
        }

    def add(self, triple: tuple[Node, Node, Node], context: Any, quoted: bool = False) -> None:
        subject, predicate, value = triple
        taker = self._takers.get(predicate)  # type: ignore[call-overload]
        if taker is None:
            is_status = predicate.endswith(("#status", "/status"))  # type: ignore[attr-defined]
            taker = self._takers[predicate] = _status if is_status else _nothing  # type: ignore[index]
        taker(self._concept(subject), subject, value)

    def _concept(self, node: Node) -> _Concept:
        # Nodes without a name stand for notes and the like; their names change from run to run.
        if isinstance(node, BNode):
            return _Concept()
        uri = str(node)
        concept = self.concepts.get(uri)
        if concept is None:
            concept = self.concepts[uri] = _Concept()
        return concept

    def _type(self, concept: _Concept, subject: Node, value: Node) -> None:
        if value == SKOS.Concept:
            concept.is_concept = True
            if isinstance(subject, BNode):
                self._report.count("concepts had no URI and were left out")
        _retire(concept, _DEPRECATED_TYPE.search(str(value)) is not None)

    def bind(self, prefix: str, namespace: Any, override: bool = True) -> None:
        """Prefixes are the parser's business."""

    def namespace(self, prefix: str) -> None:
        return None

    def prefix(self, namespace: Any) -> None:
        return None

    def namespaces(self) -> Iterator[Any]:
        return iter(())


def _take(texts: Texts, value: Node) -> None:
    if isinstance(value, Literal):
        texts.append(((value.language or "").lower(), str(value)))


def _retire(concept: _Concept, deprecated: bool) -> None:
    concept.retired |= deprecated


def _status(concept: _Concept, _: Node, value: Node) -> None:
    _retire(concept, _DEPRECATED_STATUS.search(str(value)) is not None)


def _nothing(concept: _Concept, subject: Node, value: Node) -> None:
    """What is said about a concept with a predicate that makes no part of a label."""


# --- choosing


def _label(uri: str, concept: _Concept, path: str, language: str, report: ReadReport) -> Label:
    broader = tuple(other for other in dict.fromkeys(concept.broader) if other != uri)
    chosen = _best_language(concept.preferred, language)
    if chosen is None:
        return Label(uri, "", broader=broader, retired=concept.retired, place=f"{path} <{uri}>")
    if is_other(chosen, language):
        report.count(f"concepts had no label in language={language}: another language was taken", uri)
    text, *others = _in(concept.preferred, chosen)
    alt = tuple(dict.fromkeys(name for name in (*others, *_in(concept.names, chosen)) if name != text))
    described = _in(concept.definitions, chosen) or _in(concept.notes, chosen)
    return Label(uri, text, alt, " ".join(described), broader, concept.retired, f"{path} <{uri}>")


def _best_language(texts: Texts, wanted: str) -> str | None:
    """The language to read a concept in, "" for texts without one; None where there is no text."""
    found = {language for language, _ in texts}
    return min(found, key=lambda language: (distance(language, wanted), language), default=None)


def _in(texts: Texts, language: str) -> list[str]:
    """Texts in a language, or without one where there is none in it."""
    found = [text for lang, text in texts if lang == language]
    return found or [text for lang, text in texts if not lang]
