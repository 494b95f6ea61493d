"""Records of control flow and structure: calls, loops, branches, parameters, tuples, tokens and asynchronous pairs."""

from __future__ import annotations

from ...errors import counted
from ...hlo.infer import array, brief, broken, need_call, operand_shape, same
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Op
from ...hlo.shape import Shape

_ALIASING = Attr("output_to_operand_aliasing", "output_operand_aliasing", (74,), ())


def _parameter(instr: Instruction) -> Shape:
    if instr.attrs["parameter_number"] < 0:
        raise broken(instr, 1, f"parameter_number is {instr.attrs['parameter_number']}")
    return instr.shape


def _tuple(instr: Instruction) -> Shape:
    return Shape.tuple([operand.shape.without_layout() for operand in instr.operands])


def _get_tuple_element(instr: Instruction) -> Shape:
    shape, index = instr.operands[0].shape, instr.attrs["index"]
    if not shape.is_tuple:
        raise broken(instr, 1, f"the operand must be a tuple, not {brief(shape)}")
    if not 0 <= index < len(shape.tuple_shapes):
        raise broken(instr, 2, f"index {index} is none of a tuple of {len(shape.tuple_shapes)}")
    return shape.tuple_shapes[index].without_layout()


def _call(instr: Instruction) -> Shape:
    return need_call(instr, 0, 1, [operand.shape for operand in instr.operands]).without_layout()


def _while(instr: Instruction) -> Shape:
    state = instr.operands[0].shape
    need_call(instr, 0, 1, [state], state)
    need_call(instr, 1, 2, [state], Shape("pred"))
    return state.without_layout()


def _conditional(instr: Instruction) -> Shape:
    selector = array(instr, 0)
    if selector.dimensions or selector.element_type not in ("pred", "s32"):
        raise broken(instr, 1, f"the selector must be pred[] or s32[], not {brief(selector)}")
    count = len(instr.called)
    if count < 1 or (selector.element_type == "pred" and count != 2):
        raise broken(instr, 2, f"{counted(count, 'branch')}: a pred chooses between two, an s32 between at least one")
    if len(instr.operands) != count + 1:
        raise broken(instr, 3, f"{counted(len(instr.operands) - 1, 'argument')} for {counted(count, 'branch')}")
    first = need_call(instr, 0, 4, [instr.operands[1].shape])
    for index in range(1, count):
        need_call(instr, index, 4, [instr.operands[index + 1].shape], first)
    return first.without_layout()


def _token(instr: Instruction) -> Shape:
    for index, operand in enumerate(instr.operands):
        if not operand.shape.is_token:
            raise broken(instr, 1, f"operand {index} must be a token, not {brief(operand.shape)}")
    return Shape("token")


def _add_dependency(instr: Instruction) -> Shape:
    if not instr.operands[1].shape.is_token:
        raise broken(instr, 1, f"operand 1 must be a token, not {brief(instr.operands[1].shape)}")
    return instr.operands[0].shape.without_layout()


def _copy_start(instr: Instruction) -> Shape:
    shape = instr.operands[0].shape.without_layout()
    return Shape.tuple([shape, shape, Shape("u32")])


def _copy_done(instr: Instruction) -> Shape:
    shape = instr.operands[0].shape
    if len(shape.tuple_shapes) != 3 or not same(shape.tuple_shapes[0], shape.tuple_shapes[1]):
        raise broken(instr, 1, f"the operand must be what copy-start gives, not {brief(shape)}")
    return shape.tuple_shapes[0].without_layout()


def _async_start(instr: Instruction) -> Shape:
    operands = [operand.shape for operand in instr.operands]
    returned = need_call(instr, 0, 1, operands)
    context = instr.shape.tuple_shapes[2:]  # what the backend keeps meanwhile is its own business
    return Shape.tuple([Shape.tuple(operands), returned, *context]).without_layout()


def _async_shape(instr: Instruction) -> Shape:
    shape = instr.operands[0].shape
    if len(shape.tuple_shapes) < 2 or not shape.tuple_shapes[0].is_tuple:
        raise broken(instr, 1, f"the operand must be what async-start gives, not {brief(shape)}")
    return shape


def _async_update(instr: Instruction) -> Shape:
    return _async_shape(instr).without_layout()


def _async_done(instr: Instruction) -> Shape:
    return _async_shape(instr).tuple_shapes[1].without_layout()


_STATE = "The operand is what async-start gives."

OPS: tuple[Op, ...] = (
    Op(
        "parameter",
        (0, 0),
        _parameter,
        (
            Attr("parameter_number", "int", (9,), REQUIRED, text=False),
            Attr("parameter_replication", "bools", (61,), ()),
        ),
        cost=0,
        doc="An argument of the computation.",
        constraints=("parameter_number is not negative.",),
    ),
    Op("tuple", (0, None), _tuple, doc="A tuple of the operands."),
    Op(
        "get-tuple-element",
        (1, 1),
        _get_tuple_element,
        (Attr("index", "int", (13,), REQUIRED),),
        cost=0,
        doc="One element of a tuple.",
        constraints=("The operand is a tuple.", "index is one of its elements."),
    ),
    Op(
        "call",
        (0, None),
        _call,
        (Attr("is_composite", "bool", (89,), False),),
        ("to_apply",),
        doc="The result of a computation.",
        constraints=("to_apply takes the operands.",),
    ),
    Op(
        "fusion",
        (0, None),
        _call,
        (Attr("kind", "name", (11,), REQUIRED), _ALIASING),
        ("calls",),
        doc="The result of a computation that an earlier compiler meant for one kernel.",
        constraints=("The computation takes the operands.",),
    ),
    Op(
        "while",
        (1, 1),
        _while,
        called=("body", "condition"),
        control=True,
        doc="The state after the body ran on it for as long as the condition holds.",
        constraints=("The body takes the state and returns one.", "The condition takes the state and returns pred."),
    ),
    Op(
        "conditional",
        (1, None),
        _conditional,
        called=("branch_computations*",),
        control=True,
        doc="The result of one branch: the first if a pred is true, else the second; by number for an s32, the last "
        "if it is none.",
        constraints=(
            "The selector is pred[] or s32[].",
            "There are two branches for pred, at least one for s32.",
            "There is an argument for each branch.",
            "A branch takes its argument, and all return the same shape.",
        ),
    ),
    Op(
        "after-all",
        (0, None),
        _token,
        doc="A token that comes after all of the operands.",
        constraints=("The operands are tokens.",),
    ),
    Op(
        "add-dependency",
        (2, 2),
        _add_dependency,
        identity=True,
        doc="The first operand, not before the token.",
        constraints=("The second operand is a token.",),
    ),
    Op("opt-barrier", (1, 1), operand_shape, identity=True, doc="The operand; nothing is moved across."),
    Op(
        "domain",
        (1, 1),
        operand_shape,
        (Attr("domain", "domain", (54, 55), (b"", b"")),),
        identity=True,
        doc="The operand; marks where a sharding begins or ends.",
    ),
    Op(
        "copy-start",
        (1, 1),
        _copy_start,
        (Attr("cross_program_prefetch_index", "optional_int", (80,)),),
        doc="Starts a copy: (destination, source, context).",
    ),
    Op(
        "copy-done",
        (1, 1),
        _copy_done,
        doc="The copy that copy-start began.",
        constraints=("The operand is what copy-start gives.",),
    ),
    Op(
        "async-start",
        (0, None),
        _async_start,
        (Attr("async_execution_thread", "str", (79,), ""), _ALIASING),
        ("calls",),
        doc="Starts a computation: ((operands), result, context).",
        constraints=("The computation takes the operands.",),
    ),
    Op(
        "async-update",
        (1, 1),
        _async_update,
        called=("calls?",),
        identity=True,
        doc="Waits for a part of what async-start began.",
        constraints=(_STATE,),
    ),
    Op(
        "async-done",
        (1, 1),
        _async_done,
        called=("calls?",),
        doc="The result of what async-start began.",
        constraints=(_STATE,),
    ),
)
