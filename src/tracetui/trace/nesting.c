/* The fast paths of nesting.py, intervals.py, saved_file.py and timeline/rows.py. */

#include <stdint.h>
#include <stdlib.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#if !defined(SOURCE)
#define SOURCE 0
#endif
EXPORT uint32_t source_checksum(void) { return SOURCE; }

/* Slices that are open, innermost last. */
typedef struct {
    int32_t *at;
    int64_t size;
} Stack;

/* The slices of a lane, from `first` to before `last`; see `nest`. Returns how many crossings were found before and
   in it, or -1 without memory. */
static int64_t nest_lane(const int64_t *start, const int64_t *duration, int64_t first, int64_t last, Stack *stack,
                         int32_t *depth, int32_t *parent, int64_t *crossing, int64_t room, int64_t found) {
    int64_t open = 0, root = first, latest = INT64_MIN;
    int crossed = 0;
    for (int64_t i = first; i <= last; i++) {
        if (i == last || start[i] >= latest) { /* nothing is open */
            if (crossed) {
                if (found < room) {
                    crossing[2 * found] = root;
                    crossing[2 * found + 1] = i;
                }
                found++;
            }
            if (i == last) break;
            root = i;
            open = 0;
            crossed = 0;
        }
        int64_t begin = start[i], end = begin + duration[i], around = INT64_MAX;
        for (; open; open--) {
            int32_t top = stack->at[open - 1];
            around = start[top] + duration[top];
            if (around > begin) break;
        }
        if (open && end > around) crossed = 1;
        depth[i] = (int32_t)open;
        parent[i] = open ? stack->at[open - 1] : -1;
        if (end > begin) { /* an empty slice is never open */
            if (open == stack->size) {
                int32_t *more = realloc(stack->at, (size_t)(2 * stack->size) * sizeof *more);
                if (!more) return -1;
                stack->at = more;
                stack->size *= 2;
            }
            stack->at[open++] = (int32_t)i;
        }
        if (end > latest) latest = end;
    }
    return found;
}

/* `start`, `duration`: slices in the order of nesting.py; `firsts`: the first of each of `lanes` lanes, and the number
   of slices. Fills `depth` and `parent`, except in stretches (from one moment when nothing is open to the next) in
   which a slice outlasts the one that it starts in: the first and last + 1 of each go to `crossing`, at most `room` of
   them. Returns how many there are, more than `room` if they did not fit, or -1 without memory. */
EXPORT int64_t nest(const int64_t *start, const int64_t *duration, const int64_t *firsts, int64_t lanes, int32_t *depth,
                    int32_t *parent, int64_t *crossing, int64_t room) {
    Stack stack = {malloc(64 * sizeof *stack.at), 64};
    int64_t found = stack.at ? 0 : -1;
    for (int64_t lane = 0; lane < lanes && found >= 0; lane++)
        found = nest_lane(start, duration, firsts[lane], firsts[lane + 1], &stack, depth, parent, crossing, room, found);
    free(stack.at);
    return found;
}

/* A union that is being made: its intervals, the time before each, how many there are, and the last start. */
typedef struct {
    int64_t *begin, *stop, *before;
    int64_t count, last;
    uint64_t total;
    int ordered;
} Made;

/* Adds [start, end). One that starts before the last is a new interval. */
static inline void add(Made *made, int64_t start, int64_t end) {
    int64_t at = made->count - 1;
    int turn = made->count && start < made->last;
    made->last = start;
    if (turn) made->ordered = 0;
    if (at >= 0 && !turn && start <= made->stop[at]) {
        if (end > made->stop[at]) made->stop[at] = end;
        return;
    }
    if (at >= 0) made->total += (uint64_t)made->stop[at] - (uint64_t)made->begin[at];
    made->begin[at + 1] = start;
    made->stop[at + 1] = end;
    made->before[at + 1] = (int64_t)made->total;
    made->count++;
}

/* How many there are: where some were not in order of start, -1 less that, and they are the unions of runs in order. */
static int64_t finished(Made *made) {
    int64_t at = made->count - 1;
    if (at >= 0) made->total += (uint64_t)made->stop[at] - (uint64_t)made->begin[at];
    made->before[at + 1] = (int64_t)made->total;
    return made->ordered ? made->count : -1 - made->count;
}

/* The union of intervals [start, end): fills `begin`, `stop` and `before`, its intervals and the time before each, of
   which there may be as many as there are intervals and, of `before`, one more. Returns what `finished` does. */
EXPORT int64_t unite(const int64_t *start, const int64_t *end, int64_t count, int64_t *begin, int64_t *stop,
                     int64_t *before) {
    Made made = {begin, stop, before, 0, 0, 0, 1};
    for (int64_t i = 0; i < count; i++) add(&made, start[i], end[i]);
    return finished(&made);
}

/* The same of the slices `at`, of `size` in all; INT64_MIN if one of them is none. */
EXPORT int64_t unite_slices(const int64_t *start, const int64_t *duration, int64_t size, const int64_t *at,
                            int64_t count, int64_t *begin, int64_t *stop, int64_t *before) {
    Made made = {begin, stop, before, 0, 0, 0, 1};
    for (int64_t i = 0; i < count; i++) {
        if (at[i] < 0 || at[i] >= size) return INT64_MIN;
        add(&made, start[at[i]], (int64_t)((uint64_t)start[at[i]] + (uint64_t)duration[at[i]]));
    }
    return finished(&made);
}

/* The union of two unions, as `unite` makes it. */
EXPORT int64_t unite_both(const int64_t *start, const int64_t *end, int64_t count, const int64_t *others,
                          const int64_t *ends, int64_t many, int64_t *begin, int64_t *stop, int64_t *before) {
    Made made = {begin, stop, before, 0, 0, 0, 1};
    for (int64_t i = 0, j = 0; i < count || j < many;) {
        int first = j == many || (i < count && start[i] <= others[j]);
        add(&made, first ? start[i] : others[j], first ? end[i] : ends[j]);
        if (first) i++;
        else j++;
    }
    return finished(&made);
}

/* How much of a union, see `unite`, lies before each of `many` times: quick where they are nearly in order. */
EXPORT void until(const int64_t *begin, const int64_t *stop, const int64_t *before, int64_t count, const int64_t *time,
                  int64_t many, int64_t *found) {
    int64_t near = 0; /* how many intervals begin by then: searched from where the last time was */
    for (int64_t i = 0; i < many; i++) {
        int64_t t = time[i], low = 0, high = near, step = 1;
        if (near < count && begin[near] <= t) {
            for (low = near + 1; near + step < count && begin[near + step] <= t; step *= 2) low = near + step + 1;
            high = near + step < count ? near + step : count;
        } else {
            for (; near - step >= 0 && begin[near - step] > t; step *= 2) high = near - step;
            low = near - step >= 0 ? near - step + 1 : 0;
        }
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (begin[middle] <= t) low = middle + 1;
            else high = middle;
        }
        near = low--;
        found[i] = 0;
        if (low < 0) continue;
        int64_t over = stop[low] < t ? stop[low] : t;
        found[i] = (int64_t)((uint64_t)before[low] + (uint64_t)over - (uint64_t)begin[low]);
    }
}

/* The positions of each value from 0 to `size` - 1 in a column, ascending, by value, without other values: those of v
   are at[first[v]] to at[first[v + 1] - 1]. `first`: `size` + 1 zeros; `at`: `count`. */
EXPORT void positions(const int32_t *values, int64_t count, int64_t size, int64_t *first, int32_t *at) {
    for (int64_t i = 0; i < count; i++)
        if (values[i] >= 0 && values[i] < size) first[values[i]]++;
    int64_t begin = 0;
    for (int64_t v = 0; v <= size; v++) {
        int64_t many = first[v];
        first[v] = begin;
        begin += many;
    }
    for (int64_t i = 0; i < count; i++)
        if (values[i] >= 0 && values[i] < size) at[first[values[i]]++] = (int32_t)i;
    for (int64_t v = size; v > 0; v--) first[v] = first[v - 1];
    first[0] = 0;
}

/* The first position of each value from 0 to `size` - 1 in a column; that of others stays as it is. */
EXPORT void first_places(const int32_t *values, int64_t count, int64_t size, int32_t *first) {
    for (int64_t i = count - 1; i >= 0; i--)
        if (values[i] >= 0 && values[i] < size) first[values[i]] = (int32_t)i;
}

/* The slices of a lane, which begin with number `first`, by depth: `order`, and where each of `rows` rows begins in it,
   `bounds`, of which there is one more, all zeros at first. The first `made` rows also have their starts, in that order,
   and in `total` the running sum of the durations: for each row one more than it has slices, from 0 on. */
EXPORT void by_row(const int64_t *start, const int64_t *duration, const int32_t *depth, int64_t count, int32_t first,
                   int64_t rows, int64_t made, int64_t *bounds, int32_t *order, int64_t *starts, int64_t *total) {
    for (int64_t i = 0; i < count; i++)
        if (depth[i] >= 0 && depth[i] < rows) bounds[depth[i]]++;
    int64_t begin = 0;
    for (int64_t row = 0; row <= rows; row++) {
        int64_t many = bounds[row];
        bounds[row] = begin;
        if (row < made) total[begin + row] = 0;
        begin += many;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t row = depth[i];
        if (row < 0 || row >= rows) continue;
        int64_t at = bounds[row]++;
        order[at] = first + (int32_t)i;
        if (row >= made) continue;
        starts[at] = start[i];
        total[at + row + 1] = (int64_t)((uint64_t)total[at + row] + (uint64_t)(duration[i] > 0 ? duration[i] : 0));
    }
    for (int64_t row = rows; row > 0; row--) bounds[row] = bounds[row - 1];
    bounds[0] = 0;
}

/* Columns of slices, see model.py. */
typedef struct {
    const int64_t *start, *duration;
    const int32_t *name, *lane, *depth, *parent, *launch, *op;
    const int16_t *category;
    const int8_t *kind;
} Slices;

/* Notes whether some of the values are below `least`, which is 0 or -1, or not below `limit`. */
#define WITHIN(values, least, limit)                                                                                   \
    for (int64_t i = at; i < stop; i++)                                                                                \
    bad |= (uint32_t)(int32_t)(values)[i] - (uint32_t)(least) >= (uint32_t)(limit) - (uint32_t)(least)

/* Whether the slices from `at` to before `stop`, all of them in one lane that begins at `first`, are sound: see
   saved_file.py. `limits`: of names, categories, kinds and slices. */
static int lane_is_sound(const Slices *s, int64_t at, int64_t stop, int32_t lane, int64_t first, int64_t rows,
                         const int32_t *limits) {
    uint32_t bad = 0;
    uint64_t length = 0;
    int early = 0;
    WITHIN(s->name, 0, limits[0]);
    WITHIN(s->category, 0, limits[1]);
    WITHIN(s->kind, 0, limits[2]);
    WITHIN(s->launch, -1, limits[3]);
    WITHIN(s->op, -1, limits[3]);
    WITHIN(s->depth, 0, rows);
    for (int64_t i = at; i < stop; i++) bad |= s->lane[i] != lane;
    for (int64_t i = at; i < stop; i++) bad |= s->parent[i] >= (int32_t)i;
    for (int64_t i = at; i < stop; i++) bad |= (s->parent[i] < (int32_t)first) & (s->parent[i] != -1);
    for (int64_t i = at; i < stop; i++) length |= (uint64_t)s->duration[i];
    for (int64_t i = at > first ? at : first + 1; i < stop; i++) early |= s->start[i] < s->start[i - 1];
    return !bad && !early && !(length >> 62);
}

/* Whether the slices from `at` to before `stop` are sound. `firsts`, `rows`: of each of `lanes` lanes, none of which
   is empty, and which begin at 0; the number of slices follows the last of `firsts`. */
EXPORT int are_sound(const Slices *slices, int64_t at, int64_t stop, const int64_t *firsts, const int64_t *rows,
                     int64_t lanes, const int32_t *limits) {
    for (int64_t lane = 0; lane < lanes; lane++) {
        int64_t from = firsts[lane] > at ? firsts[lane] : at, to = firsts[lane + 1] < stop ? firsts[lane + 1] : stop;
        /* In parts that stay in the processor's cache. */
        for (int64_t next; from < to; from = next) {
            next = from + 4096 < to ? from + 4096 : to;
            if (!lane_is_sound(slices, from, next, (int32_t)lane, firsts[lane], rows[lane], limits)) return 0;
        }
    }
    return 1;
}
