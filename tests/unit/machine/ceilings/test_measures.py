"""A measurement that cannot start gives a report with the reason and does not affect the others."""

import json

import pytest

from hpcai.core.errors import LaunchError
from hpcai.core.sealed import unseal
from hpcai.machine.ceilings import measures
from hpcai.machine.ceilings.measures import ceiling, link, report_quietly
from hpcai.machine.ceilings.sampling import CeilingReport
from hpcai.metrics.profiles.link import AllreduceReport

NO_PROGRAM = "apptainer: no such program on the PATH"
STUDY = {"limits": {"disturbance": {"repeats": 1}}}


def lost():
    raise LaunchError(NO_PROGRAM)


def found():
    return ["python"]


def told(measure):
    """The report without its seal, which readers of files check."""
    unsealed = unseal(report_quietly(measure, STUDY).encode())
    assert unsealed.is_sealed
    return unsealed.text


def test_a_ceiling_without_its_image_is_a_reason_for_each_number_of_threads():
    report = CeilingReport.model_validate_json(told(ceiling("gemm", [2, 1, 2], "cpu", lost)))
    assert [(one.kind, one.threads) for one in report.not_measured] == [("gemm", 1), ("gemm", 2)]
    assert {one.reason for one in report.not_measured} == {NO_PROGRAM}


@pytest.mark.parametrize(("launch", "python"), [(lost, found), (found, lost)])
def test_an_allreduce_without_launcher_or_image_is_a_reason(launch, python):
    report = AllreduceReport.model_validate_json(told(link(launch, 1, "cpu", python)))
    assert report.not_measured == (NO_PROGRAM,)


def test_what_can_be_started_is_measured(monkeypatch):
    asked = {}

    def measure(threads, device, *, python):
        asked.update(threads=threads, device=device, python=python)
        return CeilingReport(best=(), summaries=(), not_measured=(), samples=())

    monkeypatch.setitem(measures.MEASURES, "gemm", measure)
    assert json.loads(report_quietly(ceiling("gemm", [1], "cpu", found), STUDY))["samples"] == []
    assert asked == {"threads": [1], "device": "cpu", "python": ["python"]}
