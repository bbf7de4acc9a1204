import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from unit.data.loopback import Publisher, served
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data import download
from hpcai.data.catalogue import Archive, read_catalogue
from hpcai.data.download import (
    A_FOLDER,
    BAD_REDIRECT,
    NO_ROOM,
    OTHER_CHECKSUM,
    OTHER_KIND,
    OTHER_SIZE,
    OTHER_SIZE_THERE,
    OTHER_STATUS,
    REPLACED,
    UNREACHABLE,
    Patience,
    fetch_archive,
    remember_first_use,
)

CONTENT = b"\x1f\x8b" + os.urandom(299_998)
"""Begins like gzip."""
QUICK = Patience(failures=3, longest_wait_s=0.01, timeout_s=5)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CATALOGUE = Path(__file__).parents[3] / "config" / "datasets.tsv"


@pytest.fixture
def publisher():
    with served(Publisher(CONTENT)) as running:
        yield running


def archive(publisher: Publisher, **facts: object) -> Archive:
    return Archive.model_validate(
        {"dataset": "small", "file": "small.tgz", "url": publisher.url, "format": "tgz", **facts}
    )


def known(publisher: Publisher) -> Archive:
    return archive(publisher, bytes=len(CONTENT), checksum_algorithm="sha256", checksum=SHA256)


def quarantined(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("small.tgz.quarantine-*")]


def test_fetches_once(tmp_path, publisher):
    path = fetch_archive(known(publisher), tmp_path / "new", QUICK)
    assert path.read_bytes() == CONTENT
    assert sorted(file.name for file in path.parent.iterdir()) == ["small.tgz"]
    fetch_archive(known(publisher), tmp_path / "new", QUICK)
    assert len(publisher.requests) == 1


def test_continues_where_it_was_broken_off(tmp_path, publisher):
    publisher.break_after_bytes = [131_072, 65_536]
    assert fetch_archive(known(publisher), tmp_path, QUICK).read_bytes() == CONTENT
    ranges = [request.get("Range") for request in publisher.requests]
    assert ranges == [None, "bytes=131072-", "bytes=196608-"]
    assert publisher.requests[1]["If-Range"] == '"first"'


def test_continues_in_a_later_process(tmp_path, publisher):
    publisher.break_after_bytes = [196_608, 0, 0, 0]
    with refused(DatasetError, UNREACHABLE, tries=3, kept_bytes=196_608):
        fetch_archive(known(publisher), tmp_path, QUICK)
    assert not (tmp_path / "small.tgz").exists()
    publisher.requests.clear()
    fetch_archive(known(publisher), tmp_path, QUICK)
    assert [request.get("Range") for request in publisher.requests] == ["bytes=196608-"]


def test_a_server_without_ranges_begins_anew(tmp_path, publisher):
    publisher.ranges, publisher.break_after_bytes = False, [100_000]
    assert fetch_archive(known(publisher), tmp_path, QUICK).read_bytes() == CONTENT


@pytest.mark.parametrize("honours_if_range", [True, False])
def test_a_replaced_file_is_not_mixed_with_its_predecessor(tmp_path, publisher, honours_if_range):
    publisher.break_after_bytes = [100_000, 0, 0, 0]
    with pytest.raises(DatasetError):
        fetch_archive(archive(publisher), tmp_path, QUICK)
    publisher.content, publisher.etag = b"\x1f\x8b" + os.urandom(299_998), '"second"'
    publisher.honours_if_range = honours_if_range
    assert fetch_archive(archive(publisher), tmp_path, QUICK).read_bytes() == publisher.content


def test_without_an_etag_nothing_is_continued(tmp_path, publisher):
    publisher.etag, publisher.break_after_bytes = "", [100_000]
    assert fetch_archive(known(publisher), tmp_path, QUICK).read_bytes() == CONTENT
    assert all("Range" not in request for request in publisher.requests)


def test_a_shrunken_file_begins_anew(tmp_path, publisher):
    publisher.break_after_bytes = [196_608, 0, 0, 0]
    with pytest.raises(DatasetError):
        fetch_archive(archive(publisher), tmp_path, QUICK)
    publisher.content, publisher.honours_if_range = CONTENT[:1000], False
    publisher.etag = '"first"'
    assert fetch_archive(archive(publisher), tmp_path, QUICK).read_bytes() == CONTENT[:1000]


def test_busy_servers_are_asked_again_others_not(tmp_path, publisher):
    publisher.statuses = [503, 429]
    fetch_archive(known(publisher), tmp_path / "a", QUICK)
    assert len(publisher.requests) == 3
    publisher.requests.clear()
    publisher.statuses = [404]
    with pytest.raises(DatasetError, match="found HTTP status 404"):
        fetch_archive(known(publisher), tmp_path / "b", QUICK)
    assert len(publisher.requests) == 1


def test_nobody_there(tmp_path):
    absent = Archive(dataset="small", file="small.tgz", url="http://127.0.0.1:9/file", format="tgz")
    with refused(DatasetError, UNREACHABLE, tries=3):
        fetch_archive(absent, tmp_path, QUICK)


def test_wrong_checksum_goes_to_quarantine(tmp_path, publisher):
    wrong = archive(publisher, checksum_algorithm="sha256", checksum="0" * 64)
    for count in (1, 2):
        with refused(DatasetError, OTHER_CHECKSUM, algorithm="sha256", found=SHA256, expected="0" * 64):
            fetch_archive(wrong, tmp_path, QUICK)
        assert quarantined(tmp_path) == [CONTENT] * count
    assert not list(tmp_path.glob("*.part*"))
    assert not (tmp_path / "small.tgz").exists()


def test_wrong_size(tmp_path, publisher):
    with refused(DatasetError, OTHER_SIZE_THERE, found_bytes=300_000, expected_bytes=5):
        fetch_archive(archive(publisher, bytes=5), tmp_path, QUICK)
    (tmp_path / "small.tgz").write_bytes(b"abc")
    with refused(DatasetError, OTHER_SIZE, place=str(tmp_path / "small.tgz"), found_bytes=3, expected_bytes=300_000):
        fetch_archive(known(publisher), tmp_path, QUICK)
    assert quarantined(tmp_path) == [b"abc"]


def free_space(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: SimpleNamespace(free=free_bytes))


def test_a_file_that_does_not_fit_is_refused_before_its_first_byte(tmp_path, publisher, monkeypatch):
    free_space(monkeypatch, 299_999)
    facts = {"free_bytes": 299_999, "needed_bytes": 300_000, "file": "small.tgz", "place": str(tmp_path)}
    with refused(DatasetError, NO_ROOM, **facts):
        fetch_archive(archive(publisher), tmp_path, QUICK)
    assert not list(tmp_path.iterdir())


def test_what_was_received_needs_no_more_room(tmp_path, publisher, monkeypatch):
    publisher.break_after_bytes = [131_072, 0, 0, 0]
    with refused(DatasetError, UNREACHABLE, kept_bytes=131_072):
        fetch_archive(known(publisher), tmp_path, QUICK)
    free_space(monkeypatch, 300_000 - 131_073)
    with refused(DatasetError, NO_ROOM, needed_bytes=300_000 - 131_072):
        fetch_archive(known(publisher), tmp_path, QUICK)
    free_space(monkeypatch, 300_000 - 131_072)
    publisher.requests.clear()
    assert fetch_archive(known(publisher), tmp_path, QUICK).read_bytes() == CONTENT
    assert [request.get("Range") for request in publisher.requests] == ["bytes=131072-"]


def test_a_refusal_names_the_wrong_file_that_was_there(tmp_path, publisher):
    """A second attempt finds no file, and must not hide why."""
    (tmp_path / "small.tgz").write_bytes(b"damaged by hand")
    with pytest.raises(DatasetError):
        fetch_archive(known(publisher), tmp_path, QUICK)
    (moved,) = tmp_path.glob("small.tgz.quarantine-*")
    publisher.statuses = [403]
    with refused(DatasetError, OTHER_STATUS, status=403, file="small.tgz", folder=tmp_path) as caught:
        fetch_archive(known(publisher), tmp_path, QUICK)
    assert moved.name in caught.value.facts["before"]


def test_the_first_use_is_remembered_when_it_is_told(tmp_path, publisher, caplog):
    path, record = fetch_archive(archive(publisher), tmp_path, QUICK), tmp_path / "small.tgz.first-use.json"
    fetch_archive(archive(publisher), tmp_path, QUICK)
    assert not record.exists()
    remember_first_use(archive(publisher), path)
    assert "no checksum is published" in caplog.text
    assert json.loads(record.read_bytes()) == {"url": publisher.url, "bytes": len(CONTENT), "sha256": SHA256}
    fetch_archive(archive(publisher), tmp_path, QUICK)
    path.unlink()
    publisher.content, publisher.etag = CONTENT[:2] + CONTENT[:1:-1], '"second"'
    with refused(DatasetError, REPLACED, expected=SHA256, record=record):
        fetch_archive(archive(publisher), tmp_path, QUICK)
    assert quarantined(tmp_path) == [publisher.content]
    remember_first_use(archive(publisher), tmp_path / "small.tgz")
    assert json.loads(record.read_bytes())["sha256"] == SHA256


def test_a_published_checksum_needs_no_first_use(tmp_path, publisher):
    remember_first_use(known(publisher), fetch_archive(known(publisher), tmp_path, QUICK))
    assert [file.name for file in tmp_path.iterdir()] == ["small.tgz"]


def test_an_encoded_content_is_refused_at_once(tmp_path, publisher):
    """Its length differs from the file's: each transfer seemed to bring new bytes, and none was complete."""
    publisher.content, publisher.headers = gzip.compress(CONTENT), {"Content-Encoding": "gzip"}
    with pytest.raises(DatasetError, match="found Content-Encoding gzip"):
        fetch_archive(archive(publisher), tmp_path, QUICK)
    assert len(publisher.requests) == 1
    assert not list(tmp_path.iterdir())


def test_parts_that_grow_and_shrink_bring_nothing_new(tmp_path, publisher):
    publisher.ranges, publisher.break_after_bytes = False, [100_000, 200_000] * 10
    with refused(DatasetError, UNREACHABLE, tries=3):
        fetch_archive(known(publisher), tmp_path, QUICK)
    assert len(publisher.requests) == 5


@pytest.mark.parametrize("size", [250_000, 400_000])
def test_parts_of_another_size_are_not_joined(tmp_path, publisher, size):
    """Dates have a resolution of seconds, and caches answer with old tags: only the size may distinguish the files."""
    publisher.break_after_bytes = [100_000, 0, 0, 0]
    with pytest.raises(DatasetError):
        fetch_archive(archive(publisher), tmp_path, QUICK)
    publisher.content, publisher.honours_if_range = b"\x1f\x8b" + os.urandom(size - 2), False
    assert fetch_archive(archive(publisher), tmp_path, QUICK).read_bytes() == publisher.content


def test_a_part_of_unknown_size_is_not_continued(tmp_path, publisher):
    (tmp_path / "small.tgz.part").write_bytes(os.urandom(100_000))
    state = {"url": publisher.url, "guard": publisher.etag, "total_bytes": None}
    (tmp_path / "small.tgz.part.json").write_text(json.dumps(state))
    assert fetch_archive(archive(publisher), tmp_path, QUICK).read_bytes() == CONTENT


PAGE = b"<!DOCTYPE html>\n<html><body>Log in</body></html>" + b" " * 600


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/xhtml+xml", "Text/HTML"])
def test_a_page_is_refused_and_what_is_there_is_kept(tmp_path, publisher, kind):
    publisher.break_after_bytes = [131_072, 0, 0, 0]
    with pytest.raises(DatasetError):
        fetch_archive(archive(publisher), tmp_path, QUICK)
    publisher.requests.clear()
    publisher.content, publisher.etag, publisher.headers = PAGE, "", {"Content-Type": kind}
    with pytest.raises(DatasetError, match="found a page"):
        fetch_archive(archive(publisher), tmp_path, QUICK)
    publisher.content, publisher.etag, publisher.headers = CONTENT, '"first"', {}
    assert fetch_archive(archive(publisher), tmp_path, QUICK).read_bytes() == CONTENT
    assert [request.get("Range") for request in publisher.requests] == ["bytes=131072-"] * 2


@pytest.mark.parametrize(
    ("name", "form"), [("small.tgz", "tgz"), ("small.tar", "tar"), ("climo_1979.h5", "file"), ("note.bin", "file")]
)
def test_a_page_that_calls_itself_a_file_goes_to_quarantine(tmp_path, publisher, name, form):
    publisher.content = PAGE
    wanted = archive(publisher, file=name, format=form)
    kind = Path(name).suffix if form == "file" else form
    with refused(DatasetError, OTHER_KIND, head=PAGE[:16], expected=kind):
        fetch_archive(wanted, tmp_path, QUICK)
    assert [file.name for file in tmp_path.glob("*") if ".quarantine-" not in file.name] == []


def test_archives_before_posix_are_tar_archives(tmp_path, publisher):
    header = tarfile.TarInfo("data").tobuf(tarfile.USTAR_FORMAT)
    header = header[:257] + bytes(255)
    total = sum(header[:148]) + sum(header[156:]) + 8 * ord(" ")
    publisher.content = header[:148] + b"%06o\0 " % total + header[156:] + bytes(1024)
    assert fetch_archive(archive(publisher, format="tar"), tmp_path, QUICK).read_bytes() == publisher.content


@pytest.fixture
def redirecting(monkeypatch):
    """Stands in for a server with TLS: answers https requests with a redirect."""
    honest, targets = requests.adapters.HTTPAdapter.send, {}

    def send(self, request, **options):
        if request.url not in targets:
            return honest(self, request, **options)
        response = requests.Response()
        response.url, response.request, response.status_code = request.url, request, 302
        response.headers["Location"], response.raw = targets[request.url], io.BytesIO()
        return response

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    return targets


def test_no_redirect_gives_up_the_encryption(tmp_path, publisher, redirecting):
    redirecting["https://a.example/file"] = "/there"
    redirecting["https://a.example/there"] = publisher.url
    with refused(DatasetError, BAD_REDIRECT, address="https://a.example/there", target=publisher.url):
        fetch_archive(archive(publisher, url="https://a.example/file"), tmp_path, QUICK)
    assert not publisher.requests
    redirecting["https://a.example/there"] = "http://[broken"
    with refused(DatasetError, BAD_REDIRECT, target="http://[broken", allowed="https"):
        fetch_archive(archive(publisher, url="https://a.example/file"), tmp_path, QUICK)


def test_other_redirects_are_followed(tmp_path, publisher, redirecting):
    redirecting["http://a.example/file"] = publisher.url
    assert fetch_archive(archive(publisher, url="http://a.example/file"), tmp_path, QUICK).read_bytes() == CONTENT


@pytest.mark.parametrize("damage", [lambda text: "größe" + text, lambda text: text + "x" * 131_073 + "\n"])
def test_a_catalogue_that_is_no_table_is_refused(tmp_path, damage):
    path = tmp_path / "datasets.tsv"
    path.write_bytes(damage(CATALOGUE.read_text()).encode("latin-1", "replace"))
    with pytest.raises(DatasetError, match=str(path)):
        read_catalogue(path)


def test_the_catalogue_has_the_official_editions():
    catalogue = read_catalogue(CATALOGUE)
    assert {"cosmoflow_v2", "cosmoflow_v07", "cosmoflow_small"} <= catalogue.keys()
    assert all(row.url.startswith("https://") for row in catalogue.values())


def test_a_folder_is_no_archive(tmp_path):
    with refused(DatasetError, A_FOLDER):
        fetch_archive(read_catalogue(CATALOGUE)["cosmoflow_v07"], tmp_path, QUICK)


ROW = "small\tsmall.tgz\thttps://example.org/small.tgz\t10\t\t\ttgz\ta note"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW.replace("small.tgz\t", "../small.tgz\t", 1), "line 2: file: found '../small.tgz'"),
        (ROW.replace("https", "file"), "line 2: url"),
        (ROW.replace("\t10\t", "\t-1\t"), "line 2: bytes"),
        (ROW.replace("\t\t\ttgz", "\tcrc32\tabc\ttgz"), "line 2: checksum_algorithm"),
        (ROW.replace("\t\t\ttgz", "\tmd5\t\ttgz"), "line 2: row: .*both"),
        (ROW.replace("\ttgz\t", "\tzip\t"), "line 2: format"),
        (f"{ROW}\n{ROW}", "line 3: found 'small' twice"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, message):
    path = tmp_path / "datasets.tsv"
    path.write_text("\t".join(Archive.model_fields) + "\n" + row + "\n")
    with pytest.raises(DatasetError, match=f"datasets.tsv: {message}"):
        read_catalogue(path)


def test_a_sound_row(tmp_path):
    path = tmp_path / "datasets.tsv"
    path.write_text("\t".join(Archive.model_fields) + "\n" + ROW + "\n")
    assert read_catalogue(path)["small"].bytes == 10
    path.write_text("name\turl\n")
    with pytest.raises(DatasetError, match="line 1: found columns"):
        read_catalogue(path)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_catalogue(tmp_path / "absent.tsv")
