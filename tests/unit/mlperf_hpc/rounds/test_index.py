"""Each source is opened once and each log is parsed once, for any sequence of requests."""

import datetime
import shutil
import tarfile
from collections import Counter

import pytest
from unit.mlperf_hpc.log_factory import log_text, write_tree

from hpcai.mlperf_hpc.analysis.results_folder import import_facts, import_tables, read_rounds
from hpcai.mlperf_hpc.compliance import choose, verdict
from hpcai.mlperf_hpc.compliance.choose import first_time_ms
from hpcai.mlperf_hpc.compliance.verdict import judge
from hpcai.mlperf_hpc.rounds import reading, source
from hpcai.mlperf_hpc.rounds.index import SourceIndex
from hpcai.parsers.mllog import parse_mllog


def in_year(year):
    return datetime.datetime(year, 7, 1, tzinfo=datetime.UTC).timestamp() * 1000


@pytest.fixture
def tree(tmp_path):
    """A tree without a round in its name; only its newest log gives the rule set."""
    tree = tmp_path / "some"
    place = write_tree(tree, logs=[log_text(seed=year, start_ms=in_year(year)) for year in (2021, 2022, 2023)])
    shutil.copy(place / "result_1.txt", place / "result_a.txt")
    (place / "package_checker_params").write_text("rcp-bypass")
    (place / "scaling.json").write_text('{"scaling_factor": 1.5}')
    (tree / "benchmarks/systems").mkdir(parents=True)
    (tree / "benchmarks/systems/no one.json").write_text("{")
    (tree / ".git").mkdir()
    return tree


@pytest.fixture
def counts(monkeypatch):
    """How often each file is opened, each archive unpacked, and each log parsed."""
    opened, parsed = Counter(), Counter()

    def counting(module, name, count, key):
        real = getattr(module, name)

        def counted(*arguments):
            count[str(key(*arguments))] += 1
            return real(*arguments)

        monkeypatch.setattr(module, name, counted)

    counting(source, "read_start", opened, lambda path: path.name)
    counting(source, "read_archive", opened, lambda path, *_: path.name)
    counting(reading, "parse_mllog", parsed, lambda _, path: path.rpartition("/")[2])
    counting(verdict, "parse_mllog", parsed, lambda _, path: path.rpartition("/")[2])
    return opened, parsed


LOGS = Counter(f"result_{number}.txt" for number in (1, 2, 3))


def test_a_check_opens_each_file_once_and_parses_each_log_once(tree, counts):
    opened, parsed = counts
    found = judge(tree)
    assert found.rule_set == "3.0.0"
    assert {log.rule_set for one in found.submissions for log in one.logs} == {"3.0.0"}
    assert parsed == LOGS + Counter(["result_a.txt"])
    assert opened == parsed + Counter(["machine.json", "package_checker_params", "scaling.json"])


@pytest.mark.parametrize("read", [judge, lambda path: import_tables(read_rounds([path]))], ids=["check", "import"])
def test_an_archive_is_unpacked_once(tree, counts, tmp_path, read):
    opened, parsed = counts
    with tarfile.open(tmp_path / "some.tar.gz", "w:gz") as archive:
        archive.add(tree, "some")
    read(tmp_path / "some.tar.gz")
    assert opened == Counter(["some.tar.gz"])
    assert parsed - Counter(["result_a.txt"]) == LOGS


def test_an_import_opens_each_file_once(tree, counts):
    opened, parsed = counts
    rounds = read_rounds([tree])
    import_tables(rounds)
    assert import_facts(rounds)["imported"][0]["logs"] == 3
    assert parsed == LOGS
    assert max(opened.values()) == 1


def test_folders_and_names_of_an_index(tree):
    index = SourceIndex(tree, entries=[])
    assert len(list(index.logs())) == 3
    assert index.organisations() == ["ORG"]
    assert index.folders_in("ORG/results") == ["machine"]
    assert index.folders_in(".") == [".git", "ORG", "benchmarks"]
    assert index.names_in("ORG/systems") == ["machine.json"]
    assert index.names_in("ORG/nothing") == index.folders_in("ORG/nothing") == []
    assert [path.rpartition("/")[2] for path in index.unnumbered] == ["result_a.txt"]
    assert "benchmarks/systems/no one.json" in {entry.path for entry in index.entries}
    # Files without results are examined by name only.
    assert not [path for path in index.contents if path.startswith("benchmarks")]
    assert [one.kind for one in index.repairs] == ["result_without_number"]


@pytest.mark.parametrize(
    "text",
    [
        log_text(start_ms=in_year(2022)),
        "chatter\n" + log_text() + "more",
        ":::MLLOG {\n:::MLLOG []\n" + log_text(),
        ":::MLLOG {} " + log_text().replace("\n", "\r\n"),
        log_text().replace('"time_ms": 17', '"time_ms": -17', 3),
        log_text()[:2500],
        ":::MLLOG {}\n",
        "",
    ],
)
def test_the_first_time_of_a_log_is_that_of_the_whole_log(text, monkeypatch):
    parsed = []
    monkeypatch.setattr(choose, "parse_mllog", lambda line, _: parsed.append(line) or parse_mllog(line, ""))
    times = [event.time_ms for event in parse_mllog(text.encode(), "").events if event.time_ms >= 0]
    assert first_time_ms(text.encode()) == (times[0] if times else None)
    assert len(parsed) <= 4
