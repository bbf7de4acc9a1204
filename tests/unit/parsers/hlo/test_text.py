"""XLA's HLO text, on our own modules in its documented layout."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unit.parsers.artefacts import cuts, flips, foreign
from unit.refusals import refused

from hpcai.core.errors import ParseError
from hpcai.parsers.hlo.counting import Axis, _pairs_of_data
from hpcai.parsers.hlo.module import HEAD_ALONE
from hpcai.parsers.hlo.text import HIDDEN, UNKNOWN_TIMES, read_hlo_text
from hpcai.parsers.reading import NOTHING_READ, Reading

PARAMETERS = """\
  %image = f32[2,8,8,3]{3,2,1,0} parameter(0)
  %kernel = f32[3,3,3,5]{3,2,1,0} parameter(1)
  %slope = f32[2,4,4,5]{3,2,1,0} parameter(2)
"""
FORWARD = (
    "  %forward = f32[2,4,4,5]{3,2,1,0} convolution(f32[2,8,8,3]{3,2,1,0} %image, f32[3,3,3,5]{3,2,1,0} %kernel), "
    "window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f, "
    'metadata={op_type="Conv2D" op_name="network/first" source_file="a (b).py" source_line=3}\n'
)
OF_KERNEL = (
    "  %of_kernel = f32[3,3,3,5]{3,2,1,0} convolution(f32[2,8,8,3]{3,2,1,0} %image, f32[2,4,4,5]{3,2,1,0} %slope), "
    "window={size=4x4 pad=0_1x0_1 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf\n"
)
OF_INPUT = (
    "  %of_input = f32[2,8,8,3]{3,2,1,0} convolution(f32[2,4,4,5]{3,2,1,0} %slope, f32[3,3,3,5]{3,2,1,0} %kernel), "
    "window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2}, dim_labels=b01f_01oi->b01f\n"
)
ROOT = (
    "  ROOT %all = (f32[2,4,4,5]{3,2,1,0}, f32[3,3,3,5]{3,2,1,0}, /*index=2*/f32[2,8,8,3]{3,2,1,0}) "
    "tuple(f32[2,4,4,5]{3,2,1,0} %forward, f32[3,3,3,5]{3,2,1,0} %of_kernel, "
    "/*index=2*/f32[2,8,8,3]{3,2,1,0} %of_input)\n"
)
HEAD = "HloModule step.1, is_scheduled=true, entry_computation_layout={(f32[2]{0})->(f32[2]{0})}\n\n"
ENTRY = "ENTRY %main.2 (image: f32[2,8,8,3], kernel: f32[3,3,3,5]) -> (f32[2,4,4,5], f32[3,3,3,5]) {\n"
STEP = HEAD + ENTRY + PARAMETERS + FORWARD + OF_KERNEL + OF_INPUT + ROOT + "}\n\n"
MULTIPLY_ADDS = 2 * 4**2 * 3**2 * 3 * 5
MEETING_DATA = 2 * (4 * 3 - 1) ** 2 * 3 * 5
"""Along an axis, the last of four output positions has its last tap on padding."""

LOOP = """\
HloModule loops.1

%fused (left: f32[4,6], right: f32[6,5]) -> f32[4,5] {
  %left = f32[4,6]{1,0} parameter(0)
  %right = f32[6,5]{1,0} parameter(1)
  ROOT %inner = f32[4,5]{1,0} dot(%left, %right), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (state: (f32[4,6], f32[6,5])) -> (f32[4,6], f32[6,5]) {
  %state = (f32[4,6]{1,0}, f32[6,5]{1,0}) parameter(0)
  %a = f32[4,6]{1,0} get-tuple-element(%state), index=0
  %b = f32[6,5]{1,0} get-tuple-element(%state), index=1
  %once = f32[4,5]{1,0} fusion(%a, %b), kind=kLoop, calls=%fused
  %again = f32[4,6]{1,0} dot(%once, %b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT %next = (f32[4,6]{1,0}, f32[6,5]{1,0}) tuple(%again, %b)
}

%condition (state.1: (f32[4,6], f32[6,5])) -> pred[] {
  %state.1 = (f32[4,6]{1,0}, f32[6,5]{1,0}) parameter(0)
  ROOT %more = pred[] constant(true)
}

ENTRY %main (x: f32[4,6], y: f32[6,5]) -> (f32[4,6], f32[6,5]) {
  %x = f32[4,6]{1,0} parameter(0)
  %y = f32[6,5]{1,0} parameter(1)
  %unused = f32[4,5]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %start = (f32[4,6]{1,0}, f32[6,5]{1,0}) tuple(%x, %y)
  ROOT %result = (f32[4,6]{1,0}, f32[6,5]{1,0}) while(%start), condition=%condition, body=%body TRIPS
}
"""
TRIPS = ', metadata={op_name="loop"}, backend_config={"known_trip_count":{"n":"7"}}'


def read(tmp_path: Path, text: str | bytes) -> Reading:
    path = tmp_path / "module.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_hlo_text(path)


def one_instruction(tmp_path: Path, operands: tuple[str, str], line: str) -> Reading:
    """Read a module with two parameters and one instruction on them."""
    given = [f"  %{name} = {kind} parameter({n})\n" for n, (name, kind) in enumerate(zip("ab", operands, strict=True))]
    return read(
        tmp_path, f"HloModule m\n\nENTRY %e (a: f32[], b: f32[]) -> f32[] {{\n{''.join(given)}  ROOT {line}\n}}\n"
    )


def test_forward_and_both_gradients_are_the_same_work(tmp_path: Path) -> None:
    reading = read(tmp_path, STEP)
    table = reading.table.set_index("name")
    assert reading.is_whole
    assert reading.coverage_ratio == 1
    assert dict(reading.facts) == {"module": "step.1", "scheduled": True, "computations": 1}
    assert list(table.index) == ["forward", "of_kernel", "of_input"]
    assert (table["multiply_adds"] == MULTIPLY_ADDS).all()
    assert (table["data_multiply_adds"] == MEETING_DATA).all()
    assert (table["total_flop"] == 2 * MULTIPLY_ADDS).all()
    assert table.loc["forward", ["op_type", "op_name", "output_shape", "element_type"]].to_list() == [
        "Conv2D", "network/first", "2,4,4,5", "f32"]  # fmt: skip
    assert table["op_type"].isna().sum() == 2


def test_the_gradient_of_an_unpadded_convolution_does_not_count_the_zeros_around_it(tmp_path: Path) -> None:
    operands = "f32[1,2,3,4]{3,2,1,0}", "f32[3,3,4,6]{3,2,1,0}"
    line = (
        "%c = f32[1,4,5,6]{3,2,1,0} convolution(%a, %b), window={size=3x3 pad=2_2x2_2}, dim_labels=b01f_01io->b01f"
        ', metadata={op_type="KIND" op_name="n"}'
    )
    counted = {
        kind: one_instruction(tmp_path, operands, line.replace("KIND", kind)).table["multiply_adds"].iloc[0]
        for kind in ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput")
    }
    assert counted == {"Conv2D": 20 * 54 * 4, "Conv2DBackpropFilter": 20 * 54 * 4, "Conv2DBackpropInput": 6 * 54 * 4}
    unknown = one_instruction(tmp_path, operands, line.replace("KIND", "Conv2DBackprapInput"))
    assert unknown.table["multiply_adds"].isna().all()
    assert "Conv2DBackprapInput is unknown" in unknown.reasons[0]


def test_exchanged_image_and_kernel_are_exchanged_back(tmp_path: Path) -> None:
    """XLA takes the larger of the two as the image: here a 3 x 3 x 3 kernel on an edge of 2, padded by 1."""
    line = (
        "%c = f32[4,2,2,2,8]{4,3,2,1,0} convolution(%a, %b), window={size=2x2x2 rhs_reversal=1x1x1}, "
        "dim_labels=012fb_o012i->f012b"
    )
    reading = one_instruction(tmp_path, ("f32[3,3,3,5,8]{4,3,2,1,0}", "f32[4,2,2,2,5]{4,3,2,1,0}"), line)
    assert reading.table["multiply_adds"].to_list() == [4 * 8 * 5 * (2 * 3) ** 3]
    assert reading.table["data_multiply_adds"].to_list() == [4 * 8 * 5 * 4**3]


@pytest.mark.parametrize(
    ("operands", "line", "multiply_adds"),
    [
        (
            ("f32[4,8,6,16]{3,2,1,0}", "f32[3,3,1,16]{3,2,1,0}"),
            "%c = f32[4,8,6,16]{3,2,1,0} convolution(%a, %b), window={size=3x3 pad=1_1x1_1}, "
            "dim_labels=b01f_01io->b01f, feature_group_count=16",
            4 * 48 * 9 * 16,
        ),
        (
            ("f32[4,8,6,16]{3,2,1,0}", "f32[4,8,6,16]{3,2,1,0}"),
            "%c = f32[3,3,1,16]{3,2,1,0} convolution(%a, %b), window={size=8x6 pad=1_1x1_1}, "
            "dim_labels=f01b_i01o->01bf, batch_group_count=16",
            4 * 48 * 9 * 16,
        ),
        (
            ("bf16[10,4,6]{2,1,0}", "bf16[10,4,5]{2,1,0}"),
            "%c = bf16[10,6,5]{2,1,0} dot(%a, %b), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
            "rhs_contracting_dims={1}",
            10 * 6 * 4 * 5,
        ),
        (("f32[7]{0}", "f32[7]{0}"), "%c = f32[] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}", 7),
        (
            ("f32[4,3]{1,0}", "f32[3,5]{1,0}"),
            "%c = f32[4,5]{1,0} convolution(%a, %b), dim_labels=bf_io->bf",
            60,
        ),
    ],
    ids=["depthwise", "gradient of depthwise kernels", "batch of products", "inner product", "no spatial axes"],
)
def test_groups_and_products(tmp_path: Path, operands: tuple[str, str], line: str, multiply_adds: int) -> None:
    reading = one_instruction(tmp_path, operands, line)
    assert reading.is_whole
    assert reading.table["multiply_adds"].to_list() == [multiply_adds]


def test_loops_count_as_often_as_they_run_and_unused_results_not_at_all(tmp_path: Path) -> None:
    table = read(tmp_path, LOOP.replace(" TRIPS", TRIPS)).table.set_index("name")
    assert table["executions"].to_dict() == {"inner": 7, "again": 7, "unused": 0}
    assert table["total_flop"].to_dict() == {"inner": 7 * 240, "again": 7 * 240, "unused": 0}


def test_a_loop_without_a_number_of_trips_is_unknown_and_not_once(tmp_path: Path) -> None:
    reading = read(tmp_path, LOOP.replace(" TRIPS", ""))
    assert reading.table.set_index("name")["total_flop"].isna().to_dict() == {
        "inner": True, "again": True, "unused": False}  # fmt: skip
    assert reading.coverage_ratio == pytest.approx(1 / 3)
    assert reading.reasons == (UNKNOWN_TIMES(first="inner", others=1),)


def test_what_a_library_call_hides_is_named(tmp_path: Path) -> None:
    call = (
        '%c = (f32[4,5]{1,0}, s8[64]{0}) custom-call(%a, %b), custom_call_target="__cublas$gemm", '
        'backend_config={"n":1}'
    )
    reading = one_instruction(tmp_path, ("f32[4,3]{1,0}", "f32[3,5]{1,0}"), call)
    assert reading.table["total_flop"].isna().all()
    assert reading.coverage_ratio == 0
    assert reading.reasons == (HIDDEN(line=6, target="__cublas$gemm"),)
    harmless = one_instruction(tmp_path, ("f32[9]{0}", "s32[]"), call.replace("__cublas$gemm", "TopK"))
    assert harmless.is_whole
    assert harmless.table.empty


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("stride=2x2", "stride=3x3", "the window does not fit the shapes"),
        ("window={size=3x3 stride", "window={size=3x4 stride", "the window does not fit the shapes"),
        ("= f32[2,4,4,5]{3,2,1,0} convolution", "= f32[2,4,6,5]{3,2,1,0} convolution", "fit"),
        ("f32[2,8,8,3]{3,2,1,0} %image, f32[3", "f32[2,8,9,3]{3,2,1,0} %image, f32[3", "where it is made"),
        ("%kernel), window={size=3x3 s", "%kernel), window={size=0x3 s", "the window does not fit the shapes"),
        ("%image, f32[3", "%picture, f32[3", "picture, which is missing"),
        (
            " convolution(f32[2,8,8,3]{3,2,1,0} %image, f32[3",
            " convalution(f32[2,8,8,3]{3,2,1,0} %image, f32[3",
            "only",
        ),
        ("dim_labels=b01f_01io->b01f", "dim_labels=b01b_01io->b01f", "dim_labels do not fit"),
    ],
)
def test_a_contradiction_is_left_out_with_a_reason(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in STEP
    reading = read(tmp_path, STEP.replace(old, new, 1))
    assert not reading.is_whole
    assert reading.coverage_ratio < 1
    assert any(reason in one for one in reading.reasons)
    left = reading.table.set_index("name")["total_flop"]
    assert "forward" not in left or np.isnan(left["forward"])


def test_taps_on_data_agree_with_going_through_all_of_them() -> None:
    for image, window, output, stride, low, image_dilation, window_dilation in product(
        (1, 2, 5), (1, 3), (1, 2, 4), (1, 2), (-1, 0, 2), (1, 2), (1, 3)
    ):
        axis = Axis(image, window, output, stride, low, 0, image_dilation, window_dilation)
        places = [o * stride + w * window_dilation - low for o in range(output) for w in range(window)]
        wanted = sum(place in range(0, image * image_dilation, image_dilation) for place in places)
        assert _pairs_of_data(axis) == wanted


def test_foreign_files_are_named(tmp_path: Path) -> None:
    for path in foreign(tmp_path).values():
        with pytest.raises(ParseError, match="expected HLO text of XLA"):
            read_hlo_text(path)
    with refused(ParseError, NOTHING_READ, found=HEAD_ALONE()):
        read(tmp_path, HEAD)


@pytest.mark.parametrize("text", [STEP, LOOP.replace(" TRIPS", TRIPS)], ids=["scheduled", "loop"])
def test_a_cut_text_yields_no_total_and_no_other_number(tmp_path: Path, text: str) -> None:
    whole = read(tmp_path, text).table.set_index("name")
    for _, data in cuts(text.rstrip().encode(), 60):
        try:
            reading = read(tmp_path, data)
        except ParseError:
            continue
        assert not reading.is_whole
        check_values(reading, whole)


FREE_FIELDS = ("element_type", "op_type", "op_name", "name", "computation", "data_multiply_adds")
"""Fields that occur only once in the text. Only the sum of the padding depends on the shapes, and not with strides."""


def test_a_flipped_bit_yields_no_other_number(tmp_path: Path) -> None:
    whole = read(tmp_path, STEP).table.set_index("name")
    for _, data in flips(STEP.encode(), 500):
        try:
            reading = read(tmp_path, data)
        except ParseError:
            continue
        check_values(reading, whole, free=FREE_FIELDS)
        assert reading.is_whole or reading.reasons


def check_values(reading: Reading, whole: pd.DataFrame, free: tuple[str, ...] = ()) -> None:
    """Assert that every number is the original or missing, and that missing numbers have a reason."""
    table = reading.table.set_index("name")
    for name, row in table.iterrows():
        if name not in whole.index:
            continue
        for column in set(row.index) - set(free):
            value = row[column]
            assert pd.isna(value) or value == whole.loc[name, column], (name, column, reading.reasons)
    complete = len(table) == len(whole) and table["total_flop"].notna().all()
    assert complete or reading.reasons
