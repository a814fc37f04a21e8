"""The labels of the 50 nearest training documents by cosine of TF-IDF, each counted by its similarity."""

import numpy as np
from common import Features, best, label_matrix, main, save

N_NEIGHBOURS = 50
AT_ONCE = 500  # documents whose similarities are held at a time


def build(documents, folder, options):
    features = Features(documents)
    gold, names = label_matrix(documents.labels)
    save(folder, features=features, names=names, gold=gold, known=features.of(documents))


def tag(documents, folder, parts):
    new, known = parts["features"].of(documents), parts["known"].T.tocsc()
    for start in range(0, new.shape[0], AT_ONCE):
        similar = (new[start : start + AT_ONCE] @ known).toarray()
        for row in similar:
            nearest = np.argsort(-row, kind="stable")[:N_NEIGHBOURS]
            votes = row[nearest] @ parts["gold"][nearest]
            yield [pair for pair in best(votes) if pair[1] > 0]


if __name__ == "__main__":
    main(build, tag)
