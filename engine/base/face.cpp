#include "engine/base/face.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace sonde::base {

namespace {

// Never destroyed: the drain thread may still speak while the process runs its static destructors.
struct Holder {
  std::mutex mutex;
  std::shared_ptr<const Face> face = std::make_shared<const Face>();
};
std::atomic<Holder*>& holder_place() {
  static std::atomic<Holder*> place{new Holder};
  return place;
}

}  // namespace

std::shared_ptr<const Face> face() {
  Holder& holder = *holder_place().load();
  const std::lock_guard lock(holder.mutex);
  return holder.face;
}

void set_face(Face face) {
  auto made = std::make_shared<const Face>(std::move(face));
  Holder& holder = *holder_place().load();
  const std::lock_guard lock(holder.mutex);
  holder.face = std::move(made);
}

void reset_face_after_fork() noexcept {
  // The old holder leaks, like the lock in it. Its face is complete: it is replaced as a whole.
  auto* fresh = new Holder;
  fresh->face = holder_place().load()->face;
  holder_place().store(fresh);
}

}  // namespace sonde::base
