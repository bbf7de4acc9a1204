import pytest

from hpcai.data.partial import NOTE, PARTIAL, partial_folder

ORIGIN = b"archive 1"


def fill(folder, origin=ORIGIN, error=None, *, emptied=False):
    """Fill a folder and end with an error, if given; return whether it was filled already."""
    with partial_folder(folder, origin) as partial:
        was_filled = partial.is_filled
        if not was_filled:
            (partial.path / "sample").touch()
            partial.note_filled()
        if emptied:
            partial.note_emptied()
        if error:
            raise error
        partial.note_emptied()
    return was_filled


def fail(folder, error, **facts):
    with pytest.raises(type(error)):
        fill(folder, error=error, **facts)


def test_it_is_gone_afterwards(tmp_path):
    assert not fill(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_what_is_filled_is_taken_by_the_next_start(tmp_path, error):
    fail(tmp_path, error)
    assert [file.name for file in (tmp_path / PARTIAL).iterdir()] == ["sample"]
    assert fill(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_fails_again_is_not_taken_a_third_time(tmp_path):
    fail(tmp_path, ValueError())
    fail(tmp_path, ValueError())
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_is_no_failure(tmp_path):
    for _ in range(3):
        fail(tmp_path, KeyboardInterrupt())
    assert fill(tmp_path)


def test_of_another_origin_or_of_none_nothing_is_taken(tmp_path):
    fail(tmp_path, KeyboardInterrupt())
    assert not fill(tmp_path, b"archive 2")
    fail(tmp_path, KeyboardInterrupt(), origin=b"")
    assert list(tmp_path.iterdir()) == []


def test_what_files_have_left_is_not_filled(tmp_path):
    fail(tmp_path, KeyboardInterrupt(), emptied=True)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_what_was_not_yet_filled(tmp_path):
    (tmp_path / PARTIAL).mkdir()
    (tmp_path / PARTIAL / "half").touch()
    with partial_folder(tmp_path, ORIGIN) as partial:
        assert not partial.is_filled
        assert list(partial.path.iterdir()) == []
    fail(tmp_path, KeyboardInterrupt())
    with partial_folder(tmp_path):  # a generator, which does not know of the note
        assert not (tmp_path / NOTE).exists()
