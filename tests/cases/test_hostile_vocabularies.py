"""Vocabularies in XML that would fill the memory or read other files."""

from __future__ import annotations

import pytest

from xmc.data.formats import read_labels
from xmc.errors import InputError

HEAD = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:skos="http://www.w3.org/2004/02/skos/core#">'
)
CONCEPT = '<skos:Concept rdf:about="http://e/a"><skos:prefLabel>{}</skos:prefLabel></skos:Concept></rdf:RDF>'
LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
LONG = "x" * 100_000


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "declaration",
    [
        f'<!DOCTYPE r [<!ENTITY l0 "ha">{LAUGHS}<!ENTITY e "&l9;">]>',
        f'<!DOCTYPE r [<!ENTITY e "{LONG}">]>',
        '<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/hostname"> %p; <!ENTITY e "x">]>',
        '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY e "x">]>',
        '<!DOCTYPE r PUBLIC "-//X//Y" "http://127.0.0.1:9/x.dtd">',
    ],
)
def test_document_types_and_their_entities_are_refused(tmp_path, declaration):
    path = tmp_path / "vocabulary.rdf"
    path.write_text(f'<?xml version="1.0"?>\n{declaration}\n{HEAD}{CONCEPT.format("&e;" * 1000)}')
    with pytest.raises(InputError, match=r"vocabulary.rdf: has a document type declaration"):
        read_labels(path)


@pytest.mark.timeout(60)
def test_an_undeclared_entity_is_a_syntax_error(tmp_path):
    path = tmp_path / "vocabulary.rdf"
    path.write_text(f'<?xml version="1.0"?>\n{HEAD}{CONCEPT.format("&e;")}')
    with pytest.raises(InputError, match=r"vocabulary.rdf:2: no XML: undefined entity"):
        read_labels(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.rdf", '<?xml version="1.0"?>' + HEAD + "<skos:a>" * 20_000),
        ("v.ttl", "@prefix : <u:> .\n:a :b " + "[ :c " * 20_000),
    ],
)
def test_deep_nesting_is_refused(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=name):
        read_labels(path)
