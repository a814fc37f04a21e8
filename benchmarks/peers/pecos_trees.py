"""PECOS XR-Linear: a hierarchy of labels by the features of their documents, and linear rankers along it."""

import numpy as np
import scipy.sparse as sp
from common import FEATURES, TOP_K, Features, label_matrix, main, save
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel

BEAM = 20


def build(documents, folder, options):
    features = Features(documents, options)
    gold, names = label_matrix(documents.labels)
    rows = features.of(documents)
    embeddings = LabelEmbeddingFactory.create(gold, rows, method="pifa")
    settings = {"Cp": options.C, "Cn": options.C, "threshold": options.threshold}
    settings["negative_sampling_scheme"] = options.negatives
    model = XLinearModel.train(rows, gold, C=Indexer.gen(embeddings), **settings)
    model.save(str(folder / "trees"))
    save(folder, features=features, names=names)


def tag(documents, folder, parts):
    model = XLinearModel.load(str(folder / "trees"), is_predict_only=True)
    found = model.predict(parts["features"].of(documents), beam_size=BEAM, only_topk=TOP_K)
    for row in sp.csr_matrix(found):
        order = np.argsort(-row.data, kind="stable")
        yield [(int(row.indices[n]), float(row.data[n])) for n in order]


if __name__ == "__main__":
    main(build, tag, C=1.0, threshold=0.01, negatives="tfn", **FEATURES)
