"""TF-IDF with one linear support vector machine a label (scikit-learn's LinearSVC); scores are margins."""

from common import FEATURES, Features, best, label_matrix, main, save


def build(documents, folder, options):
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    features = Features(documents, options)
    gold, names = label_matrix(documents.labels)
    machine = OneVsRestClassifier(LinearSVC(C=options.C))
    save(folder, features=features, names=names, machine=machine.fit(features.of(documents), gold))


def tag(documents, folder, parts):
    margins = parts["machine"].decision_function(parts["features"].of(documents))
    return (best(row) for row in margins)


if __name__ == "__main__":
    main(build, tag, C=1.0, **FEATURES)
