// A few threads that wait to help with one piece of work at a time. They exist from the first time
// they are needed, and are never joined: the process ends around them.
#pragma once

#include <functional>

namespace sonde::snapshot {

// Calls `work` on the caller and on at most `helpers` other threads, and returns when all of them
// have come back from it. Where helpers cannot be had (they are at work for another caller, or no
// thread can be started), fewer help. After a fork the child starts with none.
void run_together(unsigned helpers, const std::function<void()>& work);

}  // namespace sonde::snapshot
