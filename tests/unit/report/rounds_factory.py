"""A results folder with made-up MLPerf HPC rounds, for tests of the report's page."""

from pathlib import Path

import pandas as pd
from unit.plots.mlperf_factory import make_efficiencies, make_principal, make_results, make_runs, make_weak

from hpcai.catalogue.figures import figures_of
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.round_tables import analyse_tables, source_tables
from hpcai.plots.drawing import draw_figure
from hpcai.plots.theme import to_svg

NASTY = "<script>alert(1)</script>"


def make_verdicts() -> pd.DataFrame:
    rows = [
        ("v0.7", "A/x", f"A/results/x/deepcam/result_{number}.txt", "1.0.0", False, 7, "seed", "EXACTLY_ONE", NASTY,
         severity)
        for number, severity in ((1, "failure"), (1, "failure"), (2, "failure"), (2, "warning"))
    ]  # fmt: skip
    fine = ("v0.7", "A/x", "A/results/x/deepcam/result_3.txt", "1.0.0", True, pd.NA, "", "", "", "")
    names = [
        "origin", "submission", "source", "rule_set", "complies", "line", "key", "rule", "message", "severity"
    ]  # fmt: skip
    return pd.DataFrame([*rows, fine], columns=names).astype({"line": "Int64"})


def make_repairs() -> pd.DataFrame:
    rows = [("v0.7", f"log {number % 2}", "line 3", "no_stop", "nothing", "left out") for number in range(3)]
    other = ("v1.0", "log", "line 1", "no_stop", "nothing", "left out")
    return pd.DataFrame([*rows, other], columns=["origin", "source", "place", "kind", "found", "done"])


def make_systems() -> pd.DataFrame:
    rows = [
        ("v0.7", "A/x", "V100", "Xeon", 20, "V100", "A/systems/x.json"),
        ("v1.0", "B/y", "", "A64FX", 48, "A64FX", ""),
    ]
    names = ["origin", "submission", "accelerator", "processor", "processor_cores", "family", "source"]
    return pd.DataFrame(rows, columns=names).astype({"processor_cores": "Int64"})


def make_folder(folder: Path, *, place: str) -> Path:
    """Write the tables and figures of two rounds as the workflow does."""
    results = make_results(6, ("v0.7", "v1.0"))
    runs = make_runs(results).assign(complies=True, reaches_target=True, repairs=0)
    empty = analyse_tables(source_tables([]))
    tables = {
        **empty,
        "mlperf_results": results, "mlperf_runs": runs, "mlperf_principal": make_principal(results),
        "mlperf_efficiencies": make_efficiencies(results), "mlperf_weak": make_weak(),
        "mlperf_verdicts": make_verdicts(), "mlperf_repairs": make_repairs(),
        "mlperf_systems": make_systems(),
    }  # fmt: skip
    write_tables(tables, folder / place / "tables")
    (folder / place / "figures").mkdir()
    for topic in figures_of("rounds"):
        (folder / place / "figures" / f"{topic}.svg").write_bytes(to_svg(draw_figure(topic, tables)))
    return folder
