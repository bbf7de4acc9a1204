"""Small frames in the official layout, and functions that write deviating ones."""

from io import BytesIO
from pathlib import Path

import h5py
import numpy as np

from hpcai.workloads.deepcam.data.module import DeepCamDataModule
from hpcai.workloads.deepcam.settings import DeepCamData

HEIGHT, WIDTH = 16, 32
SHAPE = (HEIGHT, WIDTH, 16)


def settings(**changes: object) -> DeepCamData:
    values = {
        "dataset": "small",
        "source": "generate",
        "train_samples": 3,
        "validation_samples": 2,
        "height": HEIGHT,
        "width": WIDTH,
    }
    return DeepCamData.model_validate({**values, **changes})


def module(**changes: object) -> DeepCamDataModule:
    return DeepCamDataModule(settings(**changes))


def arrays(number: int = 0) -> dict[str, np.ndarray]:
    """A frame in which all numbers differ."""
    data = (np.arange(np.prod(SHAPE)).reshape(SHAPE) + 1000 * number).astype(np.float32)
    labels = (np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) % 3).astype(np.uint8)
    return {"climate/data": data, "climate/labels_0": labels, "climate/labels_1": labels}


def hdf5(datasets: dict[str, object]) -> bytes:
    buffer = BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return buffer.getvalue()


def write_frame(path: Path, **changes: np.ndarray | None) -> Path:
    """Write a frame; changes replace datasets below ``climate``, None leaves one out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets = arrays() | {f"climate/{name}": values for name, values in changes.items()}
    path.write_bytes(hdf5({name: values for name, values in datasets.items() if values is not None}))
    return path


def statistics(**changes: object) -> dict[str, object]:
    numbers = np.arange(16, dtype=np.float32)
    found = {"count": 3, "mean": numbers + 0.5, "sqmean": (numbers + 0.5) ** 2 + 0.1}
    found |= {"minval": numbers, "maxval": numbers + 1} | changes
    return {f"climate/{name}": values for name, values in found.items() if values is not None}


def write_statistics(path: Path, **changes: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(hdf5(statistics(**changes)))
    return path
