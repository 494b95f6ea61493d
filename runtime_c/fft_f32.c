#define T float
#define LANES_ARE_TWO 0
#define NAME(x) xw_##x##_f32
#include "fft.h"
