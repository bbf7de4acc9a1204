"""Where this folder and tests/short_measurements are on PYTHONPATH, ranks of runs are those of stub_rank.py.

Nothing of it is in the program under test: it starts, pins, cleans up and ends its ranks as always. The machine is
measured for seconds; all other Python programs are as ever.
"""

import sys

import shorter

if sys.orig_argv[1:3] == ["-m", "hpcai.training"]:
    import stub_rank

    sys.modules["hpcai.training.rank"] = stub_rank
else:
    shorter.shorten()
