"""HLO texts in forms that XLA's printer does not use, or seldom: what the tests of the parser and its fuzzing start
from."""

from __future__ import annotations

ADD = "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT z = f32[] add(x, y)\n}\n"


def entry(*lines: str, before: str = "", header: str = "HloModule m") -> str:
    """A module of these instructions."""
    body = "".join(f"  {line}\n" for line in lines)
    return f"{header}\n\n{before}ENTRY e {{\n{body}}}\n"


def unary(shape: str, text: str, before: str = "", header: str = "HloModule m") -> str:
    """A module of a parameter `a` and one more instruction."""
    return entry(f"a = {shape} parameter(0)", f"ROOT r = {text}", before=before, header=header)


CASES: dict[str, str] = {
    "no header": "ENTRY e { ROOT c = f32[] constant(1) }",
    "no entry": "HloModule m\na { ROOT c = f32[] constant(1) }\nb { ROOT d = f32[] constant(2) }",
    "entry in front": "HloModule m\nENTRY a { ROOT c = f32[] constant(1) }\nb { ROOT d = f32[] constant(2) }",
    "colon": "HloModule m:\nENTRY e { c = f32[] constant(1) }",
    "signatures": "HloModule m\nENTRY %e (p.1: f32[2], q: (s32[], pred[3])) -> f32[2] {\n"
    "  %p.1 = f32[2]{0} parameter(0)\n  %q = (s32[], pred[3]{0}) parameter(1)\n  ROOT %n = f32[2]{0} negate(f32[2]{0} "
    "%p.1)\n}",
    "comments": "HloModule /* a \n b */ m // end\nENTRY e { /**/ ROOT c = f32[] /*c*/ constant(/*v*/ 1 /***/) // }\n}",
    "nested operands": unary("f32[2]", "f32[2] add(f32[2] negate(a), multiply(f32[2] a, abs(a)))"),
    "inferred shapes": entry(
        "a = f32[2,3]{0,1} parameter(0)",
        "b = f32[3,4] parameter(1)",
        "d = dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "t = transpose(a), dimensions={1,0}",
        "n = negate(a)",
        "c = compare(n, a), direction=LT",
        "s = select(c, n, a)",
        "u = tuple(d, t, s)",
        "ROOT g = get-tuple-element(u), index=2",
    ),
    "shapes": entry(
        "a = f32[]{:T(128)} parameter(0)",
        "b = f32[2,2]{1,0:T(8,128)(2,1)L(4)E(32)S(3)SC(0:1)(1:1)M(16)} parameter(1)",
        "c = s32[?,<=3] parameter(2)",
        "d = (token[], (), opaque[], (f32[ 2 , 0 ] {0,1})) parameter(3)",
        "e = b(f32[2]) parameter(4)",
        "g = s4[3]{0:E(4)} parameter(5)",
        "h = f32[2,2]{1,0:D(D,D)} parameter(6)",
        "ROOT r = f32[] constant(1)",
    ),
    "literals": entry(
        "a = f32[2,3]{0,1} constant({ { 1, -2.5, 3e2 }, { inf, -inf, nan } })",
        "b = pred[4] constant({true, false, 1, 0})",
        "c = c64[2] constant({ (1, -2), (nan, 3) })",
        "d = (f32[], (s32[2], pred[])) constant((1.5, ({1, 2}, true)))",
        "f = f32[4] constant({nan(0x1), -nan(0x7fffff), -nan, -0.0})",
        "g = s4[3] constant({-8, 0, 7})",
        "h = f8e4m3fn[3] constant({448, 0.001953125, nan})",
        "i = f32[0,3] constant({})",
        "j = f32[2,0] constant({ {}, {} })",
        "k = u64[2] constant({18446744073709551615, -1})",
        "l = f32[2,2,1] constant({ /*i0=0*/ { {1}, {2} }, /*i0=1*/ { {3}, {4} } })",
        "m = bf16[2] constant({1.00390625, 3.3895e38})",
        "n = f32[3] constant(7)",
        "o = f32[3] constant({-0, 0, 00012})",
        "q = f4e2m1fn[3] constant({6.9, -0.5, 8})",
        "s = f8e8m0fnu[2] constant({3, 0.5})",
        "t = c128[] constant((1e-300, nan(0x5)))",
        "ROOT r = f16[2] constant({65519, -6e-8})",
    ),
    "control": entry(
        "a = f32[] parameter(0)",
        "p = pred[] parameter(1)",
        "i = s32[] parameter(2)",
        "w = f32[] while(a), condition={ x = f32[] parameter(0) ROOT c = pred[] compare(x, x), direction=NE, "
        "type=TOTALORDER }, body=body",
        "c = f32[] conditional(p, a, a), true_computation=body, false_computation=body, control-predecessors={w, %i}",
        "d = f32[] conditional(i, a, a, a), branch_computations={body, %body, body}",
        "ROOT r = f32[] fusion(c, d), kind=kLoop, calls=add",
        before=ADD + "body { x = f32[] parameter(0) ROOT n = negate(x) }",
    ),
    "collectives": unary(
        "f32[4,4]",
        "f32[4,4] all-reduce(a), replica_groups=[2,2]<=[2,2]T(1,0), channel_id=1, use_global_device_ids=true, "
        "to_apply=add",
        before=ADD,
    ),
    "groups": entry(
        "a = f32[4,4] parameter(0)",
        "b = f32[4,4] all-reduce(a), replica_groups={{0,1},{2,3}}, to_apply=add",
        "c = f32[4,4] all-reduce(b), replica_groups=mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'x','y':(2)2}, "
        "to_apply=add",
        "d = f32[4,4] all-reduce(c), replica_groups=mesh['x'=2], device_ids=(1,0) {'x'}, to_apply=add, "
        "mode=cross_replica",
        "g = f32[4,4] collective-permute(d), source_target_pairs={{0,1},{1,0}}",
        "ROOT r = f32[4,16] all-gather(g), replica_groups=[1,4]<=[4], dimensions={1}",
        before=ADD,
    ),
    "windows": entry(
        "a = f32[1,8,8,3] parameter(0)",
        "k = f32[3,3,3,4] parameter(1)",
        "c = f32[1,8,4,4] convolution(a, k), window={size=3x3 pad=1_1x-1_2 stride=1x2 rhs_reversal=1x0}, "
        "dim_labels=b01f_01io->b01f, "
        "operand_precision={HIGH,default}",
        "z = f32[] constant(0)",
        "ROOT r = f32[1,4,4,4] reduce-window(c, z), window={size=1x2x1x1 stride=1x2x1x1}, to_apply=add",
        before=ADD,
    ),
    "moves": entry(
        "a = f32[4,5] parameter(0)",
        "z = f32[] constant(0)",
        "i = s32[] constant(1)",
        "p = f32[7,4] pad(a, z), padding=1_2x-1_0",
        "q = f32[11,6] pad(a, z), padding=0_1_2x1_0_0",
        "s = f32[2,2] slice(a), slice={[0:4:2], [1:3]}",
        "d = f32[2,2] dynamic-slice(a, i, i), dynamic_slice_sizes={2,2}",
        "j = s32[3,1] constant({{0},{1},{3}})",
        "g = f32[3,5] gather(a, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,5}",
        "ROOT r = f32[4,5] scatter(a, j, g), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, unique_indices=true, to_apply=add",
        before=ADD,
    ),
    "custom call": entry(
        "a = f32[2,2] parameter(0)",
        'b = f32[2,2] custom-call(a), custom_call_target="x\\"\\x41\\n", operand_layout_constraints={f32[2,2]{0,1}}, '
        'api_version=API_VERSION_TYPED_FFI, backend_config={a = 1, s = "}"}',
        "c = f32[2,2] custom-call(b), custom_call_target='y', literal=( s32[2]{0} {1, 2}, pred[] true ), "
        "called_computations={add}",
        'ROOT r = (f32[2,2], s32[]) custom-call(c), custom_call_target="z", output_to_operand_aliasing={{0}: (0, {})}, '
        'schedule=SCHEDULE_LATEST, custom_call_has_side_effect=true, literal=f32[] 0.5, backend_config="\\377"',
        before=ADD,
    ),
    "attributes of all": unary(
        "f32[2]",
        'f32[2] tanh(a), sharding={devices=[2]<=[2]}, frontend_attributes={k="v",l={"z": {"y":2}},_e=""}, '
        "statistics={visualizing_index=1,stat-0=3.5,stat_b=-4e-3}, result_accuracy={tolerance={atol=0.5, "
        "rtol=1e-3,ulps=3}}, "
        'origin={({"b" {0,1}}, {})}, metadata={op_type="t" op_name="a/\\"b\\"", source_file="f.py" source_line=3 '
        "source_column=7 "
        'deduplicated_name="d" scheduling_name="s" profile_type={1}}, backend_config={"a": "{"}',
    ),
    "shardings": entry(
        "a = f32[4,4] parameter(0), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
        'b = f32[4,4] copy(a), sharding={devices=[2,2]3,2,1,0 metadata={{op_name="q"}, {op_type="t"}}}',
        "c = f32[4,4] copy(b), sharding={maximal device=1}",
        "d = f32[4,4] copy(c), sharding={replicated shard_as 3}",
        "f = f32[4,4] copy(d), sharding={mesh['x'=2,'y'=2], [{'x', ?}, {'y'}]}",
        "g = f32[4,4] copy(f), sharding={mesh['x'=8] [{'x':(1)2, 'x':(4)2}, {'x':(2)2}]}",
        "h = f32[4,4] copy(g), sharding={mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}, {}], manual={'y'}, "
        'metadata={op_name="m"}}',
        "i = f32[4,4] copy(h), sharding={maximal_mesh[device_id=0]}",
        'j = f32[4,4] domain(i), domain={kind="sharding", entry={maximal device=0}, exit={manual}}',
        "k = f32[4,4] copy(j), sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, unreduced}}",
        "ROOT r = (f32[4,4], f32[4,4]) tuple(k, j), sharding={{unknown}, {unreduced}}",
    ),
    "async": entry(
        "a = f32[2] parameter(0)",
        's = ((f32[2]), f32[2], s32[]) custom-call-start(a), custom_call_target="x", async_execution_thread="side"',
        "u = ((f32[2]), f32[2], s32[]) custom-call-update(s)",
        'b = f32[2] custom-call-done(u), metadata={op_name="q"}',
        't = ((f32[2]), f32[2], s32[]) async-start(b), calls=w, async_execution_thread="other"',
        'c = f32[2] async-done(t), async_execution_thread="other"',
        "k = token[] after-all()",
        "n = (f32[2], u32[], token[]) send(c, k), channel_id=3, is_host_transfer=true",
        "m = token[] send-done(n), channel_id=3, is_host_transfer=true",
        "ROOT r = f32[2] add-dependency(c, m)",
        before='w { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }, execution_thread="other"\n',
    ),
    "module attributes": unary(
        "(f32[2,2], f32[2])",
        "(f32[2,2], f32[2]) tuple(f32[2,2] get-tuple-element(a), f32[2] get-tuple-element(a))".replace(
            "f32[2,2] get-tuple-element(a), f32[2] get-tuple-element(a)", "f32[2,2] x, y"
        ),
        header="HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {0}), {1}: (0, {1}, must-alias) }, "
        "entry_computation_layout={((f32[2,2]{0,1}, f32[2]{0}))->(f32[2,2]{0,1}, f32[2]{0})}, "
        "allow_spmd_sharding_propagation_to_parameters={true}, allow_spmd_sharding_propagation_to_output={false,true}, "
        'replica_count=2, num_partitions=4, frontend_attributes={a="b"}',
    ).replace(
        "  ROOT r", "  x = f32[2,2] get-tuple-element(a), index=0\n  y = f32[2] get-tuple-element(a), index=1\n  ROOT r"
    ),
    "donors": unary(
        "f32[2]", "f32[2] negate(a)", header="HloModule m, buffer_donor={ (0, {}) }, alias_passthrough_params=true"
    ),
    "stack frames": unary(
        "f32[2]",
        'f32[2] negate(a), metadata={op_name="n" stack_frame_id=2}',
        header='HloModule m\n\nFileNames\n1 "a.py"\n2 "b.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n'
        "1 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=1 end_column=9}\n"
        "2 {file_name_id=2 function_name_id=1 line=7 end_line=8 column=2 end_column=3}\n\nStackFrames\n"
        "1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=2}\n",
    ),
    "others": entry(
        "a = f32[4,4] parameter(0), parameter_replication={true}",
        "b = f32[4,4] cholesky(a), lower=true",
        "c = f32[4,4] triangular-solve(b, a), left_side=true, transpose_a=TRANSPOSE",
        "f = c64[4,3] fft(c), fft_type=RFFT, fft_length={4}",
        "g = f32[4,4] reduce-precision(c), exponent_bits=5, mantissa_bits=10",
        "h = (f32[4,2], s32[4,2]) topk(g), k=2, largest=false",
        "i = s32[4,4] iota(), iota_dimension=1",
        "j = (f32[4,4], s32[4,4]) sort(g, i), dimensions={1}, is_stable=true, to_apply={ "
        "p = f32[] parameter(0) q = f32[] parameter(1) s = s32[] parameter(2) t = s32[] parameter(3) ROOT l = pred[] "
        "compare(p, q), "
        "direction=LT }",
        "l = f32[] constant(0)",
        "m = f32[4] reduce(g, l), dimensions={1}, to_apply=add",
        "n = f32[4,4] map(g, g), to_apply=add",
        "o = f32[4,4] broadcast(m), dimensions={0}",
        "ROOT r = (f32[4,4], f32[4,4]) tuple(n, o)",
        before=ADD,
    ),
    "signatures without colons": "HloModule m\nENTRY e (p f32[2], %q (s32[], pred[3])) -> f32[2] {\n"
    "  p = f32[2] parameter(0)\n  q = (s32[], pred[3]) parameter(1)\n  ROOT n = f32[2] negate(p)\n}",
    "entry layout without parameters": unary(
        "f32[]", "f32[] negate(a)", header="HloModule m, entry_computation_layout={()->f32[]}"
    ),
    "broadcast along no dimensions": unary("f32[2]", "f32[3,2] broadcast(a), dimensions={}"),
    "gaps in dimension labels": entry(
        "x = f32[1,2,2,1] parameter(0)",
        "w = f32[1,1,1,1] parameter(1)",
        'a = f32[1,2,2,1] custom-call(x, w), custom_call_target="f", window={size=1x1}, dim_labels=b01f_?01io->b01f',
        'ROOT b = f32[1,2,2,1] custom-call(x, w), custom_call_target="f", window={size=1x1}, '
        "dim_labels=??b01f_0?1io->b?01f",
    ),
    "laid out operands of custom calls": unary(
        "f32[2,3]", 'f32[2,3] custom-call(a), custom_call_target="f", operand_layout_constraints={f32[2,3]{0,1}}'
    ),
    **{
        f"NaNs of {name}": entry(f"ROOT c = {name}[{len(codes.split())}] constant({{{', '.join(codes.split())}}})")
        for name, codes in {
            "f8e5m2": "nan -nan nan(0x1) -nan(0x1) nan(0x3)",
            "f8e4m3": "nan -nan nan(0x1) -nan(0x7) nan(0x4)",
            "f8e3m4": "nan -nan nan(0x1) -nan(0xf) nan(0x8)",
            "f8e4m3fn": "nan -nan 1",
            "f8e4m3fnuz": "nan 1",
            "f8e5m2fnuz": "nan 1",
            "f8e4m3b11fnuz": "nan 1",
            "f8e8m0fnu": "nan 1",
            "f16": "nan -nan nan(0x1) -nan(0x3ff)",
            "bf16": "nan -nan nan(0x1) -nan(0x7f)",
            "f32": "nan -nan nan(0x1) -nan(0x7fffff)",
            "f64": "nan -nan nan(0x1) -nan(0xfffffffffffff)",
        }.items()
    },
    **{
        f"sharding {text}": unary("f32[2]", f"f32[2] abs(a), sharding={text}")
        for text in (
            "{mesh[], replicated}",
            "{mesh[], []}",
            "{mesh[], [{}]}",
            '{mesh[], replicated, metadata={op_name="a"}}',
            "{mesh['x'=2], replicated}",
            "{mesh['x'=2], [], replicated={'x'}}",
            "{{mesh[], replicated}, {replicated}}",
        )
    },
    **{
        f"{attribute.partition('=')[0]} of async {where}": entry(
            "x = f32[8] parameter(0)",
            f"s = ((f32[8]), f32[4], s32[]) slice-start(x), "
            f"slice={{[0:4]}}{', ' + attribute if where == 'start' else ''}",
            f"u = ((f32[8]), f32[4], s32[]) slice-update(s){', ' + attribute if where == 'update' else ''}",
            f"ROOT d = f32[4] slice-done(u){', ' + attribute if where == 'done' else ''}",
        )
        for where in ("start", "update", "done")
        for attribute in (
            "statistics={visualizing_index=1,s1=33.0}",
            'origin={{"v"}}',
            'frontend_attributes={k="v"}',
            'metadata={op_name="a"}',
            'backend_config="x"',
        )
    },
}
