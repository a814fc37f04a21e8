"""Annif by its command line: the MLLM lexical matcher, omikuji's Bonsai, or the ensemble of both.

The vocabulary goes in as SKOS with other names and broader concepts, documents as TSV. MLLM learns its
weights on at most MLLM_DOCUMENTS training documents (its wiki advises hundreds to thousands); the ensemble
averages both. MLLM needs NLTK's data package punkt_tab, which `setup.sh` puts into the environment.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from common import TOP_K, lines_of, main, save, texts_of
from rdflib import RDF, SKOS, Graph, Literal, URIRef

BASE = "http://example.org/"
MLLM_DOCUMENTS = 2000
PROJECTS = """
[mllm]
name=MLLM
language=en
backend=mllm
vocab=labels
analyzer=snowball(english)

[bonsai]
name=Bonsai
language=en
backend=omikuji
vocab=labels
analyzer=snowball(english)
cluster_balanced=False
cluster_k=100
max_depth=3

[ensemble]
name=Ensemble
language=en
backend=ensemble
vocab=labels
sources=mllm,bonsai
"""
NEEDED = {"mllm": ("mllm",), "bonsai": ("bonsai",), "ensemble": ("mllm", "bonsai")}


def uri(label_id):
    return BASE + quote(label_id, safe="")


def annif(folder, *arguments):
    """Run one of its commands with its data in ``folder``."""
    command = [str(Path(sys.executable).parent / "annif"), *map(str, arguments)]
    places = {"ANNIF_DATADIR": str(folder / "data"), "ANNIF_PROJECTS": str(folder / "projects.cfg")}
    subprocess.run(command, env=os.environ | places, check=True)


def build(documents, folder, options):
    (folder / "projects.cfg").write_text(PROJECTS)
    names = vocabulary(options.labels, folder / "labels.ttl")
    annif(folder, "load-vocab", "labels", folder / "labels.ttl")
    rows = [
        tsv(text, labels)
        for text, labels in zip(texts_of(documents), documents.labels, strict=True)
        if labels
    ]
    for project in NEEDED[options.project]:
        chosen = rows[:: max(1, len(rows) // MLLM_DOCUMENTS)][:MLLM_DOCUMENTS] if project == "mllm" else rows
        corpus = folder / f"{project}.tsv"
        corpus.write_text("".join(chosen), encoding="utf-8")
        annif(folder, "train", project, corpus)
        corpus.unlink()
    save(folder, names=names, project=options.project)


def vocabulary(source, target):
    """Labels as SKOS; their ids in order."""
    graph, ids = Graph(), []
    for label in lines_of(source):
        concept = URIRef(uri(label["id"]))
        ids.append(label["id"])
        graph.add((concept, RDF.type, SKOS.Concept))
        graph.add((concept, SKOS.prefLabel, Literal(label["text"], lang="en")))
        for name in label.get("alt", ()):
            graph.add((concept, SKOS.altLabel, Literal(name, lang="en")))
        for broader in label.get("broader", ()):
            graph.add((concept, SKOS.broader, URIRef(uri(broader))))
    graph.serialize(target, format="turtle")
    return ids


def tsv(text, labels):
    return " ".join(text.split()) + "\t" + " ".join(f"<{uri(label)}>" for label in labels) + "\n"


def tag(documents, folder, parts):
    corpus, found = folder / "documents.tsv", folder / "found.jsonl"
    nothing = [uri(parts["names"][0])]  # the format wants a subject, which suggesting does not look at
    corpus.write_text("".join(tsv(text, nothing) for text in texts_of(documents)), encoding="utf-8")
    column = {uri(name): n for n, name in enumerate(parts["names"])}
    found.unlink(missing_ok=True)
    annif(folder, "index", "--limit", TOP_K, "--output", found, parts["project"], corpus)
    with found.open(encoding="utf-8") as file:
        for line in file:
            yield [(column[each["uri"]], each["score"]) for each in json.loads(line)["results"]]


if __name__ == "__main__":
    main(build, tag, project="ensemble", labels="")
