"""Command line of the predictors: ``python -m hpcai.predict hpl --help``, ``… training --help``."""

import argparse
import os
import sys

from hpcai.core.errors import HpcaiError
from hpcai.predict.hpl_command import add_hpl_parser, run_hpl
from hpcai.predict.training_command import add_training_parser, run_training


def main(arguments: list[str] | None = None) -> int:
    """Run one predictor; return its status: 0, or 2 after one clear sentence."""
    parser = argparse.ArgumentParser(
        prog="python -m hpcai.predict",
        description="Predict machines and scales that nobody has measured. Every number printed is modelled.",
    )
    predictors = parser.add_subparsers(required=True, metavar="PREDICTOR")
    for add, run in ((add_hpl_parser, run_hpl), (add_training_parser, run_training)):
        add(predictors).set_defaults(run=run)
    given = parser.parse_args(arguments)
    try:
        status: int = given.run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except HpcaiError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
