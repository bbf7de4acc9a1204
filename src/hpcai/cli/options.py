"""Option features that Typer lacks: several values per name, an optional value, options as a class."""

import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, OptionInfo

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message

SEVERAL, OPTIONAL = "...", "["
"""Suffix or prefix of a value's name that marks several values, or an optional one."""
OPTION = re.compile(r"--?[A-Za-z][\w-]*(=.*)?", re.DOTALL)
"""Matches options; negative numbers, and words with a blank, are values."""
LONGEST_HELP = 200
NOT_ABOVE_ZERO = Message("options.not_above_zero", "{option}: found {found:g}, expected a number above 0")
Returned = TypeVar("Returned")
Options = TypeVar("Options")


class Group(TyperGroup):
    """A group of commands whose help shows the whole first sentence of each."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Headings with their commands, in order; without any, all stand together."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - Typer does not export the types
        """Return the names in the order of the sections."""
        names = super().list_commands(ctx)
        ordered = [name for part in self.sections.values() for name in part if name in names]
        return [*ordered, *(name for name in names if name not in ordered)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as above
        """Show the commands if none is named, which is bad input."""
        if args or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        print(f"{ctx.get_help()}\n\nerror: expected a command", file=sys.stderr)
        raise typer.Exit(1)

    def first_sentence(self, ctx: Any, name: str) -> str:  # noqa: ANN401 - as above
        """Return what a command does."""
        command = self.get_command(ctx, name)
        return command.get_short_help_str(LONGEST_HELP) if command else ""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Write the list of commands."""
        listed = self.list_commands(ctx)
        for heading, names in (self.sections or {"Commands": listed}).items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.first_sentence(ctx, name)) for name in names if name in listed])


class Command(TyperCommand):
    """A command that accepts ``--like A B``, ``--watch`` without its value, and abbreviated option names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as above
        """Expand the words so that each value follows the name of its option, and parse them."""
        # During shell completion, the last option may still lack its value.
        return super().parse_args(ctx, args if ctx.resilient_parsing else list(self._spelled_out(ctx, args)))

    def _spelled_out(self, ctx: Any, args: list[str]) -> Iterator[str]:  # noqa: ANN401 - as above
        known = {name: param for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}
        words = list(args)
        while words:
            word = words.pop(0)
            if word == "--":
                yield from (word, *words)
                return
            name, equals, _ = word.partition("=")
            longer = [other for other in known if name.startswith("--") and other.startswith(name)]
            if name not in known and len(longer) == 1:
                name, word = longer[0], word.replace(name, longer[0], 1)
            if equals or name not in known or not OPTION.fullmatch(word) or getattr(known[name], "is_flag", False):
                yield word
                continue
            metavar = getattr(known[name], "metavar", None) or ""
            values = _leading_values(words)[: None if metavar.endswith(SEVERAL) else 1]
            del words[: len(values)]
            if not values and not metavar.startswith(OPTIONAL):
                ctx.fail(f"{name}: expected a value")
            yield from (f"{name}={value}" for value in values or [""])


class Unread(TyperCommand):
    """A command whose arguments all belong to another program; none is an option of this one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as above
        """Leave all arguments unchanged."""
        ctx.args = args
        return args


def _leading_values(words: list[str]) -> list[str]:
    end = next((place for place, word in enumerate(words) if word == "--" or OPTION.fullmatch(word)), len(words))
    return words[:end]


def option(metavar: str, words: str, parser: Callable[[str], Any] | None = None) -> OptionInfo:
    """Return an option with a value."""
    made: OptionInfo = typer.Option(metavar=metavar, help=words, parser=parser)
    return made


def argument(metavar: str, words: str) -> ArgumentInfo:
    """Return a positional argument."""
    made: ArgumentInfo = typer.Argument(metavar=metavar, help=words)
    return made


def choice(words: str) -> OptionInfo:
    """Return an option whose type defines its values."""
    made: OptionInfo = typer.Option(help=words)
    return made


def flag(name: str, words: str) -> OptionInfo:
    """Return an option without a value; there is no ``--no-`` form."""
    option: OptionInfo = typer.Option(name, help=words, show_default=False)
    return option


StudyResults = Annotated[
    Path, typer.Argument(metavar="RESULTS", help="results folder of a study", exists=True, file_okay=False)
]
TableOrJson = Annotated[Literal["table", "json"], choice("format")]
TableJsonOrCsv = Annotated[Literal["table", "json", "csv"], choice("format")]


def count(text: str) -> int:
    """Parse a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"found {text!r}, expected a whole number from 1 on")
    return int(text)


def require_above_zero(given: Mapping[str, float | None]) -> None:
    """Check that numbers of options, by their fields, are finite and above 0; None was not given.

    Raises
    ------
    ConfigError
        If one is not.
    """
    for name, value in given.items():
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(NOT_ABOVE_ZERO(option=f"--{name.replace('_', '-')}", found=value))


def seconds_or(default_s: float) -> Callable[[str], float]:
    """Return a parser of seconds above 0; an empty value means the default [s]."""

    def seconds(text: str | float) -> float:
        try:
            found_s = float(text) if text else default_s
        except ValueError:
            found_s = math.nan
        if not found_s > 0:
            raise typer.BadParameter(f"found {text!r}, expected a number of seconds above 0")
        return found_s

    return seconds


@dataclass(frozen=True)
class Texts:
    """Several options gathered in one field: those given, as text, by name without dashes."""

    help: Mapping[str, str]


def takes(kind: type[Options]) -> Callable[[Callable[[Options], Returned]], Callable[..., Returned]]:
    """Pass the options of a command together, as one value.

    Parameters
    ----------
    kind
        A dataclass. Each field is an argument or option, as Typer reads it from its type; one that is annotated with
        :class:`Texts` gathers several options.
    """
    hints = get_type_hints(kind, include_extras=True)
    groups: dict[str, Mapping[str, str]] = {}
    parameters: list[inspect.Parameter] = []
    for field in fields(kind):  # type: ignore[arg-type]
        texts = [part for part in get_args(hints[field.name])[1:] if isinstance(part, Texts)]
        if texts:
            groups[field.name] = texts[0].help
            parameters += [_text_option(name, words) for name, words in texts[0].help.items()]
        else:
            parameters.append(_parameter(field.name, hints[field.name], _default(field)))

    def decorate(function: Callable[[Options], Returned]) -> Callable[..., Returned]:
        @functools.wraps(function)
        def command(**values: Any) -> Returned:  # noqa: ANN401 - whatever the options are
            for field, group in groups.items():
                given = {name: values.pop(_variable(name)) for name in group}
                values[field] = {name: text for name, text in given.items() if text is not None}
            return function(kind(**values))

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:  # noqa: ANN401 - any type of a field
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _text_option(name: str, words: str) -> inspect.Parameter:
    option = typer.Option(f"--{name}", metavar="VALUE", help=words, show_default=False)
    return _parameter(_variable(name), Annotated[str | None, option], None)


def _default(field: Field[Any]) -> Any:  # noqa: ANN401 - any type of a field
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _variable(name: str) -> str:
    return name.replace("-", "_")
