"""Assemble a report document: four parts, the number of runs, and the verdict of the rules at each level."""

from collections import Counter
from collections.abc import Iterator, Sequence

from hpcai.metrics.scores.validity import RunCounts, judge_runs
from hpcai.metrics.scores.verdicts import NOTHING, summarise_verdicts
from hpcai.records.run import RunRecord
from hpcai.report.hpc_ai500.configuration import describe_configuration
from hpcai.report.hpc_ai500.evidence import Evidence
from hpcai.report.hpc_ai500.model import Document, Level
from hpcai.report.hpc_ai500.scores import describe_scores
from hpcai.report.hpc_ai500.sources import describe_sources
from hpcai.report.hpc_ai500.system import describe_system
from hpcai.rules.table import rules_of


def build_document(evidence: Evidence) -> Document:
    """Return the report document required by section 6.3.3 of the rules, complete or with its missing items."""
    records, plan = evidence.records, evidence.records[0].plan
    return Document(
        study=plan.study,
        benchmark=evidence.benchmark,
        title=plan.benchmark.title,
        workload=plan.benchmark.workload,
        machine=f"{evidence.machine.name}: {evidence.machine.title}",
        runs=len(records),
        failed_runs=sum(not run.trained_to_its_end for run in evidence.runs),
        parts=(
            describe_system(evidence),
            describe_configuration(evidence),
            describe_scores(evidence),
            describe_sources(evidence),
        ),
        results=tuple(_results(records)),
        levels=tuple(_levels(records)),
    )


def _results(records: Sequence[RunRecord]) -> Iterator[str]:
    """Report for each variant and scale whether the runs are as many as the rules require."""
    rules = rules_of(records[0].plan.benchmark.suite).results
    scales: dict[str, Counter[str]] = {}
    for record in records:
        point = record.plan.point
        scales.setdefault(f"{point.variant}, {point.scale}", Counter())[record.outcome] += 1
    for name, outcomes in scales.items():
        missed = outcomes["not_converged"]
        counts = RunCounts(converged=outcomes["converged"], missed=missed, total=outcomes.total())
        asked = rules.runs[records[0].plan.benchmark.workload]
        yield f"{name}: {judge_runs(counts, rules, asked)}"


def _levels(records: Sequence[RunRecord]) -> Iterator[Level]:
    """Report the objections at each level, strictest first; variants are named if they differ."""
    found = summarise_verdicts(records)
    for (level, verdict), rows in found.groupby(["level", "verdict"], sort=False):
        several = rows["variant"].nunique() < found["variant"].nunique()
        yield Level(
            level=str(level) + (f" ({', '.join(rows['variant'].unique())})" if several else ""),
            verdict=str(verdict),
            findings=tuple(
                f"{row.finding} ({row.variant}: {row.n_found} of {row.n} runs; {row.section})"
                for row in rows.itertuples()
                if row.finding != NOTHING
            ),
        )
