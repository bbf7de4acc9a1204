"""Failed jobs: their traces in Slurm, logs and Snakemake, and the reports of doctor and status."""

import json

import pytest
from unit.campaign.result_folders import finish_run
from unit.campaign.test_doctor import doctor

from hpcai.campaign.doctor import REFUSED_BY_SLURM, diagnose
from hpcai.campaign.doctor_text import diagnosis_as_dict
from hpcai.campaign.failures import FILE, NO_REASON, OUTCOMES_RULE, failures_of, last_words, say_failures
from hpcai.campaign.status import say_status, status_of

WORDS = "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)"
REFUSED = f"SLURM sbatch failed. The error message was '{WORDS}'.\n    sbatch call:\n        sbatch --parsable -t 240\n"
RUN = "results/runs/cosmoflow_mini/fp32/n1x2/r1/record.json"
PACK = "data/cosmoflow_mini/packed/packed.json"
LOG = "logs/train/cosmoflow_mini.fp32.n1x2.r1.log"


@pytest.fixture
def fails(results):
    """Write down that jobs failed, as the workflow does."""

    def write(rule, *outputs, message=None, log=""):
        file = results.parent / FILE
        file.parent.mkdir(exist_ok=True)
        line = {"time_s": 1.0, "rule": rule, "output": outputs, "log": [log] if log else [], "message": message}
        with file.open("a") as stream:
            stream.write(f"{json.dumps(line)}\n")

    return write


def write_log(results, text, log=LOG):
    path = results.parent / log
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_what_slurm_did_not_take_is_told_with_its_words(results, fails, capsys):
    (results.parent / PACK).unlink()
    fails("pack_data", PACK, message=REFUSED, log="logs/pack_data/none.log")
    fails("train", RUN, message=REFUSED)
    (pack, train) = failures_of(results.parent)
    assert (pack.is_refused, train.is_refused) == (True, True)
    assert (pack.reason, train.reason) == (WORDS, WORDS)
    assert train.folder == "runs/cosmoflow_mini/fp32/n1x2/r1"
    status, text = doctor(capsys)
    assert status == 2
    assert REFUSED_BY_SLURM(jobs=f"pack_data ({PACK}), runs/cosmoflow_mini/fp32/n1x2/r1: {WORDS}") in text
    assert "-> runtime: lower it" in text
    assert "hpcai check STUDY --profile PROFILE" in text
    assert f"not started: runs/cosmoflow_mini/fp32/n1x2 r1: {WORDS}" in text
    assert WORDS in say_status(status_of(results))
    assert [one["is_refused"] for one in diagnosis_as_dict(diagnose(results))["failures"]] == [True, True]


def test_the_last_word_of_a_log_is_the_reason(results, fails, capsys):
    said = "packed/x.tar: no such file; pack it"
    write_log(results, f"2026-11-24 07:53:11,123 starts\n2026-11-24 07:53:12,123 {said}\n")
    fails("train", RUN, log=LOG, message="SLURM-job '7' failed, SLURM status is: 'FAILED'. See the log.")
    text = doctor(capsys)[1]
    assert f"- failed: runs/cosmoflow_mini/fp32/n1x2/r1: {said}" in text
    assert f"-> fix the cause, see {LOG}" in text


def test_without_a_log_snakemake_has_the_word(results, fails):
    said = "SLURM-job '7' failed, SLURM status is: 'TIMEOUT'."
    fails("train", RUN, message=f"{said}\nMore")
    fails("train", RUN.replace("r1", "r2"))
    assert [one.reason for one in failures_of(results.parent)] == [said, NO_REASON()]


def test_what_was_made_good_since_is_no_failure(results, fails):
    fails("train", RUN, message=REFUSED)
    finish_run(results, ranks_per_node=2)
    fails(OUTCOMES_RULE, "results/outcomes.json", message="1 of 2 points have none")  # the runs tell more
    assert failures_of(results.parent) == ()


def test_of_a_job_that_was_tried_again_the_last_try_counts(results, fails):
    fails("train", RUN, message="first")
    fails("train", RUN, message="second")
    assert [one.reason for one in failures_of(results.parent)] == ["second"]


@pytest.mark.parametrize("content", ["", "{", '{"rule": "x"}', "[]", "\0\0"])
def test_a_line_that_was_cut_is_left_out(results, fails, content):
    fails("train", RUN, message="whole")
    with (results.parent / FILE).open("a") as file:
        file.write(content)
    assert [one.reason for one in failures_of(results.parent)] == ["whole"]


def test_many_jobs_of_one_reason_are_one_line(results, fails):
    for number in range(1, 9):
        fails("train", RUN.replace("r1", f"r{number}"), message=REFUSED)
    ((line, _),) = say_failures(failures_of(results.parent))
    assert "r1, " in line
    assert "and 5 more" in line


def test_an_error_of_our_own_is_told_whole(tmp_path):
    log = tmp_path / "x.log"
    log.write_text(
        "2026-11-24 07:53:12,123 CRITICAL stopped\nTraceback ...\nhpcai.core.errors.NoResultError: 1 of 2:\n  a: b\n"
    )
    assert last_words(log) == "1 of 2:\n  a: b"
    log.write_text("chatter\nerror: no room\n")
    assert last_words(log) == "no room"
    log.write_text("\n")
    assert last_words(log) == ""
    assert last_words(tmp_path / "none.log") == ""
