/* The loops over the nodes of a recording, each in one pass: see engine.py, which does the same in Python. */

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

enum { WORK, WAIT, MARK, QUEUED, GONE };
enum { NOTHING = -2, CPU = -1 };

/* When each node ends, and what it waited for last: a node, the CPU, or nothing. */
EXPORT void run(int64_t nodes, const int8_t *kind, const double *cpu, const double *least, const int64_t *before,
                const double *gap, const int64_t *first, const int64_t *on, const double *on_gap, const double *late,
                const double *length, double *begin, double *end, int64_t *bound) {
    double shift = 0, latest = -1e300;
    int64_t last = NOTHING;
    for (int64_t i = 0; i < nodes; i++) {
        double now = cpu[i] + shift, at;
        int64_t by = CPU;
        if (kind[i] == MARK) {
            if (latest > now) now = latest, by = last;
            begin[i] = end[i] = now;
            bound[i] = by;
            continue;
        }
        if (kind[i] == GONE) at = -1e300, by = NOTHING;
        else if (kind[i] == QUEUED) at = least[i], by = NOTHING;
        else at = now + least[i];
        if (before[i] >= 0 && end[before[i]] + gap[i] > at) at = end[before[i]] + gap[i], by = before[i];
        for (int64_t k = first[i]; k < first[i + 1]; k++)
            if (end[on[k]] + on_gap[k] > at) at = end[on[k]] + on_gap[k], by = on[k];
        at += late[i];
        bound[i] = by;
        if (kind[i] == WAIT) {
            begin[i] = now;
            end[i] = at;
            shift = at - cpu[i];
        } else {
            begin[i] = at;
            end[i] = at + length[i];
            if (kind[i] != GONE && end[i] > latest) latest = end[i], last = i;
        }
    }
}

/* From the weight of each mark to how much later the marks come if a node takes longer (`weight`), or the CPU before
   a node (`flow`). */
EXPORT void back(int64_t nodes, const int8_t *kind, const int64_t *bound, double *weight, double *flow) {
    double cpu = 0;
    for (int64_t i = nodes - 1; i >= 0; i--) {
        if (kind[i] == WAIT) {
            weight[i] = cpu;
            if (bound[i] >= 0) weight[bound[i]] += cpu, cpu = 0;
        } else if (bound[i] >= 0) weight[bound[i]] += weight[i];
        else if (bound[i] == CPU) cpu += weight[i];
        flow[i] = cpu;
    }
}
