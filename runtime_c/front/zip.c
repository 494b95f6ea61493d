// Archives of arrays (npz): entries are read one after the other as they come, stored or deflated, and written stored.
#include "front.h"

uint32_t crc32(uint32_t sum, const uint8_t *from, uint32_t count) {
  static const uint32_t table[] = {0,          0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                   0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c}; // of half bytes
  sum = ~sum;
  while (count--) {
    sum ^= *from++;
    for (int half = 0; half < 2; half++) sum = sum >> 4 ^ table[sum & 15];
  }
  return ~sum;
}

// ---- inflate (RFC 1951). Codes that cannot be are not looked for: nothing leaves its array, and the checksum is wrong in the end.

enum { WINDOW = 32768, LONGEST = 15, LITERALS = 288, DISTANCES = 32 };
enum stage { HEADER, STORED, CODES, DONE };

typedef struct {
  uint16_t count[LONGEST + 1], symbol[LITERALS]; // how many codes there are of each length; the symbols, ordered by their codes
} codes;

static struct {
  struct {
    uint32_t bits, had; // bits that were read and not used
    enum stage stage;
    int last;                        // this block is the last
    uint32_t left, distance, copied; // bytes that are still to be stored or copied
    uint32_t at;
  };
  reader *from;
  codes literals, distances;
  uint8_t window[WINDOW];
} z;

static uint32_t damaged(uint32_t number) {
  fail(DAMAGED, "the archive is damaged, or ends too early", 0);
  return number;
}

static uint32_t bits(uint32_t count) {
  while (z.had < count) {
    int c = next(z.from);
    if (c < 0) c = (int)damaged(0);
    z.bits |= (uint32_t)c << z.had;
    z.had += 8;
  }
  uint32_t x = z.bits & ((1u << count) - 1);
  z.bits >>= count, z.had -= count;
  return x;
}

static void wrong(void) { z.stage = (enum stage)damaged(DONE); }

static void make_codes(codes *c, const uint8_t *lengths, uint32_t count) {
  static uint16_t first[LONGEST + 2];
  __builtin_memset(c->count, 0, sizeof c->count);
  for (uint32_t i = 0; i < count; i++) c->count[lengths[i]]++;
  c->count[0] = 0;
  first[1] = 0;
  for (uint32_t n = 1; n <= LONGEST; n++) first[n + 1] = first[n] + c->count[n];
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

// The codes of a block: of type 1 those that all such blocks have, else those that it begins with.
static void read_codes(uint32_t type) {
  static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  static uint8_t lengths[LITERALS + DISTANCES];
  uint32_t literals = LITERALS, distances = DISTANCES, n = 0;
  if (type == 1)
    for (; n < LITERALS + DISTANCES; n++) lengths[n] = n < 144 ? 8 : n < 256 ? 9 : n < 280 ? 7 : n < LITERALS ? 8 : 5;
  else {
    literals = bits(5) + 257, distances = bits(5) + 1;
    __builtin_memset(lengths, 0, sizeof lengths);
    for (uint32_t i = 0, count = bits(4) + 4; i < count; i++) lengths[order[i]] = (uint8_t)bits(3);
    make_codes(&z.literals, lengths, 19);
  }
  while (n < literals + distances) {
    uint32_t s = symbol(&z.literals), repeat = 1;
    uint8_t of = (uint8_t)s;
    if (s >= 16) {
      of = s == 16 && n ? lengths[n - 1] : 0;
      repeat = s == 16 ? 3 + bits(2) : s == 17 ? 3 + bits(3) : 11 + bits(7);
    }
    for (; repeat && n < literals + distances; repeat--) lengths[n++] = of;
  }
  make_codes(&z.distances, lengths + literals, distances);
  make_codes(&z.literals, lengths, literals);
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
  } else if (type == 3) wrong();
  else read_codes(type);
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
        if (z.distance > z.at) wrong();
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

// What stands before an entry, and for each entry in the directory, where the last five have a use. Words are as those of WebAssembly.
typedef struct __attribute__((packed)) {
  uint32_t magic;
  uint16_t made_by, version, flags, method, time, date;
  uint32_t sum, packed, size;
  uint16_t name, extra, comment, disk, internal;
  uint32_t external, start;
} header;
enum { COMMON = 26, MAGIC = 0x04034b50 }; // the bytes from the version on that both have; PK\3\4

typedef struct __attribute__((packed)) {
  uint16_t kind, bytes;
  uint64_t size, packed;
} extra_field;

uint32_t read_zip(reader *archive, const transfer *item) {
  static uint8_t buffer[512], name[260];
  static uint32_t behind[4];
  static header head;
  static entry e;
  uint32_t number = 0;
  for (; !failed(); number++) {
    if (take(archive, &head.magic, 4) < 4 || (uint16_t)head.magic != (uint16_t)MAGIC) return damaged(number);
    if (head.magic != MAGIC) break; // its directory: all entries have come
    if (take(archive, &head.version, COMMON) < COMMON || head.name > 255 || take(archive, name, head.name) < head.name) return damaged(number);
    name[head.name] = 0;
    if (head.name > 4 && same((char *)name + head.name - 4, ".npy")) name[head.name - 4] = 0;
    // Between entries the window is free.
    if (head.extra > WINDOW || take(archive, z.window, head.extra) < head.extra) return damaged(number);
    e.left = head.packed;
    for (const uint8_t *at = z.window; at < z.window + head.extra; at += 4 + ((const extra_field *)at)->bytes)
      if (((const extra_field *)at)->kind == 1 && head.packed == UINT32_MAX) e.left = ((const extra_field *)at)->packed;
    if (head.flags & 1 || head.method & ~8) fail(UNFIT, "an entry of the archive is encrypted, or compressed by another method than deflate", 0);
    e.in.is_entry = 1, e.in.buffer = buffer, e.in.room = sizeof buffer, e.in.at = e.in.end = 0;
    e.archive = z.from = archive, e.sum = 0, e.deflated = head.method;
    __builtin_memset(&z, 0, __builtin_offsetof(__typeof__(z), from));
    // Of a stored entry whose size comes behind it no more may be read than the array has.
    int endless = head.flags & 8 && !head.method;
    if (endless) e.in.room = 1, e.left = UINT64_MAX;
    read_entry(&e.in, (char *)name, number, item);
    if (!endless)
      while (next(&e.in) >= 0) {} // to its end, where its checksum counts
    if (head.flags & 8) { // the checksum and the sizes come behind the entry; these have 4 or 8 bytes each
      take(archive, behind, 16);
      if (behind[0] != 0x08074b50) return damaged(number); // PK\7\10
      head.sum = behind[1];
      if (peek(archive) != 'P') take(archive, behind, 8);
    }
    if (!failed() && head.sum != e.sum) fail(DAMAGED, "an entry of the archive is damaged: its checksum is wrong", 0);
  }
  while (next(archive) >= 0) {}
  return number;
}

// ---- writing

static header made;

static void describe(const array *x) {
  made.magic = 0x02014b50; // PK\1\2
  made.made_by = made.version = 20, made.flags = 1 << 11, made.date = 33; // names are UTF-8; the first day that the format knows
  made.sum = x->sum, made.packed = made.size = npy_bytes(x), made.start = x->start;
  made.name = (uint16_t)(length(x->name) + 4);
}

static uint32_t say_name(const char *name) {
  say(name), say(".npy");
  return length(name) + 4;
}

uint32_t zip_bytes(const array *list, uint32_t count) {
  uint32_t bytes = 22;
  for (const array *x = list; x < list + count; x++) bytes += 76 + 2 * (length(x->name) + 4) + npy_bytes(x);
  return bytes;
}

void write_zip(array *list, uint32_t count) {
  static struct __attribute__((packed)) {
    uint32_t magic;
    uint16_t disk, disks, here, entries;
    uint32_t size, start;
    uint16_t comment;
  } end;
  end.size = end.start = 0;
  for (uint32_t i = 0; i < count; i++) {
    array *x = list + i;
    flush();
    out.is_summed = 1, out.sum = 0;
    write_npy(x);
    flush();
    out.is_summed = 0;
    x->sum = out.sum;
    x->start = end.start;
    describe(x), say("PK\3\4"), emit_bytes(&made.version, COMMON);
    end.start += 4 + COMMON + say_name(x->name) + npy_bytes(x);
    write_npy(x);
  }
  for (uint32_t i = 0; i < count; i++) {
    describe(list + i), emit_bytes(&made, sizeof made);
    end.size += sizeof made + say_name(list[i].name);
  }
  end.magic = 0x06054b50, end.here = end.entries = (uint16_t)count; // PK\5\6
  emit_bytes(&end, 22);
}
