"""The labels of the nearest training documents by cosine of TF-IDF, counted by powers of similarity."""

import numpy as np
from common import FEATURES, Features, best, label_matrix, main, save

AT_ONCE = 500  # documents whose similarities are held at a time


def build(documents, folder, options):
    features = Features(documents, options)
    gold, names = label_matrix(documents.labels)
    save(folder, features=features, names=names, gold=gold, known=features.of(documents), options=options)


def tag(documents, folder, parts):
    new, known, options = parts["features"].of(documents), parts["known"].T.tocsc(), parts["options"]
    for start in range(0, new.shape[0], AT_ONCE):
        similar = (new[start : start + AT_ONCE] @ known).toarray()
        for row in similar:
            nearest = np.argsort(-row, kind="stable")[: options.neighbours]
            votes = row[nearest] ** options.power @ parts["gold"][nearest]
            yield [pair for pair in best(votes) if pair[1] > 0]


if __name__ == "__main__":
    main(build, tag, neighbours=50, power=2.0, **FEATURES | {"ngrams": 2})
