"""One test of HPL, and the input file with which ``hpcc`` or HPL itself runs it."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

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


class HplTest(BaseModel):
    """One linear system and its process grid."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    order: int = Field(ge=1)
    block: int = Field(ge=1)
    process_rows: int = Field(1, ge=1)
    process_columns: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _check_block(self) -> "HplTest":
        if self.block > self.order:
            raise ValueError(f"the block ({self.block}) must not be larger than the order ({self.order})")
        return self

    @property
    def processes(self) -> int:
        """Number of processes in the grid."""
        return self.process_rows * self.process_columns

    @property
    def words(self) -> str:
        """Short name for file names and messages."""
        return f"{self.order}-{self.block}-{self.process_rows}x{self.process_columns}"


def write_input(test: HplTest, repeats: int = 1) -> str:
    """Return the text of ``hpccinf.txt`` for one test, whose system is solved several times.

    Without look-ahead, matching a step model without overlap. L1 and U are not transposed, so that every grid calls
    DGEMM and DTRSM in the measured forms.
    """
    orders = " ".join([str(test.order)] * repeats)
    return FORM.format(threshold=THRESHOLD, repeats=repeats, orders=orders, **test.model_dump())
