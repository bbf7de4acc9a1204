"""README and documentation: short, linked, and true of the commands, files and functions that they name."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = DOCS / "reference/generated"
SITE_BUILDER = ROOT / ".venv-docs/bin/sphinx-build"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "config/README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if not {GENERATED, DOCS / "_build"} & set(page.parents)),
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
ROOTS = ("src/", "config/", "tests/", "workflow/", "profiles/", "envs/", "reports/", "bench/", "docs/")
"""Code spans that begin so are files of the project."""

SUFFIXES = ("csv", "json", "md", "py", "tsv", "yaml")
"""Code spans with a dot that end so are files, not settings."""

READ_ONLY = ("rules", "schema", "check", "estimate", "predict")
"""Commands whose examples are run: they write nothing."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture(scope="module")
def reference() -> Path:
    """The generated pages, made anew as `make docs` does."""
    subprocess.run([sys.executable, DOCS / "generate.py"], check=True)
    return GENERATED


@pytest.fixture(scope="module")
def helps(reference: Path) -> dict[str, str]:
    """The help of every command, from the generated page."""
    sections = (reference / "commands.md").read_text().split("\n## hpcai ")[1:]
    return {section.partition("\n")[0]: section for section in sections}


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def shell_lines(page: Path) -> list[str]:
    """Lines of all shell blocks, without comments; a line that ends with a backslash goes on in the next one."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [line.partition(" #")[0] for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def code_spans(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(page))


def anchors_of(text: str) -> set[str]:
    """Anchors of all headings, as GitHub and MyST name them."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_readme_is_one_page():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_readme_begins_with_the_two_commands():
    assert [line.strip() for line in shell_lines(ROOT / "README.md")[:2]] == ["make run", "make test"]


@pages
@pytest.mark.usefixtures("reference")
def test_links_lead_somewhere(page: Path):
    for link in ("".join(pair) for pair in LINK.findall(prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.relative_to(ROOT)}: {link}"
        if anchor:
            assert anchor in anchors_of(target.read_text()), f"{page.relative_to(ROOT)}: {link}"


@pages
def test_hpcai_commands_and_their_options_exist(page: Path, helps: dict[str, str]):
    for line in [*shell_lines(page), *code_spans(page)]:
        words = line.split()
        if words[:1] != ["hpcai"] or not re.fullmatch("[a-z-]+", "".join(words[1:2])) or words[1].startswith("-"):
            continue
        groups = {name.split()[0] for name in helps if " " in name}
        name = " ".join(words[1:3] if words[1] in groups else words[1:2])
        assert name in helps, f"{page.relative_to(ROOT)}: {line}"
        if name != "run":  # its options are Snakemake's
            options = set(re.findall(r"--[a-z-]+", line)) - {"--help"}
            assert options <= set(re.findall(r"--[a-z-]+", helps[name])), f"{page.relative_to(ROOT)}: {line}"


def lines_to_try() -> list[str]:
    """Shell lines of all pages that change nothing and name only files that the checkout has."""
    lines = sorted({line.strip() for page in PAGES for line in shell_lines(page)})
    asked = [line for line in lines if line.startswith(tuple(f"hpcai {name}" for name in READ_ONLY))]
    # A profile asks Slurm; an ellipsis stands for words of the reader.
    whole = [line for line in asked if "…" not in line and "--profile" not in line]
    # Of the user's own files and folders, `results` has no slash, files have a suffix, and several a pattern.
    own = r"\S*/\S*|results|[\w-]+\.[a-z]+|\S*\*\S*"
    files = {line: [word for word in shlex.split(line) if re.fullmatch(own, word)]
             for line in whole}  # fmt: skip
    return [line for line, named in files.items() if all((ROOT / word).exists() for word in named)]


@pytest.mark.parametrize("line", lines_to_try())
def test_examples_that_change_nothing_run(line: str):
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(line)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_enough_examples_are_tried():
    assert {line.split()[1] for line in lines_to_try()} >= {"rules", "predict"}


@pages
def test_make_targets_exist(page: Path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in [*shell_lines(page), *code_spans(page)]:
        words = [word for word in line.split() if "=" not in word]
        if len(words) > 1 and words[0] == "make":
            assert words[1] in targets, line


@pages
def test_targets_of_the_workflow_exist(page: Path):
    texts = [file.read_text() for file in (ROOT / "workflow").rglob("*.smk")]
    rules = {name for text in texts for name in re.findall(r"^\s*(?:rule|checkpoint) (\w+):", text, re.MULTILINE)}
    for line in [*shell_lines(page), *code_spans(page)]:
        if target := re.match(r"(?:snakemake|hpcai run) ([a-z_]+)(?: |$)", line):
            assert target[1] in rules, f"{page.relative_to(ROOT)}: {line}"


@pages
def test_benchmarks_of_our_speed_exist(page: Path):
    for name in re.findall(r"\bbench_\w+", page.read_text()):
        assert (ROOT / f"bench/{name}.py").exists(), f"{page.relative_to(ROOT)}: {name}"


def is_setting(words: Sequence[str], models: Iterable[str], definitions: Mapping[str, Any]) -> bool:
    """Tell whether one of the models has the first word as a key, whose own models have the next, and so on."""
    for model in models:
        key = definitions[model].get("properties", {}).get(words[0])
        owners = re.findall(r'"#/\$defs/(\w+)"', json.dumps(key))
        if key is not None and (len(words) == 1 or is_setting(words[1:], owners, definitions)):
            return True
    return False


@pages
def test_settings_that_code_spans_name_exist(page: Path):
    definitions = json.loads((ROOT / "config/schema.json").read_text())["$defs"]
    sections = {key for model in definitions.values() for key, what in model.get("properties", {}).items()
                if "#/$defs/" in json.dumps(what)}  # fmt: skip
    for span in code_spans(page):
        words = span.split(".")
        if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", span) and words[0] in sections and words[-1] not in SUFFIXES:
            assert is_setting(words, definitions, definitions), f"{page.relative_to(ROOT)}: {span}"


@pages
def test_files_that_code_spans_name_exist(page: Path):
    for span in code_spans(page):
        if span.startswith(ROOTS) and re.fullmatch(r"[\w./-]+", span) and not re.search(r"[A-Z]{2}", span):
            is_generated = (ROOT / span).is_relative_to(GENERATED) or span.startswith("docs/_build")
            assert is_generated or (ROOT / span).exists(), f"{page.relative_to(ROOT)}: {span}"


def test_formulas_are_implemented_where_the_page_says():
    named = re.findall(r"`(hpcai(?:\.\w+)+)`", (DOCS / "explanation/formulas.md").read_text())
    assert len(named) > 30
    for name in named:
        module, _, function = name.rpartition(".")
        file = ROOT / "src" / f"{module.replace('.', '/')}.py"
        assert file.is_file(), name
        assert function in {getattr(node, "name", "") for node in ast.parse(file.read_text()).body}, name


def test_reference_holds_what_the_code_declares(reference: Path, helps: dict[str, str]):
    texts = {page.stem: page.read_text() for page in reference.glob("*.md")}
    for name, model in json.loads((ROOT / "config/schema.json").read_text())["$defs"].items():
        section = texts["configuration"].partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert all(f"| `{key}` |" in section for key in model.get("properties", {})), name
    for suite in ("hpc_ai500", "mlperf_hpc"):
        rules = yaml.safe_load((ROOT / f"src/hpcai/rules/{suite}.yaml").read_text())["rules"]
        assert all(f"| `{rule['id']}` |" in texts["rules"] for rule in rules)
    assert "| `vflops_flop_per_s` | number | FLOP/s |" in texts["tables"]
    listed = subprocess.run(
        [sys.executable, "-m", "hpcai", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert {name.split()[0] for name in helps} == set(re.findall(r"^  ([a-z][a-z-]*)  ", listed, re.MULTILINE))
    assert {"mlperf submit", "predict hpl", "predict training", "run"} <= helps.keys()
    packages = {file.parent.name for file in (ROOT / "src/hpcai").glob("*/__init__.py")}
    assert {f"api-{package}" for package in packages} <= texts.keys()


@pytest.mark.skipif(not SITE_BUILDER.exists(), reason="the documentation's tools are not installed: make docs")
@pytest.mark.usefixtures("reference")
def test_site_builds_without_a_warning(tmp_path: Path):
    command = [SITE_BUILDER, "-q", "-W", "-d", tmp_path / "trees", "-b", "html", DOCS, tmp_path / "html"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONWARNINGS": ""}
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html/reference/generated/configuration.html").exists()
