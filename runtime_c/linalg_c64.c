#define T float
#define PLANES 2
#define NAME(x) xw_##x##_c64
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
