"""A run is not measured without the modules of its machine file."""

import pytest
from unit.refusals import refused

from hpcai.core.errors import LaunchError
from hpcai.measure.container import LOADED, NOT_LOADED, require_modules

JOB = {LOADED: "gcc/12.2.0:openmpi/4.1.6"}


@pytest.mark.parametrize("modules", [(), ("gcc/12.2.0",), ("openmpi", "gcc"), ("openmpi/4.1.6", "gcc/12.2.0")])
def test_loaded(modules):
    require_modules(modules, JOB)


def test_without_modules_nothing_is_asked():
    require_modules((), {})


@pytest.mark.parametrize("modules", [("openmpi/4.1.5",), ("open",), ("gcc/12.2.0", "cuda/12.5")])
def test_not_loaded(modules):
    with refused(LaunchError, NOT_LOADED, missing=modules[-1], loaded="gcc/12.2.0, openmpi/4.1.6"):
        require_modules(modules, JOB)


def test_no_module_command_at_all():
    with refused(LaunchError, NOT_LOADED, missing="gcc, openmpi", loaded="none"):
        require_modules(("gcc", "openmpi"), {})
