import numpy as np

from xmc.evaluate.bins import bin_of, label_bins


def test_bounds_of_the_bins():
    frequency = np.array([0, 1, 49, 50, 1000])
    bins = label_bins(frequency)
    assert bins["zero"].tolist() == [True, False, False, False, False]
    assert bins["few"].tolist() == [False, True, True, False, False]
    assert bins["frequent"].tolist() == [False, False, False, True, True]
    assert [bin_of(n) for n in frequency] == ["zero", "few", "few", "frequent", "frequent"]
