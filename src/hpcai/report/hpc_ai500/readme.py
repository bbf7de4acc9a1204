"""The README of a report document's folder."""

from hpcai.records.folders import MANIFEST
from hpcai.report.hpc_ai500.model import Document

_CONTENTS = (
    "* `report.html`, `report.json`: the document, for people and for programs",
    "* `system.json`: part 1, declared, collected and measured properties of the system",
    "* `configuration.json`: part 2, all settings of every variant and run",
    "* `scores.csv`: part 3, one row for every run, failed ones included",
    "* `logs/RUN_ID/`: raw files of every run; `files.csv` lists all, also those that are too large to be copied",
    "* `evidence/`: files of the characterisation behind the scores and links, as named in the tables; `files.csv` "
    "lists all",
    "* `source/`: part 4, code, plans, study files, and `commands.sh`, which repeats every run",
    f"* `{MANIFEST}`: SHA-256 of every file, for `sha256sum --check`",
)

PRIVATE = (
    "Check these files: they may still contain names of folders, users and hosts of the machine.",
    "",
    "* `system.json` and the records below `logs/`: values of environment variables, such as `TMPDIR`, `LD_PRELOAD`, "
    "`XLA_FLAGS` and those of Slurm; names of hosts. Variables whose names suggest a credential, and those of other "
    "programs, are omitted.",
    "* `source/source.json` and `source/commands.sh`: folders of the data and of the runs. `source/config/`, "
    "`source/plans/` and `configuration.json`: settings of the study and the machine file.",
    "* `logs/` and `evidence/`: output of programs. These files are exact copies, with the SHA-256 given in "
    "`files.csv`. Only a record whose status there is `copied: variables withheld` has lost environment "
    "variables that no record is made with any more; its SHA-256 there is that of the original.",
)


def readme_text(document: Document) -> str:
    """Return the folder's contents, missing items, and instructions to repeat everything, as Markdown."""
    todo = [
        f"* {item.name} ({item.demand}): {item.note}. To do: {item.action}."
        for item in document.items
        if item.status == "missing"
    ]
    apart = [
        f"* {item.name}: {item.note}." + _advice(item.action)
        for item in document.items
        if item.status == "not_applicable"
    ]
    return "\n".join(
        [
            f"# Report document of {document.benchmark} for {document.rules}",
            "",
            f"{document.title}; study {document.study}, machine {document.machine}.",
            f"{document.runs} runs, of which {document.failed_runs} failed or diverged.",
            "",
            f"**{document.headline}**",
            "",
            "## What is where",
            "",
            *_CONTENTS,
            "",
            *(["## What is missing", "", *todo, ""] if todo else []),
            *(["## Not applicable", "", *apart, ""] if apart else []),
            "## Verdict of the rules",
            "",
            *(f"* {sentence}" for sentence in document.results),
            *(f"* {level.level}: {level.verdict}" for level in document.levels),
            "",
            "## How to reproduce it",
            "",
            "1. Check out the commit of `source/source.json` and run `make env`.",
            "2. With the path of this folder as HERE, prepare the data:",
            "   `snakemake pack --configfile HERE/source/config/study.yaml --config config_dir=HERE/source/config`.",
            "3. Run `sh HERE/source/commands.sh`.",
            "",
            "## Before you submit it",
            "",
            *PRIVATE,
            "",
        ]
    )


def _advice(action: str) -> str:
    return f" To do: {action}." if action else ""
