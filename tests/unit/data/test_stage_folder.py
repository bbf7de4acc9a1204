"""Staging folders: held during staging, removed afterwards, and swept once nobody holds them."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from unit.refusals import refused

from hpcai.core.errors import StagingError
from hpcai.data import stage_folder
from hpcai.data.stage_folder import (
    CANNOT_READ,
    MARKER,
    NETWORK,
    REMOVED_MEANWHILE,
    announce_stage,
    claim_stage,
    clean_stage,
    is_shared,
    nodes_here,
    own_stage,
    sweep_stages,
)

HOLD = """
import sys
from pathlib import Path
from hpcai.data.stage_folder import claim_stage
claim_stage(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that stages into a folder."""
    folder = own_stage(tmp_path / "held")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    (folder / "train" / "sample").write_text("x")
    yield process, folder
    process.kill()
    process.wait()


def leave_behind(folder: Path) -> Path:
    """Create what a killed staging process leaves behind."""
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "sample").write_text("x")
    (folder / MARKER).touch()
    return folder


def test_what_a_killed_process_leaves_is_swept_and_what_a_live_one_holds_is_not(tmp_path, holder):
    process, folder = holder
    leave_behind(own_stage(tmp_path / "dead"))
    assert sweep_stages(tmp_path) == ["dead"]
    assert (folder / "train" / "sample").exists()
    process.kill()
    process.wait()
    assert sweep_stages(tmp_path) == ["held"]
    assert list(tmp_path.iterdir()) == []


def test_one_of_several_holders_is_enough(tmp_path, holder):
    process, folder = holder
    claim_stage(folder)
    process.kill()
    process.wait()
    assert sweep_stages(tmp_path) == []
    clean_stage(folder)
    assert not folder.exists()


def test_only_staging_folders_of_this_user_are_swept(tmp_path, monkeypatch):
    own_stage(tmp_path / "thesis").mkdir()
    (own_stage(tmp_path / "thesis") / "chapter").touch()
    outside = leave_behind(tmp_path / "elsewhere" / "stage")
    own_stage(tmp_path / "link").symlink_to(outside)
    own_stage(tmp_path / "file").touch()
    own_stage(tmp_path / "trick").mkdir()
    (own_stage(tmp_path / "trick") / MARKER).symlink_to(outside / MARKER)
    assert sweep_stages(tmp_path) == []
    mine = leave_behind(own_stage(tmp_path / "mine"))
    monkeypatch.setattr(os, "geteuid", lambda: mine.stat().st_uid + 1)
    assert sweep_stages(tmp_path) == []
    monkeypatch.undo()
    assert sweep_stages(tmp_path) == ["mine"]
    assert (outside / "train" / "sample").exists()


def test_a_scratch_folder_that_is_not_there_has_nothing_to_sweep(tmp_path):
    assert sweep_stages(tmp_path / "none") == []


def test_where_there_are_no_locks_nothing_is_swept(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(stage_folder.fcntl, "flock", flock)
    leave_behind(own_stage(tmp_path / "dead"))
    assert sweep_stages(tmp_path) == []
    claim_stage(tmp_path / "new")
    clean_stage(tmp_path / "new")


def test_a_claim_survives_a_sweep_that_comes_first(tmp_path, monkeypatch):
    """Between creating the marker and locking it, another run takes the folder for an abandoned one."""
    swept, real = [], stage_folder.fcntl.flock

    def flock(descriptor, operation):
        if operation == stage_folder.fcntl.LOCK_SH and not swept:
            swept.extend(["soon"])
            swept.extend(sweep_stages(tmp_path))
        return real(descriptor, operation)

    monkeypatch.setattr(stage_folder.fcntl, "flock", flock)
    claim_stage(own_stage(tmp_path / "stage"))
    assert swept == ["soon", "stage"]
    assert (own_stage(tmp_path / "stage") / "train").is_dir()
    assert sweep_stages(tmp_path) == []
    clean_stage(own_stage(tmp_path / "stage"))


def test_a_folder_that_is_removed_under_us(tmp_path):
    folder = tmp_path / "stage"
    claim_stage(folder)
    shutil.rmtree(folder)
    with refused(StagingError, REMOVED_MEANWHILE, place=str(folder)):
        claim_stage(folder)
    stage_folder._let_go(folder)


def test_a_disk_that_fails_is_an_error_with_a_name(tmp_path, monkeypatch):
    def listdir(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    folder = leave_behind(tmp_path / "stage")
    monkeypatch.setattr(os, "listdir", listdir)
    with refused(StagingError, CANNOT_READ, place=str(folder), reason=os.strerror(errno.EIO)):
        clean_stage(folder)


def test_nodes_that_see_the_same_folder_stage_beside_each_other(tmp_path, monkeypatch):
    """Each node removes and sweeps only its own, whatever the others do there."""
    scratch = tmp_path / "attempt"
    for node in ("n1", "n2", "n3"):
        monkeypatch.setenv("SLURMD_NODENAME", node)
        announce_stage(scratch)
    assert nodes_here(scratch) == 3
    assert is_shared(scratch)
    clean_stage(own_stage(scratch))
    assert {path.name for path in tmp_path.iterdir()} == {"attempt@n1", "attempt@n2"}
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    assert sweep_stages(tmp_path) == ["attempt"]
    assert {path.name for path in tmp_path.iterdir()} == {"attempt@n2"}
    assert not is_shared(scratch)


@pytest.mark.parametrize(
    ("kind", "shared"), [("ext4", False), ("tmpfs", False), *((kind, True) for kind in sorted(NETWORK))]
)
def test_what_is_reached_by_a_network_is_shared_also_by_one_node(tmp_path, monkeypatch, kind, shared):
    monkeypatch.setattr(stage_folder, "file_system_of", lambda _: kind)
    announce_stage(tmp_path / "attempt")
    assert is_shared(tmp_path / "attempt") == shared
