"""Files of published results: every mistake gives one line with file, key, found value and allowed values."""

from pathlib import Path

import pytest
import yaml

from hpcai.config.printed import AGAINST, Quantity, unit_of
from hpcai.config.published import load_published
from hpcai.core.errors import ConfigError

PUBLISHED = Path(__file__).parents[3] / "config" / "published"
FILES = sorted(PUBLISHED.glob("*.yaml"))
SMALL = {
    "name": "small",
    "title": "A small file",
    "citation": {"document": "A paper", "date": "2020-07-01"},
    "machines": {"box": {"title": "a box", "nodes": 2, "devices_per_node": 4}},
    "workloads": {
        "ic": {
            "workload": "image_classification",
            "suite": "hpc_ai500",
            "dataset": "imagenet (official)",
            "quality_metric": "top1_accuracy",
            "quality_target": 0.763,
            "exponent": 5,
        }
    },
    "results": [
        {"name": "one", "workload": "ic", "machine": "box", "rate_flop_per_s": "2 TFLOP/s", "where": "Table 1"}
    ],
}


def write(folder, **changes):
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **changes}))
    return path


def result(**changes):
    return {"results": [{**SMALL["results"][0], **changes}]}


def printed(**changes):
    entry = {"quantity": "rate_flop_per_s", "value": "2 TFLOP/s", "where": "Table 2", **changes}
    return result(printed=[entry])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_our_files_are_valid_and_cite_their_source(path):
    published = load_published(path)
    assert published.name == path.stem
    assert published.citation.document in published.cite("Table 1")
    assert all(entry.where for entry in published.results)
    # No bare number can be added: a number that is not an input is a printed value with a tolerance.
    contradictions = [each for entry in published.results for each in entry.printed if not each.consistent]
    assert all(each.note for each in contradictions)


def test_both_published_files_are_there():
    assert {path.stem for path in FILES} >= {"hpc_ai500_v2", "hpc_ai500_ranking_2020"}


def test_a_small_file_leaves_everything_else_absent(tmp_path):
    published = load_published(write(tmp_path))
    one = published.result("one")
    assert one.rate_flop_per_s == 2e12
    assert (one.quality, one.compression, one.nodes, one.time_to_quality_s) == (None, None, None, None)
    assert published.machines["box"].peaks == {}


BAD = [
    ({"name": "other"}, r"small.yaml: name: found 'other'; allowed: the file's own name, 'small'"),
    ({"titles": "x"}, r"titles: found an unknown key"),
    ({"results": []}, r"allowed: at least one result"),
    ({"citation": {"document": "A paper"}}, r"citation.date: found nothing; allowed: this key is required"),
    (result(machine="cray"), r"one: machine: found 'cray'; allowed: one of box"),
    (result(workload="ewa"), r"one: workload: found 'ewa'; allowed: one of ic"),
    (result(rate_flop_per_s="2 GB/s"), r"results.0.rate_flop_per_s: found '2 GB/s'; allowed: no quantity"),
    (result(rate_flop_per_s="-2 TFLOP/s"), r"results.0.rate_flop_per_s: found '-2 TFLOP/s'"),
    (result(train_rate_samples_per_s=3), r"one of train_rate_samples_per_s, rate_flop_per_s: state the others"),
    (result(quality=-1), r"results.0.quality: found -1"),
    (result(precision="fp64"), r"results.0.precision: found 'fp64'; allowed: 'fp32', 'tf32', 'bf16' or 'fp16'"),
    (result(compression="gzip"), r"results.0.compression: found 'gzip'"),
    (result(rate_flop_per_s=None, derived={"against": "two"}), r"one: against: found 'two'"),
    (printed(quantity="speed"), r"results.0.printed.0.quantity: found 'speed'"),
    (printed(value="2 GB"), r"results.0.printed.0.value: found '2 GB'; allowed: no quantity"),
    (printed(value=None), r"a value, or lowest and highest"),
    (printed(against="one"), r"'against' names the other result for gain_ratio"),
    (printed(quantity="gain_ratio", value=2), r"'against' names the other result for gain_ratio"),
    (printed(quantity="gain_ratio", value=2, against="one"), r"one: against: found 'one'"),
    (printed(consistent=False), r"a contradiction of the source .* needs a note"),
    ({"results": SMALL["results"] * 2}, r"results: each name once, found twice: one"),
    (
        {"breakdowns": [{"name": "b", "title": "b", "where": "t", "part_shares": {"a": 1.2}}]},
        r"breakdowns.0.part_shares.a: found 1.2",
    ),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_a_mistake_names_file_key_found_and_allowed(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        load_published(write(tmp_path, **changes))


def test_a_missing_file_names_those_that_are_there(tmp_path):
    write(tmp_path)
    with pytest.raises(ConfigError, match=r"other.yaml: .*: one of small"):
        load_published(tmp_path / "other.yaml")


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path):
    with pytest.raises(ConfigError, match="the configuration has 2 errors"):
        load_published(write(tmp_path, titles="x", **result(quality=-1)))


def test_a_printed_number_has_the_unit_of_its_quantity(tmp_path):
    published = load_published(write(tmp_path, **printed()))
    assert published.result("one").printed[0].value == 2e12
    assert unit_of("rate_flop_per_s") == "FLOP/s"
    assert all(unit_of(name) == "" for name in AGAINST)
    ratios = [name for name in Quantity.__args__ if name.endswith("_ratio")]
    assert ratios
    assert all(unit_of(name) == "" for name in ratios)
