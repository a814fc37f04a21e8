"""omikuji's label trees: Parabel (balanced, binary) or Bonsai (unbalanced, 100 branches, three levels)."""

import omikuji
from common import FEATURES, TOP_K, Features, label_matrix, main, save

BEAM = 10


def build(documents, folder, options):
    features = Features(documents, options)
    gold, names = label_matrix(documents.labels)
    data = folder / "data.txt"
    write_data(data, features.of(documents), gold)
    settings = omikuji.Model.default_hyper_param()
    if options.tree == "bonsai":
        settings.cluster_balanced, settings.cluster_k, settings.max_depth = False, 100, 3
    settings.linear_loss_type = omikuji.LossType[options.loss.upper()].value
    settings.linear_c, settings.linear_weight_threshold = options.C, options.threshold
    omikuji.Model.train_on_data(str(data), settings).save(str(folder / "trees"))
    data.unlink()
    save(folder, features=features, names=names)


def write_data(path, rows, gold):
    """The repository's format; documents without features or labels are left out, as it cannot read them."""
    kept = [n for n in range(rows.shape[0]) if rows.indptr[n] < rows.indptr[n + 1] and gold[n].nnz]
    with path.open("w") as out:
        out.write(f"{len(kept)} {rows.shape[1]} {gold.shape[1]}\n")
        for n in kept:
            labels = ",".join(map(str, gold[n].indices))
            values = " ".join(f"{i}:{v:.6g}" for i, v in pairs(rows, n))
            out.write(f"{labels} {values}\n")


def pairs(rows, n):
    at = slice(rows.indptr[n], rows.indptr[n + 1])
    return [(int(i), float(v)) for i, v in zip(rows.indices[at], rows.data[at], strict=True)]


def tag(documents, folder, parts):
    trees = omikuji.Model.load(str(folder / "trees"))
    rows = parts["features"].of(documents)
    return (trees.predict(pairs(rows, n), beam_size=BEAM, top_k=TOP_K) for n in range(rows.shape[0]))


if __name__ == "__main__":
    main(build, tag, tree="bonsai", loss="hinge", C=1.0, threshold=0.1, **FEATURES)
