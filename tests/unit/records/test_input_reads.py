"""Whether storage served the input: counters of a real process that reads cold, then warm, and the verdict on a run."""

import math
import os
import subprocess
import sys

import pytest
from unit.record_factory import make_record

from hpcai.core.files import file_system_of
from hpcai.metrics.run_tables import collect_runs
from hpcai.records.files import write_record
from hpcai.records.input_reads import COUNTED, InputSizes, InputSource, RankReads, judge_json
from hpcai.records.input_window import ReadCounters

MIB = 1 << 20
SIZES = InputSizes(train_bytes=100 * MIB, evaluation_bytes=0, file_system="ext4")
READER = """
import sys
from pathlib import Path
from hpcai.records.input_reads import ReadLog
log = ReadLog()
log.mark()
log.mark()
for _ in range(2):
    with open(sys.argv[1], "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
    log.mark()
print(log.reads.model_dump_json())
"""


def record_of(reads, sizes=SIZES, *, packed_bytes=0):
    """Return a record of two ranks with two epochs, each of all samples, without evaluations."""
    record = make_record("not_converged", ranks_per_node=2)
    training = record.training
    samples = record.plan.benchmark.data.train_samples
    epochs = tuple(one.model_copy(update={"samples": samples, "evaluation_s": None}) for one in training.epochs[:2])
    staging = training.staging.model_copy(update={"packed_bytes": packed_bytes})
    training = training.model_copy(update={"input": sizes, "epochs": epochs, "staging": staging})
    ranks = tuple(rank.model_copy(update={"reads": reads}) for rank in record.ranks)
    return record.model_copy(update={"training": training, "ranks": ranks})


def reads(first, later, staging=0, called=100):
    """Return what one of two ranks read [MiB]."""
    return RankReads(
        staging_bytes=staging * MIB, first_epoch_bytes=first * MIB, later_epochs_bytes=later * MIB,
        called_bytes=called * MIB,
    )  # fmt: skip


def test_a_process_that_reads_cold_and_then_warm_fetches_its_file_once(tmp_path):
    if file_system_of(tmp_path) not in COUNTED or ReadCounters.of_this_process().storage_bytes is None:
        pytest.skip(f"reads of {file_system_of(tmp_path)} are not counted here")
    path = tmp_path / "data"
    path.write_bytes(os.urandom(8 * MIB))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    done = subprocess.run([sys.executable, "-c", READER, str(path)], capture_output=True, text=True, check=True)
    found = RankReads.model_validate_json(done.stdout)
    assert 8 * MIB <= found.first_epoch_bytes < 10 * MIB
    assert found.later_epochs_bytes < MIB
    assert 16 * MIB <= found.called_bytes < 17 * MIB


@pytest.mark.parametrize(
    ("own", "expected", "is_cached"),
    [
        (reads(50, 50), "storage", False),
        (reads(50, 0), "storage, then a cache", True),
        (reads(24, 24), "a cache", True),
        (reads(0, 50), "a cache, then storage", True),
        (reads(25, 25), "storage", False),
    ],
)
def test_under_half_of_the_bytes_is_a_cache(own, expected, is_cached):
    found = record_of(own).input_source
    assert (found.input_from, found.is_cached) == (expected, is_cached)
    assert found.input_first_ratio == pytest.approx(own.first_epoch_bytes / (50 * MIB))
    assert found.input_calls_ratio == 1.0
    assert judge_json(record_of(own).model_dump(mode="json")) == found


def test_a_staged_run_is_judged_by_its_staging():
    cold = record_of(
        reads(0, 0, staging=10), SIZES.model_copy(update={"staging_file_system": "nfs4"}), packed_bytes=20 * MIB
    )
    assert (cold.input_source.staging_from, cold.input_source.is_cached) == ("storage", False)
    assert cold.input_source.staging_storage_ratio == 1.0
    warm = record_of(
        reads(0, 0, staging=4), SIZES.model_copy(update={"staging_file_system": "nfs4"}), packed_bytes=20 * MIB
    )
    assert (warm.input_source.staging_from, warm.input_source.is_cached) == ("a cache", True)


@pytest.mark.parametrize(("file_system", "expected"), [("lustre", ""), ("", ""), ("tmpfs", "memory")])
def test_where_the_kernel_may_not_count_few_bytes_prove_nothing(file_system, expected):
    sizes = SIZES.model_copy(update={"file_system": file_system})
    assert record_of(reads(0, 0), sizes).input_source.input_from == expected
    assert record_of(reads(50, 50), sizes).input_source.input_from == (expected or "storage")


def test_what_was_not_counted_is_not_known():
    for found in (record_of(RankReads()).input_source, make_record().input_source):
        assert found.input_from == ""
        assert math.isnan(found.input_first_ratio)
        assert not found.is_cached
    assert judge_json({"training": None, "ranks": []}).input_from == InputSource().input_from


def test_the_table_of_runs_has_it(tmp_path):
    path = tmp_path / "record.json"
    write_record(record_of(reads(50, 0)), path)
    (row,) = collect_runs([path]).to_dict("records")
    assert (row["input_from"], row["input_first_ratio"], row["input_later_ratio"]) == (
        "storage, then a cache",
        1.0,
        0.0,
    )
    assert row["staging_from"] == ""
