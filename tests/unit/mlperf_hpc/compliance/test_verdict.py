"""The verdict on sources of all kinds, as text, as JSON and as an exit status."""

import json
import tarfile

import pytest
from unit.mlperf_hpc.compliance.test_package import BAD, five, ten
from unit.mlperf_hpc.log_factory import log_text, write_tree

from hpcai.cli.main import call as call_hpcai
from hpcai.core.errors import ConfigError, ParseError
from hpcai.mlperf_hpc.compliance.verdict import judge


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "hpc_results_v2.0"
    write_tree(root, logs=ten())
    write_tree(root, org="Other", benchmark="deepcam", logs=five("deepcam", 13))
    return root


def call(*words):
    return call_hpcai(["mlperf", "check", *map(str, words)])


def test_a_repository(repository):
    verdict = judge(repository)
    assert verdict.complies
    assert (verdict.rule_set, verdict.name) == ("2.0.0", "v2.0")
    assert verdict.package_answers == {"ORG": "no errors", "Other": "no errors"}
    assert [(one.org, one.benchmark, one.runs) for one in verdict.submissions] == [
        ("ORG", "cosmoflow", 10),
        ("Other", "deepcam", 5),
    ]
    assert verdict.logs == ()
    assert verdict.not_checked == ()
    assert verdict.checker.startswith("mlperf-logging ")


def test_an_archive_has_the_same_verdict(repository, tmp_path):
    archive = tmp_path / "hpc_results_v2.0.tar.xz"
    with tarfile.open(archive, "w:xz") as content:
        content.add(repository, repository.name)
    packed, folder = judge(archive), judge(repository)
    assert packed.package_answers == folder.package_answers
    assert packed.complies
    assert [one.accepted for one in packed.submissions] == [True, True]
    assert "not a folder" in packed.not_checked[0]


def test_a_single_log(tmp_path):
    log = tmp_path / "mllog.txt"
    log.write_text(log_text())
    verdict = judge(log)
    assert verdict.complies
    assert len(verdict.logs) == 1
    assert verdict.submissions == ()
    log.write_text(BAD)
    assert not judge(log).complies


def test_a_folder_of_logs(tmp_path):
    for number, text in enumerate(ten(), start=1):
        (tmp_path / f"result_{number}.txt").write_text(text)
    verdict = judge(tmp_path, "3.0.0")
    assert verdict.complies
    assert verdict.package_answers == {}
    assert "not an organisation's folder" in verdict.not_checked[0]
    (tmp_path / "result_1.txt").unlink()
    assert not judge(tmp_path, "3.0.0").complies


def test_one_organisation_of_two_fails(repository):
    write_tree(repository, org="Other", benchmark="deepcam", logs=five("deepcam", 13, opt_eps=1e-8))
    verdict = judge(repository)
    assert not verdict.complies
    assert verdict.package_answers == {"ORG": "no errors", "Other": "errors"}


def test_json(repository, tmp_path):
    write_tree(repository, logs=[*ten()[:9], log_text(seed=9, scores=[float("nan")] * 4)])
    assert call(repository, "--json", tmp_path / "verdict.json") == 0
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["complies"] is True
    assert verdict["submissions"][0]["complying"] == 9
    failures = [log for log in verdict["submissions"][0]["logs"] if not log["complies"]]
    assert failures[0]["findings"][0]["rule"].startswith("hpc_2.0.0/closed_cosmoflow.yaml: eval_error")


def test_text(repository, capsys):
    write_tree(repository, logs=[*ten()[:8], BAD, BAD])
    assert call(repository) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        f"{repository}: does not comply; rule set 2.0.0: the round is named v2.0; mlperf-logging"
    )
    assert any("2 x [hpc_2.0.0/closed_cosmoflow.yaml: eval_error" in line for line in lines)
    seed = next(line for line in lines if "was used before" in line)
    assert "ORG/results/machine/strong/cosmoflow/result_9.txt:" in seed
    assert "--warnings shows them" in lines[-1] or "warnings" not in lines[-1]


def test_all_findings_have_a_line_each(repository, capsys):
    write_tree(repository, logs=[log_text(seed=seed, number_of_nodes=None) for seed in range(10)])
    assert call(repository) == 2
    grouped = capsys.readouterr().out
    assert "and 7 more (--all)" in grouped
    call(repository, "--all", "--warnings")
    assert capsys.readouterr().out.count("result_10.txt [hpc_2.0.0/closed_common.yaml: number_of_nodes") == 1


def test_warnings_are_told_when_asked_for(repository, capsys):
    write_tree(repository, logs=ten(sgd_opt_momentum=0.5))
    assert call(repository) == 0
    assert "warnings, which decide nothing: 10" in capsys.readouterr().out
    call(repository, "--warnings")
    assert "sgd_opt_momentum is 0.5, the closed division wants 0.9" in capsys.readouterr().out


def test_bad_input(tmp_path):
    with pytest.raises(ParseError, match="no such file"):
        call(tmp_path / "nothing")
    (tmp_path / "log").write_text("an ordinary text")
    with pytest.raises(ParseError, match="expected an MLPerf log"):
        call(tmp_path / "log")
    (tmp_path / "result_1.txt").write_text(log_text())
    with pytest.raises(ConfigError, match=r"expected one of 1\.0\.0, 2\.0\.0, 3\.0\.0"):
        call(tmp_path / "result_1.txt", "--rule-set", "4.0")
