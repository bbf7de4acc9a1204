"""How Slurm's commands write jobs, times, sizes and lists of resources."""

import re

_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z/:]*)=(\S*)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")


def job_fields(text: str, job: str) -> dict[str, str]:
    """Return the fields of one job from what ``scontrol show job --oneliner`` says; none if it is not there.

    Parameters
    ----------
    text
        The output; it may be empty or of several jobs.
    job
        Number of the job.
    """
    for line in map(str.strip, text.splitlines()):
        if line.split(" ", 1)[0] == f"JobId={job}":
            # The last of a name counts: the job's name, which comes first, may hold anything, as may what follows
            # Command.
            return {**dict(_FIELD.findall(line.split(" Command=", maxsplit=1)[0])), "JobId": job}
    return {}


def resources_of(text: str) -> dict[str, str]:
    """Return the parts of a list of resources (TRES), such as ``cpu=4,mem=8G,node=2``."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def size_in_bytes(text: str, unit: str = "M") -> int | None:
    """Return a size of Slurm's, such as ``4000M`` or ``1.5G``; its units are powers of 1024.

    Parameters
    ----------
    text
        The size.
    unit
        What a number without a unit counts.
    """
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * 1024 ** _POWERS.get(match[2] or unit, 0)) if match else None


def duration_in_seconds(text: str) -> float | None:
    """Return a time of Slurm's, ``[DAYS-][HH:]MM:SS[.SSS]``; None for UNLIMITED and anything else."""
    match = _TIME.fullmatch(text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
