"""Parse the jobs, times, sizes and resource lists printed by Slurm's commands."""

import re

_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z/:]*)=(\S*)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")


def job_fields(text: str, job: str) -> dict[str, str]:
    """Return the fields of one job from the output of ``scontrol show job --oneliner``; empty if it is missing.

    Parameters
    ----------
    text
        The output; it may be empty or cover several jobs.
    job
        Id of the job.
    """
    for line in map(str.strip, text.splitlines()):
        if line.split(" ", 1)[0] == f"JobId={job}":
            # The last value of a name counts: the job's name, which comes first, may contain anything, and so may the
            # text after Command.
            return {**dict(_FIELD.findall(line.split(" Command=", maxsplit=1)[0])), "JobId": job}
    return {}


def resources_of(text: str) -> dict[str, str]:
    """Return the parts of a list of resources (TRES), such as ``cpu=4,mem=8G,node=2``."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def size_in_bytes(text: str, unit: str = "M") -> int | None:
    """Return a Slurm size such as ``4000M`` or ``1.5G``; its units are powers of 1024.

    Parameters
    ----------
    text
        The size.
    unit
        Unit of a number without one.
    """
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * 1024 ** _POWERS.get(match[2] or unit, 0)) if match else None


def duration_in_seconds(text: str) -> float | None:
    """Return a Slurm time, ``[DAYS-][HH:]MM:SS[.SSS]``; None for UNLIMITED and anything else."""
    match = _TIME.fullmatch(text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
