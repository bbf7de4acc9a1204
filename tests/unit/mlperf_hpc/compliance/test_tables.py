"""Verdicts as a table: a row per finding, and one per log without any."""

from unit.mlperf_hpc.log_factory import log_text, write_tree

from hpcai.mlperf_hpc.compliance.checked_round import read_checked_round
from hpcai.mlperf_hpc.compliance.tables import VERDICT_COLUMNS, verdict_table


def test_rows(tmp_path):
    write_tree(tmp_path, logs=[log_text(), log_text(opt_name="x", number_of_nodes=None)])
    table = verdict_table([read_checked_round(tmp_path, name="v3.0")])
    assert tuple(table.columns) == VERDICT_COLUMNS
    assert set(table["origin"]) == {"v3.0"}
    assert set(table["submission"]) == {"ORG/machine"}
    good, *bad = [row for _, row in table.iterrows()]
    assert (good["complies"], good["rule"]) == (True, "")
    assert [row["key"] for row in bad] == ["opt_name", "number_of_nodes"]
    assert not any(row["complies"] for row in bad)
    assert table["line"].isna().tolist() == [True, False, True]


def test_no_rounds():
    assert tuple(verdict_table([]).columns) == VERDICT_COLUMNS
