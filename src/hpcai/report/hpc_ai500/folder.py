"""Write a report document as a folder to submit, first under a temporary name, so it is never incomplete."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hpcai.config.machine import Machine
from hpcai.config.study import Study
from hpcai.core.sealed import sealed_model
from hpcai.records.commands import shown_command
from hpcai.records.folders import write_manifest, written_whole
from hpcai.report.hpc_ai500.document import build_document
from hpcai.report.hpc_ai500.evidence import ENCLOSURES, Evidence, LogFile, content_to_hand_in, read_evidence
from hpcai.report.hpc_ai500.markup import document_page
from hpcai.report.hpc_ai500.model import Document
from hpcai.report.hpc_ai500.readme import readme_text
from hpcai.report.hpc_ai500.scores import trial_rows
from hpcai.report.hpc_ai500.sources import commands_script, study_files
from hpcai.report.hpc_ai500.system import rate_within_node


def write_document(
    benchmark: str,
    records: Sequence[Path],
    tables: Mapping[str, Path],
    machine: Machine,
    output: Path,
    study: Study | None = None,
) -> None:
    """Write the report document of one benchmark of HPC AI500.

    Parameters
    ----------
    benchmark
        Name of the benchmark.
    records
        Files ``record.json`` next to their ``raw/`` folders; those of other benchmarks are ignored.
    tables
        Parquet files of ``run_scores``, ``scores``, ``links`` and ``link_fits``; missing ones are listed as missing.
        Their source files are copied as well, from the results folder of the records.
    machine
        The current machine file; its declarations are shown as declared.
    output
        Folder to write; an existing one is replaced as a whole.
    study
        The study file, so that the folder contains one that makes the same runs.

    Raises
    ------
    RecordError
        If a record is damaged, or none belongs to this benchmark.
    ConfigError
        If the benchmark does not belong to HPC AI500.
    """
    evidence = read_evidence(benchmark, records, tables, machine, study)
    document = build_document(evidence)
    # The workflow removes the files that it declares before it makes them again, and the rest of the folder is its own.
    with written_whole(output, marker=None) as building:
        _write_files(evidence, document, building)
        write_manifest(building)


def _write_files(evidence: Evidence, document: Document, folder: Path) -> None:
    for name, text in _texts(evidence, document):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    copies = {f"{run.folder}/{log.name}": log for run in evidence.runs for log in run.logs}
    copies |= {one.file.name: one.file for one in evidence.enclosures}
    for name, file in copies.items():
        if file.handed_in:
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            # Raw files are read-only; the submitted copies should be writable.
            place.write_bytes(content_to_hand_in(file))


def _texts(evidence: Evidence, document: Document) -> Iterator[tuple[str, str]]:
    """Yield the generated files by path."""
    yield "report.json", sealed_model(document).decode()
    yield "report.html", document_page(document)
    yield "README.md", readme_text(document)
    yield "system.json", _json(_system(evidence))
    yield "configuration.json", _json(_configuration(evidence))
    yield "scores.csv", trial_rows(evidence).to_csv(index=False, lineterminator="\n")
    yield "source/source.json", _json(_origin(evidence))
    yield "source/commands.sh", commands_script(evidence)
    for name, text in study_files(evidence).items():
        yield f"source/config/{name}", text
    for run in evidence.runs:
        yield f"source/plans/{run.record.run_id}.json", _json(run.record.plan.model_dump(mode="json"))
        yield f"{run.folder}/files.csv", _file_list(run.logs)
    if evidence.enclosures:
        files = [one.file for one in evidence.enclosures]
        yield f"{ENCLOSURES}/files.csv", _file_list(files, f"{ENCLOSURES}/")


def _system(evidence: Evidence) -> dict[str, object]:
    """Return the declared and collected facts; runs with equal facts share an entry."""
    collected: dict[str, dict[str, object]] = {}
    for record in evidence.records:
        origin = record.provenance
        found = {"node": origin.machine_facts, "software": origin.software, "environment": origin.environment}
        entry = collected.setdefault(_json(found), {**found, "runs": []})
        entry["runs"] = [*_list(entry["runs"]), record.run_id]
    best = rate_within_node(evidence)
    return {
        "declared": evidence.machine.model_dump(mode="json"),
        "collected": list(collected.values()),
        "hosts": {
            record.run_id: sorted({rank.placement.hostname for rank in record.ranks}) for record in evidence.records
        },
        "measured_link_within_node": {
            "bus_bandwidth_bytes_per_s": None if math.isnan(best.rate_bytes_per_s) else best.rate_bytes_per_s,
            "what": best.name, "note": best.note, "source": evidence.place(best.source),
        },
        "measured_links": _rows(evidence, "link_fits"),
        "measured_messages": _rows(evidence, "links"),
    }  # fmt: skip


def _rows(evidence: Evidence, table: str) -> list[dict[str, object]]:
    """Return the rows of a table of links, with the paths of sources in the document's folder."""
    frame = evidence.frames[table]
    rows: list[dict[str, object]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return [row | {"source": evidence.place(str(row["source"] or ""))} for row in rows]


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _configuration(evidence: Evidence) -> dict[str, object]:
    """Return all settings of every variant, including defaults."""
    variants: dict[str, dict[str, object]] = {}
    for record in evidence.records:
        plan = record.plan
        settings = plan.model_dump(mode="json")
        variant = variants.setdefault(plan.point.variant, {"benchmark": settings["benchmark"], "runs": {}})
        derived = {
            "global_batch": plan.global_batch, "local_batch": plan.local_batch, "micro_batch": plan.micro_batch,
            "epoch_steps": plan.epoch_steps,
        }  # fmt: skip
        kept = {key: settings[key] for key in settings if key not in ("benchmark", "machine")}
        runs = variant["runs"] if isinstance(variant["runs"], dict) else {}
        variant["runs"] = {**runs, record.run_id: {**kept, "derived": derived}}
    return {"variants": variants}


def _origin(evidence: Evidence) -> dict[str, object]:
    return {
        record.run_id: {
            "commit": record.provenance.commit,
            "dirty": record.provenance.dirty,
            "lock_sha256": record.provenance.lock_sha256,
            "plan_digest": record.plan_digest,
            "data_source": record.data_source,
            "data_digest": record.provenance.data_digest,
            "pack_digest": record.provenance.pack_digest,
            "command": shown_command(record),
            "started_utc": record.started_utc,
        }
        for record in evidence.records
    }


def _file_list(files: Sequence[LogFile], folder: str = "") -> str:
    """Return the list of raw files, with size and digest of the originals."""
    lines = [
        f"{file.name.removeprefix(folder)},{file.bytes if file.sha256 else ''},{file.sha256},{file.status}"
        for file in files
    ]
    return "\n".join(["file,bytes,sha256,status", *lines]) + "\n"


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
