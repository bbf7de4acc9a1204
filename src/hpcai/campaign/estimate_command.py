"""The command ``hpcai estimate``: what a campaign takes, before it starts."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("study", type=Path, nargs="?", default=Path("config/study.yaml"))
    parser.add_argument(
        "--like",
        type=Path,
        nargs="+",
        default=[],
        metavar="RESULTS",
        help="results folders whose runs tell how long equal ones take; the study's own is looked at as well",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder of the study")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the datasets")
    parser.add_argument("--jobs", type=_positive, metavar="N", help="also the wall time with N jobs at the same time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers with their methods and sources")


def run(arguments: argparse.Namespace) -> int:
    """Print the estimate and return 0.

    Raises
    ------
    ConfigError
        If the study is not valid, or a folder of ``--like`` holds no results.
    DatasetError
        If a manifest is damaged.
    """
    from dataclasses import asdict

    from hpcai.campaign.estimate import Places, estimate_campaign
    from hpcai.campaign.estimate_text import say_estimate
    from hpcai.config.load import load_study_file
    from hpcai.core.errors import ConfigError
    from hpcai.core.files import write_asked_json
    from hpcai.measure.provenance import source_root

    for folder in arguments.like:
        if not folder.is_dir():
            raise ConfigError(f"--like: found no folder {folder}, expected the results folder of an earlier study")
    campaign = load_study_file(arguments.study)
    root = source_root()
    folder = root / "config" if root else arguments.study.parent
    places = Places(arguments.data, arguments.results, folder / "datasets.tsv")
    estimate = estimate_campaign(campaign, places, arguments.like, arguments.jobs)
    if arguments.json:
        write_asked_json(arguments.json, asdict(estimate))
    print(say_estimate(estimate))
    return 0


def _positive(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"found {word!r}, expected a whole number from 1 on")
    return int(word)
