"""The predictors: each is a command that imports its options and models only when used."""

from importlib import import_module
from typing import Any, cast

from typer.core import TyperCommand
from typer.main import get_command

from hpcai.cli.options import Group

MODULES = {
    "hpl": "hpcai.cli.predict_hpl",
    "replay": "hpcai.cli.predict_replay",
    "round": "hpcai.cli.predict_round",
    "scale": "hpcai.cli.predict_scale",
    "step": "hpcai.cli.predict_step",
    "training": "hpcai.cli.predict_training",
}


class Predictors(Group):
    """Predict machines and scales without measurements. Every printed number is modelled."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - Typer does not export the type
        """Return the names of all predictors."""
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ANN401, ARG002 - as above
        """Return a predictor, or None."""
        if cmd_name not in MODULES:
            return None
        return cast("TyperCommand", get_command(import_module(MODULES[cmd_name]).app))
