"""Logs read by several processes: the result depends neither on their number nor on their failures."""

import os
import signal
import tarfile
import time

import psutil
import pytest
from unit.mlperf_hpc.log_factory import log_text, write_tree
from unit.refusals import refused

from hpcai.core.errors import ParseError
from hpcai.mlperf_hpc.compliance.checked_round import check_round
from hpcai.mlperf_hpc.compliance.submission_check import read_remains
from hpcai.mlperf_hpc.compliance.verdict import judge
from hpcai.mlperf_hpc.rounds import sharing
from hpcai.mlperf_hpc.rounds.archives import CUT
from hpcai.mlperf_hpc.rounds.index import SourceIndex
from hpcai.mlperf_hpc.rounds.reading import read_round, visit_round
from hpcai.parsers import workers

LOGS = 12


@pytest.fixture
def tree(tmp_path):
    """Whole, cut, empty and damaged logs, of two years, without a name that tells the round."""
    texts = [log_text(seed=seed, epochs=3 + seed) for seed in range(LOGS)]
    texts[3], texts[7], texts[8] = texts[3][:2500], "", texts[8].replace("epoch_stop", "epoch_end")
    texts[5] = texts[5].replace('"metadata": {', '"metadata": [', 2)
    write_tree(tmp_path / "some", logs=texts)
    write_tree(tmp_path / "some", org="B", scaling="weak", logs=texts[:4], pruned=texts[4:6])
    return tmp_path / "some"


@pytest.fixture
def share(monkeypatch):
    """Let a number of processes read logs of any size."""

    def set_cores(cores):
        monkeypatch.setattr(sharing, "LARGE_BYTES", 0)
        monkeypatch.setattr(sharing, "usable_cores", lambda: cores)

    return set_cores


def everything(source):
    checked, remains = check_round(SourceIndex(source), read_remains)
    return repr(checked), repr(remains), repr(judge(source))


@pytest.mark.parametrize("cores", [2, 3, 64])
def test_the_number_of_processes_changes_nothing(tree, share, monkeypatch, cores):
    expected = everything(tree)
    share(cores)
    assert everything(tree) == expected
    monkeypatch.setattr(sharing, "BATCH_BYTES", 40_000)
    assert everything(tree) == expected


def test_every_process_reads_its_part_and_this_one_the_first(tree, share):
    share(3)
    _, readers = visit_round(tree, lambda path, log: os.getpid())
    pids = list(readers.values())
    assert len(set(pids)) == 3
    assert pids[0] == pids[1] == os.getpid()
    assert max(pids.count(pid) for pid in pids) <= len(pids) // 3 + 1


ILL_FATED = {
    "fails": lambda: 1 / 0,
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "is stuck": lambda: time.sleep(600),
}


@pytest.mark.parametrize("kind", ILL_FATED)
def test_what_a_process_does_not_deliver_is_read_here(tree, share, monkeypatch, kind):
    here, before = os.getpid(), psutil.Process().children()

    def look(path, log):
        if os.getpid() != here and path.endswith("result_9.txt"):
            ILL_FATED[kind]()
        return len(log.events)

    expected = visit_round(tree, look)
    monkeypatch.setattr(workers, "PATIENCE_S", 0.3)
    share(3)
    assert repr(visit_round(tree, look)) == repr(expected)
    assert psutil.Process().children() == before


def test_without_more_processes_all_is_read_here(tree, share, monkeypatch):
    def refuse():
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    share(3)
    _, readers = visit_round(tree, lambda path, log: os.getpid())
    assert set(readers.values()) == {os.getpid()}


def test_an_archive_that_was_cut_is_an_error_all_the_same(tree, share, monkeypatch, tmp_path):
    whole = tmp_path / "round.tar.gz"
    with tarfile.open(whole, "w:gz") as archive:
        archive.add(tree, "hpc_results_v1.0")
    share(2)
    monkeypatch.setattr(sharing, "BATCH_BYTES", 40_000)
    assert len(read_round(whole).submissions) == 2
    whole.write_bytes(whole.read_bytes()[:-200])
    before = psutil.Process().children()
    with refused(ParseError, CUT):
        read_round(whole)
    assert psutil.Process().children() == before


def test_only_large_sources_on_several_cores_are_shared(monkeypatch):
    for cores, expected in ((1, 1), (2, 2), (64, 4)):
        monkeypatch.setattr(sharing, "usable_cores", lambda cores=cores: cores)
        assert sharing.count_processes(28_000_000) == expected
        assert sharing.count_processes(1_000_000) == 1
