"""Modelled memory traffic of compiled modules: by hand, and against XLA's own analysis of a compiled step."""

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.parsers.artefacts import cuts, flips

from hpcai.core.errors import ParseError
from hpcai.parsers.hlo.instruction import HloError, size_bytes
from hpcai.parsers.hlo.traffic import UNKNOWN_TIMES, UNKNOWN_TRIPS, Traffic, read_traffic

STEP = Path(__file__).parents[3] / "data/hlo/2.18/conv_dense_step.txt"
XLA_BYTES = 177_012
"""From XLA's own analysis, see the README next to the file."""
POINTERS_BYTES = 5 * 8
"""Pointer table of the tuple that the step returns."""
FLOAT = 4
HEAD = "HloModule step, is_scheduled=true\n\n"


def read(folder: Path, text: str) -> Traffic:
    path = folder / "module.txt"
    path.write_text(text)
    return read_traffic(path)


def entry(*lines: str) -> str:
    """Return an entry computation; the last line is its result."""
    body = "".join(f"  {line}\n" for line in (*lines[:-1], f"ROOT {lines[-1]}"))
    return f"ENTRY %main (x: f32[]) -> f32[] {{\n{body}}}\n"


def accessed(folder: Path, *lines: str, before: str = "") -> float:
    found = read(folder, HEAD + before + entry(*lines))
    assert found.reason == ""
    return found.accessed_bytes


def parameter(name: str, dimensions: str, number: int = 0) -> str:
    return f"%{name} = f32[{dimensions}] parameter({number})"


def test_a_compiled_step_accesses_what_xla_says(tmp_path: Path) -> None:
    found = read_traffic(STEP)
    assert found.accessed_bytes == XLA_BYTES - POINTERS_BYTES
    weights = 3 * 3 * 3 * 5 + 5 + 500 * 7 + 7
    batch = 4 * 12 * 12 * 3 + 4 * 7
    assert found.compulsory_bytes == FLOAT * (2 * weights + batch + 1)
    assert found.reason == ""


@given(rows=st.integers(1, 50), inner=st.integers(1, 50), columns=st.integers(1, 50))
def test_a_product_reads_both_factors_and_writes_the_product(
    tmp_path_factory: pytest.TempPathFactory, rows: int, inner: int, columns: int
) -> None:
    line = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    factors = parameter("a", f"{rows},{inner}"), parameter("b", f"{inner},{columns}", 1)
    text = HEAD + entry(*factors, f"%c = f32[{rows},{columns}] dot(%a, %b), {line}")
    found = read(tmp_path_factory.mktemp("hlo"), text)
    assert found.accessed_bytes == FLOAT * (rows * inner + inner * columns + rows * columns)
    # One product's operands and result account for everything.
    assert found.compulsory_bytes == found.accessed_bytes


STACK = """
FileNames
1 "step.py"

FunctionNames
1 "Engine._train"

FileLocations
1 {file_name_id=1 function_name_id=1 line=8 end_line=9 column=11 end_column=42}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

"""


def test_a_program_for_a_gpu_calls_cudnn_whose_workspace_is_no_traffic(tmp_path: Path) -> None:
    """The form that XLA of JAX 0.11 writes: tables of stack frames, and elements of tuples without a line."""
    call = 'window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, custom_call_target="__cudnn$convForward"'
    lines = (
        parameter("x", "2,10,4"),
        parameter("k", "3,4,8", 1),
        f"%conv = (f32[2,10,8]{{2,1,0}}, u8[999]{{0}}) custom-call(%x, %k), {call}",
        "%y = f32[2,10,8] negate(%conv#0)",
    )
    found = accessed(tmp_path, *lines, before=STACK)
    image, kernel, output = 2 * 10 * 4, 3 * 4 * 8, 2 * 10 * 8
    assert found == FLOAT * (image + kernel + output + 2 * output)


def test_an_element_that_a_tuple_lacks_is_missing(tmp_path: Path) -> None:
    lines = (parameter("x", "10"), "%t = (f32[10], f32[10]) fft(%x)", "%y = f32[10] negate(%t#2)")
    assert math.isnan(read(tmp_path, HEAD + entry(*lines)).accessed_bytes)


def test_an_intermediate_result_goes_to_memory_and_back(tmp_path: Path) -> None:
    once = accessed(tmp_path, parameter("x", "10"), "%y = f32[10] negate(%x)")
    twice = accessed(tmp_path, parameter("x", "10"), "%y = f32[10] negate(%x)", "%z = f32[10] exponential(%y)")
    assert (once, twice) == (2 * 10 * FLOAT, 4 * 10 * FLOAT)


@pytest.mark.parametrize(
    ("line", "floats"),
    [
        ("%y = f32[3] slice(%x), slice={[0:3]}", 3 + 3),
        ("%y = f32[3] dynamic-slice(%x, %at), dynamic_slice_sizes={3}", 3 + 3 + 1),
        ("%y = f32[100] dynamic-update-slice(%x, %part, %at)", 3 + 3 + 1),
        ("%y = f32[3] gather(%x, %places), offset_dims={}", 3 + 3 + 3),
        ("%y = f32[100] scatter(%x, %places, %part), to_apply=%sum", 3 * 3 + 3),
        ("%y = f32[100] multiply(%x, %x)", 100 + 100),
        ("%y = f32[10,10] bitcast(%x)", 0),
        ("%y = (f32[100], f32[3]) tuple(%x, %part)", 0),
        ("%y = f32[100] copy(%x)", 100 + 100),
        ('%y = (f32[50], /*index=1*/f32[7]) custom-call(%x, %part), custom_call_target="TopK"', 57 + 103),
    ],
)
def test_what_moves_a_part_counts_with_that_part(tmp_path: Path, line: str, floats: int) -> None:
    given_to_it = (
        parameter("x", "100"), parameter("part", "3", 1), "%places = s32[3] parameter(2)", "%at = s32[] parameter(3)"
    )  # fmt: skip
    addition = "%sum (l: f32[], r: f32[]) -> f32[] {\n  %l = f32[] parameter(0)\n  %r = f32[] parameter(1)\n"
    addition += "  ROOT %s = f32[] add(%l, %r)\n}\n\n"
    before = addition if "to_apply" in line else ""
    # An optimised module holds no unused instruction, apart from parameters.
    assert accessed(tmp_path, *given_to_it, line, before=before) == FLOAT * floats


FUSED = """\
%fused (p: f32[100], q: f32[100], at: s32[]) -> f32[100] {
  %p = f32[100] parameter(0)
  %q = f32[100] parameter(1)
  %at = s32[] parameter(2)
  %table = f32[50] constant({...})
  %one = f32[1] constant({1})
BODY
}

"""


@pytest.mark.parametrize(
    ("body", "result", "floats"),
    [
        (("%a = f32[100] add(%p, %q)", "%b = f32[100] multiply(%a, %p)", "%c = f32[100] negate(%b)"), 100, 300),
        (("%a = f32[100] broadcast(%at)", "%b = f32[100] broadcast(%at)", "%c = f32[100] add(%a, %b)"), 100, 101),
        (("%a = f32[2] slice(%p)", "%b = f32[3] slice(%p)", "%c = f32[5] concatenate(%a, %b)"), 5, 10),
        (("%a = f32[80] slice(%p)", "%b = f32[70] slice(%p)", "%c = f32[150] concatenate(%a, %b)"), 150, 250),
        (("%a = f32[2] dynamic-slice(%table, %at)", "%c = f32[2] negate(%a)"), 2, 2 + 2 + 1),
        (("%a = f32[50] negate(%table)", "%c = f32[50] multiply(%a, %one)"), 50, 100),
        (("%a = f32[1] slice(%q)", "%c = f32[100] dynamic-update-slice(%p, %a, %at)"), 100, 1 + 1 + 1),
        (
            ("%b = f32[10,10] bitcast(%p)", "%a = f32[1] slice(%q)",
             "%d = f32[10,10] dynamic-update-slice(%b, %a, %at)", "%c = f32[100] bitcast(%d)"),
            100, 1 + 1 + 1,
        ),
        (
            ("%a = f32[1] slice(%q)", "%b = f32[100] dynamic-update-slice(%p, %a, %at)", "%c = f32[100] negate(%b)"),
            100, 100 + 100 + 1 + 1,
        ),
    ],
    ids=["read once", "number", "parts", "parts of all", "part of a constant", "constant", "in place", "renamed",
         "copied"],
)  # fmt: skip
def test_a_fusion_moves_what_crosses_its_border(
    tmp_path: Path, body: tuple[str, ...], result: int, floats: int
) -> None:
    text = "\n".join(f"  {line}" for line in (*body[:-1], f"ROOT {body[-1]}"))
    lines = parameter("x", "100"), parameter("y", "100", 1), "%n = s32[] parameter(2)"
    found = accessed(
        tmp_path, *lines, f"%z = f32[{result}] fusion(%x, %y, %n), kind=kLoop, calls=%fused",
        before=FUSED.replace("BODY", text),
    )  # fmt: skip
    assert found == FLOAT * floats


LOOP = """\
%body (state: (s32[], f32[100])) -> (s32[], f32[100]) {
  %state = (s32[], f32[100]) parameter(0)
  %n = s32[] get-tuple-element(%state), index=0
  %x = f32[100] get-tuple-element(%state), index=1
  %y = f32[100] negate(%x)
  ROOT %next = (s32[], f32[100]) tuple(%n, %y)
}

%condition (state.1: (s32[], f32[100])) -> pred[] {
  %state.1 = (s32[], f32[100]) parameter(0)
  %n.1 = s32[] get-tuple-element(%state.1), index=0
  ROOT %more = pred[] compare(%n.1, %n.1), direction=LT
}

"""
WHILE = "%z = (s32[], f32[100]) while(%start), condition=%condition, body=%body"


def test_a_loop_counts_as_often_as_it_runs_and_its_condition_once_more(tmp_path: Path) -> None:
    lines = parameter("start", "1").replace("f32[1]", "(s32[], f32[100])"), WHILE
    known = read(tmp_path, HEAD + LOOP + entry(*lines).replace(WHILE, WHILE + TRIPS))
    unknown = read(tmp_path, HEAD + LOOP + entry(*lines))
    assert known.accessed_bytes == 7 * 2 * 100 * FLOAT + 8 * (FLOAT + 1)
    assert known.reason == ""
    assert unknown.accessed_bytes == 2 * 100 * FLOAT + 2 * (FLOAT + 1)
    assert unknown.reason == UNKNOWN_TRIPS(loops=1)


TRIPS = ', backend_config={"known_trip_count":{"n":"7"}}'


def test_a_called_computation_counts_and_its_call_does_not(tmp_path: Path) -> None:
    called = "%part (p: f32[9]) -> f32[9] {\n  %p = f32[9] parameter(0)\n  ROOT %q = f32[9] negate(%p)\n}\n\n"
    found = accessed(tmp_path, parameter("x", "9"), "%y = f32[9] call(%x), to_apply=%part", before=called)
    assert found == 2 * 9 * FLOAT


def test_what_a_branch_moves_is_unknown_and_not_0(tmp_path: Path) -> None:
    branch = "%one (p: f32[9]) -> f32[9] {\n  %p = f32[9] parameter(0)\n  ROOT %q = f32[9] negate(%p)\n}\n\n"
    line = "%y = f32[9] conditional(%which, %x, %x), branch_computations={%one, %one}"
    found = read(tmp_path, HEAD + branch + entry(parameter("x", "9"), "%which = s32[] parameter(1)", line))
    assert math.isnan(found.accessed_bytes)
    assert found.reason == UNKNOWN_TIMES(name="y")


def test_a_step_before_optimisation_has_no_traffic(tmp_path: Path) -> None:
    found = read(tmp_path, STEP.read_text().replace("is_scheduled=true, ", "", 1))
    assert math.isnan(found.accessed_bytes)
    assert "not optimised" in found.reason


def test_a_cut_or_foreign_text_yields_no_number(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="expected HLO text of XLA"):
        read(tmp_path, "no module")
    for _, data in flips(STEP.read_bytes(), 60):
        with contextlib.suppress(ParseError):  # and no other error
            read(tmp_path, data.decode(errors="replace"))
    for _, data in cuts(STEP.read_bytes().rstrip(), 40):
        try:
            found = read(tmp_path, data.decode())
        except ParseError:
            continue
        assert math.isnan(found.accessed_bytes)
        assert found.reason


def test_sizes_that_contradict_each_other_are_a_reason(tmp_path: Path) -> None:
    text = STEP.read_text()
    assert "convolution(f32[4,12,12,3]{3,2,1,0} %arg0.1" in text
    found = read(tmp_path, text.replace("convolution(f32[4,12,12,3]", "convolution(f32[4,12,12,4]"))
    assert math.isnan(found.accessed_bytes)
    assert "where it is made" in found.reason


def test_an_element_of_unknown_size_is_a_reason(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + entry("%x = q7[4] parameter(0)", "%y = q7[4] copy(%x)"))
    assert math.isnan(found.accessed_bytes)
    assert "type q7 are not known" in found.reason


@pytest.mark.parametrize(
    ("type_text", "expected"),
    [
        ("f32[2,3]{1,0}", 24), ("bf16[5]", 10), ("pred[]", 1), ("s64[3]", 24), ("c64[2]", 16), ("f8e4m3fn[8]", 8),
        ("u4[6]", 6), ("f32[0,7]", 0), ("token[]", 0), ("f32[<=9]{0}", 36),
        ("(f32[2]{0}, (s8[3]{0}, /*index=5*/u16[1]))", 13),
    ],
)  # fmt: skip
def test_sizes_of_types(type_text: str, expected: int) -> None:
    assert size_bytes(type_text) == expected


@pytest.mark.parametrize(("type_text", "words"), [("string[3]", "type string"), ("f32[3<4]", "3<4")])
def test_a_name_that_is_no_type_has_no_size(type_text: str, words: str) -> None:
    with pytest.raises(HloError, match=words):
        size_bytes(type_text)
