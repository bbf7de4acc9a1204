"""Where this folder is on PYTHONPATH, ranks of runs are those of stub_rank.py; all other Python programs are as ever.

Nothing of it is in the program under test: it starts, pins, cleans up and ends its ranks as always.
"""

import sys

if sys.orig_argv[1:3] == ["-m", "hpcai.training"]:
    import stub_rank

    sys.modules["hpcai.training.rank"] = stub_rank
