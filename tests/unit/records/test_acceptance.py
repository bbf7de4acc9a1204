"""A run relies only on a passed acceptance that is young, of this machine, and of its nodes."""

from datetime import UTC, datetime, timedelta

import pytest
from unit.acceptance_factory import make_measured, make_series
from unit.refusals import refused

from hpcai.core.errors import RunRefusedError
from hpcai.core.files import file_sha256
from hpcai.metrics.acceptance import judge_acceptance
from hpcai.records.acceptance import (
    NONE_YET,
    NOT_PASSED,
    OTHER_MACHINE,
    OTHER_NODES,
    TOO_OLD,
    require_accepted,
)
from hpcai.records.files import write_sealed

DAY_S = 86400.0


@pytest.fixture
def accept(tmp_path):
    """Write an acceptance of two nodes that ended so many hours ago; return its file."""

    def write(hours=1.0, **changes):
        series = [make_series(host, "gemm fp32", (1.0, 1.0, 1.0)) for host in ("n1", "n2")]
        link = {"kind": "pair", "nodes": ("n1", "n2")}
        series.append(make_series("n1 + n2", "allreduce latency", (1.0, 1.0, 1.0), **link))
        accepted = judge_acceptance(make_measured(series, ["n1", "n2"]), "0" * 64, "x.json")
        ended = datetime.now(UTC) - timedelta(hours=hours)
        path = tmp_path / "acceptance.json"
        fields = {"ended_utc": ended.strftime("%Y-%m-%dT%H:%M:%SZ"), **changes}
        write_sealed(accepted.model_copy(update=fields), path)
        return path

    return write


def test_a_passed_acceptance_is_named_by_digest_and_time(accept):
    path = accept(hours=2)
    note = require_accepted("box", ["n2"], DAY_S, path)
    assert note.sha256 == file_sha256(path)
    assert note.age_s == pytest.approx(7200, abs=10)


@pytest.mark.parametrize(
    ("changes", "machine", "hosts", "code"),
    [
        ({"hours": 25}, "box", ["n1"], TOO_OLD),
        ({"hours": -2}, "box", ["n1"], TOO_OLD),
        ({"verdict": "suspicious"}, "box", ["n1"], NOT_PASSED),
        ({"verdict": "broken"}, "box", ["n1"], NOT_PASSED),
        ({}, "other", ["n1"], OTHER_MACHINE),
        ({}, "box", ["n1", "n3"], OTHER_NODES),
    ],
)
def test_any_other_is_refused(accept, changes, machine, hosts, code):
    path = accept(**changes)
    with refused(RunRefusedError, code):
        require_accepted(machine, hosts, DAY_S, path)


def test_none_and_a_changed_one_are_refused(accept, tmp_path):
    with refused(RunRefusedError, NONE_YET):
        require_accepted("box", ["n1"], DAY_S, tmp_path / "none.json")
    path = accept(verdict="broken")
    path.write_text(path.read_text().replace('"broken"', '"healthy"'))
    with refused(RunRefusedError, NONE_YET):
        require_accepted("box", ["n1"], DAY_S, path)
