"""The report document has all parts of section 6.3.3 or marks them missing; its folder is complete and repeatable."""

import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from browser.checks import missing_browser, open_browser
from pydantic import ValidationError
from unit.record_factory import make_image_benchmark, make_machine, make_provenance, make_record, write_records

from hpcai.config.load import load_study_file
from hpcai.config.plan_file import read_plan
from hpcai.config.study import Study
from hpcai.core.errors import ConfigError, RecordError
from hpcai.core.sealed import unseal
from hpcai.metrics.scores.columns import TRIAL_COLUMNS
from hpcai.metrics.scores.validity import NONE_FINISHED, TOO_FEW
from hpcai.records.commands import shown_command
from hpcai.records.files import read_record
from hpcai.records.run import Artefact, RunRecord
from hpcai.report.hpc_ai500 import evidence as evidence_module
from hpcai.report.hpc_ai500 import folder as folder_module
from hpcai.report.hpc_ai500.configuration import RINGS
from hpcai.report.hpc_ai500.document import build_document
from hpcai.report.hpc_ai500.evidence import NO_RECORD, read_evidence
from hpcai.report.hpc_ai500.folder import write_document
from hpcai.report.hpc_ai500.markup import document_html, document_page, say
from hpcai.report.hpc_ai500.model import Document, Item, agreed, cell, read_document
from hpcai.report.hpc_ai500.readme import PRIVATE
from hpcai.report.hpc_ai500.scores import CLOCK, RATE_BY

BENCHMARK = "images_tiny"
COMMAND = (
    "/home/someone/venv/bin/python", "-m", "hpcai.training.launch", "-np", "2", "--gloo",
    "/home/someone/venv/bin/python", "-m", "hpcai.training", "--plan", "results/runs/x/plan.json",
    "--scratch", "/scratch/someone/a1", "--manifest", "data/images_tiny/manifest.json",
    "--pack", "data/images_tiny/packed/packed.json",
)  # fmt: skip
FACTS = {
    "hostname": "node0", "architecture": "x86_64", "cpu_model": "AMD <EPYC>", "cpu_cache": "512 KB",
    "cores_physical": 4, "cores_logical": 8, "cpu_frequency_max_hz": 2.5e9, "memory_bytes": 8_589_934_592,
    "accelerators": None,
}  # fmt: skip
SOFTWARE = {
    "operating_system": "Debian 12", "kernel": "6.1", "libc": "glibc-2.36", "python": "3.11.2", "keras": "3.15.1",
    "tensorflow-cpu": "2.18.1", "numpy": "2.0.2", "hpcai": "0.1.0", "horovod": "0.28.1",
}  # fmt: skip
DECLARED = {
    "device": {
        "kind": "cpu",
        "peaks": {"fp32": {"rate_flop_per_s": "100 GFLOP/s", "source": "data sheet, 2024"}},
        "memory_link": {"bandwidth_bytes_per_s": "10 GB/s", "source": "data sheet, 2024"},
    },
    "links": {"intra_node": {"bandwidth_bytes_per_s": "20 GB/s", "source": "data sheet, 2024"}},
    "storage": {"node_local": "/tmp/scratch", "shared": "NFS"},
}
BREAKS = """() => [...document.querySelectorAll('a')].flatMap((link) => {
  const walker = document.createTreeWalker(link, NodeFilter.SHOW_TEXT), found = [];
  let before = null;
  while (walker.nextNode()) for (let place = 0; place < walker.currentNode.length; place += 1) {
    const range = document.createRange();
    range.setStart(walker.currentNode, place);
    range.setEnd(walker.currentNode, place + 1);
    const here = {top: range.getBoundingClientRect().top, text: range.toString()};
    if (before && here.top > before.top + 3 && !'/ '.includes(before.text)) found.push(link.textContent);
    before = here;
  }
  return found;
})"""
"""Links that break inside a word."""
OVERLAPS = """() => [...document.querySelectorAll('.items td a')].filter((link) =>
  link.getBoundingClientRect().right > link.closest('td').getBoundingClientRect().right + 1)
  .map((link) => link.textContent)"""
"""Links that stick out of their cells."""
LOGS = {"output.log": b"epoch 1: loss 2.0\n", "mllog.txt": b':::MLLOG {"key": "run_start"}\n'}


def publish(records: list[RunRecord], runs: Path, logs: dict[str, bytes] | None = None) -> list[Path]:
    """Lay out records as published runs, each with raw files that it names."""
    logs = LOGS if logs is None else logs
    named = tuple(
        Artefact(path=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()) for name, data in logs.items()
    )
    paths = write_records([record.model_copy(update={"artefacts": named}) for record in records], runs)
    for path in paths:
        (path.parent / "raw").mkdir()
        (path.parent / "raw" / "record.json").write_bytes(path.read_bytes())
        for name, data in logs.items():
            (path.parent / "raw" / name).write_bytes(data)
    return paths


def make_run(outcome: str = "converged", repetition: int = 1, ranks: int = 2, **plan: object) -> RunRecord:
    """Return a run of image classification with all fields of a record set."""
    provenance = make_provenance(command=COMMAND, machine_facts=FACTS, software=SOFTWARE)
    settings = {
        "benchmark": make_image_benchmark(BENCHMARK),
        "time_staging": False,
        "machine": make_machine(**DECLARED),
    }
    return make_record(
        outcome,
        repetition=repetition,
        ranks_per_node=ranks,
        record={"provenance": plan.pop("provenance", provenance)},
        **{**settings, **plan},
    )


def write_scores(
    records: list[RunRecord], path: Path, power_w: float | None = 50.0, power_method: str = "measured"
) -> Path:
    """Write a table `run_scores` of made-up rates for runs that trained to their end."""
    rows = []
    for record in records:
        row = dict.fromkeys(TRIAL_COLUMNS)
        row |= {"run_id": record.run_id, "benchmark": BENCHMARK, "outcome": record.outcome, "reason": "", "dropped": ""}
        if record.outcome in ("converged", "not_converged"):
            rate = 1e9 * record.plan.repetition
            row |= {"time_to_quality_s": record.training.run_s, "rate_flop_per_s": rate, "exponent": 5.0}
            row |= {"vflops_flop_per_s": 0.9 * rate, "quality": 0.588, "quality_target": 0.6}
            row |= {"quality_metric": "top_1_accuracy", "flop_method": "formula"}
            if power_w:
                row |= {"mean_power_w": power_w, "power_method": power_method, "flop_per_j": rate / power_w}
                row |= {"vflops_flop_per_j": 0.9 * rate / power_w}
        rows.append(row)
    frame = pd.DataFrame(rows, columns=list(TRIAL_COLUMNS))
    numbers = [name for name in TRIAL_COLUMNS if name.rpartition("_")[2] in ("s", "w", "j", "quality", "exponent")]
    frame.astype(dict.fromkeys(numbers, "float64")).to_parquet(path)
    return path


def build(records: list[RunRecord], folder: Path, machine=None, study=None, **tables: Path) -> Document:
    """Return the document of some records."""
    paths = publish(records, folder / "runs")
    return build_document(read_evidence(BENCHMARK, paths, tables, machine or records[0].plan.machine, study))


def find(document: Document, name: str) -> Item:
    return next(item for item in document.items if item.name.startswith(name))


def write_whole(folder: Path, records: list[RunRecord] | None = None, **changes: object) -> Path:
    """Write the document of two good runs and one that failed, and return its folder."""
    runs = records or [make_run(), make_run(repetition=2), make_run("failed", repetition=3)]
    paths = publish(runs, folder / "runs", changes.pop("logs", None))
    scores = write_scores(runs, folder / "run_scores.parquet")
    output = folder / "hpc_ai500" / BENCHMARK
    own = Study(name="default", title="A study", machine="testbox", benchmarks=(BENCHMARK,), seeds="entropy")
    study = changes.pop("study", own)
    write_document(BENCHMARK, paths, {"run_scores": scores}, runs[0].plan.machine, output, study)
    return output


def test_a_system_that_declares_everything_gives_a_complete_document(tmp_path: Path) -> None:
    runs = [make_run(), make_run(repetition=2)]
    study = Study(name="default", title="A study", machine="testbox", benchmarks=(BENCHMARK,))
    document = build(runs, tmp_path, study=study, run_scores=write_scores(runs, tmp_path / "scores.parquet"))
    assert document.missing == ()
    assert document.complete
    assert document.headline.startswith("Complete: yes.")
    assert find(document, "Peak rate").value == 1e11
    assert find(document, "Peak rate").note == "data sheet, 2024"
    assert [part.section[-3:] for part in document.parts] == ["(1)", "(2)", "(3)", "(4)"]


def test_what_is_not_known_is_missing_with_a_reason_and_what_to_do(tmp_path: Path) -> None:
    provenance = make_provenance(command=COMMAND, dirty=True)
    document = build([make_run(provenance=provenance)], tmp_path, machine=make_machine())
    missing = {item.name for item in document.missing}
    expected = {
        "Processor", "Highest clock frequency", "Peak rate of a rank's cores, fp32", "Links within a node",
        "Shared storage", "Time to quality", "FLOPS", "VFLOPS", "FLOPS per watt", "VFLOPS per watt", "Source code",
        "Study file",
    }  # fmt: skip
    assert expected <= missing
    assert all(item.note and item.action for item in document.missing)
    assert not document.complete
    assert document.headline.startswith("Complete: no.")
    assert "device.peaks.fp32" in find(document, "Peak rate").action
    assert "links.intra_node" in find(document, "Links within").action
    assert "testbox" in find(document, "Links within").action


def test_what_a_system_cannot_have_does_not_apply(tmp_path: Path) -> None:
    document = build([make_run(ranks=1)], tmp_path, machine=make_machine())
    for name in ("Accelerators", "CUDA", "Network between nodes", "Links within", "MPI", "Topology", "Upload"):
        assert find(document, name).status == "not_applicable", name
    assert "BenchHub" in find(document, "Upload").action


def test_several_nodes_need_a_network_and_a_topology(tmp_path: Path) -> None:
    command = ("/usr/bin/mpirun", "-np", "2", *COMMAND[6:])
    provenance = make_provenance(command=command, machine_facts=FACTS, software=SOFTWARE)
    document = build([make_run(ranks=1, nodes=2, provenance=provenance)], tmp_path)
    assert find(document, "Network between").status == "missing"
    assert "links.network" in find(document, "Network between").action
    assert find(document, "Topology").status == "missing"
    assert find(document, "MPI").status == "missing"
    assert find(document, "Launcher").value == "mpirun"
    assert "node0, node1" in find(document, "Most nodes").value
    assert "others were not asked" in find(document, "Processor").note


def test_many_hosts_are_named_in_the_file_not_in_the_document(tmp_path: Path) -> None:
    document = build([make_run(ranks=1, nodes=12, machine=make_machine(nodes=12))], tmp_path)
    named = ", ".join(f"node{number}" for number in range(8))
    assert find(document, "Most nodes").value == f"12 ({named} and 4 more)"


def test_a_topology_that_was_chosen_by_a_variable_is_collected(tmp_path: Path) -> None:
    provenance = make_provenance(command=COMMAND, environment={"NCCL_ALGO": "Tree", "SLURM_JOB_PARTITION": "gpu"})
    document = build([make_run(provenance=provenance)], tmp_path)
    assert find(document, "Topology").value == "NCCL_ALGO=Tree"
    assert find(document, "Batch system").value == "Slurm, partition gpu; 1 of 1 runs"


def test_tensorflow_has_its_ring_on_accelerators_too_and_reads_no_variables_of_nccl(tmp_path: Path) -> None:
    provenance = make_provenance(command=COMMAND, environment={"NCCL_ALGO": "Tree"})
    device = {**DECLARED["device"], "kind": "gpu"}
    machine = make_machine(**{**DECLARED, "device": device, "accelerators_per_node": 4})
    run = make_run(settings_of_point={"engine": "tensorflow"}, provenance=provenance, machine=machine)
    assert find(build([run], tmp_path), "Topology").value == RINGS["tensorflow"]


def test_each_engine_exchanges_in_its_own_way(tmp_path: Path) -> None:
    """Gloo's ring and Horovod's cycle are not said of runs that another engine made."""
    spawned = make_provenance(command=("python", "-m", "hpcai.training.spawn", *COMMAND[3:5], *COMMAND[6:]))
    others = [
        make_run(variant=engine, settings_of_point={"engine": engine}, provenance=spawned)
        for engine in ("tensorflow", "jax")
    ]
    document = build([make_run(), *others], tmp_path)
    engines = dict(part.split(": ") for part in find(document, "Engine").value.split("; "))
    assert engines == {"fp32": "horovod", "jax": "jax", "tensorflow": "tensorflow"}
    assert find(document, "Topology").value == "; ".join(sorted(RINGS.values()))
    points = document.parts[1].tables[0]
    names = [column.name for column in points.columns]
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in points.rows}
    assert {variant: row["engine"] for variant, row in rows.items()} == {
        "fp32": "horovod", "tensorflow": "tensorflow", "jax": "jax"
    }  # fmt: skip
    assert "Horovod" in rows["fp32"]["cycle time"]
    assert not any("Horovod" in rows[engine]["cycle time"] for engine in ("tensorflow", "jax"))
    assert "XLA" in rows["jax"]["fusion"]


def test_collectives_on_accelerators_choose_by_themselves(tmp_path: Path) -> None:
    machine = make_machine(accelerators_per_node=4, device={"kind": "gpu", "model": "H200"})
    document = build([make_run(machine=machine, settings_of_point={"engine": "jax"})], tmp_path)
    assert find(document, "Topology").status == "missing"


def test_accelerators_are_described_by_the_machine_file(tmp_path: Path) -> None:
    device = {"kind": "gpu", "model": "H200", "memory_bytes": "141 GB"}
    machine = make_machine(accelerators_per_node=4, device=device)
    provenance = make_provenance(
        command=COMMAND, machine_facts={**FACTS, "accelerators": "NVIDIA H200"}, environment={"CUDA_VERSION": "12.4"}
    )
    document = build([make_run(machine=machine, provenance=provenance)], tmp_path)
    assert find(document, "Accelerators of a node").value == 4
    assert "NVIDIA H200" in find(document, "Accelerators of a node").note
    assert find(document, "Accelerator").status == "present"
    assert find(document, "CUDA").value == "12.4"
    assert find(document, "cuDNN").status == "missing"
    assert find(document, "Peak rate of an accelerator").status == "missing"


def test_a_measured_link_stands_in_for_one_that_is_not_declared(tmp_path: Path) -> None:
    fit = {
        "what": "transfer",
        "engine": "horovod",
        "scope": "node",
        "ranks": 2,
        "bandwidth_bytes_per_s": 9e8,
        "source": "allreduce.json",
    }
    pd.DataFrame([fit, {**fit, "what": "call", "bandwidth_bytes_per_s": 8e8}]).to_parquet(tmp_path / "fits.parquet")
    document = build([make_run()], tmp_path, machine=make_machine(), link_fits=tmp_path / "fits.parquet")
    link = find(document, "Links within")
    assert (link.value, link.method) == (9e8, "measured")
    assert "allreduce.json" in link.note


FIT = {
    "what": "transfer", "engine": "horovod", "scope": "node", "ranks": 4, "bandwidth_bytes_per_s": 1e9,
    "bandwidth_error_bytes_per_s": 2e8,
    "misfit_ratio": 10.1, "source": "results/characterise/allreduce_n1x4.json",
}  # fmt: skip
MESSAGES = [
    {
        "what": "transfer", "engine": "horovod", "scope": "node", "ranks": 4, "bytes": size,
        "time_s": 2 * time_s, "time_min_s": time_s,
        "source": FIT["source"],
    }
    for size, time_s in ((1024, 1e-3), (4_000_000, 2e-3), (16_000_000, 1.6e-2))
]  # fmt: skip


def test_a_fitted_link_is_a_bus_bandwidth_and_says_how_far_off_it_is(tmp_path: Path) -> None:
    pd.DataFrame([FIT]).to_parquet(tmp_path / "fits.parquet")
    document = build([make_run()], tmp_path, machine=make_machine(), link_fits=tmp_path / "fits.parquet")
    link = find(document, "Links within")
    assert link.value == pytest.approx(2 * 3 / 4 * 1e9)
    assert "standard error 300 MB/s" in link.note
    assert "up to 11.1 times a measured time" in link.note


def test_the_best_measured_bus_bandwidth_goes_before_a_fitted_line(tmp_path: Path) -> None:
    pd.DataFrame([FIT]).to_parquet(tmp_path / "fits.parquet")
    pd.DataFrame(MESSAGES).to_parquet(tmp_path / "links.parquet")
    tables = {"links": tmp_path / "links.parquet", "link_fits": tmp_path / "fits.parquet"}
    link = find(build([make_run()], tmp_path, machine=make_machine(), **tables), "Links within")
    assert link.value == pytest.approx(2 * 3 / 4 * 4_000_000 / 2e-3)
    assert "4 ranks" in link.note
    assert "up to 11.1 times a measured time" in link.note


def test_configuration_holds_every_setting_of_every_variant(tmp_path: Path) -> None:
    half = make_run(variant="compressed", settings_of_point={"compression": "fp16", "fusion_bytes": 1024.0})
    output = write_whole(tmp_path, [make_run(), half])
    written = json.loads((output / "configuration.json").read_text())["variants"]
    assert set(written) == {"fp32", "compressed"}
    assert written["fp32"]["benchmark"] == make_image_benchmark(BENCHMARK).model_dump(mode="json")
    assert written["compressed"]["runs"][half.run_id]["point"]["compression"] == "fp16"
    document = read_document(output / "report.json")
    assert find(document, "Compression of gradients").value == "compressed: fp16; fp32: none"
    assert "up to 1 KiB" in find(document, "Fusion").value
    settings = next(table for table in document.parts[1].tables if table.folded)
    values = dict(settings.rows)
    assert values["recipe.global_batch"] == 64
    assert values["data.crop"] == 32


def test_failed_runs_are_rows_without_numbers(tmp_path: Path) -> None:
    output = write_whole(tmp_path)
    rows = pd.read_csv(output / "scores.csv").set_index("run_id")
    assert len(rows) == 3
    failed = rows.loc[f"{BENCHMARK}/fp32/n1x2/r3"]
    assert failed["outcome"] == "failed"
    assert pd.isna(failed["rate_flop_per_s"])
    assert "signal 9" in failed["reason"]
    document = read_document(output / "report.json")
    assert (document.runs, document.failed_runs) == (3, 1)
    assert find(document, "FLOPS").value == "1 GFLOP/s to 2 GFLOP/s (2 trials)"
    assert "1 of 3 runs" in find(document, "FLOPS").note
    assert "signal 9" in (output / "report.html").read_text()


def test_a_run_that_the_table_lacks_is_a_row_all_the_same(tmp_path: Path) -> None:
    runs = [make_run(), make_run(repetition=2)]
    document = build(runs, tmp_path, run_scores=write_scores(runs[:1], tmp_path / "scores.parquet"))
    assert len(document.parts[2].tables[0].rows) == 2
    assert find(document, "FLOPS").status == "missing"
    assert find(document, "FLOPS").note.startswith("1 of 2 trials")


def test_scores_per_watt_without_power_name_the_key_to_fill(tmp_path: Path) -> None:
    runs = [make_run()]
    document = build(runs, tmp_path, run_scores=write_scores(runs, tmp_path / "scores.parquet", power_w=None))
    assert find(document, "VFLOPS per watt").status == "missing"
    assert "power.node_power_w" in find(document, "VFLOPS per watt").action
    assert find(document, "VFLOPS").status == "present"


def test_scores_say_how_their_parts_are_known(tmp_path: Path) -> None:
    runs = [make_run()]
    scores = write_scores(runs, tmp_path / "scores.parquet", power_method="declared")
    document = build(runs, tmp_path, run_scores=scores)
    assert (find(document, "FLOPS").method, find(document, "FLOPS per watt").method) == ("measured", "declared")
    assert find(document, "FLOPS").note == RATE_BY(work="formula")
    assert find(document, "FLOPS per watt").note.endswith("; power declared")
    assert find(document, "Time to quality").note == CLOCK
    names = [column.name for column in document.parts[2].tables[0].columns]
    assert names[names.index("time to quality") + 1] == "of it evaluations"


def test_a_quality_that_misses_its_target_does_not_look_met(tmp_path: Path) -> None:
    runs = [make_run(), make_run("failed", repetition=2)]
    scores = write_scores(runs, tmp_path / "scores.parquet")
    rows = pd.read_parquet(scores)
    rows.assign(quality=0.76296, quality_target=[0.763, None]).to_parquet(scores)
    table = build(runs, tmp_path, run_scores=scores).parts[2].tables[0]
    column = next(column for column in table.columns if column.name == "quality")
    assert say(0.76296, column.unit, column.target) == "0.76296"
    assert say(0.76296, column.unit) == "0.763"


def test_only_failed_runs_give_a_document_that_says_so(tmp_path: Path) -> None:
    runs = [make_run("failed"), make_run("timed_out", repetition=2)]
    document = build(runs, tmp_path, run_scores=write_scores(runs, tmp_path / "scores.parquet"))
    assert NONE_FINISHED(n=2, word="run") in find(document, "FLOPS").note
    assert "no valid result" in document.results[0]


def test_logs_are_copied_unchanged_and_listed(tmp_path: Path) -> None:
    output = write_whole(tmp_path)
    run = output / "logs" / BENCHMARK / "fp32" / "n1x2" / "r3"
    assert (run / "output.log").read_bytes() == LOGS["output.log"]
    read_record(run / "record.json")
    listed = pd.read_csv(run / "files.csv").set_index("file")
    assert list(listed.index) == ["mllog.txt", "output.log", "record.json"]
    assert listed.loc["output.log", "sha256"] == hashlib.sha256(LOGS["output.log"]).hexdigest()


def test_a_variable_that_must_not_leave_the_machine_is_in_no_file(tmp_path: Path) -> None:
    secrets = {"TF_CLI_CONFIG_FILE": "/home/someone/.terraformrc", "SLURM_JWT": "eyJhbGciOi"}
    environment = {**secrets, "OMP_NUM_THREADS": "2"}
    provenance = make_provenance(command=COMMAND, environment=environment)
    output = write_whole(tmp_path, [make_run(), make_run(repetition=2, provenance=provenance)])
    files = [path for path in output.rglob("*") if path.is_file()]
    for text in ("terraformrc", "eyJhbGciOi", "SLURM_JWT", "TF_CLI"):
        assert not [path for path in files if text in path.read_text()], text
    listed = [pd.read_csv(path).set_index("file") for path in sorted(output.rglob("logs/**/files.csv"))]
    assert [files.loc["record.json", "status"] for files in listed] == ["copied", "copied: variables withheld"]
    raw = tmp_path / "runs" / BENCHMARK / "fp32" / "n1x2" / "r2" / "raw" / "record.json"
    assert listed[1].loc["record.json", "sha256"] == hashlib.sha256(raw.read_bytes()).hexdigest()
    kept = read_record(output / "logs" / BENCHMARK / "fp32" / "n1x2" / "r2" / "record.json")
    original = read_record(raw)
    assert kept.provenance.environment == {"OMP_NUM_THREADS": "2"}
    assert kept.model_copy(update={"provenance": original.provenance}) == original
    readme = (output / "README.md").read_text()
    assert PRIVATE[0] in readme
    assert "`copied: variables withheld`" in readme


def write_with_evidence(folder: Path, *written: str) -> Path:
    """Write a document whose tables name two files of the results folder, of which some are there."""
    results = folder / "results"
    for name in written:
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text(f'{{"made by": "{name}"}}')
    runs = [make_run(), make_run(repetition=2)]
    paths, scores = publish(runs, results / "runs"), write_scores(runs, folder / "run_scores.parquet")
    work = "results/characterise/work/images_tiny.json"
    pd.read_parquet(scores).assign(work_source=work, power_source="data sheet").to_parquet(scores)
    pd.DataFrame([FIT]).to_parquet(folder / "fits.parquet")
    tables = {"run_scores": scores, "link_fits": folder / "fits.parquet"}
    write_document(BENCHMARK, paths, tables, make_machine(), folder / "document")
    return folder / "document"


def test_files_that_numbers_stand_on_are_copied_and_named_by_their_copies(tmp_path: Path) -> None:
    sources = ("characterise/work/images_tiny.json", "characterise/allreduce_n1x4.json")
    output = write_with_evidence(tmp_path, *sources)
    for name in sources:
        assert (output / "evidence" / name).read_text() == f'{{"made by": "{name}"}}'
        assert f"evidence/{name}" in (output / "MANIFEST.sha256").read_text()
    scores = pd.read_csv(output / "scores.csv")
    assert set(scores["work_source"]) == {"evidence/characterise/work/images_tiny.json"}
    assert set(scores["power_source"]) == {"data sheet"}
    system = json.loads((output / "system.json").read_text())
    assert system["measured_links"][0]["source"] == "evidence/characterise/allreduce_n1x4.json"
    assert system["measured_link_within_node"]["source"] == "evidence/characterise/allreduce_n1x4.json"
    document = read_document(output / "report.json")
    assert "evidence/characterise/allreduce_n1x4.json" in find(document, "Links within").note
    assert find(document, "Measurements").value == "2 files"
    assert not [name for name in ("report.json", "scores.csv", "system.json")
                if "results/characterise" in (output / name).read_text()]  # fmt: skip


def test_a_file_that_is_gone_keeps_its_name_and_is_missing(tmp_path: Path) -> None:
    output = write_with_evidence(tmp_path, "characterise/allreduce_n1x4.json")
    listed = pd.read_csv(output / "evidence" / "files.csv").set_index("file")["status"]
    assert listed["characterise/work/images_tiny.json"] == "missing"
    item = find(read_document(output / "report.json"), "Measurements")
    assert item.status == "missing"
    assert "results/characterise/work/images_tiny.json (missing)" in item.note
    assert set(pd.read_csv(output / "scores.csv")["work_source"]) == {"results/characterise/work/images_tiny.json"}


def test_large_and_binary_raw_files_are_named_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_module, "MAX_COPIED_BYTES", 10_000)
    logs = {**LOGS, "trace.json": b"x" * 20_000, "weights.bin": b"\x00\xff"}
    output = write_whole(tmp_path, [make_run()], logs=logs)
    run = output / "logs" / BENCHMARK / "fp32" / "n1x2" / "r1"
    listed = pd.read_csv(run / "files.csv").set_index("file")["status"]
    assert listed["trace.json"] == "named: large"
    assert listed["weights.bin"] == "named: not text"
    assert not (run / "trace.json").exists()
    assert not (run / "weights.bin").exists()


@pytest.mark.parametrize(("damage", "words"), [("changed", "differs from the SHA-256"), ("gone", "the file is gone")])
def test_a_log_that_is_not_the_one_of_the_record_is_not_handed_in(tmp_path: Path, damage: str, words: str) -> None:
    runs = [make_run(), make_run(repetition=2)]
    paths = publish(runs, tmp_path / "runs")
    log = paths[1].parent / "raw" / "output.log"
    log.unlink() if damage == "gone" else log.write_text("another text")
    evidence = read_evidence(BENCHMARK, paths, {}, make_machine())
    item = find(build_document(evidence), "Output logs")
    assert item.status == "missing"
    assert words in item.note
    assert "1 of 2 runs" in item.note


def test_the_manifest_names_every_file_with_its_digest(tmp_path: Path) -> None:
    output = write_whole(tmp_path)
    lines = (output / "MANIFEST.sha256").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {path.relative_to(output).as_posix(): path for path in output.rglob("*") if path.is_file()}
    files.pop("MANIFEST.sha256")
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == listed
    assert {"report.json", "report.html", "README.md", "system.json", "configuration.json", "scores.csv"} <= set(listed)


def test_equal_input_gives_equal_bytes_and_a_rerun_replaces_the_folder(tmp_path: Path) -> None:
    first, second = write_whole(tmp_path / "a"), write_whole(tmp_path / "b")
    assert (first / "MANIFEST.sha256").read_text() == (second / "MANIFEST.sha256").read_text()
    (first / "stale.txt").write_text("of an earlier study")
    paths = sorted((tmp_path / "a" / "runs").rglob("r[0-9]*/record.json"))
    write_document(BENCHMARK, paths[::-1], {"run_scores": tmp_path / "a" / "run_scores.parquet"}, make_machine(), first)
    assert not (first / "stale.txt").exists()
    assert [path.name for path in first.parent.iterdir()] == [BENCHMARK]


def test_a_breakdown_while_writing_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = write_whole(tmp_path)
    before = (output / "MANIFEST.sha256").read_text()

    def fail(_: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(folder_module, "write_manifest", fail)
    paths = sorted((tmp_path / "runs").rglob("r[0-9]*/record.json"))
    with pytest.raises(OSError, match="no space"):
        write_document(BENCHMARK, paths, {}, make_machine(), output)
    assert (output / "MANIFEST.sha256").read_text() == before
    assert [path.name for path in output.parent.iterdir()] == [BENCHMARK]


def test_the_study_files_make_the_same_plans(tmp_path: Path) -> None:
    runs = [
        make_run(),
        make_run(repetition=2),
        make_run(
            ranks=4,
            variant="wide",
            settings_of_point={"global_batch": 128, "fusion_bytes": 1024.0, "cycle_time_s": 0.005},
        ),
    ]
    output = write_whole(tmp_path, runs)
    plans = load_study_file(output / "source" / "config" / "study.yaml").plans()
    assert set(plans) == {record.run_id for record in runs}
    for record in runs:
        again = plans[record.run_id].model_copy(update={"seed": record.plan.seed})
        assert again.digest == record.plan_digest
        assert read_plan(output / "source" / "plans" / f"{record.run_id}.json") == record.plan


def test_a_study_that_was_only_analysed_can_be_measured_from_the_folder_alone(tmp_path: Path) -> None:
    study = Study(
        name="default", title="A study", machine="testbox", benchmarks=(BENCHMARK,), measure=False,
        published=("hpc_ai500_v2",), compare_with=("results/earlier",), rank_with=("elsewhere/results",),
    )  # fmt: skip
    output = write_whole(tmp_path, study=study)
    path = output / "source" / "config" / "study.yaml"
    campaign = load_study_file(path)
    assert campaign.study.measure
    assert campaign.published == ()
    assert "elsewhere" not in path.read_text()
    assert "earlier" not in path.read_text()


def test_commands_repeat_each_run_and_name_no_private_folder(tmp_path: Path) -> None:
    record = make_run()
    assert shown_command(record).split()[:8] == [
        *("python", "-m", "hpcai.training.launch", "-np", "2", "--gloo", "python", "-m")
    ]
    assert shown_command(record).split()[8].startswith("hpcai.training")
    assert "--scratch /tmp/scratch/a1" in shown_command(record)
    output = write_whole(tmp_path)
    script = (output / "source" / "commands.sh").read_text()
    assert script.count("\nhpcai measure ") == 3
    assert "--launcher horovodrun" in script
    assert '--plan "$here"/plans/images_tiny/fp32/n1x2/r1.json' in script
    ours = [path for path in output.rglob("*") if path.is_file() and "logs" not in path.relative_to(output).parts]
    assert not [path for path in ours if "someone" in path.read_text()]


def test_the_levels_are_those_of_the_records(tmp_path: Path) -> None:
    document = build([make_run()], tmp_path)
    assert [level.level for level in document.levels] == ["hardware level", "system level", "free level"]
    assert any("generated data" in finding for finding in document.levels[-1].findings)
    assert TOO_FEW(word="trial", counted=1, by_rule=10) in document.results[0]


def test_earlier_attempts_are_told(tmp_path: Path) -> None:
    attempts = [{"attempt": "a0", "outcome": "failed", "reason": "node went down"}]
    record = make_run()
    retried = RunRecord.model_validate({**record.model_dump(), "earlier_attempts": attempts})
    document = build([retried], tmp_path)
    assert document.parts[2].tables[-1].rows == (("fp32/n1x2/r1", "a0", "failed", "node went down"),)


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.links += [value or "" for name, value in attributes if name in ("href", "src")]
        assert not {name for name, _ in attributes} & {"style", "onclick"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_plain_and_its_links_lead_to_files(tmp_path: Path) -> None:
    output = write_whole(tmp_path)
    page = _Page((output / "report.html").read_text())
    assert page.open == []
    assert "script" not in page.tags
    assert page.tags.count("h1") == 1
    assert page.links
    assert [link for link in page.links if not (output / link).exists()] == []


def test_the_fragment_escapes_text_and_prefixes_links(tmp_path: Path) -> None:
    document = read_document(write_whole(tmp_path) / "report.json")
    fragment = document_html(document, folder="hpc_ai500/images_tiny/")
    page = _Page(fragment)
    assert page.open == []
    assert all(link.startswith("hpc_ai500/images_tiny/") for link in page.links)
    assert "AMD &lt;EPYC&gt;" in fragment
    assert "h3" in page.tags
    assert "h2" not in page.tags
    assert "style" not in page.tags
    assert "<h2>1. System under test" in document_page(document)


@pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")
def test_links_go_on_in_a_new_line_behind_a_slash_only(tmp_path: Path) -> None:
    output = write_whole(tmp_path)
    with open_browser() as browser:
        page = browser.new_page()
        page.goto((output / "report.html").as_uri())
        assert page.evaluate("document.querySelectorAll('.items a').length") > 10
        for width in (390, 720, 1000, 1366):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate(BREAKS) == [], width
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), width
            assert page.evaluate(OVERLAPS) == [], width


def test_a_document_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    output = write_whole(tmp_path)
    document = read_document(output / "report.json")
    unsealed = unseal((output / "report.json").read_bytes())
    assert unsealed.is_sealed
    assert document.model_dump_json(indent=1) + "\n" == unsealed.text.decode()
    (output / "report.json").write_text("{}")
    with pytest.raises(RecordError, match="damaged"):
        read_document(output / "report.json")


def test_benchmarks_of_another_suite_and_missing_records_are_refused(tmp_path: Path) -> None:
    other = publish([make_record()], tmp_path / "runs")
    with pytest.raises(ConfigError, match="MLPerf HPC"):
        read_evidence("cosmoflow_tiny", other, {}, make_machine())
    with pytest.raises(RecordError, match=NO_RECORD(benchmark="images_tiny", files=1)):
        read_evidence(BENCHMARK, other, {}, make_machine())


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "present", "method": "measured", "source": "x.csv"},
        {"status": "present", "value": 1.0},
        {"status": "missing", "note": "not declared"},
        {"status": "missing", "action": "declare it"},
        {"status": "not_applicable"},
        {"status": "not_applicable", "note": "no accelerator", "value": 0},
    ],
)
def test_an_item_says_what_its_status_needs(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Item(demand="d", name="n", **fields)


def test_values_that_differ_are_counted() -> None:
    assert agreed([None, float("nan"), ""]) is None
    assert agreed(["a", None, "a"]) == "a"
    assert agreed(["a", "b", "b"]) == "a (1 of 3 runs); b (2 of 3 runs)"
    assert cell(pd.NA) is None


def test_values_have_their_unit() -> None:
    assert say(2.5e9, "Hz") == "2.5 GHz"
    assert say(8_589_934_592, "byte") == "8 GiB"
    assert say(1.2e9, "FLOP/s/W") == "1.2 GFLOP/s/W"
    assert say(1_281_167, "samples") == "1,281,167 samples"
