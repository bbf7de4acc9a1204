"""The predictors: each is a command that imports its options and models only when used."""

from importlib import import_module
from typing import Any, cast

from typer.core import TyperCommand
from typer.main import get_command

from hpcai.cli.options import Group

PREDICTORS = {
    "hpl": "Time and rate of HPL on nodes with processors and GPUs.",
    "replay": "Profiled steps rebuilt from their timelines, and what if.",
    "round": "Time to solution in rounds of MLPerf HPC, also later ones.",
    "scale": "Time of a step at other ranks, batches and messages.",
    "step": "Time of a training step from its measured blocks.",
    "training": "Time of a data-parallel training step.",
}
"""What each predicts; its command is `hpcai.cli.predict_NAME`."""


class Predictors(Group):
    """Predict machines and scales without measurements. Every printed number is modelled."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - Typer does not export the type
        """Return the names of all predictors."""
        return list(PREDICTORS)

    def first_sentence(self, ctx: Any, name: str) -> str:  # noqa: ANN401, ARG002 - as above
        """Return what a predictor predicts, without importing it."""
        return PREDICTORS[name]

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ANN401, ARG002 - as above
        """Return a predictor, or None."""
        if cmd_name not in PREDICTORS:
            return None
        return cast("TyperCommand", get_command(import_module(f"hpcai.cli.predict_{cmd_name}").app))
