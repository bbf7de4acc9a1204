"""The package ``mlperf_logging``, the reference for our verdicts."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from mlperf_logging.compliance_checker import mlp_compliance
from mlperf_logging.package_checker import package_checker

from hpcai.mlperf_hpc.compliance.log_check import check_log
from hpcai.mlperf_hpc.compliance.model import LogVerdict
from hpcai.parsers.mllog import parse_mllog

SHARED = Path(os.environ.get("HPCAI_SHARED_DATA", Path(__file__).parents[5] / "shared/data"))
ARCHIVE = SHARED / "mlperf_hpc_v0.7.tar.xz"
STOPS = "stops"
_read: dict[str, Any] = {}


def _load(file: Any, Loader: Any) -> Any:
    """Read each rule file once: the package needs 50 ms for it, for every log."""
    if file.name not in _read:
        _read[file.name] = yaml.load(file, Loader=Loader)
    return _read[file.name]


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the package and empty its queue, which keeps entries after an exception."""
    mlp_compliance.enqueued_configs.clear()
    with mock.patch.object(mlp_compliance, "yaml", mock.Mock(load=_load, BaseLoader=yaml.BaseLoader)):
        level = logging.getLogger().level
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            logging.getLogger().setLevel(level)


def ask_package(path: Path, rule_set: str) -> tuple[bool, set[str] | None]:
    """Return the package's verdict on a log, and the keys of its messages; None where it stops."""
    with quiet():
        checker = mlp_compliance.make_checker("hpc", rule_set, True, False)
        try:
            valid = bool(checker.check_file(str(path), f"hpc_{rule_set}/common.yaml"))
        except Exception:
            return False, None
    return valid, set(checker.overwritable)


def own_keys(verdict: LogVerdict) -> set[str]:
    """Return the keys of our failures that the package keeps by their key."""
    kept = ("ATLEAST_ONE_CHECK", "REQ AT_LEAST_ONE_OR")
    words = [(finding.key, finding.rule.split(": ", 2)) for finding in verdict.failures]
    return {key for key, parts in words if len(parts) == 3 and not parts[2].startswith(kept)}


def assert_equal(content: bytes, folder: Path, rule_set: str) -> LogVerdict:
    """Compare our verdict on a log, and the keys that failed, with the package's."""
    path = folder / "result_1.txt"
    path.write_bytes(content)
    ours = check_log(parse_mllog(content, "result_1.txt"), rule_set, source="result_1.txt")
    valid, keys = ask_package(path, rule_set)
    assert ours.complies == valid
    if keys is None:
        assert any(finding.stops for finding in ours.findings) or not ours.complies
    else:
        assert own_keys(ours) == keys
    return ours


def ask_package_checker(folder: Path, rule_set: str) -> str:
    """Return the result of the package checker for an organisation's folder, where it may write scaling.json."""
    texts: list[str] = []
    with quiet():
        record: Callable[..., None] = lambda text, *words: texts.append(str(text))  # noqa: E731
        with mock.patch.object(package_checker.logging, "info", record):
            try:
                package_checker.check_training_package(
                    str(folder), "hpc", rule_set, True, False, False, False, False, "none"
                )
            except Exception:
                return STOPS
    if any("FOUND NO ERRORS" in text for text in texts):
        return "no errors"
    assert any("FOUND ERRORS" in text for text in texts)
    return "errors"


def published(path: Path) -> Path:
    """Return shared data. Skips the test where they are absent."""
    if not path.exists():
        pytest.skip(f"published logs {path.name} are not here: set HPCAI_SHARED_DATA to their folder")
    return path
