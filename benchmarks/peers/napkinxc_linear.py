"""napkinXC's binary relevance: one logistic regression a label (by LIBLINEAR)."""

from common import TOP_K, Features, label_matrix, main, save
from napkinxc.models import BR


def build(documents, folder, options):
    features = Features(documents)
    gold, names = label_matrix(documents.labels)
    BR(str(folder / "model")).fit(features.of(documents), [list(map(int, row.indices)) for row in gold])
    save(folder, features=features, names=names)


def tag(documents, folder, parts):
    model = BR(str(folder / "model"))
    model.load()
    return model.predict_proba(parts["features"].of(documents), top_k=TOP_K)


if __name__ == "__main__":
    main(build, tag)
