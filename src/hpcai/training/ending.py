"""How the program of a rank ends: at once, with an exit status, and with a reason that the supervisor finds."""

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from hpcai.errors import HpcaiError


def leave(status: int) -> NoReturn:
    """End at once: taking down TensorFlow and Horovod in order may wait for ranks that are no longer there."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


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
