"""Commands for a list of results: build its site, hand in a submission, set up a repository that holds one."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from hpcai.cli.options import Command, Group, argument, flag, option, takes

app = typer.Typer(cls=Group, help="A list of results: site, submissions and editions.")
REFUSED = LEAKS = 2


def _day(text: str | date) -> date:
    """Parse a day such as 2026-11-25."""
    try:
        return text if isinstance(text, date) else date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"found {text!r}, expected a day such as 2026-11-25") from None


@dataclass(frozen=True, kw_only=True)
class Building:
    """Options of `hpcai list build`."""

    folders: Annotated[list[Path], argument("FOLDER", "submissions, or folders of them; they are only read")]
    out: Annotated[Path, option("SITE", "folder of the site, for any web server, pages host or file")]
    editions: Annotated[Path | None, option("DIR", "frozen editions (default: SITE/editions)")] = None
    cache: Annotated[Path | None, option("DIR", "what was read before (default: .SITE-cache beside the site)")] = None
    title: Annotated[str, option("TEXT", "title of the list")] = "HPC-AI results"
    url: Annotated[str, option("URL", "address of the site, for the feed and citations")] = ""
    freeze: Annotated[str, option("MONTH", "freeze this edition, such as 2026-11; it never changes again")] = ""
    strict: Annotated[bool, flag("--strict", "exit status 2 if a submission was refused")] = False


@app.command(cls=Command)
@takes(Building)
def build(asked: Building) -> int:
    """Build the site of a list: every submission is verified, and what fails is listed with the reasons.

    Only what changed since the last build is read and written again. Exit status: 0 built, 1 bad input or a changed
    frozen edition, 2 built, but with --strict a submission was refused.
    """
    from hpcai.listing.build import Wanted, build_site, describe

    built = build_site(
        Wanted(
            folders=tuple(asked.folders), site=asked.out, editions=asked.editions, cache=asked.cache,
            title=asked.title, url=asked.url, freeze=asked.freeze,
        )
    )  # fmt: skip
    print("\n".join(describe(built)))
    print((asked.out / "index.html").resolve().as_uri())
    return REFUSED if asked.strict and built.lost else 0


@dataclass(frozen=True, kw_only=True)
class Submitting:
    """Options of `hpcai list submit`."""

    source: Annotated[Path, argument("DIR", "results folder, report document, MLPerf HPC round or declared results")]
    output: Annotated[Path, option("DIR", "package to write")]
    org: Annotated[str, option("NAME", "submitting organisation")]
    embargo: Annotated[date | None, option("DAY", "first day on which the list shows it", parser=_day)] = None
    license: Annotated[str, option("NAME", "licence of the submitted files")] = "CC-BY-4.0"


@app.command(cls=Command)
@takes(Submitting)
def submit(asked: Submitting) -> int:
    """Check a submission and write it as a package, with the text of a pull request beside it.

    Names secrets, host names, user names and absolute paths in its files. Only an earlier package, and its text if
    nobody changed it, is replaced. Exit status: 0 written, 1 not accepted, or
    it contains a secret: nothing was written, 2 written, but host names, user names or paths are in it.
    """
    from hpcai.core.errors import ConfigError
    from hpcai.listing.packages import make_submission, say_package, write_package, write_request

    if asked.output.suffix == ".md":
        raise ConfigError(f"{asked.output}: expected a folder for the package")
    submission = make_submission(
        asked.source, name=asked.output.name, organisation=asked.org, embargo=asked.embargo, license_name=asked.license
    )
    package = write_package(asked.source, asked.output, submission)
    request = write_request(package, submission)
    print("\n".join(say_package(package)))
    print(f"written: {asked.output}, and {request} for the pull request")
    return LEAKS if package.leaks else 0


@app.command(cls=Command)
def init(folder: Annotated[Path, argument("DIR", "repository to set up")]) -> None:
    """Write the files of a repository that holds a list: CI that builds and checks the site, and templates."""
    from hpcai.listing.packages import write_repository

    print("\n".join(f"written: {path}" for path in write_repository(folder)))
