"""How often a test of HPL is solved, and the input file with which ``hpcc`` or HPL itself runs it."""

from collections.abc import Sequence

from hpcai.config.prediction import MOST_SOLUTIONS, HplTest
from hpcai.parsers.hpl import operations

NAME, OWN_NAME = "hpccinf.txt", "HPL.dat"
"""Of hpcc, and of HPL itself, which has the same lines and reads no further than it needs."""
THRESHOLD = 16.0
"""Threshold of the scaled residual, as in HPL's own example."""
FORM = """\
HPL through hpcc: lines 1 to 4 are not read
one test per start, so that its wall time, its processor time and the summary belong together
HPL.out
8
{repeats}            number of orders
{orders}
1            number of blocks
{block}
0            processes row by row
1            number of grids
{process_rows}
{process_columns}
{threshold}         threshold of the residual
1            panel factorisations
2            right-looking
1            smallest panels
4
1            divisions of a panel
2
1            recursive factorisations
2            right-looking
1            broadcasts
1            increasing ring, modified
1            depths of look-ahead
0            none: a step ends before the next one begins
2            swapping: mixed
64           swapping threshold
1            L1 not transposed
1            U not transposed
1            equilibration
8            alignment in doubles
-            not read
0            further orders of PTRANS
0
0            further blocks of PTRANS
0
"""


def count_solutions(tests: Sequence[HplTest], repeats: int) -> dict[HplTest, int]:
    """Return how often a start of each test solves its system: all starts compute as long, if 20 solutions suffice.

    The speed of a shared machine changes within seconds, which a start has to outlast for its median to tell.

    Parameters
    ----------
    tests
        All tests of a study.
    repeats
        Solutions of the one that computes longest, by operations per process.
    """
    work = {test: operations(test.order) / test.processes for test in tests}
    longest = max(work.values(), default=0.0)
    return {test: min(max(repeats, round(repeats * longest / one)), MOST_SOLUTIONS) for test, one in work.items()}


def write_input(test: HplTest, repeats: int = 1) -> str:
    """Return the text of ``hpccinf.txt`` for one test, whose system is solved several times.

    Without look-ahead, matching a step model without overlap. L1 and U are not transposed, so that every grid calls
    DGEMM and DTRSM in the measured forms.
    """
    orders = " ".join([str(test.order)] * repeats)
    return FORM.format(threshold=THRESHOLD, repeats=repeats, orders=orders, **test.model_dump())
