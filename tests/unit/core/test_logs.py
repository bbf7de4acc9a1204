"""Output of a job goes to its log; output for the user goes to the terminal as well."""

import logging
import subprocess
import sys

import pytest

from hpcai.cli.runs import logged_to
from hpcai.core.errors import ResultsError

PROGRAM = """
import logging, sys
from hpcai.core.errors import DatasetError
from hpcai.core.logs import log_to
log_to(sys.argv[1])
logging.getLogger("hpcai.data.prepare").info("generated 5 of 10")
logging.getLogger("other").info("chatter")
raise {error}
"""


def run(tmp_path, error):
    log = tmp_path / "logs" / "job.log"
    command = [sys.executable, "-c", PROGRAM.format(error=error), str(log)]
    return subprocess.run(command, capture_output=True, text=True, check=False), log.read_text()


def test_progress_and_a_users_error(tmp_path):
    done, log = run(tmp_path, "DatasetError('x.h5: found nothing')")
    assert done.returncode == 1
    assert "generated 5 of 10" in done.stderr
    assert "chatter" not in done.stderr
    assert "error: x.h5: found nothing" in done.stderr
    assert "Traceback" not in done.stderr
    assert all(words in log for words in ("generated 5 of 10", "chatter", "Traceback", "x.h5: found nothing"))


def test_an_error_of_ours_shows_its_traceback(tmp_path):
    done, log = run(tmp_path, "KeyError('bug')")
    assert "Traceback" in done.stderr
    assert "KeyError: 'bug'" in log


def test_a_commands_log_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", True)
    (tmp_path / "file").touch()
    with (
        pytest.raises(ResultsError, match=r"x\.log: .*File exists"),
        logged_to(tmp_path / "file" / "x.log"),
    ):
        pass


def test_messages_that_a_full_disk_does_not_take_are_no_errors():
    command = [sys.executable, "-c", PROGRAM.format(error="DatasetError('no room')"), "/dev/full"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "error: no room" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Logging error" not in done.stderr


def test_the_error_of_an_earlier_attempt_stays_until_one_goes_well(tmp_path):
    """A job that Snakemake starts again may be stopped by a consequence of its first error."""
    run(tmp_path, "DatasetError('the cause')")
    _, log = run(tmp_path, "DatasetError('the consequence')")
    assert "the cause" in log
    assert "the consequence" in log
    _, log = run(tmp_path, "SystemExit")
    assert "the cause" in log
    _, log = run(tmp_path, "DatasetError('another day')")
    assert "the cause" not in log
    assert "another day" in log
