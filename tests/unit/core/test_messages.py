"""Messages: text from facts and back, and one meaning for every code of the library."""

import ast
import copy
import pickle
from pathlib import Path
from string import Formatter

import pytest

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, Said, at, join

TOO_FEW = Message("tried.too_few", "found {n} runs, {needed} needed")
SLOW = Message("tried.slow", "{name} is slow: {rate:.3g} B/s (at least {rate:.3g} is seldom) in {place}")


def test_a_message_is_its_words_and_keeps_its_facts():
    said = TOO_FEW(n=2, needed=3)
    assert said == "found 2 runs, 3 needed"
    assert (said.code, said.facts) == ("tried.too_few", {"n": 2, "needed": 3})
    assert type(f"{said}") is str


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda said: pickle.loads(pickle.dumps(said))])
def test_a_message_travels_whole(again):
    joined = again(join("; ", [TOO_FEW(n=2, needed=3), "by hand"]))
    assert (joined, joined.parts[0].facts) == ("found 2 runs, 3 needed; by hand", {"n": 2, "needed": 3})


def test_joined_messages_are_told_apart():
    joined = join(". ", [join("; ", [TOO_FEW(n=1, needed=3), SLOW(name="a", rate=1, place="b")]), "by hand"])
    assert [getattr(part, "code", None) for part in joined.parts] == ["tried.too_few", "tried.slow", None]
    assert (joined.code, joined.facts) == ("", {})
    assert TOO_FEW(n=1, needed=2).parts == ("found 1 runs, 2 needed",)


def test_facts_are_found_in_text_that_has_travelled():
    text = f"<td>{TOO_FEW(n=2, needed=3)}; and more</td>".replace("runs, ", "runs,\n  ")
    assert TOO_FEW.find_in(text) == {"n": "2", "needed": "3"}
    assert TOO_FEW.find_in("found 2 points, 3 needed") is None
    assert SLOW.find_in(f"here {SLOW(name='sda (1)', rate=1.5e9, place='x y')}") == {
        "name": "here sda (1)",
        "rate": "1.5e+09",
        "place": "x y",
    }


def test_what_comes_before_the_first_fact_can_be_counted():
    assert [TOO_FEW.opening, SLOW.opening, Message("tried.plain", "all of it").opening] == ["found ", "", "all of it"]


def test_a_missing_fact_is_our_own_mistake():
    with pytest.raises(KeyError, match="needed"):
        TOO_FEW(n=2)


def test_errors_have_the_code_of_what_they_say():
    error = ConfigError(at("study.yaml", TOO_FEW(n=2, needed=3)))
    assert str(error) == "study.yaml: found 2 runs, 3 needed"
    assert (error.code, error.facts) == ("tried.too_few", {"place": "study.yaml", "n": 2, "needed": 3})
    assert pickle.loads(pickle.dumps(error)).facts == error.facts
    assert (ConfigError("by hand").code, ConfigError("by hand").facts, ConfigError().code) == ("", {}, "")
    assert type(at("study.yaml", "by hand")) is str
    assert isinstance(at("a", TOO_FEW(n=1, needed=2)), Said)


def _declared() -> list[tuple[Path, str, str]]:
    """File, code and template of every message of the library."""
    library = Path(__file__).parents[3] / "src/hpcai"
    found = []
    for path in sorted(library.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Message":
                code, template = (ast.literal_eval(argument) for argument in node.args)
                found.append((path.relative_to(library), code, template))
    return found


def test_codes_are_unique_and_begin_with_their_topic():
    declared = _declared()
    assert declared
    codes = [code for _, code, _ in declared]
    assert sorted(codes) == sorted(set(codes))
    for path, code, _ in declared:
        topic, name = code.split(".")
        parts = [part.removesuffix(".py") for part in path.parts]
        assert any(part == topic or part.startswith(f"{topic}_") for part in parts), f"{path}: {code}"
        assert name.isidentifier(), f"{path}: {code}"
        assert name.islower(), f"{path}: {code}"


def test_facts_have_names():
    for path, code, template in _declared():
        for _, name, _, conversion in Formatter().parse(template):
            assert name is None or name.isidentifier(), f"{path}: {code}: {name!r}"
            assert conversion in {None, "r", ""}, f"{path}: {code}: {conversion!r}"
