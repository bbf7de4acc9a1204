"""Entries from a published round of MLPerf HPC: judged and analysed by the code that reads rounds."""

import datetime
import math
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message, at
from hpcai.listing.content import (
    SCORES,
    Content,
    PastResult,
    data_of,
    evidence_below,
    numbers_from,
    plain,
    run_from,
    shorten,
    whole,
)
from hpcai.listing.entries import (
    Entry,
    File,
    Machine,
    Reason,
    Refusal,
    Run,
    Scaling,
    Unit,
    Value,
    Verdict,
    make_id,
)
from hpcai.listing.sources import refusal_of
from hpcai.metrics.cells import Row, number_of, records_of
from hpcai.metrics.scores.validity import split_reasons
from hpcai.mlperf_hpc.analysis.editions import evaluated_by_steps
from hpcai.mlperf_hpc.analysis.labels import shorten_system
from hpcai.mlperf_hpc.analysis.results_folder import has_rules, import_tables
from hpcai.mlperf_hpc.analysis.study_names import TITLES, benchmark_of, task_of
from hpcai.mlperf_hpc.analysis.system_families import name_family
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.compliance.model import Finding, Severity
from hpcai.mlperf_hpc.compliance.submission_check import SubmissionVerdict
from hpcai.mlperf_hpc.compliance.verdict import PackageVerdict, judge_round
from hpcai.mlperf_hpc.rounds.index import SourceIndex
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Repair, Submission

UNSAFE = Message("rounds.unsafe", "{found}; such an archive or folder is not accepted")
FUTURE = Message("rounds.future", "a log is dated {date}, after today, {today}")
NOT_ACCEPTED = Message("rounds.not_accepted", "not valid: {count} failures by the rule set {rule_set}")
ACCEPTED = Message("rounds.accepted", "accepted: no failure by the rule set {rule_set}")
NO_RULES = Message("rounds.no_rules", "not judged: {reason}")
NO_LOGS = Message("rounds.no_logs", "no result, because none of its logs counts: pruned ones alone, for example")
NO_SCORE = Message(
    "rounds.no_score", "not measured: the score is computed from records of runs, and the logs of a round are none"
)
UNSAFE_KINDS = {"unsafe_path", "link", "name_no_text", "too_large", "unreadable_file", "unreadable_folder"}
"""Irregularities that published rounds do not have, and hostile ones may."""
MOST_REASONS = 20
SECONDS_OF_A_DAY = 86_400
OF_RESULTS = ("epochs", "staging_s", "run_variation_ratio")
MEANS = "mean of the runs in the olympic mean, from published logs"
WEAK = "all instances that count, from published logs"
REPEAT = "The code of the submitter is in the round's repository, beside its results; the settings are listed here."
OF_THE_RESULT = ("framework", "number_of_nodes", "division", "status", "other_software_stack", "operating_system")
"""Fields of a system file that describe a result rather than its machine."""
_SCALE = re.compile(r"(_n\d+|_\d+x[\w-]*)$")
CHECKED = (
    "every log by the rules of the package mlperf_logging",
    "number of runs, seeds, hyper-parameters and convergence of the result",
)


def read_round_source(path: Path, name: str, files: Mapping[str, File], today: datetime.date) -> Content:
    """Return the entries of a round.

    Parameters
    ----------
    path
        Archive or folder; each log is read once.
    name
        Name of the submission.
    files
        All files of the source by path, with digests.
    today
        Logs of a later day are refused.

    Raises
    ------
    ParseError
        If it cannot be read, contains links or paths that leave it, or is dated in the future.
    """
    verdict, checked = judge_round(SourceIndex(path, entries=[]))
    _refuse_unsafe(checked.round.repairs)
    _refuse_future(checked, today)
    tables = import_tables([checked])
    scores = {(row["machine"], row["result"].split("/")[0]): row for row in records_of(tables["scores"])}
    found = _Round(name, checked, verdict, files, tables)
    entries: dict[str, Entry] = {}
    for row in records_of(_with_editions(tables["mlperf_results"])):
        score = scores.get((row["submission"], benchmark_of(row)))
        if score:
            entries[row["source"]] = found.strong_entry(row, score)
    entries |= {row["source"]: found.weak_entry(row) for row in records_of(tables["mlperf_weak"])}
    machines = tuple({machine.id: machine for machine in map(machine_of, checked.round.submissions)}.values())
    return Content(
        entries=tuple(entries.values()),
        machines=machines,
        refused=tuple(_lost(found, entries)),
        past=tuple(_past_results(tables, entries)),
    )


def _past_results(tables: Mapping[str, pd.DataFrame], entries: Mapping[str, Entry]) -> Iterator[PastResult]:
    """Yield what forecasts of later rounds need of each result of strong scaling."""
    systems = tables["mlperf_systems"][["submission", "family"]].drop_duplicates("submission")
    families = dict(systems.itertuples(index=False, name=None))
    for row in records_of(tables["mlperf_results"]):
        entry = entries.get(str(row["source"]))
        values = {name: None if pd.isna(value) else plain(value) for name, value in row.items()}
        yield PastResult(entry=entry.id if entry else "", family=str(families.get(row["submission"], "")), row=values)


def _refuse_unsafe(repairs: tuple[Repair, ...]) -> None:
    unsafe = [repair for repair in repairs if repair.kind in UNSAFE_KINDS]
    if unsafe:
        raise ParseError(at(unsafe[0].source, UNSAFE(found=unsafe[0].found)))


def _refuse_future(checked: CheckedRound, today: datetime.date) -> None:
    limit = datetime.datetime.combine(today, datetime.time(), datetime.UTC).timestamp() + 2 * SECONDS_OF_A_DAY
    for run in _all_runs(checked):
        if run.logged_ms is not None and run.logged_ms / 1000 > limit:
            raise ParseError(at(run.source, FUTURE(date=_day(run.logged_ms), today=today)))


def _all_runs(checked: CheckedRound) -> Iterator[LoggedRun]:
    for submission in checked.round.submissions:
        yield from (*submission.runs, *submission.pruned)


def _day(time_ms: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(time_ms / 1000, tz=datetime.UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{time_ms:g} ms"


def _with_editions(results: pd.DataFrame) -> pd.DataFrame:
    """Return the results of strong scaling with `by_steps`, which tells editions of a benchmark apart."""
    return results.assign(by_steps=evaluated_by_steps(results))


def _lost(found: "_Round", listed: Container[str]) -> Iterator[Refusal]:
    """Yield what has logs but no entry, such as a benchmark that no rule set knows or an unknown scale."""
    for submission in found.checked.round.submissions:
        if submission.folder not in listed:
            yield refusal_of(found.name, ParseError(NO_LOGS()), submission.folder)


class _Round:
    """A round with its verdicts and tables, as needed for entries."""

    def __init__(
        self,
        name: str,
        checked: CheckedRound,
        verdict: PackageVerdict,
        files: Mapping[str, File],
        tables: Mapping[str, pd.DataFrame],
    ) -> None:
        self.name, self.checked, self.verdict, self.files = name, checked, verdict, files
        self.verdicts = {one.folder: one for one in verdict.submissions}
        self.submissions = {one.folder: one for one in checked.round.submissions}
        runs, own = tables["mlperf_runs"], tables["runs"]
        self.counted = frozenset(own.loc[own["dropped"].eq("") & own["outcome"].eq("converged"), "record_path"])
        self.runs = _by_folder(runs, "source")
        self.outcomes = dict(zip(own["record_path"], own["outcome"], strict=True))
        trials = tables["run_scores"]
        valid = trials["run_id"].isin(own.loc[own["valid_for"] != "none", "run_id"])
        self.trials = _by_folder(trials[valid], "record_path")

    def strong_entry(self, row: Row, score: Row) -> Entry:
        """Return the entry of a strong-scaling result: its row of ``mlperf_results``, and that of ``scores``."""
        method = str(score["score_method"])
        # The official score has the factor of scaling.json; the time of a run does not.
        factor = number_of(row, "scaling_factor")
        trials = self.trials.get(str(row["source"]), [])
        runs = [trial | {"time_to_train_s": number_of(trial, "time_to_train_s") * factor} for trial in trials]
        numbers = numbers_from(
            score | {"source": row["source"]}, SCORES, "scores", method, int(score["n_scored"]), runs
        )
        numbers += numbers_from(
            row, ("epochs", "staging_s", "run_variation_ratio"), "mlperf_results", MEANS, row["kept"]
        )
        return self._entry(
            row,
            scaling="strong",
            numbers=tuple(numbers),
            benchmark=str(score["benchmark"]),
            dataset=str(score["dataset"]),
            rules=str(score["timing"]) or "staging not stated",
            units=whole(number_of(row, "units")),
            unit=self._unit(row),
            runs_by_rule=whole(number_of(row, "runs_by_rule")),
            runs_sha256=str(score["runs_sha256"]),
            remarks=tuple(split_reasons([score["reason"]])),
        )

    def weak_entry(self, row: Row) -> Entry:
        """Return the entry of a weak-scaling result: its row of ``mlperf_weak``."""
        names = ("models_per_min", "time_to_train_all_s", "energy_j")
        numbers = numbers_from(row, names, "mlperf_weak", WEAK, whole(number_of(row, "counted_instances")))
        return self._entry(
            row,
            scaling="weak",
            numbers=tuple(numbers),
            benchmark=task_of(row["benchmark"]).workload,
            dataset=task_of(row["benchmark"]).dataset,
            rules=f"instances on {row['instance_scale']:g} {row['scale_unit']}" if row["instance_scale"] > 0 else "",
            units=whole(number_of(row, "whole_scale")),
            unit=row["scale_unit"],
            remarks=tuple(split_reasons([row["reason"]])),
        )

    def _unit(self, row: Row) -> Unit:
        system = self.submissions[str(row["source"])].system
        return "accelerator" if system is None or system.accelerators else "processor"

    def _entry(self, row: Row, *, scaling: Scaling, remarks: tuple[str, ...], **facts: Any) -> Entry:  # noqa: ANN401
        folder = str(row["source"])
        title = TITLES.get(facts["benchmark"], facts["benchmark"])
        submission = self.submissions[folder]
        task, system = task_of(str(row["benchmark"])), submission.system
        logged = self.runs.get(folder, [])
        target = number_of(row, "quality_target")
        dataset = facts["dataset"]
        official = scaling == "weak" or data_of(dataset) == "official"
        return Entry(
            id=make_id(facts["benchmark"], self.checked.round.name, submission.name, str(row["division"]), scaling),
            title=shorten(f"{title} on {submission.system_name}"),
            benchmark_title=title,
            basis="published",
            suite="mlperf_hpc",
            round=shorten(self.checked.round.name),
            workload=task.workload,
            data="official" if official else "other",
            division=shorten(str(row["division"])),
            scaling=scaling,
            organisation=shorten(submission.org),
            machine=_machine_id(submission),
            system=shorten(submission.system_name),
            nodes=system.nodes if system else None,
            accelerator=shorten((system.accelerator or system.processor) if system else ""),
            family=shorten(name_family(system.accelerator or system.processor) if system else ""),
            year=_year_of(submission),
            quality_metric=task.quality_metric,
            quality_target=target if math.isfinite(target) else None,
            runs=tuple(self._run(run) for run in logged),
            settings=_settings_of(row, logged, submission),
            verdict=self._verdict(folder, remarks),
            evidence=self._evidence(submission),
            no_reproducibility=NO_SCORE(),
            repeat=REPEAT,
            submission=self.name,
            **facts,
        )

    def _run(self, row: Row) -> Run:
        complies = bool(row["complies"]) if has_rules(self.checked) else None
        counted, name = row["source"] in self.counted, PurePosixPath(str(row["source"])).name
        # Logs of v0.7 claim nothing: whether a run converged follows from its quality.
        row = row | {"outcome": self.outcomes.get(row["source"], row["claim"])}
        return run_from(row, name=name, counted=counted, time="run_s", complies=complies)

    def _evidence(self, submission: Submission) -> tuple[File, ...]:
        own = list(evidence_below(self.files, submission.folder))
        system = self.files.get(submission.system.source) if submission.system else None
        archive = [file for path, file in self.files.items() if "/" not in path and len(self.files) == 1]
        return (*own, *([system] if system else []), *([] if own else archive))

    def _verdict(self, folder: str, remarks: tuple[str, ...]) -> Verdict:
        own = self.verdicts.get(folder)
        rule_set, judge = self.verdict.rule_set, self.verdict.checker
        findings = [*_findings(own), *(one for one in self.verdict.findings if one.source == folder and one.failed)]
        notes = [Reason(code="rounds.remark", text=shorten(words), severity="warning") for words in remarks]
        if not has_rules(self.checked):
            label = NO_RULES(reason=self.verdict.reason)
            softened = [_reason(one, severity="warning") for one in findings[:MOST_REASONS]]
            return Verdict(status="not judged", judge=judge, label=label, checked=CHECKED, reasons=(*softened, *notes))
        failures = sum(one.failed for one in findings)
        accepted = own is not None and own.accepted
        label = ACCEPTED(rule_set=rule_set) if accepted else NOT_ACCEPTED(count=failures, rule_set=rule_set)
        reasons = [_reason(one, severity="warning" if accepted else one.severity) for one in findings[:MOST_REASONS]]
        return Verdict(
            status="valid" if accepted else "not valid",
            judge=judge,
            rule_set=rule_set,
            label=label,
            checked=CHECKED,
            reasons=(*reasons, *notes),
        )


def _by_folder(table: pd.DataFrame, column: str) -> dict[str, list[Row]]:
    """Return the rows of each folder that holds the logs of a column."""
    folders = table[column].map(lambda source: str(PurePosixPath(str(source)).parent))
    return {str(folder): records_of(group) for folder, group in table.groupby(folders, sort=False)}


def _findings(own: SubmissionVerdict | None) -> list[Finding]:
    """Return the failures of a result, then its warnings."""
    if own is None:
        return []
    found = [*own.findings, *(finding for log in own.logs for finding in log.findings)]
    return sorted(found, key=lambda finding: not finding.failed)


def _reason(finding: Finding, severity: Severity) -> Reason:
    place = finding.source if finding.line is None else f"{finding.source}:{finding.line}"
    code = f"mlperf_logging.{finding.key}"[:200]
    return Reason(
        code=code, text=shorten(f"{finding.rule}: {finding.message}"), place=shorten(place), severity=severity
    )


def _machine_id(submission: Submission) -> str:
    return make_id(submission.org, machine_name(submission.system_name))


def machine_name(system: str) -> str:
    """Return the machine of a system's name, without its scale, software and division."""
    return _SCALE.sub("", shorten_system(system)) or system


def machine_of(submission: Submission) -> Machine:
    """Return the machine of a result, with the facts of its system file."""
    system = submission.system
    facts = [(name, plain(value)) for name, value in sorted((system.fields if system else {}).items())]
    own = (system.accelerator, system.processor) if system else ("", "")
    return Machine(
        id=_machine_id(submission),
        name=shorten(machine_name(submission.system_name)),
        organisation=shorten(submission.org),
        accelerator=shorten(own[0]),
        processor=shorten(own[1]),
        family=shorten(name_family(own[0] or own[1])),
        facts=tuple((shorten(name), value) for name, value in facts if name not in OF_THE_RESULT),
    )


def _year_of(submission: Submission) -> int | None:
    times = [run.logged_ms for run in submission.runs if run.logged_ms is not None]
    try:
        return datetime.datetime.fromtimestamp(max(times) / 1000, tz=datetime.UTC).year if times else None
    except (ValueError, OverflowError, OSError):
        return None


def _settings_of(row: Row, logged: list[Row], submission: Submission) -> tuple[tuple[str, Value], ...]:
    """Return what differs between comparable results: batch, samples, optimiser, software."""
    first = submission.runs[0].settings if submission.runs else {}
    logs = {name: plain(value) for name, value in sorted(first.items()) if name.startswith("opt_")}
    batch = {"global_batch_size": plain(number_of(logged[0], "global_batch_samples"))} if logged else {}
    system = submission.system.fields if submission.system else {}
    software = {name: plain(system[name]) for name in OF_THE_RESULT if name in system}
    chosen = {**batch, "train_samples": plain(number_of(row, "train_samples")), **logs, **software}
    return tuple((shorten(name), value) for name, value in chosen.items() if value not in (None, ""))
