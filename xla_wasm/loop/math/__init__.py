"""Elementary functions on f32 and f64 values, scalar or in vectors, as sequences of operations of the loop builder.

One text serves both types where the method is the same: what differs are the numbers in a `Format`. The functions have
no branches but `slow_path` (huge arguments of sin, cos and tan, big quotients of remainder), and hold whether or not
the builder's `fma` fuses. NaN passes clamps: `pmin(x, limit)` and `pmax(x, limit)` return a first operand that is NaN.

"Max ulp" is the largest error met, unfused / fused: of f32 over all 2^32 inputs, of f64 on dense samples, and of
functions of two numbers on random ones. Results below the smallest normal number may be 0.
"""

from .functions import CALLED, FUNCTIONS, function, log1p_of_fraction

__all__ = ["CALLED", "FUNCTIONS", "function", "log1p_of_fraction"]
