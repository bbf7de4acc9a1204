"""Captions of scaling and of variants, rendered as Snakemake renders them; any complaint of docutils is a failure."""

import json
from typing import Any

import pandas as pd
import pytest
from unit.caption_pages import render as render_page
from unit.caption_pages import says
from unit.record_factory import make_study, write_records

from hpcai.metrics.run_tables import collect_runs
from hpcai.metrics.scaling.fits import fit_scaling
from hpcai.metrics.scores.columns import TRIAL_COLUMNS
from hpcai.metrics.scores.variant_effects import compare_variants

NASTY = "*bold `x` |sub| http://a_ \\ <script>alert(1)</script>\n\n.. raw:: html\n\n   <b> a_ [1]_ {{ 7 }} Ü #1)"
STUDIES = {
    "one": lambda: make_study(ranks=(1,), repeats=1),
    "two": lambda: make_study(ranks=(1, 2), repeats=2),
    "large": lambda: [
        *make_study(ranks=(1, 2, 4, 8), repeats=3),
        *make_study(ranks=(1, 2, 4, 8), repeats=1, variant="bf16", settings_of_point={"precision": "bf16"}),
    ],
    "nothing": list,
}


@pytest.fixture(scope="module", params=STUDIES)
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    runs = collect_runs(write_records(STUDIES[request.param](), tmp_path_factory.mktemp(request.param)))
    scores = pd.DataFrame(columns=list(TRIAL_COLUMNS))
    return {"scaling_fits": fit_scaling(runs), "variant_effects": compare_variants(runs, scores)}


def render(name: str, tables: dict[str, pd.DataFrame] | None) -> str:
    summary: dict[str, Any] = {"notice": "not a valid_result", "interval_level": 0.95, "interval": "95 % interval"}
    if tables is not None:
        summary["scoring"] = {key: json.loads(frame.to_json(orient="records")) for key, frame in tables.items()}
    return " ".join(render_page(name, summary).split())


@pytest.mark.parametrize("name", ["scaling", "variant_effects"])
def test_caption_renders(name: str, tables: dict[str, pd.DataFrame]) -> None:
    page = render(name, tables)
    assert "not a valid_result" in page
    assert " nan" not in page.lower()
    assert "None" not in page
    assert "not a valid_result" in render(name, None)


def test_caption_says_the_law(tables: dict[str, pd.DataFrame]) -> None:
    page = render("scaling", tables)
    fits = tables["scaling_fits"]
    for row in fits[fits["chosen"] | (fits["law"] == "")].to_dict("records"):
        assert row["sentence"].replace("'", "&#x27;").split("(")[0] in page.replace("’", "&#x27;").replace(
            "'", "&#x27;"
        )
    assert ("no law has been fitted" in page) == fits.empty


def test_caption_says_the_effects(tables: dict[str, pd.DataFrame]) -> None:
    page = render("variant_effects", tables)
    assert ("nothing to compare" in page) == tables["variant_effects"].empty
    if len(tables["variant_effects"]):
        assert "precision bf16 instead of fp32" in page
        assert says(page, "one run", "no interval")


def test_free_text_arrives_as_it_was_written() -> None:
    fit = {"benchmark": "b", "variant": "v", "engine": "horovod",
           "regime": "strong", "n": 1, "law": "amdahl", "chosen": True,
           "sentence": NASTY, "reason": NASTY}  # fmt: skip
    effect = {"benchmark": "b", "scale": "n1x1", "variant": "v", "engine": "horovod",
              "reference_variant": "w", "joint": True,
              "changes": NASTY, "note": NASTY, "measure": "train_rate", "effect_ratio": None, "effect_low_ratio": None,
              "n": 0, "n_reference": 0}  # fmt: skip
    made = {"scaling_fits": pd.DataFrame([fit]), "variant_effects": pd.DataFrame([effect])}
    for name in ("scaling", "variant_effects"):
        page = render(name, made)
        assert "<script>" not in page
        assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2


def test_caption_names_the_law_of_each_regime() -> None:
    page = render("scaling", {})
    assert "(1967) for strong scaling" in page
    assert "Gustafson" in page
