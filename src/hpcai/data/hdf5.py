"""HDF5 datasets stored entirely in the checksummed file itself."""

import math
from pathlib import Path

import h5py

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at

A_LINK = Message("hdf5.a_link", "found {link}, expected the dataset itself; {remedy}")

_LINKS = {h5py.h5l.TYPE_SOFT: "a soft link", h5py.h5l.TYPE_EXTERNAL: "an external link"}
_PACK = "write the numbers into the file itself (h5repack, h5copy), from a source that you trust"
_REPAIR = "copy the file again, or make the dataset again"


def stored_dataset(opened: h5py.File, name: str, file: Path) -> h5py.Dataset | None:
    """Return a dataset stored entirely in the file, or None if there is none of that name.

    Data in other files may change while this file's checksum stays the same. HDF5 reads unwritten data as zeros, which
    an interrupted writer leaves behind.

    Parameters
    ----------
    opened
        The open file.
    name
        Path of the dataset from the root, such as ``climate/data``.
    file
        File name, for messages.

    Raises
    ------
    DatasetError
        If the path contains a link other than a hard one, or the dataset is virtual, stored in external files, or not
        completely written.
    """
    found: h5py.HLObject = opened
    place = ""
    for part in name.split("/"):
        place += f"/{part}"
        # Query the link itself: everything else in h5py would open its target.
        if not isinstance(found, h5py.Group) or not found.id.links.exists(part.encode()):
            return None
        kind = found.id.links.get_info(part.encode()).type
        if kind != h5py.h5l.TYPE_HARD:
            link = _LINKS.get(kind, f"a link of type {kind}")
            raise DatasetError(at(f"{file}: {place}", A_LINK(link=link, remedy=_PACK)))
        found = found[part]
    if not isinstance(found, h5py.Dataset):
        return None
    _check_storage(found, f"{file}: {place}")
    return found


def _check_storage(dataset: h5py.Dataset, place: str) -> None:
    if dataset.is_virtual:
        raise DatasetError(f"{place}: found a virtual dataset, expected numbers in the file itself; {_PACK}")
    if dataset.external:
        name = dataset.external[0][0]
        raise DatasetError(f"{place}: found numbers in the file {name!r}, expected them in the file itself; {_PACK}")
    if dataset.chunks is None:
        # Compact data is stored in the header and always counts as allocated.
        written, expected = int(dataset.id.get_space_status() == h5py.h5d.SPACE_STATUS_ALLOCATED), 1
    else:
        written = dataset.id.get_num_chunks()
        expected = math.prod(-(-count // chunk) for count, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    if written < expected:
        raise DatasetError(
            f"{place}: found {written} of {expected} blocks written, expected all; the rest would read as zeros: the "
            f"writer was interrupted; {_REPAIR}"
        )
