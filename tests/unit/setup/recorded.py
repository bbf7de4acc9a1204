"""Recorded answers of sites, from tests/data/sites."""

from pathlib import Path

from hpcai.setup.ask import Answer, questions

SITES = Path(__file__).parents[2] / "data/sites"
NAMES = sorted(path.name for path in SITES.iterdir() if path.is_dir())


def answers_of(site, **changes):
    """Return a site's answers; a question without a file has none, and a change of None removes one."""
    files = {path.stem: path.read_text().strip() for path in (SITES / site).glob("*.txt")}
    texts = {name: text for name, text in (files | changes).items() if text is not None}
    commands = {name: " ".join(command) for name, command in questions(Path("/study")).items()}
    assert files.keys() <= commands.keys()
    return {
        name: Answer(command, texts[name]) if name in texts else Answer(command, silence="program not found")
        for name, command in commands.items()
    }
