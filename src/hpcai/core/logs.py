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

    The terminal also shows the library's own messages, which report the progress of long tasks. An
    :class:`HpcaiError` is a message for the user, so the terminal shows it without a traceback; the same applies to a
    missing package of an extra.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # Messages lost on a full disk are not errors by themselves.
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
