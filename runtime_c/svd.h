/* Singular values and vectors: bidiagonal form and implicit QR; included after eigh.h with the same T, PLANES, NAME. */
#pragma once

/* --- bidiagonal form ------------------------------------------------------------------------------------------ */

/* c -= v f + x g; the sum of conj(next) c afterwards. */
static scalar update_and_overlap(T *c, const T *v, const T *x, scalar f, scalar g, const T *next, int n, int im) {
  vec sum = {0}, other = {0};
  for (int i = 0; i < n; i += LANES) {
    vec p = load(v + i), q = load(x + i), t = load(c + i), w = load(next + i);
    if (PLANES == 1) {
      t -= p * f.re + q * g.re;
    } else {
      vec r = load(v + im + i), s = load(x + im + i), o = load(c + im + i), y = load(next + im + i);
      t -= p * f.re - r * f.im + q * g.re - s * g.im;
      o -= p * f.im + r * f.re + q * g.im + s * g.re;
      store(c + im + i, o);
      sum += y * o;
      other += w * o - y * t;
    }
    store(c + i, t);
    sum += w * t;
  }
  return (scalar){total(sum), PLANES == 2 ? total(other) : 0};
}

/* y += a x over columns `from` to n and rows `top` to m */
static void add_product(T *y, columns a, int top, int m, int from, int n, const T *x) {
  int j = from, rows = m - top;
  y += top;
  for (; PLANES == 1 && j + 4 <= n; j += 4) {
    const T *c = column_at(a, top, j);
    for (int i = 0; i < rows; i += LANES)
      store(y + i, load(y + i) + ((load(c + i) * x[j] + load(c + a.ld + i) * x[j + 1]) +
                                  (load(c + 2 * a.ld + i) * x[j + 2] + load(c + 3 * a.ld + i) * x[j + 3])));
  }
  for (; j < n; j++) add_multiple(y, column_at(a, top, j), scalar_at(x + j, a.im), rows, a.im);
}

/* A bidiagonal matrix, and the factors of the reflections on the left and on the right that lead to it. */
typedef struct {
  T *d, *e, *left, *right;
} bidiagonal;

/* As LAPACK's gebrd for m >= n: an upper bidiagonal matrix. The vectors of the reflections lie in the columns of a and, for those from
   the right, of `turned`; `work` has five columns as long as those of a. */
static void bidiagonal_form(columns a, columns turned, int m, int n, bidiagonal b, T *work) {
  int im = a.im;
  T *v = work, *x = v + a.ld, *z = x + a.ld, *u = z + a.ld, *next = u + a.ld;
  clear(work, 5 * a.ld);
  for (int k = 0; k < n; k++) { /* a - v z^H - x u^H has its final columns up to k, and rows too */
    trap_if_stopped();
    T *c = column_at(a, k, k);
    scalar f = conjugate(scalar_at(z + k, im)), g = conjugate(scalar_at(u + k, im));
    update_and_overlap(c, v + k, x + k, f, g, next + k, m - k, im);
    scalar tau = reflection(c, m - k, im);
    put(b.left + k * PLANES, 1, tau);
    b.d[k] = c[0];
    if (k + 1 == n) return;
    clear(next, a.ld);
    for (int i = k + 1; i < m; i++) put(next + i, im, scalar_at(c + i - k, im));
    put(next + k, im, (scalar){1, 0});
    /* H^H a = a - v (tau a^H v)^H, where v is `next` */
    T *row = column_at(turned, k + 1, k);
    clear(column_at(turned, 0, k), turned.ld);
    for (int j = k + 1; j < n; j++) {
      T *q = column_at(a, k, j);
      f = conjugate(scalar_at(z + j, im)), g = conjugate(scalar_at(u + j, im));
      scalar t = times(tau, conjugate(update_and_overlap(q, v + k, x + k, f, g, next + k, m - k, im)));
      put(z + j, im, t);
      put(row + j - k - 1, turned.im, (scalar){q[0] - t.re, PLANES == 2 ? -q[im] - t.im : 0});
    }
    scalar other = reflection(row, n - k - 1, turned.im);
    put(b.right + k * PLANES, 1, other);
    b.e[k] = row[0];
    clear(u, a.ld);
    for (int j = k + 2; j < n; j++) put(u + j, im, scalar_at(row + j - k - 1, turned.im));
    put(u + k + 1, im, (scalar){1, 0});
    put(z + k, im, (scalar){0, 0});
    /* x = tau (a - v z^H) u */
    clear(x, a.ld);
    add_product(x, a, k + 1, m, k + 1, n, u);
    scalar overlap = dot(z, u, n, im);
    add_multiple(x + k + 1, next + k + 1, (scalar){-overlap.re, -overlap.im}, m - k - 1, im);
    for (int i = k + 1; i < m; i++) put(x + i, im, times(other, scalar_at(x + i, im)));
    T *swap = v;
    v = next, next = swap;
  }
}

/* --- the singular values of bidiagonal matrices --------------------------------------------------------------- */

/* The rotations of an upper triangular 2x2 matrix (f g; 0 h) to diagonal form: of rows (left) and of columns (right). */
typedef struct {
  rotation left, right;
} rotations;

/* For |f| >= |h|. */
static rotations triangle_rotations(T f, T g, T h) {
  rotations q = {{1, 0, f}, {1, 0, h}};
  T fa = magnitude(f), ha = magnitude(h), ga = magnitude(g);
  if (g == 0) return q;
  if (fa < EPS * ga) { /* g is all there is but for rounding */
    q.left = (rotation){1, h / g, 0}, q.right = (rotation){f / g, 1, 0};
    return q;
  }
  T d = fa - ha, l = d == fa ? 1 : d / fa, m = g / f, t = 2 - l;
  T s = root(t * t + m * m), r = l == 0 ? magnitude(m) : root(l * l + m * m), a = (s + r) / 2;
  if (m * m == 0)
    t = l == 0 ? with_sign(2, f) * with_sign(1, g) : g / with_sign(d, f) + m / t;
  else
    t = (m / (s + t) + m / (r + l)) * (1 + a);
  l = root(t * t + 4);
  q.right = (rotation){2 / l, t / l, 0};
  q.left = (rotation){(q.right.c + q.right.s * m) / a, h / f * q.right.s / a, 0};
  return q;
}

/* A block of two: d becomes its singular values, of any sign, and e 0. */
static void solve_pair(T *d, T *e, T *u, T *v, int ld, int height, int width) {
  T f = d[0], g = e[0], h = d[1];
  rotations q;
  if (magnitude(f) >= magnitude(h)) {
    q = triangle_rotations(f, g, h);
  } else { /* turned round and transposed */
    rotations p = triangle_rotations(h, g, f);
    q.left = (rotation){p.right.s, p.right.c, 0}, q.right = (rotation){p.left.s, p.left.c, 0};
  }
  T a = q.left.c * f, b = q.left.c * g + q.left.s * h, c = q.left.c * h - q.left.s * g, o = -q.left.s * f;
  d[0] = a * q.right.c + b * q.right.s;
  /* The small one from the determinant, which no cancellation spoils. */
  T small = c * q.right.c - o * q.right.s;
  d[1] = d[0] == 0 ? small : with_sign(magnitude(f) >= magnitude(h) ? h / d[0] * f : f / d[0] * h, small);
  d[1] = magnitude(d[1]);
  d[1] = with_sign(d[1], small);
  e[0] = 0;
  if (!u) return;
  rotate_columns(u, ld, height, 1, &q.left.c, &q.left.s);
  rotate_columns(v, ld, width, 1, &q.right.c, &q.right.s);
}

/* The least singular value of (f g; 0 h). */
static T least_of_triangle(T f, T g, T h) {
  f = magnitude(f), g = magnitude(g), h = magnitude(h);
  T low = smallest(f, h), high = largest(f, h);
  if (low == 0) return 0;
  T as = 1 + low / high, at = (high - low) / high;
  if (g < high) {
    T au = (g / high) * (g / high);
    return low * (2 / (root(as * as + au) + root(at * at + au)));
  }
  T au = high / g;
  if (au == 0) return low * high / g;
  return 2 * (low * (1 / (root(1 + as * au * (as * au)) + root(1 + at * au * (at * au))))) * au;
}

/* What a block of a bidiagonal matrix is chased in: along `step`, with the roles of u and v changed where it is turned round. */
typedef struct {
  T *d, *e, *u, *v;
  int step, ld, last;
  int height, width; /* rows of u and of v */
} block;

/* A sweep with shift 0, after which small singular values have all their digits, or with another. */
static void qr_sweep(block b, T shift, T *work) {
  T *d = b.d, *e = b.e;
  int step = b.step, last = b.last;
  T *cr = work, *sr = cr + last, *cl = sr + last, *sl = cl + last;
  rotation right = {1, 0, 0}, left = {1, 0, 0};
  T f = (magnitude(d[0]) - shift) * (with_sign(1, d[0]) + shift / d[0]), g = e[0];
  for (int i = 0; i < last; i++) {
    T *di = d + i * step, *dn = di + step, *ei = e + i * step;
    if (shift == 0) {
      right = rotation_of(*di * right.c, *ei);
      if (i > 0) ei[-step] = left.s * right.r;
      left = rotation_of(left.c * right.r, *dn * right.s);
      *di = left.r;
    } else {
      right = rotation_of(f, g);
      if (i > 0) ei[-step] = right.r;
      f = right.c * *di + right.s * *ei;
      *ei = right.c * *ei - right.s * *di;
      g = right.s * *dn, *dn *= right.c;
      left = rotation_of(f, g);
      *di = left.r;
      f = left.c * *ei + left.s * *dn;
      *dn = left.c * *dn - left.s * *ei;
      if (i < last - 1) g = left.s * ei[step], ei[step] *= left.c;
    }
    cr[i] = right.c, sr[i] = right.s, cl[i] = left.c, sl[i] = left.s;
  }
  if (shift == 0) {
    T h = d[last * step] * right.c;
    d[last * step] = h * left.c, f = h * left.s;
  }
  e[(last - 1) * step] = f;
  if (!b.u) return;
  rotate_columns(b.v, b.ld, b.width, last, cr, sr);
  rotate_columns(b.u, b.ld, b.height, last, cl, sl);
}

/* Sets to 0 what does not change singular values by more than rounding; whether there was any. A lower bound of them all is `least`. */
static int split_block(block b, T tolerance, T *least) {
  T *d = b.d, *e = b.e, *end = e + (b.last - 1) * b.step, mu = magnitude(d[0]);
  *least = mu;
  if (magnitude(*end) <= tolerance * magnitude(d[b.last * b.step])) {
    *end = 0;
    return 1;
  }
  for (int i = 0; i < b.last; i++) {
    T *at = e + i * b.step;
    if (magnitude(*at) <= tolerance * mu) {
      *at = 0;
      return 1;
    }
    mu = magnitude(d[(i + 1) * b.step]) * (mu / (mu + magnitude(*at)));
    *least = smallest(*least, mu);
  }
  return 0;
}

/* The singular values of an upper bidiagonal matrix in d, of any sign and order; u and v (of height and width rows), unless null, are
   multiplied by the vectors. The number of elements of e that did not become 0 is returned. */
static int bidiagonal_qr(T *d, T *e, int n, T *u, T *v, int ld, int height, int width, T *work) {
  T tolerance = 50 * EPS, threshold = 36 * TINY;
  long long sweeps = 6ll * n * n + 30;
  int end = n - 1, before = -1, end_before = -1, down = 1;
  while (end > 0) {
    trap_if_stopped();
    if (magnitude(e[end - 1]) <= threshold) {
      e[--end] = 0;
      continue;
    }
    int first = end - 1;
    for (; first > 0 && magnitude(e[first - 1]) > threshold; first--) {}
    if (first > 0) e[first - 1] = 0;
    if (end - first == 1) {
      solve_pair(d + first, e + first, u ? u + first * ld : u, v ? v + first * ld : v, ld, height, width);
      end--;
      continue;
    }
    if (first > end_before || end < before || before < 0) down = magnitude(d[first]) >= magnitude(d[end]);
    before = first, end_before = end;
    block b = {d + first, e + first, u ? u + first * ld : u, v ? v + first * ld : v, 1, ld, end - first, height, width};
    if (!down) b = (block){d + end, e + end - 1, v ? v + end * ld : v, u ? u + end * ld : u, -1, -ld, end - first, width, height};
    T least, most = largest(greatest(d + first, end - first + 1), greatest(e + first, end - first)); /* of this block */
    if (split_block(b, tolerance, &least)) continue;
    if (sweeps-- == 0) break;
    T *ends = b.d + (b.last - 1) * b.step, shift = least_of_triangle(ends[0], b.e[(b.last - 1) * b.step], ends[b.step]);
    T ratio = shift / magnitude(b.d[0]);
    if (n * tolerance * (least / most) <= largest(EPS, tolerance / 100) || ratio * ratio < EPS) shift = 0;
    qr_sweep(b, shift, work);
    if (magnitude(b.e[(b.last - 1) * b.step]) <= threshold) b.e[(b.last - 1) * b.step] = 0;
  }
  int left = 0;
  for (int i = 0; i < n - 1; i++) left += e[i] != 0;
  return left;
}

/* --- singular values and vectors ------------------------------------------------------------------------------ */

enum { FULL = 64 };

/* Makes d positive by changing signs of columns of v. */
static void make_positive(T *d, int n, T *v, int ld, int rows) {
  for (int i = 0; i < n; i++)
    if (__builtin_signbit(d[i])) {
      d[i] = 0 - d[i];
      for (int r = 0; v && r < rows; r++) v[i * ld + r] = -v[i * ld + r];
    }
}

/* The SVD of a matrix of m >= n in `a`; u has `width` columns, v n. They are left in no order. */
static int svd_of(columns a, columns turned, columns u, columns v, int m, int n, int width, int vectors, T *s, T *work) {
  T *e = work, *left = e + n, *right = left + n * PLANES, *more = right + n * PLANES;
  bidiagonal_form(a, turned, m, n, (bidiagonal){s, e, left, right}, more);
  if (!vectors) {
    int failed = bidiagonal_qr(s, e, n, 0, 0, 0, 0, 0, more);
    make_positive(s, n, 0, 0, 0);
    return failed;
  }
  /* Complex vectors are multiplied at the end, since rotations are real. */
  int real = PLANES == 1;
  if (real) {
    product_of_reflections(a, 0, n, left, u, m, width), product_of_reflections(turned, 1, n - 1, right, v, n, n);
  } else {
    identity(u, m, width), identity(v, n, n);
  }
  int failed = bidiagonal_qr(s, e, n, u.data, v.data, v.ld, real ? m : n, n, more);
  make_positive(s, n, v.data, v.ld, n);
  if (!real) multiply_by_reflections(a, 0, n, left, u, m, width, 0), multiply_by_reflections(turned, 1, n - 1, right, v, n, n, 0);
  return failed;
}

/* As LAPACK's gesdd: s in descending order and, with VECTORS, u (m x k) and the adjoint of v (k x n), where k is the lesser dimension,
   or with FULL u and v are square. */
void NAME(svd)(T *s, T *u, T *vt, int *info, const T *a, T *work, int *order, int batch, int m, int n, int flags) {
  int wide = m < n, high = wide ? n : m, low = wide ? m : n, width = flags & FULL ? high : low, vectors = flags & VECTORS;
  int u_columns = flags & FULL ? m : low, v_rows = flags & FULL ? n : low;
  columns c = columns_in(work, high), turned = columns_in(column_at(c, 0, low), high), left = columns_in(column_at(turned, 0, low), high);
  columns right = columns_in(column_at(left, 0, vectors ? width : 0), high);
  T *d = column_at(right, 0, vectors ? low : 0);
  for (int i = low; i < width; i++) order[i] = i;
  for (; batch-- > 0; a += m * n * PLANES, u += m * u_columns * PLANES, vt += v_rows * n * PLANES, s += low) {
    read_columns(c, a, high, low, wide ? 1 : n, wide ? n : 1, wide ? -1 : 1);
    T size = greatest(c.data, c.ld * low), scale = is_finite(size) ? scale_for(size) : 1;
    *info++ = 0;
    if (!is_finite(size)) {
      T nan = (T)__builtin_nan("");
      fill(s, low, nan), fill(u, m * u_columns * PLANES, nan), fill(vt, v_rows * n * PLANES, nan);
      info[-1] = size != size ? -4 : low; /* what gesdd says of NaN, and where it does not converge */
      continue;
    }
    multiply(c.data, c.ld * low, scale);
    info[-1] = low ? svd_of(c, turned, left, right, high, low, width, vectors, d, d + low) : 0;
    sort_order(order, d, low, -1);
    for (int i = 0; i < low; i++) s[i] = d[order[i]] / scale;
    if (!vectors) {
      clear(u, m * u_columns * PLANES), clear(vt, v_rows * n * PLANES);
      continue;
    }
    columns of_u = wide ? right : left, of_v = wide ? left : right;
    write_columns(u, of_u, m, u_columns, u_columns, 1, 1, order);
    write_columns(vt, of_v, n, v_rows, 1, n, -1, order);
  }
}
