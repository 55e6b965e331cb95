// Loops on the threads of the program that calls us.
//
// PyTorch's threads spin on every core between its own loops. A second set of threads would take cores from them, and
// each set would wait for time slices of the other: what runs between two of PyTorch's loops runs on PyTorch's threads.
#pragma once

#include <cstdint>
#include <functional>

namespace frugal {

// GOMP_parallel of an OpenMP runtime: calls body(data) in `threads` threads, 0 for as many as the runtime is set to,
// and returns when all have returned.
using RunInTeam = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);

// Loops run in that team from now on; nullptr: in default_pool, as they do at first.
void borrow_threads(RunInTeam run);

// Calls task(i) once for each i in [0, tasks) and returns when all have returned. Nobody waits for a thread that comes
// late more than the team itself does: tasks are taken one by one. The first exception is rethrown here.
void run_tasks(std::int64_t tasks, const std::function<void(std::int64_t)>& task);

// Splits [0, count) into ranges of `grain`, the last one shorter, and calls body(begin, end) for each.
void run_ranges(std::int64_t count, std::int64_t grain,
                const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace frugal
