// Entering and leaving a scope: what `with scope(...)` runs.
#include "python/native/scope.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/face.h"
#include "engine/probe/device_queue.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/ends.h"
#include "engine/record/stack.h"
#include "python/native/attrs.h"
#include "python/native/boundaries.h"
#include "python/native/exceptions.h"
#include "python/native/gpu_watch.h"
#include "python/native/stack.h"

namespace sonde::native {

namespace {

// Cold: attributes, a name that is not interned, a scope that is entered again.
record::ScopeHandle open_with_text(Scope* self, record::ThreadState& thread, record::Lane& stack,
                                   record::ScopeStart start) {
  base::JsonWriter attrs;
  if (self->attrs != nullptr) encode_members(attrs, self->attrs);
  start.attrs = attrs.view();
  record::ScopeHandle handle;
  if (start.name != 0) return record::open_scope(thread, stack, start);
  if (!with_utf8(self->name, [&](std::string_view utf8) {
        start.name_text = utf8;
        handle = record::open_scope(thread, stack, start);
      })) {
    PyErr_Clear();
  }
  return handle;
}

thread_local bool t_depth_warned = false;

PyObject* refuse_enter() {
  if (!t_depth_warned) {
    t_depth_warned = true;
    const std::string text = base::face().prefix() +
                             "more than MAX_DEPTH (64) scopes are open on this thread: deeper ones "
                             "are not recorded; look for a scope that is never closed";
    warn_user(text.c_str());
  }
  Py_RETURN_NONE;
}

// A CUDA event; where a framework's queue is watched instead, a mark in the queue.
void start_gpu(record::ScopeStart& start) {
  look_for_gpu();
  const std::uint32_t event = probe::queue_watched() ? probe::queue_mark() : probe::gpu_mark();
  if (event == 0) return;
  start.aux = event;
  start.flags |= record::kHasGpu;
}

// The event that ends the scope's GPU time.
void end_gpu(const record::ScopeHandle& handle) {
  if (!record::is_open(handle)) return;
  const bool queue = probe::is_queue_mark(record::view_of(handle).start_event());
  record::end_on_gpu(handle, [queue] { return queue ? probe::queue_mark() : probe::gpu_mark(); });
}

// The attributes of the scope, with those of the exception added. An attribute of the same name
// that the program has set stays.
void append_exception(base::JsonWriter& attrs, const record::ScopeHandle& handle,
                      PyObject* exception) noexcept {
  if (!record::is_open(handle) || names_exception(attrs.view())) return;
  if (names_exception(record::name_text(record::view_of(handle).static_attrs()))) return;
  const std::string members = exception_text(exception).members();
  if (!attrs.empty() && !members.empty()) attrs.raw(',');
  attrs.raw(members);
}

// Cold: attributes, an exception, a name that is not interned. False when it was closed before.
bool close_with_text(Scope* self, record::ThreadState& thread, record::ScopeEnd end,
                     std::uint64_t now, PyObject* exception) {
  const record::ScopeHandle handle = self->handle;  // a repr may enter it again
  base::JsonWriter attrs;
  if (self->attrs != nullptr && PyDict_GET_SIZE(self->attrs) != 0) {
    const KeepError keep;
    encode_members(attrs, self->attrs);
    end.replace_attrs = true;
  }
  if (exception != nullptr) {
    append_exception(attrs, handle, exception);
    end.replace_attrs = end.replace_attrs || !attrs.empty();
  }
  end.attrs = attrs.view();
  if (self->name_id != 0) return record::close_scope(thread, handle, end, now);
  // A name that is not interned may have been cut to fit on the stack: write all of it.
  const KeepError keep;
  bool ended_here = true;
  const auto close = [&](std::string_view utf8) {
    end.name_text = utf8;
    ended_here = record::close_scope(thread, handle, end, now);
  };
  if (!with_utf8(self->name, close)) close({});  // no memory: the name as it is on the stack
  return ended_here;
}

// Cold: makes the entry below the one that ended the current one again.
void return_to_outer(Scope* self) noexcept {
  OuterEntry* outer = self->outer;
  self->handle = outer->handle;
  self->start_ns = outer->start_ns;
  self->parent = outer->parent;
  self->thread_id = outer->thread_id;
  self->outer = outer->next;
  self->entered = true;
  self->end_ns = 0;
  delete outer;
}

// Cold: the end of its parent, of the session or of a thread has closed it already.
void take_end(Scope* self, std::uint64_t sequence) noexcept {
  if (const std::uint64_t end_ns = record::take_end(sequence)) self->end_ns = end_ns;
}

}  // namespace

PyObject* enter_scope(PyObject* object) {
  Scope* self = as_scope(object);
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) return Py_NewRef(object);
  record::Lane* stack = current_stack(*thread);
  if (stack == nullptr) [[unlikely]] {
    record::count_laneless(false);
    Py_RETURN_NONE;
  }
  if (self->entered) [[unlikely]] {
    self->outer =
        new OuterEntry{self->handle, self->parent, self->start_ns, self->thread_id, self->outer};
  }
  record::ScopeStart start;
  start.kept = true;
  start.name = self->name_id;
  start.index = self->index;
  start.flags = static_cast<std::uint8_t>(self->flags | (self->has_index ? record::kHasIndex : 0));
  if (self->gpu) [[unlikely]]
    start_gpu(start);
  const bool plain = self->attrs == nullptr && start.name != 0;
  self->handle = plain ? record::open_scope(*thread, *stack, start)
                       : open_with_text(self, *thread, *stack, start);
  self->entered = true;
  if (!self->handle) [[unlikely]]
    return refuse_enter();
  const record::ScopeView opened = record::view_of(self->handle);
  self->parent = opened.parent();
  self->start_ns = opened.start_ns();
  self->end_ns = 0;
  self->thread_id = record::thread_id_of(*thread);
  stack_changed(*thread, *stack);
  return Py_NewRef(object);
}

void close_scope(Scope* self, record::ClosedBy closed_by, PyObject* exception) noexcept {
  const std::uint64_t sequence = self->handle.sequence;
  if (record::Lane* stack = self->handle.stack) {
    if (self->gpu) [[unlikely]]
      end_gpu(self->handle);
    const std::uint64_t now = base::monotonic_ns();
    self->end_ns = now;
    if (record::ThreadState* thread = record::closing_thread(self->handle.generation)) {
      const record::ScopeEnd end{.closed_by = closed_by};
      const bool plain = self->attrs == nullptr && self->name_id != 0 && exception == nullptr;
      if (!(plain ? record::close_scope(*thread, self->handle, end, now)
                  : close_with_text(self, *thread, end, now, exception))) [[unlikely]]
        take_end(self, sequence);
      stack_changed(*thread, *stack);
    }
  }
  self->entered = false;
  const std::int64_t index = self->has_index ? self->index : record::kNoIndex;
  if (self->outer != nullptr) [[unlikely]]
    return_to_outer(self);
  if (self->name_id == Boundaries::epoch_name()) [[unlikely]]
    Boundaries::instance().epoch_closed(sequence, index);
}

// `exception`: the one that leaves the block, or None.
PyObject* exit_scope(PyObject* object, PyObject* exception) {
  Scope* self = as_scope(object);
  if (self->entered) [[likely]]
    close_scope(self, record::ClosedBy::kSelf, exception == Py_None ? nullptr : exception);
  Py_RETURN_NONE;
}

PyObject* call_scope(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* keys) {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  if ((count != 0 && count != 3) || keys != nullptr) [[unlikely]] {
    PyErr_SetString(PyExc_TypeError,
                    "a scope is a context manager: use `with scope(...):`, not as a decorator");
    return nullptr;
  }
  return count == 3 ? exit_scope(self, args[1]) : enter_scope(self);
}

}  // namespace sonde::native
