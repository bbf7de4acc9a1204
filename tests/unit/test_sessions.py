"""Sessions of tests: a tier's budget, what must not be skipped, names that are the same for all workers."""

import sys

import pytest
from plugins.budget import VARIABLE
from plugins.sharing import find_share
from workflow_project import ROOT

PLUGINS = ("-p", "plugins.budget", "-p", "plugins.names", "-p", "plugins.sharing", "-p", "no:cacheprovider")


@pytest.fixture
def session(pytester, monkeypatch):
    """A call of pytest in its own folder, with the plugins of this checkout."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.syspath_prepend(ROOT / "tests")
    return lambda *options: pytester.runpytest_inprocess(*PLUGINS, *options)


@pytest.mark.parametrize(
    ("option", "variable", "status"),
    [
        ("1000", None, pytest.ExitCode.OK),
        ("0.001", None, pytest.ExitCode.TESTS_FAILED),
        ("0.001", "0", pytest.ExitCode.OK),
        ("1000", "0.001", pytest.ExitCode.TESTS_FAILED),
        ("1000", "long", pytest.ExitCode.USAGE_ERROR),
    ],
)
def test_a_session_beyond_its_budget_fails(pytester, monkeypatch, session, option, variable, status):
    pytester.makepyfile("def test_passes(): pass")
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)
    done = session(f"--budget-s={option}")
    assert done.ret == status
    if variable in {"0", "0.001"}:
        done.stdout.fnmatch_lines([f"*{VARIABLE}*", "*1 passed*"])


def test_a_session_that_failed_otherwise_keeps_its_status(session):
    assert session("--budget-s=0.001").ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(("reason", "status"), [("browser", 1), ("cluster", 0)])
def test_what_must_run_must_not_be_skipped(pytester, session, reason, status):
    pytester.makepyfile("import pytest\ndef test_page(): pytest.skip('no browser here')")
    assert session(f"--must-run={reason}").ret == status


@pytest.mark.parametrize(
    ("parameter", "failed"),
    [("gzip.compress(b'')[:8]", True), ("int(time.time())", True), ("gzip.compress(b'', mtime=0)[4:8].hex()", False)],
    ids=["bytes", "time", "constant"],
)
def test_names_that_differ_between_workers_stop_the_session(pytester, session, parameter, failed):
    """Also where both collect in the same second."""
    parametrize = f"@pytest.mark.parametrize('value', [{parameter}])"
    pytester.makepyfile(f"import gzip, time, pytest\n{parametrize}\ndef test_value(value): pass")
    done = session("-n2")
    assert (done.ret != pytest.ExitCode.OK) == failed


def test_workers_find_rewritten_assertions(pytester, monkeypatch, session):
    """Also of files beside one that cannot be compiled."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    tests = pytester.makepyfile("def test_one():\n    one = 1\n    assert one == 2")
    folder = tests.parent / "__pycache__"
    (tests.parent / "test_a.py").write_text("def")
    assert session("-p", "plugins.bytecode", tests).ret == pytest.ExitCode.TESTS_FAILED
    assert not folder.exists()  # one process loads what it has rewritten
    done = session("-p", "plugins.bytecode", "-n1", "--continue-on-collection-errors")
    done.stdout.fnmatch_lines(["E*assert 1 == 2"])
    (made,) = folder.glob("test_*-pytest-*.pyc")
    before = made.stat().st_mtime_ns
    session("-p", "plugins.bytecode", "-n1", "--continue-on-collection-errors")
    assert made.stat().st_mtime_ns == before
    tests.write_text("def test_one():\n    one = 3\n    assert one == 2")
    session("-p", "plugins.bytecode", "-n1", "--continue-on-collection-errors").stdout.fnmatch_lines(
        ["E*assert 3 == 2"]
    )


def test_workers_share_folders_files_and_tensorflow():
    unit, slurm, ends = ROOT / "tests/unit", ROOT / "tests/slurm", ROOT / "tests/end_to_end"
    assert find_share(slurm / "test_cluster.py") == find_share(slurm / "test_campaign.py")
    assert find_share(ends / "test_five.py") == find_share(ends / "test_study.py") != find_share(ends / "test_ranks.py")
    assert find_share(unit / "training/test_engine.py") == find_share(unit / "training/test_input.py") == "TensorFlow"
    assert find_share(unit / "core/test_units.py") != find_share(unit / "core/test_files.py")
