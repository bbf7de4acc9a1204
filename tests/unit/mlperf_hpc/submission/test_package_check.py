"""Facts parsed from the package checker's text."""

from hpcai.mlperf_hpc.submission.package_check import BROKE_DOWN, read_verdict

HEAD = """INFO -  Checking System Description Files
INFO -   System description checker passed for machine
INFO - ------------------------------
INFO -  Running compliance checks in dir ORG/results/machine/strong/oc20
INFO - ------------------------------
INFO - Run 1/5
INFO - Running compliance on file: ORG/results/machine/strong/oc20/result_1.txt
INFO -  Compliance checks: hpc_3.0.0/common.yaml
"""
BAD = """WARNING -  Found parsing errors:
WARNING -    ^^  Unterminated string
------------------------------
Log lines had parsing errors.
ERROR -  2 files do not comply, directory cannot be accepted
INFO -  Running Seed Checker
ERROR -  Seed checker failed and found the following errors: Result file result_2.txt logs no seed.
Result file result_3.txt logs no seed.
ERROR - RCP Test Failed: RCP found
INFO - ------------------------------
"""
FOLDER = "ORG/results/machine/strong/oc20"


def test_no_errors_is_what_the_text_says_and_not_the_exit_status():
    verdict = read_verdict(HEAD + "INFO - PACKAGE CHECKER FOUND NO ERRORS, SUCCESS !\nINFO - ----\n")
    assert verdict.passes
    assert verdict.conclusion == "PACKAGE CHECKER FOUND NO ERRORS, SUCCESS !"
    assert verdict.remarks == ()


def test_errors_are_those_of_a_folder_and_warnings_those_of_a_log():
    verdict = read_verdict(
        HEAD + BAD + "INFO - PACKAGE CHECKER FOUND ERRORS, LOOK INTO ERROR LOG LINES AND FIX THEM.\n"
    )
    assert not verdict.passes
    errors = [(remark.place, remark.text) for remark in verdict.remarks if remark.level == "ERROR"]
    assert sorted(errors) == [
        (FOLDER, "2 files do not comply, directory cannot be accepted"),
        (FOLDER, "RCP Test Failed: RCP found"),
        (
            FOLDER,
            "Seed checker failed and found the following errors: Result file result_2.txt logs no seed. "
            "Result file result_3.txt logs no seed.",
        ),
    ]
    warnings = [remark for remark in verdict.remarks if remark.level == "WARNING"]
    assert {remark.place for remark in warnings} == {f"{FOLDER}/result_1.txt"}


def test_a_checker_that_breaks_down_has_not_passed():
    verdict = read_verdict(HEAD + BAD + 'Traceback (most recent call last):\n  File "/home/x/y.py"\nKeyError: 3\n')
    assert not verdict.passes
    assert verdict.conclusion == BROKE_DOWN(words="KeyError: 3")
    assert not any("/home/x" in remark.text for remark in verdict.remarks)
    assert not read_verdict("").passes
