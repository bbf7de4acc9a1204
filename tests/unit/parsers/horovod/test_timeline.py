import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from unit.parsers.artefacts import cuts, flips, foreign, sample

from hpcai.core.errors import ParseError
from hpcai.parsers import workers as parser_workers
from hpcai.parsers.horovod import blocks as horovod_blocks
from hpcai.parsers.horovod.spill import spill_timeline
from hpcai.parsers.horovod.stream import UNKNOWN_ACTIVITY, Account
from hpcai.parsers.horovod.timeline import (
    iterate_tables,
    read_timeline,
    read_timeline_tables,
    read_timelines,
    reading_of,
)

KERAS, OLD, GLOO, KILLED = (
    "horovod/keras_nccl_8ranks.json",
    "horovod/tf_mpi_4ranks_2019_unclosed.json",
    "horovod/tf_gloo_2ranks_markcycles.json",
    "horovod/tf_mpi_2ranks_killed.json",
)
PHASES = {
    KERAS: {
        "NEGOTIATE_ALLREDUCE": (1254, 31_135_612),
        "ALLREDUCE": (1254, 9_992_681),
        "NCCL_ALLREDUCE": (1232, 303_410),
        "MPI_ALLREDUCE": (22, 285),
        "MEMCPY_IN_FUSION_BUFFER": (1230, 15_941),
        "MEMCPY_OUT_FUSION_BUFFER": (1230, 43_220),
        "QUEUE": (1232, 10_182),
        "WAIT_FOR_DATA": (1232, 454_192),
        "WAIT_FOR_OTHER_TENSOR_DATA": (1232, 369_191),
        "NEGOTIATE_BROADCAST": (50, 218_079),
        "BROADCAST": (50, 21_388),
        "INIT_NCCL": (2, 8_648_254),
        "INIT_FUSION_BUFFER": (2, 98),
    },
    OLD: {
        "NEGOTIATE_ALLREDUCE": (660, 386_700_963),
        "ALLREDUCE": (660, 47_484_826),
        "MPI_ALLREDUCE": (660, 47_169_537),
        "MEMCPY_IN_FUSION_BUFFER": (214, 135_475),
        "MEMCPY_OUT_FUSION_BUFFER": (214, 162_570),
        "NEGOTIATE_BROADCAST": (13, 40_363_567),
        "BROADCAST": (13, 969_223),
        "INIT_FUSION_BUFFER": (2, 32),
    },
    GLOO: {
        "NEGOTIATE_ALLREDUCE": (675, 23_902_706),
        "ALLREDUCE": (675, 1_447_015),
        "GLOO_ALLREDUCE": (675, 1_367_267),
        "MEMCPY_IN_FUSION_BUFFER": (601, 12_711),
        "MEMCPY_OUT_FUSION_BUFFER": (601, 9_710),
        "NEGOTIATE_BROADCAST": (29, 859_174),
        "BROADCAST": (29, 76_427),
        "INIT_FUSION_BUFFER": (2, 3_424),
    },
    KILLED: {
        "NEGOTIATE_ALLREDUCE": (225, 7_194_682),
        "ALLREDUCE": (225, 220_811),
        "MPI_ALLREDUCE": (225, 122_045),
        "MEMCPY_IN_FUSION_BUFFER": (196, 12_258),
        "MEMCPY_OUT_FUSION_BUFFER": (196, 4_001),
        "NEGOTIATE_BROADCAST": (29, 142_249),
        "BROADCAST": (29, 996),
        "INIT_FUSION_BUFFER": (4, 65_143),
    },
}
FACTS = {
    KERAS: (20_734, 8, 0, "new"),
    OLD: (21_627, 4, 13_999, "old"),
    GLOO: (10_156, 2, 3_346, "new"),
    KILLED: (4_607, 2, 2_113, "new"),
}
EPOCH_US = 1_700_000_000_000_000


def microseconds(column):
    return np.rint(column.to_numpy() * 1e6).astype(np.int64)


def sums(table):
    durations = pd.Series(microseconds(table["duration_s"])).groupby(table["activity"].astype(str).to_numpy())
    return {name: (len(values), int(values.sum())) for name, values in durations}


def rows(table):
    return Counter(
        zip(
            table["tensor"].astype(str),
            table["activity"].astype(str),
            microseconds(table["start_s"]),
            microseconds(table["duration_s"]),
            strict=True,
        )
    )


def event(phase, time, tensor, name=None, rest=""):
    named = f', "name": "{name}"' if name else ""
    return f'{{"ph": "{phase}"{named}, "ts": {time}, "pid": {tensor}{rest}}}'


def metadata(tensor, name):
    return (
        f'{{"name": "process_name", "ph": "M", "pid": {tensor}, "args": {{"name": "{name}"}}}},\n'
        f'{{"name": "process_sort_index", "ph": "M", "pid": {tensor}, "args": {{"sort_index": {tensor}}}}},\n'
    )


def step(time, tensors, *, first=False):
    """Events of one step that reduces all tensors as one batch of 32 bytes each, with phases 100 us apart."""
    parts = []
    for tensor in tensors:
        named = metadata(tensor, f"gradient_{tensor}") if first else ""
        parts.append(named + event("B", time, tensor, "NEGOTIATE_ALLREDUCE"))
        if first:
            parts += [event("X", time + rank, tensor, str(rank), ', "dur": 0') for rank in (1, 0)]
            time += 1
        parts.append(event("E", time + 10, tensor))
        time += 10
    parts += [event("B", time, tensor, "ALLREDUCE") for tensor in tensors]
    for number, activity in enumerate(("MEMCPY_IN_FUSION_BUFFER", "GLOO_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER")):
        at = time + 100 * number
        parts += [event("B", at, tensor, activity) for tensor in tensors]
        parts += [event("E", at + 50, tensor) for tensor in tensors]
    result = ', "args": {"dtype": "float32", "shape": "[2, 4]"}'
    return [*parts, *(event("E", time + 300, tensor, rest=result) for tensor in tensors)]


def timeline(steps=6, tensors=(1, 2, 3), *, start_us=EPOCH_US, offset=0):
    """A complete timeline of the new layout, or of the old one without a start."""
    events = [part for number in range(steps) for part in step(offset + 1000 * (number + 1), tensors, first=not number)]
    if start_us is None:
        return "[\n" + "".join(part + ",\n" for part in events)
    start = (
        f'{{"name": "process_name", "ph": "M", "pid": 0, "args": {{"start_time_since_epoch_in_micros":{start_us}}}}},\n'
        '{"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}},\n'
    )
    return "[\n" + start + ",".join(events) + "]"


def write(folder, text, name="timeline.json"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", PHASES)
def test_published_samples_give_the_values_counted_by_hand(name):
    read = read_timeline_tables(sample(name))
    events, ranks, cycles, layout = FACTS[name]
    found = sums(read.spans.table)
    assert {phase: found[phase] for phase in PHASES[name]} == PHASES[name]
    assert read.spans.facts["events"] == events
    assert read.spans.facts["ranks"] == ranks == read.ready["rank"].nunique()
    assert read.spans.facts["marks_cycles"] == (cycles > 0)
    assert len(read.cycles) == cycles
    assert read.spans.facts["layout"] == layout
    assert read.spans.is_whole
    assert read.spans.coverage_ratio == 1
    assert (read.spans.table["duration_s"] >= 0).all()


def test_truncated_sample_drops_what_is_open():
    read = read_timeline_tables(sample("horovod/derived_truncated_midevent.json"))
    found = sums(read.spans.table)
    assert read.spans.facts["events"] == 2_586
    assert found["ALLREDUCE"] == (122, 8_787_335)
    assert found["NCCL_ALLREDUCE"] == (120, 28_027)
    assert (read.spans.seen_records, read.spans.complete_records) == (1_075, 1_069)
    assert any("byte 149978" in reason for reason in read.spans.reasons)
    assert any(reason.startswith("6 spans without an end") for reason in read.spans.reasons)


def test_published_sample_without_events_is_an_error():
    with pytest.raises(ParseError, match="nothing recorded"):
        read_timeline(sample("horovod/derived_only_open_bracket.json"))


def test_spans_ready_marks_and_bytes(tmp_path):
    read = read_timeline_tables(write(tmp_path, timeline()))
    table = read.spans.table
    assert sums(table)["GLOO_ALLREDUCE"] == (18, 18 * 50)
    assert sums(table)["ALLREDUCE"] == (18, 18 * 300)
    assert sums(table)["NEGOTIATE_ALLREDUCE"] == (18, 3 * 11 + 15 * 10)
    assert set(table["tensor"]) == {"gradient_1", "gradient_2", "gradient_3"}
    assert set(table.loc[table["activity"] == "GLOO_ALLREDUCE", "bytes"]) == {32.0}
    assert table.loc[table["activity"] == "NEGOTIATE_ALLREDUCE", "bytes"].isna().all()
    assert list(read.ready["rank"]) == [1, 0] * 3
    assert read.spans.facts["start_epoch_us"] == EPOCH_US
    assert read.spans.is_whole


def test_operations_that_set_something_up_are_marked(tmp_path):
    text = timeline().replace("MEMCPY_IN_FUSION_BUFFER", "INIT_FUSION_BUFFER", 1)
    table = read_timeline(write(tmp_path, text)).table
    assert list(table.loc[table["has_init"], "tensor"].unique()) == ["gradient_1"]
    assert table["has_init"].sum() == 4


def test_old_layout_with_a_monotonic_clock(tmp_path):
    text = timeline(start_us=None, offset=1_410_488_741_507)
    read = read_timeline(write(tmp_path, text))
    assert read.facts["layout"] == "old"
    assert read.is_whole
    assert microseconds(read.table["start_s"]).min() == 1_410_488_742_507
    assert sums(read.table) == sums(read_timeline(write(tmp_path, timeline())).table)


def test_other_spacing_gives_the_same_spans(tmp_path):
    expected = read_timeline(write(tmp_path, timeline()))
    for indent in (None, 1):
        path = write(tmp_path, json.dumps(json.loads(timeline()), indent=indent), "other.json")
        read = read_timeline(path)
        pd.testing.assert_frame_equal(read.table, expected.table)
        assert read.is_whole


def test_blocks_of_any_size_give_the_same_spans(tmp_path, monkeypatch):
    path = write(tmp_path, timeline(40))
    expected = rows(read_timeline(path).table)
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    for size in (701, 4096):
        monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", size)
        read = read_timeline(path)
        assert rows(read.table) == expected
        assert read.is_whole


def tables(path):
    """Everything read from a file, for comparison."""
    try:
        read = read_timeline_tables(path)
    except ParseError as error:
        return str(error)
    frames = (read.spans.table, read.ready, read.cycles, read.doubtful)
    said = read.spans.reasons, read.spans.facts, read.spans.complete_records, read.spans.seen_records
    return [frame.to_csv() for frame in frames], said


def damaged(data):
    """Yield a file whole, truncated, with flipped bits, and with lost, doubled or foreign parts."""
    yield data
    yield from (part for _, part in cuts(data, 4))
    yield from (part for _, part in flips(data, 6))
    middle, far = len(data) // 2, len(data) // 2 + 1500
    yield data[:middle] + data[far:]
    yield data[:far] + data[middle:]
    yield data[:middle] + b'{"\xff\x00},\n' * 200 + data[middle:]
    yield data.replace(b"GLOO_ALLREDUCE", b"GLOP_ALLREDUCE").replace(b"[2, 4]", b"[2, 5]", 3)


@pytest.mark.parametrize(("block_bytes", "start_us"), [(701, EPOCH_US), (4096, None)])
def test_other_processes_read_the_same_whatever_the_damage(tmp_path, monkeypatch, block_bytes, start_us):
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    monkeypatch.setattr("hpcai.parsers.horovod.stream.BATCH_EVENTS", 50)
    for data in damaged(timeline(8, start_us=start_us).encode()):
        path = write(tmp_path, data)
        monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", block_bytes)
        found = []
        for count in (0, 1, 3):
            monkeypatch.setattr(horovod_blocks, "count_workers", lambda _, count=count: count)
            found.append(tables(path))
        assert found[0] == found[1] == found[2]


def test_names_that_processes_meet_in_another_order_keep_their_meaning(tmp_path, monkeypatch):
    text = timeline(30)
    for number in range(40):  # the same new names, in another order in each part of the file
        name = f"NCCL_STEP_{number * 7 % 10}_{number % 3}"
        text = text.replace("GLOO_ALLREDUCE", name, 2).replace("[2, 4]", f"[2, {3 + number % 4}]", 1)
    path = write(tmp_path, text)
    expected = tables(path)
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", 900)
    for count in (0, 2, 3):
        monkeypatch.setattr(horovod_blocks, "count_workers", lambda _, count=count: count)
        assert tables(path) == expected


def test_results_too_large_for_shared_memory_arrive(tmp_path, monkeypatch):
    path = write(tmp_path, timeline(40))
    expected = tables(path)
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(horovod_blocks, "count_workers", lambda _: 2)
    monkeypatch.setattr(parser_workers, "ROOM_BYTES", 1024)
    assert tables(path) == expected


ILL_FATED = {
    "fails": lambda: 1 / 0,
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "is stuck": lambda: time.sleep(600),
}


@pytest.mark.parametrize("kind", ILL_FATED)
def test_what_a_process_does_not_deliver_is_read_here(tmp_path, monkeypatch, kind):
    path = write(tmp_path, timeline(40))
    expected = tables(path)
    here, before, read_block = os.getpid(), psutil.Process().children(), horovod_blocks._read_block

    def read_or_die(descriptor, offset, *others):
        if os.getpid() != here and offset > 30_000:
            ILL_FATED[kind]()
        return read_block(descriptor, offset, *others)

    monkeypatch.setattr(parser_workers, "PATIENCE_S", 0.3)
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(horovod_blocks, "count_workers", lambda _: 2)
    monkeypatch.setattr(horovod_blocks, "_read_block", read_or_die)
    assert tables(path) == expected
    assert psutil.Process().children() == before


def test_other_processes_read_all_but_the_first_block(tmp_path, monkeypatch):
    here, read_here, read_block = os.getpid(), [], horovod_blocks._read_block

    def watch(descriptor, offset, *others):
        if os.getpid() == here:
            read_here.append(offset)
        return read_block(descriptor, offset, *others)

    monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    monkeypatch.setattr(horovod_blocks, "count_workers", lambda _: 2)
    monkeypatch.setattr(horovod_blocks, "_read_block", watch)
    read_timeline(write(tmp_path, timeline(200)))
    assert read_here == [0]


def test_without_more_processes_all_is_read_here(tmp_path, monkeypatch):
    path = write(tmp_path, timeline(40))
    expected = tables(path)
    monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    monkeypatch.setattr(horovod_blocks, "count_workers", lambda _: 2)

    def refuse():
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    assert tables(path) == expected


def test_no_process_outlives_a_stream_that_is_left_early(tmp_path, monkeypatch):
    before = psutil.Process().children()
    monkeypatch.setattr("hpcai.parsers.horovod.stream.BATCH_EVENTS", 50)
    monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    monkeypatch.setattr(horovod_blocks, "count_workers", lambda _: 2)
    pieces = iterate_tables(write(tmp_path, timeline(200)), Account())
    for _ in range(4):
        next(pieces)
    assert len(psutil.Process().children()) == len(before) + 2
    pieces.close()
    assert psutil.Process().children() == before


def test_only_large_files_on_several_cores_are_read_by_other_processes(monkeypatch):
    for cores, expected in ((1, 0), (2, 2), (64, 3)):
        monkeypatch.setattr(horovod_blocks, "usable_cores", lambda cores=cores: cores)
        assert horovod_blocks.count_workers(200_000_000) == expected
        assert horovod_blocks.count_workers(1_000_000) == 0
    assert parser_workers.usable_cores() >= 1


def test_stream_and_parquet_equal_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr("hpcai.parsers.horovod.stream.BATCH_EVENTS", 50)
    monkeypatch.setattr(horovod_blocks, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(horovod_blocks, "LONGEST_EVENT", 512)
    path = write(tmp_path, timeline(20))
    expected = read_timeline(path)
    account = Account()
    streamed = pd.concat([piece.spans.table for piece in iterate_tables(path, account)])
    assert rows(streamed) == rows(expected.table)
    assert reading_of(path, account, streamed).summary() == expected.summary()
    spilled = spill_timeline(path, tmp_path / "spans.parquet")
    written = pd.read_parquet(tmp_path / "spans.parquet")
    assert rows(written) == rows(expected.table)
    assert list(written.columns) == list(expected.table.columns)
    assert spilled.reasons() == ()
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_cuts_give_original_spans_and_say_what_is_missing(tmp_path):
    for text in (timeline(), timeline(start_us=None)):
        data = text.encode()
        whole = rows(read_timeline(write(tmp_path, data)).table)
        for place, part in cuts(data, 40):
            path = write(tmp_path, part, "cut.json")
            try:
                read = read_timeline(path)
            except ParseError:
                assert place < 400
                continue
            found = rows(read.table)
            assert not found - whole
            unseen = b"start_time" not in data and part.endswith(b",\n")
            assert found == whole or read.reasons or unseen
            assert read.complete_records == len(read.table) <= read.seen_records


def test_a_cut_behind_an_event_of_the_new_layout_is_seen(tmp_path):
    text = timeline()
    read = read_timeline(write(tmp_path, text[: text.rindex(',{"ph"')]))
    assert any("not closed" in reason for reason in read.reasons)


TIME_OR_NUMBER = set("0123456789")
"""Digits have no redundancy as long as the event order and the shape of operations stay the same."""


def test_flips_never_change_a_number_unseen(tmp_path):
    data = timeline(steps=12).encode()
    whole = rows(read_timeline(write(tmp_path, data)).table)
    for place, changed in flips(data, 150):
        path = write(tmp_path, changed, "flipped.json")
        try:
            read = read_timeline(path)
        except ParseError:
            continue
        found = rows(read.table)
        without_redundancy = chr(data[place]) in TIME_OR_NUMBER or b"gradient_" in data[place - 9 : place + 9]
        assert not found - whole or read.reasons or without_redundancy
        assert found == whole or read.reasons or without_redundancy


@pytest.mark.parametrize("name", [KILLED, OLD])
def test_flips_of_a_sample_never_mispair(tmp_path, name):
    data = sample(name).read_bytes()
    whole = rows(read_timeline(write(tmp_path, data)).table)
    for place, changed in flips(data, 12):
        read = read_timeline(write(tmp_path, changed, "flipped.json"))
        wrong = read.table[[row not in whole for row in rows(read.table)]] if rows(read.table) - whole else []
        assert len(wrong) == 0 or read.reasons or chr(data[place]) in TIME_OR_NUMBER


DAMAGE = {
    "a lost end": (event("E", 6020, 2), "", "do not fit together"),
    "a lost begin": (event("B", 6030, 2, "ALLREDUCE"), "", "do not fit together"),
    "an unknown phase": ('{"ph": "E", "ts": 6080, "pid": 1}', '{"ph": "Q", "ts": 6080, "pid": 1}', "unknown phase 'Q'"),
    "a time far ahead": ('"ts": 6080, "pid": 1', '"ts": 96080, "pid": 1', "does not fit its neighbours"),
    "a time far behind": ('"ts": 6080, "pid": 1', '"ts": 80, "pid": 1', "does not fit its neighbours"),
    "a number with a leading zero": ('"ts": 6080, "pid": 1', '"ts": 0080, "pid": 1', "not JSON"),
    "an end for another tensor": ('"ts": 6080, "pid": 1', '"ts": 6080, "pid": 2', "do not fit together"),
    "a changed key": ('"ts": 6080, "pid": 1', '"ts": 6080, "qid": 1', "without time or tensor"),
    "a changed mark": ('"shape": "[2, 4]"}}]', '"shape": "[2, 4("}}]', "other content"),
    "a NUL": ('"ts": 6080, "pid": 1', '"ts": 6\x0080, "pid": 1', "not JSON"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_leaves_out_spans_rather_than_mispairing(tmp_path, kind):
    old, new, reason = DAMAGE[kind]
    text = timeline()
    assert text.count(old)
    changed = text.replace(old + "," if not new else old, new, 1)
    whole = rows(read_timeline(write(tmp_path, text)).table)
    read = read_timeline_tables(write(tmp_path, changed))
    assert not rows(read.spans.table) - whole
    assert 0.8 < read.spans.coverage_ratio < 1 or read.spans.complete_records < sum(whole.values())
    assert any(reason in said for said in read.spans.reasons)
    assert len(read.doubtful) or kind == "a changed mark"


def test_a_lost_pair_does_not_join_its_neighbours(tmp_path):
    text = timeline()
    lost = text.index('{"ph": "E", "ts": 6080, "pid": 1}')
    end = text.index(event("B", 6130, 1, "GLOO_ALLREDUCE"))
    end += len(event("B", 6130, 1, "GLOO_ALLREDUCE"))
    whole = rows(read_timeline(write(tmp_path, text)).table)
    read = read_timeline(write(tmp_path, text[:lost] + "#" * (end - lost) + text[end:]))
    assert not rows(read.table) - whole
    assert not read.is_whole


def test_rare_names_and_shapes_are_told(tmp_path):
    text = timeline()
    read = read_timeline(write(tmp_path, text.replace("GLOO_ALLREDUCE", "GLOP_ALLREDUCE", 1)))
    assert read.reasons == (UNKNOWN_ACTIVITY(count=1, activity="GLOP_ALLREDUCE"),)
    read = read_timeline(write(tmp_path, text.replace("[2, 4]", "[2, 5]", 1)))
    assert any("changed byte" in reason for reason in read.reasons)
    read = read_timeline(write(tmp_path, text.replace('"name": "1", "ts"', '"name": "7", "ts"')))
    assert any("without holes" in reason for reason in read.reasons)


def test_large_garbage_within_a_file_is_left_out(tmp_path):
    text = timeline(40)
    middle = text.index('{"ph"', len(text) // 2)
    whole = rows(read_timeline(write(tmp_path, text)).table)
    read = read_timeline(write(tmp_path, text[:middle] + "x" * (3 << 20) + text[middle:]))
    assert not rows(read.table) - whole
    assert sum(rows(read.table).values()) > sum(whole.values()) * 0.8
    assert not read.is_whole


def test_foreign_files_are_named(tmp_path):
    for name, path in foreign(tmp_path).items():
        with pytest.raises(ParseError, match="expected a Horovod timeline"):
            read_timeline(path)
        assert name
    for text in ("[", "[]", "[\n\n"):
        with pytest.raises(ParseError, match="nothing recorded"):
            read_timeline(write(tmp_path, text))
    pytorch = (
        '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}]}'
    )
    with pytest.raises(ParseError, match="found a JSON document"):
        read_timeline(write(tmp_path, pytorch))
    chrome = '[{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]'
    with pytest.raises(ParseError, match="without any event"):
        read_timeline(write(tmp_path, chrome))
    with pytest.raises(ParseError):
        read_timeline(write(tmp_path, timeline().encode("utf-16")))
    with pytest.raises(ParseError, match="No such file"):
        read_timeline(tmp_path / "none.json")


def test_files_of_one_job_share_a_clock(tmp_path):
    first = write(tmp_path, timeline(), "rank0.json")
    second = write(tmp_path, timeline(start_us=EPOCH_US + 2_000_000), "rank1.json")
    together = read_timelines([first, second])
    starts = together.spans.table.groupby("file")["start_s"].min()
    assert starts[1] - starts[0] == pytest.approx(2)
    assert together.spans.complete_records == 2 * read_timeline(first).complete_records
    assert together.spans.facts["files"] == 2
    assert together.spans.is_whole
    old = write(tmp_path, timeline(start_us=None), "old.json")
    assert any("own clock" in reason for reason in read_timelines([first, old]).spans.reasons)


def test_memory_of_a_stream_does_not_grow_with_the_file(tmp_path):
    account = Account()
    pieces = 0
    for piece in iterate_tables(write(tmp_path, timeline(3000)), account):
        pieces += 1
        assert len(piece.spans.table) < 65_536
    assert account.complete == 3000 * 3 * 5
    assert pieces > 1


def test_path_may_be_relative(tmp_path, monkeypatch):
    write(tmp_path, timeline())
    monkeypatch.chdir(tmp_path)
    assert read_timeline(Path("timeline.json")).is_whole
