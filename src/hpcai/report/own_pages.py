"""Pages outside a study: on imported rounds, as in the workflow, and on one device."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.catalogue.figures import Stage
    from hpcai.records.acceptance import Accepted

PLACE = "rounds_page"
"""Folder of the page's tables and figures."""
PAGE = "rounds.html"
DEVICE_PLACE, DEVICE_PAGE = "gpu", "gpu.html"
ACCEPTANCE_PAGE = "acceptance.html"
NOT_IMPORTED = Message(
    "own_pages.not_imported",
    "no imported round, its tables are missing; name a folder of `hpcai mlperf import`",
)


def write_page_of(rounds: Sequence[Path], output: Path) -> Path:
    """Analyse rounds together, draw them, and write the page; return its path.

    Parameters
    ----------
    rounds
        Folders written by `hpcai mlperf import`.
    output
        Folder that receives :data:`PAGE`, and :data:`PLACE` with its tables and figures.

    Raises
    ------
    ConfigError
        If a folder is not an imported round.
    """
    from hpcai.config.rounds import SOURCE_TABLES
    from hpcai.mlperf_hpc.analysis.round_tables import analyse_tables, join_files
    from hpcai.report.page import write_rounds_page

    of_round = [[folder / "tables" / f"{name}.parquet" for name in SOURCE_TABLES] for folder in rounds]
    for folder, files in zip(rounds, of_round, strict=True):
        if not all(file.is_file() for file in files):
            raise ConfigError(at(str(folder), NOT_IMPORTED()))
    sources = [file for files in of_round for file in files]
    tables = analyse_tables(join_files(sources))
    page = output / PAGE
    _write_parts(output / PLACE, tables, "rounds")
    write_rounds_page(output, f"{PLACE}/", find_sources(), page)
    return page


def write_page_of_device(tables: "Mapping[str, pd.DataFrame]", output: Path) -> Path:
    """Write the measurements of `hpcai gpu` as tables, figures and a page; return the page's path.

    Parameters
    ----------
    tables
        As from `hpcai.measure.gpu.measure_device`.
    output
        Folder that receives :data:`DEVICE_PAGE`, and :data:`DEVICE_PLACE` with tables and figures.
    """
    from hpcai.report.page import write_device_page

    page = output / DEVICE_PAGE
    _write_parts(output / DEVICE_PLACE, tables, "gpu")
    write_device_page(output, f"{DEVICE_PLACE}/", find_sources(), page)
    return page


def write_acceptance(measurements: Path, results: Path) -> "Accepted":
    """Judge the measurements of an acceptance; write the verdict, its table and its page, and keep a copy.

    Parameters
    ----------
    measurements
        File of the measurements; the verdict and the table belong next to it.
    results
        Folder that receives :data:`ACCEPTANCE_PAGE`.

    Raises
    ------
    RecordError
        If the measurements are missing or damaged.
    """
    from hpcai.core.files import file_sha256, write_atomically
    from hpcai.metrics.acceptance import findings_table, judge_acceptance
    from hpcai.metrics.run_tables import write_table
    from hpcai.records.acceptance import JUDGED, Measured
    from hpcai.records.files import read_part, write_sealed
    from hpcai.report.page import write_acceptance_page

    folder = measurements.parent
    measured = read_part(Measured, measurements)
    accepted = judge_acceptance(measured, file_sha256(measurements), str(measurements))
    write_sealed(accepted, folder / JUDGED)
    write_table(findings_table(accepted), folder / "acceptance.csv", folder / "tables" / "acceptance.parquet")
    write_acceptance_page(accepted, results, f"{folder.name}/", find_sources(), results / ACCEPTANCE_PAGE)
    # Records name an acceptance by its digest, also after the next one.
    earlier = folder / "history"
    earlier.mkdir(exist_ok=True)
    stamp = accepted.ended_utc.replace(":", "").replace("-", "")
    write_atomically(earlier / f"{stamp}.json", (folder / JUDGED).read_bytes())
    return accepted


def _write_parts(place: Path, tables: "Mapping[str, pd.DataFrame]", stage: "Stage") -> None:
    """Write tables, and the figures of a stage, into a folder."""
    from hpcai.catalogue.figures import figures_of
    from hpcai.core.sealed import seal_drawing
    from hpcai.metrics.run_tables import write_tables
    from hpcai.plots.drawing import draw_figure
    from hpcai.plots.theme import to_svg

    (place / "figures").mkdir(parents=True, exist_ok=True)
    write_tables(tables, place / "tables")
    for name in figures_of(stage):
        (place / "figures" / f"{name}.svg").write_bytes(seal_drawing(to_svg(draw_figure(name, tables))))


def find_sources() -> Path:
    """Return the folder of page templates, captions and definitions: in the installed package, or in the checkout."""
    packaged = Path(__file__).parent / "sources"  # copied by setup.py
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "reports"
