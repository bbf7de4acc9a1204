"""The start command of a run, from its record."""

import shlex

from hpcai.records.run import RunRecord

SCRATCH_FLAG = "--scratch"


def shown_command(record: RunRecord) -> str:
    """Return the start command of a run without irrelevant folders.

    Programs appear without their path, and the scratch folder as its setting.
    """
    parts, scratch = [], record.plan.machine.storage.node_local
    for number, part in enumerate(record.provenance.command):
        before = record.provenance.command[number - 1] if number else ""
        name = part.rpartition("/")[2]
        if before == SCRATCH_FLAG:
            parts.append(f"{scratch}/{name}")
        else:
            parts.append(name if part.startswith("/") and "/bin/" in part else part)
    return " ".join(part if part.startswith("${") else shlex.quote(part) for part in parts)
