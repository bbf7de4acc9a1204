"""Seeds of a result: equal to the package's seed checker."""

import pytest
from mlperf_logging.package_checker.seed_checker import SeedChecker
from unit.mlperf_hpc.compliance.authority import quiet
from unit.mlperf_hpc.log_factory import START_MS, log_events, log_text, point, text_of

from hpcai.mlperf_hpc.compliance.seeds import USED_BEFORE, check_seeds, read_seeds
from hpcai.parsers.mllog import parse_mllog

LATER = [point(START_MS, "seed", 7)]
BARE = [{**point(START_MS, "seed", 7), "metadata": {}}]
CASES = {
    "different": ([log_text(seed=1), log_text(seed=2)], []),
    "equal": ([log_text(seed=1), log_text(seed=2), log_text(seed=1)], ["result_3.txt"]),
    "none": ([log_text(seed=None), log_text(seed=2)], ["result_1.txt"]),
    "text": ([log_text(seed="abc"), log_text(seed="5")], ["result_1.txt"]),
    "number as text equals the number": ([log_text(seed="5"), log_text(seed=5)], ["result_2.txt"]),
    "null": ([log_text(seed=2), text_of([*log_events(seed=None), *BARE])], ["result_2.txt"]),
    "infinite": ([log_text(seed=float("inf")), log_text(seed=2)], ["result_1.txt"]),
    "two in a log": ([text_of([*log_events(seed=1), *LATER]), log_text(seed=2)], []),
    "twice in a log": ([text_of([*log_events(seed=7), *LATER]), log_text(seed=2)], ["result_1.txt"]),
    "unreadable line": ([log_text(seed=1) + ":::MLLOG {\n", log_text(seed=1)], ["result_1.txt"]),
    "no event": ([log_text(seed=1) + ":::MLLOG {}\n", log_text(seed=2)], ["result_1.txt"]),
}


def logs_of(texts):
    return [
        read_seeds(parse_mllog(text.encode(), ""), f"result_{number}.txt") for number, text in enumerate(texts, start=1)
    ]


@pytest.mark.parametrize("kind", CASES)
def test_failures_equal_the_packages(kind, tmp_path):
    texts, failing = CASES[kind]
    files = []
    for number, text in enumerate(texts, start=1):
        files.append(tmp_path / f"result_{number}.txt")
        files[-1].write_text(text)
    failures = [finding for finding in check_seeds(logs_of(texts)) if finding.failed]
    assert [finding.source for finding in failures] == failing
    with quiet(), pytest.warns() if "in a log" in kind else quiet():
        assert SeedChecker("3.0.0").check_seeds([str(file) for file in files]) == (not failing)


def test_equal_seeds_name_both_files_and_lines():
    texts = [log_text(seed=333), "first line\n" + log_text(seed=333)]
    (finding,) = check_seeds(logs_of(texts))
    line = next(number for number, words in enumerate(texts[0].split("\n"), start=1) if '"seed"' in words)
    assert (finding.source, finding.line) == ("result_2.txt", line + 1)
    assert finding.message == USED_BEFORE(seed=333, file="train.py", code_line=1, other="result_1.txt", line=line)


def test_more_than_one_seed_is_warned_of():
    (finding,) = check_seeds(logs_of(CASES["two in a log"][0]))
    assert finding.severity == "warning"
