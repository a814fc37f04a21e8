import time

import numpy as np
import pytest

from xmc.stages import Cost, listening, measured, resident, stage


def test_costs_add_up_and_scale():
    one, two = Cost(1.0, 2.0, 10, 30), Cost(3.0, 5.0, 20, 25)
    assert one + two == Cost(4.0, 7.0, 10, 30)
    assert two - one == Cost(2.0, 3.0, 20, 25)
    assert (one - two).cpu == 0
    assert one.times(2.5) == Cost(2.5, 5.0, 10, 30)


def test_stages_are_measured_where_somebody_listens():
    with stage("nobody hears"):
        pass
    with listening() as costs:
        for seconds in (0.01, 0.03):
            with stage("wait"):
                time.sleep(seconds)
        with stage("other"):
            pass
    assert set(costs) == {"wait", "other"}
    assert costs["wait"].wall >= 0.04
    assert costs["wait"].cpu < costs["wait"].wall


@pytest.mark.skipif(not resident(), reason="the system does not tell how much memory a process holds")
def test_the_most_memory_is_that_of_the_stage():
    with measured() as first:
        np.ones(40_000_000, np.uint8)
    with measured() as second:
        np.ones(1000, np.uint8)
    assert 38_000_000 < first[0].peak - first[0].before < 60_000_000
    assert second[0].peak - second[0].before < 10_000_000
