"""The results folder as a research object: `ro-crate-metadata.json`, by the Provenance Run Crate profile.

Plain JSON-LD, so that reading and reporting results needs no further package. Only files inside the folder are named,
by their path in it; no path, host or user of the machine is.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from hpcai.core.files import file_sha256, write_atomically
from hpcai.records.files import read_record
from hpcai.records.run import FINISHED, RunRecord
from hpcai.report.material import read_json

CRATE = "ro-crate-metadata.json"
WORKFLOW = "workflow"
"""Folder of the copied workflow: a crate holds its main entity."""
MAIN = f"{WORKFLOW}/Snakefile"
NO_LICENCE = "No licence was stated for these results; ask the submitter before you reuse them."
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
CONTEXT = ("https://w3id.org/ro/crate/1.1/context", {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"})
APACHE = "https://spdx.org/licenses/Apache-2.0"
FORMATS = {
    ".json": "application/json", ".csv": "text/csv", ".parquet": "application/vnd.apache.parquet",
    ".html": "text/html", ".svg": "image/svg+xml",
}  # fmt: skip
STEPS = {
    "measure": "Trains each run and records it.",
    "analyse": "Makes the tables from the records.",
    "report": "Writes the report from the tables.",
}
"""Steps of the workflow, as far as the crate describes them, in order."""
UNNAMED = "unnamed"
"""Submitter of a study that names none."""

Entity = dict[str, Any]


def write_crate(results: Path, records: Sequence[Path], sources: Sequence[Path]) -> None:
    """Write the crate of a results folder whose report is there.

    Parameters
    ----------
    results
        The results folder, with ``study.json``, ``summary.json``, ``tables/`` and ``report.html``.
    records
        Records of the timed runs below it.
    sources
        Files of the workflow; the first is its Snakefile. They are copied to ``workflow/``, flat below their
        last folder.

    Raises
    ------
    RecordError
        If a record is damaged.
    ParseError
        If the study or the summary is missing or damaged.
    OSError
        If a file cannot be written.
    """
    copied = [_copy(source, results) for source in sources]
    runs = {_inside(path, results): read_record(path) for path in records}
    study, summary = read_json(results / "study.json") or {}, read_json(results / "summary.json") or {}
    graph = [*_crate_itself(study, summary), *_workflow(summary), *_software(summary), *_locks(summary), *_agent(study)]
    tables = [_inside(path, results) for path in sorted((results / "tables").glob("*.*")) if path.suffix in FORMATS]
    documents = [name for name in ("summary.json", "report.html") if (results / name).is_file()]
    actions = _actions(study, summary, runs, tables)
    files = ["study.json", *documents, *runs, *tables, *copied]
    graph += [*actions, *(_file(name, results) for name in files if name != MAIN)]
    root = next(entity for entity in graph if entity["@id"] == "./")
    root["hasPart"] = _refer(files)
    root["mentions"] = _refer(
        entity["@id"] for entity in actions if entity["@type"] in ("CreateAction", "OrganizeAction")
    )
    content = {"@context": list(CONTEXT), "@graph": graph}
    write_atomically(results / CRATE, (json.dumps(content, indent=1) + "\n").encode())


def _copy(source: Path, results: Path) -> str:
    """Copy one file of the workflow, and return its place in the crate."""
    name = source.name if source.name == "Snakefile" else f"{source.parent.name}/{source.name}"
    target = results / WORKFLOW / name
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, source.read_bytes())
    return f"{WORKFLOW}/{name}"


def _inside(path: Path, results: Path) -> str:
    return PurePosixPath(path.resolve().relative_to(results.resolve())).as_posix()


def _refer(names: Iterable[str]) -> list[dict[str, str]] | dict[str, str]:
    """Return references; a single one is no list (RO-Crate 1.1 JSON-LD)."""
    listed = [{"@id": name} for name in names]
    return listed[0] if len(listed) == 1 else listed


def _licence_of(study: Mapping[str, Any]) -> Entity:
    """Return the licence of the results: an address, the name of a SPDX licence, or that none was stated."""
    stated = str(study.get("licence") or "")
    address = stated if "://" in stated else f"https://spdx.org/licenses/{stated}" if stated else "#no-licence"
    return {"@id": address, "@type": "CreativeWork", "name": stated or NO_LICENCE}


def _crate_itself(study: Mapping[str, Any], summary: Mapping[str, Any]) -> list[Entity]:
    """Return the descriptor, the root and the profiles that it conforms to."""
    licence = _licence_of(study)
    title = summary.get("study", {}).get("title") or study.get("title") or study.get("name", "")
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"HPC-AI Bench: {title}",
        "description": f"Records, tables and report of the study {study.get('name', '')}. {summary.get('verdict', '')}",
        "datePublished": summary.get("dates", {}).get("last_utc") or "unknown",
        "license": {"@id": licence["@id"]},
        "conformsTo": _refer(PROFILES),
        "mainEntity": {"@id": MAIN},
        **({name: {"@id": "#agent"} for name in ("author", "publisher")} if _agent(study) else {}),
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": _refer(["https://w3id.org/ro/crate/1.1", "https://w3id.org/workflowhub/workflow-ro-crate/1.0"]),
    }
    profiles = [
        {"@id": address, "@type": "CreativeWork", "name": name, "version": address.rpartition("/")[2]}
        for address, name in PROFILES.items()
    ]
    return [descriptor, root, *([licence] if licence["@id"] != APACHE else []), *profiles]


def _workflow(summary: Mapping[str, Any]) -> list[Entity]:
    """Return the workflow, its language and engine, its steps and their tools."""
    commits = summary.get("commits") or ["unknown"]
    workflow = {
        "@id": MAIN,
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
        "name": "HPC-AI Bench workflow",
        "programmingLanguage": {"@id": "#snakemake-language"},
        "license": {"@id": APACHE},
        "version": ", ".join(commits),
        "encodingFormat": "text/plain",
        "hasPart": _refer(f"#tool-{step}" for step in STEPS),
        "step": _refer(f"#step-{step}" for step in STEPS),
    }
    engine = _versions(summary).get("snakemake", "unknown")
    entities: list[Entity] = [
        workflow,
        {"@id": APACHE, "@type": "CreativeWork", "name": "Apache License 2.0"},
        {"@id": "#snakemake-language", "@type": "ComputerLanguage", "name": "Snakemake", "version": engine,
         "identifier": "https://w3id.org/workflowhub/workflow-ro-crate#snakemake", "url": "https://snakemake.github.io"},
        {"@id": "#snakemake", "@type": "SoftwareApplication", "name": "Snakemake", "version": engine,
         "url": "https://snakemake.github.io"},
    ]  # fmt: skip
    for position, (step, words) in enumerate(STEPS.items(), 1):
        entities.append(
            {"@id": f"#step-{step}", "@type": "HowToStep", "position": str(position), "description": words,
             "workExample": {"@id": f"#tool-{step}"}}
        )  # fmt: skip
        entities.append(
            {"@id": f"#tool-{step}", "@type": "SoftwareApplication", "name": f"hpcai {step}", "description": words,
             "softwareVersion": metadata.version("hpcai"), "license": {"@id": APACHE},
             "softwareRequirements": _refer(f"#software-{name}" for name in _versions(summary)),
             "additionalProperty": _refer(lock["@id"] for lock in _locks(summary))}
        )  # fmt: skip
    return entities


def _versions(summary: Mapping[str, Any]) -> dict[str, str]:
    return {str(entry["name"]): str(entry["value"]) for entry in summary.get("versions", ())}


def _software(summary: Mapping[str, Any]) -> list[Entity]:
    """Return the software that computed."""
    return [
        {"@id": f"#software-{name}", "@type": "SoftwareApplication", "name": name, "softwareVersion": version}
        for name, version in _versions(summary).items()
    ]


def _locks(summary: Mapping[str, Any]) -> list[Entity]:
    """Return the digests of the lock files that the software was installed from."""
    known = [lock for lock in summary.get("locks", ()) if lock != "unknown"]
    return [
        {"@id": f"#lock-{number}", "@type": "PropertyValue", "name": "SHA-256 of the lock file", "value": lock}
        for number, lock in enumerate(known, 1)
    ]


def _agent(study: Mapping[str, Any]) -> list[Entity]:
    name = study.get("submission", {}).get("org", UNNAMED)
    return [] if name == UNNAMED else [{"@id": "#agent", "@type": "Organization", "name": name}]


def _actions(
    study: Mapping[str, Any], summary: Mapping[str, Any], runs: Mapping[str, RunRecord], tables: Sequence[str]
) -> list[Entity]:
    """Return what was done: each run, the analysis, the report; their control; and the workflow's run as a whole."""
    agent: Entity = {"agent": {"@id": "#agent"}} if _agent(study) else {}
    dates = summary.get("dates", {})
    span = {
        "startTime": dates.get("first_utc"),
        "endTime": max(map(_end, runs.values()), default=dates.get("last_utc")),
    }
    known = {name: _when(value) for name, value in span.items() if value}
    measured = [_run_action(name, record) for name, record in runs.items()]
    analysis = _step_action("analyse", [*runs, "study.json"], ["summary.json", *tables])
    report = _step_action("report", ["summary.json", *tables], ["report.html"])
    whole = {
        "@id": "#run-workflow", "@type": "CreateAction", "name": "Run of the workflow", "instrument": {"@id": MAIN},
        "object": _refer(["study.json"]), "result": _refer([*runs, *tables, "report.html"]), **known,
    }  # fmt: skip
    done = {"measure": measured, "analyse": [analysis], "report": [report]}
    controls = [
        {"@id": f"#control-{step}", "@type": "ControlAction", "name": f"Control of the step {step}",
         "instrument": {"@id": f"#step-{step}"}, "object": _refer(str(one["@id"]) for one in own)}
        for step, own in done.items() if own
    ]  # fmt: skip
    organised = {
        "@id": "#organise", "@type": "OrganizeAction", "name": "Snakemake", "instrument": {"@id": "#snakemake"},
        "result": {"@id": "#run-workflow"}, "object": _refer(str(one["@id"]) for one in controls), **known,
    }  # fmt: skip
    actions = [*measured, analysis, report, whole]
    return [*({**action, **agent} for action in actions), *controls, {**organised, **agent}]


def _run_action(name: str, record: RunRecord) -> Entity:
    done = record.outcome in FINISHED
    status = "http://schema.org/CompletedActionStatus" if done else "http://schema.org/FailedActionStatus"
    return {
        "@id": f"#run-{record.run_id}",
        "@type": "CreateAction",
        "name": f"Training {record.run_id}",
        "description": f"Timed training of {record.plan.benchmark.title}: {record.outcome}.",
        "instrument": {"@id": "#tool-measure"},
        "object": _refer(["study.json"]),
        "result": _refer([name]),
        "startTime": _when(record.started_utc),
        "endTime": _end(record),
        "actionStatus": status,
        **({} if done else {"error": f"The run ended as {record.outcome}."}),
    }


def _end(record: RunRecord) -> str:
    """Return the end of a run (UTC): its start and its wall time."""
    return _when(record.started_utc, record.wall_s)


def _when(utc: str, later_s: float = 0.0) -> str:
    """Return a time with its offset, as the profile demands; ``Z`` is not accepted."""
    return (datetime.fromisoformat(utc) + timedelta(seconds=later_s)).isoformat(timespec="seconds")


def _step_action(step: str, read: Sequence[str], made: Sequence[str]) -> Entity:
    return {
        "@id": f"#action-{step}",
        "@type": "CreateAction",
        "name": step,
        "description": STEPS[step],
        "instrument": {"@id": f"#tool-{step}"},
        "object": _refer(read),
        "result": _refer(made),
    }


def _file(name: str, results: Path) -> Entity:
    path = results / name
    return {
        "@id": name,
        "@type": "File",
        "name": name,
        "encodingFormat": FORMATS.get(path.suffix, "text/plain"),
        "contentSize": str(path.stat().st_size),
        "sha256": file_sha256(path),
    }
