"""Artefacts of an unknown tool: exactly the right reader accepts each."""

import ast
import dataclasses
import os
import sys

import pandas as pd
import pytest
from unit.code_words import words
from unit.parsers.artefacts import foreign, sample
from unit.toy_parts import TESTS, library_with
from unit.workloads.toy_library import call_python

from hpcai.__main__ import main
from hpcai.campaign.library_digest import import_closure
from hpcai.core.errors import ParseError
from hpcai.parsers import registry
from hpcai.parsers.identify import HEAD_BYTES, describe
from hpcai.parsers.registry import MODULE_OF, read_artefact, reader_of

OWN = {
    "osu": "# OSU MPI Allreduce Latency Test v7.4\n"
    "# Size       Avg Latency(us)\n4             1.50\n8             1.75\n",
    "perf-stat": "# started on Sat Nov 21 10:00:00 2026\n\n"
    "525.86,msec,task-clock,525860000,100.00,0.998,CPUs utilized\n",
    "nsys-os-runtime": "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    "100.0,3000000,2,1500000.0,1500000.0,1000000,2000000,707106.8,poll\n\n",
    "rapl": "monotonic_s,domain,energy_uj,max_energy_range_uj\n"
    "1.0,package-0,5,262143328850\n2.0,package-0,9,262143328850\n",
}  # fmt: skip
SAMPLES = {
    "horovod/keras_nccl_8ranks.json": "horovod-timeline",
    "nvprof/summary_jacobi_k20c_oldformat.csv": "nvprof-summary",
    "nvprof/gputrace_dcgan_fp16_tegrax1.csv": "nvprof-trace",
    "nvprof/metrics_jacobi_k20c.csv": "nvprof-counters",
    "ncu/details_bert_attention_a100.csv": "ncu",
    "nsys/resnet18_cuda_gpu_kern_sum.csv": "nsys-kernels",
    "nsys/resnet18_cuda_api_sum.csv": "nsys-api",
    "nsys/gcn_stats_text.txt": "nsys-kernels",
    "nccl-tests/all_reduce_8xA100_oldformat.log": "nccl-tests",
    "osu/osu_allreduce_np2_float_full.txt": "osu",
    "hpl/HPL_pass.out": "hpl",
    "hplmxp/nvidia_hplmxp_8xH200_pass.out": "hpl-mxp",
    "power/nvidia_smi_query_8xH200_snapshot.csv": "nvidia-smi",
    "power/bmc_two_nodes_total_watts.csv": "node-power",
    "slurm/sacct_transcribed_gh200_4nodes.txt": "sacct",
    "perf/perf_stat_hpl_2ranks_vm.csv": "perf-stat",
    "darshan/own_stdio_only.darshan": "darshan",
}


def agree(found, named):
    return found.tool == named.tool and found.table.equals(named.table)


@pytest.mark.parametrize("tool", OWN)
def test_own_texts_are_told_apart(tmp_path, tool):
    path = tmp_path / "artefact"
    path.write_text(OWN[tool])
    assert agree(read_artefact(path), read_artefact(path, tool))


@pytest.mark.parametrize("name", SAMPLES)
def test_published_samples_are_told_apart(name):
    path = sample(name)
    assert agree(read_artefact(path), reader_of(SAMPLES[name]).read(path))


def test_what_nobody_reads_is_named(tmp_path):
    for kind, path in foreign(tmp_path).items():
        with pytest.raises(ParseError, match="which none of the readers"):
            read_artefact(path)
        assert kind


def test_the_command_prints_csv_and_what_is_missing(tmp_path, monkeypatch, capsys):
    def read(*options):
        monkeypatch.setattr(sys, "argv", ["hpcai", "read", str(path), *map(str, options)])
        return main(), *capsys.readouterr()

    path = tmp_path / "perf.csv"
    path.write_text("100,,instructions,5000,100.00,,\n<not supported>,,cycles,0,100.00,,\n")
    status, output, missing = read()
    assert (status, output.splitlines()[0].startswith("time_s,")) == (0, True)
    assert "not supported" in missing
    assert read("--output", tmp_path / "perf.parquet")[0] == 0
    assert (tmp_path / "perf.parquet").exists()
    status, _, error = read("--tool", "stopwatch")
    assert status == 1
    assert "allowed: amd-smi, dcgm, hlo, horovod-timeline" in error


def test_the_reason_of_a_recognised_reader_is_shown(tmp_path, monkeypatch):
    path = tmp_path / "power.csv"
    path.write_text("timestamp, power.draw [W]\n2026/03/01 10:00:00.000, 10.00 W\n")
    with pytest.raises(ParseError, match="samples without index or uuid"):
        read_artefact(path)
    assert call(monkeypatch, ["read", str(path), "--devices", "1", "--output", str(tmp_path / "out.csv")]) == 0


def test_text_is_never_offered_to_tensorflow(tmp_path, monkeypatch):
    asked = []
    binary = dataclasses.replace(reader_of("tensorflow-profile"), read=asked.append)
    assert binary.binary
    monkeypatch.setattr(registry, "reader_of", lambda name: binary if name == binary.name else reader_of(name))
    path = tmp_path / "prose"
    path.write_text("It was a dark and stormy night.\n")
    with pytest.raises(ParseError):
        read_artefact(path)
    assert not asked


def test_darshan_logs_of_a_folder_are_read_together(tmp_path, monkeypatch):
    log = sample("darshan/own_stdio_only.darshan")
    for name in ("a", "b"):
        (tmp_path / f"{name}.darshan").write_bytes(log.read_bytes())
    out = tmp_path / "out.csv"
    assert call(monkeypatch, ["read", str(tmp_path), "--data-root", "/nowhere", "--output", str(out)]) == 0
    together = out.read_text()
    assert (
        call(
            monkeypatch,
            ["read", *map(str, sorted(tmp_path.glob("*.darshan"))), "--data-root", "/nowhere", "--output", str(out)],
        )
        == 0
    )
    assert out.read_text() == together


def test_timelines_of_a_job_are_read_together(tmp_path, monkeypatch):
    source = sample("horovod/tf_gloo_2ranks_markcycles.json")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "timeline.json").write_bytes(source.read_bytes())
    out = tmp_path / "out.csv"
    assert call(monkeypatch, ["read", str(tmp_path), "--output", str(out)]) == 0
    assert set(pd.read_csv(out)["file"]) == {0, 1}
    assert call(monkeypatch, ["read", str(tmp_path), "--data-root", "/data"]) == 1


def test_traced_operations_of_darshan_are_read_if_asked_for(tmp_path, monkeypatch):
    log, out = sample("darshan/own_dxt.darshan"), tmp_path / "out.csv"
    for options, read_bytes in ((), 4_194_761), (("--data-root", "/scratch/train"), 4_194_304):
        assert call(monkeypatch, ["read", "--tool", "darshan-dxt", str(log), *options, "--output", str(out)]) == 0
        table = pd.read_csv(out)
        assert table.loc[table["operation"] == "read", "bytes"].sum() == read_bytes
    assert "operation" not in read_artefact(log).table
    untraced = sample("darshan/own_stdio_only.darshan")
    assert call(monkeypatch, ["read", "--tool", "darshan-dxt", str(untraced)]) == 1


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_what_is_no_file_is_refused_unopened(tmp_path, monkeypatch, kind):
    path = tmp_path / "place"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(ParseError):
        read_artefact(path)
    assert call(monkeypatch, ["read", str(path)]) == 1


def call(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["hpcai", *words])
    return main()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ["\n", " ", "\t \n", "[ ", "{ ", '"ph" '])
def test_blanks_without_end_are_looked_at_once(text):
    head = (text * HEAD_BYTES)[:HEAD_BYTES].encode()
    assert describe(head)


def test_every_reader_is_the_one_of_its_name():
    assert len(MODULE_OF) == 30
    for name in MODULE_OF:
        assert reader_of(name).name == name
    assert [name for name in MODULE_OF if reader_of(name).slow] == list(MODULE_OF)[-3:]


def test_the_readers_are_shown(monkeypatch, capsys):
    assert call(monkeypatch, ["read", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(MODULE_OF)


def test_a_named_reader_imports_no_other():
    code = "import sys; from hpcai.parsers.registry import reader_of; reader_of('osu'); print(*sys.modules)"
    loaded = call_python(TESTS.parent / "src", "-c", code).split()
    assert "hpcai.parsers.osu" in loaded
    assert not {"hpcai.parsers.likwid", "hpcai.parsers.darshan.log"}.intersection(loaded)


def test_a_reader_is_added_by_one_file(tmp_path):
    library = library_with(tmp_path, "toy_reader.py", "parsers/toy.py")
    path = tmp_path / "loads.txt"
    path.write_text(" 16:41:29 up 1 day,  2:03,  1 user,  load average: 2.50, 1.00, 0.75\n")
    assert call_python(library, "-m", "hpcai", "read", path) == "time_of_day,load_1min\n16:41:29,2.5\n"
    assert "uptime  " in call_python(library, "-m", "hpcai", "read", "--list")


def test_digests_follow_readers():
    source = TESTS.parent / "src"
    closure = import_closure(source / "hpcai/parsers/registry.py", source)
    assert source / "hpcai/parsers/osu.py" in closure


def test_options_belong_to_the_readers_that_take_them(monkeypatch, tmp_path, capsys):
    path = tmp_path / "power.csv"
    path.write_text("timestamp, power.draw [W]\n2026/03/01 10:00:00.000, 10.00 W\n")
    for options in (
        ["--tool", "osu", "--devices", "1"],
        ["--devices", "1", "--unit", "W"],
        ["--data-root", "/x", "--unit", "W"],
    ):
        assert call(monkeypatch, ["read", str(path), *options]) == 1
        assert "allowed: with one file of" in capsys.readouterr().err


def test_no_module_names_a_reader():
    """Modules that choose among readers: the registry, identification, and the command line."""
    library = TESTS.parent / "src/hpcai"
    own = {library.parent / f"{module.replace('.', '/')}.py" for module in MODULE_OF.values()}
    others = [path for path in (*(library / "parsers").rglob("*.py"), library / "__main__.py") if path not in own]
    assert len(others) > 30
    names = {path: {word for _, word in words(ast.parse(path.read_text()))} & set(MODULE_OF) for path in others}
    assert {str(path.relative_to(library)): found for path, found in names.items() if found} == {}
