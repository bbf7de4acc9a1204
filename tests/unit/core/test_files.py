"""Files appear complete or not at all, and those that must survive the loss of a node are synced."""

import errno
import os
import stat

import pytest

from hpcai.core import files
from hpcai.core.files import read_regular, sync, why_full, write_atomically


@pytest.fixture
def steps(monkeypatch):
    """What is synced and renamed, in order."""
    done = []
    real_sync, real_replace = os.fsync, files.Path.replace

    def note_sync(descriptor):
        mode = os.fstat(descriptor).st_mode
        done.append("folder" if stat.S_ISDIR(mode) else f"file of {os.fstat(descriptor).st_size}")
        real_sync(descriptor)

    def note_replace(path, target):
        done.append("rename")
        return real_replace(path, target)

    monkeypatch.setattr(files.os, "fsync", note_sync)
    monkeypatch.setattr(files.Path, "replace", note_replace)
    return done


def test_a_durable_file_is_on_storage_before_it_has_its_name(tmp_path, steps):
    write_atomically(tmp_path / "a", b"12345", durable=True)
    assert steps == ["file of 5", "rename", "folder"]
    assert (tmp_path / "a").read_bytes() == b"12345"


def test_other_files_do_not_wait_for_the_storage(tmp_path, steps):
    write_atomically(tmp_path / "a", b"12345")
    assert steps == ["rename"]


def test_a_file_that_does_not_reach_the_storage_is_not_there(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_atomically(tmp_path / "a", b"12345", durable=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_syncs_no_folders_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "a").touch()

    def refuse(_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(files.os, "fsync", refuse)
    sync(tmp_path)
    with pytest.raises(OSError, match="Invalid"):
        sync(tmp_path / "a")


@pytest.mark.parametrize(("number", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)])
def test_a_full_disk_is_told_from_one_that_fails(tmp_path, monkeypatch, number, full):
    def fsync(_):
        raise OSError(number, os.strerror(number))

    assert why_full(tmp_path) == ""
    monkeypatch.setattr(files.os, "fsync", fsync)
    assert why_full(tmp_path) == (os.strerror(number) if full else "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "loop", "nothing", "giant"])
def test_what_is_no_file_is_refused_unread(tmp_path, kind):
    path = tmp_path / "place"
    make = {
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "loop": lambda: path.symlink_to(path),
        "nothing": lambda: None,
        "giant": lambda: path.touch() or os.truncate(path, 1 << 36),
    }
    make[kind]()
    with pytest.raises(OSError, match=str(path)) as caught:
        read_regular(path)
    assert caught.value.strerror


def test_a_file_is_read_through_a_link(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_regular(tmp_path / "b") == b"1"
