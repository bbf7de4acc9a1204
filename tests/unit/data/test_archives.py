import errno
import gzip
import io
import os
import tarfile

import pytest
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data import archives
from hpcai.data.archives import LONG_HEADER, NO_ROOM, UnpackLimits, unpack_archive

LIMITS = UnpackLimits(content_bytes=1 << 20, files=10)


def build(path, members, mode="w"):
    """Write an archive; a member is a name with bytes, or a prepared header with bytes."""
    with tarfile.open(path, mode) as tar:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(("form", "mode"), [("tar", "w"), ("tgz", "w:gz")])
def test_an_honest_archive(tmp_path, form, mode):
    archive = build(tmp_path / "a", [("top/train/a", b"1" * 5000), ("top/val/" + "n" * 150, b"")], mode)
    target = tmp_path / "out"
    target.mkdir()
    unpack_archive(archive, target, form, LIMITS)
    assert sum(path.is_file() for path in target.rglob("*")) == 2
    assert (target / "top/train/a").read_bytes() == b"1" * 5000


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("../evil", "expected a name below|found '..'"),
        ("a/../../evil", "expected a name below|found '..'"),
        ("a/../b", "found '..'"),
        ("/evil", "absolute name"),
        ("a\\b", "unprintable name"),
        ("a\nb", "unprintable name"),
        (special("link", tarfile.SYMTYPE, "/etc/passwd"), "link, device"),
        (special("link", tarfile.LNKTYPE, "good"), "link, device"),
        (special("pipe", tarfile.FIFOTYPE), "link, device"),
        (special("device", tarfile.CHRTYPE), "link, device"),
        ("good", "found it twice"),
        ("./good", "found it twice"),
    ],
)
def test_dishonest_members(tmp_path, member, message):
    archive = build(tmp_path / "a", [("good", b"1"), (member, b"")])
    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(DatasetError, match=message):
        unpack_archive(archive, target, "tar", LIMITS)
    assert [path.name for path in target.rglob("*")] == ["good"]
    assert not (tmp_path / "evil").exists()


def test_bombs(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    bomb = build(tmp_path / "bomb", [("a", bytes(4 << 20))], "w:gz")
    with pytest.raises(DatasetError, match="expected at most 1048576: a bomb"):
        unpack_archive(bomb, target, "tgz", LIMITS)
    with pytest.raises(DatasetError, match="decompression bomb"):
        unpack_archive(bomb, target, "tgz", UnpackLimits(content_bytes=1 << 30))
    many = build(tmp_path / "many", [(f"f{number}", b"") for number in range(11)])
    with pytest.raises(DatasetError, match="more than 10 members"):
        unpack_archive(many, target, "tar", LIMITS)


def test_total_of_many_small_files_is_limited(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    archive = build(tmp_path / "a", [(f"f{number}", bytes(300_000)) for number in range(9)])
    with pytest.raises(DatasetError, match="decompression bomb"):
        unpack_archive(archive, target, "tar", LIMITS)


def test_a_huge_header_is_refused(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    archive = build(tmp_path / "a", [("n" * (3 << 20), b"")])
    with refused(DatasetError, LONG_HEADER):
        unpack_archive(archive, target, "tar", UnpackLimits(content_bytes=1 << 30))


@pytest.mark.parametrize("form", ["tar", "tgz"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_cut_archives(tmp_path, form, share):
    data = build(tmp_path / "a", [(f"f{number}", bytes([number + 1]) * 3000) for number in range(9)]).read_bytes()
    data = data[: 9 * 3584 + 1024]
    whole = gzip.compress(data) if form == "tgz" else data
    (tmp_path / "a").write_bytes(whole[: int(len(whole) * share)])
    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(DatasetError, match=r"found damage|no end mark"):
        unpack_archive(tmp_path / "a", target, form, LIMITS)


def test_cut_between_members_and_in_the_trailer(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    data = build(tmp_path / "a", [("one", b"1" * 512), ("two", b"2" * 512)]).read_bytes()
    (tmp_path / "a").write_bytes(data[:1024])
    with pytest.raises(DatasetError, match="no end mark"):
        unpack_archive(tmp_path / "a", target, "tar", LIMITS)
    (tmp_path / "b").write_bytes(gzip.compress(data)[:-4])
    with pytest.raises(DatasetError, match="found damage"):
        unpack_archive(tmp_path / "b", tmp_path, "tgz", LIMITS)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_damage(tmp_path, monkeypatch, number):
    archive, target = build(tmp_path / "a", [("one", b"1" * 512)]), tmp_path / "out"
    target.mkdir()

    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(archives.shutil, "copyfileobj", full)
    with refused(DatasetError, NO_ROOM, place=str(target), archive=archive, reason=os.strerror(number)):
        unpack_archive(archive, target, "tar", LIMITS)


def test_no_archive(tmp_path):
    (tmp_path / "a").write_bytes(b"<html>not found</html>" * 100)
    for form in ("tar", "tgz"):
        with pytest.raises(DatasetError, match="found damage"):
            unpack_archive(tmp_path / "a", tmp_path, form, LIMITS)
    with pytest.raises(DatasetError, match="found damage"):
        unpack_archive(tmp_path / "absent", tmp_path, "tar", LIMITS)
