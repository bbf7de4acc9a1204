"""Deliberately damaged sources: each is repaired or refused with a message; none ends in a traceback."""

import io
import json
import lzma
import os
import re
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unit.mlperf_hpc.log_factory import START_MS, log_events, log_text, system_json, text_of, write_tree
from unit.refusals import refused

from hpcai.core.errors import ParseError
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.results_folder import read_rounds, write_import
from hpcai.mlperf_hpc.compliance.verdict import judge
from hpcai.mlperf_hpc.compliance.verdict_text import describe_verdict
from hpcai.mlperf_hpc.rounds import limits
from hpcai.mlperf_hpc.rounds.archives import LONG_HEAD
from hpcai.mlperf_hpc.rounds.reading import BAD_NAME, read_round
from hpcai.mlperf_hpc.rounds.selection import TOO_MANY_LINES

LOG = "ORG/results/machine/strong/deepcam/result_{}.txt"


def logs(**settings):
    return [log_text("deepcam", seed=seed, epoch_s=100.0 + 10 * seed, **settings) for seed in range(1, 6)]


def write(folder, contents=None, **arguments):
    write_tree(folder, benchmark="deepcam", logs=contents or logs(), **arguments)
    return folder


def imported(source: Path, output: Path) -> dict[str, pd.DataFrame]:
    """Import, write all tables as CSV and Parquet, judge and describe; return the tables."""
    tables = write_import(read_rounds([source]), output, write_tables)
    words = "\n".join(describe_verdict(judge(source), warnings=True, ungrouped=True))
    assert words.encode("utf-8")
    for name, table in tables.items():
        assert len(pd.read_parquet(output / f"tables/{name}.parquet")) == len(table)
    return tables


def kinds(tables):
    return set(tables["mlperf_repairs"]["kind"])


# Invalid texts


def test_half_characters_in_a_log_are_replaced_and_listed(tmp_path):
    contents = [text.replace('"value": "machine"', '"value": "\\ud800 x"') for text in logs()]
    contents[0] += ':::MLLOG {"time_ms": 1, "event_type": "", "key": "\\udc01", "value": "\\\\ud800", "metadata": {}}\n'
    assert contents[0].count("\\ud800 x") == 1
    tables = imported(write(tmp_path / "v2.0", contents), tmp_path / "out")
    assert "text_replaced" in kinds(tables)
    run = read_round(tmp_path / "v2.0").submissions[0].runs[0]
    assert run.platform == "\ufffd x"
    # Text that is escaped twice is kept as it is.
    assert run.settings["\ufffd"] == "\\ud800"


def test_whole_characters_of_two_halves_stay(tmp_path):
    contents = [text.replace('"value": "machine"', '"value": "\\ud83d\\ude00"') for text in logs()]
    found = read_round(write(tmp_path, contents))
    assert found.submissions[0].runs[0].platform == "\U0001f600"
    assert "text_replaced" not in {one.kind for run in found.submissions[0].runs for one in run.repairs}


def test_half_characters_in_a_system_file_are_replaced_and_listed(tmp_path):
    description = system_json(accelerator_model_name="A\ud800100", submitter="\udfff")
    tables = imported(write(tmp_path / "v2.0", description=description), tmp_path / "out")
    assert "text_replaced" in kinds(tables)
    assert tables["mlperf_systems"]["accelerator"].tolist() == ["A\ufffd100"]


@pytest.mark.parametrize("name", [b"OR\xffG", b"O\x01G", b"O\nG"], ids=["other-encoding", "control", "line"])
def test_a_folder_whose_name_is_no_text_is_left_out_and_listed(tmp_path, name):
    write(tmp_path / "v2.0")
    write(tmp_path / "v2.0", org="B")
    os.rename(os.fsencode(tmp_path / "v2.0/ORG"), os.fsencode(tmp_path / "v2.0") + b"/" + name)
    tables = imported(tmp_path / "v2.0", tmp_path / "out")
    assert tables["mlperf_results"]["org"].tolist() == ["B"]
    assert "name_no_text" in kinds(tables)


@pytest.mark.parametrize("name", [b"OR\xffG", b"O\x01G"], ids=["other-encoding", "control"])
def test_members_whose_names_are_no_text_are_left_out_and_listed(tmp_path, name):
    write(tmp_path / "tree")
    path = tmp_path / "v2.0.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "tree/ORG", "B")
        archive.add(tmp_path / "tree/ORG", os.fsdecode(name))
    tables = imported(path, tmp_path / "out")
    assert tables["mlperf_results"]["org"].tolist() == ["B"]
    assert (tables["mlperf_repairs"]["kind"] == "name_no_text").sum() == 5 + 1


def test_a_log_whose_name_is_no_text_is_left_out_and_listed(tmp_path):
    write(tmp_path / "v2.0")
    place = os.fsencode(tmp_path / "v2.0/ORG/results/machine/strong/deepcam")
    (Path(os.fsdecode(place + b"/result_\xff.txt"))).write_bytes(b"x")
    assert "name_no_text" in kinds(imported(tmp_path / "v2.0", tmp_path / "out"))


@pytest.mark.parametrize("name", ["\udcff", "a\x07b"], ids=["other-encoding", "control"])
def test_a_source_whose_name_is_no_text_is_refused(tmp_path, name):
    with pytest.raises(ParseError, match="rename the folder or archive") as caught:
        read_round(write(tmp_path / name))
    assert str(caught.value).isprintable()
    with refused(ParseError, BAD_NAME):
        read_round(write(tmp_path / "plain"), name=name)


def test_names_in_logs_have_no_control_characters_and_an_end(tmp_path):
    for number, text in enumerate(logs(org="a\0b\x1b", platform="p" * 100_000), start=1):
        (tmp_path / f"result_{number}.txt").write_text(text)
    one = read_round(tmp_path).submissions[0]
    assert (one.org, len(one.runs[0].platform)) == (r"a\x00b\x1b", 200)


# Invalid numbers


@pytest.mark.parametrize("time_ms", [-62_135_596_800_001, -1, 253_402_300_800_000, 10**17, 1e300, -1.7e308])
@pytest.mark.parametrize("key", ["run_start", "run_stop", ""])
def test_times_that_no_calendar_has_are_left_out_and_listed(tmp_path, time_ms, key):
    events = log_events("deepcam")
    for event in events:
        event["time_ms"] = time_ms if key in event["key"] else event["time_ms"]
    contents = logs()
    contents[2] = text_of(events)
    tables = imported(write(tmp_path / "v2.0", contents), tmp_path / "out")
    assert "time_impossible" in kinds(tables)
    runs = tables["mlperf_runs"]
    assert runs["run_s"].isna().tolist() == [False, False, True, False, False]
    assert runs["started_utc"].tolist()[2] == ""


def test_a_run_without_an_end_has_no_start_beyond_all_calendars(tmp_path):
    """Tables of studies use its first interval as the start."""
    contents = logs()
    for number in (0, 1):
        events = [event for event in log_events("deepcam") if event["key"] != "run_stop"]
        for event in events:
            event["time_ms"] -= (START_MS + 10**14) * number
        contents[number] = text_of(events)
    runs = imported(write(tmp_path / "v2.0", contents), tmp_path / "out")["runs"]
    assert runs["started_utc"].str[:4].tolist() == ["2023", "", "2023", "2023", "2023"]


def test_a_run_that_takes_no_time_has_none(tmp_path):
    events = log_events("deepcam")
    for event in events:
        event["time_ms"] = START_MS
    tables = imported(write(tmp_path / "v2.0", [text_of(events), *logs()[1:]]), tmp_path / "out")
    assert "run_without_duration" in kinds(tables)
    assert tables["mlperf_runs"]["run_s"].isna().tolist() == [True, False, False, False, False]


def test_a_log_from_far_ahead_is_suspected(tmp_path):
    contents = [text_of(log_events("deepcam", start_ms=9e12)), *logs()[1:]]
    assert "time_unlikely" in kinds(imported(write(tmp_path / "v2.0", contents), tmp_path / "out"))


HUGE = (10**9 + 1, 10**14, 2**63, 10**400, 1.7e308, "9" * 15)


@pytest.mark.parametrize("scaling", ["strong", "weak"])
@pytest.mark.parametrize("count", HUGE, ids=["e9", "e14", "2^63", "e400", "e308", "text"])
def test_huge_counts_are_unknown_and_listed(tmp_path, count, scaling):
    names = (
        "global_batch_size", "train_samples", "eval_samples", "number_of_nodes", "accelerators_per_node",
        "number_of_ranks",
    )  # fmt: skip
    fields = ("number_of_nodes", "host_processors_per_node", "accelerators_per_node")
    write(
        tmp_path / "v2.0", logs(**dict.fromkeys(names, count)), scaling=scaling,
        description=system_json(**dict.fromkeys(fields, count)),
    )  # fmt: skip
    tables = imported(tmp_path / "v2.0", tmp_path / "out")
    assert "system_count" in kinds(tables)
    assert ("count_impossible" in kinds(tables)) == (not isinstance(count, str))
    assert not np.isinf(tables["epochs"].select_dtypes("number")).any().any()
    numbers = tables["mlperf_runs"][["nodes", "processors", "accelerators", "units", "train_rate_samples_per_s"]]
    assert numbers.isna().all().all()


@pytest.mark.parametrize("key", ["opt_lr", "opt_weight_decay", "gradient_accumulation_frequency", "seed"])
def test_huge_settings_are_compared_with_the_rules(tmp_path, key):
    tables = imported(write(tmp_path / "v2.0", [*logs()[1:], log_text("deepcam", **{key: 10**400})]), tmp_path / "out")
    assert len(tables["mlperf_runs"]) == 5


def test_huge_steps_blocks_and_factors_give_no_numbers(tmp_path):
    contents = [re.sub(r'"epoch_num": (\d+)', r'"epoch_num": \1, "step_num": 1e308', text) for text in logs()]
    place = write_tree(tmp_path / "v2.0", benchmark="deepcam", logs=contents)
    (place / "scaling.json").write_text(json.dumps({"scaling_factor": 1e300}))
    tables = imported(tmp_path / "v2.0", tmp_path / "out")
    assert "scaling_unreadable" in kinds(tables)
    assert tables["mlperf_runs"]["train_rate_by_steps_samples_per_s"].isna().all()
    assert tables["mlperf_results"]["scaling_factor"].tolist() == [1.0]
    blocks = [
        re.sub(r'"epoch_num": (\d+)', r'"first_epoch_num": \1, "epoch_count": 1.7e308', text).replace(
            "epoch_st", "block_st"
        )
        for text in logs()
    ]
    tables = imported(write(tmp_path / "v3.0", blocks), tmp_path / "blocks")
    assert tables["mlperf_runs"]["epochs"].tolist() == [4.0] * 5


def test_seeds_of_any_size_stand_in_one_column(tmp_path):
    seeds = (3, -5, 2**63 + 5, 10**400, "x")
    contents = [log_text("deepcam", seed=seed, epoch_s=100.0 + place) for place, seed in enumerate(seeds)]
    tables = imported(write(tmp_path / "v2.0", contents), tmp_path / "out")
    assert tables["runs"]["seed"].tolist()[:2] == [3, -5]
    assert tables["runs"]["seed"].isna().tolist() == [False, False, True, True, True]


# Bombs


def zeros_of(name, size_bytes, kind=tarfile.REGTYPE):
    member = tarfile.TarInfo(name)
    member.size, member.type = size_bytes, kind
    return member


def packed(path, *members):
    """Write members without given content as zeros, followed by one log."""
    content = logs()[0].encode()
    log = tarfile.TarInfo(LOG.format(9))
    log.size = len(content)
    with tarfile.open(path, "w:xz", preset=0) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
        archive.addfile(log, io.BytesIO(content))
    return path


def old_sparse(name, size_bytes):
    """Return a member of GNU tar's first form of sparse files, without any data, and its head."""
    member = tarfile.TarInfo(name)
    member.type = tarfile.GNUTYPE_SPARSE
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[483:495] = b"%011o\0" % size_bytes
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def test_a_sparse_archive_is_refused(tmp_path):
    """One of 96 KB took 2 GB of memory."""
    path = tmp_path / "v2.0.tar"
    content = logs()[0].encode()
    log = tarfile.TarInfo(LOG.format(1))
    log.size = len(content)
    body = log.tobuf() + content + bytes(-len(content) % 512)
    path.write_bytes(body + old_sparse(LOG.format(2), 1 << 29) + bytes(1024))
    with pytest.raises(ParseError, match="sparse file"):
        read_round(path)


@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "500000000"},
        {"GNU.sparse.map": "0,1", "GNU.sparse.size": "500000000"},
        {"GNU.sparse.size": "500000000", "GNU.sparse.numblocks": "0"},
    ],
    ids=["1.0", "0.1", "0.0"],
)
def test_newer_sparse_archives_are_refused(tmp_path, headers):
    member = zeros_of("a.py", 512)
    member.pax_headers = headers
    with pytest.raises(ParseError, match="sparse file"):
        read_round(packed(tmp_path / "v2.0.tar.xz", member))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_swollen_heads_are_refused(tmp_path, kind):
    member = zeros_of("x", limits.HEAD_BYTES + 1, kind)
    with pytest.raises(ParseError, match=LONG_HEAD(found_bytes=65_537, most_bytes=65_536)):
        read_round(packed(tmp_path / "v2.0.tar.xz", member))


def test_an_xz_stream_gets_no_memory_beyond_its_limit(tmp_path):
    """The head alone declares a gigabyte."""
    plain = packed(tmp_path / "plain.tar.xz")
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30, "preset": 0}]
    path = tmp_path / "v2.0.tar.xz"
    path.write_bytes(lzma.compress(lzma.decompress(plain.read_bytes()), filters=filters))
    with pytest.raises(ParseError, match="128 MiB of memory"):
        read_round(path)


def test_streams_behind_each_other_are_one(tmp_path):
    whole = lzma.decompress(packed(tmp_path / "plain.tar.xz").read_bytes())
    path = tmp_path / "v2.0.tar.xz"
    path.write_bytes(lzma.compress(whole[:700]) + bytes(8) + lzma.compress(whole[700:]))
    assert [run.number for run in read_round(path).submissions[0].runs] == [9]


def test_a_zip_whose_sizes_are_wrong_is_refused(tmp_path):
    path = tmp_path / "v2.0.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(LOG.format(1), bytes(1 << 20))
    data = path.read_bytes().replace((1 << 20).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(ParseError, match="CRC"):
        read_round(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_zip_that_unpacks_without_limit_is_refused(tmp_path, method):
    path = tmp_path / "v2.0.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(LOG.format(1), logs()[0])
    with pytest.raises(ParseError, match="expected deflate"):
        read_round(path)


@pytest.mark.parametrize(
    ("limit", "most", "words"),
    [("FILES", 3, "3 logs and system files"), ("TOTAL_BYTES", 9000, "9,000 bytes of logs"),
     ("TOTAL_LINES", 100, "100 lines with events")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["folder", "tar", "zip"])
def test_a_source_has_a_limit_as_a_whole(tmp_path, monkeypatch, limit, most, words, kind):
    source = write(tmp_path / "v2.0")
    if kind == "tar":
        with tarfile.open(tmp_path / "v2.0.tar", "w") as archive:
            archive.add(source, "top")
        source = tmp_path / "v2.0.tar"
    elif kind == "zip":
        with zipfile.ZipFile(tmp_path / "v2.0.zip", "w") as archive:
            for file in sorted(path for path in source.rglob("*") if path.is_file()):
                archive.write(file, file.relative_to(source))
        source = tmp_path / "v2.0.zip"
    read_round(source)
    monkeypatch.setattr(limits, limit, most)
    with pytest.raises(ParseError, match=f"found more than {words}") as caught:
        read_round(source)
    assert "name one organisation's folder" in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "most", "words"),
    [("MEMBERS", 5, "5 files and folders"), ("ARCHIVE_BYTES", 50_000, "50,000 bytes in the unpacked")],
)
def test_what_is_not_read_of_an_archive_counts_as_well(tmp_path, monkeypatch, limit, most, words):
    path = packed(tmp_path / "v2.0.tar.xz", *(zeros_of(f"code_{number}.py", 10_000) for number in range(6)))
    read_round(path)
    monkeypatch.setattr(limits, limit, most)
    with pytest.raises(ParseError, match=f"found more than {words}"):
        read_round(path)


def test_a_log_has_a_limit_of_its_own(tmp_path, monkeypatch):
    contents = logs()
    contents[1] += ":::MLLOG {}\n" * 100
    write(tmp_path, contents)
    monkeypatch.setattr(limits, "FILE_LINES", 100)
    found = read_round(tmp_path)
    assert [one.source for one in found.repairs if one.kind == "too_many_lines"] == [LOG.format(2)]
    assert [run.number for run in found.submissions[0].runs] == [1, 3, 4, 5]
    with pytest.raises(ParseError, match=rf"result_2\.txt: .*{TOO_MANY_LINES.pattern}"):
        read_round(tmp_path / LOG.format(2))


def test_findings_of_a_log_are_listed_up_to_a_number(tmp_path):
    """Without the limit, a log of 32 MiB would make a table of gigabytes."""
    contents = logs()
    contents[0] += ":::MLLOG {}\n" * 5000
    verdicts = imported(write(tmp_path / "v2.0", contents), tmp_path / "out")["mlperf_verdicts"]
    own = verdicts[verdicts["source"] == LOG.format(1)]
    assert len(own) <= 1010
    assert own["message"].str.contains("4,000 more findings").sum() == 1
    assert not own["complies"].any()


@pytest.mark.parametrize("name", [LOG.format(1), "a/readme"], ids=["wanted", "passed-over"])
def test_a_member_of_a_size_beyond_all_is_refused_at_its_head(tmp_path, name):
    """Without the check, 2^40 steps beyond the end of the archive would be searched for its end."""
    member = tarfile.TarInfo(name)
    member.size = 1 << 60
    archive = tmp_path / "v2.0.tar"
    archive.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    with pytest.raises(ParseError, match="bytes in the unpacked archive"):
        read_round(archive)


@pytest.mark.parametrize("read", [read_round, judge], ids=["import", "check"])
def test_a_link_to_itself_is_no_source(tmp_path, read):
    source = tmp_path / "v2.0"
    source.symlink_to(source)
    with pytest.raises(ParseError, match="no such file or folder"):
        read(source)


def test_a_log_that_is_a_link_to_itself_is_left_out_and_listed(tmp_path):
    folder = write(tmp_path / "v2.0")
    log = folder / LOG.format(6)
    log.symlink_to(log)
    assert "link" in kinds(imported(folder, tmp_path / "out"))
