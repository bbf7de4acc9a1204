"""The QOS of jobs, from which most of their limits come."""

import pytest

from hpcai.setup.limits import qos_of_jobs
from hpcai.setup.slurm_answers import read_associations


@pytest.mark.parametrize(
    ("names", "default", "qos"),
    [
        ("high,normal", "high", "high"),
        ("high,normal", "", "normal"),
        ("high", "", "high"),
        ("", "", "normal"),
        ("high,low", "", ""),
    ],
)
def test_jobs_that_name_no_qos_have_one(names, default, qos):
    (association,) = read_associations(f"cluster|account||{names}|{default}|||")
    assert qos_of_jobs(association) == qos
