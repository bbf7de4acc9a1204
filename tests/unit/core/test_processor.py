"""What the kernel says of a processor."""

import pytest

from hpcai.core import processor


@pytest.mark.parametrize(
    ("facts", "lacks"),
    [
        ({"flags": "fpu avx2 sha_ni"}, True),
        ({"flags": "fpu avx2 avx512f avx512bw"}, False),
        ({"flags": "fpu avx2 avx512f"}, True),  # Xeon Phi
        ({"Features": "fp asimd sve"}, False),  # ARM
        ({}, False),
    ],
)
def test_who_lacks_avx512(facts: dict[str, str], lacks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "processor_facts", lambda: facts)
    assert processor.lacks_avx512() is lacks
