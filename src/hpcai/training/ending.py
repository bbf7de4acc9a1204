"""How the program of a rank ends: at once, with an exit status, and with a reason that the supervisor finds."""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hpcai.core.errors import HpcaiError


def leave(status: int) -> NoReturn:
    """End at once: taking down TensorFlow and Horovod in order may wait for ranks that are no longer there."""
    _remove_generated_sources()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _remove_generated_sources() -> None:
    """Remove what TensorFlow's AutoGraph wrote to the node's temporary folder, as it does at an orderly end."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_generated_file") and module.__file__:
            with suppress(OSError):
                Path(module.__file__).unlink()


def run_and_leave(main: Callable[[], None]) -> NoReturn:
    """Run a rank's main function and end with 0, or after any error with 1 and the reason on standard error."""
    try:
        main()
    except HpcaiError as error:
        # As Python itself names it, so that the supervisor finds the reason among the launcher's own messages.
        print(f"{type(error).__module__}.{type(error).__qualname__}: {error}", file=sys.stderr)
        leave(1)
    except SystemExit as ending:  # the command line was wrong, or asked for help
        leave(ending.code if isinstance(ending.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        leave(1)
    leave(0)
