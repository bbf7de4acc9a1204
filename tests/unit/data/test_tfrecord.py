import gzip
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.data.record_files import read_records
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data.tfrecord import (
    GZIP_CUT,
    Content,
    compress_content,
    encode_records,
    masked_crc32c,
    split_records,
    unpack_content,
    write_records,
)

PAYLOADS = st.lists(st.binary(max_size=200), min_size=1, max_size=4)


def records_of(data: bytes, compressed: bool) -> list[bytes]:
    return [bytes(payload) for payload in split_records(unpack_content(data, compressed), "x.tfrecord")]


def test_frame_is_the_documented_one():
    frame = encode_records([b"abc"])
    length = struct.pack("<Q", 3)
    assert frame == length + struct.pack("<I", masked_crc32c(length)) + b"abc" + struct.pack(
        "<I", masked_crc32c(b"abc")
    )
    # CRC-32C check value of "123456789" (RFC 3720, appendix B.4 polynomial), masked by hand.
    assert masked_crc32c(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


@given(PAYLOADS, st.booleans())
def test_round_trip(payloads, compressed):
    content = encode_records(payloads)
    assert records_of(compress_content(content) if compressed else content, compressed) == payloads


@given(PAYLOADS, st.booleans(), st.data())
def test_every_cut_is_found(payloads, compressed, data):
    whole = compress_content(encode_records(payloads)) if compressed else encode_records(payloads)
    size = data.draw(st.integers(0, len(whole) - 1))
    if not compressed and size in {len(encode_records(payloads[:count])) for count in range(1, len(payloads))}:
        return  # A plain file cut between two records looks complete; only its manifest shows the cut.
    with pytest.raises(DatasetError, match=r"x.tfrecord: record \d"):
        records_of(whole[:size], compressed)


@given(PAYLOADS, st.data())
def test_every_flipped_bit_of_a_plain_file_is_found(payloads, data):
    damaged = bytearray(encode_records(payloads))
    bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DatasetError, match=r"record \d|expected plain"):
        records_of(bytes(damaged), compressed=False)


def test_the_damaged_record_is_named():
    payloads = [bytes([number]) * 100 for number in range(4)]
    damaged = bytearray(encode_records(payloads))
    damaged[2 * 116 + 50] ^= 1
    with pytest.raises(DatasetError, match=r"x.tfrecord: record 2: .*flipped bit"):
        records_of(bytes(damaged), compressed=False)
    whole = compress_content(encode_records(payloads))
    with refused(DatasetError, GZIP_CUT, place="x.tfrecord: record 4"):
        records_of(whole[:-3], compressed=True)


@pytest.mark.parametrize(
    ("data", "compressed", "message"),
    [
        (b"", True, "record 0: found an empty file"),
        (b"", False, "record 0: found an empty file"),
        (gzip.compress(b"", mtime=0), True, "record 0: found an empty file"),
        (encode_records([b"a"]) + b"more", False, "record 1: found 4 bytes of it, expected 12"),
        (compress_content(encode_records([b"a"])) + b"more", True, "record 1: found 4 bytes of garbage"),
        (encode_records([b"a"]), True, "found no gzip header"),
        (compress_content(encode_records([b"a"])), False, "found gzip, expected plain"),
    ],
    ids=["nothing", "nothing-plain", "empty", "tail", "tail-gzip", "plain-for-gzip", "gzip-for-plain"],
)
def test_damage(data, compressed, message):
    with pytest.raises(DatasetError, match=message):
        records_of(data, compressed)


def test_several_gzip_members_are_one_file():
    parts = [encode_records([b"one"]), encode_records([b"two"])]
    assert records_of(b"".join(map(compress_content, parts)), compressed=True) == [b"one", b"two"]


def test_decompression_bomb_is_refused(monkeypatch):
    monkeypatch.setattr("hpcai.data.tfrecord.MAX_CONTENT_BYTES", 1 << 20)
    with pytest.raises(DatasetError, match="more than 1048576 bytes"):
        records_of(compress_content(encode_records([random.Random(1).randbytes(2 << 20)])), compressed=True)


def test_content_that_no_sample_can_have_is_refused_before_it_takes_the_memory():
    with pytest.raises(DatasetError, match="a bomb"):
        records_of(compress_content(bytes(64 << 20)), compressed=True)


def test_files(tmp_path):
    path = tmp_path / "a.tfrecord"
    write_records(path, [b"one", b"two"], compress=True)
    first = path.read_bytes()
    write_records(path, [b"one", b"two"], compress=True)
    assert path.read_bytes() == first
    assert list(read_records(path, compressed=True)) == [b"one", b"two"]
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DatasetError, match="found no record to write"):
        write_records(path, [], compress=True)
    with pytest.raises(DatasetError, match=r"b\.tfrecord: cannot be read"):
        list(read_records(tmp_path / "b.tfrecord", compressed=True))


def test_incomplete_content_is_an_error_after_its_records():
    records = split_records(Content(encode_records([b"a"]), "a reason"), "x")
    assert bytes(next(records)) == b"a"
    with pytest.raises(DatasetError, match="record 1: a reason"):
        next(records)
