"""The efficiency report: resources granted, used and lost; unknown numbers stay empty, with a reason."""

import json
import time
from pathlib import Path

import pandas as pd
import pytest
from unit.campaign.result_folders import campaign
from unit.record_factory import make_machine, make_record, write_records

from hpcai.campaign.controller_note import NOTE, this_controller, write_note
from hpcai.campaign.efficiency import EFFICIENCY_COLUMNS, UNKNOWN_TIMES, efficiency_table
from hpcai.cli.main import call
from hpcai.config.plan_file import write_plan
from hpcai.core.errors import ConfigError
from hpcai.measure.allocation_use import ALLOCATION, AllocationUse
from hpcai.records.files import write_json
from hpcai.records.run import RunRecord

GIVEN = AllocationUse(
    source="scontrol show job",
    slurm_job="17",
    restarts=0,
    nodes=2,
    cores=16,
    memory_bytes=8 << 30,
    time_limit_s=600,
    queue_wait_s=30,
)


def make_run(results: Path, record: RunRecord, given: AllocationUse | None = GIVEN) -> Path:
    (path,) = write_records([record], results / "runs")
    (path.parent / "raw").mkdir()
    if given:
        write_json(given, path.parent / "raw" / ALLOCATION)
    return path


def add_attempt(folder: Path, record: RunRecord, name: str, note: dict[str, object] | None = None) -> Path:
    attempt = folder / "attempts" / name
    attempt.mkdir(parents=True)
    write_plan(record.plan, attempt / "plan.json")
    if note:
        told = {"attempt": name, "outcome": "interrupted", "reason": "scancel", **note}
        (attempt / "interrupted.json").write_text(json.dumps(told))
    return attempt


def one_row(path: Path) -> pd.Series:
    table = efficiency_table([path])
    assert tuple(table.columns) == EFFICIENCY_COLUMNS
    return table.iloc[0]


def test_use_is_compared_with_what_slurm_gave(tmp_path: Path) -> None:
    record = make_record(nodes=2, ranks_per_node=2)
    row = one_row(make_run(tmp_path, record))
    assert (row["source"], row["slurm_job"], row["reason"]) == ("scontrol show job", "17", "")
    assert row["cpu_time_s"] == pytest.approx(4 * 50)
    assert row["cpu_used_ratio"] == pytest.approx(200 / (16 * record.wall_s))
    # Two ranks of 900 MB on each node of 4 GiB.
    assert row["node_memory_bytes"] == 1_800_000_000
    assert row["memory_used_ratio"] == pytest.approx(1_800_000_000 / (4 << 30))
    assert row["time_used_ratio"] == pytest.approx(record.wall_s / 600)
    assert row["node_hours"] == pytest.approx(2 * record.wall_s / 3600)
    assert row["core_hours"] == pytest.approx(16 * record.wall_s / 3600)
    worked_s = record.train_s + record.evaluation_s
    assert row["overhead_ratio"] == pytest.approx(1 - worked_s / record.wall_s)
    assert (row["attempts"], row["lost_node_hours"], row["queue_wait_s"]) == (1, 0, 30)


def test_without_an_allocation_the_machine_file_declares_whole_nodes(tmp_path: Path) -> None:
    record = make_record(nodes=2, ranks_per_node=2)
    row = one_row(make_run(tmp_path, record, given=None))
    assert row["source"] == "machine file (declared)"
    assert (row["asked_nodes"], row["asked_cores"], row["asked_memory_bytes"]) == (2, 8, 16 << 30)
    assert row["asked_time_s"] == record.plan.limits.run_s
    assert pd.isna(row["queue_wait_s"])


def test_slurm_that_tells_no_memory_leaves_it_empty(tmp_path: Path) -> None:
    given = GIVEN.model_copy(update={"memory_bytes": None, "reason": "scontrol does not tell memory_bytes"})
    row = one_row(make_run(tmp_path, make_record(nodes=2), given))
    assert pd.isna(row["memory_used_ratio"])
    assert row["reason"] == "scontrol does not tell memory_bytes"


def test_broken_run_has_no_use_but_is_lost(tmp_path: Path) -> None:
    record = make_record("failed", nodes=2)
    row = one_row(make_run(tmp_path, record))
    assert pd.isna(row["cpu_used_ratio"])
    assert pd.isna(row["overhead_ratio"])
    assert "no rank reported" in row["reason"]
    assert row["lost_node_hours"] == pytest.approx(2 * record.wall_s / 3600)


def test_interrupted_and_failed_attempts_are_lost_node_hours(tmp_path: Path) -> None:
    record = make_record(nodes=2)
    path = make_run(tmp_path, record)
    note = {"started_utc": "2026-01-01T00:00:00Z", "ended_utc": "2026-01-01T01:00:00Z"}
    add_attempt(path.parent, record, "a0", note)
    failed = make_record("failed", nodes=2)
    write_json(failed, add_attempt(path.parent, record, "a1") / "record.json")
    row = one_row(path)
    assert row["attempts"] == 3
    assert row["lost_node_hours"] == pytest.approx(2 * (1 + failed.wall_s / 3600))


@pytest.mark.parametrize(
    "note", [None, {"started_utc": "2026-01-01T00:00:00Z"}, {"started_utc": "x", "ended_utc": 3}, {"ended_utc": "soon"}]
)
def test_attempts_of_unknown_length_are_not_zero(tmp_path: Path, note: dict[str, object] | None) -> None:
    record = make_record()
    path = make_run(tmp_path, record)
    add_attempt(path.parent, record, "a0", note)
    row = one_row(path)
    assert pd.isna(row["lost_node_hours"])
    assert row["reason"] == UNKNOWN_TIMES(unknown=1, attempts=1)


def test_instances_of_a_group_have_their_part_of_its_nodes(tmp_path: Path) -> None:
    machine = make_machine(nodes=2, ranks_per_node=2)
    instances = [
        make_record(kind="weak", instances=4, repetition=number, machine=machine, seed=number) for number in range(1, 5)
    ]
    write_records(instances, tmp_path / "weak")
    group = tmp_path / "weak" / "cosmoflow_tiny" / "fp32" / "n1x1" / "group.json"
    group.write_text("{}")
    table = efficiency_table([group])
    assert len(table) == 4
    slowest_s = max(record.wall_s for record in instances)
    # Two instances on each of two nodes, which are held until the last one ends.
    assert table["node_hours"].sum() == pytest.approx(2 * slowest_s / 3600)
    assert table["memory_used_ratio"].isna().all()


def run_command(*words: str) -> int:
    return call(["efficiency", *words])


SACCT = """JobID|JobName|Comment|State|ElapsedRaw|TotalCPU|MaxRSS|AllocTRES|TimelimitRaw|WorkDir
17|3f0c|rule_train_wildcards_x|COMPLETED|60|10:00.500||billing=16,cpu=16,mem=8G,node=2|10|/somewhere
17.batch|batch||COMPLETED|60|00:01.000|1024K|cpu=8,mem=4G,node=1||
18|3f0c|rule_pack_data_wildcards_tiny|COMPLETED|3600|00:30:00||billing=2,cpu=2,mem=600M,node=1|120|/somewhere
18.batch|batch||COMPLETED|3600|00:29:00|204800K|cpu=2,mem=600M,node=1||
18.0|hydra||COMPLETED|3600|00:01:00|1024K|cpu=2,mem=600M,node=1||
"""


def test_report_names_runs_jobs_and_what_was_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"
    make_run(results, make_record(nodes=2, ranks_per_node=2))
    lost = make_record(nodes=1, repetition=2)
    note = {"started_utc": "2026-01-01T00:00:00Z", "ended_utc": "2026-01-01T02:00:00Z"}
    add_attempt(results / "runs" / lost.run_id, lost, "a0", note)
    (tmp_path / "sacct.txt").write_text(SACCT)
    csv = tmp_path / "out.csv"
    assert run_command(str(results), "--sacct", str(tmp_path / "sacct.txt"), "--csv", str(csv)) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 100
    table = pd.read_csv(csv)
    assert table["outcome"].tolist() == ["no record", "converged"]
    assert table["lost_node_hours"].sum() == pytest.approx(2)
    jobs = pd.read_csv(tmp_path / "out_jobs.csv")
    assert jobs["rule"].tolist() == ["pack_data"]
    job = jobs.iloc[0]
    assert (job["nodes"], job["cores"], job["node_hours"], job["core_hours"]) == (1, 2, 1, 2)
    assert (job["cpu_efficiency_ratio"], job["time_limit_used_ratio"]) == (0.25, 0.5)
    assert (job["task_memory_bytes"], job["memory_bytes"]) == (200 << 20, 600 << 20)
    assert "pack_data" in said


def test_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found no run"):
        run_command(str(tmp_path))


def test_missing_accounting_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, make_record())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="--sacct auto"):
        run_command(str(tmp_path), "--sacct", "auto")


@pytest.mark.parametrize(
    ("starts", "since"),
    [
        (["2025-12-20", "2025-12-24"], "2025-12-19T00:00:00"),
        (["2026-09-09"], "2026-01-01T03:01:00"),
        ([], "2026-01-01T03:01:00"),
    ],
)
def test_accounting_is_asked_from_the_first_start_of_the_workflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: list[str], since: str
) -> None:
    results = tmp_path / "results"
    make_run(results, make_record())
    # A damaged note tells no start; without one, the first run's counts.
    if not starts:
        (results / NOTE).write_text("{")
    for day in starts:
        monkeypatch.setattr(time, "gmtime", lambda day=day: time.strptime(day, "%Y-%m-%d"))
        write_note(campaign(), results, ("snakemake",), this_controller())
    monkeypatch.undo()
    (tmp_path / "sacct.txt").write_text(SACCT)
    sacct = tmp_path / "sacct"
    sacct.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nwhile read -r line; do echo "$line"; done < {sacct}.txt\n'
    )
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    run_command(str(results), "--sacct", "auto")
    assert (tmp_path / "asked").read_text().endswith(f"--starttime {since}\n")


def test_many_runs_are_shown_in_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(1, 41):
        make_run(tmp_path, make_record(repetition=number), given=None)
    run_command(str(tmp_path))
    said = capsys.readouterr().out
    assert "(30 of 40; --csv has all)" in said
