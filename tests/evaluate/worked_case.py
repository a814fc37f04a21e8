"""The 4 x 6 case that the oracles are worked out on, and builders for small runs.

Labels a to f are rows 0 to 5.

    document  gold       suggestions, in the order given     ranked (equal scores keep that order)
    0         a, b, c    d .7   c .9   a .7                  c (hit), d, a (hit)
    1         b          a .8   b .8   e .2                  a, b (hit), e
    2         none       f .6                                f
    3         d, f       none                                (no prediction)

Six gold labels, seven suggestions, three hits. No list is as long as 5.
"""

import numpy as np
import scipy.sparse as sp

from xmc.evaluate.ranked import Ranked

A, B, C, D, E, F = range(6)
GOLD = [[A, B, C], [B], [], [D, F]]
PRED = [[(D, 0.7), (C, 0.9), (A, 0.7)], [(A, 0.8), (B, 0.8), (E, 0.2)], [(F, 0.6)], []]
FREQUENCY = np.array([60, 10, 0, 0, 5, 50])  # frequent: a, f; few: b, e; zero: c, d


def gold_matrix(gold, n_labels):
    docs = [d for d, labels in enumerate(gold) for _ in labels]
    rows = [label for labels in gold for label in labels]
    return sp.csr_matrix((np.ones(len(docs)), (docs, rows)), shape=(len(gold), n_labels))


def ranked_of(pred):
    indptr = np.cumsum([0, *map(len, pred)])
    flat = [s for suggestions in pred for s in suggestions]
    return Ranked.build(indptr, [label for label, _ in flat], [score for _, score in flat])
