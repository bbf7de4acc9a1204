"""Repeat the attack on HPC-AI Bench: `python tests/attack/run.py --seed 1 2 --kind changed faults`.

Prints a table of what was tried and what became of it; ends with 1 if a wrong number, a lost or doubled run, a hang or
a traceback was among it.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attack import bad_input, changed, faults, hostile, users
from attack.study import copy_study, make_study
from attack.tally import Tally, markdown

COUNTS = {"changed": 24, "hostile": 4, "input": 40, "faults": 8, "users": 1}
"""So many attacks of each group of files, readers, files of settings, and ways to end a run."""


def main() -> int:
    """Make what is attacked, attack, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="each repeats all of it with other draws")
    parser.add_argument("--kind", nargs="+", choices=COUNTS, default=list(COUNTS))
    parser.add_argument("--count", type=int, help="attacks of each group, instead of what each kind takes")
    parser.add_argument("--study", type=Path, help="folder of a finished study with results/ and data/; it is copied")
    parser.add_argument("--folder", type=Path, help="where to work; a study that is there already is attacked again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hpcai-attack-") as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        tallies = [_attack(kind, seed, folder, given) for seed in given.seed for kind in given.kind]
    print(f"\nseeds {', '.join(map(str, given.seed))}\n\n{markdown(_joined(tallies))}")
    bad = [f"{tally.kind}: {case.target}: {case.what}" for tally in tallies for case in tally.bad]
    print("\n".join(["", f"{len(bad)} of them are not as they should be", *bad]))
    return 1 if bad else 0


def _attack(kind: str, seed: int, folder: Path, given: argparse.Namespace) -> Tally:
    started_s, numbers = time.monotonic(), random.Random(f"{kind} {seed}")
    count = given.count or COUNTS[kind]
    with tempfile.TemporaryDirectory(prefix=f"hpcai-attack-{kind}-") as own:
        attacks: dict[str, Callable[[], Tally]] = {
            "changed": lambda: changed.attack(_copied(folder, given, Path(own)), numbers, count),
            "hostile": lambda: hostile.attack(Path(own), numbers, count),
            "input": lambda: bad_input.attack(Path(own), numbers, count),
            "faults": lambda: faults.attack(Path(own), numbers, count),
            "users": lambda: users.attack(numbers, count),
        }
        tally = attacks[kind]()
    print(f"{kind}, seed {seed}: {len(tally.cases)} attacks in {time.monotonic() - started_s:.0f} s", flush=True)
    return tally


def _copied(folder: Path, given: argparse.Namespace, own: Path) -> Path:
    return copy_study(given.study.resolve() if given.study else make_study(folder / "study"), own / "study")


def _joined(tallies: list[Tally]) -> list[Tally]:
    """Join the same kind of several seeds."""
    joined: dict[str, Tally] = {}
    for tally in tallies:
        joined.setdefault(tally.kind, Tally(tally.kind)).cases.extend(tally.cases)
    return list(joined.values())


if __name__ == "__main__":
    sys.exit(main())
