"""A session of tests that takes longer than its tier may take fails, and so does one that skipped what has to run."""

import os
import re
import time

import pytest

VARIABLE = "HPCAI_TEST_BUDGET_S"


def pytest_addoption(parser):
    group = parser.getgroup("tiers of tests")
    group.addoption("--budget-s", type=float, default=0, help=f"seconds the session may take; 0: any; {VARIABLE} wins")
    group.addoption("--must-run", metavar="REASON", help="fail if a test was skipped for a reason that matches")


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # workers have no budget of their own
        config.pluginmanager.register(Budget(config), "budget of the session")


class Budget:
    """Measures the session in the process that the user started, from its configuration to its end."""

    def __init__(self, config):
        self.start, self.end, self.skipped = time.monotonic(), None, []
        self.asked = config.getoption("budget_s")
        self.limit = self.asked
        if text := os.environ.get(VARIABLE):
            try:
                self.limit = float(text)
            except ValueError:
                raise pytest.UsageError(f"{VARIABLE}: found {text!r}, expected seconds; 0 lifts the limit") from None
        self.must_run = config.getoption("must_run")

    def pytest_report_header(self):
        return self._describe() if self.asked or self.limit else None

    def pytest_runtest_logreport(self, report):
        if self.must_run and report.skipped and re.search(self.must_run, str(report.longrepr)):
            self.skipped.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        self.end = time.monotonic()
        if session.exitstatus == pytest.ExitCode.OK and (self._is_over() or self.skipped):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.asked or self.limit:
            words = f"{self.end - self.start:.0f} s, {self._describe()}"
            terminalreporter.write_line(f"FAILED {words}: too slow" if self._is_over() else words, red=self._is_over())
        for test in self.skipped:
            terminalreporter.write_line(f"FAILED {test}: skipped, --must-run={self.must_run}", red=True)

    def _is_over(self):
        return 0 < self.limit < self.end - self.start

    def _describe(self):
        limit = f"{self.limit:g} s" if self.limit else "none"
        return f"budget {limit}" + (f" ({VARIABLE}, not {self.asked:g} s)" if self.limit != self.asked else "")
