"""The metrics once more, document by document over Python sets: slow, and written apart from the package.

Conventions of a small independent scorer. Every gold document counts, a missing slot is a miss, means
are over documents with gold labels, PSP is one sum over another, bins restrict gold labels only.
"""

import math

FREQUENT = 50


def means(values):
    return sum(values) / len(values) if values else math.nan


def score(gold, pred, freq=None, n_train=0, a=0.55, b=1.5, ks=(1, 3, 5, 10, 50, 100), threshold=0.5):
    """``gold``: list of label lists; ``pred``: list of [(label, score), ...] in the order of the file."""
    ranked = [sorted(p, key=lambda s: -s[1]) for p in pred]
    out = ranking(gold, ranked, ks)
    out |= f1(gold, ranked, threshold)
    if freq is None:
        return out
    c = (math.log(max(n_train, 3)) - 1) * (b + 1) ** a
    weight = {label: 1 + c * (n + b) ** -a for label, n in enumerate(freq)}
    out |= propensity(gold, ranked, weight, ks)
    for name, inside in bins(freq).items():
        mine = [[label for label in labels if label in inside] for labels in gold]
        found = ranking(mine, ranked, ks) | propensity(mine, ranked, weight, ks)
        found |= f1(mine, ranked, threshold, inside)
        out |= {f"{metric}[{name}]": value for metric, value in found.items()}
    return out


def bins(freq):
    return {
        "frequent": {i for i, n in enumerate(freq) if n >= FREQUENT},
        "few": {i for i, n in enumerate(freq) if 0 < n < FREQUENT},
        "zero": {i for i, n in enumerate(freq) if n == 0},
    }


def ranking(gold, ranked, ks):
    rows = {f"{m}@{k}": [] for m in ("P", "R", "RP", "nDCG") for k in ks} | {"miss_rate": []}
    for labels, suggestions in zip(gold, ranked, strict=True):
        wanted = set(labels)
        if not wanted:
            continue
        hit = [label in wanted for label, _ in suggestions]
        rows["miss_rate"].append(len(wanted - {label for label, _ in suggestions}) / len(wanted))
        for k in ks:
            found = sum(hit[:k])
            rows[f"P@{k}"].append(found / k)
            rows[f"R@{k}"].append(found / len(wanted))
            rows[f"RP@{k}"].append(found / min(k, len(wanted)))
            dcg = sum(h / math.log2(i + 2) for i, h in enumerate(hit[:k]))
            rows[f"nDCG@{k}"].append(dcg / sum(1 / math.log2(i + 2) for i in range(min(k, len(wanted)))))
    return {name: means(values) for name, values in rows.items()}


def propensity(gold, ranked, weight, ks):
    out = {}
    for k in ks:
        for name, discount in (("PSP", lambda i: 1.0), ("PSnDCG", lambda i: 1 / math.log2(i + 2))):
            top = bottom = 0.0
            for labels, suggestions in zip(gold, ranked, strict=True):
                got = [weight[i] if i in labels else 0.0 for i, _ in suggestions][:k]
                best = sorted((weight[i] for i in set(labels)), reverse=True)[:k]
                top += sum(w * discount(i) for i, w in enumerate(got))
                bottom += sum(w * discount(i) for i, w in enumerate(best))
            out[f"{name}@{k}"] = top / bottom if bottom else math.nan
    return out


def f1(gold, ranked, threshold, inside=None):
    """Micro and macro F1; ``inside`` restricts which suggested labels count."""
    counts = {}
    for k in (1, 5):
        counts[f"@{k}"] = [suggestions[:k] for suggestions in ranked]
    counts[f"_at_{threshold:g}"] = [[s for s in suggestions if s[1] >= threshold] for suggestions in ranked]
    out = {}
    for name, chosen in counts.items():
        pairs = pairs_of(chosen, inside)
        truth = {(d, label) for d, labels in enumerate(gold) for label in labels}
        out[f"micro_f1{name}"] = ratio(2 * len(pairs & truth), len(pairs) + len(truth))
        each = []
        for label in sorted({label for _, label in truth}):
            p, t = ({d for d, i in s if i == label} for s in (pairs, truth))
            each.append(2 * len(p & t) / (len(p) + len(t)))
        out[f"macro_f1{name}"] = means(each)
    return out | best_f1(gold, ranked, inside)


def best_f1(gold, ranked, inside):
    truth = {(d, label) for d, labels in enumerate(gold) for label in labels}
    kept = [[s for s in suggestions if inside is None or s[0] in inside] for suggestions in ranked]
    values = []
    for threshold in sorted({s for suggestions in kept for _, s in suggestions}, reverse=True):
        pairs = pairs_of([[s for s in suggestions if s[1] >= threshold] for suggestions in kept], None)
        values.append(ratio(2 * len(pairs & truth), len(pairs) + len(truth)))
    return {"micro_f1_best": max(values) if values else ratio(0, len(truth))}


def pairs_of(chosen, inside):
    return {
        (d, i)
        for d, suggestions in enumerate(chosen)
        for i, _ in suggestions
        if inside is None or i in inside
    }


def ratio(top, bottom):
    return top / bottom if bottom else math.nan
