import math

import pytest

from hpcai.parsers.units_text import decide_style, to_si_unit


@pytest.mark.parametrize(
    ("texts", "text", "value"),
    [
        (["1,234.50", "7,488", "12"], "7,488", 7488.0),
        (["1.234,50", "7.488", "12"], "7.488", 7488.0),
        (["1 234,50", "7 488", "12"], "7 488", 7488.0),
        (["1\u202f234,50", "7\u202f488"], "7\u202f488", 7488.0),
        (["1\u2019234.50", "7'488"], "7'488", 7488.0),
        (["1234567.25", "0.5", "3e-05"], "3e-05", 3e-5),
        (["53,261,312", "8"], "53,261,312", 53261312.0),
        (["0.846", "0.002", "97"], "0.846", 0.846),
    ],
)
def test_separators_are_decided_by_all_numbers_of_a_file(texts, text, value):
    assert decide_style(texts).read(text) == value


def test_a_number_that_several_locales_read_differently_is_not_read():
    style = decide_style(["1,234", "5,678", "12"])
    assert style.read("12") == 12
    with pytest.raises(ValueError, match="1,234"):
        style.read("1,234")


def test_one_damaged_separator_neither_decides_nor_passes():
    style = decide_style(["7,488", "4,224", "11,70"])
    for text in ("7,488", "4,224"):
        with pytest.raises(ValueError, match=text):
            style.read(text)
    style = decide_style(["7.488", "4,224", "11.70", "1,002,531.25"])
    assert style.read("4,224") == 4224
    with pytest.raises(ValueError, match=r"7\.488"):
        style.read("7.488")


def test_a_grouped_number_among_ungrouped_ones_is_not_read():
    style = decide_style(["12345", "67890", "1 000"])
    assert style.read("12345") == 12345
    with pytest.raises(ValueError, match="1 000"):
        style.read("1 000")


def test_separators_of_two_locales_are_refused():
    with pytest.raises(ValueError, match="contradict"):
        decide_style(
            [f"1,{number},000.25" for number in range(100, 120)] + [f"{number}.500.000,25" for number in range(1, 20)]
        )


@pytest.mark.parametrize("text", ["n/a", "(!) n/a", "nan", "", " NaN "])
def test_what_was_not_measured_is_nan(text):
    assert math.isnan(decide_style([]).read(text))


@pytest.mark.parametrize(
    ("text", "name", "factor"),
    [
        ("nsecond", "s", 1e-9), ("ns", "s", 1e-9), ("usecond", "s", 1e-6), ("us", "s", 1e-6), ("ms", "s", 1e-3),
        ("second", "s", 1.0), ("byte", "byte", 1.0), ("Kbyte", "byte", 1e3), ("Mbyte", "byte", 1e6),
        ("Gbyte/s", "byte/s", 1e9), ("Gbyte/second", "byte/s", 1e9), ("byte/second", "byte/s", 1.0),
        ("Ghz", "Hz", 1e9), ("hz", "Hz", 1.0), ("cycle/second", "Hz", 1.0), ("cycle/nsecond", "Hz", 1e9),
        ("%", "ratio", 0.01), ("", "", 1.0), ("inst", "", 1.0), ("sector", "", 1.0), ("inst/cycle", "inst/cycle", 1.0),
        ("Kbyte/block", "byte/block", 1e3), ("register/thread", "register/thread", 1.0),
    ],
)  # fmt: skip
def test_units_of_all_versions_become_si(text, name, factor):
    unit = to_si_unit(text)
    assert unit.name == name
    assert unit.factor == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize("text", ["Ms", "mbyte", "nsecone", "furlong", "byte/fortnight", "/s"])
def test_an_unknown_unit_is_refused(text):
    with pytest.raises(ValueError, match=text.rpartition("/")[2]):
        to_si_unit(text)
