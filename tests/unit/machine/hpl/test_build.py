"""HPL from its source: a stand-in with the same steps, what is refused, and a real one where the source is."""

import hashlib
import json
import os
import shutil
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from unit.machine.hpl.test_run import GOOD, HPL_PART
from unit.parsers.test_hpl import TIMERS

from hpcai.machine.hpl import run as hpl_run
from hpcai.machine.hpl.build import (
    FAILED,
    NO_COMPILER,
    NO_CONFIGURE,
    NO_SOURCE,
    OTHER_SOURCE,
    TIMED,
    HplBuild,
    build_hpl,
)
from hpcai.machine.hpl.report import HplReport

MAKEFILE = "all:\\n\\tmkdir -p testing\\n\\tcp xhpl.sh testing/xhpl\\n"
CONFIGURE = f"#!/bin/sh\nprintf '{MAKEFILE}' > Makefile\necho \"$*\" > configured\n"
ASKED = [{"order": 2000, "block": 64}]


@pytest.fixture(autouse=True)
def compiler(tmp_path, monkeypatch):
    """Put an `mpicc` and an `mpirun` on the PATH that compile and start nothing."""
    for name, text in (
        ("mpicc", "echo gcc 12"),
        ("mpirun", 'while [ "$1" != -np ]; do shift; done; shift 2; exec "$@"'),
    ):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def archive(folder: Path, **files: str) -> tuple[str, str]:
    """Return path and checksum of an archive of a source tree."""
    root = folder / "tree/hpl-2.3"
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text)
        (root / name.replace("_", ".")).chmod(0o755)
    path = folder / "hpl.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(root, "hpl-2.3")
    return str(path), hashlib.sha256(path.read_bytes()).hexdigest()


def build(source: str, folder: Path, sha256: str) -> HplBuild:
    return HplBuild.model_validate_json(build_hpl(source, folder, sha256))


def test_a_source_is_compiled_and_run(tmp_path):
    part = HPL_PART.format(**GOOD).partition("HPL_time")[0].replace("||Ax-b", f"{TIMERS.replace('1.75', '1.10')}||Ax-b")
    program = f"#!/bin/sh\ngrep -q 2000 HPL.dat || exit 5\ncat > HPL.out <<'END'\n{part}END\n"
    source, sha256 = archive(tmp_path, configure=CONFIGURE, xhpl_sh=program)
    built = build(source, tmp_path / "build", sha256)
    assert (built.reason, Path(built.program).name, built.compiler) == ("", "xhpl", "gcc 12")
    assert TIMED in Path(built.program).parents[1].joinpath("configured").read_text()
    report = tmp_path / "build.json"
    report.write_text(built.model_dump_json())
    found = HplReport.model_validate_json(hpl_run.run_hpl(ASKED, tmp_path / "raw", build=report))
    (run,) = found.runs
    assert (run.panel_time_s, run.update_time_s, run.exchange_time_s, run.substitution_time_s) == (
        0.12,
        1.1,
        0.24,
        0.02,
    )
    assert (run.verdict, run.measured_rate_flop_per_s) == ("passed", pytest.approx(3.988e9))
    assert "-np 1" in run.command


def test_what_cannot_be_built_is_a_reason_and_no_crash(tmp_path, monkeypatch):
    source, sha256 = archive(tmp_path, configure="#!/bin/sh\necho BLAS not found\nexit 1\n")
    failed = build(source, tmp_path / "build", sha256)
    assert FAILED.find_in(failed.reason)["words"] == "BLAS not found"
    report = tmp_path / "build.json"
    report.write_text(failed.model_dump_json())
    found = HplReport.model_validate_json(hpl_run.run_hpl(ASKED, tmp_path / "raw", build=report))
    assert failed.reason in found.reason
    assert found.runs[0].measured_time_s is None
    other = build(source, tmp_path / "build", "0" * 64)
    assert OTHER_SOURCE.find_in(other.reason)["found"] == sha256
    assert not (tmp_path / "build/source").exists()
    assert NO_SOURCE.find_in(build("/nowhere/hpl.tar.gz", tmp_path / "build", sha256).reason)
    monkeypatch.setenv("PATH", "/nowhere")
    assert NO_COMPILER(program="mpicc") in build(source, tmp_path / "build", sha256).reason


def test_a_source_is_downloaded_and_verified(tmp_path):
    source, sha256 = archive(tmp_path, configure=CONFIGURE, xhpl_sh="#!/bin/sh\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(Path(source).parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/hpl.tar.gz"
        assert build(address, tmp_path / "build", sha256).reason == ""
        assert "0" * 64 in build(address, tmp_path / "build", "0" * 64).reason
        server.shutdown()
    assert not (tmp_path / "build/source").exists()


def test_a_source_without_configure_is_refused(tmp_path):
    source, sha256 = archive(tmp_path, Make_top="")
    assert NO_CONFIGURE.find_in(build(source, tmp_path / "build", sha256).reason)


@pytest.mark.slow
def test_the_authors_source_is_compiled_and_solves_a_system(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(":")[2])
    source = os.environ.get("HPCAI_HPL_SOURCE")
    if source is None or shutil.which("mpicc") is None:
        pytest.skip("needs an MPI compiler, a BLAS to link, and HPCAI_HPL_SOURCE=/path/to/hpl-2.3.tar.gz")
    built = build(source, tmp_path / "build", hashlib.sha256(Path(source).read_bytes()).hexdigest())
    assert built.reason == ""
    assert built.library
    (tmp_path / "build.json").write_text(json.dumps(built.model_dump()))
    asked = [{"order": 500, "block": 64}, {"order": 500, "block": 64, "process_columns": 2}]
    found = HplReport.model_validate_json(hpl_run.run_hpl(asked, tmp_path / "raw", build=tmp_path / "build.json"))
    assert [run.verdict for run in found.runs] == ["passed", "passed"]
    assert all(run.residual < run.threshold for run in found.runs)
    assert all(run.update_time_s <= run.measured_time_s + 0.01 for run in found.runs)
