"""Missing packages of an extra give one sentence, which names the extra that installs them."""

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from hpcai.core import extras
from hpcai.core.errors import MissingExtraError
from hpcai.core.extras import EXTRA_OF, extras_named, require
from hpcai.workloads.registry import load_part


def names_of(needs):
    return {re.sub(r"[-_.]+", "-", Requirement(need).name).lower() for need in needs}


@pytest.mark.parametrize("module", EXTRA_OF)
def test_the_extra_brings_the_module_and_nothing_else_does(module):
    needs = [Requirement(need) for need in metadata.requires("hpcai")]
    brings = names_of(metadata.packages_distributions()[module])
    for need in needs:
        if names_of([need.name]) & brings:
            assert f'extra == "{EXTRA_OF[module]}"' in str(need.marker)
            return
    pytest.fail(f"no need of pyproject.toml brings {module}")


def test_what_is_missing_is_named(monkeypatch):
    require(*EXTRA_OF)
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "horovod" else object())
    with pytest.raises(MissingExtraError, match=r"^horovod: .*`train`.*'\.\[train\]'"):
        require("tensorflow", "horovod")


def test_other_modules_that_are_missing_are_errors_of_ours():
    with pytest.raises(MissingExtraError, match=r"^h5py: "), extras_named():
        raise ModuleNotFoundError("No module named 'h5py.h5'", name="h5py.h5")
    with pytest.raises(ModuleNotFoundError, match="typo"), extras_named():
        raise ModuleNotFoundError("No module named 'typo'", name="typo")


def test_a_part_of_a_benchmark_names_the_extra_that_it_needs(monkeypatch):
    def refuse(name):
        raise ModuleNotFoundError(f"{name} needs lmdb", name="lmdb")

    monkeypatch.setattr("hpcai.workloads.registry.import_module", refuse)
    with pytest.raises(MissingExtraError, match="`data`"):
        load_part("hpcai.workloads.*.data", "opencatalyst")
