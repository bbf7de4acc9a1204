"""Entries from runs of this program, as results folder or report document, and from declared results.

Every number is computed again from the records; only the work of a sample and the power, which other measurements
give, are taken from the submitted scores. Scores that differ from the recomputed ones refuse the submission.
"""

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.config.published import Published, load_published
from hpcai.core.errors import ParseError, RecordError
from hpcai.core.messages import Message, at
from hpcai.core.table_files import read_parquet
from hpcai.listing.content import SCORES, Content, numbers_from, plain, run_from, shorten, whole
from hpcai.listing.entries import Entry, File, Machine, Number, Reason, Value, Verdict, make_id
from hpcai.listing.sources import DOCUMENT_FILE, Kind
from hpcai.metrics.cells import Row, number_of, records_of, text_of
from hpcai.metrics.run_tables import read_records, run_tables
from hpcai.metrics.scores.best_results import VALID, judge_validity
from hpcai.metrics.scores.columns import TRIAL_COLUMNS, score_frame
from hpcai.metrics.scores.declared import declared_scores
from hpcai.metrics.scores.result_scores import name_datasets, name_divisions, score_scales
from hpcai.metrics.scores.trial_scores import FORMULA, score_trials
from hpcai.metrics.scores.validity import split_reasons
from hpcai.mlperf_hpc.analysis.system_families import name_family
from hpcai.records.folders import check_manifest
from hpcai.records.run import RAW, RECORD, RunRecord, check_artefact
from hpcai.report.hpc_ai500.model import Document, read_document
from hpcai.rules.table import rules_of

NO_RECORDS = Message("own.no_records", "found no record.json of a run, from which its numbers would follow")
NO_SCORES = Message("own.no_scores", "found no {file}, which holds the work of a sample behind every rate")
OTHER_RUNS = Message("own.other_runs", "the scores are of other runs than the records: {runs}")
OTHER_NUMBERS = Message("own.other_numbers", "{run}: {column} is {found:.9g}, from the records follows {expected:.9g}")
FUTURE = Message("own.future", "found the date {date}, after today, {today}")
NOT_VALID = Message("own.not_valid", "{reason}")
OFFICIAL = "(official)"
ATTEMPTS = "attempts"
"""Subfolder of a run with its earlier attempts."""
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
        _check_files(record, place.parent)
        _refuse_future(record.started_utc[:10], today, record.run_id)
    submitted = _read_scores(path, kind)
    tables = run_tables(records_at, records)
    trials = _recompute(tables["runs"], submitted)
    machine = records[0].plan.machine
    scores = score_scales(
        trials, tables["runs"], tables["scales"], name_datasets(records), machine, divisions=name_divisions(records)
    )
    org = organisation or records[0].plan.submission.org
    found = _Own(name, org, files, records, trials, document)
    entries = tuple(found.entry(row) for row in records_of(scores))
    return Content(entries=entries, machines=(machine_of(records[0], org),))


def _find_records(path: Path, files: Mapping[str, File]) -> list[Path]:
    """Return the records of timed runs: not their originals, earlier attempts, profiles or weak-scaling groups."""
    names = [PurePosixPath(name) for name in files if name.startswith(("runs/", "logs/"))]
    chosen = [name for name in names if name.name == RECORD and not {RAW, ATTEMPTS} & set(name.parts)]
    if not chosen:
        raise RecordError(at(path.name, NO_RECORDS()))
    return [path / name for name in sorted(chosen)]


def _check_files(record: RunRecord, folder: Path) -> None:
    """Check the raw files of a run that are there; those left out are named by their digests alone."""
    raw = folder / RAW if (folder / RAW).is_dir() else folder
    for artefact in record.artefacts:
        if (raw / artefact.path).is_file():
            check_artefact(raw / artefact.path, artefact, folder)


def _refuse_future(text: str, today: datetime.date, place: str) -> None:
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        day = datetime.date.max
    if day > today + datetime.timedelta(days=1):
        raise ParseError(at(place, FUTURE(date=text, today=today)))


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
        first, study = records[0], self.document.study if self.document else str(records[0].plan.study)
        machine, org = first.plan.machine, self.organisation
        target, exponent = number_of(row, "quality_target"), number_of(row, "exponent")
        years = [int(record.started_utc[:4]) for record in records if record.started_utc[:4].isdigit()]
        return Entry(
            id=make_id(str(row["benchmark"]), study, org, machine.name, *(str(row[name]) for name in POINT)),
            title=shorten(f"{row['benchmark']} {row['variant']} on {row['scale']} of {machine.name}"),
            basis="measured",
            suite=row["suite"],
            round=shorten(study),
            benchmark=str(row["benchmark"]),
            workload=str(row["workload"]),
            dataset=shorten(str(row["dataset"])),
            data="official" if OFFICIAL in str(row["dataset"]) else "other",
            division=str(row["division"]),
            organisation=shorten(org),
            machine=make_id(org, machine.name),
            system=machine.name,
            variant=shorten(" ".join(str(row[name]) for name in ("variant", "engine") if row[name])),
            nodes=whole(number_of(row, "nodes")),
            units=whole(number_of(row, "ranks")),
            accelerator=accelerator_of(first),
            family=name_family(accelerator_of(first)),
            year=max(years, default=None),
            quality_metric=str(row["quality_metric"]),
            quality_target=target if math.isfinite(target) else None,
            rules=_rules(str(row["timing"]), exponent, number_of(row, "flop_per_sample")),
            numbers=tuple(numbers_from(row, SCORES, "scores", _method(row), whole(number_of(row, "n_scored")))),
            runs=tuple(self._run(trial) for trial in trials),
            runs_by_rule=whole(number_of(row, "runs_by_rule")),
            settings=_settings(first, row),
            verdict=self._verdict(row),
            evidence=self._evidence(records),
            repeat=self._repeat(records),
            submission=self.name,
        )

    def _run(self, trial: Row) -> Any:  # noqa: ANN401
        name = str(trial["run_id"]).rpartition("/")[2]
        counted = trial["dropped"] == "" and number_of(trial, "train_rate_samples_per_s") > 0
        valid = any(verdict.valid for verdict in self.records[str(trial["run_id"])].verdicts)
        return run_from(trial, name=name, counted=counted, time="time_to_quality_s", complies=valid)

    def _verdict(self, row: Row) -> Verdict:
        status, why = judge_validity(row)
        label = str(row["label"])
        failures = [Reason(code=NOT_VALID.code, text=shorten(why))] if status != VALID else []
        remarks = [
            Reason(code="own.remark", text=shorten(words), severity="warning")
            for words in split_reasons([row["reason"]])
        ]
        return Verdict(
            status="valid" if status == VALID else "not valid",
            judge="HPC-AI Bench",
            rule_set=rules_of(row["suite"]).title,
            label=shorten(label),
            checked=CHECKED,
            reasons=(*failures, *remarks),
        )

    def _evidence(self, records: Iterable[RunRecord]) -> tuple[File, ...]:
        starts = tuple(f"{start}/{record.run_id}/" for record in records for start in ("runs", "logs"))
        return tuple(file for path, file in self.files.items() if path.startswith(starts) and f"/{RAW}/" not in path)

    def _repeat(self, records: Sequence[RunRecord]) -> str:
        if self.document:
            return f"source/commands.sh of the document, at commit {records[0].provenance.commit or 'unknown'}"
        return f"hpcai run with study.json, at commit {records[0].provenance.commit or 'unknown'}"


def _remarks(row: Row) -> list[Reason]:
    words = split_reasons([row["reason"]])
    return [Reason(code="own.remark", text=shorten(one), severity="warning") for one in words]


def _method(row: Row) -> str:
    words = (f"measured, {row['statistic']} of {row['n']} runs", str(row["score_method"]))
    return "; ".join(word for word in words if word)


def _rules(timing: str, exponent: float, flop_per_sample: float) -> str:
    """Return what results of one list share besides benchmark, data, target and division."""
    words = [timing]
    if math.isfinite(exponent):
        words += [f"VFLOPS with n = {exponent:g}"]
    if math.isfinite(flop_per_sample):
        words += [f"{flop_per_sample:.6g} FLOP a sample"]
    return ", ".join(word for word in words if word)


def accelerator_of(record: RunRecord) -> str:
    """Return the model that a run computed on, as its node told it: accelerators, or else the processor."""
    facts = record.provenance.machine_facts
    return shorten(str(facts.get("accelerators") or facts.get("cpu_model") or ""))


def machine_of(record: RunRecord, org: str) -> Machine:
    """Return the machine of a run, with what its machine file declares."""
    machine = record.plan.machine
    declared = machine.model_dump(mode="json")
    facts = [(name, plain(value)) for name, value in sorted(declared.items()) if isinstance(value, str | int | float)]
    return Machine(
        id=make_id(org, machine.name),
        name=machine.name,
        organisation=shorten(org),
        accelerator=accelerator_of(record),
        family=name_family(accelerator_of(record)),
        facts=tuple(fact for fact in facts if fact[1] not in (None, "")),
    )


def _settings(record: RunRecord, row: Row) -> tuple[tuple[str, Value], ...]:
    point = record.plan.point.model_dump(mode="json")
    chosen = {**point, "global_batch_samples": plain(number_of(row, "global_batch_samples"))}
    software = {f"software {name}": value for name, value in record.provenance.software.items()}
    return tuple(
        (shorten(name), plain(value)) for name, value in (chosen | software).items() if value not in (None, "")
    )


def read_declared(path: Path, name: str, files: Mapping[str, File], today: datetime.date, organisation: str) -> Content:
    """Return the entries of a file of declared results, as in `config/published/`.

    Raises
    ------
    ConfigError
        If the file is not valid.
    ParseError
        If its document is dated in the future.
    """
    published = load_published(path)
    _refuse_future(published.citation.date.isoformat(), today, "citation.date")
    org = organisation or "declared"
    evidence = tuple(files.values())
    entries = [_declared_entry(row, published, name, org, evidence) for row in records_of(declared_scores(published))]
    machines = [
        Machine(
            id=make_id(org, key), name=shorten(machine.title), organisation=shorten(org), accelerator=machine.device,
            family=name_family(machine.device),
        )
        for key, machine in published.machines.items()
    ]  # fmt: skip
    return Content(entries=tuple(entries), machines=tuple(machines))


def _declared_entry(row: Row, published: Published, name: str, org: str, evidence: tuple[File, ...]) -> Entry:
    machine, target = published.machines[str(row["machine"])], number_of(row, "quality_target")
    numbers: list[Number] = numbers_from(row, SCORES, "scores", f"declared: {text_of(row['score_method'])}", None)
    return Entry(
        id=make_id(str(row["benchmark"]), published.name, org, str(row["result"])),
        title=shorten(f"{row['benchmark']} on {machine.title}"),
        basis="declared",
        suite=row["suite"],
        round=published.name,
        benchmark=str(row["benchmark"]),
        workload=str(row["workload"]),
        dataset=shorten(str(row["dataset"])),
        data="official" if OFFICIAL in str(row["dataset"]) else "other",
        division="",
        organisation=shorten(org),
        machine=make_id(org, str(row["machine"])),
        system=shorten(machine.title),
        variant=str(row["variant"]),
        nodes=whole(number_of(row, "nodes")),
        units=whole(number_of(row, "ranks")),
        accelerator=machine.device,
        family=name_family(machine.device),
        year=published.citation.date.year,
        quality_metric=str(row["quality_metric"]),
        quality_target=target if math.isfinite(target) else None,
        rules=_rules("", number_of(row, "exponent"), number_of(row, "flop_per_sample")),
        numbers=tuple(numbers),
        verdict=Verdict(
            status="not judged",
            judge="",
            label=str(row["label"]),
            checked=("the form of the declaration",),
            reasons=tuple(_remarks(row)),
        ),
        evidence=evidence,
        submission=name,
    )
