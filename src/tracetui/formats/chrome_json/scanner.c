/* Reads the events of a chunk of a Chrome trace into columns: the fast path of `scanner.py`.

   It accepts only what it can read exactly as the Python reader (`rows.py`) would. Anything else - text that is
   not strict JSON, a field of an unusual type, a key that comes twice, a number with an exponent - makes it
   decline the chunk, and the Python reader decides. A chunk that is declined leaves nothing behind.

   The text is untrusted. No length in it is believed: every read is checked against the end of the text, every
   write against the room that the caller made, and nesting has a limit. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define BLOCKS 1
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define BLOCKS 2
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define NO_TIME INT64_MIN
#define NO_ID (-1)
#define SOURCE_BITS 28 /* see event_builder.py */
#define DEEPEST 64 /* nested values in one event */
#define FLOAT_LIMIT (1LL << 43) /* see times.py */
#define MICROSECONDS 4600000000000000LL /* a whole `ts` below this fits in nanoseconds */

#if !defined(SOURCE)
#define SOURCE 0
#endif
/* The checksum of the file that this was compiled from, so that an older library is not taken for this one. */
EXPORT uint32_t source_checksum(void) { return SOURCE; }

enum { READ, DECLINED, FULL };
enum { SLICE, POINT, WHOLE, COUNTED, LAUNCH };
#define GRAPH_FLOWS (1LL << 40)

/* The columns of some chunks. What comes before `events` is the caller's; the rest is filled in. */
typedef struct {
    int64_t chunk;      /* number of the first chunk */
    int64_t room;       /* rows in each array of rows */
    int64_t new_room;   /* rows in each array of new names and heads */
    int64_t chunk_room; /* rows in `chunks` */
    int32_t next_name;  /* number for the first new name */
    int32_t next_head;
    int32_t *heads;     /* of every event */
    /* slices */
    int32_t *head, *name;
    int64_t *start, *duration, *correlation, *external, *row_source;
    /* points, with `flow_at`: where an id that is a string begins and ends, or -1 */
    int32_t *point_head, *point_name;
    int64_t *point_start, *point_duration, *point_correlation, *point_external, *point_source, *flow;
    uint8_t *encloses;
    int64_t *flow_at;
    /* events to decode whole: source, head, name, start, begin and end in the text, slice or -1; seven each */
    int64_t *whole;
    /* tokens of new names: begin, end; of new heads: begin and end of ph, cat, pid, tid (-1: missing) */
    int64_t *new_names, *new_heads;
    int32_t *new_name_entries, *new_head_entries;
    /* chunks: begin and length in the text, events without a time, where the first of those begins; four each */
    int64_t *chunks;
    int64_t events, slices, points, wholes, names, heads_found, timeless, first_timeless, strings, done;
} Chunks;

/* -- tables of names and heads: open addressing, with a seed against prepared collisions */

typedef struct {
    uint64_t hash, at;
    uint32_t length;
    int32_t number; /* -1: seen only in chunks that were declined */
    uint8_t kind;
} Entry;

typedef struct {
    Entry *entries;
    uint32_t *slots; /* entry + 1, 0 for none */
    uint8_t *bytes;
    uint64_t count, room, mask, used, size;
} Table;

typedef struct {
    Table names, heads;
    uint64_t seed;
} Scanner;

static uint64_t load8(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static uint64_t mix(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    __uint128_t r = (__uint128_t)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
#else
    uint64_t ha = a >> 32, la = (uint32_t)a, hb = b >> 32, lb = (uint32_t)b;
    uint64_t x = ha * lb + ((la * lb) >> 32), y = la * hb + (uint32_t)x;
    return ((y << 32) | (uint32_t)(la * lb)) ^ (ha * hb + (x >> 32) + (y >> 32));
#endif
}

static uint64_t load4(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static inline uint64_t hash_bytes(const uint8_t *p, size_t n, uint64_t seed) {
    uint64_t h = seed ^ n, a, b;
    for (; n > 16; p += 16, n -= 16)
        h = mix(load8(p) ^ 0xa0761d6478bd642fULL ^ h, load8(p + 8) ^ 0xe7037ed1a0b428dbULL);
    if (n >= 8) {
        a = load8(p);
        b = load8(p + n - 8);
    } else if (n >= 4) {
        a = load4(p);
        b = load4(p + n - 4);
    } else {
        a = n ? (uint64_t)p[0] << 16 | (uint64_t)p[n / 2] << 8 | p[n - 1] : 0;
        b = 0;
    }
    return mix(mix(a ^ 0x8ebc6af09c88c6e3ULL ^ h, b ^ 0x589965cc75374cc3ULL ^ seed) ^ 0x1d8e4e27c47d124fULL, seed | 1);
}

static inline int same_bytes(const uint8_t *a, const uint8_t *b, size_t n) {
    for (; n >= 8; a += 8, b += 8, n -= 8)
        if (load8(a) != load8(b)) return 0;
    while (n--)
        if (*a++ != *b++) return 0;
    return 1;
}

static int grow_slots(Table *t, uint64_t slots) {
    uint32_t *made = calloc(slots, sizeof *made);
    if (!made) return 0;
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t at = t->entries[i].hash & (slots - 1);
        while (made[at]) at = (at + 1) & (slots - 1);
        made[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = made;
    t->mask = slots - 1;
    return 1;
}

/* The entry of these bytes, made if there is none; NULL without memory. */
static Entry *find_entry(Table *t, const uint8_t *p, size_t n, uint64_t seed) {
    uint64_t hash = hash_bytes(p, n, seed), at = hash & t->mask;
    for (; t->slots[at]; at = (at + 1) & t->mask) {
        Entry *e = &t->entries[t->slots[at] - 1];
        if (e->hash == hash && e->length == n && same_bytes(t->bytes + e->at, p, n)) return e;
    }
    if (n > UINT32_MAX || t->count >= UINT32_MAX / 4) return NULL;
    if (t->count == t->room) {
        Entry *more = realloc(t->entries, 2 * t->room * sizeof *more);
        if (!more) return NULL;
        t->entries = more;
        t->room *= 2;
    }
    if (t->used + n > t->size) {
        uint64_t size = 2 * t->size > t->used + n ? 2 * t->size : 2 * (t->used + n);
        uint8_t *more = realloc(t->bytes, size);
        if (!more) return NULL;
        t->bytes = more;
        t->size = size;
    }
    if (2 * (t->count + 1) > t->mask) {
        if (!grow_slots(t, 2 * (t->mask + 1))) return NULL;
        for (at = hash & t->mask; t->slots[at]; at = (at + 1) & t->mask) {}
    }
    Entry *e = &t->entries[t->count++];
    *e = (Entry){hash, t->used, (uint32_t)n, -1, COUNTED};
    memcpy(t->bytes + t->used, p, n);
    t->used += n;
    t->slots[at] = (uint32_t)t->count;
    return e;
}

static int make_table(Table *t) {
    t->room = 256;
    t->size = 1 << 14;
    t->entries = malloc(t->room * sizeof *t->entries);
    t->bytes = malloc(t->size);
    return t->entries && t->bytes && grow_slots(t, 1024);
}

static void drop_table(Table *t) {
    free(t->entries);
    free(t->slots);
    free(t->bytes);
}

EXPORT void scanner_free(Scanner *s) {
    if (!s) return;
    drop_table(&s->names);
    drop_table(&s->heads);
    free(s);
}

EXPORT Scanner *scanner_new(uint64_t seed) {
    Scanner *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->seed = seed;
    if (!make_table(&s->names) || !make_table(&s->heads)) {
        scanner_free(s);
        return NULL;
    }
    return s;
}

/* Number the entries that `scanner_scan` gave as new. */
EXPORT void scanner_number(Scanner *s, int heads, const int32_t *entries, const int32_t *numbers, int64_t count) {
    Table *t = heads ? &s->heads : &s->names;
    for (int64_t i = 0; i < count; i++)
        if (entries[i] >= 0 && (uint64_t)entries[i] < t->count) t->entries[entries[i]].number = numbers[i];
}

/* -- JSON. Each function gets the first byte of what it reads and returns the first byte after it, or NULL. */

typedef const uint8_t *At;

static inline At blank(At p, At end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    return p;
}

/* The first byte from p on that ends a stretch of plain text: a quote, a backslash, a control character. */
static At plain(At p, At end) {
#if BLOCKS == 1
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), low = _mm_set1_epi8(0x1f);
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i m = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)),
                                 _mm_cmpeq_epi8(_mm_min_epu8(v, low), v));
        unsigned bits = (unsigned)_mm_movemask_epi8(m);
        if (bits) {
#if defined(_MSC_VER)
            while (!(bits & 1)) bits >>= 1, p++;
            return p;
#else
            return p + __builtin_ctz(bits);
#endif
        }
    }
#elif BLOCKS == 2
    for (; end - p >= 16; p += 16) {
        uint8x16_t v = vld1q_u8(p);
        uint8x16_t m = vorrq_u8(vorrq_u8(vceqq_u8(v, vdupq_n_u8('"')), vceqq_u8(v, vdupq_n_u8('\\'))),
                                vcltq_u8(v, vdupq_n_u8(0x20)));
        uint64_t bits = vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(m), 4)), 0);
        if (bits) return p + (__builtin_ctzll(bits) >> 2);
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20) p++;
    return p;
}

/* The rest of a string. `escaped` becomes 1 if there is a backslash in it. */
static At string_rest(At p, At end, int *escaped) {
    for (;;) {
        p = plain(p, end);
        if (p >= end || *p < 0x20) return NULL;
        if (*p == '"') return p + 1;
        *escaped = 1;
        if (end - p < 2) return NULL;
        switch (p[1]) {
        case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
            p += 2;
            break;
        case 'u':
            if (end - p < 6) return NULL;
            for (int i = 2; i < 6; i++) {
                uint8_t c = p[i];
                if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'))) return NULL;
            }
            /* Surrogates come in pairs, or not: the Python reader knows. */
            if ((p[2] | 32) == 'd' && p[3] >= '8') return NULL;
            p += 6;
            break;
        default:
            return NULL;
        }
    }
}

/* A string, from its quote; most are short and plain. */
static inline At string(At p, At end, int *escaped) {
    p++;
#if BLOCKS == 1 && !defined(_MSC_VER)
    if (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i m = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                                              _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))),
                                 _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v));
        unsigned bits = (unsigned)_mm_movemask_epi8(m);
        if (!bits) return string_rest(p + 16, end, escaped);
        p += __builtin_ctz(bits);
        if (*p == '"') return p + 1;
    }
#endif
    return string_rest(p, end, escaped);
}

static inline int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

/* Digits without a leading zero, after an optional minus. */
static At whole_number(At p, At end) {
    if (p < end && *p == '-') p++;
    if (p >= end || !is_digit(*p)) return NULL;
    if (*p == '0') return p + 1;
    while (p < end && is_digit(*p)) p++;
    return p;
}

static At number(At p, At end) {
    p = whole_number(p, end);
    if (!p) return NULL;
    if (p < end && *p == '.') {
        At first = ++p;
        while (p < end && is_digit(*p)) p++;
        if (p == first) return NULL;
    }
    if (p < end && (*p | 32) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        At first = p;
        while (p < end && is_digit(*p)) p++;
        if (p == first || p - first > 2) return NULL;
    }
    return p;
}

static At literal(At p, At end, const char *word, ptrdiff_t length) {
    return end - p >= length && !memcmp(p, word, (size_t)length) ? p + length : NULL;
}

static At scalar(At p, At end) {
    int escaped;
    if (p >= end) return NULL;
    switch (*p) {
    case '"': return string(p, end, &escaped);
    case 't': return literal(p, end, "true", 4);
    case 'f': return literal(p, end, "false", 5);
    case 'n': return literal(p, end, "null", 4);
    default: return number(p, end);
    }
}

/* Any value. */
static At value(At p, At end) {
    if (p < end && *p != '{' && *p != '[') return scalar(p, end);
    uint8_t open[DEEPEST];
    int depth = 0, escaped;
    for (;;) { /* at a value */
        if (p >= end) return NULL;
        if (*p == '{' || *p == '[') {
            uint8_t close = *p == '{' ? '}' : ']';
            p = blank(p + 1, end);
            if (p >= end) return NULL;
            if (*p == close) {
                p++;
            } else {
                if (depth == DEEPEST) return NULL;
                open[depth++] = close;
                if (close == '}') goto key;
                continue;
            }
        } else {
            p = scalar(p, end);
            if (!p) return NULL;
        }
        for (;;) { /* after a value */
            if (!depth) return p;
            p = blank(p, end);
            if (p >= end) return NULL;
            if (*p == open[depth - 1]) {
                depth--;
                p++;
                continue;
            }
            if (*p != ',') return NULL;
            p = blank(p + 1, end);
            break;
        }
        if (open[depth - 1] != '}') continue;
    key:
        if (p >= end || *p != '"') return NULL;
        p = string(p, end, &escaped);
        if (!p) return NULL;
        p = blank(p, end);
        if (p >= end || *p != ':') return NULL;
        p = blank(p + 1, end);
    }
}

/* -- the fields of an event */

/* A whole number of at most 18 digits. */
static At id_number(At p, At end, int64_t *out) {
    At first = p, q = whole_number(p, end);
    if (!q || q - first > 18 || (q < end && (*q == '.' || (*q | 32) == 'e'))) return NULL;
    int64_t v = 0;
    int minus = *p == '-';
    for (p += minus; p < q; p++) v = v * 10 + (*p - '0');
    *out = minus ? -v : v;
    return q;
}

static const double TENS[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Microseconds to nanoseconds, as times.py does it. `limit`: of the whole part. */
static At time_value(At p, At end, int64_t limit, int64_t *out) {
    At first = p;
    int minus = p < end && *p == '-';
    p += minus;
    if (p >= end || !is_digit(*p)) return NULL;
    int64_t whole = 0;
    if (*p == '0') {
        p++;
    } else {
        At begin = p;
        for (; p < end && is_digit(*p); p++) {
            if (p - begin > 16) return NULL;
            whole = whole * 10 + (*p - '0');
        }
    }
    if (whole >= limit) return NULL;
    int64_t nano = whole * 1000;
    if (p < end && *p == '.') {
        At point = ++p;
        int64_t part = 0;
        while (p < end && is_digit(*p)) {
            if (p - point >= 17) return NULL;
            part = part * 10 + (*p++ - '0');
        }
        int places = (int)(p - point);
        if (!places || p - first > 24) return NULL;
        if (places <= 3) {
            static const int64_t scale[] = {1000, 100, 10, 1};
            nano += part * scale[places];
        } else if (whole >= FLOAT_LIMIT) {
            /* The fourth digit rounds. */
            nano += (point[0] - '0') * 100 + (point[1] - '0') * 10 + (point[2] - '0') + (point[3] >= '5');
        } else if (whole < 1LL << 33 && point[3] != '5' && point[3] != '4') {
            /* Far from a half, and a double is fine enough here not to cross it. */
            nano += (point[0] - '0') * 100 + (point[1] - '0') * 10 + (point[2] - '0') + (point[3] > '5');
        } else {
            /* Exact as long as the digits and the power of ten are. */
            double tens = TENS[places];
            if ((double)whole * tens + (double)part >= 9007199254740992.0) return NULL;
            double v = (double)(whole * (int64_t)tens + part) / tens;
            if (minus) v = -v;
            double low = floor(v);
            nano = (int64_t)low * 1000 + (int64_t)rint((v - low) * 1000);
            minus = 0;
        }
    }
    if (p < end && (*p | 32) == 'e') return NULL;
    *out = minus ? -nano : nano;
    return p;
}

typedef struct {
    At from, to;
} Token;

enum { PH = 1, CAT = 2, NAME = 4, PID = 8, TID = 16, TS = 32, DUR = 64, ARGS = 128, ID = 256, BP = 512, EVENTS = 1024 };

typedef struct {
    Token ph, cat, name, pid, tid, id;
    int64_t start, duration, correlation, external, lower, flow;
    int encloses;
} Event;

/* Reads the value at `p` of the member with this key. `seen`: the fields that came before it. */
typedef At Member(At key, size_t n, At p, At end, Event *e, int *seen);

/* An object. */
static inline At members(At p, At end, Event *e, Member *member) {
    int seen = 0;
    if (p >= end || *p != '{') return NULL;
    p = blank(p + 1, end);
    if (p < end && *p == '}') return p + 1;
    for (;;) {
        if (p >= end || *p != '"') return NULL;
        int escaped = 0;
        At key = p + 1;
        p = string(p, end, &escaped);
        if (!p || escaped) return NULL;
        size_t n = (size_t)(p - key - 1);
        p = blank(p, end);
        if (p >= end || *p != ':') return NULL;
        p = member(key, n, blank(p + 1, end), end, e, &seen);
        if (!p) return NULL;
        p = blank(p, end);
        if (p >= end) return NULL;
        if (*p == '}') return p + 1;
        if (*p != ',') return NULL;
        p = blank(p + 1, end);
    }
}

/* One of the ids in args. */
static inline At id_member(At key, size_t n, At p, At end, Event *e, int *seen) {
    enum { EXTERNAL = 1, CORRELATION = 2, LOWER = 4 };
    int64_t *into = NULL;
    int bit = 0;
    if (n == 11) {
        if (!memcmp(key, "External id", 11)) into = &e->external, bit = EXTERNAL;
        else if (!memcmp(key, "correlation", 11)) into = &e->correlation, bit = CORRELATION;
        else if (!memcmp(key, "external id", 11)) into = &e->lower, bit = LOWER;
    }
    if (*seen & bit) return NULL;
    *seen |= bit;
    return into ? id_number(p, end, into) : value(p, end);
}

static int field_of(At key, size_t n) {
    switch (n) {
    case 2:
        if (key[0] == 'p' && key[1] == 'h') return PH;
        if (key[0] == 't' && key[1] == 's') return TS;
        if (key[0] == 'i' && key[1] == 'd') return ID;
        if (key[0] == 'b' && key[1] == 'p') return BP;
        return 0;
    case 3:
        if (!memcmp(key, "cat", 3)) return CAT;
        if (!memcmp(key, "pid", 3)) return PID;
        if (!memcmp(key, "tid", 3)) return TID;
        if (!memcmp(key, "dur", 3)) return DUR;
        return 0;
    case 4:
        if (!memcmp(key, "name", 4)) return NAME;
        if (!memcmp(key, "args", 4)) return ARGS;
        return 0;
    case 11:
        return memcmp(key, "traceEvents", 11) ? 0 : EVENTS;
    default:
        return 0;
    }
}

/* A string without escapes, quotes included. */
static At text_token(At p, At end, Token *t) {
    int escaped = 0;
    if (p >= end || *p != '"') return NULL;
    t->from = p;
    p = string(p, end, &escaped);
    t->to = p;
    return escaped ? NULL : p;
}

/* A whole number or a string. */
static At label_token(At p, At end, Token *t) {
    int64_t ignored;
    int escaped = 0;
    t->from = p;
    p = p < end && *p == '"' ? string(p, end, &escaped) : id_number(p, end, &ignored);
    t->to = p;
    return p;
}

static inline At field_member(At key, size_t n, At p, At end, Event *e, int *seen) {
    int field = field_of(key, n), escaped;
    if (*seen & field) return NULL;
    *seen |= field;
    switch (field) {
    case PH: return text_token(p, end, &e->ph);
    case CAT: return text_token(p, end, &e->cat);
    case NAME:
        if (p >= end || *p != '"') return NULL;
        e->name.from = p;
        return e->name.to = string(p, end, &escaped);
    case EVENTS: return NULL; /* no event, but a trace */
    case PID: return label_token(p, end, &e->pid);
    case TID: return label_token(p, end, &e->tid);
    case TS: return time_value(p, end, MICROSECONDS, &e->start);
    case DUR: return time_value(p, end, FLOAT_LIMIT, &e->duration);
    case ARGS: return members(p, end, e, id_member);
    case ID:
        if (p < end && *p == 'n') return literal(p, end, "null", 4);
        return p < end && *p == '"' ? label_token(p, end, &e->id) : id_number(p, end, &e->flow);
    case BP:
        if (p < end && *p == 'n') return literal(p, end, "null", 4);
        Token bp;
        p = text_token(p, end, &bp);
        e->encloses = p && bp.to - bp.from == 3 && bp.from[1] == 'e';
        return p;
    default: return value(p, end);
    }
}

static int is_text(Token t, const char *word) {
    size_t n = strlen(word);
    return (size_t)(t.to - t.from) == n + 2 && !memcmp(t.from + 1, word, n);
}

/* Whether it is what `is_event` in recover_text.py takes for one. */
static int is_event(const Event *e) {
    return e->ph.from && (e->start != NO_TIME || e->pid.from || e->name.from);
}

/* Whether it is one of Cuspy's copies or memsets, which says in args what it copies or sets. */
static int is_transfer(Token name) {
    return name.to - name.from == 8 && (is_text(name, "Memcpy") || is_text(name, "Memset"));
}

/* What an event becomes: see event_builder.py. */
static uint8_t class_of(const Event *e) {
    if (!e->ph.from || e->ph.to - e->ph.from != 3) return COUNTED;
    switch (e->ph.from[1]) {
    case 'X': return SLICE;
    case 'B': case 'E': case 'i': case 'I': case 'R': return POINT;
    case 's': case 't': case 'f':
        if (!e->cat.from) return POINT;
        return is_text(e->cat, "ac2g") || is_text(e->cat, "async_cpu_to_gpu") || is_text(e->cat, "async_gpu") ||
                       is_text(e->cat, "async") ? LAUNCH : POINT;
    case 'M': case 'C': case 'b': case 'n': case 'e': case 'S': case 'T': case 'F': return WHOLE;
    default: return COUNTED;
    }
}

/* The number of a head; -1 without memory or room. */
static int32_t head_number(Scanner *s, Chunks *out, const Event *e, At text, uint8_t *class) {
    const Token parts[] = {e->ph, e->cat, e->pid, e->tid};
    uint8_t key[512];
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        size_t length = (size_t)(parts[i].to - parts[i].from);
        if (length > 100) return -1;
        key[n++] = (uint8_t)length;
        for (size_t k = 0; k < length; k++) key[n + k] = parts[i].from[k];
        n += length;
    }
    Entry *entry = find_entry(&s->heads, key, n, s->seed);
    if (!entry) return -1;
    if (entry->number < 0) {
        if (out->heads_found >= out->new_room) return -1;
        entry->kind = class_of(e);
        entry->number = out->next_head + (int32_t)out->heads_found;
        for (int i = 0; i < 4; i++) {
            int64_t *at = out->new_heads + 8 * out->heads_found + 2 * i;
            at[0] = parts[i].from ? parts[i].from - text : -1;
            at[1] = parts[i].from ? parts[i].to - text : -1;
        }
        out->new_head_entries[out->heads_found++] = (int32_t)(entry - s->heads.entries);
    }
    *class = entry->kind;
    return entry->number;
}

static int32_t name_number(Scanner *s, Chunks *out, Token name, At text) {
    static const uint8_t none[] = "\"\"";
    Token token = name.from ? name : (Token){none, none + 2};
    Entry *entry = find_entry(&s->names, token.from, (size_t)(token.to - token.from), s->seed);
    if (!entry) return -1;
    if (entry->number < 0) {
        if (out->names >= out->new_room) return -1;
        entry->number = out->next_name + (int32_t)out->names;
        out->new_names[2 * out->names] = name.from ? name.from - text : -1;
        out->new_names[2 * out->names + 1] = name.from ? name.to - text : -1;
        out->new_name_entries[out->names++] = (int32_t)(entry - s->names.entries);
    }
    return entry->number;
}

/* The events of a chunk, from `begin` to `end` in `text`: one, and what commas separate from it. */
static int scan(Scanner *s, At text, int64_t begin, int64_t size, Chunks *out) {
    At p = text + begin, end = p + size;
    int64_t source = (out->chunk + out->done) << SOURCE_BITS;
    for (;; source++) {
        Event e = {.start = NO_TIME, .duration = NO_TIME, .correlation = NO_ID, .external = NO_ID,
                   .lower = NO_ID, .flow = NO_TIME};
        At first = p = blank(p, end);
        p = members(p, end, &e, field_member);
        if (!p || !is_event(&e)) return DECLINED;
        if (out->events >= out->room) return FULL;
        uint8_t class = COUNTED;
        int32_t name = name_number(s, out, e.name, text), head = head_number(s, out, &e, text, &class);
        if (name < 0 || head < 0) return FULL;
        if (class == LAUNCH) class = e.flow >= GRAPH_FLOWS ? POINT : COUNTED;
        int64_t slice = -1;
        out->heads[out->events++] = head;
        uint8_t kept = class;
        if (class <= POINT && e.start == NO_TIME) {
            kept = COUNTED;
            if (!out->timeless++) out->first_timeless = first - text;
        }
        if (e.correlation != NO_ID && e.external == NO_ID) e.external = e.lower;
        if (kept == SLICE) {
            slice = out->slices++;
            out->head[slice] = head;
            out->name[slice] = name;
            out->start[slice] = e.start;
            out->duration[slice] = e.duration;
            out->correlation[slice] = e.correlation;
            out->external[slice] = e.external;
            out->row_source[slice] = source;
        } else if (kept == POINT) {
            int64_t at = out->points++;
            out->point_head[at] = head;
            out->point_name[at] = name;
            out->point_start[at] = e.start;
            out->point_duration[at] = e.duration;
            out->point_correlation[at] = e.correlation;
            out->point_external[at] = e.external;
            out->point_source[at] = source;
            out->flow[at] = e.flow;
            out->flow_at[2 * at] = e.id.from ? e.id.from - text : -1;
            out->flow_at[2 * at + 1] = e.id.from ? e.id.to - text : -1;
            out->strings += e.id.from != NULL;
            out->encloses[at] = e.encloses || e.ph.from[1] != 'f';
        }
        if (class == WHOLE || (kept == SLICE && (e.duration == NO_TIME || is_transfer(e.name)))) {
            int64_t row[] = {source, head, name, e.start, first - text, p - text, slice};
            memcpy(out->whole + 7 * out->wholes++, row, sizeof row);
        }
        p = blank(p, end);
        if (p == end) return READ;
        if (*p++ != ',') return DECLINED;
    }
}

/* One more chunk, or nothing of it. */
static int add_chunk(Scanner *s, At text, int64_t begin, int64_t size, Chunks *out) {
    if (out->done >= out->chunk_room) return FULL;
    out->timeless = 0;
    Chunks before = *out;
    int outcome = scan(s, text, begin, size, out);
    if (outcome == READ) {
        int64_t row[] = {begin, size, out->timeless, out->first_timeless};
        memcpy(out->chunks + 4 * out->done++, row, sizeof row);
        return READ;
    }
    for (int64_t i = before.names; i < out->names; i++) s->names.entries[out->new_name_entries[i]].number = -1;
    for (int64_t i = before.heads_found; i < out->heads_found; i++)
        s->heads.entries[out->new_head_entries[i]].number = -1;
    *out = before;
    return outcome;
}

static void clear(Chunks *out) {
    out->events = out->slices = out->points = out->wholes = out->names = out->heads_found = 0;
    out->first_timeless = out->strings = out->done = 0;
}

static int is_ascii(At p, int64_t size) {
    uint64_t high = 0;
    for (; size >= 8; p += 8, size -= 8) high |= load8(p);
    while (size-- > 0) high |= *p++;
    return !(high & 0x8080808080808080ULL);
}

/* Read `size` bytes of UTF-8 from `begin` on, one chunk of events. Returns READ, DECLINED or FULL. */
EXPORT int scanner_chunk(Scanner *s, const uint8_t *text, int64_t begin, int64_t size, Chunks *out) {
    clear(out);
    return size > 0 ? add_chunk(s, text, begin, size, out) : DECLINED;
}

/* Read as many chunks as there are, each cut at the last separator in `length` bytes, as chunks.py cuts them.
   Returns where the first one begins that is not read, or not whole. */
EXPORT int64_t scanner_chunks(Scanner *s, const uint8_t *text, int64_t size, int64_t length, const uint8_t *separator,
                              int64_t separator_size, int64_t comma, int64_t brace, Chunks *out) {
    int64_t at = 0;
    clear(out);
    while (length <= size - at) {
        int64_t border = length - separator_size;
        const uint8_t *window = text + at;
        while (border >= 0 && !same_bytes(window + border, separator, (size_t)separator_size)) border--;
        if (border + comma <= 0 || !is_ascii(window, border + comma)) break;
        if (add_chunk(s, text, at, border + comma, out) != READ) break;
        at += border + brace;
    }
    return at;
}
