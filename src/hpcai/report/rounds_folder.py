"""The page on imported rounds, as the workflow writes it, without the workflow."""

from collections.abc import Sequence
from pathlib import Path

PLACE = "rounds_page"
"""Folder of the page's tables and figures."""
PAGE = "rounds.html"


def write_page_of(rounds: Sequence[Path], output: Path) -> Path:
    """Analyse rounds together, draw them, and write the page; return where it is.

    Parameters
    ----------
    rounds
        Folders that `hpcai mlperf import` wrote.
    output
        Folder that gets :data:`PAGE`, and :data:`PLACE` with its tables and figures.

    Raises
    ------
    TableError
        If a folder is not an imported round.
    """
    from hpcai.catalogue.figures import figures_of
    from hpcai.config.rounds import SOURCE_TABLES
    from hpcai.core.sealed import seal_drawing
    from hpcai.metrics.run_tables import write_tables
    from hpcai.mlperf_hpc.analysis.round_tables import analyse_tables, join_files
    from hpcai.plots import draw_figure, to_svg
    from hpcai.report.page import write_rounds_page

    sources = [folder / "tables" / f"{name}.parquet" for folder in rounds for name in SOURCE_TABLES]
    tables = analyse_tables(join_files(sources))
    place, page = output / PLACE, output / PAGE
    (place / "figures").mkdir(parents=True, exist_ok=True)
    write_tables(tables, place / "tables")
    for name in figures_of("rounds"):
        (place / "figures" / f"{name}.svg").write_bytes(seal_drawing(to_svg(draw_figure(name, tables))))
    write_rounds_page(output, f"{PLACE}/", find_sources(), page)
    return page


def find_sources() -> Path:
    """Return the templates, captions and definitions of pages: those of the installed package, or the checkout's."""
    packaged = Path(__file__).parent / "sources"  # setup.py puts them there
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "reports"
