"""The plan of one run in its file: what `hpcai measure` and the ranks read."""

import json
from pathlib import Path

from hpcai.config.runs import RunPlan
from hpcai.core.errors import ConfigError
from hpcai.core.files import read_regular, write_atomically
from hpcai.core.sealed import seal, unseal


def write_plan(plan: RunPlan, path: Path) -> None:
    """Write a plan as JSON with its digest, atomically."""
    text = json.dumps(plan.model_dump(mode="json"), indent=1, sort_keys=True)
    write_atomically(path, seal(f"{text}\n".encode()))


def read_plan(path: Path) -> RunPlan:
    """Read and check a plan.

    Raises
    ------
    ConfigError
        If the file is not a valid plan, or was changed since it was written.
    """
    try:
        return RunPlan.model_validate_json(unseal(read_regular(path)).text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: no valid run plan; remove it and start the workflow again: {error}") from error
