/* The fast paths of nesting.py. */

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

/* Depth and parent of slices that nest, in one pass. `begin`, `end`: `count` slices in the order of nesting.py. Fills `depth` and `parent`, except in stretches (from
   one moment when nothing is open to the next) in which a slice outlasts the one that it starts in: the first
   and last + 1 of each go to `crossing`, at most `room` of them. Returns how many there are, more than `room` if
   they did not fit, or -1 without memory. */
EXPORT int64_t nest(const int64_t *begin, const int64_t *end, int64_t count, int32_t *depth, int32_t *parent,
                    int64_t *crossing, int64_t room) {
    int64_t found = 0, size = 64, open = 0, root = 0, last = INT64_MIN;
    int crossed = 0;
    int32_t *stack = malloc((size_t)size * sizeof *stack);
    if (!stack) return -1;
    for (int64_t i = 0; i <= count; i++) {
        if (i == count || begin[i] >= last) { /* nothing is open */
            if (crossed) {
                if (found < room) {
                    crossing[2 * found] = root;
                    crossing[2 * found + 1] = i;
                }
                found++;
            }
            if (i == count) break;
            root = i;
            open = 0;
            crossed = 0;
        }
        while (open && end[stack[open - 1]] <= begin[i]) open--;
        if (open && end[i] > end[stack[open - 1]]) crossed = 1;
        depth[i] = (int32_t)open;
        parent[i] = open ? stack[open - 1] : -1;
        if (end[i] > begin[i]) { /* an empty slice is never open */
            if (open == size) {
                int32_t *more = realloc(stack, (size_t)(2 * size) * sizeof *more);
                if (!more) {
                    free(stack);
                    return -1;
                }
                stack = more;
                size *= 2;
            }
            stack[open++] = (int32_t)i;
        }
        if (end[i] > last) last = end[i];
    }
    free(stack);
    return found;
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
