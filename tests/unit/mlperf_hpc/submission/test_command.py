"""The command line of a submission: its exit status and output."""

import pytest
from unit.mlperf_hpc.submission.result_factory import ORG, make_checkout, origin_of, write_runs

from hpcai.cli.main import call
from hpcai.mlperf_hpc.submission import checks
from hpcai.mlperf_hpc.submission.package_check import ERRORS, NO_ERRORS, CheckerText


def submit(*words):
    return call(["mlperf", "submit", *map(str, words)])


@pytest.mark.parametrize(("passes", "status"), [(True, 0), (False, 2)])
def test_the_exit_status_is_0_only_if_nothing_fails(tmp_path, monkeypatch, capsys, passes, status):
    said = CheckerText(passes, NO_ERRORS if passes else ERRORS, ())
    monkeypatch.setattr(checks, "check_package", lambda *_: said)
    write_runs(tmp_path / "results", "oc20", record=origin_of(make_checkout(tmp_path)))
    found = submit(tmp_path / "results", "--output", tmp_path / "out", "--benchmark", "oc20", "--scale", "n1x1")
    text = capsys.readouterr().out
    assert found == status
    assert f"submission of {ORG}, closed division, rule set 3.0.0" in text
    assert "testbox_n1x1_fp32: strong oc20, 5 runs" in text
    assert f"package checker: {said.conclusion}" in text
    assert f"{0 if passes else 1} failures" in text


def test_another_rule_set_and_organisation_can_be_asked_for(tmp_path, monkeypatch, capsys):
    asked = []

    def check(folder, rule_set):
        asked.append((folder.name, rule_set))
        return CheckerText(True, NO_ERRORS, ())

    monkeypatch.setattr(checks, "check_package", check)
    write_runs(tmp_path / "results", "oc20")
    words = ("--org", "Another Lab", "--rule-set", "2.0.0", "--system", "big")
    assert submit(tmp_path / "results", "--output", tmp_path / "out", *words) == 2  # no git checkout has the code
    assert asked == [("Another_Lab", "2.0.0")]
    assert (tmp_path / "out/Another_Lab/systems/big_n1x1_fp32.json").exists()
    assert "the logs say" in capsys.readouterr().out
