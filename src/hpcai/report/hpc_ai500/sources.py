"""Part 4 of the report document: source code, documents, and scripts that repeat everything."""

import shlex
from collections.abc import Iterator, Sequence

import pandas as pd
import yaml

from hpcai.config.base import Settings
from hpcai.config.runs import RunRow
from hpcai.launchers.registry import launcher_of
from hpcai.records.commands import shown_command
from hpcai.records.run import RunRecord
from hpcai.report.hpc_ai500.evidence import ENCLOSURES, Evidence
from hpcai.report.hpc_ai500.model import Item, Part, missing, not_applicable, present

SOURCE = "source/source.json"
CODE = "source code"
DOCUMENTS = "documents"
SCRIPTS = "run scripts"
UPLOAD = "upload to BenchHub, where the committee checks that the result can be replicated"


def describe_sources(evidence: Evidence) -> Part:
    """Return part 4: how to obtain and run the same program."""
    return Part(
        title="Source code, documents and run scripts",
        rule="Source code, documents and run scripts, uploaded to BenchHub; the committee then checks replicability.",
        section="HPC AI500 V2.0, 6.3.3 (4)",
        items=(
            *_code(evidence.records),
            *_data(evidence.records),
            *_enclosures(evidence),
            *_scripts(evidence),
        ),
    )


def _code(records: Sequence[RunRecord]) -> Iterator[Item]:
    commits = sorted({record.provenance.commit or "unknown" for record in records})
    dirty = [record for record in records if record.provenance.dirty is not False]
    again = "commit all changes, measure the runs again (`hpcai discard`), and submit `git archive` of that commit"
    if commits == ["unknown"] or dirty:
        reason = (
            f"{len(dirty)} of {len(records)} runs were made by code that no commit holds "
            f"(commit {', '.join(commits)}; tracked files changed, or the checkout unknown)"
        )
        yield missing(CODE, "Source code", reason, again)
    else:
        yield present(
            CODE, "Source code", f"commit {', '.join(commits)}, without changes", method="collected", source=SOURCE,
            note=f"to submit with this folder: `git archive --output source.tar.gz {commits[0]}`",
        )  # fmt: skip
    locks = sorted({record.provenance.lock_sha256 or "" for record in records} - {""})
    name = "Versions of all packages"
    if locks:
        value = f"requirements.lock with SHA-256 {', '.join(locks)}"
        yield present(CODE, name, value, method="collected", source=SOURCE)
    else:
        yield missing(CODE, name, "no record holds the digest of a lock file", "run from a checkout, see the README")


def _data(records: Sequence[RunRecord]) -> Iterator[Item]:
    origins = sorted({record.data_source for record in records})
    digests = sorted({record.provenance.data_digest for record in records})
    value = f"{', '.join(origins)}; digest of the manifest {', '.join(digests)}"
    yield present(DOCUMENTS, "Dataset", value, method="collected", source=SOURCE)


def _enclosures(evidence: Evidence) -> Iterator[Item]:
    """Report whether the source files of numbers, besides the runs, are in the folder."""
    name, files = "Measurements behind the scores and links", [one.file for one in evidence.enclosures]
    lost = [f"{one.source} ({one.file.status})" for one in evidence.enclosures if not one.file.handed_in]
    if lost:
        reason = f"{len(files) - len(lost)} of {len(files)} files are here; not {', '.join(lost)}"
        action = "put the files back or characterise again (`snakemake characterise`); submit large ones separately"
        yield missing(DOCUMENTS, name, reason, action)
    elif files:
        yield present(
            DOCUMENTS, name, f"{len(files)} files", method="collected", source=f"{ENCLOSURES}/files.csv",
        )  # fmt: skip


def _scripts(evidence: Evidence) -> Iterator[Item]:
    documents = "README.md and report.html of this folder; the plan of every run"
    yield present(DOCUMENTS, "Documents", documents, method="collected", source="README.md")
    commands = [reproduction_command(record) for record in evidence.records]
    name, known = "Run scripts", [command for command in commands if command]
    if len(known) == len(commands):
        value = f"commands of {len(known)} runs"
        yield present(SCRIPTS, name, value, method="collected", source="source/commands.sh")
    else:
        reason = f"the records of {len(commands) - len(known)} of {len(commands)} runs hold no launcher or manifest"
        yield missing(SCRIPTS, name, reason, "measure them with `hpcai measure`")
    study = "Study file"
    if evidence.study:
        yield present(SCRIPTS, study, "source/config/study.yaml with all files that it names", method="declared",
                      source="source/config/study.yaml")  # fmt: skip
    else:
        yield missing(SCRIPTS, study, "the study's settings were not handed to the program", "run the whole workflow")
    yield not_applicable(
        UPLOAD, "Upload", "it happens after this folder is complete, so no file in it can show it",
        "upload this folder and the source code to BenchHub",
    )  # fmt: skip


def reproduction_command(record: RunRecord) -> str:
    """Return the command that repeats a run from its plan; blank if the record lacks the information."""
    launcher, manifest = launcher_of(record), _after(record.provenance.command, "--manifest")
    if not launcher or not manifest:
        return ""
    run, pack = record.run_id, _after(record.provenance.command, "--pack")
    words = ["hpcai", "measure", "--manifest", manifest, *(["--pack", pack] if pack else []), "--launcher", launcher]
    options = " ".join(shlex.quote(word) for word in words)
    return f'{options} --plan "$here"/plans/{shlex.quote(run)}.json --folder results/runs/{shlex.quote(run)}'


def _after(command: Sequence[str], flag: str) -> str:
    return command[command.index(flag) + 1] if flag in command[:-1] else ""


def commands_script(evidence: Evidence) -> str:
    """Return the shell script that repeats every run, with its original command as a comment."""
    lines = [
        "#!/bin/sh",
        "# Repeats every run of this document from its plan: same settings, same seed.",
        "# Start it in a checkout of the commit in source.json, after its environment was made and the data were",
        "# prepared (see README.md). A folder that holds the run already is left as it is.",
        "set -e",
        'here=$(cd "$(dirname "$0")" && pwd)',
        "",
    ]
    for record in evidence.records:
        lines += [f"# was started as: {shown_command(record)}"]
        lines += [reproduction_command(record) or f"# {record.run_id}: its record does not tell how to repeat it", ""]
    return "\n".join(lines)


def study_files(evidence: Evidence) -> dict[str, str]:
    """Return the files of a study that yields the same plans, by path below source/config/.

    The study file is left out if the study is unknown, because no record contains its seed.
    """
    plan = evidence.records[0].plan
    files = {
        f"benchmarks/{plan.benchmark.name}.yaml": _yaml(plan.benchmark),
        f"machines/{plan.machine.name}.yaml": _yaml(plan.machine),
        f"runs/{plan.benchmark.name}.tsv": _run_table(evidence),
    }
    if evidence.study:
        changes = {
            "benchmarks": (plan.benchmark.name,), "runs": plan.benchmark.name, "machine": plan.machine.name,
            # The folder must allow new measurements, even if its study was only analysed; it names no file outside.
            "measure": True, "config_dir": None, "published": (), "compare_with": (), "rank_with": (), "rounds": (),
        }  # fmt: skip
        files["study.yaml"] = _yaml(evidence.study.model_copy(update=changes))
    return files


def _yaml(settings: Settings) -> str:
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _run_table(evidence: Evidence) -> str:
    rows: dict[tuple[str, str], RunRow] = {}
    for record in evidence.records:
        point = record.plan.point
        key = (point.variant, point.scale)
        repeats = max(record.plan.repetition, rows[key].repeats if key in rows else 1)
        rows[key] = RunRow(**point.model_dump(), repeats=repeats)
    # Objects, because a column of integers and blanks would become floating-point.
    frame = pd.DataFrame([_row_cells(row) for row in rows.values()], dtype=object)
    return frame.to_csv(sep="\t", index=False, lineterminator="\n")


def _row_cells(row: RunRow) -> dict[str, object]:
    """Return a row as written in a run table: quantities with their unit."""
    units = {"fusion_bytes": "byte", "cycle_time_s": "s"}
    cells = row.model_dump()
    return cells | {name: f"{cells[name]!r} {unit}" for name, unit in units.items() if cells[name] is not None}
