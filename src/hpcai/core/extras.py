"""Packages that only some users need: a missing one is reported in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from hpcai.core.errors import MissingExtraError

EXTRA_OF = {
    "ase": "data",
    "globus_sdk": "globus",
    "h5py": "data",
    "lmdb": "data",
    "horovod": "train",
    "jax": "jax",
    "keras": "train",
    "tensorflow": "train",
    "snakemake": "workflow",
}
"""The extra of pyproject.toml that installs a module."""


def missing_extra(module: str) -> MissingExtraError:
    """Return the error for a missing module of `EXTRA_OF`."""
    extra = EXTRA_OF[module]
    return MissingExtraError(
        f"{module}: not installed for this Python, expected for the extra `{extra}`; in the checkout call `make env` "
        f"(everything, with Horovod) or `pip install '.[{extra}]'`"
    )


def require(*modules: str) -> None:
    """Raise an error if modules of `EXTRA_OF` are missing; nothing is imported.

    Raises
    ------
    MissingExtraError
        If one is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            raise missing_extra(module)


def explain(error: ModuleNotFoundError) -> Exception:
    """Return the error that names the extra of a missing module; for other modules, the same error."""
    module = (error.name or "").partition(".")[0]
    return missing_extra(module) if module in EXTRA_OF else error


@contextmanager
def extras_named() -> Iterator[None]:
    """Turn missing modules in this block into errors that name the extra.

    Raises
    ------
    MissingExtraError
        If a module of `EXTRA_OF` is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise explain(error) from error
