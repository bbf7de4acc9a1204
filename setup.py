"""What pyproject.toml cannot say: the wheel has a copy of reports/, from which the library writes its pages."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PARTS = ("captions", "list", "page")


class BuildWithPages(build_py):
    """Builds the package, and in a wheel puts beside `hpcai.report` what its pages are made from."""

    def run(self) -> None:
        """Build."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "hpcai", "report", "sources")
        shutil.rmtree(target, ignore_errors=True)
        for source in map(Path("reports").joinpath, PARTS):
            shutil.copytree(source, target / source.name)


setup(cmdclass={"build_py": BuildWithPages})
