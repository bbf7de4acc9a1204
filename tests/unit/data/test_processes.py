"""Numbered work in forked processes: results in order, the first error in order, and nobody left behind."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data.processes import WORKER_ENDED, in_forks, in_processes


def test_results_come_in_order() -> None:
    last = 40

    def work(number: int) -> tuple[int, int]:
        time.sleep(0.02 * (number % 3 == 0))
        return number, os.getpid()

    found = list(in_forks(work, last, 3))
    assert [number for number, _ in found] == list(range(last))
    assert os.getpid() not in {process for _, process in found}
    assert list(in_forks(work, 0, 3)) == []
    assert multiprocessing.active_children() == []


def test_the_first_error_in_order_is_raised() -> None:
    def work(number: int) -> int:
        if number in {5, 7}:
            time.sleep(0.2 * (number == 5))
            raise ValueError(number)
        return number

    results, found = in_forks(work, 20, 3), []
    with pytest.raises(ValueError, match="5") as caught:
        found.extend(results)
    assert "in work" in "".join(caught.value.__notes__)
    assert multiprocessing.active_children() == []


def test_what_is_left_undone_ends_its_processes() -> None:
    results = in_forks(lambda number: time.sleep(60 * number), 9, 3)
    assert next(results) is None
    assert len(multiprocessing.active_children()) == 3
    results.close()
    assert multiprocessing.active_children() == []


def test_a_process_that_is_ended_from_outside() -> None:
    def work(number: int) -> int:
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with refused(DatasetError, WORKER_ENDED):
        list(in_forks(work, 9, 2))
    assert multiprocessing.active_children() == []


def test_jobs_come_in_order_and_tell_of_a_process_that_is_ended_from_outside() -> None:
    def work(job: str) -> str:
        if job == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return job.upper()

    assert list(in_processes(work, ["a", "b", "c"], "letters", 2)) == ["A", "B", "C"]
    with refused(DatasetError, WORKER_ENDED):
        list(in_processes(work, ["a", "killed"], "letters", 2))
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_they_end_with_their_parent(tmp_path: Path, how: signal.Signals) -> None:
    """SIGINT goes to all processes of the terminal, as Ctrl-C does."""

    def work(number: int) -> None:
        (tmp_path / f"{number}.new").write_text(str(os.getpid()))
        (tmp_path / f"{number}.new").rename(tmp_path / f"{number}.pid")
        time.sleep(60)

    def parent() -> None:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            list(in_forks(work, 2, 2))
        except KeyboardInterrupt:
            (tmp_path / "interrupted").touch()

    process = multiprocessing.get_context("fork").Process(target=parent)
    process.start()
    while len(list(tmp_path.glob("*.pid"))) < 2:
        time.sleep(0.01)
    children = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
    (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
    process.join(30)
    assert process.exitcode == (0 if how == signal.SIGINT else -signal.SIGKILL)
    assert (tmp_path / "interrupted").exists() == (how == signal.SIGINT)
    until_s = time.monotonic() + 30
    while any(map(is_running, children)) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not any(map(is_running, children))


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
