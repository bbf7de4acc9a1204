"""What the files of a study tell: its machine from any record, and what is assumed without one."""

import pandas as pd
import pytest
from unit.predict.scales.made_scales import groups, links, make_measured, make_point
from unit.predict.steps.made_blocks import make_report
from unit.record_factory import make_machine, make_record, write_records

from hpcai.core.table_files import write_parquet
from hpcai.predict.scales import parts
from hpcai.predict.scales.measured import find_files, read_measured_scales
from hpcai.predict.scales.model import Asked, predict_scale
from hpcai.records.files import write_sealed

TWO = make_point("cosmoflow_tiny", 2, 8)


@pytest.fixture
def results(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "predict/here").mkdir(parents=True)
    tables = {"scales": pd.DataFrame([dict(TWO.row)]), "links": links(), "contention": groups()}
    for name, table in tables.items():
        write_parquet(table, tmp_path / f"tables/{name}.parquet")
    write_sealed(make_report(*make_measured().steps), tmp_path / "predict/here/step_blocks.json")
    return tmp_path


def read(results):
    return read_measured_scales(find_files(results), results / "runs")


@pytest.mark.parametrize("cores", [1, 2])
def test_any_record_tells_whether_a_core_computes_and_transfers(results, cores):
    """A study of several ranks alone has no run of one rank."""
    record = make_record(ranks_per_node=2, machine=make_machine(cores_per_node=8, cores_per_rank=cores))
    write_records([record], results / "runs")
    found = read(results)
    assert (found.shared_core, found.core_assumed) == (cores == 1, False)


def test_without_a_record_each_answer_says_what_is_assumed(results):
    found = read(results)
    assert (found.shared_core, found.core_assumed) == (True, True)
    start = make_point("one", 1, 8)
    for assumed in (True, False):
        step = predict_scale(make_measured(core_assumed=assumed), start, Asked(make_point("one", 2, 8).setting))
        assert any(parts.ASSUMED_CORE() in words for words in step.basis) == assumed
