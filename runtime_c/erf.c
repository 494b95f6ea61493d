/* The error function below 1 ulp: an odd polynomial up to 0.5, then one polynomial around each quarter point c:
   erf(c + d) = erf(c) + d p(d), |d| <= 1/4. From 6 on the result rounds to 1. */
#include "dd.h"

typedef struct { double hi, lo, p[13]; } piece;

/* around c = 0.75, 1.25, ... 5.75 */
static const piece pieces[11] = {
    {0x1.6c1c9759d0e5fp-1, 0x1.b1432f2cbc455p-55,
     {
         0x1.492e42d78d2c5p-1, -0x1.edc5644353c70p-2, 0x1.b6e8591f66cd8p-6, 0x1.349b5eaa246c0p-3,
         -0x1.b42a1890b919fp-5, -0x1.b84779a6fd739p-6, 0x1.2e0afaf694688p-6, 0x1.2db3a144f138ap-9,
         -0x1.04104ab76f17bp-8, 0x1.856b1bbf8ae5dp-13, 0x1.47168f7484c6ep-11, -0x1.aadad18088136p-14,
         -0x1.37a4b362800d3p-14}},
    {0x1.d8865d98abe01p-1, -0x1.fcec4afb974d9p-55,
     {
         0x1.e4652fadcb6b2p-3, -0x1.2ebf3dcc9f226p-2, 0x1.571d01c5c56e9p-3, -0x1.93a9a7bbc0aa6p-8,
         -0x1.8281ce0b47dcep-5, 0x1.5d0003b7ae668p-6, 0x1.db43ca096b77bp-9, -0x1.75673403d61f9p-8,
         0x1.cc21d3e8804eap-11, 0x1.a00d45a53c996p-11, -0x1.53967a7be4581p-12, -0x1.bf4173decbd6ep-15,
         0x1.c97f794e40ca9p-15}},
    {0x1.f92d077f8d56dp-1, 0x1.8b55ef493fce7p-56,
     {
         0x1.b055303221015p-5, -0x1.7a4a8a2bdcdd3p-4, 0x1.7148c3d57c2e6p-4, -0x1.8a0da5431407fp-5,
         0x1.b22257dd4dfc7p-8, 0x1.25b378e508bb5p-7, -0x1.8d10fb91e99cap-8, 0x1.7ec17268b2f36p-11,
         0x1.d4cf4cb093f70p-11, -0x1.d02e141887e6ap-12, -0x1.70e0044920e09p-18, 0x1.1c116aa874308p-14,
         -0x1.1e46a60461abdp-16}},
    {0x1.ff404760319b4p-1, 0x1.f142071432025p-56,
     {
         0x1.d4143a9dfe965p-8, -0x1.074b60f8df402p-6, 0x1.63ef61e824452p-6, -0x1.38a9832774c50p-6,
         0x1.5d3b17bbd6f5cp-7, -0x1.7cae0d96cc00cp-9, -0x1.5f83136718827p-11, 0x1.060305fb09786p-10,
         -0x1.8352ef4ad9807p-12, -0x1.82908d8442858p-17, 0x1.11406ceac200ap-14, -0x1.710c82dbaf8a7p-16,
         -0x1.93a3c1ca19a6dp-20}},
    {0x1.fff2cfb0453d9p-1, 0x1.9a913686042a3p-55,
     {
         0x1.3360ccd23db3ap-11, -0x1.a6a519a114a61p-10, 0x1.69cf466ccdf64p-9, -0x1.ab0c273aed2e7p-9,
         0x1.6935960664a32p-9, -0x1.b2755bd2aa4e7p-10, 0x1.52b6263f6f9a2p-11, -0x1.75580524f5bfcp-14,
         -0x1.2abb3d4f3248ap-14, 0x1.cd77c2db7fa15p-15, -0x1.09d06a1b5622fp-16, -0x1.50b769da3023bp-20,
         0x1.68abfc55645e4p-19}},
    {0x1.ffff6f9f67e55p-1, 0x1.e1e4483ba034bp-55,
     {
         0x1.e9b5e8d00ce77p-16, -0x1.8de3cd290a7a3p-14, 0x1.9aa489e3cab4bp-13, -0x1.2c7d5ef054b39p-12,
         0x1.490a4d2328591p-12, -0x1.145464e9cba1ep-12, 0x1.647f72026cc63p-13, -0x1.56747a0d25d6ap-14,
         0x1.b2c34c05390dfp-16, -0x1.3892a3b04f18ap-19, -0x1.80951dfa4bca3p-19, 0x1.ff3263efa2aa3p-20,
         -0x1.1f0b63722a45dp-21}},
    {0x1.fffffc2f171e3p-1, 0x1.85edd0395f475p-55,
     {
         0x1.d9371e2ff7c35p-21, -0x1.bba3ac4cfcfb7p-19, 0x1.0b6a7b0f1bbadp-17, -0x1.d06f585e857dep-17,
         0x1.3436bc9f6e627p-16, -0x1.4357b5d7e7e42p-16, 0x1.110de4c70c2fbp-16, -0x1.756686a6a8107p-17,
         0x1.99f5a07161198p-18, -0x1.5d806dbb2c717p-19, 0x1.a061ca8123576p-21, -0x1.5dd30c011c32ep-24,
         -0x1.028dcf5f19407p-24}},
    {0x1.fffffff01a8b6p-1, 0x1.23370eca5ca6ap-60,
     {
         0x1.155a09065d4f7p-26, -0x1.26afa996b8f13p-24, 0x1.95ea6fdffc06ep-23, -0x1.96ba736b35fe5p-22,
         0x1.3b4680196417fp-21, -0x1.8868e0b4e916fp-21, 0x1.916e925cb2ea2p-21, -0x1.566f3f1128223p-21,
         0x1.eab4d41594380p-22, -0x1.274be4c99f618p-22, 0x1.27dd673536315p-23, -0x1.e56745774b030p-25,
         0x1.24b62fc74d1b4p-26}},
    {0x1.ffffffffd759dp-1, 0x1.f7bee7eb23420p-55,
     {
         0x1.8a61745ec7d1dp-33, -0x1.d453ba2f1ff6ap-31, 0x1.6a8aeba458f49p-29, -0x1.9b017b0bc7a00p-28,
         0x1.6b43c95fdcc9dp-27, -0x1.042f206e92a2fp-26, 0x1.35dc7fe384782p-26, -0x1.383706ce68202p-26,
         0x1.0d4da4765374ap-26, -0x1.903898578ab0fp-27, 0x1.01c02581100e1p-27, -0x1.2a38ec47fb562p-28,
         0x1.192c3411a6c61p-29}},
    {0x1.ffffffffffc05p-1, 0x1.07ba96a6b2e1ap-55,
     {
         0x1.5422ef5d8949dp-40, -0x1.be6dda218ac92p-38, 0x1.7f8a0f3d12d46p-36, -0x1.e4cb4cee5f236p-35,
         0x1.e044b46240bc5p-34, -0x1.83ea0b42ec383p-33, 0x1.065949d004fefp-32, -0x1.2ecc2f663755ap-32,
         0x1.2e3b8dae16871p-32, -0x1.06cabef129295p-32, 0x1.937cb24891d5ep-33, -0x1.23e32a984cff9p-33,
         0x1.590e920a43263p-34}},
    {0x1.ffffffffffffcp-1, 0x1.8115fd1b12786p-56,
     {
         0x1.63daf8b4b1e0cp-48, -0x1.ff8ac55320797p-46, 0x1.e2d06d68f5993p-44, -0x1.505d9a85154a2p-42,
         0x1.70b702966d2eap-41, -0x1.4aecbea382668p-40, 0x1.f3c532c710133p-40, -0x1.43d33c050ea0cp-39,
         0x1.6d23266958edfp-39, -0x1.686ec850b3b3cp-39, 0x1.3df868e960778p-39, -0x1.1283fa650b725p-39,
         0x1.7caf3dd307b53p-40}},
};

/* erf(x) / x - 1 in z = x**2 */
static const double near[10] = {
    0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b28p-4, -0x1.b82ce3127f6d1p-6,
    0x1.565bcd0aa3ed8p-8, -0x1.c02db23c5e7d3p-11, 0x1.f9a2a62fe9253p-14, -0x1.f4bb98aab31bep-17,
    0x1.b775c94200bfbp-20, -0x1.39f7b53f1b575p-23};

double xw_erf_f64(double x) {
  double ax = fabs64(x);
  if (is_nan(x)) return x;
  if (ax < 0.5) {
    double z = x * x, p = near[9];
    for (int i = 8; i >= 0; i--) p = p * z + near[i];
    return x + x * p;
  }
  if (ax >= 6) return copysign64(1, x);
  int i = (int)(2 * ax) - 1;
  const piece *q = &pieces[i];
  double d = ax - (0.75 + 0.5 * i), p = q->p[12];
  for (int k = 11; k >= 0; k--) p = p * d + q->p[k];
  return copysign64(q->hi + (q->lo + d * p), x);
}
