"""Values of the Slurm profile, partition, account and limits, and the study's time limits within them."""

from hpcai.config.acceptance import Acceptance
from hpcai.config.study import Limits
from hpcai.core.errors import ConfigError
from hpcai.setup.ask import Answers, fact_of
from hpcai.setup.limits import Limit, find_account, find_limit, find_most_jobs, find_qos
from hpcai.setup.partition import Partition
from hpcai.setup.site import ProfileValues, StudyValues, Value
from hpcai.setup.slurm_answers import number_in, read_settings

RUN_S = 900
"""Time limit of a run [s]; one with generated data takes a few minutes."""
BESIDES_S = 600
"""Time that a job requests in addition to its run (RUN_LIMIT_S in workflow/rules/resources.smk) [s]."""
SHORTEST_RUN_S = 60
MACHINE_MINUTES, PACKING_MINUTES, PACKING_MIB, JOBS = 60, 240, 4000, 20
"""Requests for measuring the machine, and for downloads and packing, if nothing limits them."""
LEAST_JOB_AGE_S = 300


def values_of_profile(
    answers: Answers, partition: Partition, account: str, memory_mib: int
) -> tuple[ProfileValues, StudyValues]:
    """Return the values of the profile, and the study's time limits.

    Raises
    ------
    ConfigError
        If the partition's limit is too short for a run.
    """
    paying, association = find_account(answers, partition, account)
    qos = find_qos(answers, partition, association)
    limit = find_limit(answers, partition, association, qos)
    study = StudyValues(_run_s(partition, limit), _acceptance_s(limit))
    profile = ProfileValues(
        partition=Value(
            partition.name, "--partition of this call, this job's, or Slurm's default (scontrol show partition)"
        ),
        account=paying,
        qos=qos,
        constraint=_constraint(partition),
        mem_mb=Value(
            min(PACKING_MIB, memory_mib), "for downloads and packing; runs request the machine file's memory_bytes"
        ),
        runtime=_within(
            PACKING_MINUTES, limit, "minutes, for downloads and packing; runs request the study's limits.run_s"
        ),
        jobs=_jobs(find_most_jobs(answers, partition, association, qos)),
        status_command=_status_command(answers),
        machine_runtime=_within(MACHINE_MINUTES, limit, ""),
        notes=(f"other partitions that accept your jobs: {', '.join(partition.others)}",) if partition.others else (),
    )
    return profile, study


def _constraint(partition: Partition) -> Value:
    if partition.constraint:
        return Value(partition.constraint, "sinfo %f: these nodes of the partition have it, and no others")
    return Value(None, "sinfo: all nodes of the partition are identical", partition.gap)


def _run_s(partition: Partition, limit: Limit) -> Value:
    times = 1 + Limits().disturbance.repeats
    if limit.time_s is None:
        return Value(RUN_S, "chosen; no limit of Slurm is shorter")
    most = int((limit.time_s - BESIDES_S) // times)
    if most < SHORTEST_RUN_S:
        raise ConfigError(
            f"partition {partition.name}: {limit.source} is {limit.time_s / 60:g} minutes, expected at least "
            f"{(BESIDES_S + times * SHORTEST_RUN_S) / 60:g} for one run; name another one (--partition)"
        )
    if most >= RUN_S:
        return Value(RUN_S, f"chosen; {limit.source}: {limit.time_s / 60:g} minutes")
    return Value(most, f"{limit.source}: {limit.time_s / 60:g} minutes, less {BESIDES_S // 60}, for {times} attempts")


def _acceptance_s(limit: Limit) -> Value:
    """Return the acceptance's limit if its default is too long; whole minutes, because its job requests such."""
    if limit.time_s is None or limit.time_s >= Acceptance().limit_s:
        return Value(None)
    return Value(int(limit.time_s // 60) * 60, f"{limit.source}: {limit.time_s / 60:g} minutes")


def _within(minutes: int, limit: Limit, otherwise: str) -> Value:
    if limit.time_s is None or limit.time_s >= 60 * minutes:
        return Value(minutes if otherwise else None, otherwise)
    return Value(int(limit.time_s // 60), f"minutes; {limit.source}")


def _jobs(limit: tuple[int, str] | None) -> Value:
    if limit is not None and limit[0] < JOBS:
        return Value(max(1, limit[0]), limit[1])
    return Value(JOBS, "concurrent Slurm jobs; chosen")


def _status_command(answers: Answers) -> Value:
    settings = fact_of(answers, "config", read_settings)
    age = settings.get("minjobage", "").split(maxsplit=1)
    kept_s = number_in({"age": age[0]} if age else {}, "age")
    if kept_s is None:
        return Value("squeue", gap="whether Slurm keeps ended jobs for 300 s: MinJobAge of `scontrol show config`")
    if kept_s >= LEAST_JOB_AGE_S:
        return Value("squeue", f"scontrol show config: MinJobAge={kept_s} s; it detects cancelled jobs")
    if "none" in settings.get("accountingstoragetype", "none"):
        gap = f"Slurm forgets ended jobs after {kept_s} s and has no accounting: ask for MinJobAge=300"
        return Value("squeue", gap=gap)
    return Value("sacct", f"scontrol show config: MinJobAge={kept_s} s is too short for squeue")
