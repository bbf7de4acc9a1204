"""Damaged Darshan logs never give another number; a log that crashes the reading process costs only itself."""

import sys
from pathlib import Path

import pytest
from unit.parsers.artefacts import cuts, flips, sample
from unit.parsers.darshan.darshan_writer import Log, read
from unit.refusals import told

from hpcai.core.errors import ParseError
from hpcai.core.programs import ENDED, KILLED
from hpcai.parsers.darshan import guard as darshan_guard
from hpcai.parsers.darshan.guard import read_guarded

SAMPLES = (
    "own_dxt",
    "nonmpi_dxt_anonymized",
    "release/mpi-io-test-x86_64-3.1.0",
    "release/mpi-io-test-x86_64-3.4.0",
    "sample_dxt_simple",
    "noposix",
)
WITHOUT_REDUNDANCY = {"is_partial", "version"}
"""Header-only fields: the flag of an incomplete module, and the version of a module that is not read."""


def own_log() -> bytes:
    trace = [(read("/data/a", 150), [(0, 100, 0.5, 0.75), (100, 50, 1.0, 1.5)])]
    return Log([read("/data/a", 4096), read("/data/b", 100)], [read("/data/c", 10)], trace).encode()


def check_variants(folder: Path, sets: list[list[bytes]], table: str) -> list[int]:
    """Compare the variants in each set with its first, the whole log; return how many gave all of its numbers."""
    paths = []
    for place, variants in enumerate(sets):
        for number, content in enumerate(variants):
            paths.append(folder / f"{place}.{number}.darshan")
            paths[-1].write_bytes(content)
    answers = iter(read_guarded(paths, table))
    unchanged = []
    for variants in sets:
        whole, *others = [next(answers) for _ in variants]
        unchanged.append(sum(check_answer(answer, whole) for answer in others))
    return unchanged


def check_answer(answer: dict, whole: dict) -> bool:
    """Compare the rest of a damaged log with the whole one; return whether it is complete."""
    if "error" in answer:
        assert "process that read this log" not in answer["error"]  # the damage never reached the library
        return False
    assert {**answer["job"], "log_ver": ""} == {**whole["job"], "log_ver": ""}
    assert answer["command"] == whole["command"]
    for name, expected in whole["tables"].items():
        assert answer["tables"].get(name) == expected or name in answer["damaged"]
    assert set(answer["tables"]) <= set(whole["tables"])
    for name, facts in answer["modules"].items():
        differing = {key for key, value in facts.items() if value != whole["modules"][name][key]}
        assert differing <= WITHOUT_REDUNDANCY
    return set(answer["tables"]) == set(whole["tables"]) and not answer["damaged"]


@pytest.mark.parametrize("table", ["records", "segments"])
def test_flipped_bits_of_a_small_log(tmp_path, table):
    data = own_log()
    variants = [changed for _, changed in flips(data, 400)]
    for bit in range(32 * 8):  # version, magic number, compression, flags
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        variants.append(bytes(changed))
    check_variants(tmp_path, [[data, *variants]], table)


def test_cuts_of_a_small_log(tmp_path):
    small = [own_log(), *(cut for _, cut in cuts(own_log(), 60))]
    assert check_variants(tmp_path, [small], "records") == [0]


def test_damaged_published_logs(tmp_path):
    logs = [sample(f"darshan/{name}.darshan").read_bytes() for name in SAMPLES]
    flipped = [[data, *(changed for _, changed in flips(data, 60))] for data in logs]
    cut = [[data, *(part for _, part in cuts(data, 12))] for data in logs]
    unchanged = check_variants(tmp_path, [*flipped, *cut], "records")
    assert unchanged[len(logs) :] == [0] * len(logs)


CHILD = """
import json, os, sys
print(json.dumps({"ready": True}), flush=True)
for path in json.load(sys.stdin)["paths"]:
    start = os.fstat(2).st_size
    if path.endswith("abort"):
        sys.stderr.write("Assertion `len > 0' failed.")
        sys.stderr.flush()
        os.abort()
    if path.endswith("loud"):
        sys.stderr.write("Error: failed to read module data.")
        sys.stderr.flush()
    print(json.dumps({"path": path, "printed": [start, os.fstat(2).st_size]}), flush=True)
"""


def test_a_log_that_ends_the_process_costs_itself_only():
    paths = [Path(name) for name in ("one", "abort", "two", "loud", "three", "abort")]
    answers = read_guarded(paths, "records", [sys.executable, "-c", CHILD])
    assert [answer.get("path") for answer in answers] == ["one", None, "two", None, "three", None]
    assert answers[1]["error"].startswith("abort: ")
    assert told(answers[1]["error"], KILLED)["signal_name"].startswith("SIGABRT")
    assert "Assertion" in answers[1]["error"]
    assert "failed to read module data" in answers[3]["error"]


def test_a_process_that_never_ends(monkeypatch):
    monkeypatch.setattr(darshan_guard, "START_LIMIT_S", 0.5)
    monkeypatch.setattr(darshan_guard, "LOG_LIMIT_S", 0)
    hang = "import time; print('{\"ready\": true}', flush=True); time.sleep(60)"
    assert "did not end within" in read_guarded([Path("log")], "records", [sys.executable, "-c", hang])[0]["error"]


def test_a_process_that_cannot_start():
    with pytest.raises(ParseError, match=rf"{ENDED(status=1)}.*no library here"):
        read_guarded([Path("log")], "records", [sys.executable, "-c", "raise SystemExit('no library here')"])
