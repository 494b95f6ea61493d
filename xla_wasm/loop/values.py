"""Values of the loop IR as wasm code: what each leaves on the stack."""

from __future__ import annotations

import struct

from ..hlo.types import TYPES, limits
from ..wasm.func import Func as WasmFunc
from ..wasm.opcodes import CODE
from .builder import WIDE, is_float
from .ir import Val
from .ops import CONVERT, CONVERT_LANES, OPS, instructions, lane_bytes, lane_shape, register, unsigned


class Values:
    """Writes values into one wasm function. A value with a local is read from it, any other is computed where it is
    used."""

    def __init__(self, out: WasmFunc):
        self.out = out
        self.op = out.op
        self.locals: dict[Val, int] = {}

    def temporary(self, val: Val) -> int:
        """The local of a value, computed now if it has none."""
        found = self.locals.get(val)
        if found is not None:
            return found
        self.compute(val)
        local = self.out.local(register(val.dtype, val.lanes))
        self.op("local.set", local)
        return local

    # --- values -------------------------------------------------------------------------------------------------

    def value(self, val: Val) -> None:
        """Pushes a value."""
        local = self.locals.get(val)
        if local is None:
            self.compute(val)
        else:
            self.op("local.get", local)

    def compute(self, val: Val) -> None:
        write = _WRITE.get(val.op)
        if write is not None:
            write(self, val)
            return
        code = instructions(val.op, val.args[0].dtype, val.lanes)
        if code is not None:
            for arg in val.args:
                self.value(arg)
            for name in code:
                self.op(name)
        elif val.lanes == 1:
            self.composed(val.op, val.args)
        elif val.op == "mul":
            self.product_of_bytes(*val.args)
        else:
            self.lane_by_lane(val)

    def product_of_bytes(self, x: Val, y: Val) -> None:
        """The low bytes of the products of sixteen lanes."""
        a, c = self.temporary(x), self.temporary(y)
        for half in ("low", "high"):
            self.op("local.get", a)
            self.op("local.get", c)
            self.op(f"i16x8.extmul_{half}_i8x16_u")
        self.op("i8x16.shuffle", *range(0, 32, 2))

    def composed(self, op: str, args: tuple[Val, ...]) -> None:
        """Scalar operations that wasm has no instruction for."""
        dtype = args[0].dtype
        reg = register(dtype)
        if op in ("min", "max", "pmin", "pmax"):
            # min: y < x ? y : x, max: x < y ? y : x
            x, y = (self.temporary(a) for a in args)
            self.op("local.get", y)
            self.op("local.get", x)
            first, second = (y, x) if op in ("min", "pmin") else (x, y)
            self.op("local.get", first)
            self.op("local.get", second)
            self.op(f"{reg}.lt" if is_float(dtype) else f"{reg}.lt_{'u' if unsigned(dtype) else 's'}")
            self.op("select")
        elif op == "neg":
            self.op(f"{reg}.const", 0)
            self.value(args[0])
            self.op(f"{reg}.sub")
        elif op == "abs":
            if unsigned(dtype):
                self.value(args[0])
                return
            x = self.temporary(args[0])
            self.op(f"{reg}.const", 0)
            self.op("local.get", x)
            self.op(f"{reg}.sub")
            self.op("local.get", x)
            self.op("local.get", x)
            self.op(f"{reg}.const", 0)
            self.op(f"{reg}.lt_s")
            self.op("select")
        elif op == "not":
            self.value(args[0])
            self.op(f"{reg}.const", 1 if dtype == "pred" else -1)
            self.op(f"{reg}.xor")
        else:
            assert op == "andnot", f"no scalar form of {op} on {dtype}"
            self.value(args[0])
            self.value(args[1])
            self.op(f"{reg}.const", -1)
            self.op(f"{reg}.xor")
            self.op(f"{reg}.and")

    def lane_by_lane(self, val: Val) -> None:
        """A vector operation without an instruction: each lane by its scalar form."""
        args = [(a, self.temporary(a)) for a in val.args]
        mask = val.dtype == "pred"
        result = self.out.local("v128")
        for k in range(val.lanes):
            if k:
                self.op("local.get", result)
            scalars = []
            for arg, local in args:
                self.op("local.get", local)
                self.extract(arg.dtype, arg.lanes, k)
                scalar = Val("lane", (), arg.dtype, 1, k, arg.block)
                self.locals[scalar] = self.out.local(register(arg.dtype))
                self.op("local.set", self.locals[scalar])
                scalars.append(scalar)
            self.compute(Val(val.op, tuple(scalars), val.dtype, 1, val.imm, val.block))
            if mask:
                self.mask_from_scalar(val.lanes)
            if k:
                self.op(f"{lane_shape(val.dtype, val.lanes)}.replace_lane", k)
            else:
                self.op(f"{lane_shape(val.dtype, val.lanes)}.splat")
            if k < val.lanes - 1:
                self.op("local.set", result)

    def mask_from_scalar(self, lanes: int) -> None:
        """0 or 1 on the stack becomes a lane of a mask."""
        if lanes == 2:
            self.op("i64.extend_i32_u")
            local = self.out.local("i64")
            self.op("local.set", local)
            self.op("i64.const", 0)
            self.op("local.get", local)
            self.op("i64.sub")
        else:
            local = self.out.local("i32")
            self.op("local.set", local)
            self.op("i32.const", 0)
            self.op("local.get", local)
            self.op("i32.sub")

    def extract(self, dtype: str, lanes: int, lane: int) -> None:
        """One lane of the vector on the stack, as a scalar of its type."""
        sign = "" if lanes <= 4 else "_u" if unsigned(dtype) else "_s"
        self.op(f"{lane_shape(dtype, lanes)}.extract_lane{sign}", lane)
        if dtype == "pred":
            if lanes == 2:
                self.op("i32.wrap_i64")
            self.op("i32.const", 1)
            self.op("i32.and")

    # --- values with a form of their own ------------------------------------------------------------------------

    def const(self, val: Val) -> None:
        self.constant(val.dtype, val.lanes, val.imm)

    def constant(self, dtype: str, lanes: int, pattern: int) -> None:
        reg = register(dtype)
        if lanes > 1:
            if dtype == "pred":
                data = (b"\xff" if pattern else b"\0") * 16
            else:
                size = lane_bytes(dtype, lanes)
                data = (pattern & ((1 << size * 8) - 1)).to_bytes(size, "little")
                data = data * (16 // size)
            self.op("v128.const", data)
        elif reg == "f32":
            self.out.raw(CODE["f32.const"] + struct.pack("<I", pattern))
        elif reg == "f64":
            self.out.raw(CODE["f64.const"] + struct.pack("<Q", pattern))
        else:
            self.op(f"{reg}.const", pattern)

    def splat(self, val: Val) -> None:
        (x,) = val.args
        if x.op == "const":
            self.constant(val.dtype, val.lanes, x.imm)
            return
        self.value(x)
        if val.dtype == "pred":
            self.mask_from_scalar(val.lanes)
        self.op(f"{lane_shape(val.dtype, val.lanes)}.splat")

    def pointer(self, val: Val) -> None:
        self.op("local.get", 0)
        self.op("i32.load", 2, val.imm * 4)

    def ramp(self, val: Val) -> None:
        self.op("v128.const", b"".join(((k * val.imm) & 0xFFFFFFFF).to_bytes(4, "little") for k in range(4)))

    def load(self, val: Val) -> None:
        self.value(val.args[0])
        size = TYPES[val.dtype].bytes
        whole = f"{register(val.dtype)}.load"
        self.op(whole if size >= 4 else _LOAD_SIZE[size, unsigned(val.dtype)], 0, val.imm[0])
        if val.dtype == "pred":
            self.truth()

    def truth(self) -> None:
        """A byte on the stack becomes 0 or 1: hosts may give any other for true."""
        self.op("i32.const", 0)
        self.op("i32.ne")

    def load_vector(self, val: Val) -> None:
        size, lanes, offset = TYPES[val.dtype].bytes, val.lanes, val.imm[0]
        sign = "u" if unsigned(val.dtype) else "s"
        self.value(val.args[0])
        if size * lanes == 16:
            self.op("v128.load", 0, offset)
        elif lanes == 8:
            self.op(f"v128.load8x8_{sign}", 0, offset)
        elif lanes == 4 and size == 2:
            self.op(f"v128.load16x4_{sign}", 0, offset)
        elif lanes == 2 and size == 4:
            self.op("v128.load64_zero", 0, offset)
        else:
            if lanes == 2:
                # One 16- or 32-bit load holds both lanes; widen from it.
                self.op("i32.load16_u" if size == 1 else "i32.load", 0, offset)
                self.op("i32x4.splat")
            else:
                self.op("v128.load32_zero", 0, offset)
            if size == 1:
                self.op(f"i16x8.extend_low_i8x16_{sign}")
            self.op(f"i32x4.extend_low_i16x8_{sign}")
        if val.dtype == "pred":
            if lanes == 2:
                self.op("i64x2.extend_low_i32x4_u")
            if lanes == 2:
                self.op("v128.const", bytes(16))
                self.op("i64x2.ne")
            else:
                shape = lane_shape("pred", lanes)
                self.op("v128.const", b"\1".ljust(16 // lanes, b"\0") * lanes)
                self.op(f"{shape}.min_u")
                self.op(f"{shape}.neg")

    def load_splat(self, val: Val) -> None:
        self.value(val.args[0])
        self.op(f"v128.load{8 * TYPES[val.dtype].bytes}_splat", 0, val.imm[0])

    def load_strided(self, val: Val) -> None:
        address = self.temporary(val.args[0])
        offset, stride = val.imm
        size = TYPES[val.dtype].bytes
        for k in range(val.lanes):
            shift = offset + k * stride * size
            if size >= 4:
                if k == 0:
                    self.lane_address(address, shift)
                    self.op(f"v128.load{size * 8}_zero", 0, max(shift, 0))
                else:
                    local = self.out.local("v128")
                    self.op("local.set", local)
                    self.lane_address(address, shift)
                    self.op("local.get", local)
                    self.op(f"v128.load{size * 8}_lane", 0, max(shift, 0), k)
                continue
            self.lane_address(address, shift)
            self.op(_LOAD_SIZE[size, unsigned(val.dtype)], 0, max(shift, 0))
            if val.dtype == "pred":
                self.truth()
                self.mask_from_scalar(val.lanes)
            form = lane_shape(val.dtype, val.lanes)
            self.op(f"{form}.splat") if k == 0 else self.op(f"{form}.replace_lane", k)

    def lane_address(self, address: int, shift: int) -> None:
        self.op("local.get", address)
        if shift < 0:
            self.op("i32.const", shift)
            self.op("i32.add")

    def bitcast(self, val: Val) -> None:
        (x,) = val.args
        self.value(x)
        source, target = register(x.dtype), register(val.dtype)
        if val.lanes == 1 and source != target:
            self.op(f"{target}.reinterpret_{source}")

    def wrap(self, val: Val) -> None:
        (x,) = val.args
        self.value(x)
        bits = TYPES[val.dtype].bits
        size = lane_bytes(val.dtype, val.lanes) if val.lanes > 1 else 4
        if unsigned(val.dtype):
            low, high = limits(val.dtype)
            self.op("i32.const", high) if val.lanes == 1 else self.op(
                "v128.const", high.to_bytes(size, "little") * (16 // size)
            )
            self.op("i32.and" if val.lanes == 1 else "v128.and")
        elif val.lanes == 1 and bits in (8, 16):
            self.op(f"i32.extend{bits}_s")
        else:
            for name in ("shl", "shr_s"):
                self.op("i32.const", 8 * size - bits)
                self.op(f"i32.{name}" if val.lanes == 1 else f"{lane_shape(val.dtype, val.lanes)}.{name}")

    def convert(self, val: Val) -> None:
        (x,) = val.args
        key = (val.imm, val.dtype)
        if val.lanes == 1:
            self.value(x)
            for name in CONVERT[key]:
                self.op(name)
        elif key in CONVERT_LANES:
            self.value(x)
            for name in CONVERT_LANES[key]:
                self.op(name)
        elif val.imm in WIDE and val.dtype in ("s32", "u32"):
            local = self.temporary(x)
            self.op("local.get", local)
            self.op("local.get", local)
            self.op("i8x16.shuffle", 0, 1, 2, 3, 8, 9, 10, 11, *([0] * 8))
        else:
            self.lane_by_lane(val)

    def select(self, val: Val) -> None:
        condition, x, y = val.args
        self.value(x)
        self.value(y)
        self.value(condition)
        if val.lanes == 1:
            self.op("select")
            return
        if val.lanes == 2 and val.dtype not in WIDE and val.dtype != "pred":
            local = self.out.local("v128")
            self.op("local.tee", local)
            self.op("local.get", local)
            self.op("i8x16.shuffle", 0, 1, 2, 3, 8, 9, 10, 11, *([0] * 8))
        self.op("v128.bitselect")

    def lane(self, val: Val) -> None:
        (x,) = val.args
        self.value(x)
        self.extract(x.dtype, x.lanes, val.imm)

    def splat_lane(self, val: Val) -> None:
        (x,) = val.args
        local = self.temporary(x)
        size = lane_bytes(x.dtype, x.lanes)
        self.op("local.get", local)
        self.op("local.get", local)
        self.op("i8x16.shuffle", *[val.imm * size + byte for _ in range(16 // size) for byte in range(size)])

    def shuffle(self, val: Val) -> None:
        x, y = val.args
        size = lane_bytes(x.dtype, x.lanes)
        starts = [lane * size if lane < x.lanes else 16 + (lane - x.lanes) * size for lane in val.imm]
        picked = [start + byte for start in starts for byte in range(size)]
        self.value(x)
        self.value(y)
        self.op("i8x16.shuffle", *picked, *([0] * (16 - len(picked))))

    def halves(self, val: Val) -> None:
        self.value(val.args[0])

    joined = halves

    def narrow(self, val: Val) -> None:
        """Two vectors in one of lanes half as wide; numbers that do not fit become the nearest that do."""
        x, y = val.args
        self.value(x)
        self.value(y)
        if val.lanes == 4:
            self.op("i8x16.shuffle", *(start + byte for start in (0, 8, 16, 24) for byte in range(4)))
        else:
            sign = "u" if unsigned(val.dtype) and val.dtype != "pred" else "s"
            self.op(f"{lane_shape(val.dtype, val.lanes)}.narrow_{lane_shape(x.dtype, x.lanes)}_{sign}")

    def mulhi(self, val: Val) -> None:
        if val.lanes == 1:
            for arg in val.args:
                self.value(arg)
                self.op("i64.extend_i32_u")
            self.op("i64.mul")
            self.op("i64.const", 32)
            self.op("i64.shr_u")
            self.op("i32.wrap_i64")
            return
        x, y = (self.temporary(a) for a in val.args)
        for half in ("low", "high") if val.lanes == 4 else ("low", "low"):
            self.op("local.get", x)
            self.op("local.get", y)
            self.op(f"i64x2.extmul_{half}_i32x4_u")
        self.op("i8x16.shuffle", *(start + byte for start in (4, 12, 20, 28) for byte in range(4)))

    def pack(self, val: Val) -> None:
        form = lane_shape(val.dtype, val.lanes)
        for k, x in enumerate(val.args):
            self.value(x)
            if val.dtype == "pred":
                self.mask_from_scalar(val.lanes)
            self.op(f"{form}.splat") if k == 0 else self.op(f"{form}.replace_lane", k)

    def call(self, val: Val) -> None:
        if val.lanes > 1:
            self.lane_by_lane(val)
            return
        for arg in val.args:
            self.value(arg)
        self.out.call(val.imm)

    def slow_path(self, val: Val) -> None:
        mask, fast, *args = val.args
        self.value(fast)
        result = self.out.local(register(val.dtype, val.lanes))
        self.op("local.set", result)
        mask_local = self.temporary(mask)
        self.op("local.get", mask_local)
        if val.lanes == 1:
            self.op("if", None)
            for arg in args:
                self.value(arg)
            self.out.call(val.imm)
            self.op("local.set", result)
            self.op("end")
        else:
            self.op("v128.any_true")
            self.op("if", None)
            locals_ = [self.temporary(a) for a in args]
            for k in range(val.lanes):
                self.op("local.get", mask_local)
                self.extract("pred", val.lanes, k)
                self.op("if", None)
                self.op("local.get", result)
                for arg, local in zip(args, locals_):
                    self.op("local.get", local)
                    self.extract(arg.dtype, arg.lanes, k)
                self.out.call(val.imm)
                self.op(f"{lane_shape(val.dtype, val.lanes)}.replace_lane", k)
                self.op("local.set", result)
                self.op("end")
            self.op("end")
        self.op("local.get", result)

    def shift_lanes(self, val: Val) -> None:
        """A shift whose amount differs by lane, or has 64 bits; it is as wide as what is shifted."""
        x, amount = val.args
        if val.lanes > 1:
            self.lane_by_lane(val)
            return
        self.value(x)
        self.value(amount)
        self.op(f"{register(x.dtype)}.{val.imm}")

    def shl(self, val: Val) -> None:
        """A shift by one amount for all lanes."""
        x, amount = val.args
        self.value(x)
        self.value(amount)
        reg = register(x.dtype)
        if val.lanes > 1:
            self.op(f"{lane_shape(x.dtype, val.lanes)}.{val.op}")
            return
        if reg == "i64":
            self.op("i64.extend_i32_u")
        self.op(f"{reg}.{val.op}")

    shr_s = shr_u = shl


_LOAD_SIZE = {
    (1, True): "i32.load8_u",
    (1, False): "i32.load8_s",
    (2, True): "i32.load16_u",
    (2, False): "i32.load16_s",
}
_WRITE = {op.name: getattr(Values, op.name) for op in OPS.values() if op.form == "."}
