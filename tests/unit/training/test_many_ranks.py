"""Cost per rank and files per run do not grow with the number of ranks; `bench/bench_ranks.py` shows 1,024."""

import threading
from pathlib import Path
from unittest import mock

import pytest
from unit.record_factory import make_machine, make_provenance, make_record

from hpcai.core.errors import LaunchError
from hpcai.measure.publish import publish
from hpcai.measure.recording import record_attempt
from hpcai.measure.watch import Ending
from hpcai.records.files import write_json
from hpcai.training import rendezvous
from hpcai.training.collectives import meeting
from hpcai.training.collectives.base import Ranks
from hpcai.training.collectives.meeting import Meeting
from hpcai.training.journal import ResourceSampler
from hpcai.training.rendezvous import ADDRESS, EVERY, LOOPBACK, PORT, SECRET, Rendezvous, Store, new_secret

FEW, MANY = 64, 128


def start(ranks: int) -> dict[str, str]:
    secret = new_secret()
    server = Rendezvous(LOOPBACK, secret)
    port = server.start()
    server.expect([f"n{node}" for node in range(ranks)], 1)
    return {ADDRESS: LOOPBACK, PORT: str(port), SECRET: secret}


def requests_per_rank(ranks: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Let stub ranks meet; the last arrives once all others have asked."""
    environment, asked = start(ranks), []
    gate = threading.Barrier(ranks)
    found: dict[int, list[str]] = {}
    ask = meeting.urllib.request.urlopen

    def counted(*request: object, **options: object) -> object:
        answer = ask(*request, **options)
        asked.append(request)
        if not isinstance(request[0], str):  # its own text is stored: from here on, nobody needs to ask twice
            gate.wait(timeout=30)
        return answer

    def join(rank: int) -> None:
        found[rank] = Meeting(Ranks(rank, ranks, 0, 1, rank, ranks), dict(environment), "stub").meet(
            "all", f"at {rank}"
        )

    with mock.patch.object(meeting.urllib.request, "urlopen", counted):
        threads = [threading.Thread(target=join, args=(rank,), daemon=True) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
    expected = [f"at {rank}" for rank in range(ranks)]
    assert [found[rank] for rank in range(ranks)] == [expected] * ranks
    return len(asked) / ranks


def test_a_rank_asks_as_often_whatever_the_number_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requests_per_rank(FEW, monkeypatch) == requests_per_rank(MANY, monkeypatch) == 2


def test_a_rank_that_does_not_arrive_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "MEETING_LIMIT_S", 0.2)
    with pytest.raises(LaunchError, match="rank 1 of 2"):
        Meeting(Ranks(0, 2, 0, 1, 0, 2), start(2), "stub").meet("all", "here")


def test_all_texts_follow_what_is_stored() -> None:
    store = Store({"global": 2})
    assert store.get_all("any", 2) == (None, 0)
    store.put("any", "0", b"a")
    assert store.get_all("any", 2) == (None, 1)
    store.put("any", "1", b"b")
    assert store.get_all("any", 2) == (b'["a", "b"]', 2)
    store.put("any", "1", b"c")
    assert store.get_all("any", 2) == (b'["a", "c"]', 2)
    store.finish("any", "1")
    assert store.get_all("any", 2) == (None, 1)


def test_what_has_left_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "VALUES_PER_RANK", 1)
    store = Store({"global": 2})
    for _ in range(3):
        assert [store.put("global", key, b"") for key in "012"] == [True, True, False]
        for key in "01":
            store.finish("global", key)
        assert [store.put("other", key, b"") for key in "012"] == [True, True, False]
        for key in "010":
            store.finish("other", key)


@pytest.mark.parametrize("number", ["", "-1", "x", "9" * 30, "0"])
def test_texts_of_no_number_of_ranks(number: str) -> None:
    environment = start(1)
    url = f"http://{LOOPBACK}:{environment[PORT]}/{environment[SECRET]}/any/{EVERY}{number}"
    with pytest.raises(meeting.HTTPError) as refused:
        meeting.urllib.request.urlopen(url, timeout=30)
    assert refused.value.code == (404 if number == "0" else 400)


def publish_run(ranks: int, folder: Path) -> tuple[set[str], int]:
    """Write what ranks write, record and publish it; return the files that stay, and how many there were before."""
    record = make_record(nodes=ranks, machine=make_machine(nodes=ranks))
    attempt = folder / "attempts" / "a1"
    (attempt / "ranks").mkdir(parents=True)
    for report in record.ranks:
        write_json(report, attempt / "ranks" / f"rank{report.placement.rank}.json")
        rows = f"{','.join(ResourceSampler.COLUMNS)}\n1.0,5,9.0,1,1\n"
        (attempt / f"resources_rank{report.placement.rank}.csv").write_text(rows)
    write_json(record.training, attempt / "training.json")
    before = sum(path.is_file() for path in attempt.rglob("*"))
    ending = Ending(verdict="ended", exit_status=0, started_monotonic_s=0.0, wall_s=record.wall_s)
    facts = {"data_source": "generated", "started_utc": record.started_utc}
    made = record_attempt(record.plan, attempt, ending, make_provenance(), facts)
    assert (made.outcome, len(made.ranks)) == (record.outcome, ranks)
    publish(attempt, folder, made)
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}, before


def test_files_of_a_published_run_do_not_depend_on_the_ranks(tmp_path: Path) -> None:
    (few, before_few), (many, before_many) = (publish_run(ranks, tmp_path / str(ranks)) for ranks in (FEW, MANY))
    assert few == many
    assert len(many) == 5
    # While ranks run, each has two files: they cannot append to a common one.
    assert before_many - before_few == 2 * (MANY - FEW)
