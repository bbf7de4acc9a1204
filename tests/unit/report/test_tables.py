"""Long tables of the page: which rows it shows, in which order, and where all of them are."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hpcai.catalogue.tables import Column
from hpcai.core.limits import MOST_FILES, MOST_ROWS
from hpcai.report.definitions import shown_definitions
from hpcai.report.material import Material
from hpcai.report.provenance import make_folders
from hpcai.report.tables import TableSpec, make_table, spec_of

COUNT = 3 * MOST_ROWS


def make_material(folder: Path, **tables: pd.DataFrame) -> Material:
    (folder / "tables").mkdir(exist_ok=True)
    for name in tables:
        (folder / "tables" / f"{name}.csv").write_text("")
    return Material(folder, folder, tables, None, None, shown_definitions())


def make_rows(count: int = COUNT) -> pd.DataFrame:
    """Return runs in turn of two benchmarks, of which the second one takes a thousand times longer."""
    number = np.arange(count)
    return pd.DataFrame(
        {
            "run_id": [f"r{n}" for n in number],
            "benchmark": np.where(number % 2, "long", "short"),
            "time_to_train_s": np.where(number % 2, 1000.0, 1.0) * (1 + number),
            "outcome": np.where(number % 50 == 7, "failed", "converged"),
        }
    )


def spec_for(**facts: tuple[str, str]) -> TableSpec:
    return TableSpec("runs", "Runs", tuple(map(Column, ("run_id", "outcome", "time_to_train_s"))), **facts)


def ids(material: Material, spec: TableSpec) -> list[str]:
    return [row.cells[0].words for row in make_table(material, spec).rows]


def test_a_table_that_fits_has_all_its_rows_in_their_order(tmp_path: Path) -> None:
    rows = make_rows(MOST_ROWS)
    table = make_table(make_material(tmp_path, runs=rows), spec_for(order=("time_to_train_s", "highest")))
    assert [row.cells[0].words for row in table.rows] == list(rows["run_id"])
    assert (table.total, table.chosen, table.everything) == (MOST_ROWS, "", ())


def test_a_long_table_begins_with_problems_and_names_the_file_with_all_rows(tmp_path: Path) -> None:
    rows = make_rows()
    table = make_table(make_material(tmp_path, runs=rows), spec_for())
    failed = list(rows.loc[rows["outcome"] == "failed", "run_id"])
    shown = [row.cells[0].words for row in table.rows]
    assert len(shown) == MOST_ROWS
    assert shown[: len(failed)] == failed
    assert [row.bad for row in table.rows] == [True] * len(failed) + [False] * (MOST_ROWS - len(failed))
    assert shown[len(failed) :] == [name for name in rows["run_id"] if name not in failed][: MOST_ROWS - len(failed)]
    assert table.total == COUNT
    assert table.chosen.facts["shown"] == MOST_ROWS  # type: ignore[attr-defined]
    assert f"({len(failed)})" in table.chosen
    assert [link.href for link in table.everything] == ["tables/runs.csv"]


@pytest.mark.parametrize("end", ["highest", "lowest"])
def test_a_long_table_shows_one_end_of_each_benchmark(tmp_path: Path, end: str) -> None:
    rows = make_rows().assign(outcome="converged")
    shown = ids(make_material(tmp_path, runs=rows), spec_for(order=("time_to_train_s", end)))
    places = [int(name[1:]) for name in shown]
    assert places[:2] in ([0, 1], [COUNT - 2, COUNT - 1])
    assert sorted(places) == list(range(MOST_ROWS) if end == "lowest" else range(COUNT - MOST_ROWS, COUNT))


def test_rows_without_the_value_come_last_and_a_column_without_any_does_not_count(tmp_path: Path) -> None:
    rows = make_rows().assign(outcome="converged")
    spec = spec_for(order=("time_to_train_s", "lowest"))
    rows.loc[: COUNT - 3, "time_to_train_s"] = np.nan
    assert ids(make_material(tmp_path, runs=rows), spec)[:3] == [f"r{COUNT - 2}", f"r{COUNT - 1}", "r0"]
    rows["time_to_train_s"] = np.nan
    table = make_table(make_material(tmp_path, runs=rows), spec)
    assert table.rows[0].cells[0].words == "r0"
    assert "time to train" not in table.chosen


def test_rows_that_lead_a_short_table_lead_a_long_one(tmp_path: Path) -> None:
    rows = make_rows().rename(columns={"outcome": "status"})
    shown = ids(make_material(tmp_path, runs=rows), spec_for(first=("status", "converged")))
    assert shown == list(rows.loc[rows["status"] == "converged", "run_id"][:MOST_ROWS])


def test_tables_of_the_page_alone_name_the_files_behind_them(tmp_path: Path) -> None:
    material = make_material(tmp_path, runs=make_rows(), failures=make_rows())
    table = make_table(material, spec_of("failures"), make_rows().assign(reason="no", earlier="", record_path=""))
    assert [link.href for link in table.everything] == ["tables/runs.csv"]


def test_provenance_links_some_raw_files_and_counts_the_others(tmp_path: Path) -> None:
    paths = [f"results/characterise/part/{n:04}.json" for n in range(MOST_FILES + 3)]
    material = make_material(tmp_path, ceilings=pd.DataFrame({"source": paths}))
    (tmp_path / "characterise" / "part").mkdir(parents=True)
    for path in paths:
        (tmp_path / path.removeprefix("results/")).touch()
    (folder,) = (one for one in make_folders(material) if one.name == "characterise")
    assert [len(links) for _, links in folder.groups] == [MOST_FILES]
    assert folder.left_out == 3
