"""Compare real runs of HPL with the model's predictions from the measured rates of its routines."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.disturbance import Tolerance
from hpcai.core.logs import log_to
from hpcai.machine.hpl.blas_rates import BlasReport
from hpcai.machine.hpl.report import HplReport
from hpcai.metrics.run_tables import join_tables, write_tables
from hpcai.predict.hpl_parts import compare_parts
from hpcai.predict.hpl_validation import validate_hpl
from hpcai.records.files import read_part

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given = snakemake.input
tolerance = Tolerance.model_validate(snakemake.params.tolerance)
rates = [read_part(BlasReport, Path(file)).frame(file, tolerance) for file in given.rates] or [BlasReport().frame("")]
runs = [read_part(HplReport, Path(file)).frame(file) for file in given.runs] or [HplReport().frame("")]
rates, runs = join_tables(rates), join_tables(runs)
tables = {"hpl_rates": rates, "hpl_validation": validate_hpl(runs, rates), "hpl_parts": compare_parts(runs, rates)}
write_tables(tables, Path(snakemake.output[0]).parent)
