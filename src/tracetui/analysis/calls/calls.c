/* What the averages need of the tree of calls, each in one or two passes: see calls.py, sums.py and gaps.py, which find
   the same without. Sums wrap around, as numpy's do. */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#if !defined(SOURCE)
#define SOURCE 0
#endif
EXPORT uint32_t source_checksum(void) { return SOURCE; }

/* `total[index[i]] += values[i]`, `size` totals. Returns whether every index is one. */
EXPORT int sum_into(const int64_t *index, const int64_t *values, int64_t count, uint64_t *total, uint64_t size) {
    for (int64_t i = 0; i < count; i++) {
        if ((uint64_t)index[i] >= size) return 0;
        total[index[i]] += (uint64_t)values[i];
    }
    return 1;
}

/* The row of the slice `at`, -1 for none; -2 if there is no such slice or row. */
static int64_t row(const int32_t *row_of, uint64_t slices, int64_t at, uint64_t size) {
    if ((uint64_t)at >= slices) return -2;
    int64_t found = row_of[at];
    return found < -1 || found >= (int64_t)size ? -2 : found;
}

/* The sums of the values of each row, `size` totals. `at`: the slices of the values. Returns whether each is one and
   has a row. */
EXPORT int sum_by(const int32_t *row_of, uint64_t slices, const int64_t *at, int64_t count, const int64_t *values,
                  uint64_t *total, uint64_t size) {
    for (int64_t i = 0; i < count; i++) {
        int64_t r = row(row_of, slices, at[i], size);
        if (r < -1) return 0;
        if (r >= 0) total[r] += (uint64_t)values[i];
    }
    return 1;
}

/* How many of `at` are in each row, the first of them (the earliest, then the longest, then the first in the file; in,
   -1), and the sum of their durations. `of_slices`: times are columns of all slices, as `source` is, else of `at`.
   Returns whether each is a slice and has a row. */
EXPORT int tally(const int32_t *row_of, uint64_t slices, const int64_t *at, int64_t count, int of_slices,
                 const int64_t *start, const int64_t *duration, const int64_t *source, int64_t *number, int64_t *first,
                 uint64_t *total, uint64_t size) {
    for (int64_t i = 0; i < count; i++) {
        int64_t r = row(row_of, slices, at[i], size), mine = of_slices ? at[i] : i;
        if (r < -1) return 0;
        if (r < 0) continue;
        number[r]++;
        total[r] += (uint64_t)duration[mine];
        int64_t best = first[r], other = best < 0 ? -1 : of_slices ? at[best] : best;
        if (best < 0 || start[mine] < start[other] ||
            (start[mine] == start[other] &&
             (duration[mine] > duration[other] ||
              (duration[mine] == duration[other] && source[at[i]] < source[at[best]]))))
            first[r] = i;
    }
    return 1;
}

/* The union of the slices `at`, which are sorted by start: the start and end of each interval, the length of all before
   it (one more), the first of its slices that end last, and the one that begins it. Returns how many there are. */
EXPORT int64_t busy_blocks(const int64_t *at, int64_t count, const int64_t *start, const int64_t *duration,
                           int64_t *first, int64_t *last, int64_t *before, int64_t *closes, int64_t *opens) {
    int64_t blocks = 0;
    before[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t begin = start[at[i]], end = (int64_t)((uint64_t)begin + (uint64_t)duration[at[i]]);
        if (!blocks || begin > last[blocks - 1]) {
            first[blocks] = begin;
            last[blocks] = end;
            opens[blocks] = closes[blocks] = at[i];
            blocks++;
        } else if (end > last[blocks - 1]) {
            last[blocks - 1] = end;
            closes[blocks - 1] = at[i];
        }
        before[blocks] = (int64_t)((uint64_t)before[blocks - 1] + (uint64_t)last[blocks - 1] - (uint64_t)first[blocks - 1]);
    }
    return blocks;
}

/* Durations less those of the children. */
EXPORT void without_children(const int32_t *parent, const int64_t *duration, int64_t count, uint64_t *own) {
    for (int64_t i = 0; i < count; i++) own[i] = (uint64_t)duration[i];
    for (int64_t i = 0; i < count; i++)
        if (parent[i] >= 0 && parent[i] < count) own[parent[i]] -= (uint64_t)duration[i];
}

/* The nearest earlier call of its group that contains each, -1 for none and for those `apart`, which contain nothing.
   `at`: their slices; they are in order of (group, start, longest first). */
EXPORT void parents(const int32_t *group, const int64_t *at, const int64_t *start, const int64_t *duration,
                    const uint8_t *apart, int64_t count, int64_t *parent) {
    int64_t last = -1;
    for (int64_t i = 0; i < count; i++) {
        parent[i] = -1;
        if (apart[i]) continue;
        int64_t up = last >= 0 && group[last] == group[i] ? last : -1;
        int64_t begin = start[at[i]], end = (int64_t)((uint64_t)begin + (uint64_t)duration[at[i]]);
        for (; up >= 0; up = parent[up]) {
            int64_t over = (int64_t)((uint64_t)start[at[up]] + (uint64_t)duration[at[up]]);
            /* An empty interval, too, needs one that ends after its start. */
            if (over >= end && over > begin) break;
        }
        parent[i] = up;
        last = i;
    }
}

/* Merges only children into a parent of their name, see calls.py. `at`: the slices of the calls. `parent`: in, of each
   call, before it in order; out, without removed ones. `own`: device time; in, of each call; out, of the merged ones.
   `self`, `total`: out, the time without children, and the device time with all below. */
EXPORT void merge(int64_t *parent, const int64_t *at, const int32_t *name, const int64_t *duration, const uint8_t *apart,
                  int64_t count, uint8_t *removed, uint8_t *innermost, int64_t *own, int64_t *self, int64_t *total) {
    int64_t *inside = total; /* how many children each has, until it is needed */
    for (int64_t i = 0; i < count; i++) {
        inside[i] = 0;
        if (parent[i] >= 0) inside[parent[i]]++;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t up = parent[i];
        removed[i] = up >= 0 && inside[up] == 1 && name[at[up]] == name[at[i]];
        innermost[i] = removed[i];
        if (removed[i]) innermost[up] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t up = parent[i];
        if (up >= 0 && removed[up]) parent[i] = up = parent[up]; /* what that one is merged into */
        if (innermost[i]) own[up] = own[i];
        self[i] = duration[at[i]];
        if (!removed[i] && up >= 0) self[up] = (int64_t)((uint64_t)self[up] - (uint64_t)self[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        if (removed[i]) own[i] = 0;
        total[i] = own[i];
    }
    for (int64_t i = count - 1; i >= 0; i--) {
        if (apart[i]) self[i] = 0;
        if (parent[i] >= 0) total[parent[i]] = (int64_t)((uint64_t)total[parent[i]] + (uint64_t)total[i]);
    }
}
