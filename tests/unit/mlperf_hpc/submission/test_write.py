"""A whole submission: its files, the result of the official package checker, and refusals."""

import json
import stat
import subprocess
from pathlib import Path

import pytest
from unit.mlperf_hpc.submission.result_factory import ORG, RUNS, make_checkout, origin_of, read_checks, write_runs
from unit.record_factory import make_official_plan

from hpcai.core.errors import ConfigError, RecordError
from hpcai.mlperf_hpc.compliance.systems_check import REQUIRED_FIELDS
from hpcai.mlperf_hpc.submission import checks
from hpcai.mlperf_hpc.submission.checks import TOO_FEW
from hpcai.mlperf_hpc.submission.code import PARTS
from hpcai.mlperf_hpc.submission.model import Request
from hpcai.mlperf_hpc.submission.package_check import NO_ERRORS, CheckerText
from hpcai.mlperf_hpc.submission.write import write_submission
from hpcai.rules.judge import judge
from hpcai.rules.verdict import RunFacts

SYSTEM = "testbox_n1x1_fp32"


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """A complete, submitted study of all three benchmarks."""
    folder = tmp_path_factory.mktemp("complete")
    commit = make_checkout(folder)
    for benchmark in RUNS:
        # Ten runs that are a little faster than the reference: the package checker scales their score.
        epochs = {number: 22 + number % 2 for number in range(1, 11)} if benchmark == "cosmoflow" else None
        write_runs(folder / "results", benchmark, epochs=epochs, record=origin_of(commit))
    request = Request(folder / "results", folder / "submission")
    return request, write_submission(request)


@pytest.fixture
def no_checker(monkeypatch):
    """Replace the package checker, which takes seconds, by one that finds no errors."""
    monkeypatch.setattr(checks, "check_package", lambda *_: CheckerText(True, NO_ERRORS, ()))


def test_a_complete_study_passes_the_official_package_checker(complete):
    request, written = complete
    assert written.package.conclusion.startswith(NO_ERRORS)
    assert written.package.remarks == ()
    assert written.failures == ()
    assert read_checks(request.output)["passes"]


def test_the_tree_is_the_one_that_the_rules_describe(complete):
    request, _ = complete
    org = request.output / ORG
    assert sorted(path.name for path in org.iterdir()) == ["benchmarks", "results", "systems"]
    for benchmark, runs in RUNS.items():
        logs = sorted((org / f"results/{SYSTEM}/strong/{benchmark}").glob("result_*.txt"))
        assert len(logs) == runs
        own = org / f"benchmarks/{benchmark}/implementations/{SYSTEM}"
        assert {"README.md", f"{SYSTEM}_hpcai.json", "setup.sh", "init_datasets.sh", "run_and_time.sh"} <= {
            path.name for path in own.iterdir()
        }
        for script in own.glob("*.sh"):
            assert script.stat().st_mode & stat.S_IXUSR
            assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
        assert len(list((own / "plans").iterdir())) == runs


def test_logs_are_the_runs_own_byte_by_byte(complete):
    request, _ = complete
    for number in range(1, 6):
        own = request.results / f"runs/deepcam/fp32/n1x1/r{number}/raw/mllog.txt"
        assert (
            own.read_bytes()
            == (request.output / ORG / f"results/{SYSTEM}/strong/deepcam/result_{number}.txt").read_bytes()
        )


def test_the_package_checkers_scaling_stays_in_the_tree_and_in_the_list_of_files(complete):
    request, _ = complete
    scaling = request.output / ORG / f"results/{SYSTEM}/strong/cosmoflow/scaling.json"
    assert json.loads(scaling.read_text())["scaling_factor"] == pytest.approx(1.014815, rel=1e-6)
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "MANIFEST.sha256"], cwd=request.output, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stdout
    listed = (request.output / "MANIFEST.sha256").read_text()
    files = [path for path in request.output.rglob("*") if path.is_file()]
    assert len(listed.splitlines()) == len(files) - 1
    assert "scaling.json" in listed


def test_the_code_is_that_of_the_commit_without_tests(complete):
    request, _ = complete
    code = request.output / ORG / "benchmarks/oc20/implementations/hpcai"
    assert (code / "src/hpcai/__init__.py").read_text() == '"""Code."""\n'
    assert sorted(path.name for path in code.iterdir()) == ["Makefile", "README.md", "src"]


def test_the_system_file_has_all_fields_and_blank_ones_are_listed(complete):
    request, written = complete
    fields = json.loads((request.output / ORG / f"systems/{SYSTEM}.json").read_text())
    assert set(REQUIRED_FIELDS) <= set(fields)
    assert (fields["submitter"], fields["division"], fields["status"]) == (ORG, "closed", "onprem")
    assert fields["system_name"] == SYSTEM
    assert fields["number_of_nodes"] == "1"
    assert fields["framework"] == "TensorFlow 2.18.1, Horovod 0.28.1"
    blank = {name for name, value in fields.items() if value == ""}
    assert {"cooling", "host_processor_model_name"} <= blank
    assert {point.field for point in written.open_points} == blank


def test_nothing_of_the_machine_is_told(complete):
    request, _ = complete
    for path in request.output.rglob("*"):
        assert not path.is_symlink()
        if path.is_file():
            text = path.read_text()
            for word in (str(request.results), "/opt/env", "/data/project", "/local/x", "node0"):
                assert word not in text, f"{path}: {word}"


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_runs_give_the_same_bytes_elsewhere_and_again(tmp_path, no_checker):
    write_runs(tmp_path / "results", "oc20")
    for name in ("one", "two", "two"):
        write_submission(Request(tmp_path / "results", tmp_path / name))
    assert content_of(tmp_path / "one") == content_of(tmp_path / "two")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_too_few_runs_on_generated_data_are_written_and_listed_with_their_reasons(tmp_path):
    log = {"train_samples": 96, "eval_samples": 15, "global_batch_size": 4, "epochs": 3}
    write_runs(tmp_path / "results", "deepcam", numbers=(1, 2, 3), log=log, record={"data_source": "generated"})
    written = write_submission(Request(tmp_path / "results", tmp_path / "out"))
    assert (tmp_path / "out" / ORG / f"results/{SYSTEM}/strong/deepcam/result_3.txt").exists()
    assert not written.package.passes
    by_check = {}
    for problem in written.failures:
        by_check.setdefault(problem.check, []).append(problem)
    assert {"package_checker", "compliance", "code"} <= set(by_check)
    assert {problem.reason for problem in by_check["package_checker"]} == {
        TOO_FEW(runs=3, needed=5),
        "generated data",
    }
    messages = " ".join(problem.message for problem in by_check["compliance"])
    assert "train_samples has the value 96" in messages
    assert "eval_samples has the value 15" in messages
    # Our own verdict and the package checker agree on what fails.
    assert not [problem for problem in written.problems if "error of ours" in problem.message]


def test_a_log_that_fails_otherwise_is_not_blamed_on_the_data(tmp_path, no_checker):
    log = {"train_samples": 96, "eval_samples": 15, "opt_eps": 0.1}
    write_runs(tmp_path / "results", "deepcam", log=log, record={"data_source": "generated"})
    failures = write_submission(Request(tmp_path / "results", tmp_path / "out")).failures
    logs = [problem for problem in failures if "logs do not comply" in problem.message]
    assert [problem.reason for problem in logs] == [""]
    assert [problem.reason for problem in failures if "opt_eps" in problem.message] == [""]


def test_one_run_that_missed_the_target_is_a_warning_and_two_are_failures(tmp_path, no_checker):
    for count in (1, 2):
        results = tmp_path / f"results{count}"
        missed = range(1, count + 1)
        write_runs(results, "oc20", numbers=missed, log={"scores": [0.5] * 26, "status": "aborted"})
        write_runs(results, "oc20", numbers=range(count + 1, 6))
        problems = write_submission(Request(results, tmp_path / f"out{count}")).problems
        found = {problem.severity for problem in problems if "eval_error" in problem.message}
        assert found == {"warning" if count == 1 else "failure"}


def test_what_the_rules_say_of_a_run_is_told_though_the_package_checker_cannot_see_it(tmp_path, no_checker):
    verdicts = judge(make_official_plan("cosmoflow"), RunFacts(data_source="generated"))
    write_runs(tmp_path / "results", "cosmoflow", record={"data_source": "generated", "verdicts": verdicts})
    failures = write_submission(Request(tmp_path / "results", tmp_path / "out")).failures
    rules = {problem.message.partition(" (")[0]: problem.reason for problem in failures if problem.check == "rules"}
    assert rules["generated data"] == "generated data"


def test_a_word_of_the_machine_in_a_log_is_named_and_the_log_left_as_it_is(tmp_path, no_checker):
    write_runs(tmp_path / "results", "oc20", log={"note": "run by /home/someone/train.py on node0"})
    written = write_submission(Request(tmp_path / "results", tmp_path / "out"))
    private = [problem for problem in written.failures if problem.check == "hygiene"]
    assert {problem.place.rpartition("/")[2] for problem in private} == {f"result_{n}.txt" for n in range(1, 6)}
    assert {"/home/someone" in problem.message or "node0" in problem.message for problem in private} == {True}
    log = tmp_path / "out" / ORG / f"results/{SYSTEM}/strong/oc20/result_1.txt"
    assert "/home/someone/train.py" in log.read_text()


def test_the_own_code_of_a_submission_holds_no_home_folder():
    root = Path(__file__).parents[4]
    files = [file for part in PARTS for file in [root / part, *(root / part).rglob("*")] if file.is_file()]
    assert len(files) > 500
    assert [file for file in files if file.suffix != ".pyc" and checks.HOME.search(file.read_bytes())] == []


def test_a_log_that_is_not_the_recorded_one_is_refused_and_nothing_written(tmp_path, no_checker):
    write_runs(tmp_path / "results", "oc20")
    log = tmp_path / "results/runs/opencatalyst/fp32/n1x1/r2/raw/mllog.txt"
    log.write_text(log.read_text().replace('"eval_error", "value": 0.0', '"eval_error", "value": 0.00'))
    log.write_text(log.read_text() + "\n")
    with pytest.raises(RecordError, match=r"r2/raw/mllog\.txt: found SHA-256"):
        write_submission(Request(tmp_path / "results", tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_is_no_earlier_submission_is_not_replaced(tmp_path, kind):
    output = tmp_path / "out"
    if kind == "folder":
        output.mkdir()
        (output / "thesis.txt").write_text("years of work")
    elif kind == "file":
        output.write_text("x")
    else:
        output.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="choose another --output"):
        write_submission(Request(tmp_path / "results", output))
    assert kind != "folder" or (output / "thesis.txt").exists()


def test_an_earlier_submission_and_an_empty_folder_are_replaced(tmp_path, no_checker):
    write_runs(tmp_path / "results", "oc20")
    (tmp_path / "out").mkdir()
    request = Request(tmp_path / "results", tmp_path / "out")
    write_submission(request)
    (tmp_path / "out/left.txt").write_text("added by hand")
    write_submission(request)
    assert not (tmp_path / "out/left.txt").exists()


def test_the_code_holds_every_lock_file_that_its_environments_are_made_from():
    root = Path(__file__).parents[4]
    assert {path.name for path in root.glob("requirements*.lock")} <= set(PARTS)
