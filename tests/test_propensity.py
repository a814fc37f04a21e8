import math

import numpy as np
import pytest

from xmc.propensity import inverse_propensity


@pytest.mark.parametrize(("a", "b"), [(0.55, 1.5), (0.5, 0.4), (0.6, 2.6)])
def test_propensity_is_the_published_one(a, b):
    # Jain et al. 2016: p = 1 / (1 + C e^(-A log(N_l + B))), C = (log N - 1)(B + 1)^A
    n_train, frequency = 14146, np.array([0, 1, 7, 300])
    c = (math.log(n_train) - 1) * (b + 1) ** a
    p = [1 / (1 + c * math.exp(-a * math.log(n + b))) for n in frequency]
    assert inverse_propensity(frequency, n_train, a, b) == pytest.approx([1 / x for x in p])


def test_rare_labels_weigh_more_and_tiny_training_sets_stay_positive():
    weights = inverse_propensity(np.array([0, 1, 10, 100]), 0, 0.55, 1.5)
    assert np.all(np.diff(weights) < 0)
    assert np.all(weights > 1)
