"""Where this folder and tests/short_measurements are on PYTHONPATH, ranks of runs are those of stub_rank.py.

Nothing of it is in the program under test: it starts, pins, cleans up and ends its ranks as always. The machine is
measured for seconds; all other Python programs are as ever. Two variables are for campaigns of many runs: with
STUB_RANKS_ONLY no rank loads TensorFlow, so that none is trained for real; with STUB_NODES each run locks its own
folder instead of this node, as runs on nodes of their own do.
"""

import os
import sys
import types

import shorter

if sys.orig_argv[1:3] == ["-m", "hpcai.training"]:
    import stub_rank

    sys.modules["hpcai.training.rank"] = stub_rank
    if os.environ.get("STUB_RANKS_ONLY"):
        engine = "hpcai.training.collectives.horovod"
        sys.modules[engine] = types.ModuleType(engine)
else:
    shorter.shorten()
if sys.orig_argv[2:3] == ["measure"] and os.environ.get("STUB_NODES"):
    os.environ["HPCAI_LOCK_FOLDER"] = sys.orig_argv[sys.orig_argv.index("--folder") + 1]
