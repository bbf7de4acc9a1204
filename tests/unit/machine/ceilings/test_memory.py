"""Memory bandwidth."""

import os

import pytest

from hpcai.machine.ceilings import agreement, memory
from hpcai.machine.ceilings.free_memory import FreeMemory
from hpcai.machine.ceilings.memory import (
    UNKNOWN_CACHE_BYTES,
    UNKNOWN_CORE_CACHE_BYTES,
    last_level_cache_bytes,
    measure_memory,
)
from hpcai.machine.ceilings.sampling import CeilingReport, Sample
from hpcai.profiles.ceilings_view import ceiling_rows

SMALL = 1 << 20


@pytest.fixture(autouse=True)
def as_asked(monkeypatch):
    """No repetitions beyond the requested ones, however noisy the test machine is."""
    monkeypatch.setattr(agreement, "MOST_ROUNDS", 0)


def measure(**options: object) -> CeilingReport:
    return measure_memory([1], repeats=2, **options)


def test_bytes_read_and_written_are_counted():
    report = measure(array_bytes=SMALL)
    assert {(sample.backend, sample.setting, sample.work) for sample in report.samples} == {
        ("numpy copy", "arrays of 1 MiB", 2 * SMALL),
        ("numpy add", "arrays of 1 MiB", 3 * SMALL),
    }
    assert {sample.unit for sample in report.samples} == {"B/s"}
    (best,) = report.best
    assert best.best == max(sample.value for sample in report.samples)
    assert {summary.n for summary in report.summaries} == {2}


def test_copies_are_a_ceiling_also_where_additions_are_faster():
    assert sorted(ceiling_rows(measure(array_bytes=SMALL), "x")["backend"]) == ["numpy add", "numpy copy"]


def test_threads_have_arrays_of_their_own_and_leave_this_thread_where_it_was():
    cores = os.sched_getaffinity(0)
    count = min(2, len(cores))
    report = measure_memory([count], repeats=1, array_bytes=SMALL)
    assert max(sample.work for sample in report.samples) == 3 * SMALL * count
    assert os.sched_getaffinity(0) == cores


def test_more_threads_than_cores_is_a_reason_and_the_others_are_measured():
    report = measure_memory([1, 100_000], repeats=1, array_bytes=SMALL)
    assert {sample.threads for sample in report.samples} == {1}
    (missing,) = report.not_measured
    assert (missing.kind, missing.threads) == ("memory", 100_000)
    assert "threads: found 100000" in missing.reason


def test_streams_are_repeated_until_the_best_two_agree(monkeypatch):
    monkeypatch.setattr(agreement, "MOST_ROUNDS", 5)
    rates = iter([[20e9, 10e9], [12e9, 11e9], [19.5e9, 9e9], [1e9, 1e9]])

    def time_streams(cores, numbers, _repeats):
        return [
            Sample(kind="memory", backend="numpy copy", setting="1", threads=len(cores), work=1e9, unit="B/s",
                   duration_s=1e9 / rate)
            for rate in next(rates)
        ]  # fmt: skip

    monkeypatch.setattr(memory, "_time_streams", time_streams)
    report = measure(array_bytes=SMALL)
    assert len(report.samples) == 6
    assert ceiling_rows(report, "x")["status"].tolist() == ["measured"]


def test_too_little_memory_is_a_reason(monkeypatch):
    monkeypatch.setattr(memory, "last_level_cache_bytes", lambda _cores: 1 << 50)
    report = measure()
    assert report.samples == ()
    assert "too little beside" in report.not_measured[0].reason


def test_arrays_fit_the_memory_of_the_job(monkeypatch):
    monkeypatch.setattr(memory, "last_level_cache_bytes", lambda _cores: 300 << 20)
    monkeypatch.setattr(memory, "free_memory", lambda: FreeMemory(7 << 30, "SLURM_MEM_PER_NODE"))
    arrays_bytes, problem = memory._array_bytes(2, [0, 1])
    assert not problem
    assert arrays_bytes >= 300 << 20  # twice the cache, by two threads
    assert 2 * 3 * arrays_bytes <= memory.MEMORY_SHARE * (7 << 30)
    monkeypatch.setattr(memory, "free_memory", lambda: FreeMemory(3 << 30, "SLURM_MEM_PER_NODE"))
    arrays_bytes, problem = memory._array_bytes(2, [0, 1])
    assert arrays_bytes == 0
    assert "SLURM_MEM_PER_NODE" in problem


def test_a_thread_without_memory_is_a_reason_and_no_deadlock(monkeypatch):
    def fail(*_arguments: object) -> None:
        raise MemoryError("nothing left")

    monkeypatch.setattr(memory.np, "full", fail)
    report = measure(array_bytes=SMALL)
    assert report.samples == ()
    assert "nothing left" in report.not_measured[0].reason


def cache(root, core: int, index: int, level: int, size: str, shared: str) -> None:
    folder = root / f"cpu{core}/cache/index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", str(level)), ("size", size), ("shared_cpu_list", shared)):
        (folder / name).write_text(text + "\n")


def test_shared_caches_are_counted_once(tmp_path):
    for core in range(4):
        cache(tmp_path, core, 0, 1, "32K", str(core))
        cache(tmp_path, core, 3, 3, "1024K", "0-1" if core < 2 else "2-3")
    assert last_level_cache_bytes(range(4), tmp_path) == 2 << 20
    assert last_level_cache_bytes(range(1), tmp_path) == 1 << 20


def test_unknown_caches_are_guessed(tmp_path):
    assert last_level_cache_bytes(range(4), tmp_path) == UNKNOWN_CACHE_BYTES
    cache(tmp_path, 0, 0, 3, "unreadable", "0")
    assert last_level_cache_bytes([0], tmp_path) == UNKNOWN_CACHE_BYTES


def test_a_guess_grows_with_the_cores_whose_cache_is_unknown(tmp_path):
    assert last_level_cache_bytes(range(128), tmp_path) == 128 * UNKNOWN_CORE_CACHE_BYTES > UNKNOWN_CACHE_BYTES
    cache(tmp_path, 0, 3, 3, "1024K", "0")
    assert last_level_cache_bytes(range(128), tmp_path) == (1 << 20) + 127 * UNKNOWN_CORE_CACHE_BYTES
    assert last_level_cache_bytes(range(2), tmp_path) == (1 << 20) + UNKNOWN_CACHE_BYTES
