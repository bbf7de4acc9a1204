"""Kinds of profiles are discovered; no code outside a kind's module depends on its name."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import ValidationError
from unit.record_factory import make_plan
from unit.toy_parts import library_with
from unit.workloads.toy_library import call_python

from hpcai.campaign.library_digest import import_closure
from hpcai.catalogue.profiles import PROFILES, ProfileFacts
from hpcai.profiles.instrument import Instrument, Missing
from hpcai.profiles.kind import find_instrument, kind_of
from hpcai.profiles.views import RUN, VIEWS

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "src/hpcai"
SHOW = """
from hpcai.catalogue.profiles import PROFILES
from hpcai.profiles.views import VIEWS
print(*PROFILES)
print(*VIEWS["node_time"])
"""
KNOWN = ("timeline", "kernels", "counters", "io", "power")
"""In the order of tables."""
TABLES = ("catalogue", "compare", "metrics", "plots", "predict", "report")
"""Packages that read tables, which share names with kinds."""
OF_TABLES = {
    "profiles/characterisation_table.py": "joins tables of several kinds",
    "profiles/collect.py": "joins tables of several kinds",
    "profiles/roofs_view.py": "compares the tables of several kinds",
    "profiles/view_names.py": "names of tables",
    "profiles/work_view.py": "joins counted work with the table of counters",
    "cli/predict_replay.py": "replays this kind alone",
    "measure/gpu.py": "samples power with the meters of this kind",
    "machine/overview.py": "the table of power",
    "listing/own.py": "the table of power",
    "config/runs.py": "the machine's declared power is left out of a plan's digest",
    "mlperf_hpc/compliance/package.py": "the folder of power files of a package",
    "mlperf_hpc/rounds/tree.py": "the folder of power files of a package",
    "parsers/darshan/child.py": "a field of pydarshan",
    "parsers/nsight/compute.py": "a count of what was read",
    "parsers/nsight/systems_reports.py": "reports of Nsight Systems",
}
"""Files in which the word does not mean a kind."""


def test_the_kinds_are_found_in_the_order_of_tables() -> None:
    assert tuple(PROFILES) == KNOWN


@pytest.mark.parametrize("name", KNOWN)
def test_facts_that_are_read_as_text_are_those_of_the_module(name: str) -> None:
    kind, facts = kind_of(name), PROFILES[name]
    assert {one.name: getattr(kind, one.name) for one in fields(ProfileFacts)} == {
        one.name: getattr(facts, one.name) for one in fields(ProfileFacts)
    }
    assert bool(facts.also) == (kind.gather is not None)
    assert facts.also in {"", *PROFILES}
    assert set(facts.views) <= set(VIEWS)
    plan = make_plan(kind="profiled", profile=name, max_steps=4)
    assert isinstance(find_instrument(plan), Instrument | Missing)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValidationError, match="expected one of timeline, kernels"):
        make_plan(kind="profiled", profile="magic", max_steps=4)


def test_a_kind_is_added_by_one_file(tmp_path: Path) -> None:
    library = library_with(tmp_path, "toy_profile.py", "profiles/toy.py")
    kinds, columns = call_python(library, "-c", SHOW).splitlines()
    assert kinds.split() == [*KNOWN, "toy"]
    assert columns.split() == [*RUN, "user_s", "system_s"]


def test_an_expression_in_the_facts_is_refused(tmp_path: Path) -> None:
    module = library_with(tmp_path, "toy_profile.py", "profiles/toy.py") / "hpcai/profiles/toy.py"
    module.write_text(module.read_text().replace('tables=("node_time",)', "tables=TABLES"))
    with pytest.raises(AssertionError, match=r"toy\.py, line \d+: found a PROFILE"):
        call_python(tmp_path / "src", "-c", SHOW)


def test_digests_follow_kinds() -> None:
    closure = import_closure(ROOT / "workflow/scripts/read_profiles.py", ROOT / "src")
    assert {LIBRARY / f"profiles/{name}/views.py" for name in KNOWN} <= closure


def test_no_analysis_is_loaded_where_a_tool_is_looked_for() -> None:
    """Supervisors of profiled runs start on every node of a campaign, and pandas takes longer to load than all else."""
    modules = ", ".join(f"hpcai.profiles.{name}" for name in KNOWN)
    loaded = call_python(ROOT / "src", "-c", f"import sys, hpcai.measure.capture, {modules}\nprint(*sys.modules)")
    assert not {"pandas", "tensorflow"} & set(loaded.split())


def texts(tree: ast.AST) -> set[str]:
    """Return the texts of code, and the modules that it imports."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)} | {
        str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hpcai.")
    }


def test_no_module_names_a_kind() -> None:
    """Tables and kinds share names, so packages that only read tables are excluded."""
    files = [*LIBRARY.rglob("*.py"), *(ROOT / "workflow/scripts").glob("*.py")]
    own = {file for name in KNOWN for file in (LIBRARY / "profiles" / name).glob("*.py")}
    tables = {LIBRARY / name for name in TABLES}
    others = [file for file in files if file not in own and not tables.intersection(file.parents)]
    assert len(others) > 300
    named = re.compile(rf"(hpcai\.profiles\.)?({'|'.join(KNOWN)})|hpcai\.profiles\.({'|'.join(KNOWN)})\..*")
    found = {file for file in others if any(map(named.fullmatch, texts(ast.parse(file.read_text()))))}
    assert {str(file.relative_to(LIBRARY)) for file in found} == set(OF_TABLES)


def test_no_rule_of_the_workflow_names_one() -> None:
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    places = ("/{}/", 'captures_of("{}")', "read_{}", 'profile="{}"')
    assert [name for name in KNOWN if any(place.format(name) in rules for place in places)] == []
