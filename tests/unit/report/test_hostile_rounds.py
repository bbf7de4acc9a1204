"""Names from foreign sources reach the page as text only, never as markup, formula or program."""

from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from unit.mlperf_hpc.log_factory import log_text, system_json, write_tree

from hpcai.catalogue.figures import figures_of
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.round_tables import analyse_tables, source_tables
from hpcai.mlperf_hpc.compliance.checked_round import read_checked_round
from hpcai.plots.drawing import draw_figure
from hpcai.plots.theme import to_svg
from hpcai.report.page import write_rounds_page

SOURCES = Path(__file__).parents[3] / "reports"
NAMES = {
    "markup": "<script>alert(1)<b>",
    "formula": "$a$b_{c^",
    "broken formula": r"$\\frac$_$x$",
    "quotes": "'\"&amp;`",
    "template": "{{ 7 * 7 }}{% raw %}",
    "rst": "`x <js:a>`_ **",
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_of_a_round_are_text_on_its_page(tmp_path: Path, kind: str) -> None:
    name = NAMES[kind]
    place = f"{name}".replace("/", "")
    description = system_json(accelerator_model_name=f"H {name}")
    for scaling in ("strong", "weak"):
        logs = [log_text("deepcam", seed=seed, epoch_s=100.0 + seed, number_of_nodes=1) for seed in range(1, 6)]
        write_tree(
            tmp_path / "tree", org=place, system=f"m {place}", scaling=scaling, benchmark="deepcam", logs=logs,
            description=description,
        )  # fmt: skip
    # Runs of its own: the same ones again would be one result.
    logs = [log_text("deepcam", seed=seed, epoch_s=200.0 + seed, number_of_nodes=1) for seed in range(11, 16)]
    write_tree(tmp_path / "tree", org=place, system="other", benchmark="deepcam", logs=logs, description=description)
    tables = analyse_tables(source_tables([read_checked_round(tmp_path / "tree", name=f"v2.0 {name}")]))
    write_tables(tables, tmp_path / "rounds_page/tables")
    (tmp_path / "rounds_page/figures").mkdir()
    for topic in figures_of("rounds"):
        svg = to_svg(draw_figure(topic, tables))
        words = " ".join(" ".join(node.itertext()) for node in ElementTree.fromstring(svg).iter())
        assert place in words.replace("\xa0", " ")
        (tmp_path / f"rounds_page/figures/{topic}.svg").write_bytes(svg)
    write_rounds_page(tmp_path, "rounds_page/", SOURCES, tmp_path / "rounds.html")
    page = (tmp_path / "rounds.html").read_text()
    assert place in unescape(page)
    assert "<script>alert" not in page
    assert "49" not in page.partition("<title>")[2].partition("</title>")[0]
    assert 'href="js:' not in page
