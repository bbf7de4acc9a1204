"""Command line of the library: ``hpcai COMMAND --help``."""

import sys

from hpcai.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
