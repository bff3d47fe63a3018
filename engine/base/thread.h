// Threads of ours in the host's process.
#pragma once

#include <functional>
#include <thread>

#include "engine/base/status.h"

namespace sonde::base {

// Signals are for the host's threads: this one blocks them all but the faults that it can only make
// itself, which would kill where they are blocked. The caller's mask is as it was, whatever
// happens. `name` has at most 15 letters. Where no thread can be had, `thread` is left as it is.
Status start_thread(std::thread& thread, const char* name, std::function<void()> work);
// The same for one that nobody waits for: `work` owns what it needs, or needs what stays.
Status start_detached_thread(const char* name, std::function<void()> work);

}  // namespace sonde::base
