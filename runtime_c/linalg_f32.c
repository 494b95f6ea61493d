#define T float
#define PLANES 1
#define NAME(x) xw_##x##_f32
#include "linalg.h"
#include "qr.h"
#include "columns.h"
#include "symmetric.h"
#include "divide.h"
#include "eigh.h"
#include "svd.h"
#include "pivoted_qr.h"
#include "tridiagonal.h"
#include "schur.h"
#include "eig.h"
