"""What the pages of the list are made from: numbers, records, parts of data, and files that are not ours."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from unit.listing.site_factory import LONG, MARKUP, RIGHT_TO_LEFT, make_edition

from hpcai.core.text import say_number
from hpcai.listing import charts, ranking_views
from hpcai.listing.charts import MOST_POINTS, Sketch, draw_scaling, thin_out
from hpcai.listing.entries import Edition, Entry, Number, Place, Ranking, Run
from hpcai.listing.entry_views import make_compared, make_ranks, make_result, make_row, say_bibtex
from hpcai.listing.listed import Listed, list_all
from hpcai.listing.numbers import choose_format, repeats_of, say_amount
from hpcai.listing.overview_views import (
    make_index,
    prediction_rows,
    prediction_table,
    refused_table,
    scaling_rows,
    scaling_table,
    tell_scaling,
)
from hpcai.listing.rendering import TABLE_LIBRARY, Site

SOURCES = Path(__file__).parents[3] / "reports"


@pytest.fixture(scope="module")
def edition() -> Edition:
    return make_edition(120)


def _first(edition: Edition, kind: str) -> Ranking:
    return max((one for one in edition.rankings if one.kind == kind), key=lambda one: len(one.places))


def test_table_library_is_the_package_s() -> None:
    vendor = SOURCES / "list" / "vendor"
    digest = hashlib.sha256((vendor / TABLE_LIBRARY[0]).read_bytes()).hexdigest()
    assert digest in (vendor / "README.md").read_text()
    assert "MIT License" in (vendor / TABLE_LIBRARY[1]).read_text()


def test_records_are_each_better_than_the_one_before(edition: Edition) -> None:
    for ranking in edition.rankings:
        records = Listed(edition, ranking).records
        values = [record.value for record in records]
        assert values == sorted(values, reverse=ranking.better == "lower")
        assert len(set(values)) == len(values)
        leader = next(place.entry for place in ranking.places if place.place is not None)
        assert records[-1].entry.id == leader
        years = [record.entry.year or 0 for record in records]
        assert years == sorted(years)


def test_results_without_a_place_set_no_record(edition: Edition) -> None:
    ranking = _first(edition, "time_to_train")
    places = tuple(place.model_copy(update={"place": None}) for place in ranking.places)
    assert Listed(edition, ranking.model_copy(update={"places": places})).records == []
    unplaced = edition.model_copy(
        update={"rankings": tuple(one.model_copy(update={"places": places}) for one in (ranking,))}
    )
    assert make_index(unplaced, list_all(unplaced), [])["answers"] == []


def test_answer_is_the_best_per_accelerator(edition: Edition) -> None:
    answers = make_index(edition, list_all(edition), [])["answers"]
    ranking = next(one for one in edition.rankings if ranking_views.list_href(one) == answers[0]["list_href"])
    best = max(
        entry.per_unit or 0
        for entry in edition.entries
        if (entry.benchmark, entry.division, entry.basis) == (ranking.benchmark, ranking.division, ranking.basis)
        and entry.verdict.status == "valid"
    )
    assert answers[0]["value"]["words"] == choose_format("", "samples/s", [best]).say(best)


def test_another_edition_of_a_benchmark_is_named() -> None:
    edition = make_edition(60)
    ranking = _first(edition, "throughput_per_unit")
    entries = [edition.by_id[place.entry] for place in ranking.places if place.place is not None]
    new, old = (entry for entry in entries[:2])
    nine = {"benchmark": "nine", "benchmark_title": "Edition nine"}
    changed = new.model_copy(update={"year": 2030, "round": "v9", **nine})
    earlier = old.model_copy(update={"year": 2020, "round": "v0.7"})
    rankings = (
        ranking.model_copy(update={"id": "nine", "places": (ranking.places[0],), **nine}),
        ranking.model_copy(update={"id": "old", "places": (ranking.places[1],)}),
    )
    # A copy keeps what was looked up in the original: so of one in which nothing was.
    both = make_edition(60).model_copy(update={"entries": (changed, earlier), "rankings": rankings})
    found = make_index(both, list_all(both), [])["answers"]
    answer = next(one for one in found if one["benchmark"] == "Edition nine")
    assert answer["change"].endswith("v0.7")
    assert "another edition" in answer["first"]


def _with_runs(entry: Entry, *runs: Run) -> Entry:
    return entry.model_copy(update={"runs": runs})


def test_repeats_are_all_valid_runs_not_the_counted_ones_alone(edition: Edition) -> None:
    def run(name: str, **more: object) -> Run:
        return Run.model_validate({"name": name, "outcome": "success", "counted": False, "time_s": 1.0, **more})

    entry = _with_runs(
        edition.entries[0],
        run("fastest"),
        run("counted", counted=True, time_s=2.0),
        run("against the rules", complies=False),
        run("failed", outcome="aborted"),
        run("without a time", time_s=None),
    )
    assert repeats_of(entry, "time_to_train_s") == (1.0, 2.0)
    assert repeats_of(entry, "quality") == ()


def test_parts_of_the_data_hold_every_place_once(edition: Edition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_views, "FIRST_PART", 4)
    monkeypatch.setattr(ranking_views, "LATER_PARTS", 7)
    ranking = _first(edition, "time_to_train")
    parts = list(ranking_views.make_list_data(Listed(edition, ranking)))
    assert len(parts) > 2
    assert [one for _, part in parts for one in part["columns"]["id"]] == [place.entry for place in ranking.places]
    assert [path.removeprefix("list/") for path, _ in parts[1:]] == parts[0][1]["parts"]
    assert parts[0][1]["total"] == len(ranking.places)


def test_large_scales_are_read_in_groups_and_sorted_as_numbers() -> None:
    edition = make_edition(60)
    ranking = _first(edition, "time_to_train")
    first = ranking.places[0].entry
    entries = tuple(one.model_copy(update={"units": 16_384}) if one.id == first else one for one in edition.entries)
    listed = Listed(edition.model_copy(update={"entries": entries}), ranking)
    assert ranking_views.make_list(listed)["rows"][0]["scale"] == "16,384"
    (_, data), *_ = ranking_views.make_list_data(listed)
    assert data["columns"]["scale"][0] == 16_384


def test_data_of_a_script_cannot_end_it(edition: Edition, tmp_path: Path) -> None:
    hostile = next(entry for entry in edition.entries if entry.organisation == MARKUP)
    Site(tmp_path, SOURCES).write_data("x.js", "x", make_compared(edition, hostile))
    text = (tmp_path / "x.js").read_text()
    assert "<" not in text
    assert json.loads(text[4:-2])["title"].startswith(hostile.title)


def test_data_of_a_script_have_no_marks_of_direction(edition: Edition, tmp_path: Path) -> None:
    hostile = next(entry for entry in edition.entries if entry.organisation == RIGHT_TO_LEFT)
    Site(tmp_path, SOURCES).write_data("x.js", "x", make_compared(edition, hostile))
    text = (tmp_path / "x.js").read_text()
    assert "\u202e" not in text
    assert "\\u202e" not in text.lower()
    assert json.loads(text[4:-2])["id"] == hostile.id


def test_bibtex_keeps_its_braces() -> None:
    text = say_bibtex("key", "a}\\input{x}", "{author", make_edition(3))
    assert text.count("{") == text.count("}")
    assert "\\" not in text


def test_values_name_their_lists(edition: Edition) -> None:
    ranking = _first(edition, "time_to_train")
    entry = edition.by_id[ranking.places[0].entry]
    values = make_result(edition, entry, make_ranks(edition))["values"]
    assert any(ranking_views.list_href(ranking) in dict(value["ranks"]) for value in values)


def test_predictions_stand_beside_what_was_measured(edition: Edition) -> None:
    rows = prediction_rows(edition, "time_to_train_s")
    assert rows
    table = prediction_table("time_to_train_s", rows)
    assert {row[4]["text"] for row in table["rows"]} == {"+10.0 %"}
    assert {row[5]["text"] for row in table["rows"]} == {"yes"}


def test_refusals_have_a_row_for_each_reason(edition: Edition) -> None:
    rows = refused_table(edition)["rows"]
    assert len(rows) == sum(len(one.reasons) for one in edition.refused)
    assert rows[0][0]["text"] == MARKUP
    assert LONG in rows[0][2]["text"]


def test_many_points_are_thinned_to_the_best_of_each_scale() -> None:
    alike = {"accelerator": "A", "rules": "r", "verdict": "valid"}
    rows = [{**alike, "scale": n % 9, "value": float(n)} for n in range(MOST_POINTS + 1)]
    kept = thin_out(rows)
    assert len(kept) == 9
    assert max(row["value"] for row in kept) == MOST_POINTS
    assert thin_out(rows[:-1]) == rows[:-1]


def test_chart_is_drawn_again_only_if_it_changed(tmp_path: Path) -> None:
    spec = {"data": {"values": [{"x": 1}]}, "mark": "point", "encoding": {"x": {"field": "x", "type": "quantitative"}}}
    path = tmp_path / "chart.svg"
    drawn = Sketch(spec, "one").draw(path)
    assert re.search("<svg", drawn.svg)
    path.write_text(drawn.svg.replace("<svg", "<svg data-kept='1'", 1))
    assert "data-kept" in Sketch(spec, "one").draw(path).svg
    assert "data-kept" not in Sketch({**spec, "width": 99}, "one").draw(path).svg


def test_unprintable_characters_do_not_reach_a_page(edition: Edition, tmp_path: Path) -> None:
    hostile = next(entry for entry in edition.entries if entry.organisation == RIGHT_TO_LEFT)
    site = Site(tmp_path, SOURCES, {"title": "t", "edition": "e", "made": "", "menu": [], "files": [], "links": []})
    site.write_page("result/x.html", "result", make_result(edition, hostile, make_ranks(edition)))
    text = (tmp_path / "result/x.html").read_text()
    assert "\u202e" in hostile.title
    assert "\u202e" not in text
    assert "<bdi>" in text


def _broken(entry: Entry, **changes: object) -> Entry:
    verdict = entry.verdict.model_copy(update={"status": "not valid"})
    return entry.model_copy(update={"verdict": verdict, **changes})


def test_what_is_not_valid_is_best_at_nothing_and_drawn_hollow() -> None:
    edition = make_edition(6)
    valid = next(one for one in edition.entries if one.per_unit and one.verdict.status == "valid")
    rate = valid.number("train_rate_samples_per_s")
    assert rate
    faster = (rate.model_copy(update={"value": 2 * rate.value}),)
    alone = _broken(valid, id="alone", numbers=faster, units=1)
    changed = Edition(**{**dict(edition), "entries": (valid, _broken(valid, id="faster", numbers=faster), alone)})
    rows = scaling_rows(changed, valid.benchmark)
    cells = [[cell["text"] for cell in row][3:] for row in scaling_table("x", rows)["rows"]]
    assert [row[:2] for row in cells] == [["1", "1"], ["2", "1"]]
    assert cells[1][2] == say_number(valid.per_unit or 0)
    assert not cells[0][2][0].isdigit()
    layers = draw_scaling(tell_scaling(changed, rows), "x", "y").spec["layer"]
    filters = {str(layer["transform"]): layer["mark"]["filled"] for layer in layers}
    hollow = {"field": "verdict", "equal": "not valid"}
    assert filters == {str([{"filter": {"not": hollow}}]): True, str([{"filter": hollow}]): False}


def test_of_too_many_results_valid_ones_are_kept_beside_better_invalid_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "MOST_POINTS", 1)
    row = {"accelerator": "A", "rules": "closed", "scale": 8, "value": 1.0, "verdict": "valid"}
    assert thin_out([{**row, "value": 9.0, "verdict": "not valid"}, row]) == [row]


def test_tables_and_the_comparison_have_the_verdict_of_each_result(edition: Edition) -> None:
    broken = next(entry for entry in edition.entries if entry.verdict.status == "not valid")
    assert make_row(edition, broken)["verdict"] == make_compared(edition, broken)["verdict"] == "not valid"


def test_a_quality_that_misses_its_target_does_not_look_met(edition: Edition) -> None:
    quality = Number(quantity="quality", unit="", value=0.76296, method="m", source="s")
    entry = edition.entries[0].model_copy(update={"quality_target": 0.763, "numbers": (quality,)})
    (value,) = make_result(edition, entry, {})["values"]
    (compared,) = make_compared(edition, entry)["values"]
    assert value["shown"].words == compared["words"] == "0.76296"
    assert say_amount(quality).words == "0.763"


def _of_nodes(**changes: object) -> Edition:
    """Return an edition of two results of one machine without accelerators, on two scales of one node."""
    edition = make_edition(60)
    ranking = _first(edition, "throughput_per_unit")
    chosen = [edition.by_id[place.entry] for place in ranking.places if place.place is not None][:2]
    alike = {"unit": "node", "units": 1, "variant": "fp32", "machine": chosen[0].machine, **changes}
    entries = tuple(
        one.model_copy(update={**alike, "scale": scale}) for one, scale in zip(chosen, ("n1x1", "n1x2"), strict=True)
    )
    places = tuple(Place(entry=one.id, place=None if changes else 1) for one in entries)
    rankings = (ranking.model_copy(update={"places": places}),)
    return Edition(**{**dict(make_edition(60)), "entries": entries, "rankings": rankings, "predictions": ()})


def test_a_list_of_nodes_names_no_accelerators_and_tells_scales_apart() -> None:
    edition = _of_nodes()
    (listed,) = list_all(edition)
    view = ranking_views.make_list(listed)
    assert (view["device"], view["units"]) == ("Processor", "Nodes")
    assert [row["setting"] for row in view["rows"]] == ["fp32, n1x1", "fp32, n1x2"]
    (_, data), *_ = ranking_views.make_list_data(listed)
    assert data["words"]["setting"] == ["fp32, n1x1", "fp32, n1x2"]
    assert data["first"]["units"] == "nodes"
    index = make_index(edition, [listed], [])
    rows = scaling_rows(edition, listed.ranking.benchmark)
    headings = [head["words"] for head in scaling_table("x", rows)["headings"]]
    row = make_row(edition, edition.entries[0])
    shown = [view["title"], view["heading"], view["order"], *index["kinds"], index["unit"], *headings, row["scale"]]
    groups = make_result(edition, edition.entries[0], make_ranks(edition))["groups"]
    shown += [index["answers"][0]["scale"], *(fact["name"] for group in groups for fact in group["facts"])]
    assert [text for text in shown if "accelerator" in text.lower()] == []
    assert sum("node" in text for text in shown) >= 6


def test_a_list_of_several_units_names_all() -> None:
    edition = _of_nodes()
    mixed = (edition.entries[0], edition.entries[1].model_copy(update={"unit": "accelerator"}))
    (listed,) = list_all(Edition(**{**dict(edition), "entries": mixed}))
    view = ranking_views.make_list(listed)
    assert (view["device"], view["units"]) == ("Accelerator or processor", "Accelerators or nodes")


def test_axes_of_scaling_name_what_is_counted() -> None:
    edition = _of_nodes()
    rows = tell_scaling(edition, scaling_rows(edition, edition.entries[0].benchmark))
    spec = draw_scaling(rows, "throughput per node", "samples/s", "node").spec
    assert spec["encoding"]["x"]["title"] == "nodes"
    assert spec["encoding"]["color"]["title"] == "processor"
    assert not any("accelerator" in str(tip["title"]) for tip in spec["encoding"]["tooltip"])


@pytest.mark.parametrize("verdicts", [("valid", "valid"), ("not valid", "not valid"), ("valid", "not valid")])
def test_every_layer_of_scaling_has_marks(verdicts: tuple[str, str]) -> None:
    alike = {"title": "t", "said": "s", "round": "r", "href": "h", "accelerator": "A", "rules": "r", "value": 1.0}
    rows = [{**alike, "scale": scale, "verdict": verdict} for scale, verdict in enumerate(verdicts, 1)]
    layers = draw_scaling(rows, "x", "y").spec["layer"]
    assert len(layers) == len(set(verdicts))
    assert [bool(layer.get("params")) for layer in layers] == [True, False][: len(layers)]
    assert {layer["mark"]["filled"] for layer in layers} == {verdict == "valid" for verdict in verdicts}


def test_a_front_page_without_a_valid_result_names_no_line_above(tmp_path: Path) -> None:
    texts = []
    for number, edition in enumerate((_of_nodes(), _of_nodes(year=2020))):
        view = {**make_index(edition, list_all(edition), []), "metadata": "{}"}
        facts = {"title": "t", "edition": "e", "made": "", "menu": [], "files": [], "links": [], "submit": "s.html"}
        Site(tmp_path / str(number), SOURCES, facts).write_page("index.html", "index", view)
        texts.append((tmp_path / str(number) / "index.html").read_text())
        assert bool(view["answers"]) == (number == 0)
    assert ["line above" in text for text in texts] == [True, False]
