"""Verdicts on logs with one fault each: equal to the package's, with file, line and rule."""

import json
from pathlib import Path

import pytest
from unit.mlperf_hpc.compliance.authority import assert_equal
from unit.mlperf_hpc.log_factory import TARGETS, log_events, log_text, point, start, stop, text_of

from hpcai.mlperf_hpc.compliance.log_check import check_log
from hpcai.mlperf_hpc.compliance.model import RULE_SETS, LogVerdict
from hpcai.parsers.mllog import parse_mllog

rule_sets = pytest.mark.parametrize("rule_set", RULE_SETS)


def check(text: str, rule_set: str = "3.0.0") -> LogVerdict:
    return check_log(parse_mllog(text.encode(), "result_1.txt"), rule_set, source="result_1.txt")


def only(verdict: LogVerdict, key: str):
    found = [finding for finding in verdict.failures if finding.key == key]
    assert len(found) == 1
    return found[0]


def line_of(text: str, key: str, which: int = 0) -> int:
    lines = [number for number, words in enumerate(text.split("\n"), start=1) if f'"key": "{key}"' in words]
    return lines[which]


@rule_sets
@pytest.mark.parametrize("division", ["closed", "open"])
@pytest.mark.parametrize("benchmark", TARGETS)
def test_made_up_logs(benchmark, division, rule_set, tmp_path):
    verdict = assert_equal(log_text(benchmark, division=division).encode(), tmp_path, rule_set)
    assert verdict.complies == (benchmark != "openfold" or rule_set == "3.0.0")
    assert verdict.rule_set == rule_set


def changed(events, key, **fields):
    return [{**event, **fields} if event["key"] == key else event for event in events]


def without(events, key):
    return [event for event in events if event["key"] != key]


def bare(events, key):
    """Empty the metadata of a key's events."""
    return [{**event, "metadata": {}} if event["key"] == key else event for event in events]


def moved(events, key, before):
    taken = [event for event in events if event["key"] == key]
    rest = without(events, key)
    place = next(number for number, event in enumerate(rest) if event["key"] == before)
    return [*rest[:place], *taken, *rest[place:]]


EVENTS = log_events()
LATE = EVENTS[-1]["time_ms"] + 5000
MUTATIONS = {
    "missing key": (without(EVENTS, "train_samples"), "train_samples"),
    "missing cache_clear": (without(EVENTS, "cache_clear"), "cache_clear"),
    "missing run_stop": (without(EVENTS, "run_stop"), "run_stop"),
    "missing epochs": (without(without(EVENTS, "epoch_start"), "block_start"), "block_start or epoch_start"),
    "doubled run_stop, other values": (
        [*EVENTS, {**stop(LATE, "run_stop", status="success"), "value": 1}],
        "run_stop",
    ),
    "run before init": (moved(EVENTS, "run_start", "init_start"), "run_start"),
    "init_stop after run_start": (moved(EVENTS, "init_stop", "run_stop"), "init_stop"),
    "run_stop before run_start": (moved(EVENTS, "run_stop", "run_start"), "run_stop"),
    "target missed": (log_events(scores=[0.5, 0.4, 0.3, 0.2]), "eval_error"),
    "score zero": (log_events(scores=[0.5, 0.4, 0.3, 0]), "eval_error"),
    "NaN scores": (log_events(scores=[float("nan")] * 4), "eval_error"),
    "score is text": (log_events(scores=["a", "b", "c", "d"]), "eval_error"),
    "init takes an hour": (
        [
            {**event, "time_ms": event["time_ms"] + (3_600_000 if number > 6 else 0)}
            for number, event in enumerate(EVENTS)
        ],
        "init_stop",
    ),
    "wrong division": (log_events(division="other"), "submission_division"),
    "wrong benchmark": (changed(EVENTS, "submission_benchmark", value="hpl"), "submission_benchmark"),
    "missing status": (log_events(status=None), "run_stop"),
    "missing metadata": (bare(EVENTS, "epoch_start"), "epoch_start"),
    "several organisations": ([*EVENTS[:1], point(LATE, "submission_org", "Other"), *EVENTS[1:]], "submission_org"),
    "wrong optimizer": (log_events(opt_name="Adam"), "opt_name"),
    "no batch": (log_events(global_batch_size=None), "global_batch_size"),
    "batch is text": (log_events(global_batch_size="512"), "global_batch_size"),
    "two batches": ([*EVENTS, point(LATE, "global_batch_size", 64)], "global_batch_size"),
    "dropout of 1": (log_events(dropout=1.0), "dropout"),
    "deepcam epsilon": (log_events("deepcam", opt_eps=1e-8), "opt_eps"),
    "deepcam without the keys of LAMB": (log_events("deepcam", opt_max_grad_norm=None), "opt_max_grad_norm"),
    "scheduler is a number": (log_events("deepcam", scheduler_type=5), "scheduler_type"),
    "staging never starts": (without(EVENTS, "staging_start"), "staging_stop"),
}


@rule_sets
@pytest.mark.parametrize("kind", MUTATIONS)
def test_mutated_log_fails_at_its_key(kind, rule_set, tmp_path):
    events, key = MUTATIONS[kind]
    verdict = assert_equal(text_of(events).encode(), tmp_path, rule_set)
    assert not verdict.complies
    assert key in {finding.key for finding in verdict.failures}
    for finding in verdict.failures:
        assert finding.source == "result_1.txt"
        assert finding.rule.startswith(f"hpc_{rule_set}/")
        assert finding.message


HARMLESS = {
    "doubled run_stop, equal values": [*EVENTS, stop(LATE, "run_stop", status="success")],
    "time goes backwards": [
        {**event, "time_ms": event["time_ms"] - 60_000} if event["key"] == "epoch_stop" else event for event in EVENTS
    ],
    "unknown keys": [*EVENTS, point(LATE, "something", 1), {**point(LATE, "x", 1), "key": None}],
    "NaN beside": [*EVENTS, point(LATE, "eval_loss", float("nan"))],
    "key of no text": [*EVENTS, {**point(LATE, "x", 1), "key": ["run_stop"]}],
    "submission keys later": [*EVENTS, point(LATE, "submission_org", "ORG")],
    "equal NaN twice": [*log_events(eval_samples=float("nan")), point(LATE, "eval_samples", float("nan"))],
    "events go on after run_stop": [*EVENTS, point(LATE, "eval_error", 9.0, epoch_num=9)],
}


@rule_sets
@pytest.mark.parametrize("kind", HARMLESS)
def test_what_the_package_accepts(kind, rule_set, tmp_path):
    assert assert_equal(text_of(HARMLESS[kind]).encode(), tmp_path, rule_set).complies


@pytest.mark.parametrize(("rule_set", "complies"), [("1.0.0", False), ("2.0.0", False), ("3.0.0", True)])
def test_staging_before_the_run_is_allowed_from_3_0_on(rule_set, complies, tmp_path):
    events = moved(moved(EVENTS, "staging_stop", "init_start"), "staging_start", "staging_stop")
    assert assert_equal(text_of(events).encode(), tmp_path, rule_set).complies is complies


TEXT = log_text()
DAMAGED = {
    "truncated": TEXT[: int(len(TEXT) * 0.7)].encode(),
    "empty": b"",
    "no token": b"an ordinary text\n" * 5,
    "binary": bytes(range(256)) * 40,
    "binary within": TEXT.encode()[:3000] + b"\x00\xff\xfe:::MLLOG \x80{\n" + TEXT.encode()[3000:],
    "no object": f"{TEXT}:::MLLOG 5\n".encode(),
    "without value": f'{TEXT}:::MLLOG {{"time_ms": 1, "key": "x", "metadata": {{}}}}\n'.encode(),
    "bad time": f'{TEXT}:::MLLOG {{"time_ms": "1.2.3", "key": "x", "value": 1, "metadata": {{}}}}\n'.encode(),
    "no time": f'{TEXT}:::MLLOG {{"time_ms": null, "key": "x", "value": 1, "metadata": {{}}}}\n'.encode(),
}


@rule_sets
@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_log_does_not_comply(kind, rule_set, tmp_path):
    assert not assert_equal(DAMAGED[kind], tmp_path, rule_set).complies


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
@pytest.mark.parametrize("before", ["", "0: ", "[1,0]<stdout>:"])
def test_line_ends_and_prefixes(line_end, before, tmp_path):
    text = "".join(f"{before}{line}{line_end}other output{line_end}" for line in TEXT.splitlines())
    assert assert_equal(text.encode(), tmp_path, "3.0.0").complies


def test_latin_1(tmp_path):
    text = log_text(org="Universität")
    assert assert_equal(text.encode("latin-1"), tmp_path, "3.0.0").complies


def test_a_log_that_makes_the_package_read_without_end():
    """A benchmark `common` leads from closed_common.yaml to closed_common.yaml; the package never ends on it."""
    verdict = check(text_of(changed(EVENTS, "submission_benchmark", value="common")))
    assert not verdict.complies
    assert any(finding.stops and "never ends" in finding.message for finding in verdict.failures)


def test_rule_files_elsewhere_are_never_read(tmp_path):
    """A log must not make us execute a file, as the package would."""
    evil = tmp_path / "evil_common.yaml"
    evil.write_text("- BEGIN:\n    CODE: raise SystemExit('executed')\n")
    verdict = check(text_of(changed(EVENTS, "submission_division", value=f"../../../../../../../..{tmp_path}/evil")))
    assert any(finding.stops and finding.rule.endswith("evil_common.yaml") for finding in verdict.failures)


def test_every_failure_has_its_line():
    text = text_of(bare(EVENTS, "epoch_start"))
    verdict = check(text)
    assert [finding.line for finding in verdict.failures] == [line_of(text, "epoch_start", n) for n in range(4)]
    assert {finding.rule for finding in verdict.failures} == {
        "hpc_3.0.0/common.yaml: epoch_start: 'epoch_num' in v['metadata']"
    }
    assert verdict.failures[0].message == "epoch_start has no `epoch_num` in its metadata, expected one"


def test_sentences():
    text = text_of(moved(EVENTS, "run_start", "init_start"))
    verdict = check(text)
    found = {finding.message for finding in verdict.failures}
    assert "run_start is logged before init_stop, expected after it" in found
    assert "init_start is logged after run_start, expected before it" in found
    missing = only(check(text_of(without(EVENTS, "eval_samples"))), "eval_samples")
    assert missing.line is None
    assert missing.message == "found no line of eval_samples, expected exactly one"
    value = only(check(log_text(opt_name="Adam")), "opt_name")
    assert value.message == "opt_name has the value 'Adam', expected `v['value'] in ['sgd', 'SGD']`"


def test_equal_values_are_warned_of():
    events = [*EVENTS, stop(LATE, "run_stop", status="success")]
    verdict = check(text_of(events))
    assert verdict.complies
    (warning,) = verdict.findings
    assert (warning.severity, warning.key, warning.line) == ("warning", "run_stop", len(events))


def test_a_later_rule_file_takes_back_messages(tmp_path):
    """deepcam: train_samples is asked for by common.yaml and again by closed_deepcam.yaml."""
    events = without(log_events("deepcam"), "train_samples")
    verdict = assert_equal(text_of(events).encode(), tmp_path, "2.0.0")
    assert only(verdict, "train_samples").rule.startswith("hpc_2.0.0/closed_deepcam.yaml")


def test_the_rest_is_reported_where_the_package_stops(tmp_path):
    events = bare(log_events(scores=[None, 0.2, 0.2, 0.1]), "run_stop")
    verdict = assert_equal(text_of(events).encode(), tmp_path, "3.0.0")
    assert {"run_stop", "eval_error"} <= {finding.key for finding in verdict.failures}
    assert any(finding.stops for finding in verdict.failures)


def test_blocks_in_place_of_epochs(tmp_path):
    events = [event for event in EVENTS if not event["key"].startswith(("epoch_", "eval_st"))]
    place = next(number for number, event in enumerate(events) if event["key"] == "eval_error")
    blocks = [
        start(LATE, "block_start", first_epoch_num=1, epoch_count=4),
        stop(LATE, "block_stop", first_epoch_num=1),
    ]
    assert assert_equal(text_of([*events[:place], *blocks, *events[place:]]).encode(), tmp_path, "3.0.0").complies
    blocks[0]["metadata"]["epoch_count"] = 0
    assert not assert_equal(text_of([*events[:place], *blocks, *events[place:]]).encode(), tmp_path, "3.0.0").complies


def test_findings_fit_into_json():
    verdict = check(log_text(scores=[float("nan")] * 4))
    assert json.dumps([finding.message for finding in verdict.findings])


def test_source_is_not_read(tmp_path: Path):
    """The file that ``source`` names is not opened."""
    assert (
        check_log(parse_mllog(TEXT.encode(), "x"), "3.0.0", source="nowhere/result_7.txt").source
        == "nowhere/result_7.txt"
    )


@rule_sets
def test_time_that_goes_backwards_is_a_warning_because_the_package_does_not_look(rule_set, tmp_path):
    events = log_events()
    stopped = next(event for event in events if event["key"] == "run_stop")
    stopped["time_ms"] -= 10**7
    verdict = assert_equal(text_of(events).encode(), tmp_path, rule_set)
    assert verdict.complies
    (warning,) = [finding for finding in verdict.findings if finding.key == "time_ms"]
    assert not warning.failed
    assert "before run_start" in warning.message
    assert not [finding for finding in check(log_text(), rule_set).findings if finding.key == "time_ms"]


@rule_sets
def test_null_is_a_line_that_cannot_be_read(rule_set, tmp_path):
    verdict = assert_equal((log_text() + ":::MLLOG null\n").encode(), tmp_path, rule_set)
    assert [finding.stops for finding in verdict.failures] == [False]
