// Threads that work off what they are given, while whoever gave it goes on. To start a thread for each piece of work
// takes longer than to give it.
#pragma once

#include <cstdint>
#include <functional>
#include <future>

namespace frugal {

// Runs `work` in the background. Up to half as many threads as cores do so, at least 4 and at most 32, which start as
// they are needed; work begins in the order in which it was given. In a process that was forked it begins anew. The
// future says when it is done, or what it has thrown; its destructor does not wait. Throws ThreadShortage where not
// even one thread can be had.
std::future<void> run_in_background(std::function<void()> work);

// Calls task(i) once for each i in [0, tasks), with the help of those threads that have nothing to do, and returns when
// all have returned. Work in the background may call it, too. task must not throw.
void share_in_background(std::int64_t tasks, const std::function<void(std::int64_t)>& task);

}  // namespace frugal
