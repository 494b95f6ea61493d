// Archives of arrays (npz): entries are read one after the other as they come, stored or deflated, and written stored.
#include "front.h"

uint32_t crc32(uint32_t sum, const uint8_t *from, uint32_t count) {
  static uint32_t table[16]; // of half bytes
  for (uint32_t i = 1; !table[15]; i++) {
    uint32_t x = i;
    for (int k = 0; k < 4; k++) x = x & 1 ? x >> 1 ^ 0xedb88320 : x >> 1;
    table[i] = x;
  }
  sum = ~sum;
  while (count--) {
    sum ^= *from++;
    sum = sum >> 4 ^ table[sum & 15];
    sum = sum >> 4 ^ table[sum & 15];
  }
  return ~sum;
}

// ---- inflate (RFC 1951)

enum { WINDOW = 32768, LONGEST = 15, LITERALS = 288, DISTANCES = 30 };
enum stage { HEADER, STORED, CODES, DONE };

typedef struct {
  uint16_t count[LONGEST + 1], symbol[LITERALS]; // how many codes there are of each length; the symbols, ordered by their codes
} codes;

static struct {
  reader *from;
  uint32_t bits, had; // bits that were read and not used
  enum stage stage;
  int last;                        // this block is the last
  uint32_t left, distance, copied; // bytes that are still to be stored or copied
  uint32_t at;
  codes literals, distances;
  uint8_t window[WINDOW];
} z;

static uint32_t bits(uint32_t count) {
  while (z.had < count) {
    int c = next(z.from);
    if (c < 0) fail(DAMAGED, "the archive ends too early", 0), c = 0;
    z.bits |= (uint32_t)c << z.had;
    z.had += 8;
  }
  uint32_t x = z.bits & ((1u << count) - 1);
  z.bits >>= count, z.had -= count;
  return x;
}

static uint32_t damaged(uint32_t number) {
  fail(DAMAGED, "the archive is damaged", 0);
  return number;
}

static void wrong(void) { z.stage = (enum stage)damaged(DONE); }

static void make_codes(codes *c, const uint8_t *lengths, uint32_t count) {
  uint16_t first[LONGEST + 2];
  __builtin_memset(c->count, 0, sizeof c->count);
  for (uint32_t i = 0; i < count; i++) c->count[lengths[i]]++;
  c->count[0] = 0;
  first[1] = 0;
  int left = 1;
  for (uint32_t n = 1; n <= LONGEST; n++) {
    left = 2 * left - c->count[n];
    if (left < 0) wrong();
    first[n + 1] = first[n] + c->count[n];
  }
  for (uint32_t i = 0; i < count; i++)
    if (lengths[i]) c->symbol[first[lengths[i]]++] = (uint16_t)i;
}

static uint32_t symbol(const codes *c) {
  uint32_t code = 0, first = 0, index = 0;
  for (uint32_t n = 1; n <= LONGEST; n++) {
    code |= bits(1);
    uint32_t count = c->count[n];
    if (code < first + count) return c->symbol[index + code - first];
    index += count;
    first = (first + count) << 1;
    code <<= 1;
  }
  wrong();
  return 256;
}

static void read_codes(void) {
  static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  static uint8_t lengths[LITERALS + 32];
  uint32_t literals = bits(5) + 257, distances = bits(5) + 1, count = bits(4) + 4, n = 0;
  __builtin_memset(lengths, 0, sizeof lengths);
  for (uint32_t i = 0; i < count; i++) lengths[order[i]] = (uint8_t)bits(3);
  make_codes(&z.literals, lengths, 19);
  while (n < literals + distances && !failed()) {
    uint32_t s = symbol(&z.literals), repeat = 1;
    uint8_t of = (uint8_t)s;
    if (s >= 16) {
      of = s == 16 && n ? lengths[n - 1] : 0;
      repeat = s == 16 ? 3 + bits(2) : s == 17 ? 3 + bits(3) : 11 + bits(7);
      if ((s == 16 && !n) || n + repeat > literals + distances) return wrong();
    }
    while (repeat--) lengths[n++] = of;
  }
  if (literals > LITERALS - 2 || distances > DISTANCES || !lengths[256]) return wrong();
  make_codes(&z.distances, lengths + literals, distances);
  make_codes(&z.literals, lengths, literals);
}

static void fixed_codes(void) {
  static uint8_t lengths[LITERALS];
  for (uint32_t i = 0; i < LITERALS; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  make_codes(&z.literals, lengths, LITERALS);
  __builtin_memset(lengths, 5, DISTANCES);
  make_codes(&z.distances, lengths, DISTANCES);
}

static void start_block(void) {
  z.last = (int)bits(1);
  uint32_t type = bits(2);
  z.stage = CODES;
  if (type == 0) {
    bits(z.had % 8);
    z.left = bits(16);
    if ((bits(16) ^ z.left) != 0xffff) wrong();
    else z.stage = STORED;
  } else if (type == 1) fixed_codes();
  else if (type == 2) read_codes();
  else wrong();
}

// Lengths and distances: groups of codes of which each has one extra bit more than the one before.
static uint32_t extended(uint32_t code, uint32_t group) {
  if (code < 2 * group) return code;
  uint32_t extra = code / group - 1;
  return ((group + code % group) << extra) + bits(extra);
}

static uint32_t inflate(uint8_t *to, uint32_t room) {
  uint32_t n = 0;
  while (n < room && !failed()) {
    uint8_t made;
    if (z.copied) {
      z.copied--;
      made = z.window[(z.at - z.distance) % WINDOW];
    } else if (z.stage == STORED && z.left) {
      z.left--;
      made = (uint8_t)bits(8);
    } else if (z.stage == CODES) {
      uint32_t s = symbol(&z.literals);
      if (s == 256) {
        z.stage = z.last ? DONE : HEADER;
        continue;
      }
      if (s > 256) {
        z.copied = s == 285 ? 258 : 3 + extended(s - 257, 4);
        z.distance = 1 + extended(symbol(&z.distances), 2);
        if (s > 285 || z.distance > z.at) wrong();
        continue;
      }
      made = (uint8_t)s;
    } else if (z.stage == DONE || (z.stage == STORED && z.last)) {
      z.stage = DONE;
      break;
    } else {
      start_block();
      continue;
    }
    z.window[z.at++ % WINDOW] = made;
    to[n++] = made;
  }
  return n;
}

// ---- the archive

typedef struct {
  reader in, *archive;
  uint64_t left; // bytes of a stored entry that are still to come
  uint32_t sum;
  int deflated;
} entry;

uint32_t pull_entry(reader *in, uint8_t *to, uint32_t room) {
  entry *e = (entry *)in;
  uint32_t got;
  if (e->deflated) got = inflate(to, room);
  else {
    if (room > e->left) room = (uint32_t)e->left;
    got = take(e->archive, to, room);
    e->left -= got;
  }
  e->sum = crc32(e->sum, to, got);
  return got;
}

uint32_t read_zip(reader *archive, const transfer *item) {
  static uint8_t buffer[512], head[30], name[260];
  static entry e;
  uint32_t number = 0;
  for (; !failed(); number++) {
    if (take(archive, head, 4) < 4 || head[0] != 'P' || head[1] != 'K') return damaged(number);
    if (head[2] != 3) break; // its directory: all entries have come
    uint32_t had = take(archive, head + 4, 26), flags = head[6], method = head[8], bytes = (uint32_t)little(head + 26, 2);
    uint32_t extra = (uint32_t)little(head + 28, 2);
    uint64_t size = little(head + 18, 4);
    if (had < 26 || bytes > 255 || take(archive, name, bytes) < bytes) return damaged(number);
    name[bytes] = 0;
    if (bytes > 4 && same((char *)name + bytes - 4, ".npy")) name[bytes - 4] = 0;
    for (uint8_t field[20]; extra >= 4; ) {
      uint32_t id, n;
      take(archive, field, 4);
      id = (uint32_t)little(field, 2), n = (uint32_t)little(field + 2, 2);
      extra -= 4;
      if (n > extra) return damaged(number);
      extra -= n;
      if (id == 1 && n >= 16 && size == UINT32_MAX) take(archive, field, 16), size = little(field + 8, 8), n -= 16;
      while (n--) next(archive);
    }
    while (extra--) next(archive);
    if ((method != 0 && method != 8) || flags & 1) fail(UNFIT, "an entry of the archive is encrypted, or compressed by another method than deflate", 0);
    e = (entry){{1, buffer, sizeof buffer, 0, 0}, archive, size, 0, method == 8};
    // Of a stored entry whose size comes behind it no more may be read than the array has.
    if (flags & 8 && !method) e.in.room = 1, e.left = UINT64_MAX;
    z.from = archive, z.bits = z.had = z.copied = z.at = 0, z.stage = HEADER;
    read_entry(&e.in, (char *)name, number, item);
    if (!(flags & 8 && !method))
      while (next(&e.in) >= 0) {} // to its end, where its checksum counts
    uint32_t sum = (uint32_t)little(head + 14, 4);
    if (flags & 8) { // the checksum and the sizes come behind the entry; these have 4 or 8 bytes each
      take(archive, head, 16);
      if (!starts((char *)head, "PK\7\10")) return damaged(number);
      sum = (uint32_t)little(head + 4, 4);
      if (peek(archive) != 'P') take(archive, head, 8);
    }
    if (!failed() && sum != e.sum) fail(DAMAGED, "an entry of the archive is damaged: its checksum is wrong", 0);
  }
  while (next(archive) >= 0) {}
  return number;
}

// ---- writing

static void word(uint32_t value, uint32_t bytes) {
  for (; bytes--; value >>= 8) emit((int)(value & 255));
}

// What the headers of an entry have in common, from the version on.
static void describe(const array *x, uint32_t name) {
  word(20, 2), word(1 << 11, 2), word(0, 2); // names are UTF-8; stored
  word(0x00210000, 4);                       // the first day that the format knows
  word(x->sum, 4), word(npy_bytes(x), 4), word(npy_bytes(x), 4);
  word(name + 4, 2), word(0, 2);
}

uint32_t zip_bytes(const array *list, uint32_t count) {
  uint32_t bytes = 22;
  for (const array *x = list; x < list + count; x++) bytes += 76 + 2 * (length(x->name) + 4) + npy_bytes(x);
  return bytes;
}

void write_zip(array *list, uint32_t count) {
  uint32_t start = 0, size = 0, entries = 0;
  for (array *x = list; x < list + count; x++) {
    flush();
    out.is_summed = 1, out.sum = 0;
    write_npy(x);
    flush();
    out.is_summed = 0;
    x->sum = out.sum;
    uint32_t name = length(x->name);
    say("PK\3\4"), describe(x, name), say(x->name), say(".npy");
    write_npy(x);
    x->start = start;
    start += 30 + name + 4 + npy_bytes(x);
    entries++;
  }
  for (array *x = list; x < list + count; x++) {
    uint32_t name = length(x->name);
    say("PK\1\2"), word(20, 2), describe(x, name), word(0, 2), word(0, 2), word(0, 2), word(0, 4), word(x->start, 4);
    say(x->name), say(".npy");
    size += 46 + name + 4;
  }
  say("PK\5\6"), word(0, 4), word(entries, 2), word(entries, 2), word(size, 4), word(start, 4), word(0, 2);
}
