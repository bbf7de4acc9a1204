"""Capture one profile: a profiled run with its tool, or the reason why there is none; never a campaign error."""

from fnmatch import fnmatch
from pathlib import Path

from hpcai.config.plan_file import read_plan
from hpcai.config.runs import ProfileKind, RunPlan
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.measure.claim import results_written
from hpcai.measure.inputs import Inputs
from hpcai.measure.interruption import ended_by_signals
from hpcai.measure.progress import say
from hpcai.measure.publish import CAPTURE, TOOL, published
from hpcai.measure.supervise import measure
from hpcai.profiles.instrument import NO_INSTRUMENT, Missing
from hpcai.profiles.kind import find_instrument
from hpcai.records.files import RAW, read_part, write_sealed
from hpcai.records.run import FINISHED, Artefact, Capture, InstrumentFacts, RunRecord

A_TIMED_RUN = Message("capture.a_timed_run", "found the plan of a timed run, expected one that names a profile")


def capture(inputs: Inputs, folder: Path, launcher: str) -> Capture:
    """Make the profiled run of a plan, if its tool is available, and write ``folder``/capture.json.

    A missing tool, a failed run and a tool without output are results to record.

    Raises
    ------
    ConfigError
        If the plan is that of a timed run.
    RunRefusedError
        If the run was measured with other settings, or another process took it over.
    RunInterruptedError
        If a signal ended it.
    ResultsError
        If its folder cannot be written.
    LaunchError
        If the launcher does not exist.
    """
    (plan,) = map(read_plan, inputs.plans)
    _profile(plan)
    with ended_by_signals(plan.run_id), results_written(folder):
        # A capture is kept even if the tool has since been removed.
        is_there = published(folder, plan) is not None
        instrument = NO_INSTRUMENT if is_there else find_instrument(plan)
        if isinstance(instrument, Missing):
            folder.mkdir(parents=True, exist_ok=True)
            found = _capture(plan, "none", instrument.reason)
        else:
            found = _captured(plan, measure(inputs, folder, launcher, instrument), folder)
        if found.status == "not_measured":
            say(plan, f"profile {plan.profile} not measured: {found.reason}")
        write_sealed(found, folder / CAPTURE)
        return found


def _captured(plan: RunPlan, record: RunRecord, folder: Path) -> Capture:
    used = read_part(InstrumentFacts, folder / RAW / TOOL)
    if record.outcome not in FINISHED:
        return _capture(plan, used.tool, f"the profiled run failed ({record.outcome}): {record.reason}")
    raw = [one for one in record.artefacts if any(fnmatch(one.path, pattern) for pattern in used.raw)]
    if not any(fnmatch(one.path, used.raw[0]) for one in raw):
        return _capture(plan, used.tool, f"{used.tool} left no {used.raw[0]}; see raw/output.log")
    made = _capture(plan, used.tool, "", tuple(raw))
    return made.model_copy(update={"compute_capability": used.compute_capability, "missing": used.missing})


def _capture(plan: RunPlan, tool: str, reason: str, raw: tuple[Artefact, ...] = ()) -> Capture:
    return Capture(
        profile=_profile(plan),
        run_id=plan.run_id,
        tool=tool,
        status="not_measured" if reason else "measured",
        reason=reason,
        raw=tuple(one.model_copy(update={"path": f"{RAW}/{one.path}"}) for one in raw),
    )


def _profile(plan: RunPlan) -> ProfileKind:
    if plan.profile is None:
        raise ConfigError(at(str(plan.run_id), A_TIMED_RUN()))
    return plan.profile
