"""Whole results folders for tests of the report's page: tables, figures, summaries and raw files of made-up runs."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from unit.record_factory import make_image_benchmark, make_machine, make_record, make_study, write_records
from unit.score_factory import make_work
from unit.view_factory import make_captures, make_ceilings, make_link_fits, make_links, make_point
from unit.view_factory import make_tables as make_views

from hpcai.campaign.efficiency import efficiency_table
from hpcai.compare.expected import device_of_study, expected_ranges, read_elsewhere
from hpcai.config.machine import Machine
from hpcai.config.published import load_published
from hpcai.machine.overview import machine_overview
from hpcai.metrics.reproducibility import reproducibility_table
from hpcai.metrics.roofline.ceilings import roofline_ceilings
from hpcai.metrics.roofline.declared import declared_ceilings, declared_roofline
from hpcai.metrics.roofline.moves import roofline_moves
from hpcai.metrics.roofline.tables import roofline_points
from hpcai.metrics.run_tables import (
    collect_epochs,
    collect_runs,
    collect_verdicts,
    compute_scaling,
    join_tables,
    summarise_scales,
    summarise_study,
    write_tables,
)
from hpcai.metrics.scaling.contention import tell_contention
from hpcai.metrics.scaling.details import detail_scales
from hpcai.metrics.scaling.fits import fit_scaling, trace_scaling
from hpcai.metrics.scaling.weak_forecast import forecast_groups
from hpcai.metrics.scores.declared import declared_scores
from hpcai.metrics.scores.declared_checks import check_declared, declared_breakdowns
from hpcai.metrics.scores.movement import movement_scores
from hpcai.metrics.scores.ranking import rank_results
from hpcai.metrics.scores.result_scores import name_datasets, score_machines, score_scales
from hpcai.metrics.scores.trial_scores import score_trials
from hpcai.metrics.scores.variant_effects import compare_variants
from hpcai.plots.interactive import spec_to_svg, to_spec
from hpcai.plots.roofline.chart import draw_memory_roofline, draw_roofline
from hpcai.plots.scaling.chart import draw_scaling
from hpcai.plots.scores.ranking import plot_ranking
from hpcai.plots.scores.times import plot_time_to_train
from hpcai.plots.scores.trials import plot_scores
from hpcai.plots.theme import to_svg
from hpcai.profiles.collect import summarise_views
from hpcai.profiles.views import VIEWS, as_view
from hpcai.records.run import RunRecord
from hpcai.report.hpc_ai500.folder import write_document

Tables = dict[str, pd.DataFrame]
PUBLISHED = Path(__file__).parents[3] / "config" / "published" / "hpc_ai500_v2.yaml"


def make_campaign() -> list[RunRecord]:
    """Return runs of both suites: two variants at three scales, one run of each outcome, and one second attempt."""
    images = {"benchmark": make_image_benchmark(), "time_staging": False}
    half = {"settings_of_point": {"precision": "bf16"}, "variant": "bf16"}
    trouble = [
        make_record(outcome, ranks_per_node=2, repetition=number)
        for number, outcome in enumerate(("not_converged", "diverged", "failed", "timed_out"), 3)
    ]
    return [
        *make_study(ranks=(1, 2, 4), repeats=3, **images),
        *make_study(ranks=(1, 2, 4), repeats=2, **images, **half),
        *make_study(ranks=(1, 2), repeats=2),
        *trouble,
    ]


def write_results(folder: Path, records: list[RunRecord], *, title: str = "A study", full: bool = True) -> Path:
    """Write the results folder of some runs as the workflow lays it out, and return its path.

    ``full`` adds scores, rooflines, scaling, ranking, figures and report documents.
    """
    results = folder / "results"
    paths = write_records(records, results / "runs")
    for path in paths:
        (path.parent / "raw").mkdir(exist_ok=True)
        (path.parent / "raw" / "output.log").write_text("what the run said\n")
    tables = _study_tables(paths, folder)
    (results / "tables").mkdir(parents=True)
    summary = summarise_study(tables["runs"], tables["scales"], records, title=title)
    (results / "summary.json").write_text(json.dumps(summary))
    (results / "study.json").write_text(json.dumps({"name": "default", "benchmarks": []}))
    if full:
        tables |= _views(tables)
        (results / "characterisation.json").write_bytes(summarise_views({name: tables[name] for name in VIEWS}))
        add_scores(results, tables, records, make_machine())
    write_tables(tables, results / "tables")
    if full:
        _write_documents(results, paths)
    return results


def add_scores(results: Path, tables: Tables, records: list[RunRecord], machine: Machine) -> None:
    """Add the tables of scores, rooflines and scaling to ``tables``, and write their figures."""
    runs, scales = tables["runs"], tables["scales"]
    trials = score_trials(runs, tables["work"], tables["power"], machine)
    scores = score_scales(trials, runs, scales, name_datasets(records), machine)
    ceilings = roofline_ceilings(scores, tables["ceilings"], tables["links"], tables["link_fits"], machine)
    views = {name: tables[name] for name in ("communication", "links", "link_fits", "counters", "work")}
    points = roofline_points(scores, ceilings, views, runs, machine)
    published = load_published(PUBLISHED)
    others, theirs = declared_roofline(published), declared_ceilings(published)
    links = (tables["communication"], tables["links"], tables["link_fits"])
    made = {
        "run_scores": trials,
        "scores": scores,
        "machine_scores": score_machines(scores),
        "machine_overview": machine_overview({**tables, "scores": scores}, [], []),
        "ranking": rank_results(join_tables([scores, declared_scores(published)])),
        "declared_checks": check_declared(published),
        "declared_breakdowns": declared_breakdowns(published),
        "published_points": others,
        "published_ceilings": theirs,
        "published_moves": roofline_moves(others, theirs),
        "roofline_points": points,
        "roofline_ceilings": ceilings,
        "roofline_moves": roofline_moves(points, ceilings, scales),
        "scaling_details": detail_scales(scales, scores, *links, machine),
        "scaling_fits": fit_scaling(runs),
        "scaling_curves": trace_scaling(runs),
        "variant_effects": compare_variants(runs, trials),
        "movement_scores": movement_scores(runs, trials),
        "reproducibility": reproducibility_table(records, trials),
        "expected_ranges": expected_ranges(scores, device_of_study(records), read_elsewhere([])),
    }
    tables |= made
    rows = {name: json.loads(frame.to_json(orient="records")) for name, frame in made.items()}
    (results / "scoring.json").write_text(json.dumps(rows))
    _draw(results / "figures", tables)


def _shown(path: str, folder: Path) -> str:
    """Return a path as the workflow sees it, which starts in the folder above results."""
    return str(Path(path).relative_to(folder))


def _study_tables(paths: list[Path], folder: Path) -> Tables:
    runs = collect_runs(paths)
    efficiency = efficiency_table(paths)
    runs["record_path"] = [_shown(path, folder) for path in runs["record_path"]]
    scales = summarise_scales(runs)
    contention = tell_contention({}, scales)
    return {
        "runs": runs,
        "epochs": collect_epochs(paths),
        "scales": scales,
        "scaling": compute_scaling(runs),
        "contention": contention,
        "weak_forecasts": forecast_groups({}, contention),
        "verdicts": collect_verdicts(paths),
        "efficiency": efficiency.assign(record_path=[_shown(path, folder) for path in efficiency["record_path"]]),
    }


def _views(tables: Tables) -> Tables:
    profiled = make_views(2, names=("images_tiny", "cosmoflow_tiny"), counters=False)
    advice: list[dict[str, Any]] = [
        {**make_point(), "topic": "communication", "sentence": "Messages are small.", "evidence": "batches = 60"}
    ]
    views = {name: as_view(name, []) for name in VIEWS} | profiled
    return {
        **views,
        "work": make_work(tables["runs"]),
        "ceilings": make_ceilings(),
        "links": make_links((2, 4)),
        "link_fits": make_link_fits((2, 4)),
        "captures": make_captures(),
        "advice": as_view("advice", advice),
    }


def _draw(folder: Path, tables: Tables) -> None:
    folder.mkdir(exist_ok=True)
    still = {
        "scores": plot_scores(tables["run_scores"], tables["scores"]),
        "ranking": plot_ranking(tables["ranking"]),
        "time_to_train": plot_time_to_train(tables["runs"], tables["scales"]),
    }
    for name, figure in still.items():
        (folder / f"{name}.svg").write_bytes(to_svg(figure))
    roofline = (tables["roofline_points"], tables["roofline_ceilings"])
    charts = {
        "roofline": draw_roofline(*roofline, tables["roofline_moves"]),
        "published_roofline": draw_roofline(*(tables[f"published_{name}"] for name in ("points", "ceilings", "moves"))),
        "memory_roofline": draw_memory_roofline(*roofline),
        "scaling": draw_scaling(tables["scaling"], tables["scaling_details"], tables["scaling_curves"], pd.DataFrame()),
    }
    for name, chart in charts.items():
        specification = to_spec(chart)
        (folder / f"{name}.json").write_text(json.dumps(specification, sort_keys=True))
        (folder / f"{name}.svg").write_text(spec_to_svg(specification))


def _write_documents(results: Path, paths: list[Path]) -> None:
    tables = {name: results / "tables" / f"{name}.parquet" for name in ("run_scores", "scores", "link_fits")}
    own = [path for path in paths if "images_tiny" in str(path)]
    if own:
        write_document("images_tiny", own, tables, make_machine(), results / "hpc_ai500" / "images_tiny")
