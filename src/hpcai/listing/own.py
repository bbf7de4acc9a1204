"""Entries from runs of this program, as results folder or report document.

Every number is computed again from the records; only the work of a sample and the power, which other measurements
give, are taken from the submitted scores. Scores that differ from the recomputed ones refuse the submission.
"""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import RecordError
from hpcai.core.messages import Message, at
from hpcai.core.table_files import read_parquet
from hpcai.listing.content import SCORES, Content, data_of, numbers_from, run_from, shorten, whole
from hpcai.listing.entries import Entry, File, Number, Run, Verdict, make_id
from hpcai.listing.entry_parts import failure, refuse_future, remarks_of, rules_shared
from hpcai.listing.own_records import (
    STUDY,
    check_files,
    evidence_of,
    facts_of,
    machine_of,
    point_of,
    repeat_with,
    reproducibility_of,
    score_number,
    settings_of,
    units_of,
)
from hpcai.listing.own_tables import read_overview, read_predictions
from hpcai.listing.own_weak import read_groups
from hpcai.listing.sources import DOCUMENT_FILE, Kind
from hpcai.metrics.cells import Row, number_of, records_of
from hpcai.metrics.reproducibility import is_metered
from hpcai.metrics.run_tables import read_records, run_tables
from hpcai.metrics.scores.best_results import VALID, judge_validity
from hpcai.metrics.scores.columns import TRIAL_COLUMNS, score_frame
from hpcai.metrics.scores.result_scores import name_datasets, name_divisions, score_scales
from hpcai.metrics.scores.trial_scores import FORMULA, score_trials
from hpcai.records.files import ATTEMPTS, DISCARDED, RAW, RECORD
from hpcai.records.folders import check_manifest
from hpcai.records.run import RunRecord
from hpcai.report.hpc_ai500.model import Document, read_document
from hpcai.rules.table import rules_of

NO_RECORDS = Message("own.no_records", "found no record.json of a run, from which its numbers would follow")
NO_SCORES = Message("own.no_scores", "found no {file}, which holds the work of a sample behind every rate")
OTHER_RUNS = Message("own.other_runs", "the scores are of other runs than the records: {runs}")
OTHER_NUMBERS = Message("own.other_numbers", "{run}: {column} is {found:.9g}, from the records follows {expected:.9g}")
RECOMPUTED = ("rate_flop_per_s", "vflops_flop_per_s", "train_rate_samples_per_s", "time_to_train_s", "quality")
"""Columns of submitted scores that must equal the recomputed ones."""
OF_POWER = ("mean_power_w", "power_method", "power_source")
AGREEMENT_RATIO = 1e-9
CHECKED = (
    "each record against its own digest, its plan and itself",
    "each raw file handed in against the digest in its record",
    "all scores computed again from the records",
    "every run by the rules of its suite",
)


def read_own(
    path: Path, name: str, files: Mapping[str, File], today: datetime.date, kind: Kind, organisation: str = ""
) -> Content:
    """Return the entries of a results folder or a report document; `organisation` overrides that of the study.

    Raises
    ------
    HpcaiError
        If a file was changed or lost, records are missing, or a submitted score does not follow from the records.
    """
    document = None
    if kind == "document":
        check_manifest(path)
        document = read_document(path / DOCUMENT_FILE)
    records_at = _find_records(path, files)
    records = read_records(records_at)
    for record, place in zip(records, records_at, strict=True):
        check_files(record, place.parent)
        refuse_future(record.started_utc[:10], today, record.run_id)
    submitted = _read_scores(path, kind)
    tables = run_tables(records_at, records)
    trials = _recompute(tables["runs"], submitted)
    machine = records[0].plan.machine
    scores = score_scales(
        trials, tables["runs"], tables["scales"], name_datasets(records), machine, divisions=name_divisions(records)
    )
    org = organisation or records[0].plan.submission.org
    found = _Own(name, org, files, records, trials, document)
    entries = {point_of(row): found.entry(row) for row in records_of(scores)}
    groups, refused = read_groups(path, name, files, today, org)
    return Content(
        entries=(*entries.values(), *groups),
        machines=(machine_of(records[0], org).model_copy(update=read_overview(path)),),
        refused=refused,
        predictions=tuple(read_predictions(path, entries)),
    )


def _find_records(path: Path, files: Mapping[str, File]) -> list[Path]:
    """Return the records of timed runs: not originals, attempts, runs set aside, profiles or weak-scaling groups."""
    names = [PurePosixPath(name) for name in files if name.startswith(("runs/", "logs/"))]
    others = {RAW, ATTEMPTS, DISCARDED}
    chosen = [name for name in names if name.name == RECORD and not others & set(name.parts)]
    if not chosen:
        raise RecordError(at(path.name, NO_RECORDS()))
    return [path / name for name in sorted(chosen)]


def _read_scores(path: Path, kind: Kind) -> pd.DataFrame:
    file = path / ("scores.csv" if kind == "document" else "tables/run_scores.parquet")
    if not file.is_file():
        raise RecordError(at(path.name, NO_SCORES(file=file.relative_to(path))))
    frame = pd.read_csv(file) if kind == "document" else read_parquet(file)
    rows = [{name: row.get(name) for name in TRIAL_COLUMNS} for row in records_of(frame)]
    return score_frame(rows, TRIAL_COLUMNS)


def _recompute(runs: pd.DataFrame, submitted: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of the runs from their records, with work and power as submitted."""
    if sorted(submitted["run_id"]) != sorted(runs["run_id"]):
        apart = sorted(set(submitted["run_id"]) ^ set(runs["run_id"])) or ["listed twice"]
        raise RecordError(OTHER_RUNS(runs=", ".join(apart[:5])))
    points = runs.set_index("run_id").loc[submitted["run_id"], POINT].reset_index(drop=True)
    # The records tell the point: tables of earlier versions have no column for the engine.
    work = submitted.assign(method=FORMULA, source=submitted["work_source"], **points)
    # The view of work has a rate wherever the work is that of the samples trained on.
    work["rate_flop_per_s"] = work["flop_per_sample"]
    work = work[work["flop_per_sample"].notna()].drop_duplicates(POINT)
    trials = score_trials(runs, work, pd.DataFrame(columns=list(columns_of("power")))).set_index("run_id", drop=False)
    given = submitted.set_index("run_id").loc[trials.index]
    for column in OF_POWER:
        trials[column] = given[column]
    for rate, per_watt in (("rate_flop_per_s", "flop_per_j"), ("vflops_flop_per_s", "vflops_flop_per_j")):
        trials[per_watt] = trials[rate] / trials["mean_power_w"].where(trials["mean_power_w"] > 0)
    _compare(given, trials)
    return trials.reset_index(drop=True)


def _compare(given: pd.DataFrame, trials: pd.DataFrame) -> None:
    for column in RECOMPUTED:
        found, expected = given[column].to_numpy(float), trials[column].to_numpy(float)
        # A score that was left out is no wrong number; one without its records is.
        same = np.isnan(found) | np.isclose(found, expected, rtol=AGREEMENT_RATIO, atol=0)
        if not same.all():
            place = int(np.argmin(same))
            run, numbers = str(trials.index[place]), (float(found[place]), float(expected[place]))
            raise RecordError(OTHER_NUMBERS(run=run, column=column, found=numbers[0], expected=numbers[1]))


class _Own:
    """A submission of own runs, as needed for its entries."""

    def __init__(
        self,
        name: str,
        organisation: str,
        files: Mapping[str, File],
        records: Sequence[RunRecord],
        trials: pd.DataFrame,
        document: Document | None,
    ) -> None:
        self.name, self.organisation, self.files, self.document = name, organisation, files, document
        self.records = {record.run_id: record for record in records}
        self.groups = {tuple(key): records_of(group) for key, group in trials.groupby(POINT, sort=False)}

    def entry(self, row: Row) -> Entry:
        """Return the entry of a row of ``scores``."""
        trials = self.groups[tuple(row[name] for name in POINT)]
        records = [self.records[str(trial["run_id"])] for trial in trials]
        study = self.document.study if self.document else str(records[0].plan.study)
        machine, point, exponent = records[0].plan.machine, records[0].plan.point, number_of(row, "exponent")
        reproducibility = reproducibility_of(records, metered=is_metered(trials))
        facts = facts_of(records, study, self.organisation)
        return Entry(
            **facts,
            id=make_id(facts["benchmark"], study, self.organisation, machine.name, *point_of(row)),
            title=shorten(f"{facts['benchmark_title']}, {row['variant']}, on {row['scale']} of {machine.name}"),
            dataset=shorten(str(row["dataset"])),
            data=data_of(str(row["dataset"])),
            division=str(row["division"]),
            variant=shorten(" ".join(str(row[name]) for name in ("variant", "engine") if row[name])),
            scale=str(row["scale"]),
            nodes=whole(number_of(row, "nodes")),
            units=units_of(records[0], point.nodes, point.ranks),
            quality_metric=str(row["quality_metric"]),
            rules=rules_shared(str(row["timing"]), exponent, number_of(row, "flop_per_sample")),
            numbers=(*self._numbers(row, trials), score_number(reproducibility)),
            runs=tuple(self._run(trial) for trial in trials),
            settings=settings_of(records[0], row),
            verdict=self._verdict(row),
            evidence=evidence_of(self.files, records),
            reproducibility=reproducibility,
            repeat=self._repeat(records),
            submission=self.name,
        )

    def _numbers(self, row: Row, trials: Sequence[Row]) -> list[Number]:
        valid = [trial for trial in trials if trial["dropped"] == "" or self._is_valid(trial)]
        return numbers_from(row, SCORES, "scores", _method(row), whole(number_of(row, "n_scored")), valid)

    def _is_valid(self, trial: Row) -> bool:
        return any(verdict.valid for verdict in self.records[str(trial["run_id"])].verdicts)

    def _run(self, trial: Row) -> Run:
        name = str(trial["run_id"]).rpartition("/")[2]
        counted = trial["dropped"] == "" and number_of(trial, "train_rate_samples_per_s") > 0
        return run_from(trial, name=name, counted=counted, time="time_to_quality_s", complies=self._is_valid(trial))

    def _verdict(self, row: Row) -> Verdict:
        status, why = judge_validity(row)
        label = str(row["label"])
        failures = [failure(why)] if status != VALID else []
        return Verdict(
            status="valid" if status == VALID else "not valid",
            judge="HPC-AI Bench",
            rule_set=rules_of(row["suite"]).title,
            label=shorten(label),
            checked=CHECKED,
            reasons=(*failures, *remarks_of(row)),
        )

    def _repeat(self, records: Sequence[RunRecord]) -> str:
        return repeat_with("source/commands.sh of the document" if self.document else STUDY, records)


def _method(row: Row) -> str:
    words = (f"measured, {row['statistic']} of {row['n']} runs", str(row["score_method"]))
    return "; ".join(word for word in words if word)
