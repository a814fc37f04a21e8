"""napkinXC's binary relevance: one linear classifier a label (by LIBLINEAR); loss l2 is squared hinge."""

from common import FEATURES, TOP_K, Features, label_matrix, main, save
from napkinxc.models import BR


def build(documents, folder, options):
    features = Features(documents, options)
    gold, names = label_matrix(documents.labels)
    settings = {"loss": options.loss, "liblinear_c": options.C, "weights_threshold": options.threshold}
    BR(str(folder / "model"), **settings).fit(features.of(documents), [row.indices.tolist() for row in gold])
    save(folder, features=features, names=names)


def tag(documents, folder, parts):
    model = BR(str(folder / "model"))
    model.load()
    return model.predict_proba(parts["features"].of(documents), top_k=TOP_K)


if __name__ == "__main__":
    main(build, tag, loss="l2", C=1.0, threshold=0.1, **FEATURES)
