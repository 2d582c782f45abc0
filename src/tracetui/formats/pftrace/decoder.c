/* Decodes the packets of a Perfetto trace into columns: the fast path of `packets.py`, which does the same in
   Python and says what each part is for.

   The text is untrusted. No length in it is believed: every read is checked against the end of the message that
   it is in, every write against the room that the caller made, and nothing here descends by itself: the messages
   that are looked into lie at most five deep. A packet that is malformed leaves nothing behind but its count. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#if !defined(SOURCE)
#define SOURCE 0
#endif
/* The checksum of the file that this was compiled from, so that an older library is not taken for this one. */
EXPORT uint32_t source_checksum(void) { return SOURCE; }

#define NO_TIME INT64_MIN
#define NO_ID (-1)
#define NO_REF (-1)
#define TIME_LIMIT ((1ULL << 62) - 1)
#define LONGEST (1ULL << 26) /* see schema.py for this and what follows */
#define MOST 256
#define LONGEST_WORD 20
#define MOST_SKIPPED 64
#define OTHER_FIELD 1024
#define OTHER_EVENT 1025
#define OTHER_NUMBERS 1026
#define KEY 6
#define SPECIALS 16 /* special fields of one packet at most */

enum { NAMED, INTERNED_NAME, BOTH, STAGE_NAME, OF_STAGE, SYNC, TRANSFER };
enum { UUID, STREAM, QUEUE, DEFAULT };
enum { OF_TRACK, OF_GPU };
enum { BEGIN = 1, END, INSTANT, COUNTER };
enum { END_OF_TEXT, ROOM, LOST, LONG, NO_MEMORY };
enum { BROKEN, TIMELESS, WRONG, DROPPED, KINDS };
enum { STRINGS, REFS, TRACKS, HEADS, SERIES, CLOCKS, EPOCHS, TABLES };
enum { NOTHING, CORRELATION, EXTERNAL, SYNC_KIND, GROUP, DEVICE, STREAM_ID, MEMORY, COPY, FROM, TO };
#define WORDS 4 /* MEMORY and those after it: what a copy or a memset is named by */
#define MOST_GROUPS 64

/* -- columns: what comes before `slices` is the caller's, the rest is filled in */

typedef struct {
    int64_t room;
    int32_t *head, *name;
    int64_t *start, *duration, *correlation, *external, *source;
    int32_t *end_head, *end_row;
    int64_t *end_start;
    int64_t *filled_end, *filled_place;
    int32_t *point_head, *point_name;
    int64_t *point_start, *point_duration, *point_correlation, *point_external, *point_source, *point_flow;
    uint8_t *point_encloses;
    int32_t *series;
    int64_t *counter_start;
    double *value;
    int64_t *stage_event, *stage_row, *wait_event, *wait_row;
    int64_t *specials;  /* number, epoch, sequence, begin, end; five each */
    int64_t *snapshots; /* number, clock, time; three each */
    int64_t slices, ends, filled, points, counters, stages, waits, specials_found, snapshots_found, state;
} Batch;

/* -- tables: open addressing, with a seed against prepared collisions */

typedef struct {
    int64_t *keys; /* KEY numbers each; of strings: where they begin and how long they are */
    uint32_t *slots; /* number + 1, 0 for none */
    uint64_t count, room, mask;
} Table;

typedef struct {
    uint64_t multiplier, last;
    uint8_t incremental;
} Clock;

typedef struct {
    int32_t epoch;
    uint8_t has_track, has_clock;
    uint64_t track;
    uint32_t clock;
} Sequence;

/* What was looked up last: the same is looked up again and again. */
typedef struct {
    int64_t key[KEY];
    int64_t number;
} Recent;

#define RECENT 1024

typedef struct {
    Recent recent[TABLES][RECENT];
    Table tables[TABLES], sequence_ids, annotations;
    uint8_t *bytes; /* of strings */
    uint64_t used, size;
    Clock *clocks;
    uint64_t clock_room;
    Sequence *sequences;
    uint64_t sequence_room;
    int64_t last_sequence, last_id; /* the sequence of the packet before, -1 for none */
    uint8_t *kinds; /* of annotations */
    uint64_t kind_room;
    int64_t snapshots, slices, ends, groups;
    uint64_t changes; /* of what later packets depend on, but for numbers; see decoder_join */
    uint64_t changes_then, placed[TABLES], place_room[TABLES];
    int64_t *places[TABLES]; /* of a copy: the numbers that its numbers have in the other */
    uint64_t seed;
    int failed; /* no memory */
    int64_t skipped[OTHER_NUMBERS + 1], skipped_first[OTHER_NUMBERS + 1];
    int64_t found[KINDS], found_first[KINDS];
} Decoder;

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

static uint64_t hash_key(const int64_t *key, uint64_t seed) {
    uint64_t h = seed;
    for (int i = 0; i < KEY; i += 2)
        h = mix((uint64_t)key[i] ^ 0xa0761d6478bd642fULL ^ h, (uint64_t)key[i + 1] ^ 0xe7037ed1a0b428dbULL);
    return mix(h ^ seed, 0x8ebc6af09c88c6e3ULL);
}

static uint64_t hash_bytes(const uint8_t *p, uint64_t n, uint64_t seed) {
    uint64_t h = seed ^ n, a, b;
    for (; n >= 16; p += 16, n -= 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = mix(a ^ 0xa0761d6478bd642fULL ^ h, b ^ 0xe7037ed1a0b428dbULL);
    }
    uint8_t rest[16] = {0};
    memcpy(rest, p, (size_t)n);
    memcpy(&a, rest, 8);
    memcpy(&b, rest + 8, 8);
    h = mix(a ^ 0xa0761d6478bd642fULL ^ h, b ^ 0xe7037ed1a0b428dbULL);
    return mix(h ^ seed, 0x8ebc6af09c88c6e3ULL);
}

/* `array` with room for `wanted` of these; NULL, with the array as it was, if there is no memory. */
static void *grown(void *array, uint64_t *room, uint64_t wanted, uint64_t each) {
    if (wanted <= *room && array) return array;
    uint64_t more = *room * 2 > wanted ? *room * 2 : wanted + 64;
    if (more > SIZE_MAX / each) return NULL;
    void *larger = realloc(array, (size_t)(more * each));
    if (larger) *room = more;
    return larger;
}

static uint64_t hash_entry(const Decoder *d, const Table *t, uint64_t i) {
    const int64_t *key = t->keys + i * KEY;
    if (t == &d->tables[STRINGS]) return hash_bytes(d->bytes + key[0], (uint64_t)key[1], d->seed);
    return hash_key(key, d->seed);
}

static int make_room(Decoder *d, Table *t) {
    if (t->count + 1 >= UINT32_MAX) return 0;
    int64_t *keys = grown(t->keys, &t->room, t->count + 1, KEY * sizeof(int64_t));
    if (!keys) return 0;
    t->keys = keys;
    if (t->slots && (t->count + 1) * 2 <= t->mask) return 1;
    uint64_t size = t->slots ? (t->mask + 1) * 2 : 256;
    uint32_t *slots = calloc((size_t)size, sizeof(uint32_t));
    if (!slots) return 0;
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t at = hash_entry(d, t, i) & (size - 1);
        while (slots[at]) at = (at + 1) & (size - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->mask = size - 1;
    return 1;
}

/* The number of a key; of a new one the next. `fresh` says which. */
static int64_t number_of(Decoder *d, Table *t, const int64_t *key, int *fresh) {
    *fresh = 0;
    if (!t->slots && !make_room(d, t)) return d->failed = 1, 0;
    uint64_t hash = hash_key(key, d->seed), at = hash & t->mask;
    for (; t->slots[at]; at = (at + 1) & t->mask)
        if (!memcmp(t->keys + (uint64_t)(t->slots[at] - 1) * KEY, key, KEY * sizeof(int64_t)))
            return (int64_t)t->slots[at] - 1;
    if (!make_room(d, t)) return d->failed = 1, 0;
    for (at = hash & t->mask; t->slots[at];) at = (at + 1) & t->mask;
    memcpy(t->keys + t->count * KEY, key, KEY * sizeof(int64_t));
    t->slots[at] = (uint32_t)++t->count;
    *fresh = 1;
    return (int64_t)t->count - 1;
}

static int64_t key_of(Decoder *d, int table, int64_t a, int64_t b, int64_t c, int64_t e, int64_t f, int64_t g) {
    int64_t key[KEY] = {a, b, c, e, f, g};
    int fresh;
    Recent *r = &d->recent[table][((uint64_t)b + 5 * (uint64_t)c + 7 * (uint64_t)e + 11 * (uint64_t)f) % RECENT];
    if (r->number >= 0 && r->key[0] == a && r->key[1] == b && r->key[2] == c && r->key[3] == e && r->key[4] == f &&
        r->key[5] == g)
        return r->number;
    int64_t number = number_of(d, &d->tables[table], key, &fresh);
    memcpy(r->key, key, sizeof key);
    r->number = d->failed ? -1 : number;
    return number;
}

static int64_t string_of(Decoder *d, const uint8_t *p, uint64_t n) {
    Table *t = &d->tables[STRINGS];
    if (!t->slots && !make_room(d, t)) return d->failed = 1, 0;
    uint64_t hash = hash_bytes(p, n, d->seed), at = hash & t->mask;
    for (; t->slots[at]; at = (at + 1) & t->mask) {
        const int64_t *key = t->keys + (uint64_t)(t->slots[at] - 1) * KEY;
        if ((uint64_t)key[1] == n && !memcmp(d->bytes + key[0], p, (size_t)n)) return (int64_t)t->slots[at] - 1;
    }
    uint8_t *bytes = grown(d->bytes, &d->size, d->used + n + 1, 1);
    if (!bytes) return d->failed = 1, 0;
    d->bytes = bytes;
    if (!make_room(d, t)) return d->failed = 1, 0;
    memcpy(d->bytes + d->used, p, (size_t)n);
    int64_t key[KEY] = {(int64_t)d->used, (int64_t)n, 0, 0, 0, 0};
    memcpy(t->keys + t->count * KEY, key, sizeof key);
    d->used += n;
    for (at = hash & t->mask; t->slots[at];) at = (at + 1) & t->mask;
    t->slots[at] = (uint32_t)++t->count;
    return (int64_t)t->count - 1;
}

/* -- the wire format */

typedef struct {
    const uint8_t *at, *end;
} Span;

typedef struct {
    uint64_t value; /* kinds 0, 1, 5 */
    Span span;      /* kind 2 */
    uint32_t number;
    uint64_t kind; /* as wide, both would be compared in one go, each time right after they were written apart */
} Field;

#define NO_FIELD {0, {NULL, NULL}, 0, 0}

static inline int varint(Span *s, uint64_t *value) {
    const uint8_t *p = s->at;
    if (p < s->end && *p < 0x80) {
        *value = *p;
        s->at = p + 1;
        return 1;
    }
    uint64_t v = 0;
    for (int shift = 0; shift < 70 && p < s->end; shift += 7) {
        uint8_t byte = *p++;
        if (shift < 64) v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = v;
            s->at = p;
            return 1;
        }
    }
    return 0;
}

static uint64_t fixed(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* The next field of a message: 1, 0 at its end, -1 if it is malformed. */
static inline int next(Span *s, Field *f) {
    if (s->at >= s->end) return 0;
    uint64_t key, length;
    if (!varint(s, &key)) return -1;
    if (!(key >> 3) || key >> 32) return -1;
    f->number = (uint32_t)(key >> 3);
    f->kind = key & 7;
    f->value = 0;
    uint64_t left;
    switch (f->kind) {
    case 0:
        return varint(s, &f->value) ? 1 : -1;
    case 2:
        if (!varint(s, &length)) return -1;
        left = (uint64_t)(s->end - s->at);
        if (length > left) return -1;
        f->span.at = s->at;
        f->span.end = s->at += length;
        return 1;
    case 1:
    case 5:
        left = f->kind == 1 ? 8 : 4;
        if ((uint64_t)(s->end - s->at) < left) return -1;
        f->value = fixed(s->at, (int)left);
        s->at += left;
        return 1;
    default:
        return -1;
    }
}

static inline int is(Span s, const char *text, size_t n) {
    return (size_t)(s.end - s.at) == n && !memcmp(s.at, text, n);
}

static inline int kind_of(Span name) {
    switch (name.end - name.at) {
    case 8:
        return is(name, "src kind", 8) ? FROM : is(name, "dst kind", 8) ? TO : NOTHING;
    case 9:
        if (is(name, "copy kind", 9)) return COPY;
        return is(name, "device id", 9) ? DEVICE : is(name, "stream id", 9) ? STREAM_ID : NOTHING;
    case 11:
        if (is(name, "correlation", 11)) return CORRELATION;
        if (is(name, "memory kind", 11)) return MEMORY;
        return is(name, "External id", 11) || is(name, "external id", 11) ? EXTERNAL : NOTHING;
    case 14:
        return is(name, "cuda_sync_kind", 14) ? SYNC_KIND : NOTHING;
    case 18:
        return is(name, "Process Group Name", 18) ? GROUP : NOTHING;
    default:
        return NOTHING;
    }
}

static int64_t as32(uint64_t value) { return (int32_t)(uint32_t)value; }

/* -- what is taken of each message */

typedef struct {
    uint64_t type, name_iid, track;
    uint8_t has_name, has_iid, has_track, has_value, sync, group, filled, phase, has_duration, over;
    Span name;
    uint64_t categories[MOST];
    Span texts[MOST];
    int64_t flows[MOST];
    uint8_t last[MOST];
    int category_count, text_count, flow_count;
    int64_t correlation, external, duration;
    double value;
} Event;

typedef struct {
    uint8_t has_event, has_name, has_iid, has_kind, has_legacy_kind, has_queue, has_legacy_queue, has_device,
        has_stream, has_words, described, over;
    int64_t event, duration, kind, legacy_kind, queue, legacy_queue, gpu, device, stream, correlation, external;
    uint64_t name_iid;
    Span name, words[WORDS]; /* without a beginning: none */
    int64_t waits[MOST];
    int wait_count;
} Stage;

typedef struct {
    uint8_t has_descriptor, described, over;
    int64_t gpu, descriptor;
    int64_t ids[MOST];
    double samples[MOST];
    int count;
} Counters;

typedef struct {
    uint32_t clock;
    uint64_t time, multiplier;
    uint8_t incremental;
} Reading;

typedef struct {
    Reading readings[MOST];
    int count;
} Snapshot;

/* What is large stands here once, not on the stack. */
typedef struct {
    Event event;
    Stage stage;
    Counters counters;
    Snapshot snapshot;
} Parts;

static void note(Decoder *d, int kind, int64_t place) {
    if (!d->found[kind]++) d->found_first[kind] = place;
}

static void skip(Decoder *d, uint32_t number, int64_t place) {
    if (!d->skipped[number]++) d->skipped_first[number] = place;
}

static void flow(Event *e, uint64_t id, int last) {
    if (e->flow_count >= MOST) {
        e->over = 1;
        return;
    }
    e->flows[e->flow_count] = (int64_t)id;
    e->last[e->flow_count++] = (uint8_t)last;
}

static int annotation(Decoder *d, Event *e, int64_t epoch, Span s) {
    Field f = NO_FIELD;
    int got, kind = NOTHING, has_number = 0;
    int64_t value = 0;
    while ((got = next(&s, &f)) > 0) {
        if (f.number == 10 && f.kind == 2) {
            kind = kind_of(f.span);
            if (kind == NOTHING || kind >= DEVICE) return 1; /* most are of no matter here, and some are long */
        } else if (f.number == 1 && f.kind == 0) {
            int64_t key[KEY] = {epoch, (int64_t)f.value, 0, 0, 0, 0};
            Table *t = &d->annotations;
            kind = NOTHING;
            for (uint64_t at = hash_key(key, d->seed) & t->mask; t->slots && t->slots[at]; at = (at + 1) & t->mask)
                if (!memcmp(t->keys + (uint64_t)(t->slots[at] - 1) * KEY, key, sizeof key)) {
                    kind = d->kinds[t->slots[at] - 1];
                    break;
                }
            if (kind == NOTHING) return 1;
        } else if ((f.number == 3 || f.number == 4) && f.kind == 0) {
            value = (int64_t)f.value;
            has_number = 1;
        }
    }
    if (got < 0) return 0;
    if (kind == SYNC_KIND) e->sync = 1;
    else if (kind == GROUP) e->group = 1;
    else if (kind == CORRELATION && has_number) e->correlation = value;
    else if (kind == EXTERNAL && has_number) e->external = value;
    return 1;
}

static int legacy(Event *e, Span s) {
    Field f = NO_FIELD;
    int got;
    while ((got = next(&s, &f)) > 0) {
        if (f.kind != 0) continue;
        if (f.number == 1) {
            e->name_iid = f.value;
            e->has_iid = 1;
        } else if (f.number == 2) {
            e->phase = (uint8_t)f.value;
        } else if (f.number == 3) {
            e->duration = (int64_t)f.value;
            e->has_duration = 1;
        }
    }
    return got == 0;
}

static int event_of(Decoder *d, Event *e, int64_t epoch, Span s) {
    Field f = NO_FIELD;
    int got;
    /* All but the large arrays. */
    e->type = e->name_iid = e->track = 0;
    e->has_name = e->has_iid = e->has_track = e->over = e->has_value = e->sync = e->group = e->filled = e->phase = e->has_duration = 0;
    e->category_count = e->text_count = e->flow_count = 0;
    e->correlation = e->external = NO_ID;
    e->duration = 0;
    while ((got = next(&s, &f)) > 0) {
        if (f.kind == 0) {
            switch (f.number) {
            case 9: e->type = f.value; break;
            case 10: e->name_iid = f.value; e->has_iid = 1; break;
            case 11: e->track = f.value; e->has_track = 1; break;
            case 3:
                if (e->category_count < MOST) e->categories[e->category_count++] = f.value;
                else e->over = 1;
                break;
            case 30: e->value = (double)(int64_t)f.value; e->has_value = 1; break;
            case 36: case 42: flow(e, f.value, f.number == 42); break;
            default: break;
            }
        } else if (f.kind == 1) {
            if (f.number == 47 || f.number == 48) flow(e, f.value, f.number == 48);
            else if (f.number == 44) {
                memcpy(&e->value, &f.value, 8);
                e->has_value = 1;
            }
        } else if (f.kind == 2) {
            uint64_t one;
            switch (f.number) {
            case 4:
                e->filled = 1;
                if (!annotation(d, e, epoch, f.span)) return 0;
                break;
            case 23: e->name = f.span; e->has_name = 1; break;
            case 22:
                if (e->text_count < MOST) e->texts[e->text_count++] = f.span;
                else e->over = 1;
                break;
            case 3:
                while (f.span.at < f.span.end) {
                    if (!varint(&f.span, &one)) return 0;
                    if (e->category_count < MOST) e->categories[e->category_count++] = one;
                    else e->over = 1;
                }
                break;
            case 36: case 42:
                while (f.span.at < f.span.end) {
                    if (!varint(&f.span, &one)) return 0;
                    flow(e, one, f.number == 42);
                }
                break;
            case 47: case 48:
                if ((f.span.end - f.span.at) % 8) return 0;
                for (; f.span.at < f.span.end; f.span.at += 8) flow(e, fixed(f.span.at, 8), f.number == 48);
                break;
            case 6:
                if (!legacy(e, f.span)) return 0;
                break;
            default: break;
            }
        }
    }
    return got == 0;
}

/* Whole numbers as they are written: a sign, and 1 to 18 digits. */
static int integer(Span s, int64_t *value) {
    int negative = s.at < s.end && *s.at == '-';
    s.at += negative;
    if (s.end - s.at < 1 || s.end - s.at > 18) return 0;
    int64_t v = 0;
    for (; s.at < s.end; s.at++) {
        if (*s.at < '0' || *s.at > '9') return 0;
        v = v * 10 + (*s.at - '0');
    }
    *value = negative ? -v : v;
    return 1;
}

static int extra(Stage *g, Span s) {
    static const uint8_t none[1];
    Field f = NO_FIELD;
    int got;
    int64_t value;
    Span name = {none, none}, said = {none, none};
    while ((got = next(&s, &f)) > 0) {
        if (f.kind != 2) continue;
        if (f.number == 1) name = f.span;
        else if (f.number == 2) said = f.span;
    }
    if (got < 0) return 0;
    int kind = kind_of(name);
    if (kind >= MEMORY) {
        if (said.end - said.at <= LONGEST_WORD) g->words[kind - MEMORY] = said, g->has_words = 1;
        return 1;
    }
    if (kind == NOTHING || kind == SYNC_KIND || kind == GROUP || !integer(said, &value)) return 1;
    if (kind == CORRELATION) g->correlation = value;
    else if (kind == EXTERNAL) g->external = value;
    else if (kind == DEVICE) g->device = value, g->has_device = 1;
    else g->stream = value, g->has_stream = 1;
    return 1;
}

static void wait_for(Stage *g, uint64_t id) {
    if (g->wait_count < MOST) g->waits[g->wait_count++] = (int64_t)id;
    else g->over = 1;
}

static int stage_of(Stage *g, Span s) {
    Field f = NO_FIELD;
    int got;
    memset(g, 0, offsetof(Stage, waits));
    g->wait_count = 0;
    g->correlation = g->external = NO_ID;
    while ((got = next(&s, &f)) > 0) {
        if (f.kind == 0) {
            switch (f.number) {
            case 1: g->event = (int64_t)f.value; g->has_event = 1; break;
            case 2: g->duration = (int64_t)(f.value < TIME_LIMIT ? f.value : TIME_LIMIT); break;
            case 3: g->legacy_queue = as32(f.value); g->has_legacy_queue = 1; break;
            case 4: g->legacy_kind = as32(f.value); g->has_legacy_kind = 1; break;
            case 11: g->gpu = as32(f.value); break;
            case 13: g->queue = (int64_t)f.value; g->has_queue = 1; break;
            case 14: g->kind = (int64_t)f.value; g->has_kind = 1; break;
            case 18: wait_for(g, f.value); break;
            case 20: g->name_iid = f.value; g->has_iid = 1; break;
            default: break;
            }
        } else if (f.kind == 2) {
            uint64_t one;
            switch (f.number) {
            case 6:
                if (!extra(g, f.span)) return 0;
                break;
            case 7: g->described = 1; break;
            case 17: g->name = f.span; g->has_name = 1; break;
            case 18:
                while (f.span.at < f.span.end) {
                    if (!varint(&f.span, &one)) return 0;
                    wait_for(g, one);
                }
                break;
            default: break;
            }
        }
    }
    return got == 0;
}

static int counters_of(Counters *c, Span s) {
    Field f = NO_FIELD, g = NO_FIELD;
    int got;
    c->has_descriptor = c->described = c->over = 0;
    c->gpu = c->descriptor = 0;
    c->count = 0;
    while ((got = next(&s, &f)) > 0) {
        if (f.kind == 0) {
            if (f.number == 3) c->gpu = as32(f.value);
            else if (f.number == 4) c->descriptor = (int64_t)f.value, c->has_descriptor = 1;
        } else if (f.kind == 2 && f.number == 1) {
            c->described = 1;
        } else if (f.kind == 2 && f.number == 2) {
            int64_t id = 0;
            double sample = 0.0;
            int more;
            while ((more = next(&f.span, &g)) > 0) {
                if (g.number == 1 && g.kind == 0) id = (int64_t)(uint32_t)g.value;
                else if (g.number == 2 && g.kind == 0) sample = (double)(int64_t)g.value;
                else if (g.number == 3 && g.kind == 1) memcpy(&sample, &g.value, 8);
            }
            if (more < 0) return 0;
            if (c->count < MOST) {
                c->ids[c->count] = id;
                c->samples[c->count++] = sample;
            } else {
                c->over = 1;
            }
        }
    }
    return got == 0;
}

static int snapshot_of(Snapshot *n, Span s) {
    Field f = NO_FIELD, g = NO_FIELD;
    int got;
    n->count = 0;
    while ((got = next(&s, &f)) > 0) {
        if (f.number != 1 || f.kind != 2) continue;
        Reading r = {0, 0, 1, 0};
        int more, has_clock = 0, has_time = 0;
        while ((more = next(&f.span, &g)) > 0) {
            if (g.kind != 0) continue;
            if (g.number == 1) r.clock = (uint32_t)g.value, has_clock = 1;
            else if (g.number == 2) r.time = g.value, has_time = 1;
            else if (g.number == 3) r.incremental = g.value != 0;
            else if (g.number == 4) r.multiplier = g.value;
        }
        if (more < 0) return 0;
        if (!has_clock || !has_time || n->count >= MOST) continue;
        r.time = r.time < TIME_LIMIT ? r.time : TIME_LIMIT;
        r.multiplier = r.multiplier < 1 ? 1 : r.multiplier < TIME_LIMIT ? r.multiplier : TIME_LIMIT;
        n->readings[n->count++] = r;
    }
    return got == 0;
}

static int defaults_of(Sequence *q, Span s) {
    Field f = NO_FIELD, g = NO_FIELD;
    int got;
    q->has_track = q->has_clock = 0;
    while ((got = next(&s, &f)) > 0) {
        if (f.number == 58 && f.kind == 0) {
            q->clock = (uint32_t)f.value;
            q->has_clock = 1;
        } else if (f.number == 11 && f.kind == 2) {
            int more;
            while ((more = next(&f.span, &g)) > 0)
                if (g.number == 11 && g.kind == 0) q->track = g.value, q->has_track = 1;
            if (more < 0) return 0;
        }
    }
    return got == 0;
}

/* Remember the names of annotations that matter here. */
static int names_of(Decoder *d, int64_t epoch, Span s) {
    static const uint8_t none[1];
    Field f = NO_FIELD, g = NO_FIELD;
    int got;
    while ((got = next(&s, &f)) > 0) {
        if (f.number != 3 || f.kind != 2) continue;
        uint64_t iid = 0;
        Span name = {none, none};
        int more;
        while ((more = next(&f.span, &g)) > 0) {
            if (g.number == 1 && g.kind == 0) iid = g.value;
            else if (g.number == 2 && g.kind == 2) name = g.span;
        }
        if (more < 0) return 0;
        int kind = kind_of(name), fresh;
        if (kind == NOTHING || kind >= DEVICE) continue;
        int64_t key[KEY] = {epoch, (int64_t)iid, 0, 0, 0, 0};
        int64_t at = number_of(d, &d->annotations, key, &fresh);
        uint8_t *kinds = grown(d->kinds, &d->kind_room, (uint64_t)at + 1, 1);
        if (!kinds) return d->failed = 1, 0;
        d->kinds = kinds;
        kinds[at] = (uint8_t)kind;
        d->changes++;
    }
    return got == 0;
}

/* -- clocks */

static int is_of_sequence(uint32_t clock) { return clock >= 64 && clock < 128; }

static int64_t clock_of(Decoder *d, uint32_t clock, uint32_t sequence) {
    int64_t at = key_of(d, CLOCKS, clock, is_of_sequence(clock) ? sequence : 0, 0, 0, 0, 0);
    uint64_t before = d->clock_room;
    Clock *clocks = grown(d->clocks, &d->clock_room, (uint64_t)at + 1, sizeof(Clock));
    if (!clocks) return d->failed = 1, 0;
    d->clocks = clocks;
    for (uint64_t i = before; i < d->clock_room; i++) clocks[i] = (Clock){1, 0, 0};
    return at;
}

static int64_t times(uint64_t value, uint64_t multiplier) {
    return (int64_t)(value > TIME_LIMIT / multiplier ? TIME_LIMIT : value * multiplier);
}

static int64_t time_of(Decoder *d, int64_t which, uint64_t value) {
    Clock *c = &d->clocks[which];
    if (c->incremental) {
        d->changes++;
        value = value > TIME_LIMIT - c->last ? TIME_LIMIT : c->last + value;
        c->last = value;
    }
    return times(value < TIME_LIMIT ? value : TIME_LIMIT, c->multiplier);
}

/* -- rows */

static int64_t interned(Decoder *d, int64_t epoch, int64_t number, uint64_t iid) {
    return key_of(d, REFS, INTERNED_NAME, epoch, number, (int64_t)iid, 0, 0);
}

static int64_t named(Decoder *d, Span s) {
    return key_of(d, REFS, NAMED, string_of(d, s.at, (uint64_t)(s.end - s.at)), 0, 0, 0, 0);
}

static void add_flows(Decoder *d, Batch *b, const Event *e, int64_t track, int64_t clock, int64_t time, int64_t place) {
    for (int i = 0; i < e->flow_count; i++) {
        int64_t at = b->points++;
        b->point_head[at] = (int32_t)key_of(d, HEADS, e->last[i] ? 'f' : 't', NO_REF, track, clock, 0, 0);
        b->point_name[at] = NO_REF;
        b->point_start[at] = time;
        b->point_duration[at] = NO_TIME;
        b->point_correlation[at] = b->point_external[at] = NO_ID;
        b->point_source[at] = place;
        b->point_flow[at] = e->flows[i];
        b->point_encloses[at] = 1;
    }
}

static int64_t both(Decoder *d, int64_t one, int64_t other) {
    return one == NO_REF ? other : key_of(d, REFS, BOTH, one, other, 0, 0, 0);
}

static void add_end(Decoder *d, Batch *b, int64_t track, int64_t clock, int64_t time) {
    int64_t at = b->ends++;
    b->end_head[at] = (int32_t)key_of(d, HEADS, 'E', NO_REF, track, clock, 0, 0);
    b->end_start[at] = time;
    b->end_row[at] = (int32_t)d->slices;
    d->ends++;
}

static void add_event(Decoder *d, Batch *b, const Event *e, uint32_t sequence, const Sequence *q, int64_t clock,
                      int has_time, int64_t time, int64_t place) {
    uint64_t type = e->type;
    int whole = 0;
    if (!type)
        switch (e->phase) {
        case 'X': whole = 1; type = BEGIN; break;
        case 'B': type = BEGIN; break;
        case 'E': type = END; break;
        case 'i': case 'I': type = INSTANT; break;
        default: break;
        }
    if (type < BEGIN || type > COUNTER) {
        skip(d, OTHER_EVENT, place);
        return;
    }
    if (!has_time) {
        note(d, TIMELESS, place);
        return;
    }
    int64_t track;
    if (e->has_track) track = key_of(d, TRACKS, UUID, (int64_t)e->track, 0, 0, 0, 0);
    else if (q->has_track) track = key_of(d, TRACKS, UUID, (int64_t)q->track, 0, 0, 0, 0);
    else track = key_of(d, TRACKS, DEFAULT, sequence, 0, 0, 0, 0);
    if (type == COUNTER) {
        if (!e->has_value) {
            note(d, WRONG, place);
            return;
        }
        int64_t at = b->counters++;
        b->series[at] = (int32_t)key_of(d, SERIES, OF_TRACK, track, clock, 0, 0, 0);
        b->counter_start[at] = time;
        b->value[at] = e->value;
        return;
    }
    if (type == END) {
        if (e->filled) {
            b->filled_end[b->filled] = d->ends;
            b->filled_place[b->filled++] = place;
        }
        add_end(d, b, track, clock, time);
        add_flows(d, b, e, track, clock, time, place);
        return;
    }
    int64_t name = NO_REF, category = NO_REF;
    if (e->has_name) name = named(d, e->name);
    else if (e->has_iid) name = interned(d, q->epoch, 2, e->name_iid);
    for (int i = 0; i < e->category_count; i++)
        category = both(d, category, interned(d, q->epoch, 1, e->categories[i]));
    for (int i = 0; i < e->text_count; i++) category = both(d, category, named(d, e->texts[i]));
    if (category == NO_REF && e->sync) category = key_of(d, REFS, SYNC, 0, 0, 0, 0, 0);
    int phase = type == INSTANT ? 'i' : 'X';
    int32_t head = (int32_t)key_of(d, HEADS, phase, category, track, clock, 0, 0);
    if (phase == 'i') {
        int64_t at = b->points++;
        b->point_head[at] = head;
        b->point_name[at] = (int32_t)name;
        b->point_start[at] = time;
        b->point_duration[at] = NO_TIME;
        b->point_correlation[at] = e->correlation;
        b->point_external[at] = e->external;
        b->point_source[at] = place;
        b->point_flow[at] = NO_TIME;
        b->point_encloses[at] = 1;
    } else {
        int64_t at = b->slices++, duration = NO_TIME;
        if (whole) duration = times(e->has_duration && e->duration > 0 ? (uint64_t)e->duration : 0, 1000);
        b->head[at] = head;
        b->name[at] = (int32_t)name;
        b->start[at] = time;
        b->duration[at] = duration;
        b->correlation[at] = e->correlation;
        b->external[at] = e->external;
        b->source[at] = place;
        d->slices++;
    }
    add_flows(d, b, e, track, clock, time, place);
}

static void add_stage(Decoder *d, Batch *b, const Stage *g, const Sequence *q, int64_t clock, int has_time,
                      int64_t time, int64_t place) {
    if (!has_time) {
        note(d, TIMELESS, place);
        return;
    }
    int64_t epoch = g->has_kind ? q->epoch : 0, kind = g->has_kind ? g->kind : g->legacy_kind, name, track;
    if (g->has_name) name = named(d, g->name);
    else if (g->has_iid) name = interned(d, q->epoch, 2, g->name_iid);
    else name = key_of(d, REFS, STAGE_NAME, epoch, kind, g->has_kind, 0, 0);
    if (g->has_words) {
        int64_t said[WORDS];
        for (int i = 0; i < WORDS; i++) {
            Span s = g->words[i];
            said[i] = s.at ? string_of(d, s.at, (uint64_t)(s.end - s.at)) : NO_REF;
        }
        name = key_of(d, REFS, TRANSFER, name, said[0], said[1], said[2], said[3]);
    }
    int64_t category = key_of(d, REFS, OF_STAGE, epoch, kind, g->has_kind, 0, 0);
    int64_t gpu = g->has_device ? g->device : g->gpu;
    if (g->has_stream) track = key_of(d, TRACKS, STREAM, gpu, g->stream, 0, 0, 0);
    else if (g->has_queue) track = key_of(d, TRACKS, QUEUE, gpu, q->epoch, g->queue, 1, 0);
    else track = key_of(d, TRACKS, QUEUE, gpu, 0, g->legacy_queue, 0, 0);
    int64_t at = b->slices++;
    b->head[at] = (int32_t)key_of(d, HEADS, 'X', category, track, clock, 0, 0);
    b->name[at] = (int32_t)name;
    b->start[at] = time;
    b->duration[at] = g->duration;
    b->correlation[at] = g->correlation;
    b->external[at] = g->external;
    b->source[at] = place;
    if (g->has_event) {
        b->stage_event[b->stages] = g->event;
        b->stage_row[b->stages++] = d->slices;
    }
    for (int i = 0; i < g->wait_count; i++) {
        b->wait_event[b->waits] = g->waits[i];
        b->wait_row[b->waits++] = d->slices;
    }
    d->slices++;
}

static void add_counters(Decoder *d, Batch *b, const Counters *c, const Sequence *q, int64_t clock, int has_time,
                         int64_t time, int64_t place) {
    if (!has_time) {
        note(d, TIMELESS, place);
        return;
    }
    for (int i = 0; i < c->count; i++) {
        int64_t epoch = c->has_descriptor ? q->epoch : 0, descriptor = c->has_descriptor ? c->descriptor : 0;
        int64_t at = b->counters++;
        b->series[at] = (int32_t)key_of(d, SERIES, OF_GPU, epoch, descriptor, c->gpu, c->ids[i], clock);
        b->counter_start[at] = time;
        b->value[at] = c->samples[i];
    }
}

/* -- packets */

static int is_silent(uint32_t number) {
    static const uint8_t silent[] = {3,  33, 34, 35, 36, 45, 46, 47,  48,  51,  67,  69,  72,
                                     78, 79, 87, 89, 90, 98, 107, 109, 113, 123, 124, 126, 138};
    for (size_t i = 0; i < sizeof silent; i++)
        if (silent[i] == number) return 1;
    return 0;
}

/* The places of the special fields in `spans`, in order. */
static const uint32_t SPECIAL[] = {2, 12, 43, 44, 52, 53, 59, 60, 128};
#define SPECIAL_COUNT 9
enum { TREE, INTERNED, PROCESS, THREAD, GPU_COUNTERS, GPU_STAGE, DEFAULTS, TRACK, GPU_INFO };

static void describe(Batch *b, int64_t number, int64_t epoch, int64_t sequence, int64_t begin, int64_t end) {
    int64_t *row = b->specials + 5 * b->specials_found++;
    row[0] = number;
    row[1] = epoch;
    row[2] = sequence;
    row[3] = begin;
    row[4] = end;
}

/* The same as `packet` for half of all packets: a time, the sequence of the packet before, and an end with nothing
   but its track. 0 for any other, of which nothing is taken. */
static int short_end(Decoder *d, Batch *b, Span s) {
    uint64_t time, sequence, track;
    if (s.end - s.at < 10 || *s.at++ != 0x40 || !varint(&s, &time)) return 0;
    if (s.end - s.at < 8 || *s.at++ != 0x50 || !varint(&s, &sequence)) return 0;
    if (d->last_sequence < 0 || (uint32_t)sequence != d->last_id || d->sequences[d->last_sequence].epoch < 0) return 0;
    if (s.end - s.at < 6 || s.at[0] != 0x5A || s.at[1] != s.end - s.at - 2) return 0;
    if (s.at[2] != 0x48 || s.at[3] != END || s.at[4] != 0x58) return 0;
    s.at += 5;
    if (!varint(&s, &track) || s.at != s.end) return 0;
    const Sequence *q = &d->sequences[d->last_sequence];
    int64_t clock = clock_of(d, q->has_clock ? q->clock : 6, (uint32_t)sequence);
    if (d->failed) return 0;
    int64_t moment = time_of(d, clock, time);
    add_end(d, b, key_of(d, TRACKS, UUID, (int64_t)track, 0, 0, 0, 0), clock, moment);
    return 1;
}

static int packet(Decoder *d, Batch *b, Parts *p, Span s, const uint8_t *text, int64_t offset, int64_t place) {
    Field f = NO_FIELD;
    Span spans[SPECIAL_COUNT] = {{NULL, NULL}}, track_event = {NULL, NULL}, clocks = {NULL, NULL};
    uint32_t skipped[MOST_SKIPPED], clock = 0, sequence = 0;
    int64_t skipped_count = 0;
    uint64_t time = 0, dropped = 0;
    int got, has_time = 0, has_clock = 0, cleared = 0;
    while ((got = next(&s, &f)) > 0) {
        int taken = 1;
        if (f.kind == 2) {
            switch (f.number) {
            case 11: track_event = f.span; break;
            case 6: clocks = f.span; break;
            case 53: spans[GPU_STAGE] = f.span; break;
            case 52: spans[GPU_COUNTERS] = f.span; break;
            case 12: spans[INTERNED] = f.span; break;
            case 60: spans[TRACK] = f.span; break;
            case 2: spans[TREE] = f.span; break;
            case 43: spans[PROCESS] = f.span; break;
            case 44: spans[THREAD] = f.span; break;
            case 59: spans[DEFAULTS] = f.span; break;
            case 128: spans[GPU_INFO] = f.span; break;
            default: taken = is_silent(f.number); break;
            }
        } else if (f.kind == 0) {
            switch (f.number) {
            case 8: time = f.value; has_time = 1; break;
            case 58: clock = (uint32_t)f.value; has_clock = 1; break;
            case 10: sequence = (uint32_t)f.value; break;
            case 13: cleared |= (int)(f.value & 1); break;
            case 41: cleared |= f.value != 0; break;
            case 42: dropped = f.value; break;
            default: taken = is_silent(f.number); break;
            }
        } else {
            taken = 0;
        }
        if (!taken) {
            if (skipped_count < MOST_SKIPPED)
                skipped[skipped_count] = f.number < OTHER_FIELD ? f.number : OTHER_FIELD;
            skipped_count++;
        }
    }
    if (got < 0) return 0;
    /* The sequence, and the epoch that the packet will be in. */
    int64_t id[KEY] = {sequence, 0, 0, 0, 0, 0};
    int fresh;
    uint64_t before = d->sequence_ids.count;
    int64_t which = d->last_sequence;
    if (which < 0 || d->last_id != sequence) {
        which = number_of(d, &d->sequence_ids, id, &fresh);
        if (d->failed) return 0;
        d->last_sequence = which;
        d->last_id = sequence;
    }
    Sequence *sequences = grown(d->sequences, &d->sequence_room, (uint64_t)which + 1, sizeof(Sequence));
    if (!sequences) return d->failed = 1, 0;
    d->sequences = sequences;
    if ((uint64_t)which >= before) sequences[which] = (Sequence){-1, 0, 0, 0, 0};
    Sequence *q = &sequences[which], defaults = {0, 0, 0, 0, 0};
    int known = q->epoch >= 0, begins = !known || cleared;
    int64_t epoch = begins ? (int64_t)d->tables[EPOCHS].count : q->epoch;
    if (spans[INTERNED].at && !names_of(d, epoch, spans[INTERNED])) return 0;
    if (track_event.at && !event_of(d, &p->event, epoch, track_event)) return 0;
    if (spans[GPU_STAGE].at && !stage_of(&p->stage, spans[GPU_STAGE])) return 0;
    if (spans[GPU_COUNTERS].at && !counters_of(&p->counters, spans[GPU_COUNTERS])) return 0;
    if (spans[DEFAULTS].at && !defaults_of(&defaults, spans[DEFAULTS])) return 0;
    if (clocks.at && !snapshot_of(&p->snapshot, clocks)) return 0;
    /* The packet is sound: from here on it is taken. */
    d->changes += begins || spans[DEFAULTS].at || clocks.at;
    for (int64_t i = 0; i < skipped_count; i++) skip(d, i < MOST_SKIPPED ? skipped[i] : OTHER_FIELD, place);
    if ((track_event.at && p->event.over) || (spans[GPU_STAGE].at && p->stage.over) ||
        (spans[GPU_COUNTERS].at && p->counters.over))
        skip(d, OTHER_NUMBERS, place);
    if (known && dropped) note(d, DROPPED, place);
    if (begins) *q = (Sequence){(int32_t)key_of(d, EPOCHS, sequence, place, 0, 0, 0, 0), 0, 0, 0, 0};
    if (spans[DEFAULTS].at) {
        defaults.epoch = q->epoch;
        *q = defaults;
    }
    if (clocks.at) {
        for (int i = 0; i < p->snapshot.count; i++) {
            const Reading *r = &p->snapshot.readings[i];
            int64_t at = clock_of(d, r->clock, sequence);
            if (d->failed) return 0;
            uint64_t multiplier = 1;
            if (is_of_sequence(r->clock)) {
                d->clocks[at] = (Clock){r->multiplier, r->time, r->incremental};
                multiplier = r->multiplier;
            }
            int64_t *row = b->snapshots + 3 * b->snapshots_found++;
            row[0] = d->snapshots;
            row[1] = at;
            row[2] = times(r->time, multiplier);
        }
        d->snapshots++;
    }
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (spans[i].at && (i != GPU_COUNTERS || p->counters.described) && (i != GPU_STAGE || p->stage.described))
            describe(b, SPECIAL[i], q->epoch, sequence, offset + (spans[i].at - text), offset + (spans[i].end - text));
    if (track_event.at && p->event.group && d->groups < MOST_GROUPS) {
        d->groups++;
        d->changes++;
        describe(b, 11, q->epoch, sequence, offset + (track_event.at - text), offset + (track_event.end - text));
    }
    if (!has_clock) clock = q->has_clock ? q->clock : 6;
    int64_t of = -1, moment = 0;
    if (has_time) {
        of = clock_of(d, clock, sequence);
        if (d->failed) return 0;
        moment = time_of(d, of, time);
    }
    if (track_event.at) add_event(d, b, &p->event, sequence, q, of, has_time, moment, place);
    uint64_t tracks = d->tables[TRACKS].count;
    if (spans[GPU_STAGE].at) add_stage(d, b, &p->stage, q, of, has_time, moment, place);
    if (d->tables[TRACKS].count > tracks) {
        d->changes++;
        describe(b, 53, q->epoch, sequence, offset + (spans[GPU_STAGE].at - text), offset + (spans[GPU_STAGE].end - text));
    }
    if (spans[GPU_COUNTERS].at) add_counters(d, b, &p->counters, q, of, has_time, moment, place);
    return 1;
}

/* -- pairs: see pairing.py */

typedef struct {
    const int64_t *start, *end_start;
    const int32_t *end_row;
    const uint32_t *begins, *ends; /* of one track */
    uint64_t begin_count, end_count;
} Side;

/* Whether begin `i` of a track comes before its end `k` in the file. */
static int is_first(const Side *t, uint64_t i, uint64_t k) {
    if (i >= t->begin_count) return 0;
    return k >= t->end_count || t->begins[i] < (uint32_t)t->end_row[t->ends[k]];
}

static int is_forward(const Side *t) {
    if (t->begin_count != t->end_count) return 0;
    for (uint64_t i = 0; i < t->begin_count; i++)
        if (t->end_start[t->ends[i]] < t->start[t->begins[i]]) return 0;
    return 1;
}

static int is_listed(const Side *t) {
    if (!t->begin_count || !is_forward(t)) return 0;
    int back = 0;
    for (uint64_t i = 0, k = 0; i < t->begin_count;) {
        uint64_t first = i, begun = k;
        while (is_first(t, i, k)) i++;
        uint64_t length = i - first;
        if (!length) return 0;
        for (; k < t->end_count && !is_first(t, i, k); k++)
            if (k > begun && t->end_start[t->ends[k]] < t->end_start[t->ends[k - 1]]) back = 1;
        if (k - begun != length) return 0;
    }
    return back;
}

#define IS_END 0x80000000u

static int64_t moment(const Side *t, uint32_t item) {
    return item & IS_END ? t->end_start[t->ends[item & ~IS_END]] : t->start[t->begins[item]];
}

/* Put items in order of time, those of one time as they are: runs that are in order are merged. */
static uint32_t *in_order(const Side *t, uint32_t *items, uint32_t *other, uint64_t count) {
    for (;;) {
        uint64_t at = 0, runs = 0;
        while (at < count) {
            uint64_t a = at, b = at + 1;
            while (b < count && moment(t, items[b]) >= moment(t, items[b - 1])) b++;
            uint64_t c = b < count ? b + 1 : b;
            while (c < count && moment(t, items[c]) >= moment(t, items[c - 1])) c++;
            if (a == 0 && b == count) return items;
            for (uint64_t i = a, k = b, to = a; to < c; to++)
                other[to] = k >= c || (i < b && moment(t, items[i]) <= moment(t, items[k])) ? items[i++] : items[k++];
            at = c;
            runs++;
        }
        uint32_t *swap = items;
        items = other;
        other = swap;
        if (runs <= 1) return items;
    }
}

/* Give begins (of the duration NO_TIME) their durations; `end_row` becomes the slice of each end, -1 for none. How
   many ends have none; -1 if there is no memory. */
EXPORT int64_t decoder_pair(int64_t slices, const int32_t *head, const int64_t *start, int64_t *duration, int64_t ends,
                            const int32_t *end_head, const int64_t *end_start, int32_t *end_row,
                            const int32_t *track_of, int64_t tracks) {
    uint64_t places = (uint64_t)tracks + 1;
    uint64_t *begin_at = calloc(places, 8), *end_at = calloc(places, 8);
    uint32_t *begins = malloc(((uint64_t)slices + 1) * 4), *ended = malloc(((uint64_t)ends + 1) * 4);
    uint32_t *items = NULL, *other = NULL, *stack = NULL;
    int64_t unopened = -1;
    if (!begin_at || !end_at || !begins || !ended) goto done;
    for (int64_t i = 0; i < slices; i++)
        if (duration[i] == NO_TIME) begin_at[track_of[head[i]] + 1]++;
    for (int64_t i = 0; i < ends; i++) end_at[track_of[end_head[i]] + 1]++;
    uint64_t most = 0;
    for (int64_t i = 0; i < tracks; i++) {
        uint64_t both = begin_at[i + 1] + end_at[i + 1];
        most = both > most ? both : most;
        begin_at[i + 1] += begin_at[i];
        end_at[i + 1] += end_at[i];
    }
    if (most >= IS_END) goto done;
    /* Filled from the back, so that each place moves to where its track begins. */
    for (int64_t i = slices - 1; i >= 0; i--)
        if (duration[i] == NO_TIME) begins[--begin_at[track_of[head[i]] + 1]] = (uint32_t)i;
    for (int64_t i = ends - 1; i >= 0; i--) ended[--end_at[track_of[end_head[i]] + 1]] = (uint32_t)i;
    uint64_t begun = 0;
    for (int64_t i = 0; i < slices; i++) begun += duration[i] == NO_TIME;
    int listed = 0;
    Side t = {start, end_start, end_row, NULL, NULL, 0, 0};
#define SIDE(i)                                                                     \
    t.begins = begins + begin_at[(i) + 1], t.ends = ended + end_at[(i) + 1],        \
    t.begin_count = ((i) + 1 < tracks ? begin_at[(i) + 2] : begun) - begin_at[(i) + 1], \
    t.end_count = ((i) + 1 < tracks ? end_at[(i) + 2] : (uint64_t)ends) - end_at[(i) + 1]
    for (int64_t i = 0; i < tracks && !listed; i++) {
        SIDE(i);
        listed = is_listed(&t);
    }
    unopened = 0;
    for (int64_t i = 0; i < tracks; i++) {
        SIDE(i);
        if (listed && is_forward(&t)) {
            for (uint64_t k = 0; k < t.begin_count; k++) {
                duration[t.begins[k]] = end_start[t.ends[k]] - start[t.begins[k]];
                end_row[t.ends[k]] = (int32_t)t.begins[k];
            }
            continue;
        }
        if (!items) {
            items = malloc(most * 4 + 4);
            other = malloc(most * 4 + 4);
            stack = malloc(most * 4 + 4);
            if (!items || !other || !stack) {
                unopened = -1;
                goto done;
            }
        }
        uint64_t count = t.begin_count + t.end_count, b = 0, e = 0, depth = 0;
        for (uint64_t k = 0; k < count; k++)
            items[k] = is_first(&t, b, e) ? (uint32_t)b++ : (uint32_t)e++ | IS_END;
        const uint32_t *sorted = in_order(&t, items, other, count);
        for (uint64_t k = 0; k < count; k++) {
            if (!(sorted[k] & IS_END)) {
                stack[depth++] = t.begins[sorted[k]];
                continue;
            }
            uint32_t end = t.ends[sorted[k] & ~IS_END];
            int32_t slice = depth ? (int32_t)stack[--depth] : -1;
            end_row[end] = slice;
            if (slice < 0) unopened++;
            else duration[slice] = end_start[end] - start[slice];
        }
    }
done:
    free(begin_at);
    free(end_at);
    free(begins);
    free(ended);
    free(items);
    free(other);
    free(stack);
    return unopened;
}

/* -- what is called from Python */

EXPORT Decoder *decoder_new(uint64_t seed) {
    Decoder *d = calloc(1, sizeof(Decoder));
    if (!d) return NULL;
    d->seed = seed;
    d->last_sequence = -1;
    for (int i = 0; i < TABLES; i++)
        for (int k = 0; k < RECENT; k++) d->recent[i][k].number = -1;
    return d;
}

EXPORT void decoder_free(Decoder *d) {
    if (!d) return;
    for (int i = 0; i < TABLES; i++) {
        free(d->tables[i].keys);
        free(d->tables[i].slots);
    }
    free(d->sequence_ids.keys);
    free(d->sequence_ids.slots);
    free(d->annotations.keys);
    free(d->annotations.slots);
    free(d->bytes);
    free(d->clocks);
    free(d->sequences);
    free(d->kinds);
    for (int i = 0; i < TABLES; i++) free(d->places[i]);
    free(d);
}

/* Decode a text that begins at `offset`: the bytes of whole packets. */
EXPORT int64_t decoder_decode(Decoder *d, const uint8_t *text, int64_t size, int64_t offset, Batch *b) {
    Parts *parts = malloc(sizeof(Parts));
    const uint8_t *at = text, *end = text + size;
    b->slices = b->ends = b->filled = b->points = b->counters = b->stages = b->waits = 0;
    b->specials_found = b->snapshots_found = 0;
    b->state = parts ? END_OF_TEXT : NO_MEMORY;
    int64_t room = b->room - MOST - SPECIALS;
    while (parts && at < end) {
        /* A packet has an event of each kind at most, with up to MOST flows. */
        if (b->slices >= room || b->ends >= room || b->points >= room || b->counters >= room || b->stages >= room ||
            b->waits >= room || b->specials_found >= room || b->snapshots_found >= room) {
            b->state = ROOM;
            break;
        }
        Span s = {at, end};
        uint64_t key, length;
        if (!varint(&s, &key) || (key == 0x0A && !varint(&s, &length))) {
            b->state = end - at < 20 ? END_OF_TEXT : LOST;
            break;
        }
        if (key != 0x0A) {
            b->state = LOST;
            break;
        }
        if (length > LONGEST) {
            b->state = LONG;
            break;
        }
        if (length > (uint64_t)(end - s.at)) break;
        s.end = s.at + length;
        int64_t place = offset + (at - text);
        if (!short_end(d, b, s) && !packet(d, b, parts, s, text, offset, place)) {
            if (d->failed) {
                b->state = NO_MEMORY;
                break;
            }
            note(d, BROKEN, place);
        }
        at = s.end;
    }
    if (d->failed) b->state = NO_MEMORY;
    free(parts);
    return at - text;
}

/* -- several parts of a text at once: each by a copy of the decoder, and then joined in their order. Where a packet
   has changed what later ones depend on (an epoch, a clock, ...), what the copies said is of no use. */

static void *copied(Decoder *d, const void *array, uint64_t count, uint64_t each) {
    void *made = array ? malloc((size_t)((count + 1) * each)) : NULL;
    if (made) memcpy(made, array, (size_t)(count * each));
    else if (array) d->failed = 1;
    return made;
}

static void copy_table(Decoder *d, Table *t) {
    t->room = t->count;
    t->keys = copied(d, t->keys, t->count, KEY * sizeof(int64_t));
    t->slots = copied(d, t->slots, t->mask + 1, sizeof(uint32_t));
}

/* A decoder that goes on as this one would; NULL if there is no memory. */
EXPORT Decoder *decoder_copy(const Decoder *of) {
    Decoder *d = malloc(sizeof(Decoder));
    if (!d) return NULL;
    *d = *of;
    d->slices = d->ends = 0;
    d->changes_then = d->changes;
    memset(d->skipped, 0, sizeof d->skipped);
    memset(d->found, 0, sizeof d->found);
    d->size = d->used;
    d->bytes = copied(d, d->bytes, d->used, 1);
    d->clocks = copied(d, d->clocks, d->clock_room, sizeof(Clock));
    d->sequences = copied(d, d->sequences, d->sequence_room, sizeof(Sequence));
    d->kinds = copied(d, d->kinds, d->kind_room, 1);
    copy_table(d, &d->sequence_ids);
    copy_table(d, &d->annotations);
    for (int i = 0; i < TABLES; i++) {
        copy_table(d, &d->tables[i]);
        d->places[i] = NULL;
        d->placed[i] = d->place_room[i] = 0;
    }
    if (!d->failed) return d;
    decoder_free(d);
    return NULL;
}

/* Where the first packet begins that does so at `wanted` or further on; `size` if that is not to be seen. */
EXPORT int64_t decoder_next(const uint8_t *text, int64_t size, int64_t wanted) {
    Span s = {text, text + size};
    while (s.at - text < wanted) {
        uint64_t key, length;
        if (!varint(&s, &key) || key != 0x0A || !varint(&s, &length)) return size;
        if (length > (uint64_t)(s.end - s.at)) return size;
        s.at += length;
    }
    return s.at - text;
}

static void place(const Decoder *d, int table, int64_t *number) {
    if (*number >= 0) *number = d->places[table][*number];
}

/* What a key refers to gets the other's numbers. */
static void place_parts(const Decoder *d, int table, int64_t *key) {
    if (table == REFS && key[0] == NAMED) {
        place(d, STRINGS, &key[1]);
    } else if (table == REFS && key[0] == BOTH) {
        place(d, REFS, &key[1]);
        place(d, REFS, &key[2]);
    } else if (table == REFS && key[0] == TRANSFER) {
        place(d, REFS, &key[1]);
        for (int i = 2; i < KEY; i++) place(d, STRINGS, &key[i]);
    } else if (table == HEADS) {
        place(d, REFS, &key[1]);
        place(d, TRACKS, &key[2]);
        place(d, CLOCKS, &key[3]);
    } else if (table == SERIES && key[0] == OF_TRACK) {
        place(d, TRACKS, &key[1]);
        place(d, CLOCKS, &key[2]);
    } else if (table == SERIES) {
        place(d, CLOCKS, &key[5]);
    }
}

static void place_all(const Decoder *d, int table, int32_t *column, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (column[i] >= 0) column[i] = (int32_t)d->places[table][column[i]];
}

/* Number what a copy has numbered as if the decoder had decoded it itself, in its rows as well: 1; 0 if that cannot
   be, since one of them has changed what the other depends on; -1 if there is no memory. */
EXPORT int decoder_join(Decoder *d, Decoder *other, Batch *b) {
    static const int order[] = {STRINGS, REFS, TRACKS, CLOCKS, HEADS, SERIES};
    if (d->changes != other->changes_then || other->changes != other->changes_then) return 0;
    for (size_t n = 0; n < sizeof order / sizeof *order; n++) {
        int table = order[n];
        const Table *t = &other->tables[table];
        int64_t *places = grown(other->places[table], &other->place_room[table], t->count + 1, sizeof(int64_t));
        if (!places) return -1;
        other->places[table] = places;
        for (uint64_t i = other->placed[table]; i < t->count; i++) {
            int64_t k[KEY];
            memcpy(k, t->keys + i * KEY, sizeof k);
            place_parts(other, table, k);
            places[i] = table == STRINGS ? string_of(d, other->bytes + k[0], (uint64_t)k[1])
                                         : key_of(d, table, k[0], k[1], k[2], k[3], k[4], k[5]);
            if (d->failed) return -1;
        }
        other->placed[table] = t->count;
    }
    place_all(other, HEADS, b->head, b->slices);
    place_all(other, REFS, b->name, b->slices);
    place_all(other, HEADS, b->end_head, b->ends);
    place_all(other, HEADS, b->point_head, b->points);
    place_all(other, REFS, b->point_name, b->points);
    place_all(other, SERIES, b->series, b->counters);
    for (int64_t i = 0; i < b->ends; i++) b->end_row[i] += (int32_t)d->slices;
    for (int64_t i = 0; i < b->filled; i++) b->filled_end[i] += d->ends;
    for (int64_t i = 0; i < b->stages; i++) b->stage_row[i] += d->slices;
    for (int64_t i = 0; i < b->waits; i++) b->wait_row[i] += d->slices;
    d->slices += other->slices;
    d->ends += other->ends;
    other->slices = other->ends = 0;
    for (int i = 0; i <= OTHER_NUMBERS; i++)
        if (other->skipped[i]) {
            if (!d->skipped[i]) d->skipped_first[i] = other->skipped_first[i];
            d->skipped[i] += other->skipped[i];
        }
    for (int i = 0; i < KINDS; i++)
        if (other->found[i]) {
            if (!d->found[i]) d->found_first[i] = other->found_first[i];
            d->found[i] += other->found[i];
        }
    memset(other->skipped, 0, sizeof other->skipped);
    memset(other->found, 0, sizeof other->found);
    return 1;
}

/* How many keys a table has, and where they are. */
EXPORT int64_t decoder_keys(Decoder *d, int table, const int64_t **keys, const uint8_t **bytes) {
    *keys = d->tables[table].keys;
    *bytes = d->bytes;
    return (int64_t)d->tables[table].count;
}

/* How often a field was skipped (`kind` 0) or something was wrong (1), and where first. */
EXPORT int64_t decoder_count(Decoder *d, int kind, int number, int64_t *first) {
    if (number < 0 || number >= (kind ? KINDS : OTHER_NUMBERS + 1)) return 0;
    *first = kind ? d->found_first[number] : d->skipped_first[number];
    return kind ? d->found[number] : d->skipped[number];
}
