"""Storage bandwidth."""

import errno
import os
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from unit.refusals import told

from hpcai.config.machine import NOT_SET
from hpcai.core.machine_lock import WAITS, machine_to_itself
from hpcai.machine.ceilings import agreement, storage
from hpcai.machine.ceilings.storage import file_system_of, measure_storage, page_cache_state, usable_bytes
from hpcai.profiles.ceilings_view import ceiling_rows

SIZE = 1 << 20


def measure(places, **options):
    return measure_storage(places, SIZE, (1, 2), 1, **options)


@pytest.fixture(autouse=True)
def as_asked(monkeypatch):
    """No repetitions beyond the requested ones, however noisy the test disk is."""
    monkeypatch.setattr(agreement, "MOST_ROUNDS", 0)


@pytest.fixture
def on_disk(monkeypatch):
    """Treat the test's folder as on a disk, wherever it is."""
    monkeypatch.setattr(storage, "file_system_of", lambda _folder: "ext4")


def test_writes_and_reads_are_samples_and_no_file_is_left(tmp_path, on_disk):
    report = measure({"node-local": str(tmp_path)})
    kinds = Counter((sample.kind, sample.threads) for sample in report.samples)
    assert kinds["storage_write", 1] == kinds["storage_write", 2] == 1
    assert kinds["storage_read", 1] >= 1
    assert {sample.work for sample in report.samples} == {SIZE}
    assert {sample.place for sample in report.samples} == {"node-local"}
    assert all(sample.page_cache for sample in report.samples if sample.kind == "storage_read")
    assert list(tmp_path.iterdir()) == []


def test_places_on_one_file_system_are_measured_once(tmp_path, on_disk):
    (tmp_path / "scratch").mkdir()
    report = measure({"node-local": str(tmp_path / "scratch"), "shared": str(tmp_path)})
    first, second = (
        [(one.kind, one.threads, one.duration_s) for one in report.samples if one.place == place]
        for place in ("node-local", "shared")
    )
    assert first == second != []
    assert all("file system of node-local" in one.setting for one in report.samples if one.place == "shared")


def test_what_does_not_agree_is_repeated_and_then_disturbed(tmp_path, on_disk, monkeypatch):
    monkeypatch.setattr(agreement, "MOST_ROUNDS", 3)
    rates = {1: iter([100e6, 50e6, 98e6]), 2: iter([100e6, 99e6 / 2, 90e6, 80e6])}

    def measure_files(test, _folder, _content, samples):
        samples.append(test.sample("storage_write", "write", test.total_bytes / next(rates[test.streams])))

    monkeypatch.setattr(storage, "_measure_files", measure_files)
    rows = ceiling_rows(measure({"shared": str(tmp_path)}), "x").dropna(subset="value").set_index("threads")
    assert rows["n"].to_dict() == {1: 3, 2: 4}
    assert rows["status"].to_dict() == {1: "measured", 2: "disturbed"}
    assert "10.0% apart" in rows.loc[2, "reason"]


def test_storage_is_measured_while_nothing_else_is_timed(tmp_path, on_disk, caplog):
    caplog.set_level("INFO", "hpcai")
    inside = threading.Event()
    thread = threading.Thread(target=lambda: (measure({"shared": str(tmp_path)}), inside.set()))
    with machine_to_itself(print):
        thread.start()
        assert not inside.wait(0.5)
    thread.join(30)
    assert inside.is_set()
    assert WAITS() in caplog.text


def test_what_was_written_is_what_is_read(tmp_path, on_disk, monkeypatch):
    seen = []
    read = storage._read

    def watched(file):
        seen.append(os.fstat(file.fileno()).st_size)
        read(file)

    monkeypatch.setattr(storage, "_read", watched)
    measure({"node-local": str(tmp_path)})
    assert set(seen) == {SIZE, SIZE // 2}


def test_reads_from_memory_are_kept_but_make_no_rate(tmp_path, on_disk, monkeypatch):
    monkeypatch.setattr(storage, "storage_read_bytes", lambda: 0)
    report = measure({"shared": str(tmp_path)})
    assert {one.kind for one in report.best} == {"storage_write"}
    assert {sample.page_cache for sample in report.samples if sample.kind == "storage_read"} == {"warm"}
    (missing,) = report.not_measured
    assert missing.kind == "storage_read"
    reads = sum(sample.kind == "storage_read" for sample in report.samples)
    assert storage.WARM_READS(warm=reads, reads=reads) in missing.reason


def test_where_the_kernel_does_not_count_nothing_is_claimed(tmp_path, on_disk, monkeypatch):
    monkeypatch.setattr(storage, "storage_read_bytes", lambda: None)
    report = measure({"shared": str(tmp_path)})
    assert {one.kind for one in report.best} == {"storage_write"}
    assert "does not report" in report.not_measured[0].reason


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [(0, 1000, "cold"), (5, 995, "cold"), (0, 989, "warm"), (0, 0, "warm"), (None, 5, "unknown"), (5, None, "unknown")],
)
def test_cold_is_what_the_kernel_has_fetched(before, after, state):
    assert page_cache_state(before, after, 1000) == state


def test_a_file_system_in_memory_is_no_storage(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "file_system_of", lambda _folder: "tmpfs")
    report = measure({"node-local": str(tmp_path)})
    assert report.samples == ()
    assert [one.kind for one in report.not_measured] == ["storage_write", "storage_read"]
    assert "in memory (tmpfs)" in report.not_measured[0].reason


def test_a_folder_that_is_gone_is_a_reason_and_the_other_is_measured(tmp_path, on_disk):
    report = measure({"shared": str(tmp_path / "gone" / "deeper"), "node-local": str(tmp_path)})
    assert {sample.place for sample in report.samples} == {"node-local"}
    gone = [one for one in report.not_measured if one.place == "shared"]
    assert len(gone) == 2
    assert "ENOENT" in gone[0].reason


def test_the_last_folder_is_made_and_removed(tmp_path, on_disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    report = measure({"node-local": "${TMPDIR}/scratch"})
    assert {sample.place for sample in report.samples} == {"node-local"}
    assert not (tmp_path / "scratch").exists()


def test_a_folder_whose_variable_is_not_set_is_a_reason_and_is_not_made_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = measure({"node-local": "${NOT_SET_HERE}"})
    assert report.samples == ()
    assert told(report.not_measured[0].reason, NOT_SET)["variables"] == "NOT_SET_HERE"
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_a_reason(tmp_path, on_disk, monkeypatch):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage.os, "pwrite", full)
    report = measure({"shared": str(tmp_path)})
    assert report.samples == ()
    assert "ENOSPC: No space left" in report.not_measured[0].reason


def test_little_space_makes_smaller_files_and_too_little_none(tmp_path, on_disk, monkeypatch):
    free = SimpleNamespace(f_bavail=100 << 10, f_frsize=1 << 10)
    monkeypatch.setattr(storage.os, "statvfs", lambda _folder: free)
    assert usable_bytes(tmp_path, 1 << 30) == 25 << 20
    free.f_bavail = 3 << 10
    report = measure({"shared": str(tmp_path)})
    assert report.samples == ()
    assert storage.NO_ROOM(free="3 MiB", needed="4 MiB") in report.not_measured[0].reason


def test_where_direct_reads_are_refused_the_others_remain(tmp_path, on_disk, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(storage.fcntl, "fcntl", refuse)
    report = measure({"shared": str(tmp_path)})
    assert {sample.backend for sample in report.samples} == {"write and fsync", "read"}


def test_the_longest_mount_point_holds_a_folder(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/a / ext4 rw 0 0\nb {tmp_path} tmpfs rw 0 0\nc {tmp_path}/x nfs rw 0 0\nd {tmp_path}/x/y xfs rw 0 0\n"
    )
    (tmp_path / "x").mkdir()
    assert file_system_of(tmp_path / "x", mounts) == "nfs"
    assert file_system_of(tmp_path, mounts) == "tmpfs"
    assert file_system_of(tmp_path / "x", tmp_path / "none") == ""
