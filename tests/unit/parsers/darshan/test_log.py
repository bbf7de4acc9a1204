"""Darshan logs: synthetic ones in every layout, and the published samples with their expected values."""

import bz2
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from unit.parsers.artefacts import foreign, sample
from unit.parsers.darshan.darshan_writer import Log, Record, read
from unit.refusals import told

from hpcai.core.errors import ParseError
from hpcai.parsers.darshan import log as darshan_log
from hpcai.parsers.darshan.child import answer_log
from hpcai.parsers.darshan.log import read_darshan_files, read_darshan_logs, read_darshan_segments
from hpcai.parsers.darshan.reasons import NEGATIVE, NONE_BELOW, RECORDS_LOST, UNREAD

DATA = "/data/train"
NAME = "user_python_id{job}-{process}_11-21-36303-1234567890_1.darshan"


@pytest.fixture(autouse=True)
def without_a_child(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Read in this process: starting a child takes half a second, and these logs are undamaged."""
    if "guarded" not in request.fixturenames:
        monkeypatch.setattr(darshan_log, "read_guarded", read_here)


@pytest.fixture
def guarded() -> None:
    """Read in a child process, as in production."""


def read_here(paths: Sequence[Path], table: str) -> list[dict]:
    return [answer_log(path, table) for path in paths]


def write(folder: Path, log: Log, process: int = 100) -> Path:
    path = folder / NAME.format(job=log.job, process=process)
    path.write_bytes(log.encode())
    return path


def job(folder: Path) -> list[Path]:
    """Return the logs of a rank, its two forked workers, and an unrelated process."""
    fork = "lib_ver=3.5.0\nfork_parent=100\n"
    script = read("/app/train.py", 500)
    posix = [
        [script, Record(f"{DATA}/a.bin", values={"opens": 0})],
        [read(f"{DATA}/a.bin", 4096, 0.5), read(f"{DATA}/b.bin", 4096, 0.25)],
        [read(f"{DATA}/c.bin", 2048, 1.0, last=5.0), script],
        [Record("<STDERR>", values={"opens": 1})],
    ]
    logs = [Log(records, start_s=1000 + place) for place, records in enumerate(posix)]
    logs[1].metadata = logs[2].metadata = fork
    logs[3].command = "uname -p"
    return [write(folder, log, 100 + place) for place, log in enumerate(logs)]


def test_a_job_of_many_processes(tmp_path, guarded):
    reading = read_darshan_logs(job(tmp_path), DATA)
    table = reading.table.set_index("process_id")
    assert reading.is_whole
    assert reading.coverage_ratio == 1
    assert table["role"].to_dict() == {100: "parent", 101: "worker", 102: "worker", 103: "other"}
    assert table["read_bytes"].tolist() == [0, 8192, 2048, 0]
    assert table["all_read_bytes"].tolist() == [500, 8192, 2548, 0]
    assert table["reads"].tolist() == [0, 10, 3, 0]
    assert table["read_time_s"].tolist()[1:3] == [0.75, 1.0]
    assert table["first_read_s"].tolist()[1:3] == [1002.0, 1003.0]
    assert table["last_read_s"].tolist()[1:3] == [1004.0, 1007.0]
    assert np.isnan(table["first_read_s"][100])
    assert table["job"].unique().tolist() == ["77"]
    assert table["executable"].tolist() == ["python", "python", "python", "uname"]
    assert {key: reading.facts[key] for key in ("jobs", "workers", "data_files", "library")} == {
        "jobs": 1, "workers": 2, "data_files": 3, "library": "3.5.0",
    }  # fmt: skip
    files = read_darshan_files(job(tmp_path), DATA).table
    assert files["read_bytes"].sum() == 8192 + 2048


@pytest.mark.parametrize("version", ["3.00", "3.21", "3.41"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_format_and_byte_order(tmp_path, version, order):
    records = [read(f"{DATA}/a.bin", 4096), read(f"{DATA}/b.bin", 1024)]
    stdio = [read(f"{DATA}/c.txt", 512, written_bytes=7)]
    path = write(tmp_path, Log(records, stdio, version=version, order=order, partial=("STDIO",)))
    reading = read_darshan_logs([path], DATA)
    posix, streams = reading.table.to_dict("records")
    assert (posix["read_bytes"], posix["reads"], posix["read_time_s"], posix["start_s"]) == (5120, 7, 1.0, 1000)
    assert (streams["read_bytes"], streams["written_bytes"], streams["first_read_s"]) == (512, 7, 1001)
    assert (posix["is_partial"], streams["is_partial"]) == (False, True)
    assert reading.coverage_ratio == 0
    assert "STDIO is incomplete" in reading.reasons[0]


def test_bzip2_is_checked_though_pydarshan_cannot_read_it(tmp_path):
    data = Log([read(f"{DATA}/a.bin", 4096)], pack=bz2.compress).encode()
    path, damaged = tmp_path / "a.darshan", tmp_path / "b.darshan"
    path.write_bytes(data)
    damaged.write_bytes(data[:1400] + bytes([data[1400] ^ 1]) + data[1401:])
    with pytest.raises(ParseError, match="cannot read bzip2"):
        read_darshan_logs([path], DATA)
    with pytest.raises(ParseError, match="damaged"):
        read_darshan_logs([damaged], DATA)


def test_processes_without_a_job_number_are_joined_by_their_parent(tmp_path):
    logs = [
        Log([read(f"{DATA}/a", 1)], job=100, command="first"),
        Log([read(f"{DATA}/b", 1)], job=101, metadata="fork_parent=100\n"),
        Log([read(f"{DATA}/c", 1)], job=300, metadata="fork_parent=100\n", start_s=9000),
    ]
    paths = [write(tmp_path, log, log.job) for log in logs]
    reading = read_darshan_logs(paths, DATA)
    assert reading.table["job"].tolist() == ["100", "100", "300"]
    assert "belong to 2 jobs" in " ".join(reading.reasons)


def test_what_is_not_monitored_is_missing(tmp_path):
    good, odd = read(f"{DATA}/a", 1024), read(f"{DATA}/b", 1024, read_s=-2.5, reads=-1)
    reading = read_darshan_logs([write(tmp_path, Log([good, odd]))], DATA)
    row = reading.table.iloc[0]
    assert row["read_bytes"] == 2048
    assert np.isnan(row["read_time_s"])
    assert np.isnan(row["reads"])
    assert sum(NEGATIVE.find_in(reason) is not None for reason in reading.reasons) == 2


def test_files_that_are_only_mapped(tmp_path):
    mapped = [Record(f"{DATA}/{number}", values={"opens": 1}) for number in range(3)]
    reading = read_darshan_logs([write(tmp_path, Log([*mapped, read(f"{DATA}/header", 4096)]))], DATA)
    assert reading.table["unread_files"].item() == 3
    assert told(reading.reasons[0], UNREAD) == {"unread": "3", "opened": "4"}


def test_the_limit_of_records(tmp_path):
    records = [read(f"/venv/{number}.pyc", 10) for number in range(1024)]
    reading = read_darshan_logs([write(tmp_path, Log(records, partial=("POSIX",)))], DATA)
    row = reading.table.iloc[0]
    assert np.isnan(row["read_bytes"])  # the data may be beyond the limit
    assert row["all_read_bytes"] == 10240
    assert told(reading.reasons[0], RECORDS_LOST)["records"] == "1024"
    unflagged = read_darshan_logs([write(tmp_path, Log(records))], None)
    assert "as many records as fit" in unflagged.reasons[0]


def test_data_can_be_a_folder_or_a_pattern(tmp_path):
    files = [f"{DATA}/part-1", f"{DATA}/index.txt", f"{DATA}2/part-1"]
    path = write(tmp_path, Log([read(file, 100) for file in files]))
    read_bytes = {
        root: read_darshan_logs([path], root).table["read_bytes"].item()
        for root in (None, DATA, f"{DATA}/", f"{DATA}/part*")
    }
    assert list(read_bytes.values()) == [300, 200, 200, 100]
    absent = read_darshan_logs([path], "/elsewhere")
    assert told(absent.reasons[0], NONE_BELOW) == {"folder": "/elsewhere"}
    assert not absent.table["is_worker"].item()


def test_hashed_names_hide_the_data(tmp_path):
    path = write(tmp_path, Log([read("//2877059558", 100), read("<STDIN>", 1)], command="3471247031"))
    reading = read_darshan_logs([path], DATA)
    assert np.isnan(reading.table["read_bytes"].item())
    assert reading.table["is_worker"].isna().item()
    assert "hashed" in reading.reasons[0]


def test_shared_files_keep_their_rank(tmp_path):
    shared = read(f"{DATA}/all", 4096, 2.0, rank=-1, slowest_s=0.75)
    path = write(tmp_path, Log([shared, read(f"{DATA}/own", 1024, rank=3)], ranks=4))
    reading = read_darshan_logs([path], DATA)
    assert reading.table[["rank", "processes", "slowest_rank_s"]].to_numpy().tolist() == [[-1, 4, 0.75], [3, 4, 0.0]]
    assert "sums over the ranks" in reading.reasons[0]


def test_names_in_another_encoding(tmp_path):
    path = write(tmp_path, Log([read(b"/data/train/gr\xf6\xdfe".decode("utf-8", "surrogateescape"), 100)]))
    assert read_darshan_files([path], DATA).table["file"].item() == "/data/train/gr\\xf6\\xdfe"


def test_the_same_log_counts_once(tmp_path):
    path = write(tmp_path, Log([read(f"{DATA}/a", 100)]))
    (tmp_path / "copy.darshan").write_bytes(path.read_bytes())
    reading = read_darshan_logs([path, tmp_path / "copy.darshan"], DATA)
    assert reading.table["read_bytes"].tolist() == [100]
    assert "counted once" in reading.reasons[0]
    assert (reading.complete_records, reading.seen_records) == (1, 2)


def test_one_bad_log_costs_itself_only(tmp_path):
    good = write(tmp_path, Log([read(f"{DATA}/a", 100)]))
    reading = read_darshan_logs([*foreign(tmp_path).values(), tmp_path / "absent", tmp_path, good], DATA)
    assert reading.table["read_bytes"].tolist() == [100]
    assert reading.coverage_ratio == 1 / reading.seen_records
    assert len(reading.reasons) == reading.seen_records - 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found an empty file"),
        (b"\x7fELF" + bytes(2000), "found a program"),
        (b"2.06".ljust(2000, b"\0"), "a log of Darshan 2.06"),
        (b"3.42".ljust(2000, b"\0"), "format '3.42', unknown"),
        (b"3.41".ljust(2000, b"\0"), "magic number"),
        (Log([read("/a", 1)]).encode()[:1000], "inside the header"),
        (Log([read("/a", 1)]).encode()[:1400], "it was cut"),
        (Log([read("/a", 1)]).encode() + b"\0", "follow the last region"),
        (Log([read("/a", 1)], versions={"POSIX": 9}).encode(), "version 9"),
        (Log([read("/a", 1)], versions={"POSIX": 3}).encode(), "no whole records"),
        (Log([read("/a", 1, rank=5)]).encode(), "ranks that the job does not have"),
    ],
    ids=["empty", "program", "old", "new", "magic", "header", "cut", "more", "version", "records", "ranks"],
)
def test_what_cannot_be_read_says_what_it_is(tmp_path, content, message):
    path = tmp_path / "x.darshan"
    path.write_bytes(content)
    with pytest.raises(ParseError, match=message):
        read_darshan_logs([path], None)
    with pytest.raises(ParseError):
        read_darshan_segments([path], None)


def test_no_logs_at_all():
    with pytest.raises(ParseError, match="no Darshan log was given"):
        read_darshan_logs([], None)


@pytest.mark.parametrize("version", [1, 2])
def test_traced_operations(tmp_path, version):
    thread = (7,) if version == 2 else ()
    segments = [(0, 100, 0.5, 0.75, *thread), (100, 50, 1.0, 1.5, *thread)]
    other = [(0, 10, 2.0, 2.5, *thread)]
    traces = [(read(f"{DATA}/a", 150), segments), (read("/other", 10), other)]
    log = Log([read(f"{DATA}/a", 150)], traces=traces, versions={"DXT_POSIX": version})
    reading = read_darshan_segments([write(tmp_path, log)], DATA)
    table = reading.table
    assert table["bytes"].tolist() == [100, 50]
    assert table["offset_bytes"].tolist() == [0, 100]
    assert table["start_s"].tolist() == [1000.5, 1001]
    assert set(table["operation"]) == {"read"}
    assert set(table["hostname"]) == {"node1"}
    assert table["thread"].isna().all() == (version == 1)
    untraced = write(tmp_path, Log([read(f"{DATA}/a", 1)]), process=200)
    with pytest.raises(ParseError, match="was not traced"):
        read_darshan_segments([untraced], DATA)


def test_published_job_of_a_data_loader(guarded):
    paths = sorted(sample("darshan/dlio_job").glob("*.darshan"))
    reading = read_darshan_logs(paths, "/grand/projects/radix-io/usr/snyder/dlio/train")
    posix = reading.table[reading.table["module"] == "POSIX"]
    assert reading.is_whole
    assert posix[["read_bytes", "reads", "opens"]].sum().tolist() == [85_245_431_505, 22_855, 560]
    assert reading.facts["data_files"] == 112
    assert posix["read_time_s"].sum() == pytest.approx(38.91387, abs=1e-5)
    assert posix["read_time_s"].max() == pytest.approx(5.751378, abs=1e-6)
    assert posix["all_read_bytes"].sum() == 85_245_569_492
    assert posix["role"].value_counts().to_dict() == {"worker": 8, "other": 3}
    assert reading.table["job"].nunique() == 1


def test_published_own_runs():
    two = read_darshan_logs(sorted(sample("darshan/own_two_readers").iterdir()), "/scratch/train/part*").table
    two = two[two["module"] == "POSIX"]
    assert two[["read_bytes", "reads"]].to_numpy().tolist() == [[16_777_216, 272]] * 2
    assert two["all_read_bytes"].sum() == 33_555_346
    forked = read_darshan_logs(sorted(sample("darshan/own_forked_loader").iterdir()), "/scratch/train/part*").table
    forked = forked[forked["module"] == "POSIX"]
    assert forked["read_bytes"].tolist() == [0, 8_388_608, 8_388_608]
    assert forked["role"].tolist() == ["parent", "worker", "worker"]
    assert forked["parent_process_id"].tolist()[1:] == [21441, 21441]
    mapped = read_darshan_logs([sample("darshan/own_mmap_invisible.darshan")], "/scratch/train")
    assert mapped.table.loc[0, ["files", "read_bytes"]].tolist() == [9, 4096]
    assert told(mapped.reasons[0], UNREAD) == {"unread": "8", "opened": "9"}
    stray = read_darshan_logs([sample("darshan/own_stray_uname.darshan")], None).table
    assert stray[["read_bytes", "role"]].to_numpy().tolist() == [[0, "other"]]
    path = sample("darshan/own_stdio_only.darshan")
    streams, everything = (read_darshan_logs([path], root).table.set_index("module") for root in ("/scratch", None))
    assert everything.loc["STDIO", "read_bytes"] == 4_194_306
    streams = read_darshan_logs([path], "/scratch/train").table.set_index("module")
    assert streams["read_bytes"].to_dict() == {"POSIX": 0, "STDIO": 4_194_304}


def test_published_trace():
    path = sample("darshan/own_dxt.darshan")
    counted = read_darshan_logs([path], "/scratch/train").table.iloc[0]
    assert counted[["read_bytes", "reads"]].tolist() == [4_194_304, 68]
    table = read_darshan_segments([path], None).table
    traced = table[table["operation"] == "read"]
    assert (len(traced), traced["bytes"].sum()) == (71, 4_194_761)
    assert read_darshan_segments([path], "/scratch/train").table["bytes"].sum() == 4_194_304


@pytest.mark.parametrize(
    ("name", "module", "read_bytes", "written_bytes"),
    [
        ("nonmpi_dxt_anonymized", "POSIX", 119_840_385, 120_500_998),
        ("nonmpi_dxt_anonymized", "STDIO", 279_622, None),
        ("release/mpi-io-test-x86_64-3.1.0", "POSIX", 67_108_864, 67_108_864),
        ("release/mpi-io-test-x86_64-3.5.0", "MPI-IO", 67_108_864, 67_108_864),
        ("sample_mpiio_2048ranks", "POSIX", 0, 2_199_023_259_968),
        ("sample_dxt_simple", "POSIX", 0, 4_040),
        ("sample_dxt_simple", "MPI-IO", 0, 4_000),
        ("noposix", "STDIO", 1_812_408_359, None),
        ("stdio_no_posix", "STDIO", 0, 151),
        ("derived_truncated_tail", "POSIX", 67_108_864, 67_108_864),
        ("derived_truncated_tail", "MPI-IO", 67_108_864, 67_108_864),
        ("partial_data_stdio", "POSIX", 16_777_216, None),
        ("partial_data_stdio", "STDIO", 0, 17_129_537_858),
        ("own_tf_import_incomplete_obfuscated", "POSIX", 29_739_358, None),
    ],
)
def test_published_logs(name, module, read_bytes, written_bytes):
    table = read_darshan_logs([sample(f"darshan/{name}.darshan")], None).table
    rows = table[table["module"] == module]
    assert rows["read_bytes"].sum() == read_bytes
    assert written_bytes is None or rows["written_bytes"].sum() == written_bytes


def test_published_incomplete_and_damaged_logs():
    folder = sample("darshan/empty_log.darshan").parent
    empty = read_darshan_logs([folder / "empty_log.darshan"], None).table
    assert empty["processes"].tolist() == [4]
    assert empty["module"].isna().all()
    full = read_darshan_logs([folder / "own_tf_import_incomplete_obfuscated.darshan"], None)
    assert full.table["files"].tolist() == [1024, 7]
    assert told(full.reasons[0], RECORDS_LOST)["records"] == "1024"
    assert ": POSIX " in full.reasons[0]
    partial = read_darshan_logs([folder / "partial_data_stdio.darshan"], None)
    assert partial.coverage_ratio == 0
    assert told(partial.reasons[0], RECORDS_LOST)["records"] == "1022"
    assert ": STDIO " in partial.reasons[0]
    times = read_darshan_logs([folder / "sample_mpiio_2048ranks.darshan"], None)
    assert NEGATIVE(column="write_time_s", records=1, module="STDIO") in times.reasons[0]
    corrupt = read_darshan_logs([folder / "derived_corrupt_module.darshan"], None)
    assert "POSIX" not in set(corrupt.table["module"])
    assert "incorrect data check" in corrupt.reasons[0]
    assert corrupt.coverage_ratio == 0
    messages = {
        "derived_truncated.darshan": "it was cut",
        "derived_zero_bytes.darshan": "an empty file",
        "old_2.3.1.darshan.gz": "a log of Darshan 2.06",
    }
    for name, message in messages.items():
        with pytest.raises(ParseError, match=message):
            read_darshan_logs([folder / name], None)
