"""The kinds of profiles, and the facts about them that are available without importing their readers.

A kind is declared in its module of ``profiles/``, by ``PROFILE``; it is registered nowhere else. The declarations are
read as text, because the configuration and the workflow need them at every start.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from hpcai.core.discovery import modules_declaring

PACKAGE = "hpcai.profiles"


@dataclass(frozen=True, kw_only=True)
class ProfileFacts:
    """The literal declarations of a kind of profile.

    Attributes
    ----------
    tables
        Tables that it makes, in addition to the table of captures.
    columns
        Columns that only this kind has, placed after the columns common to all runs; by table.
    place
        Order of the kinds in tables.
    setting
        Key of the machine file's ``profilers`` that it depends on; blank: none.
    steps
        Setting of the study with the number of steps of its run.
    smallest_scale
        Whether it profiles the smallest scale of a variant instead of the largest.
    also
        Kind whose captures are read together with those of this one; blank: none.
    """

    tables: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    place: int = 100
    setting: str = ""
    steps: str = "profile_steps"
    smallest_scale: bool = False
    also: str = ""

    @property
    def views(self) -> tuple[str, ...]:
        """Tables of the kind's own files: whether it was captured, and its results."""
        return ("captures", *self.tables)


NAMES = {one.name for one in fields(ProfileFacts)}


def _declared() -> dict[str, ProfileFacts]:
    folder = Path(__file__).parents[1] / "profiles"
    found = {}
    for module in modules_declaring("PROFILE", PACKAGE, folder):
        path = folder.joinpath(*module.removeprefix(f"{PACKAGE}.").split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        found[module.rpartition(".")[2]] = _facts(path)
    return dict(sorted(found.items(), key=lambda one: (one[1].place, one[0])))


def _facts(path: Path) -> ProfileFacts:
    for part in ast.parse(path.read_text(encoding="utf-8")).body:
        call = getattr(part, "value", None)
        if isinstance(part, ast.Assign | ast.AnnAssign) and isinstance(call, ast.Call) and _declares(part):
            try:
                return ProfileFacts(**{
                    str(one.arg): ast.literal_eval(one.value) for one in call.keywords if one.arg in NAMES
                })  # fmt: skip
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{path}, line {call.lineno}: found a PROFILE without tables or with an expression for one of "
                    f"{', '.join(sorted(NAMES))}, expected literals: they are read without running the module"
                ) from error
    raise ValueError(f"{path}: found a PROFILE that is not a call of Kind, expected PROFILE = Kind(...)")


def _declares(part: ast.Assign | ast.AnnAssign) -> bool:
    targets = part.targets if isinstance(part, ast.Assign) else [part.target]
    return any(isinstance(target, ast.Name) and target.id == "PROFILE" for target in targets)


PROFILES: Mapping[str, ProfileFacts] = _declared()
"""By name, in the order of tables."""
