"""Create the files of a new study from templates; contents of the workflow's own files are not repeated here."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hpcai.config.plans import Campaign
from hpcai.config.study import configuration_folder
from hpcai.launchers.registry import LAUNCHERS, default_launcher
from hpcai.setup.site import ProfileValues, Site, Value

GAP = "GAP"
MACHINE_RULES = (
    *("measure_ceiling", "measure_storage", "measure_allreduce"),
    *("measure_kernels", "measure_blocks", "measure_reference_steps", "build_hpl", "run_hpl"),
)
"""Rules that use `MACHINE_LIMIT_S` of workflow/rules/resources.smk."""
_GAP = re.compile(rf"#\s*{GAP} (?P<key>[\w.]+): (?P<what>.*)")
COLUMNS = ("benchmark", "variant", "nodes", "ranks_per_node", "repeats", "precision", "compression", "global_batch")


def study_files(site: Site, name: str, checkout: Path) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file of a study.

    Parameters
    ----------
    site
        The machine's known values.
    name
        Name of the study.
    checkout
        The folder that holds workflow, configuration and profiles of HPC-AI Bench.
    """
    benchmarks = yaml.safe_load((checkout / "config/study.yaml").read_text())["benchmarks"]
    facts = {"machine": site.machine, "date": date.today().isoformat(), "asked": site.asked}
    facts |= {
        "benchmarks": benchmarks,
        "name": name,
        "study": site.study,
        "title": f"First study: {site.machine.title}",
    }
    page = _environment()
    yield "Snakefile", page.get_template("Snakefile.j2").render(snakefile=str(checkout / "workflow/Snakefile"))
    yield "config/study.yaml", page.get_template("study.yaml.j2").render(facts)
    yield f"config/machines/{site.machine.name}.yaml", page.get_template("machine.yaml.j2").render(facts)
    yield "config/runs/scales.tsv", _run_table(site, benchmarks, checkout)
    yield "config/schema.json", (checkout / "config/schema.json").read_text()
    for file in sorted((checkout / "config/benchmarks").glob("*.yaml")):
        yield f"config/benchmarks/{file.name}", file.read_text()
    yield "profiles/default/config.yaml", (checkout / "profiles/default/config.yaml").read_text()
    if site.profile is not None:
        whole = (checkout / "profiles/slurm/config.yaml").read_text()
        parts = _parts_of_profile(whole, site.profile)
        facts |= parts | {"profile": site.profile, "machine_rules": MACHINE_RULES}
        facts |= {"launcher": default_launcher(), "launchers": LAUNCHERS}
        yield "profiles/slurm/config.yaml", page.get_template("profile.yaml.j2").render(facts)


def open_gaps(files: Sequence[Path]) -> list[str]:
    """Return one line per open gap in the files: file, line, key, and what to look up."""
    found = []
    for file in files:
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), start=1):
            if match := _GAP.search(line):
                found.append(f"{file}:{number}: open: {match['key']}: {match['what']}")
    return found


def machine_file(campaign: Campaign, study: Path) -> Path:
    """Return the machine file with which a study was checked.

    Parameters
    ----------
    campaign, study
        The checked study, and its file.
    """
    folder = configuration_folder(study, campaign.study.config_dir)
    return folder / "machines" / f"{campaign.machine.name}.yaml"


def _run_table(site: Site, benchmarks: Sequence[str], checkout: Path) -> str:
    machine = site.machine
    nodes, ranks = int(machine.nodes.value or 1), int(machine.ranks_per_node.value or 1)
    points = dict.fromkeys([(1, 1), (1, ranks), (min(2, nodes), ranks)])
    lines = [
        "# One row = one point of the study, measured `repeats` times, on nodes x ranks_per_node ranks. A blank",
        "# global_batch means the benchmark file's, a multiple of the ranks. All columns: schema.json, RunRow.",
        "\t".join(COLUMNS),
    ]
    for benchmark in benchmarks:
        recipe = yaml.safe_load((checkout / f"config/benchmarks/{benchmark}.yaml").read_text())["recipe"]
        for used, per_node in points:
            if recipe["global_batch"] % (used * per_node) == 0:
                lines.append("\t".join([benchmark, "fp32", str(used), str(per_node), "2", "fp32", "none", ""]))
    return "\n".join(lines) + "\n"


def _parts_of_profile(whole: str, profile: ProfileValues) -> dict[str, str]:
    """Return the text before and after the resources in the Slurm profile, with this site's values."""
    head, _, rest = whole.partition("default-resources:\n")
    _, mark, tail = rest.partition("set-threads:\n")
    kept = [line for line in head.splitlines() if not line.startswith("#")]
    own = {"jobs": profile.jobs, "slurm-status-command": profile.status_command}
    lines = [_line(own[key], key) if (key := line.partition(":")[0]) in own else line for line in kept]
    return {"head": "\n".join(lines), "tail": f"{mark}{tail}".rstrip()}


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,  # noqa: S701  YAML for people, no page
    )  # fmt: skip
    environment.filters.update(line=_line, link=_link, comment=_comment, quoted=_quoted)
    return environment


def _line(value: Value, key: str, indent: int = 0) -> str:
    """Return a line of YAML with its source, and another one for the gap."""
    lines = []
    if value.value is not None:
        text = str(value.value) if isinstance(value.value, int) else _quoted(value.value)
        lines.append(f"{key}: {text}" + (f"  # {_comment(value.source)}" if value.source else ""))
    elif value.source and not value.gap:
        lines.append(f"# {key}: none; {_comment(value.source)}")
    if value.gap:
        lines.append(f"# {GAP} {key}: {_comment(value.gap)}")
    return "\n".join(" " * indent + line for line in lines) or " " * indent + f"# {key}: none"


def _link(value: Value) -> str:
    return f"    bandwidth_bytes_per_s: {_quoted(value.value)}\n    source: {_quoted(_comment(value.source))}"


def _comment(text: str) -> str:
    """Return any text as a one-line comment."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())[:400]


def _quoted(value: object) -> str:
    """Quote a text so that YAML, Python and JSON read it alike."""
    return json.dumps(_comment(str(value)), ensure_ascii=False)
