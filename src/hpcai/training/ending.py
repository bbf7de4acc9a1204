"""End a rank's program at once, with an exit status and a reason that the supervisor finds."""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hpcai.core.errors import HpcaiError


def leave(status: int) -> NoReturn:
    """Exit at once: an orderly shutdown of TensorFlow and Horovod may wait for ranks that no longer exist."""
    _remove_generated_sources()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _remove_generated_sources() -> None:
    """Remove AutoGraph's generated files from the node's temporary folder, as an orderly exit does."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_generated_file") and module.__file__:
            with suppress(OSError):
                Path(module.__file__).unlink()


def run_and_leave(main: Callable[[], None]) -> NoReturn:
    """Run a rank's main function; exit with 0, or after any error with 1 and the reason on standard error."""
    try:
        main()
    except HpcaiError as error:
        # In Python's own format, so that the supervisor finds the reason among the launcher's messages.
        print(f"{type(error).__module__}.{type(error).__qualname__}: {error}", file=sys.stderr)
        leave(1)
    except SystemExit as ending:  # wrong command line, or a request for help
        leave(ending.code if isinstance(ending.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        leave(1)
    leave(0)
