"""What became of each attack, and the table of all."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["noticed", "survived", "harmless", "silent", "traceback"]
BAD: tuple[Verdict, ...] = ("silent", "traceback")
"""silent: a wrong number, a lost or doubled run, code that ran or a wait without end, and no word about it."""
COLUMNS = ("tried", "noticed or survived", "harmless", "silent", "tracebacks")


@dataclass(frozen=True)
class Case:
    """One attack: what was attacked, what was done, and what came of it."""

    target: str
    what: str
    verdict: Verdict
    words: str = ""


@dataclass
class Tally:
    """All attacks of one kind."""

    kind: str
    cases: list[Case] = field(default_factory=list)

    def add(self, target: str, what: str, verdict: Verdict, words: str = "") -> Verdict:
        """Note one attack; what is bad is printed at once, so that nothing is lost when the rest is given up."""
        case = Case(target, what, verdict, " ".join(words.split())[-400:])
        self.cases.append(case)
        if verdict in BAD:
            print(f"{verdict.upper()}: {self.kind}: {target}: {what}: {case.words}", flush=True)
        return verdict

    @property
    def bad(self) -> list[Case]:
        """Those that nobody noticed, or that ended in a traceback."""
        return [case for case in self.cases if case.verdict in BAD]

    def rows(self) -> list[tuple[str, ...]]:
        """Return one row for each target, and their sum."""
        targets = dict.fromkeys(case.target for case in self.cases)
        rows = [self._row(f"{self.kind}: {target}", target) for target in targets]
        return [*rows, self._row(f"{self.kind}: all", None)] if len(rows) != 1 else rows

    def _row(self, name: str, target: str | None) -> tuple[str, ...]:
        counts = Counter(case.verdict for case in self.cases if target in {None, case.target})
        good = counts["noticed"] + counts["survived"]
        return (name, *map(str, (counts.total(), good, counts["harmless"], counts["silent"], counts["traceback"])))


def markdown(tallies: list[Tally]) -> str:
    """Return the table of all kinds as Markdown."""
    rows = [row for tally in tallies for row in tally.rows()]
    lines = ["| attack | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
