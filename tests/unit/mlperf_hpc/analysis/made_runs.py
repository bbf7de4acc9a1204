"""Made-up runs of a submission with known times, for tests of the analysis."""

from typing import Any

from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.compliance.choose import Choice
from hpcai.mlperf_hpc.compliance.model import LogVerdict
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Round, Score, Span, Submission, System

START_MS = 1_700_000_000_000.0


def span(start_s: float, stop_s: float, epoch: float | None = None, steps: float | None = None) -> Span:
    """Return an interval by its seconds after run_start."""
    return Span(START_MS + start_s * 1000, START_MS + stop_s * 1000, epoch, steps)


def made_run(number: int = 1, **changes: Any) -> LoggedRun:
    """Return a run of 100 s: 10 s of staging, four epochs of 20 s with 5 s of evaluation each, 10 s of other work."""
    fields: dict[str, Any] = {
        "source": f"ORG/results/machine/strong/cosmoflow/result_{number}.txt",
        "number": number,
        "org": "ORG",
        "division": "closed",
        "benchmark": "cosmoflow",
        "status": "onprem",
        "platform": "machine",
        "settings": {"train_samples": 3000, "eval_samples": 500, "global_batch_size": 64},
        "seeds": (number,),
        "claim": "success",
        "init_s": 12.0,
        "run": span(0, 100),
        "staging": span(0, 10),
        "staging_before_run": False,
        "epochs": tuple(span(10 + 20 * place, 30 + 20 * place, place + 1) for place in range(4)),
        "evaluations": tuple(span(25 + 20 * place, 30 + 20 * place, place + 1) for place in range(4)),
        "epochs_in_blocks": 4,
        "scores": tuple(Score(place, 0.0, value, place + 1) for place, value in enumerate((0.3, 0.2, 0.15, 0.12))),
        "quality_key": "eval_error",
        "repairs": (),
    }
    return LoggedRun(**{**fields, **changes})


def timed_run(number: int, run_s: float, **changes: Any) -> LoggedRun:
    """Return a run of a given length."""
    return made_run(number, run=span(0, run_s), **changes)


def made_system(**changes: Any) -> System:
    """Return a machine of four nodes with two processors and eight accelerators each."""
    fields: dict[str, Any] = {
        "source": "ORG/systems/machine.json",
        "name": "machine",
        "fields": {},
        "division": "closed",
        "nodes": 4,
        "processors_per_node": 2,
        "accelerators_per_node": 8,
        "accelerator": "A100",
        "processor": "EPYC",
    }
    return System(**{**fields, **changes})


def made_submission(runs: list[LoggedRun], **changes: Any) -> Submission:
    """Return a submission of CosmoFlow."""
    fields: dict[str, Any] = {
        "origin": "v9.9",
        "method": "published",
        "org": "ORG",
        "system_name": "machine",
        "folder": "ORG/results/machine/strong/cosmoflow",
        "benchmark": "cosmoflow",
        "scaling": "strong",
        "runs": tuple(runs),
        "pruned": (),
        "system": made_system(),
        "scaling_factor": None,
    }
    return Submission(**{**fields, **changes})


def made_round(*submissions: Submission, failing: tuple[str, ...] = ()) -> CheckedRound:
    """Return a round whose logs comply, except those of given sources."""
    runs = [run for submission in submissions for run in (*submission.runs, *submission.pruned)]
    verdicts = {run.source: LogVerdict(run.source, "3.0.0", run.source not in failing, ()) for run in runs}
    made = Round("v9.9", ".", "scaled", submissions, (), ())
    return CheckedRound(made, Choice("3.0.0", "made up"), verdicts)
