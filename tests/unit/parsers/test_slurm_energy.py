"""Job energy from sacct: the job's own line, marks of no value, plausibility."""

import math

import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.core.errors import ParseError
from hpcai.parsers.slurm_energy import NO_POWER, ROUNDED, TIME_LOST, UNLIKELY_POWER, read_slurm_energy

TEXT = """JobID|NTasks|NNodes|ElapsedRaw|Start|End|AllocTRES|ConsumedEnergyRaw|ConsumedEnergy|State
77||2|100|2026-03-01T10:00:00|2026-03-01T10:01:40|cpu=8,node=2|123456|123.46K|COMPLETED
77.batch|1|1|100|2026-03-01T10:00:00|2026-03-01T10:01:40|cpu=4,node=1|61000|61K|COMPLETED
77.0|8|2|99|2026-03-01T10:00:01|2026-03-01T10:01:40|cpu=8,node=2|123000|123K|COMPLETED
78_3||1|10|2026-03-01T10:00:00|2026-03-01T10:00:10|cpu=8,node=1|5000|5K|FAILED
"""


def read(tmp_path, text, **more):
    path = tmp_path / "sacct.txt"
    path.write_text(text)
    return read_slurm_energy(path, **more)


def test_the_jobs_own_line_counts(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.is_whole
    assert reading.table["job"].to_list() == ["77", "78_3"]
    first = reading.table.iloc[0]
    assert first[["nodes", "duration_s", "energy_j"]].to_list() == [2, 100, 123456]
    assert first[["mean_power_w", "node_power_w"]].to_list() == pytest.approx([1234.56, 617.28])


def test_trailing_separators_and_rounded_energy(tmp_path):
    text = "\n".join(line + "|" for line in TEXT.splitlines()) + "\n"
    assert read(tmp_path, text).table["energy_j"].sum() == 128456
    rounded = "JobID|NNodes|Elapsed|ConsumedEnergy\n5|4|1-00:00:10|2.5M\n"
    reading = read(tmp_path, rounded)
    assert reading.reasons == (ROUNDED(job=5),)
    row = reading.table.iloc[0]
    assert row[["duration_s", "energy_j"]].to_list() == [86410, 2.5e6]


@pytest.mark.parametrize("mark", ["", "0", "18446744073709551614", "18446744073709551615"])
def test_marks_of_no_value_are_not_measured(tmp_path, mark):
    reading = read(tmp_path, TEXT.replace("|123456|123.46K|", f"|{mark}||"))
    assert math.isnan(reading.table["energy_j"].iloc[0])
    assert "job 77: energy was not measured" in reading.reasons[0]


def test_implausible_power_is_not_believed(tmp_path):
    reading = read(tmp_path, TEXT, node_power_range_w=(550.0, 4000.0))
    assert reading.table["energy_j"].isna().to_list() == [False, True]
    assert reading.reasons == (f"job 78_3: {UNLIKELY_POWER(node_power_w=500, least_w=550, most_w=4000)}",)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("|123456|", "|923456|", "ConsumedEnergy is not ConsumedEnergyRaw"),
        ("77||2|", "77||6|", "node=2 of AllocTRES is not 6"),
        ("77||2|100|", "77||2|500|", "elapsed 500 s"),
        ("77||2", "77|1|2", "the first line is a step's"),
    ],
)  # fmt: skip
def test_lines_that_contradict_themselves_are_left_out(tmp_path, old, new, why):
    reading = read(tmp_path, TEXT.replace(old, new))
    assert reading.table["job"].to_list() == ["78_3"]
    assert why in reading.reasons[0]


def test_requeued_jobs_are_not_mixed(tmp_path):
    again = TEXT + TEXT.splitlines()[1] + "\n"
    assert "2 runs of one job (requeued)" in read(tmp_path, again).reasons[0]


def test_doubts_about_time_and_state_are_said(tmp_path):
    text = TEXT.replace("77||2|100|", "77||2|90|").replace("FAILED", "RUNNING")
    assert read(tmp_path, text).reasons == (
        f"job 77: {TIME_LOST(duration_s=90, span_s=100)}",
        "job 78_3: RUNNING: energy so far",
    )
    text = TEXT.replace("ElapsedRaw", "Elapsed???")
    assert f"job 77: {NO_POWER()}" in read(tmp_path, text).reasons


def test_fixed_columns_are_refused(tmp_path):
    with pytest.raises(ParseError, match="run `sacct -P"):
        read(tmp_path, "JobID        ConsumedEnergyRaw\n------- ----------\n77      12345\n")


def test_published_job():
    reading = read_slurm_energy(sample("slurm/sacct_transcribed_gh200_4nodes.txt"), (100.0, 4000.0))
    assert reading.is_whole
    assert len(reading.table) == 1
    row = reading.table.iloc[0]
    assert row[["nodes", "duration_s", "energy_j"]].to_list() == [4, 2102, 20_543_125]
    assert row["mean_power_w"] == pytest.approx(9773.13, abs=5e-3)
    assert row["node_power_w"] == pytest.approx(2443.28, abs=5e-3)


def test_damage(tmp_path):
    check_foreign(tmp_path, read_slurm_energy)
    check_cuts(tmp_path / "x", TEXT.encode(), read_slurm_energy, ["job", "energy_j"], has_end=False)
    data = sample("slurm/sacct_transcribed_gh200_4nodes.txt").read_bytes()
    check_cuts(tmp_path / "x", data, read_slurm_energy, ["job", "energy_j"], has_end=False)
    # Job id, state, and an elapsed time shorter than start to end have no redundancy. Without a name for the raw
    # energy, the rounded one is read.
    check_flips(tmp_path / "x", data.replace(b"|20.54M", b"|20543125"), read_slurm_energy, ["energy_j"], count=200)
