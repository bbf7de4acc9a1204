"""The tool of a profiled run: found, missing with a reason, and wrapped around the ranks."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from unit.training.training_plans import make_plan

from hpcai.data.stage_folder import every_stage
from hpcai.parsers.perf_stat import read_perf_stat
from hpcai.profiles.counters import OF_THE_HOST
from hpcai.profiles.counters.processor import NO_WORK_EVENTS
from hpcai.profiles.instrument import NO_INSTRUMENT, Instrument, Missing
from hpcai.profiles.io.darshan_library import DarshanLibrary, find_darshan, prepare_darshan
from hpcai.profiles.kernels import OPERATIONS
from hpcai.profiles.kind import find_instrument
from hpcai.profiles.timeline import NO_TIMELINE
from hpcai.training.first_rank import CONTROL

GPU = {
    "device": {"kind": "gpu"},
    "accelerators_per_node": 2,
}


def plan(profile, ranks=2, **machine):
    made = make_plan(ranks)
    fields = made.model_dump(mode="json")
    fields["machine"].update(machine)
    return type(made).model_validate({**fields, "kind": "profiled", "profile": profile})


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """An empty PATH, and a way to add programs that print a text."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def add(name, output="", status=0):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{output}'\nexit {status}\n")
        (tmp_path / name).chmod(stat.S_IRWXU)

    return add


def test_a_single_rank_has_no_timeline():
    assert find_instrument(plan("timeline")).raw == ("timeline.json",)
    missing = find_instrument(plan("timeline", ranks=1))
    assert "a single rank exchanges no gradients" in missing.reason


def test_without_horovod_there_is_no_timeline():
    found = plan("timeline")
    other = found.model_copy(update={"point": found.point.model_copy(update={"engine": "tensorflow"})})
    assert find_instrument(other) == Missing(NO_TIMELINE(engine="tensorflow"))
    kernels = find_instrument(other.model_copy(update={"profile": "kernels"}))
    assert kernels.step_profiler == "tensorflow"
    assert "HOROVOD_TIMELINE" not in kernels.environment


def test_on_processors_tensorflow_tells_the_times_of_kernels():
    found = find_instrument(plan("kernels"))
    assert (found.tool, found.step_profiler) == ("TensorFlow profiler", "tensorflow")
    assert "HOROVOD_TIMELINE" in found.environment
    assert "HOROVOD_TIMELINE" not in find_instrument(plan("kernels", ranks=1)).environment
    wanted = find_instrument(plan("kernels", profilers={"kernels": "nsys"}))
    assert wanted == Missing("nsys needs an accelerator")


@pytest.mark.parametrize(
    ("capability", "kernels", "counters"),
    [("6.0", "nvprof", "nvprof"), ("7.0", "nvprof", "nvprof"), ("7.5", "nvprof", "ncu"), ("9.0", "nsys", "ncu")],
)
def test_the_compute_capability_chooses_the_tool(programs, capability, kernels, counters):
    programs("nvidia-smi", capability)
    assert find_instrument(plan("kernels", **GPU)) == Missing(f"{kernels} is not on the PATH; load its module")
    for name in ("nvprof", "nsys", "ncu"):
        programs(name)
    timed, counted = find_instrument(plan("kernels", **GPU)), find_instrument(plan("counters", **GPU))
    assert timed.first_rank_prefix[0].endswith(kernels)
    assert any(word.endswith(counters) for word in counted.first_rank_prefix)
    assert (timed.step_profiler, counted.step_profiler) == ("cuda", "cuda")


def test_a_tool_that_is_named_needs_no_capability(programs):
    named = {**GPU, "profilers": {"kernels": "tensorflow"}}
    found = find_instrument(plan("kernels", **named))
    assert (found.tool, found.step_profiler) == ("TensorFlow profiler", "tensorflow")
    assert found.raw == (OPERATIONS,)


@pytest.mark.parametrize("tool", ["perf", "likwid"])
def test_counters_of_the_host_are_not_those_of_an_accelerator(programs, tool):
    for name in ("perf", "likwid-perfctr"):
        programs(name, "1000,,instructions,1,100.00,,\nMEM  Memory bandwidth in MBytes/s")
    found = find_instrument(plan("counters", **GPU, profilers={"counters": tool}))
    assert found == Missing(OF_THE_HOST(tool=tool))


def test_rocprofv3_is_put_around_the_first_rank_alone(programs, tmp_path):
    named = {**GPU, "profilers": {"kernels": "rocprofv3"}}
    assert isinstance(find_instrument(plan("kernels", **named)), Missing)
    programs("rocprofv3", "'\"$*\"'")
    words = find_instrument(plan("kernels", **named)).wrap(["python", "-m", "rank"], tmp_path)
    assert words[words.index("--") :] == ["--", "python", "-m", "rank"]
    (prefix,) = [words[words.index("sh") : words.index("--")]]
    command, shell = [*prefix, "python", "-m", "rank"], {"PATH": "/usr/bin:/bin"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=shell).stdout
    assert str(tmp_path.resolve()) in said
    assert said.strip().endswith("-- python -m rank")


def test_an_unknown_accelerator_is_not_guessed(programs):
    assert "nvidia-smi is not on the PATH" in find_instrument(plan("kernels", **GPU)).reason
    programs("nvidia-smi", "No devices were found", 6)
    assert "No devices were found" in find_instrument(plan("counters", **GPU)).reason


def test_counters_of_a_processor_need_a_perf_that_counts(programs):
    assert "perf is not on the PATH" in find_instrument(plan("counters")).reason
    programs("perf", "1000,,instructions,1,100.00,,")
    assert find_instrument(plan("counters")).tool == "perf"
    programs("perf", "", 255)
    assert "perf counts no instructions" in find_instrument(plan("counters")).reason


INTEL = "fp_arith_inst_retired.scalar_single fp_arith_inst_retired.512b_packed_single uncore_imc_0/cas_count_read/"
ZEN4 = Path(__file__).resolve().parents[2] / "data/perf/zen4_list.txt"
ZEN2 = "fp_ret_sse_avx_ops.all amd_df/dram_channel_data_controller_0/ amd_df/dram_channel_data_controller_1/"


@pytest.mark.parametrize(
    ("listed", "work", "memory"),
    [
        (INTEL, ["fp_arith_inst_retired.scalar_single"], "uncore_imc/cas_count_read/,uncore_imc/cas_count_write/"),
        (ZEN2, ["fp_ret_sse_avx_ops.all"], ",".join(ZEN2.split()[1:])),
        ("umc_cas_cmd.rd umc_cas_cmd.wr", [], "umc_cas_cmd.rd,umc_cas_cmd.wr"),
        (ZEN4.read_text(), [], "umc_cas_cmd.rd,umc_cas_cmd.wr"),
    ],
)
def test_perf_asks_for_the_events_that_the_processor_has(programs, listed, work, memory):
    programs("perf", listed)
    found = find_instrument(plan("counters"))
    words = found.first_rank_prefix
    assert memory in words
    assert words.index("-a") < words.index(memory)
    assert all(any(event in word.split(",") for word in words) for event in work)
    assert sum(CONTROL in word for word in words) == 2
    assert (found.step_profiler, found.raw[0]) == ("control", "perf.csv")
    assert (NO_WORK_EVENTS() in found.missing) == (not work)


def test_memory_traffic_that_the_kernel_forbids_is_said_and_likwid_may_tell_it(programs, tmp_path):
    programs("perf", INTEL)
    script = (
        (tmp_path / "perf").read_text().replace("#!/bin/sh\n", '#!/bin/sh\ncase "$*" in *" -a "*) exit 255;; esac\n')
    )
    (tmp_path / "perf").write_text(script)
    found = find_instrument(plan("counters"))
    assert "perf_event_paranoid" in found.missing
    assert "-a" not in found.first_rank_prefix
    programs("likwid-perfctr", "MEM  Memory bandwidth in MBytes/s")
    found = find_instrument(plan("counters"))
    assert (found.tool, found.raw) == ("LIKWID", ("likwid.csv",))
    assert found.first_rank_prefix[-1] == "MEM"
    programs("likwid-perfctr", "no such processor")
    assert find_instrument(plan("counters")).tool == "perf"
    assert "has no group" in find_instrument(plan("counters", profilers={"counters": "likwid"})).reason


def test_a_tool_is_told_when_the_steps_begin_and_end(tmp_path):
    """perf itself, which counts the time of the process in any virtual machine."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed here")
    code = (
        "import time; from pathlib import Path; from hpcai.training.step_profiler import step_profiler\n"
        "end = time.monotonic() + 0.5\n"
        "while time.monotonic() < end: pass\n"
        "profiler = step_profiler('control', Path(), 0)\n"
        "for step in range(4):\n"
        "    profiler.before_step(step)\n"
        "    end = time.process_time() + 0.1\n"
        "    while time.process_time() < end: pass\n"
        "profiler.close()\n"
        "end = time.monotonic() + 0.5\n"
        "while time.monotonic() < end: pass\n"
    )
    count = ("stat", "-x,", "-D", "-1", f"--control=fd:{CONTROL}", "-e", "task-clock", "-o")
    prefix = (perf, *count, "{raw}/outer.csv", perf, *count, "{raw}/inner.csv")
    command = Instrument("perf", first_rank_prefix=prefix).wrap([sys.executable, "-c", code], tmp_path)
    subprocess.run(command, env={**os.environ, "HOROVOD_RANK": "0"}, check=True, timeout=120)
    for name in ("outer.csv", "inner.csv"):
        clock_s = read_perf_stat(tmp_path / name).table["value"].item()
        # Steps 2 and 3; TensorFlow's import, the loops around them and the first steps take seconds.
        assert 0.19 < clock_s < 0.6, name


def test_darshan_is_found_by_setting_module_or_path(tmp_path):
    library = tmp_path / "lib/libdarshan.so"
    assert "was not found: load Darshan's module" in find_darshan(None, {})
    assert "is not a file" in find_darshan(str(library), {})
    library.parent.mkdir()
    library.touch()
    expected = DarshanLibrary(library)
    assert find_darshan(str(library), {}) == expected
    assert find_darshan(None, {"DARSHAN_ROOT": str(tmp_path)}) == expected
    assert find_darshan(None, {"LD_LIBRARY_PATH": f"/nowhere:{library.parent}"}) == expected


def test_darshan_watches_the_data_and_nothing_else(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "real")
    scratch = every_stage(tmp_path / "scratch+1")
    prepare_darshan(tmp_path, [tmp_path / "data", scratch, tmp_path / "with blank"])
    included = (tmp_path / "darshan.conf").read_text().splitlines()[-1]
    pattern = included.split(" ")[1]  # Darshan ends the pattern at a blank
    for opened in ("data/x", "real/x", "scratch+1@n1/x", "scratch+1@n2/x", "with blank/x"):
        assert re.match(pattern, f"{tmp_path}/{opened}"), opened
    assert not re.match(pattern, f"{tmp_path}/other/x")
    assert not re.match(pattern, f"{tmp_path}/scratch+1@n1")
    assert len(list((tmp_path / "darshan").glob("*/*/*"))) == 2


def test_ranks_under_darshan_differ_in_their_name_alone(tmp_path):
    prepare_darshan(tmp_path, [])
    program = [sys.executable, "-c", "import os; print(os.environ['LOGNAME'], os.getpid(), os.environ['KEPT'])"]
    command = ["sh", str(tmp_path / "own_name.sh"), *program]
    printed = [
        subprocess.run(command, env={"LOGNAME": "me", "KEPT": "a b"}, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    names = [line.split()[0] for line in printed]
    assert [line.split() for line in printed] == [[name, name.removeprefix("me."), "a", "b"] for name in names]
    assert len(set(names)) == 2


def test_a_tool_is_put_around_the_first_rank_alone(tmp_path):
    tool = Instrument("tool", first_rank_prefix=("env", "WATCHED={raw}"))
    program = [sys.executable, "-c", "import os; print(os.environ.get('WATCHED', 'alone'))"]
    command = tool.wrap(program, tmp_path)
    printed = [
        subprocess.run(command, env={**os.environ, "HOROVOD_RANK": rank}, capture_output=True, text=True, check=True)
        for rank in ("0", "1")
    ]
    assert [one.stdout.strip() for one in printed] == [str(tmp_path), "alone"]


def test_a_prefix_is_put_around_every_rank(tmp_path):
    library = DarshanLibrary(tmp_path / "libdarshan.so")
    command = Instrument("Darshan", prefix=library.command).wrap(["program"], tmp_path)
    assert command[:3] == ["sh", f"{tmp_path}/own_name.sh", "env"]
    assert command[-1] == "program"
    assert f"DARSHAN_LOGPATH={tmp_path}/darshan" in command
    job = next(word for word in command if word.startswith("HPCAI_DARSHAN_JOB=")).partition("=")[2]
    assert job.isdigit()
    assert int(job) > 0


def test_a_failing_conversion_leaves_its_words(tmp_path):
    Instrument("tool", afterwards=(("sh", "-c", "echo no such report >&2; exit 3"),)).finish(tmp_path)
    assert "no such report" in (tmp_path / "output.log").read_text()


def test_a_timed_run_has_no_instrument():
    assert find_instrument(make_plan(1)) is NO_INSTRUMENT
