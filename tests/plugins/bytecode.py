"""Workers (`pytest -n`) load the tests' bytecode, instead of each rewriting the assertions of all files for itself.

Also where PYTHONDONTWRITEBYTECODE is set, as in many images: envs/install.py compiles the library there as well.
"""

import compileall
import multiprocessing
from contextlib import suppress
from pathlib import Path

from _pytest.assertion.rewrite import (
    PYC_TAIL,
    _read_pyc,
    _rewrite_test,
    _write_pyc,
    assertstate_key,
    get_cache_dir,
    try_makedirs,
)

PROCESSES = 2


def pytest_configure(config):
    """Before workers start, compile what they will import; what is up to date stays."""
    if not config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        return
    files = sorted({file for place in config.args for file in _files_of(Path(place.partition("::")[0]))})
    processes = [
        multiprocessing.get_context("fork").Process(target=_compile, args=(files[first::PROCESSES], config))
        for first in range(PROCESSES)
    ]
    for one in processes:
        one.start()
    for one in processes:
        one.join()


def _files_of(place):
    return place.rglob("*.py") if place.is_dir() else [place] if place.suffix == ".py" else []


def _compile(files, config):
    for file in map(Path.absolute, files):
        with suppress(OSError, SyntaxError):  # the workers report what cannot be read
            if file.name.startswith("test_") or file.name == "conftest.py":
                _rewrite(file, config)
            else:
                compileall.compile_file(file, quiet=2)


def _rewrite(file, config):
    """Write what pytest would, if it might write bytecode."""
    pyc = get_cache_dir(file) / f"{file.stem}{PYC_TAIL}"
    if try_makedirs(pyc.parent) and _read_pyc(file, pyc) is None:
        source_hash, code = _rewrite_test(file, config)
        _write_pyc(config.stash[assertstate_key], code, source_hash, pyc)
