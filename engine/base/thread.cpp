#include "engine/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "engine/base/status.h"

namespace sonde::base {

namespace {

// A new thread inherits the signal mask of the thread that starts it.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Status start_thread(std::thread& thread, const char* name, std::function<void()> work) {
  int error = 0;
  try {
    const SignalsBlocked blocked;
    thread = std::thread([name, work = std::move(work)] {
      pthread_setname_np(pthread_self(), name);
      const EngineWork marked;
      work();
    });
  } catch (const std::system_error& refused) {
    error = refused.code().value();
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  return error == 0 ? Status() : Status(error, "cannot start a thread");
}

Status start_detached_thread(const char* name, std::function<void()> work) {
  std::thread thread;
  Status status = start_thread(thread, name, std::move(work));
  if (status.ok()) thread.detach();
  return status;
}

}  // namespace sonde::base
