"""Fewer repetitions and message sizes, for tests to which any number will do; each measures all that it always does."""

import importlib
import sys

AGAIN_S = 0.5
"""Limit of what a ceiling is repeated for until its best repetitions agree: beside other tests they seldom do."""
CEILING = ("--repeats", "2")
OPTIONS = {
    "hpcai.machine.ceilings.gemm": CEILING,
    "hpcai.machine.ceilings.convolution": CEILING,
    "hpcai.training.allreduce_bench": ("--repeats", "4", "--sizes", "4,1024,65536,1048576"),
}


def shorten() -> None:
    """Add options to the command line of a program that measures the machine."""
    if sys.orig_argv[1:2] != ["-m"] or sys.orig_argv[2] not in OPTIONS:
        return
    options = OPTIONS[sys.orig_argv[2]]
    if options is CEILING:
        sys.argv += options  # the last ones count
        importlib.import_module("hpcai.machine.ceilings.agreement").LONGEST_S = AGAIN_S
    else:
        sys.argv[1:1] = options  # an acceptance needs the sizes that it asks for
