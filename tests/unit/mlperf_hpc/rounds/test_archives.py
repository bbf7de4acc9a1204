"""Archives are read in one pass, give the same result as their folders, and are refused when damaged."""

import gzip
import io
import tarfile
import zipfile
from dataclasses import replace

import pytest
from unit.mlperf_hpc.log_factory import log_text, write_tree
from unit.parsers.artefacts import cuts, flips

from hpcai.core.errors import ParseError
from hpcai.mlperf_hpc.rounds.archives import CUT
from hpcai.mlperf_hpc.rounds.reading import read_round

MODES = {"tar": "w", "tar.gz": "w:gz", "tgz": "w:gz", "tar.xz": "w:xz", "tar.bz2": "w:bz2"}


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "hpc_results_v1.0"
    write_tree(root, logs=[log_text(seed=seed) for seed in (1, 2)])
    write_tree(root, org="A+B", scaling="weak", logs=[log_text(org="A+B")] * 2, pruned=[b"", log_text(org="A+B")])
    (root / "A+B/results/.DS_Store").write_bytes(b"\0")
    code = root / "ORG/benchmarks"
    code.mkdir()
    (code / "main.py").write_text("print()\n" * 2000)
    return root


def packed(root, path, *, top=True):
    """Pack a folder, with or without itself as the top folder."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(root.rglob("*")):
                archive.write(file, file.relative_to(root.parent if top else root))
        return path
    with tarfile.open(path, MODES[path.name.partition(".")[2]]) as archive:
        archive.add(root, root.name if top else ".")
    return path


def bare(found, top=""):
    """Return a round without the fields that depend on where it was read."""
    strip = len(top)

    def moved(runs):
        return tuple(
            replace(run, source=run.source[strip:], repairs=tuple(replace(one, source="") for one in run.repairs))
            for run in runs
        )

    return [
        replace(
            one,
            folder=one.folder[strip:],
            runs=moved(one.runs),
            pruned=moved(one.pruned),
            system=replace(one.system, source=one.system.source[strip:]),
        )
        for one in found.submissions
    ]


@pytest.mark.parametrize("kind", [*MODES, "zip"])
@pytest.mark.parametrize("top", [True, False])
def test_an_archive_equals_its_folder(tree, tmp_path, kind, top):
    path = packed(tree, tmp_path / f"v1.{kind}", top=top)
    found, folder = read_round(path, name="v1.0"), read_round(tree)
    assert bare(found, f"{tree.name}/" if top else "") == bare(folder)
    assert [one.kind for one in found.repairs] == [one.kind for one in folder.repairs]


def test_the_kind_is_told_by_the_content(tree, tmp_path):
    path = packed(tree, tmp_path / "v1.tar.xz").rename(tmp_path / "download")
    found = read_round(path)
    assert found.name == "v1.0"
    assert len(found.submissions) == 2


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "tar.bz2", "zip"])
def test_a_truncated_archive_is_refused(tree, tmp_path, kind):
    whole = packed(tree, tmp_path / f"v1.{kind}").read_bytes()
    if kind == "tar":
        whole = whole.rstrip(b"\0") + bytes(1024)  # what tar pads with after its mark of the end may be missing
    path = tmp_path / f"cut.{kind}"
    for place, data in cuts(whole, 12):
        path.write_bytes(data)
        if kind == "tar" and len(whole) - place < 512:
            continue  # half of the mark of the end is enough
        with pytest.raises(ParseError, match=f"{CUT.pattern}|found an|found a file|found unknown"):
            read_round(path)


@pytest.mark.parametrize("kind", ["tar.gz", "tar.xz", "tar.bz2"])
def test_a_flipped_bit_is_refused_or_changes_nothing(tree, tmp_path, kind):
    whole = packed(tree, tmp_path / f"v1.{kind}").read_bytes()
    expected = bare(read_round(tmp_path / f"v1.{kind}", name="v1"))
    path = tmp_path / f"flipped.{kind}"
    refused = 0
    for _, data in flips(whole, 25):
        path.write_bytes(data)
        try:
            found = read_round(path, name="v1")
        except ParseError:
            refused += 1
        else:
            assert bare(found) == expected
    assert refused > 15


def test_a_damaged_head_within_is_not_taken_for_the_end(tree, tmp_path):
    path = packed(tree, tmp_path / "v1.tar")
    with tarfile.open(path) as archive:
        last = [member for member in archive if member.isfile()][-1]
    data = bytearray(path.read_bytes())
    data[last.offset + 150] ^= 0xFF  # in the head's sum
    path.write_bytes(bytes(data))
    with pytest.raises(ParseError, match="nothing of it was imported"):
        read_round(path)


def test_paths_that_leave_the_archive_and_links_are_refused(tmp_path):
    path = tmp_path / "evil.tar"
    content = log_text().encode()
    with tarfile.open(path, "w") as archive:
        for name in ("/abs/results/m/strong/cosmoflow/result_1.txt", "../results/m/strong/cosmoflow/result_2.txt"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE), start=3):
            member = tarfile.TarInfo(f"ORG/results/m/strong/cosmoflow/result_{number}.txt")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        member = tarfile.TarInfo("ORG/results/m/strong/cosmoflow/result_9.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    found = read_round(path)
    assert [run.number for run in found.submissions[0].runs] == [9]
    kinds = [one.kind for one in found.repairs]
    assert kinds[:6] == ["unsafe_path", "unsafe_path", "link", "link", "no_file", "no_file"]
    assert not (tmp_path.parent / "results").exists()


def test_paths_of_a_zip_that_leave_it_are_refused(tmp_path):
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../results/m/strong/cosmoflow/result_1.txt", log_text())
        link = zipfile.ZipInfo("ORG/results/m/strong/cosmoflow/result_2.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("ORG/results/m/strong/cosmoflow/result_3.txt", log_text())
    found = read_round(path)
    assert [run.number for run in found.submissions[0].runs] == [3]
    assert [one.kind for one in found.repairs][:2] == ["unsafe_path", "link"]


def test_an_archive_without_results_is_refused(tmp_path):
    path = tmp_path / "code.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("main.py"))
    with pytest.raises(ParseError, match="found no log"):
        read_round(path)


def test_a_compressed_file_that_is_no_archive_is_refused(tmp_path):
    path = tmp_path / "result_1.txt.gz"
    path.write_bytes(gzip.compress(log_text().encode()))
    with pytest.raises(ParseError, match=r"expected a\s+whole .tar"):
        read_round(path)


def test_a_bomb_is_not_unpacked(tree, tmp_path, monkeypatch):
    monkeypatch.setattr("hpcai.mlperf_hpc.rounds.limits.FILE_BYTES", 100)
    for source in (tree, packed(tree, tmp_path / "v1.tar.gz"), packed(tree, tmp_path / "v1.zip")):
        found = read_round(source)
        left_out = [one for one in found.repairs if one.kind == "too_large"]
        assert len(left_out) == 5 + 2  # logs and system files; the empty log remains
        assert [len(one.runs) + len(one.pruned) for one in found.submissions] == [1]
