"""One call per script: messages and uncaught errors go to the rule's log, errors to the terminal as well."""

import logging
import sys
from pathlib import Path
from types import TracebackType

from hpcai.core.errors import HpcaiError
from hpcai.core.extras import explain

FORMAT = "%(asctime)s %(levelname)s %(message)s"


def log_to(path: str | Path) -> None:
    """Send all log messages and the traceback of an uncaught error to the file ``path``.

    The terminal shows the library's own messages as well: they tell the progress of long work. An
    :class:`HpcaiError` is a message for the user: the terminal shows it without a traceback, and so it is with a
    package of an extra that is not installed.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # Messages that a full disk does not take are no errors of their own.
    logging.raiseExceptions = False
    logging.basicConfig(filename=path, filemode="w", level=logging.INFO, format=FORMAT, force=True)
    logging.captureWarnings(capture=True)
    terminal = logging.StreamHandler()
    terminal.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    logging.getLogger("hpcai").addHandler(terminal)
    sys.excepthook = _report


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.critical("stopped", exc_info=(kind, error, trace))
    told = explain(error) if isinstance(error, ModuleNotFoundError) else error
    if isinstance(told, HpcaiError):
        print(f"error: {told}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
