"""One writer per run folder."""

import json
import os
import socket
import subprocess
import sys

import pytest

from hpcai.errors import RunRefusedError
from hpcai.measure.claim import CLAIM, STALE_S, claimed


def test_second_controller_is_refused(tmp_path):
    with claimed(tmp_path), pytest.raises(RunRefusedError, match=f"process {os.getpid()} on .* is at work"):
        with claimed(tmp_path):
            pytest.fail("two controllers hold one claim")
    assert not (tmp_path / CLAIM).exists()


def test_claim_is_freed_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="x"), claimed(tmp_path):
        raise ValueError("x")
    with claimed(tmp_path):
        pass


def test_claim_of_a_dead_process_is_taken_over(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    holder = {"host": socket.gethostname(), "pid": dead.pid, "process_started": 1.0}
    (tmp_path / CLAIM).write_text(json.dumps(holder))
    with claimed(tmp_path):
        assert json.loads((tmp_path / CLAIM).read_text())["pid"] == os.getpid()


def test_claim_of_another_host_counts_while_it_is_fresh(tmp_path):
    claim = tmp_path / CLAIM
    claim.write_text(json.dumps({"host": "elsewhere", "pid": 1, "process_started": 1.0}))
    with pytest.raises(RunRefusedError, match="process 1 on elsewhere"), claimed(tmp_path):
        pass
    old = claim.stat().st_mtime - 2 * STALE_S
    os.utime(claim, (old, old))
    with claimed(tmp_path):
        pass


def test_damaged_claim_is_taken_over(tmp_path):
    (tmp_path / CLAIM).write_text("{")
    with claimed(tmp_path):
        pass
