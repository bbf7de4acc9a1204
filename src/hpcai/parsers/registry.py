"""All readers by the name of their tool, and reading of an artefact whose tool is not named."""

from collections.abc import Callable, Sequence
from pathlib import Path

from hpcai.core.errors import ParseError
from hpcai.parsers.darshan.log import read_darshan_logs, read_darshan_segments
from hpcai.parsers.dcgm import read_dcgm_dmon
from hpcai.parsers.hlo.text import read_hlo_text
from hpcai.parsers.horovod.timeline import read_timeline
from hpcai.parsers.hpl import read_hpl
from hpcai.parsers.hpl_mxp import read_hpl_mxp
from hpcai.parsers.identify import is_text, looks_like
from hpcai.parsers.likwid import read_likwid
from hpcai.parsers.mllog_events import read_mllog_events
from hpcai.parsers.nccl_tests import read_nccl_tests
from hpcai.parsers.node_power import read_node_power
from hpcai.parsers.nsight.compute import read_ncu
from hpcai.parsers.nsight.systems import (
    read_nsys_api,
    read_nsys_kernels,
    read_nsys_memory,
    read_nsys_os_runtime,
)
from hpcai.parsers.nvidia_smi import read_nvidia_smi
from hpcai.parsers.nvml_samples import read_nvml_samples
from hpcai.parsers.nvprof.reader import read_nvprof_counters, read_nvprof_summary, read_nvprof_trace
from hpcai.parsers.osu import read_osu
from hpcai.parsers.perf_stat import read_perf_stat
from hpcai.parsers.power_table import read_power_table
from hpcai.parsers.rapl import read_rapl
from hpcai.parsers.reading import Reading
from hpcai.parsers.slurm_energy import read_slurm_energy
from hpcai.parsers.tensorflow_profile import read_tensorflow_profile

JOB_READERS: dict[str, Callable[[Sequence[Path], str | None], Reading]] = {
    "darshan": read_darshan_logs,
    "darshan-dxt": read_darshan_segments,
}
"""What reads the logs of a job together, given its logs and the folder of its data."""
READERS: dict[str, Callable[[Path], Reading]] = {
    "horovod-timeline": read_timeline,
    "nvprof-summary": read_nvprof_summary,
    "nvprof-trace": read_nvprof_trace,
    "nvprof-counters": read_nvprof_counters,
    "ncu": read_ncu,
    "nsys-kernels": read_nsys_kernels,
    "nsys-memory": read_nsys_memory,
    "nsys-api": read_nsys_api,
    "nsys-os-runtime": read_nsys_os_runtime,
    "hlo": read_hlo_text,
    "perf-stat": read_perf_stat,
    "likwid": read_likwid,
    "nccl-tests": read_nccl_tests,
    "osu": read_osu,
    "hpl": read_hpl,
    "hpl-mxp": read_hpl_mxp,
    "nvidia-smi": read_nvidia_smi,
    "dcgm": read_dcgm_dmon,
    "node-power": read_node_power,
    "power-table": read_power_table,
    "nvml": read_nvml_samples,
    "rapl": read_rapl,
    "sacct": read_slurm_energy,
    "mllog": read_mllog_events,
    "darshan": lambda path: read_darshan_logs([path], None),
    "darshan-dxt": lambda path: read_darshan_segments([path], None),
    "tensorflow-profile": read_tensorflow_profile,
}
"""Each refuses the output of every other tool; the slow ones stand last."""
TRACE = "a Chrome trace (Horovod timeline)"
RECOGNISED = {
    "an nvprof summary": "nvprof-summary",
    "an nvprof GPU trace": "nvprof-trace",
    "an nvprof table of metrics": "nvprof-counters",
    "an nvprof table of events": "nvprof-counters",
    "a table of Nsight Compute": "ncu",
    "HLO text of XLA": "hlo",
    "output of perf stat": "perf-stat",
    "output of LIKWID": "likwid",
    "output of nccl-tests": "nccl-tests",
    "output of OSU Micro-Benchmarks": "osu",
    "output of HPL": "hpl",
    "output of HPL-MxP": "hpl-mxp",
    "a query of nvidia-smi": "nvidia-smi",
    "output of dcgmi dmon": "dcgm",
    "a log of node power": "node-power",
    "a table by time": "power-table",
    "a table of sacct": "sacct",
    "an MLPerf log": "mllog",
}
"""What a file looks like, and the reader whose reason is shown if nobody takes it."""


def read_artefact(path: Path, tool: str | None = None) -> Reading:
    """Read an artefact, of a tool that is named or that is found by trying all.

    Raises
    ------
    ParseError
        If the named reader, or all of them, refuse the file.
    """
    if not path.is_file():
        raise ParseError(f"{path}: found {looks_like(path)}, expected a file that a tool wrote; name one")
    looks = looks_like(path)
    if tool is None and looks == TRACE:
        tool = "horovod-timeline"  # may have gigabytes: it is not offered to the others
    if tool is not None:
        return READERS[tool](path)
    text = is_text(path)
    reasons: dict[str, str] = {}
    for name, reader in READERS.items():
        if name == "darshan-dxt":
            continue  # every log is one of counts, with or without a trace: the trace has to be asked for
        if text and name == "tensorflow-profile":
            continue  # a protocol buffer is never text
        try:
            return reader(path)
        except ParseError as error:
            reasons[name] = str(error)
    own = RECOGNISED.get(looks)
    raise ParseError(
        f"{path}: found {looks}, which none of the readers ({', '.join(READERS)}) takes; "
        + (f"{own} says: {reasons[own]}" if own else "name the tool to see what its reader says")
    )


def read_jobs_logs(paths: Sequence[Path], data_root: str | None = None, tool: str = "darshan") -> Reading:
    """Read Darshan logs together: those of one job have one log for each process.

    Parameters
    ----------
    paths
        Logs, or folders with logs (``*.darshan``) anywhere below.
    data_root
        Folder of the dataset; None: all files.
    tool
        One of `JOB_READERS`.

    Raises
    ------
    ParseError
        If there is no log, or none that can be read.
    """
    logs = [log for path in paths for log in (sorted(path.rglob("*.darshan")) if path.is_dir() else [path])]
    if not logs:
        raise ParseError(f"{paths[0]}: found a folder without *.darshan, expected Darshan logs; name the file to read")
    return JOB_READERS[tool](logs, data_root)
