"""Identifiers and texts of code, for tests of what no module may name."""

import ast
from collections.abc import Iterator


def words(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield identifiers and texts of code with their lines; a text that stands for itself is documentation."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            if isinstance(word := getattr(node, field, None), str):
                yield getattr(node, "lineno", 0), word
