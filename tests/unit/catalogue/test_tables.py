"""The catalogue of tables: each column is declared once, and written tables match their declaration."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from library_copy import copy_library

from hpcai.catalogue.tables import all_shown, columns_of, common_columns, definitions, kind_of, tables
from hpcai.core.errors import TableError
from hpcai.metrics.run_tables import write_tables
from hpcai.profiles.views import VIEWS
from hpcai.report.cells import POINT, RAW

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"
GUIDE = ROOT / "docs/how-to/add_a_table.md"
COLUMNS = [(name, column) for name, one in tables().items() for column in one.columns]
UNITS = {
    "_samples_per_s": {"samples/s"}, "_flop_per_s": {"FLOP/s"}, "_bytes_per_s": {"B/s"}, "_bit_per_s": {"bit/s"},
    "_bytes": {"bytes"}, "_flop_per_byte": {"FLOP/B"}, "flop_per_j": {"FLOP/J"}, "_flop": {"FLOP"},
    "_ratio": {"ratio", "share"}, "_w": {"W"}, "_j": {"J"}, "_rate_per_s": {"1/s"}, "_s": {"s"},
    "_samples": {"samples", ""},
}  # fmt: skip
MOST_NAMES = 7
"""A longer list of columns outside of the catalogue is a second declaration of a table."""
SELECTIONS = {
    "compare/changes.py": {"IN_RECORD": "facts that the records tell in more detail than tables"},
    "compare/study.py": {"NEEDED": "what a comparison cannot do without"},
    "metrics/profiles/io.py": {"WORKER_COLUMNS": "with the job of the tool, which no written table has"},
    "listing/data_files.py": {"QUANTITIES": "columns of entries.csv, whose rows are entries of a list"},
    "listing/content.py": {"SCORES": "numbers of an entry, which are those of a score alone"},
    "mlperf_hpc/analysis/study_runs.py": {"_TEXTS": "columns of the runs that published rounds leave blank"},
    "metrics/roofline/geometry.py": {"LINE_COLUMNS": "lines of a drawing, never written"},
    "metrics/scores/columns.py": {"OF_THE_RUN": "what a score takes over from its run"},
    "metrics/scores/result_scores.py": {
        "_NUMBERS": "means of the kept trials", "_SHARED": "equal in all trials", "_PER_MACHINE": "keys of a group",
    },
    "metrics/scores/variant_effects.py": {"SURROUNDINGS": "what has to be the same on both sides"},
    "mlperf_hpc/analysis/result_quantities.py": {"_IDENTITY": "equal in all logs of a result"},
    "predict/training/sweeps.py": {"TIME_COLUMNS": "attributes of a modelled step"},
}  # fmt: skip
SHOW = """
import sys
from pathlib import Path
import pandas as pd
from hpcai.catalogue.tables import columns_of
from hpcai.metrics.run_tables import write_tables
from hpcai.report.definitions import shown_definitions
from hpcai.report.sections import SECTIONS
names = columns_of("staging_shares")
print(*names)
io = next(section for section in SECTIONS if section.anchor == "io")
print([part.title for part in io.parts].index("Shares of staging"))
print(shown_definitions().find("staging_shares", "hidden_ratio")[1].unit)
write_tables({"staging_shares": pd.DataFrame(columns=list(names))}, Path(sys.argv[1]))
"""


def run(code: str, library: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, str(library / "out")],
        env={"PYTHONPATH": str(library)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def added(library: Path) -> Iterator[Path]:
    """A file of declarations that each test writes and none leaves behind."""
    file = library / "hpcai/catalogue/tables/staging.yaml"
    yield file
    file.unlink()


@pytest.fixture
def example() -> str:
    """The file that the guide shows."""
    return GUIDE.read_text().partition("```yaml\n")[2].partition("```")[0]


def test_a_table_is_added_by_one_declaration(library: Path, added: Path, example: str) -> None:
    added.write_text(example)
    done = run(SHOW, library)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "benchmark variant scale ranks staging_ratio hidden_ratio source"
    assert done.stdout.split("\n")[2] == "share"
    assert (library / "out/staging_shares.parquet").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  own:", "  own: {}\n  own:", "'own' twice"),
        ("      title: hidden", "      heading_of: hidden", "staging_shares: hidden_ratio"),
        ("  rows:", "  colour: red\n  rows:", "colour"),
        ("unit: share", "unit: share\n      type: colour", "expected one of number"),
        ("staging_shares:", "scores:", "another file"),
        ("    title: Shares", "    order: {hidden_ratio: last}\n    title: Shares", "'last'"),
        ("    hidden_ratio:\n", "    source: nobody\n    hidden_ratio:\n", "'nobody'"),
    ],
)
def test_a_wrong_declaration_is_refused(
    library: Path, added: Path, example: str, old: str, new: str, words: str
) -> None:
    assert old in example
    added.write_text(example.replace(old, new, 1))
    done = run("from hpcai.catalogue.tables import definitions; definitions()", library)
    assert done.returncode != 0
    assert words in done.stderr


def test_unknown_table_is_named() -> None:
    with pytest.raises(LookupError, match="no table 'nobodys'"):
        columns_of("nobodys")


def test_every_column_is_defined_and_every_definition_has_a_column() -> None:
    known = definitions()
    found = {known.find(*one)[0] for one in [*COLUMNS, *all_shown()]}
    assert set(known.entries) == found
    used = {name for table, column in [*COLUMNS, *all_shown()] for name in (column, f"{table}.{column}")}
    beside = {
        name
        for one in tables().values()
        for shown in one.shown
        for column in shown.columns
        for name in (column.low, column.high)
    }
    assert {name for entry in known.entries.values() for name in entry.covers} <= used | beside


@pytest.mark.parametrize("name", tables())
def test_columns_stand_once_and_say_what_they_are(name: str) -> None:
    columns = columns_of(name)
    assert len(set(columns)) == len(columns)
    assert tables()[name].rows.endswith(".")
    for column in columns:
        assert definitions().find(name, column)[1].definition.endswith(".")


@pytest.mark.parametrize("name", tables())
def test_unit_is_the_one_that_the_name_ends_with(name: str) -> None:
    for column in columns_of(name):
        entry = definitions().find(name, column)[1]
        units = next((units for end, units in UNITS.items() if column.endswith(end)), None)
        if units:
            assert entry.unit in units, column
        if entry.unit:
            assert kind_of(name, column) in ("number", "count"), column


def test_what_is_shown_is_a_column_of_its_table() -> None:
    for name, one in tables().items():
        for shown in one.shown:
            if shown.group or not one.file:
                continue  # rows that the page makes
            assert not shown.order[0] or kind_of(name, shown.order[0]) in ("number", "count"), name
            assert {shown.order[0]} - {""} <= set(one.columns), name
            assert {column.key for column in shown.columns} - {POINT, RAW} <= set(one.columns), name


def declared_in_rules() -> set[str]:
    """Names of tables that the rules of the workflow write."""
    found: set[str] = set()
    for file in ("tables.smk", "published.smk"):
        for node in ast.walk(ast.parse((ROOT / "workflow/rules" / file).read_text())) if file == "tables.smk" else ():
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").endswith("_TABLES"):
                found |= {one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
    return {str(name) for name in found}


def test_every_table_of_the_workflow_is_declared_and_the_other_way_round() -> None:
    rules = declared_in_rules() - {
        *("predict_published", "fit_kernels", "validate_hpl", "predict_study", "judge_steps", "sum_blocks"),
        "predict_scales",
    }
    written = rules | set(VIEWS)
    declared = {name for name, one in tables().items() if one.file and not name.startswith("mlperf_")}
    assert written - set(tables()) == set()
    # Written by commands, or beside what they are made from.
    others = {"comparison_points", "regression_points", "regression_scores", "reference_epochs", "kernel_times"}
    others |= {"gpu_ceilings", "gpu_kernels", "gpu_steps", "acceptance"}
    assert declared - written == others


def test_a_table_with_other_columns_is_not_written(tmp_path: Path) -> None:
    advice = pd.DataFrame([dict.fromkeys(columns_of("advice"), "")])
    for wrong in (advice.assign(new_s=1.0), advice.drop(columns="topic"), advice[[*advice.columns[::-1]]]):
        with pytest.raises(TableError, match="table advice: "):
            write_tables({"advice": wrong}, tmp_path)
    assert not list(tmp_path.iterdir())
    write_tables({"advice": advice}, tmp_path)
    assert (tmp_path / "advice.csv").exists()
    write_tables({"scales": pd.DataFrame(columns=["benchmark"])}, tmp_path)
    assert tuple(pd.read_parquet(tmp_path / "scales.parquet")) == columns_of("scales")


def test_columns_by_what_they_hold_and_in_common() -> None:
    assert columns_of("comparison", "truth") == ("beyond_range", "identical")
    assert common_columns("roofline_points", "roofline_moves", "note", "source")[:2] == ("origin", "machine")


def long_lists(file: Path) -> Iterator[tuple[str, int]]:
    """Lists of more columns than a key has, with the name that each is given."""
    known = {column for _, column in COLUMNS}
    tree = ast.parse(file.read_text())
    names = {
        id(inner): getattr(one.targets[0] if isinstance(one, ast.Assign) else one.target, "id", "")
        for one in ast.walk(tree)
        if isinstance(one, ast.Assign | ast.AnnAssign) and one.value
        for inner in ast.walk(one.value)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            texts = [one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if len(texts) > MOST_NAMES and sum(text in known for text in texts) > 0.8 * len(texts):
                yield names.get(id(node), ""), node.lineno


def test_no_table_is_declared_a_second_time() -> None:
    package = SOURCE / "hpcai"
    unused = {(file, name) for file, names in SELECTIONS.items() for name in names}
    for file in sorted(package.rglob("*.py")):
        place = str(file.relative_to(package))
        if place.startswith("parsers/"):
            continue  # tables of tools, which are those of their own output
        for name, line in long_lists(file):
            assert name in SELECTIONS.get(place, {}), f"{place}, line {line}: use columns_of, or say why it is no table"
            unused.discard((place, name))
    assert not unused


def test_programs_start_without_the_catalogue() -> None:
    code = "import sys, hpcai.__main__; print([name for name in sys.modules if name.startswith('hpcai.catalogue')])"
    done = run(code, SOURCE)
    assert done.stdout == "[]\n", done.stderr
