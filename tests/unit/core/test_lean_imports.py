"""Modules that are left out are unavailable inside the block and can be imported after it."""

import gc
import importlib
import json
import subprocess
import sys

import pytest

from hpcai.core.lean_imports import NEEDLESS, without
from hpcai.training import __main__ as rank


def test_a_module_is_unavailable_inside_the_block(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with without("colorsys"), pytest.raises(ImportError):
        importlib.import_module("colorsys")
    assert importlib.import_module("colorsys").rgb_to_hls(0, 0, 0) == (0, 0, 0)


def test_loaded_modules_stay_and_an_error_restores_the_rest(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with pytest.raises(ImportError), without("json", "colorsys"):
        importlib.import_module("colorsys")
    assert "colorsys" not in sys.modules
    assert sys.modules["json"] is json


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_looked_for_outside_the_block_alone_if_it_was_before(monkeypatch, enabled):
    monkeypatch.setattr(gc, "isenabled", lambda: enabled)
    called = []
    for name in ("disable", "enable", "freeze"):
        monkeypatch.setattr(gc, name, lambda name=name: called.append(name))
    with without("colorsys"):
        assert called == ["disable"]
    assert called == ["disable", *(["freeze", "enable"] if enabled else [])]


@pytest.mark.parametrize(("engine", "imported"), [("horovod", set()), ("jax", {"jax", "scipy.sparse"})])
def test_a_rank_leaves_out_what_its_engine_does_not_need(monkeypatch, engine, imported):
    for name in NEEDLESS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    absent = set()

    def look(_):
        absent.update(name for name in NEEDLESS if sys.modules.get(name, "not yet") is None)

    monkeypatch.setattr(rank.importlib, "import_module", look)
    rank._import_tensorflow(engine)
    assert absent == set(NEEDLESS) - imported


@pytest.mark.parametrize("module", ["hpcai.training.__main__", "hpcai.measure.supervise", "hpcai.measure.weak"])
def test_what_each_run_starts_with_loads_no_pandas(module):
    """It takes as long as all else that these import."""
    code = f"import sys, {module}; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
