from __future__ import annotations

import gzip

import pytest

from xmc.data import skos
from xmc.data.formats import read_labels
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError

PREFIXES = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix ex: <http://e/> .
"""
# Concepts of the General Finnish Ontology YSO (CC0), in both syntaxes.
TURTLE = (
    PREFIXES
    + """
ex:p1 a skos:Concept ;
    skos:prefLabel "fishes"@en, "kalat"@fi, "fiskar"@sv ;
    skos:altLabel "fish"@en, "pisces"@en, "kala"@fi ;
    skos:definition "animals with gills"@en ;
    skos:broader ex:p2 ; skos:notation "59" .
ex:p2 a skos:Concept ; skos:prefLabel "eläimet"@fi ; skos:scopeNote "myös ihmiset"@fi ; skos:narrower ex:p3 .
ex:p3 a skos:Concept ; skos:prefLabel "colour"@en-GB ; owl:deprecated true .
ex:group a skos:Collection ; skos:prefLabel "not a concept"@en .
"""
)
XML_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:skos="http://www.w3.org/2004/02/skos/core#" xmlns:owl="http://www.w3.org/2002/07/owl#">\n'
)
XML = (
    XML_HEAD
    + """
<skos:Concept rdf:about="http://e/p1">
  <skos:prefLabel xml:lang="en">fishes</skos:prefLabel><skos:prefLabel xml:lang="fi">kalat</skos:prefLabel>
  <skos:prefLabel xml:lang="sv">fiskar</skos:prefLabel>
  <skos:altLabel xml:lang="en">fish</skos:altLabel><skos:altLabel xml:lang="en">pisces</skos:altLabel>
  <skos:altLabel xml:lang="fi">kala</skos:altLabel>
  <skos:definition xml:lang="en">animals with gills</skos:definition>
  <skos:broader><rdf:Description rdf:about="http://e/p2">
    <rdf:type rdf:resource="http://www.w3.org/2004/02/skos/core#Concept"/>
    <skos:prefLabel xml:lang="fi">eläimet</skos:prefLabel>
    <skos:scopeNote xml:lang="fi">myös ihmiset</skos:scopeNote>
  </rdf:Description></skos:broader>
</skos:Concept>
<rdf:Description rdf:about="http://e/p2"><skos:narrower rdf:resource="http://e/p3"/></rdf:Description>
<skos:Concept rdf:about="http://e/p3" xml:lang="en-GB"><skos:prefLabel>colour</skos:prefLabel>
  <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated></skos:Concept>
</rdf:RDF>
"""
)


def concepts(path, language="en", report=None):
    found = skos.read_labels(path, ReadOptions(language=language), report or ReadReport())
    return [label._replace(place="") for label in found]


def one(write, statement):
    (label,) = concepts(write("v.ttl", PREFIXES + "ex:a a skos:Concept ; " + statement + " ."))
    return label


@pytest.mark.parametrize(("name", "content"), [("v.ttl", TURTLE), ("v.rdf", XML)])
def test_both_syntaxes_give_the_same_labels(write, name, content):
    path = write(name, content)
    report = ReadReport()
    assert [tuple(label)[:6] for label in concepts(path, report=report)] == [
        ("http://e/p1", "fishes", ("fish", "pisces"), "animals with gills", ("http://e/p2",), False),
        ("http://e/p2", "eläimet", (), "myös ihmiset", (), False),
        ("http://e/p3", "colour", (), "", ("http://e/p2",), True),
    ]
    taken = "concepts had no label in language=en: another language was taken"
    assert report.counts == {taken: 1}
    labels = read_labels(path)
    assert labels.ids.to_pylist() == ["http://e/p1", "http://e/p2", "http://e/p3"]
    assert labels.retired.tolist() == [False, False, True]


@pytest.mark.parametrize(("name", "content"), [("v.ttl", TURTLE), ("v.rdf", XML)])
def test_the_language_is_chosen(write, name, content):
    read = concepts(write(name, content), "fi")
    assert [label.text for label in read] == ["kalat", "eläimet", "colour"]
    assert read[0].alt == ("kala",)
    assert read[0].description == ""


@pytest.mark.parametrize(
    ("labels", "language", "chosen"),
    [
        ('"a"@en-GB, "b"@en, "c"', "en", "b"),
        ('"a"@en-GB, "b"@de, "c"', "en", "a"),
        ('"a"@en-GB, "b"@en', "en-GB", "a"),
        ('"a"@EN, "b"@fr', "en", "a"),
        ('"a"@en, "b"', "fi", "b"),
        ('"a"@sv, "b"@en', "fi", "b"),
        ('"a"@sv, "b"@de', "fi", "b"),
    ],
)
def test_other_languages_are_taken_in_the_documented_order(write, labels, language, chosen):
    path = write("v.ttl", PREFIXES + f"ex:a a skos:Concept ; skos:prefLabel {labels} .")
    assert [label.text for label in concepts(path, language)] == [chosen]


def test_names_without_a_language_go_with_any(write):
    label = one(write, 'skos:prefLabel "cat"@en ; skos:altLabel "felis" ; skos:definition "an animal"')
    assert (label.alt, label.description) == (("felis",), "an animal")


@pytest.mark.parametrize(
    "flag",
    [
        "owl:deprecated true",
        'owl:deprecated "true"',
        "owl:deprecated 1",
        "a owl:DeprecatedClass",
        "<http://purl.org/dc/terms/isReplacedBy> ex:b",
        "<http://publications.europa.eu/ontology/euvoc#status> <http://x/concept-status/DEPRECATED>",
    ],
)
def test_flags_of_deprecation_retire(write, flag):
    assert one(write, f'skos:prefLabel "x"@en ; {flag}').retired


@pytest.mark.parametrize(
    "flag", ["owl:deprecated false", "<http://x#status> <http://x/CURRENT>", 'skos:note "obsolete"']
)
def test_other_statements_do_not_retire(write, flag):
    assert not one(write, f'skos:prefLabel "x"@en ; {flag}').retired


def test_concepts_without_label_are_kept_and_counted_behind_the_reader(write):
    path = write("v.ttl", PREFIXES + 'ex:a a skos:Concept . ex:b a skos:Concept ; skos:prefLabel "x"@en .')
    report = ReadReport()
    assert read_labels(path, report=report).texts.to_pylist() == ["", "x"]
    assert report.counts == {"labels had no text": 1}


def test_concepts_without_uri_are_counted(write):
    path = write("v.ttl", PREFIXES + '[] a skos:Concept . ex:b a skos:Concept ; skos:prefLabel "x"@en .')
    report = ReadReport()
    assert len(concepts(path, report=report)) == 1
    assert report.counts == {"concepts had no URI and were left out": 1}


def test_odd_names_are_counted_and_nothing_is_printed(write, capfd):
    path = write("v.ttl", PREFIXES + '<http://a b> a skos:Concept ; skos:prefLabel "x"@en .')
    report = ReadReport()
    assert [label.id for label in concepts(path, report=report)] == ["http://a b"]
    assert list(report.counts) == ["names were no valid URIs"]
    assert capfd.readouterr() == ("", "")


def test_relative_names_do_not_depend_on_where_the_file_lies(write):
    content = PREFIXES + '<#a> a skos:Concept ; skos:prefLabel "x"@en .'
    paths = [write("one/v.ttl", content), write("two/w.ttl", content)]
    assert concepts(paths[0]) == concepts(paths[1])


def test_n_triples_and_packed_files_are_read(write):
    triples = (
        "<http://e/a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
        "<http://www.w3.org/2004/02/skos/core#Concept> .\n"
        '<http://e/a> <http://www.w3.org/2004/02/skos/core#prefLabel> "caf\\u00e9"@en .\n'
    )
    (label,) = concepts(write("v.ttl.gz", gzip.compress(triples.encode())))
    assert (label.id, label.text) == ("http://e/a", "café")


def test_xml_in_another_encoding_is_read_as_it_says(write):
    content = XML.replace("UTF-8", "iso-8859-1").encode("latin-1")
    assert concepts(write("v.rdf", content))[1].text == "eläimet"


def test_xml_names_are_joined_to_the_base(write):
    head = XML_HEAD.replace("<rdf:RDF", '<rdf:RDF xml:base="http://base/x/"')
    path = write("v.rdf", head + '<skos:Concept rdf:ID="a" skos:prefLabel="one"/></rdf:RDF>')
    assert [(label.id, label.text) for label in concepts(path)] == [("http://base/x/#a", "one")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "v.ttl",
            TURTLE + 'ex:a skos:prefLabel "open@en .\n',
            "v.ttl:13: no Turtle: newline found in string",
        ),
        ("v.ttl", PREFIXES + "no:a a skos:Concept .", 'v.ttl:4: no Turtle: Prefix "no:" not bound'),
        ("v.ttl", PREFIXES.encode() + b'ex:a skos:prefLabel "caf\xe9"@en .', "invalid UTF-8 byte E9"),
        ("v.ttl", PREFIXES + "ex:a ex:b " + "[" * 5000, "nested too deeply"),
        ("v.ttl", PREFIXES, "holds no skos:Concept"),
        (
            "v.rdf",
            XML_HEAD + '<skos:Concept rdf:about="http://e/a">\n</rdf:RDF>',
            "v.rdf:4: no XML: mismatched tag",
        ),
        ("v.rdf", XML_HEAD + '<skos:Concept rdf:about="http://e/a">', "no XML: no element found"),
        ("v.rdf", "<?xml version='1.0'?><a><b/></a>", "holds no skos:Concept"),
    ],
)
def test_broken_vocabularies_are_refused_with_their_line(write, name, content, message):
    with pytest.raises(InputError) as error:
        concepts(write(name, content))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
