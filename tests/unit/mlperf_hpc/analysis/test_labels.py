import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.mlperf_hpc.analysis.labels import label_results, shorten_system


def rows(*names: tuple[str, str, str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(names, columns=["origin", "org", "system", "benchmark", "division"])


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("daint_gpu_n128_tf2.2.0", "daint_gpu_n128"),
        ("fugaku_512xA64FX_tensorflow_closed", "fugaku_512xA64FX"),
        ("juwelsbooster_gpu_n1024_pytorch1.10", "juwelsbooster_gpu_n1024"),
        ("perlmutter_128x4_ngc21.08_pytorch", "perlmutter_128x4"),
        ("18xR750-2xA100-PCIe-80GB", "18xR750-2xA100-PCIe-80GB"),
        ("tf2_machine", "tf2"),
    ],
)
def test_system_without_software_and_division(name, short) -> None:
    assert shorten_system(name) == short


def test_open_division_is_marked() -> None:
    table = rows(("v1", "A", "m_tf1", "cosmoflow", "closed"), ("v1", "A", "n_tf1", "cosmoflow", "open"))
    assert label_results(table) == ["A m", "*A n"]


def test_names_that_would_be_alike_are_told_apart() -> None:
    table = rows(
        ("v1", "A", "m_tf1", "cosmoflow", "closed"),
        ("v1", "A", "m_tf2", "cosmoflow", "closed"),
        ("v1", "B", "m_tf1", "cosmoflow", "closed"),
        ("v1", "B", "m_pt1", "deepcam", "closed"),
    )
    assert label_results(table) == ["A m_tf1", "A m_tf2", "B m cosmoflow", "B m deepcam"]


def test_round_stands_first_where_there_are_several() -> None:
    table = rows(("v1", "A", "m", "cosmoflow", "closed"), ("v2", "A", "m", "cosmoflow", "open"))
    assert label_results(table) == ["v1 A m", "v2 *A m"]


SYSTEMS = st.sampled_from(["m_tf1", "m_tf2", "m", "n_pt1_closed", "n_pt1_open"])
NAMES = st.tuples(
    st.sampled_from(["v1", "v2"]),
    st.sampled_from(["A", "B"]),
    SYSTEMS,
    st.sampled_from(["cosmoflow", "deepcam"]),
    st.sampled_from(["closed", "open"]),
)


@given(st.lists(NAMES, min_size=1, max_size=20, unique_by=lambda name: name[:4]))
def test_no_two_labels_are_alike(names) -> None:
    labels = label_results(rows(*names))
    assert len(set(labels)) == len(labels)
