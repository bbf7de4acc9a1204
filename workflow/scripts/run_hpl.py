"""Run a real HPL on this machine, keep its raw output, and measure the rates of its routines in turn with it."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.disturbance import Tolerance
from hpcai.core.logs import log_to
from hpcai.core.sealed import seal
from hpcai.machine.hpl.blas_rates import RatesInTurn
from hpcai.machine.hpl.run import find_hpl_blas, run_hpl

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
asked, made, built = snakemake.params, snakemake.output, next(iter(snakemake.input), None)
# As a rule parameter, another limit would cause a new measurement.
tolerance = Tolerance.model_validate(snakemake.config["limits"]["disturbance"])
rates = RatesInTurn(asked.tests, tolerance, find_hpl_blas(asked.command, built))
raw = Path(made.report).with_suffix("")
text = run_hpl(asked.tests, raw, command=asked.command, build=built, repeats=asked.repeats, take_rates=rates.take)
for file, found in {made.report: text, made.rates: rates.report().model_dump_json(indent=1)}.items():
    Path(file).write_bytes(seal(f"{found}\n".encode()))
