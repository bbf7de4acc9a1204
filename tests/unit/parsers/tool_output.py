"""The hand-made outputs of `tests/data/tool_output`, whose README tells whose form they have."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "data/tool_output"


def hand_made(name: str) -> Path:
    """Return a hand-made output of a tool."""
    return FOLDER / name
