"""Launchers, provenance and the page cache."""

import errno
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.record_factory import make_record

from hpcai.core.errors import LaunchError
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.measure import page_cache, provenance

RANKS = Ranks.of(make_record().plan)


def test_unknown_launcher():
    with pytest.raises(LaunchError, match=r"'aprun': unknown; allowed: horovodrun, mpirun, spawn, srun"):
        launch_command("aprun", RANKS, ["true"])


def test_missing_launcher(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LaunchError, match="srun: program not found on the PATH"):
        launch_command("srun", RANKS, ["true"])


def test_horovodrun_is_the_environments_own(monkeypatch):
    monkeypatch.setenv("PATH", "")
    command = launch_command("horovodrun", RANKS, ["python", "-m", "x"])
    assert command[:3] == [sys.executable, "-m", "hpcai.training.launch"]
    assert command[3:] == ["-np", str(RANKS.count), "--gloo", "python", "-m", "x"]
    several = replace(RANKS, nodes=2)
    with pytest.raises(LaunchError, match="use a launcher with MPI"):
        launch_command("horovodrun", several, ["true"])


def test_mpirun_and_srun_name_the_layout(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: name)
    several = replace(RANKS, nodes=3, ranks_per_node=2)
    assert "ppr:2:node" in launch_command("mpirun", several, ["true"])
    assert {"--nodes=3", "--ntasks=6", "--ntasks-per-node=2"} <= set(launch_command("srun", several, ["true"]))


def test_no_secret_is_recorded():
    variables = {"TF_NUM": "1", "SLURM_JOB_ID": "7", "HOROVOD_API_TOKEN": "s", "HOME": "/home/x", "MKL_SECRET": "t"}
    assert provenance.environment_facts(variables) == {"TF_NUM": "1", "SLURM_JOB_ID": "7"}


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_JWT", "TF_CLI_CONFIG_FILE", "TF_VAR_password", "TF_TOKEN_app_terraform_io", "TF_VAR_region",
        "OMPI_MCA_sec_auth", "HPCAI_COOKIE", "slurm_private", "HOROVOD_PRIVATE_FILE",
    ],
)  # fmt: skip
def test_no_variable_of_another_program_or_with_a_credential_is_recorded(name):
    assert provenance.environment_facts({name: "x"}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "TF_ENABLE_ONEDNN_OPTS", "TF_NUM_INTEROP_THREADS", "TF_XLA_FLAGS", "TF_CPP_MIN_LOG_LEVEL", "TF_GPU_ALLOCATOR",
        "TF_FORCE_GPU_ALLOW_GROWTH", "TF_CUDNN_DETERMINISTIC", "TF_DETERMINISTIC_OPS", "XLA_FLAGS", "SLURM_JOB_ID",
        "SLURM_SUBMIT_DIR", "TMPDIR",
    ],
)  # fmt: skip
def test_what_steers_the_programs_is_recorded(name):
    assert provenance.environment_facts({name: "1"}) == {name: "1"}


@pytest.mark.parametrize(
    ("told", "setting"), [("always [madvise] never\n", "madvise"), ("performance\n", "performance"), (None, None)]
)
def test_settings_of_the_kernel(tmp_path, told, setting):
    file = tmp_path / "enabled"
    if told is not None:
        file.write_text(told)
    assert provenance.kernel_setting(file) == setting


def test_facts_are_collected():
    facts = provenance.machine_facts()
    assert facts["cores_logical"] == os.cpu_count()
    assert facts["memory_bytes"] > 2**28
    assert {"tensorflow-cpu", "horovod", "keras", "python"} <= set(provenance.software_facts())
    commit, _, lock = provenance.code_facts()
    assert len(lock or "") == 64
    assert commit is None or len(commit) == 40


def test_page_cache_is_dropped_or_it_is_said(tmp_path):
    file = tmp_path / "data"
    file.write_bytes(os.urandom(1 << 20))
    answer = page_cache.drop_page_cache([file])
    with file.open("rb") as stream:
        assert answer == ("dropped" if page_cache.resident_pages(stream.fileno()) == 0 else "not_permitted")
        stream.read()
        assert page_cache.resident_pages(stream.fileno()) == (1 << 20) // os.sysconf("SC_PAGESIZE")


NOBODY = 65534


def as_nobody(action):
    """Return what a function returns in a process of a user who owns nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, str(action()).encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as stream:
        return stream.read()


def tells_residency(file):
    """Whether the file system knows reads that fetch nothing."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: needs root")
@pytest.mark.parametrize("size_bytes", [0, 100, 10_000, 40 << 20])
def test_files_of_others_are_dropped_and_that_is_known(tmp_path, monkeypatch, size_bytes):
    """mincore(2) calls all pages of such a file resident."""
    file = tmp_path / "data"
    with file.open("wb") as stream:
        stream.write(os.urandom(size_bytes))
        os.fsync(stream.fileno())
    file.chmod(0o644)
    if not tells_residency(file) or page_cache.drop_page_cache([file]) != "dropped":
        pytest.skip("no file system here that drops pages and tells which it holds")
    with file.open("rb") as stream:  # pytest's folders are closed to others
        opened = [Path(f"/proc/self/fd/{stream.fileno()}")]
        file.read_bytes()
        assert as_nobody(lambda: page_cache.drop_page_cache(opened)) == "dropped"
        assert page_cache.drop_page_cache(opened) == "dropped"
        file.read_bytes()
        monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
        still_warm = "not_permitted" if size_bytes else "dropped"
        assert as_nobody(lambda: page_cache.drop_page_cache(opened)) == still_warm
        # Where nothing tells, the data count as warm.
        monkeypatch.setattr(os, "preadv", lambda *_: unsupported())
        assert as_nobody(lambda: page_cache.drop_page_cache(opened)) == "not_permitted"


def unsupported():
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def test_the_pages_of_all_files_are_dropped_by_several_threads(tmp_path, monkeypatch):
    files = [tmp_path / str(number) for number in range(40)]
    for file in files:
        file.touch()
    dropped, others = [], threading.Event()

    def forget(descriptor):
        dropped.append(os.fstat(descriptor).st_ino)
        if len(dropped) > 1:
            others.set()
        return others.wait(timeout=5)

    monkeypatch.setattr(page_cache, "_forget", forget)
    assert page_cache.drop_page_cache(files) == "dropped"
    assert sorted(dropped) == sorted(file.stat().st_ino for file in files)


def test_dropping_pages_ends_at_its_limit(tmp_path, monkeypatch):
    """Of the many files of a shared file system some are dropped; the data then count as warm."""
    files = [tmp_path / str(number) for number in range(40)]
    for file in files:
        file.touch()
    clock = iter([0.0, *[1.0] * 20, *[9.0] * 99])
    monkeypatch.setattr(page_cache, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    dropped = []
    monkeypatch.setattr(page_cache, "_forget", lambda descriptor: dropped.append(descriptor) or True)
    assert page_cache.drop_page_cache(files, 5.0) == "kept"
    assert len(dropped) == 20
    assert page_cache.drop_page_cache([], 5.0) == "dropped"
