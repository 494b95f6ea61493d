#define T double
#define LANES_ARE_TWO 1
#define NAME(x) xw_##x##_f64
#include "fft.h"
