"""Names, sizes and links of a repository. The wrong answers of the package's own check are asserted as well."""

import os

from mlperf_logging.repo_checker import repo_checker
from unit.mlperf_hpc.compliance.authority import quiet

from hpcai.mlperf_hpc.compliance.verdict import LARGEST_BYTES, check_hygiene
from hpcai.mlperf_hpc.rounds.index import SourceIndex


def hygiene_of(folder):
    index = SourceIndex(folder, entries=[])
    list(index.logs())
    return check_hygiene(index.entries)


def test_a_clean_folder(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "result_1.txt").write_text("x")
    assert hygiene_of(tmp_path) == []
    with quiet():
        assert repo_checker.run_checks(str(tmp_path)) is False, "the package now answers rightly: use it"


def test_names(tmp_path):
    (tmp_path / "with blank").mkdir()
    (tmp_path / "with blank" / ".DS_Store").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "any thing").write_text("x")
    found = {finding.source for finding in hygiene_of(tmp_path)}
    assert found == {"with blank", "with blank/.DS_Store"}


def test_sizes(tmp_path):
    for name, size_bytes in (("large", LARGEST_BYTES + 1), ("small", LARGEST_BYTES)):
        with (tmp_path / name).open("wb") as file:
            os.truncate(file.fileno(), size_bytes)
    (finding,) = hygiene_of(tmp_path)
    assert (finding.source, finding.severity) == ("large", "warning")


def test_links_are_followed_from_their_place(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "a" / "good").symlink_to("file")
    (tmp_path / "broken").symlink_to("file")
    (tmp_path / "folder").symlink_to("a")
    (finding,) = hygiene_of(tmp_path)
    assert (finding.source, finding.key) == ("broken", "link")
    assert "file" in finding.message
