"""A folder is replaced as a whole only if an earlier call has written it; nothing of anybody else is touched."""

from pathlib import Path

import pytest
from unit.refusals import refused

from hpcai.core.errors import ConfigError
from hpcai.records import folders
from hpcai.records.folders import MANIFEST, write_manifest, written_whole

MARKER = "package.yaml"


def write(output: Path, text: str, marker: str | None = MARKER) -> None:
    with written_whole(output, marker=marker) as building:
        (building / MARKER).write_text(text)
        write_manifest(building)


def files_below(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("names", [["thesis.txt"], [MARKER], [MANIFEST, "thesis.txt"]])
def test_a_folder_that_nobody_here_wrote_stays(tmp_path, names):
    output = tmp_path / "out"
    output.mkdir()
    for name in names:
        (output / name).write_text("years of work")
    before = files_below(tmp_path)
    with refused(ConfigError, folders.NOT_EARLIER, place=str(output)):
        write(output, "new")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
@pytest.mark.parametrize("marker", [MARKER, None])
def test_a_file_or_link_stays(tmp_path, kind, marker):
    output = tmp_path / "out"
    if kind == "file":
        output.write_text("years of work")
    else:
        output.symlink_to(tmp_path / ("there" if kind == "link" else "nowhere"))
        (tmp_path / "there").mkdir()
    with refused(ConfigError, folders.NO_FOLDER):
        write(output, "new", marker)
    assert output.is_symlink() or output.read_text() == "years of work"


def test_what_appears_while_it_is_written_stays(tmp_path):
    output = tmp_path / "out"
    with refused(ConfigError, folders.NOT_EARLIER), written_whole(output, marker=MARKER) as building:
        (building / MARKER).write_text("new")
        output.mkdir()
        (output / "thesis.txt").write_text("years of work")
    assert files_below(tmp_path) == {"out/thesis.txt": "years of work"}


def test_an_earlier_output_and_an_empty_folder_are_replaced_and_nothing_beside_them(tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    beside = tmp_path / ".out.old"
    beside.mkdir()
    (beside / "thesis.txt").write_text("years of work")
    for text in ("first", "second"):
        write(output, text)
        assert (output / MARKER).read_text() == text
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.old", "out"]
    assert (beside / "thesis.txt").exists()


def test_a_folder_of_the_caller_is_replaced_whatever_it_holds(tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    (output / "left.txt").write_text("of an interrupted job")
    write(output, "new", None)
    assert set(files_below(output)) == {MARKER, MANIFEST}
