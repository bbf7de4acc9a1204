"""One call per script: messages and uncaught errors go to the rule's log, errors to the terminal as well."""

import logging
import re
import sys
from pathlib import Path
from types import TracebackType

from hpcai.core.errors import HpcaiError
from hpcai.core.extras import explain
from hpcai.core.files import read_regular

FORMAT = "%(asctime)s %(levelname)s %(message)s"
_TIME = rb"^[-\d]{10} [:,\d]{12} "
_ENDED_BADLY = re.compile(_TIME + rb"CRITICAL stopped$(?!.*" + _TIME + rb")", re.MULTILINE | re.DOTALL)
"""An uncaught error, see `_report`, and no message after it."""
_MOST_KEPT_BYTES = 1 << 20


def log_to(path: str | Path) -> None:
    """Send all log messages and the traceback of an uncaught error to the file ``path``.

    If the file ends with the error of an earlier attempt, it is continued: what stops the next attempt may only be a
    consequence. Any other file is replaced. The terminal also shows the library's own messages, which report the
    progress of long tasks. An :class:`HpcaiError` is a message for the user, so the terminal shows it without a
    traceback; the same applies to a missing package of an extra.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # Messages lost on a full disk are not errors by themselves.
    logging.raiseExceptions = False
    mode = "a" if _ends_with_error(Path(path)) else "w"
    logging.basicConfig(filename=path, filemode=mode, level=logging.INFO, format=FORMAT, force=True)
    logging.captureWarnings(capture=True)
    terminal = logging.StreamHandler()
    terminal.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    logging.getLogger("hpcai").addHandler(terminal)
    sys.excepthook = _report


def _ends_with_error(path: Path) -> bool:
    try:
        return _ENDED_BADLY.search(read_regular(path, _MOST_KEPT_BYTES)) is not None
    except OSError:  # none yet, or a device
        return False


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.critical("stopped", exc_info=(kind, error, trace))
    told = explain(error) if isinstance(error, ModuleNotFoundError) else error
    if isinstance(told, HpcaiError):
        print(f"error: {told}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
