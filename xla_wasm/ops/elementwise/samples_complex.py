"""Samples of elementwise operations on complex numbers."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from ..sample import Sample, array, bf16, case, f32, f64, inf, nan, pred, program, s32, shape

# Values everywhere in the plane, those where formulas cancel or overflow among them.
_POINTS = (
    0.5 + 0.25j,
    -2 + 3j,
    1 - 0.125j,
    -0.75 - 1.5j,
    0.125 + 3j,
    complex(2.0**-14, 2.0**-17),
    20 - 1j,
    complex(-1, 2.0**-12),
)

# The functions there, computed with 300 bits and rounded once.
_TRUE: dict[str, list[complex]] = {
    "sqrt": [
        0.7276733451126774 + 0.17178037486125622j,
        0.8959774761298381 + 1.6741492280355401j,
        1.0019436657161216 - 0.062378756549480475j,
        0.6808270643580653 - 1.1016013305921617j,
        1.2505204991054881 + 1.1995005288381657j,
        0.0078276848884072 + 0.0004873340355428162j,
        4.473532407086194 - 0.11176849847069104j,
        0.00012207031159050533 + 1.0000000074505804j,
    ],
    "rsqrt": [
        1.3017016520692888 - 0.30729007631213195j,
        0.24849944091130338 - 0.464325452650815j,
        0.994206533203502 + 0.061897060100957274j,
        0.4059668258203355 + 0.6568681224822113j,
        0.4164787964120827 - 0.3994868831846593j,
        127.25843625004826 - 7.922823692922531j,
        0.2233975477311585 + 0.005581452463023374j,
        0.00012207030795252671 - 0.9999999776482592j,
    ],
    "exponential": [
        1.5974665191199127 + 0.40790017007835977j,
        -0.13398091492954262 + 0.019098516261135196j,
        2.6970728890689397 - 0.3389010622290407j,
        0.03341388810231878 - 0.47118326819860185j,
        -1.12180846607056 + 0.15990991882981662j,
        1.0000610369898275 + 7.629860206674432e-06j,
        262135873.80687627 - 408252434.7759918j,
        0.3678794302077807 + 8.98143158000216e-05j,
    ],
    "exponential-minus-one": [
        0.5974665191199127 + 0.40790017007835977j,
        -1.1339809149295426 + 0.019098516261135196j,
        1.69707288906894 - 0.3389010622290407j,
        -0.9665861118976812 - 0.47118326819860185j,
        -2.12180846607056 + 0.15990991882981662j,
        6.103698982743855e-05 + 7.629860206674432e-06j,
        262135872.80687627 - 408252434.7759918j,
        -0.6321205697922193 + 8.98143158000216e-05j,
    ],
    "log": [
        -0.5815754049028404 + 0.4636476090008061j,
        1.2824746787307684 + 2.158798930342464j,
        0.007752093267982627 - 0.12435499454676144j,
        0.5170368837652692 - 2.0344439357957027j,
        1.099479591574214 + 1.5291537476963082j,
        -9.696308434571252 + 0.12435499454676144j,
        2.9969807136532847 - 0.04995839572194276j,
        2.980232149951693e-08 + 3.141348512969644j,
    ],
    "log-plus-one": [
        0.4191645952022216 + 0.16514867741462683j,
        1.151292546497023 + 1.892546881191539j,
        0.695096500767774 - 0.06241880999595735j,
        0.4191645952022216 - 1.4056476493802699j,
        1.1644004675624693 + 1.2120256565243244j,
        6.1033322780916595e-05 + 7.628928898234664e-06j,
        3.045654941038849 - 0.047583103276983396j,
        -8.317766166719343 + 1.5707963267948966j,
    ],
    "logistic": [
        0.6242751644199612 + 0.05900296431450802j,
        -0.1541476496139678 + 0.02545268116361431j,
        0.7317696626630815 - 0.0245879778335743j,
        0.19887784013798362 - 0.36527025798276636j,
        4.014427970690746 + 3.957335213730186j,
        0.500015258789058 + 1.907348631045395e-06j,
        0.9999999988863539 - 1.734400964650719e-09j,
        0.2689414186622232 + 4.8000960349709466e-05j,
    ],
    "sine": [
        0.494485780933195 + 0.22168816414957482j,
        -9.15449914691143 - 4.168906959966565j,
        0.8480535412217323 - 0.06771380534748689j,
        -1.6034935732013758 - 1.5579700760145927j,
        1.2551830751361823 + 9.93971213357129j,
        6.1035156213880747e-05 + 7.62939451711316e-06j,
        1.4087481370443495 - 0.47957852614772184j,
        -0.8414710098856862 + 0.00013190974395399437j,
    ],
    "cosine": [
        0.9051501505596067 - 0.12110879604381165j,
        -4.189625690968807 + 9.109227893755337j,
        0.5445289167354349 + 0.10545800351395451j,
        1.721231930505232 - 1.451399407513992j,
        9.989110746664071 - 1.2489758856613866j,
        0.9999999981664587 - 4.656612870231362e-10j,
        0.6297035269997224 + 1.0728943483865476j,
        0.5403023219704033 + 0.0002054372541912011j,
    ],
    "tan": [
        0.504500702698564 + 0.3124206925025888j,
        0.0037640256415042484 + 1.0032386273536098j,
        1.4778925499680529 - 0.4105739772565441j,
        -0.0983878191396714 - 0.9881121005704792j,
        0.0012206355197352978 + 0.995207374312129j,
        6.103515632223851e-05 + 7.62939455952368e-06j,
        0.24072734799016832 - 1.1717475060430786j,
        -1.5574074066683847 + 0.000836308168340129j,
    ],
    "tanh": [
        0.48548728102413535 + 0.19805544995134952j,
        -0.9653858790221331 - 0.009884375038322494j,
        0.766598505335134 - 0.05229302593730029j,
        -1.5628689818694737 - 0.10358061868779705j,
        0.1268399397769182 - 0.14029816681980314j,
        6.1035156177761486e-05 + 7.629394502976321e-06j,
        1 - 7.726035185161155e-18j,
        -0.7615941750203109 + 0.00010253279673796866j,
    ],
    "sign": [
        0.8944271909999159 + 0.4472135954999579j,
        -0.5547001962252291 + 0.8320502943378437j,
        0.9922778767136676 - 0.12403473458920845j,
        -0.4472135954999579 - 0.8944271909999159j,
        0.04163054471218133 + 0.9991330730923519j,
        0.9922778767136676 + 0.12403473458920845j,
        0.9987523388778446 - 0.04993761694389223j,
        -0.999999970197679 + 0.0002441406177240427j,
    ],
    "acos": [
        1.0691874735193958 - 0.2813960562452928j,
        2.141449111115996 - 1.9833870299165355j,
        0.3497709721205348 + 0.3571289759555658j,
        1.9737071569414666 + 1.2650750428933686j,
        1.5312853451349782 - 1.819187184014368j,
        1.5707352916386106 - 7.62939454538684e-06j,
        0.05002070036180225 + 3.6895069900607167j,
        3.125967971498693 - 0.015625317873975236j,
    ],
    "acosh": [
        0.2813960562452928 + 1.0691874735193958j,
        1.9833870299165355 + 2.141449111115996j,
        0.3571289759555658 - 0.3497709721205348j,
        1.2650750428933686 - 1.9737071569414666j,
        1.819187184014368 + 1.5312853451349782j,
        7.62939454538684e-06 + 1.5707352916386106j,
        3.6895069900607167 - 0.05002070036180225j,
        0.015625317873975236 + 3.125967971498693j,
    ],
    "asin": [
        0.5016088532755008 + 0.2813960562452928j,
        -0.5706527843210994 + 1.9833870299165355j,
        1.2210253546743617 - 0.3571289759555658j,
        -0.4029108301465699 - 1.2650750428933686j,
        0.03951098165991842 + 1.819187184014368j,
        6.103515628611926e-05 + 7.62939454538684e-06j,
        1.5207756264330943 - 3.6895069900607167j,
        -1.5551716447037964 + 0.015625317873975236j,
    ],
    "asinh": [
        0.4926756834207706 + 0.2243284526346675j,
        -1.9686379257930964 + 0.9646585044076028j,
        0.8841383903695068 - 0.08833036572855373j,
        -1.1627920981631037 - 1.0242880572034125j,
        1.7637816499875794 + 1.5266362630472592j,
        6.1035156213880747e-05 + 7.62939451711316e-06j,
        3.6907476555303655 - 0.049896322548822945j,
        -0.8813735975562552 + 0.00017263349107188202j,
    ],
    "atan": [
        0.4842544903299662 + 0.20058661813123432j,
        -1.4099210495965755 + 0.22907268296853878j,
        0.7893043339274989 - 0.06233648092705846j,
        -1.2251278624101656 - 0.5315996311919018j,
        1.555206838512052 + 0.34584295166932216j,
        6.1035156177761486e-05 + 7.629394502976321e-06j,
        1.5209620005493156 - 0.002487582713292021j,
        -0.7853981782986095 + 0.00012207031128734038j,
    ],
    "atanh": [
        0.5003700000525311 + 0.3143981432077165j,
        -0.14694666622552977 + 1.3389725222944935j,
        1.387269021223805 - 0.816607568395427j,
        -0.207933335961523 - 1.05713696075397j,
        0.012483092187052253 + 1.2495139370554467j,
        6.103515632223851e-05 + 7.62939455952368e-06j,
        0.04991641756298177 - 1.5682963476279175j,
        -4.5054566773649345 + 0.7854591985533952j,
    ],
    "cosh": [
        1.0925708047319176 + 0.12892104172809826j,
        -3.7245455049153224 - 0.5118225699873846j,
        1.5310410062104371 - 0.1465178954915423j,
        0.09158227260398998 + 0.8202568175066205j,
        -0.9977368889512219 + 0.017685974412135323j,
        1.0000000018335413 + 4.656612875923423e-10j,
        131067936.90343814 - 204126217.3879959j,
        1.5430805888278574 - 0.0002869143510667057j,
    ],
    "sinh": [
        0.504895714387995 + 0.2789791283502615j,
        3.59056458998578 + 0.5309210862485199j,
        1.1660318828585028 - 0.19238316673749842j,
        -0.0581683845016712 - 1.2914400857052224j,
        -0.12407157711933818 + 0.14222394441768127j,
        6.103515628611926e-05 + 7.62939454538684e-06j,
        131067936.90343814 - 204126217.3879959j,
        -1.1752011586200768 + 0.0003767286668667273j,
    ],
}
_DIES = "XLA:CPU dies of this conversion"
_NOT_OF_XLA = ("sqrt", "sine", "cosine")
_NOT_ON_CPU = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh")

# opcode, what it is of, what it gives there: infinities, NaN, zeros and their neighbours.
_EDGES: tuple[tuple[str, list[Any], list[Any]], ...] = (
    ("sqrt", [-1, -4 + 0j, 0, inf, complex(-inf, 1), complex(1, inf), complex(inf, nan)],
     [1j, 2j, 0, inf, complex(0, inf), complex(inf, inf), complex(inf, nan)]),
    ("rsqrt", [4, 0, complex(inf, 1), complex(nan, 0)],
     [complex(0.5, -0.0), complex(inf, nan), complex(0, -0.0), complex(nan, nan)]),
    ("exponential", [0, complex(nan, 0), complex(inf, 0), complex(-inf, 1), complex(0, inf)],
     [1, nan, inf, 0, complex(nan, nan)]),
    ("exponential-minus-one", [0, complex(inf, 0), complex(-inf, 2), complex(nan, 1)], [0, inf, -1, complex(nan, nan)]),
    ("log", [1, -1, 0, complex(-0.0, 0), complex(-inf, inf)],
     [0, pi * 1j, -inf, complex(-inf, pi), complex(inf, 0.75 * pi)]),
    ("log-plus-one", [0, -1, -2, complex(inf, 1), complex(nan, 0)], [0, -inf, pi * 1j, inf, complex(nan, nan)]),
    ("logistic", [0, complex(inf, 1), complex(-inf, 1)], [0.5, 1, 0]),
    ("sine", [0, complex(0, inf), complex(inf, 0)], [0, complex(0, inf), complex(nan, 0)]),
    ("cosine", [0, complex(0, inf), complex(1, inf)], [complex(1, -0.0), complex(inf, -0.0), complex(inf, -inf)]),
    ("tan", [0, complex(0.5, inf), complex(0, nan)], [0, 1j, complex(0, nan)]),
    ("tanh", [100, complex(-inf, nan), complex(nan, 0), complex(1, inf)], [1, -1, nan, complex(nan, nan)]),
    ("sign", [0, complex(-0.0, -0.0), 3, complex(1, inf)], [0, complex(-0.0, -0.0), 1, complex(0, nan)]),
)  # fmt: skip

_BINARY: tuple[tuple[str, list[Any], list[Any], list[Any]], ...] = (
    ("add", [1 + 2j, complex(inf, -0.0)], [0.5 - 1j, complex(1, -0.0)], [1.5 + 1j, complex(inf, -0.0)]),
    ("subtract", [1 + 2j, 3], [0.5 - 1j, 3], [0.5 + 3j, 0]),
    ("multiply", [1 + 2j, complex(inf, 0), 2j], [3 - 1j, 1, 2j], [5 + 5j, complex(inf, nan), -4]),
    ("divide", [5 + 5j, 1, complex(inf, 3), complex(1, 3), complex(inf, inf), 1 + 1j],
     [3 - 1j, 0, 1, complex(inf, 3), 1 + 0j, 1 + 1j],
     [1 + 2j, complex(inf, nan), complex(inf, nan), 0, complex(inf, inf), 1]),
    ("power", [2, 1j, 0, 0, complex(nan, 0), 1, complex(inf, 0), 0, 1 + 1j],
     [3, 2, 0, 2, 0, complex(nan, nan), -2, -1, 2 + 1j],
     [8, -1, 1, 0, 1, 1, 0, complex(nan, nan), -0.30974350492849356 + 0.8576580125887358j]),
    ("atan2", [1, 2 + 1j, 1 + 1j], [1, -2, 2],
     [pi / 4, 2.294016992918964 - 0.2388778612568591j, 0.5535743588970452 + 0.40235947810852507j]),
)  # fmt: skip


def _both(values: Any) -> list[Any]:
    return [array(t, values) for t in ("c64", "c128")]


def _unary() -> list[Sample]:
    samples = []
    for opcode, results in _TRUE.items():
        xla = "XLA:CPU cannot run this opcode on complex numbers" if opcode in _NOT_ON_CPU else ""
        for x, y in zip(_both(_POINTS), _both(results)):
            lossy = "XLA:CPU's sine of small c128 has 40 bits" if opcode == "sine" and x.dtype == np.complex128 else ""
            samples.append(case(opcode, (x,), y, ulp=4, xla=xla or lossy))
    for opcode, values, results in _EDGES:
        differs = "C99, from which XLA:CPU differs here" if opcode in _NOT_OF_XLA else ""
        samples += [
            case(opcode, (x,), y, ulp=6, name="edges", xla=differs) for x, y in zip(_both(values), _both(results))
        ]
    for x, whole, parts in zip(_both([3 + 4j, complex(inf, 1), complex(nan, inf), 0]), ("c64", "c128"), ("f32", "f64")):
        samples.append(case("abs", (x,), array(parts, [5, inf, nan, 0]), ulp=2))
        samples.append(case("real", (x,), array(parts, x.real)))
        samples.append(case("imag", (x,), array(parts, x.imag)))
        samples.append(case("negate", (x,), -x))
        made = array(whole, [1 + 2j, complex(-0.0, inf), nan])
        samples.append(case("complex", (array(parts, [1, -0.0, nan]), array(parts, [2, inf, 0])), made))
    # their squares are no numbers
    large, small = array("c64", [2e38 + 2e38j]), array("c64", [2e-38 - 2e-38j])
    samples.append(case("abs", (large,), f32([8**0.5 * 1e38]), ulp=2, name="no overflow"))
    samples.append(case("abs", (small,), f32([8**0.5 * 1e-38]), ulp=2, name="no underflow"))
    samples.append(
        case("divide", (large, large), array("c64", [1]), ulp=2, name="no overflow", xla="XLA:CPU overflows")
    )
    huge = array("c128", [1e308 + 1e308j, 1e-300 + 1e-308j, 3 + 4j])
    samples.append(
        case("divide", (huge, huge), array("c128", [1, 1, 1]), ulp=4, name="no overflow", xla="XLA:CPU overflows")
    )
    return samples


def _others() -> list[Sample]:
    c64 = array("c64", [1 + 2j, -1.5, complex(0, nan)])
    constant = array("c64", [[1 + 2j, 3], [-0.0, 4j]])
    truth = pred([1, 0, 1])
    return [
        case("compare", (c64, array("c64", [1 + 2j, 1.5, complex(0, nan)])), pred([1, 0, 0]), name="EQ", direction="EQ",
             type="FLOAT"),
        case("compare", (c64, array("c64", [1 + 3j, -1.5, complex(0, nan)])), pred([1, 0, 1]), name="NE",
             direction="NE", type="FLOAT"),
        case("select", (truth, c64, -c64), np.where(truth, c64, -c64)),
        case("select", (pred(0), c64, -c64), -c64, name="by one for all"),
        case("convert", (c64,), f32([1, -1.5, 0]), name="to f32", shape=shape("f32[3]")),
        case("convert", (c64,), s32([1, -1, 0]), name="to s32", shape=shape("s32[3]")),
        case("convert", (c64,), pred([1, 1, 0]), name="to pred", shape=shape("pred[3]"), xla=_DIES),
        case("convert", (array("c64", [0, -0j, 1j]),), pred([0, 0, 0]), name="zero to pred", shape=shape("pred[3]"),
             xla=_DIES),
        case("convert", (c64,), array("c128", c64), name="to c128", shape=shape("c128[3]")),
        case("convert", (array("c128", [1e300 + 0.1j]),), array("c64", [complex(inf, 0.1)]), name="to c64",
             shape=shape("c64[1]")),
        case("convert", (s32([1, -7]),), array("c64", [1, -7]), name="to c64", shape=shape("c64[2]")),
        case("convert", (pred([1, 0]),), array("c128", [1, 0]), name="to c128", shape=shape("c128[2]")),
        case("convert", (bf16([1.5]),), array("c64", [1.5]), name="to c64", shape=shape("c64[1]")),
        case("convert", (f64([1.5]),), array("c64", [1.5]), name="to c64", shape=shape("c64[1]")),
        case("bitcast-convert", (c64,), c64, shape=shape("c64[3]")),
        case("bitcast-convert", (array("c128", [1 + 2j]),), array("c64", [[complex(0, 1.875), complex(0, 2)]]),
            shape=shape("c64[1,2]"), xla="StableHLO has no such bitcast of complex numbers"),
        case("iota", (), array("c64", [[0, 1, 2], [0, 1, 2]]), shape=shape("c64[2,3]"), iota_dimension=1),
        case("iota", (), array("c128", [0, 1]), shape=shape("c128[2]"), iota_dimension=0),
        program("constant", (), constant, lambda b: b.constant(shape("c64[2,2]"), constant.reshape(-1).tolist())),
        program("constant", (), array("c128", [2 - 1j] * 100), lambda b: b.constant(shape("c128[100]"), [2 - 1j] * 100),
                name="splat"),
        program("constant", (), array("c64", 1j), lambda b: b.constant(shape("c64"), [1j]), name="scalar"),
        case("multiply", (array("c64", np.zeros((0, 2))), array("c64", np.zeros((0, 2)))),
             array("c64", np.zeros((0, 2))), name="empty"),
        program("real", (c64,), f32([1, -1.5, 0]),
            lambda b, x: b.op("real", b.op("complex", b.op("real", x), b.op("imag", x))), name="of parts"),
        program("complex", (c64,), c64, lambda b, x: b.op("complex", b.op("real", x), b.op("imag", x)),
                name="of its parts"),
        program("multiply", (array("c64", _ODD),), array("c64", _ODD * np.conj(_ODD)),
            lambda b, x: b.op("multiply", x, b.op("complex", b.op("real", x), b.op("negate", b.op("imag", x)))),
            name="by the conjugate"),
    ]  # fmt: skip


_ODD = (np.arange(35) - 3j * np.arange(35)[::-1]).reshape(5, 7)

COMPLEX_SAMPLES: tuple[Sample, ...] = (
    *_unary(),
    *(
        case(opcode, pair, expected, ulp=4)
        for opcode, x, y, z in _BINARY
        for *pair, expected in zip(*(_both(values) for values in (x, y, z)))
    ),
    *_others(),
)
