// SHA-256 (FIPS 180-4).
#include "front.h"

static uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void add_block(uint32_t sum[8], const uint8_t *block, const uint32_t *constant) {
  uint32_t w[64], s[8];
  for (int i = 0; i < 64; i++) {
    if (i < 16) w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    else {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7] + (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
  }
  copy(s, sum, sizeof s);
  for (int i = 0; i < 64; i++) {
    uint32_t e = s[4], a = s[0];
    uint32_t t = s[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + constant[i] + w[i];
    uint32_t u = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    for (int k = 7; k; k--) s[k] = s[k - 1];
    s[4] += t;
    s[0] = t + u;
  }
  for (int i = 0; i < 8; i++) sum[i] += s[i];
}

void sha256(const uint8_t *from, uint32_t bytes, uint8_t digest[32]) {
  // The fractions of the square and cube roots of the first primes.
  uint32_t constant[64], sum[8];
  for (uint32_t p = 2, n = 0; n < 64; p++) {
    int prime = 1;
    for (uint32_t q = 2; q * q <= p; q++) prime &= p % q != 0;
    if (!prime) continue;
    double cube = 1.5, square = __builtin_sqrt(p);
    for (int i = 0; i < 100; i++) cube -= (cube * cube * cube - p) / (3 * cube * cube);
    constant[n] = (uint32_t)(int64_t)((cube - __builtin_floor(cube)) * 0x1p32);
    if (n < 8) sum[n] = (uint32_t)(int64_t)((square - __builtin_floor(square)) * 0x1p32);
    n++;
  }
  uint8_t tail[128] = {0};
  uint32_t rest = bytes % 64, size = rest < 56 ? 64 : 128;
  for (uint32_t i = 0; i + 64 <= bytes; i += 64) add_block(sum, from + i, constant);
  copy(tail, from + bytes - rest, rest);
  tail[rest] = 0x80;
  for (int i = 0; i < 8; i++) tail[size - 1 - i] = (uint8_t)((uint64_t)bytes * 8 >> 8 * i);
  for (uint32_t i = 0; i < size; i += 64) add_block(sum, tail + i, constant);
  for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(sum[i / 4] >> (24 - 8 * (i % 4)));
}
