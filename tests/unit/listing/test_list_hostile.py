import io
import os
import shutil
import tarfile
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.listing.list_factory import DAY, pack, write_declared
from unit.mlperf_hpc.log_factory import log_text, write_tree
from unit.refusals import refused

from hpcai.core.errors import ConfigError, ParseError
from hpcai.listing import entry_parts, packages, rankings, rounds, sources
from hpcai.listing.build import Wanted, build_site
from hpcai.mlperf_hpc.rounds import limits
from hpcai.records import folders
from hpcai.records.folders import write_manifest

TODAY = date(2026, 11, 25)


@pytest.fixture
def built(tmp_path, monkeypatch):
    monkeypatch.setattr("hpcai.listing.pages.write_pages", lambda *_: None)

    def build(today: date = TODAY):
        return build_site(Wanted(folders=(tmp_path / "in",), site=tmp_path / "site", today=today))

    return build


def codes(found) -> set[str]:
    return {reason.code for refusal in found.lost for reason in refusal.reasons}


@pytest.fixture
def package(tmp_path) -> Path:
    return pack(write_declared(tmp_path / "raw"), tmp_path / "in")


def test_a_changed_byte_is_refused_beside_what_is_sound(tmp_path, package, built):
    pack(write_declared(tmp_path / "raw", "sound"), tmp_path / "in")
    file = package / "content" / "paper.yaml"
    file.write_text(file.read_text().replace("1000.0", "9000.0"))
    found = built()
    assert codes(found) == {folders.CHANGED.code}
    assert [one.submission for one in found.edition.entries] == ["sound"]


def test_a_file_that_no_manifest_lists_is_refused(package, built):
    (package / "content" / "more.yaml").write_text("")
    assert codes(built()) == {folders.NOT_LISTED.code}


def test_a_missing_file_is_refused(package, built):
    (package / "content" / "paper.yaml").unlink()
    assert codes(built()) == {folders.NOT_THERE.code}


def test_a_manifest_that_names_files_outside_is_refused(package, built):
    with (package / folders.MANIFEST).open("a") as file:
        file.write(f"{'0' * 64}  ../../secret\n")
    assert codes(built()) == {folders.NOT_THERE.code}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../raw/paper.yaml", "missing"])
def test_a_link_is_refused_before_it_is_opened(package, built, target):
    (package / "content" / "paper.yaml").unlink()
    (package / "content" / "paper.yaml").symlink_to(target)
    assert codes(built()) == {sources.LINK.code}


def test_a_linked_submission_is_refused(tmp_path, package, built):
    (tmp_path / "in" / "linked").symlink_to(tmp_path / "raw")
    assert codes(built()) == {sources.LINK.code}


def test_a_pipe_is_refused_without_waiting(package, built):
    os.mkfifo(package / "content" / "pipe")
    assert codes(built()) == {sources.NO_FILE.code}


def test_a_submission_that_is_too_large_is_refused(package, built, monkeypatch):
    monkeypatch.setattr(sources, "BYTES", 10)
    assert codes(built()) == {sources.TOO_LARGE.code}


def test_a_submission_with_too_many_files_is_refused(package, built, monkeypatch):
    monkeypatch.setattr(sources, "FILES", 1)
    assert codes(built()) == {sources.TOO_LARGE.code}


@pytest.mark.parametrize(("days", "refused_for"), [(1, set()), (2, {packages.FUTURE.code})])
def test_a_package_of_tomorrow_comes_from_an_eastern_time_zone_a_later_one_is_refused(
    package, built, days, refused_for
):
    assert codes(built(DAY - timedelta(days=days))) == refused_for


def test_a_document_of_the_future_is_refused(tmp_path, built):
    write_declared(tmp_path / "in", day="2030-01-01")
    assert codes(built()) == {entry_parts.FUTURE.code}


def test_the_same_entry_from_two_submissions_is_listed_once_and_refused_once(tmp_path, package, built):
    shutil.copytree(package, tmp_path / "in" / "again")
    found = built()
    assert codes(found) == {rankings.TWICE.code}
    assert len(found.edition.entries) == 1


def test_another_kind_than_described_is_refused(package, built):
    text = (package / "submission.yaml").read_text()
    (package / "submission.yaml").write_text(text.replace("kind: declared", "kind: round"))
    (package / folders.MANIFEST).unlink()
    write_manifest(package)
    assert codes(built()) == {packages.OTHER_KIND.code}


def test_what_is_no_submission_is_named(tmp_path, package, built):
    (tmp_path / "in" / "notes.txt").write_text("nothing")
    (tmp_path / "in" / f"paper{sources.PULL_REQUEST}").write_text("Please accept")
    assert codes(built()) == {sources.UNKNOWN.code}


def test_markup_and_marks_stay_text_and_control_characters_are_refused(tmp_path, built):
    write_declared(tmp_path / "in", machine="'<script>alert(1)</script> \\u202e'")
    write_declared(tmp_path / "in", "other", title='"bell \\a"')
    found = built()
    assert [one.system[:8] for one in found.edition.entries] in ([], ["<script>"])
    assert len(found.lost) >= 1


def round_archive(folder: Path, extra: tarfile.TarInfo | None = None, content: bytes = b"") -> Path:
    write_tree(folder / "tree", logs=[log_text()])
    archive = folder / "in" / "round.tar"
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w") as tar:
        tar.add(folder / "tree", "round")
        if extra:
            extra.size = len(content)
            tar.addfile(extra, io.BytesIO(content))
    return archive


def test_an_archive_with_a_path_that_leaves_it_is_refused(tmp_path, built):
    round_archive(tmp_path, tarfile.TarInfo("../ORG/results/machine/strong/cosmoflow/result_2.txt"), b"x")
    assert codes(built()) == {rounds.UNSAFE.code}


def test_an_archive_with_a_link_to_a_log_is_refused(tmp_path, built):
    link = tarfile.TarInfo("round/ORG/results/machine/strong/cosmoflow/result_99.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    round_archive(tmp_path, link)
    assert codes(built()) == {rounds.UNSAFE.code}


def test_an_archive_with_a_name_that_is_no_text_is_refused(tmp_path, built):
    name = "round/ORG/results/machine/strong/cosmoflow/\udcff/result_2.txt"
    round_archive(tmp_path, tarfile.TarInfo(name), b"x")
    assert codes(built()) == {rounds.UNSAFE.code}


def test_an_archive_with_a_log_that_is_too_large_is_refused(tmp_path, built, monkeypatch):
    monkeypatch.setattr(limits, "FILE_BYTES", 500_000)
    name = "round/ORG/results/machine/strong/cosmoflow/result_2.txt"
    round_archive(tmp_path, tarfile.TarInfo(name), b" " * 500_001)
    assert codes(built()) == {rounds.UNSAFE.code}


def test_a_damaged_archive_is_refused(tmp_path, built):
    archive = round_archive(tmp_path)
    archive.write_bytes(archive.read_bytes()[:4000])
    assert len(built().lost) == 1


def test_logs_of_the_future_are_refused(tmp_path, built):
    round_archive(tmp_path)
    assert codes(built(today=date(2019, 1, 1))) == {rounds.FUTURE.code}


def test_what_is_no_submission_cannot_be_handed_in(tmp_path):
    source = tmp_path / "notes.txt"
    source.write_text("nothing")
    with refused(ConfigError, packages.NO_SUBMISSION):
        pack(source, tmp_path / "in")


def test_a_round_without_a_result_cannot_be_handed_in(tmp_path):
    write_tree(tmp_path / "round", pruned=[log_text()])
    with refused(ParseError, packages.NOT_ACCEPTED):
        pack(tmp_path / "round", tmp_path / "in")


def test_a_secret_is_never_written(tmp_path):
    source = write_declared(tmp_path / "raw", title="token ghp_" + "a" * 36)
    with refused(ParseError, packages.SECRETS):
        pack(source, tmp_path / "in")
    assert not (tmp_path / "in" / "paper").exists()


def test_host_names_user_names_and_paths_are_named_with_their_lines(tmp_path):
    file = tmp_path / "log.txt"
    file.write_text("started\nnode nid00042 read /scratch/project/data.tfrecord\n/home/jdoe\nsee https://a.org/b/c/d\n")
    found = list(packages.find_leaks({"log.txt": file}, {"nid00042": "host name"}))
    assert {(leak.what, leak.line, leak.found) for leak in found} >= {
        ("host name", 2, "nid00042"),
        ("path", 2, "/scratch/project/data.tfrecord"),
        ("user name", 3, "/home/jdoe"),
    }
    assert not any(leak.line == 4 for leak in found)


def test_what_an_owner_reads_does_not_grow_with_the_runs():
    """Each run has a scratch folder of its own; a thousand of them are one line, which names one and its file."""
    own = [packages.Leak("path", f"runs/r{n}/record.json", 7, f"/scratch/hpcai/{n:04}") for n in range(1000)]
    others = [packages.Leak("host name", "a.txt", 1, "nid1"), packages.Leak("path", "b.txt", 2, "/usr/bin/taskset")]
    package = packages.Package(Path("made"), SimpleNamespace(entries=()), 1, 1, (), (*own, *others))
    _, *lines = packages.say_package(package)
    assert len(lines) == 3
    (line,) = [line for line in lines if "/scratch/hpcai/0000" in line]
    assert "runs/r0/record.json:7" in line
    assert line.count("999") == 2
