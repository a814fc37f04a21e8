"""napkinXC: a probabilistic label tree (plt), or one logistic regression a label (br)."""

from common import TOP_K, Features, label_matrix, main, save
from napkinxc.models import BR, PLT


def build(documents, folder, options):
    features = Features(documents)
    gold, names = label_matrix(documents.labels)
    kind = {"plt": PLT, "br": BR}[options.kind]
    kept = gold.getnnz(axis=1) > 0  # a tree cannot be built with documents without labels
    labels = [list(map(int, row.indices)) for row in gold[kept]]
    kind(str(folder / "model")).fit(features.of(documents)[kept], labels)
    save(folder, features=features, names=names, kind=options.kind)


def tag(documents, folder, parts):
    model = {"plt": PLT, "br": BR}[parts["kind"]](str(folder / "model"))
    model.load()
    return model.predict_proba(parts["features"].of(documents), top_k=TOP_K)


if __name__ == "__main__":
    main(build, tag, kind="plt")
