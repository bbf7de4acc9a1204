"""Tests look at codes and facts: sentences in assertions break with every better word; they may only become fewer."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
WORDS = 6
"""From so many words on a text is a sentence: names, values and headings have fewer."""
LISTED = Path(__file__).with_name("sentences.txt")
"""Files that still hold sentences, with their numbers; none may be added, and what is repaired leaves the list."""


def is_sentence(text: str) -> bool:
    """Return whether a text has so many words; numbers, units of one letter and signs are no words."""
    return len(re.findall(r"\S*[^\W\d_]{2}\S*", text)) >= WORDS


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yield the string constants of an expression; of an f-string all that it says, its values as blanks."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else " " for part in node.values)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from texts_of(part.value)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts_of(child)


def looked_at(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield what assertions compare, and what ``pytest.raises`` expects of an error's words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.test
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "raises":
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "match")


def count_sentences(source: str) -> int:
    """Return how many assertions and expected errors hold a sentence."""
    return sum(any(map(is_sentence, texts_of(one))) for one in looked_at(ast.parse(source)))


def test_no_assertion_more_holds_a_sentence() -> None:
    counts = {path.relative_to(TESTS).as_posix(): count_sentences(path.read_text()) for path in TESTS.rglob("*.py")}
    found = [f"{counts[name]} {name}" for name in sorted(counts) if counts[name]]
    assert found == LISTED.read_text().splitlines(), (
        f"assert on the message's code and facts instead (hpcai.core.messages); where a number fell, {LISTED.name} has "
        "to say so:\n" + "\n".join(found)
    )


def test_what_counts_as_a_sentence() -> None:
    held = [
        "assert 'the words of this text are many' in page",
        "assert f'the words of {this} text are many' in page",
        "assert (page, 1) == ('the words of this text are many', 1)",
        "with pytest.raises(ValueError, match=r'the words of this .* are many'): call()",
        "assert all(word in page for word in ['the words of this text are many'])",
    ]
    free = [
        "assert page == '64 MiB, 2.1 GB/s ± 100 MB/s, n = 5, a b c d e f'",
        "assert page == MESSAGE(n=3), 'what is said when this fails is no assertion'",
        "words = 'a text that nothing asserts may be long'",
        "with pytest.raises(ValueError, match=MESSAGE.pattern): call('the words of this text are many')",
    ]
    assert [count_sentences(source) for source in held] == [1] * len(held)
    assert [count_sentences(source) for source in free] == [0] * len(free)
