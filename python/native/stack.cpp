#include "python/native/stack.h"

#include <cstddef>
#include <cstdint>

#include "engine/record/scope.h"
#include "python/native/module.h"

namespace sonde::native {

namespace {

// The value of our context variable: the stack of a task, and the innermost scope when the value
// was set. A new task starts with a copy of the context it was made in, and so with this value.
// From it the task knows its parent scope, and that the stack belongs to another context.
struct StackToken {
  PyObject_HEAD struct SharedStack* stack;
  std::uint64_t innermost;
  record::Generation generation;  // in which `innermost` was set
};

struct SharedStack {
  record::Lane* lane;
  PyObject* context;              // borrowed, compared only
  record::Generation generation;  // in which the lane was taken
  std::size_t holders;            // its tokens, and new_stack() while that makes the first one
};

struct Asyncio {
  PyObject* variable = nullptr;      // the context variable, which holds a StackToken
  PyObject* running_loop = nullptr;  // asyncio._get_running_loop, once asyncio is imported
};
Asyncio g_asyncio;

void let_go(SharedStack* stack) {
  if (--stack->holders != 0) return;
  record::give_task_lane(stack->lane, stack->generation);
  delete stack;
}

void token_dealloc(PyObject* self) {
  let_go(reinterpret_cast<StackToken*>(self)->stack);
  PyObject_Free(self);
}

PyTypeObject g_token_type = make_type("sonde._core.StackToken", sizeof(StackToken), token_dealloc,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION);

bool set_token(SharedStack* stack, std::uint64_t innermost) {
  auto* token = PyObject_New(StackToken, &g_token_type);
  if (token == nullptr) return false;
  token->stack = stack;
  token->innermost = innermost;
  token->generation = record::generation();
  ++stack->holders;
  const Ref owned(reinterpret_cast<PyObject*>(token));
  const Ref reset(PyContextVar_Set(g_asyncio.variable, owned.get()));
  return static_cast<bool>(reset);
}

// NumPy and others set context variables in plain code, so having a context does not mean being a
// task.
bool inside_event_loop() {
  if (g_asyncio.running_loop == nullptr) {
    PyObject* modules = PyImport_GetModuleDict();
    PyObject* asyncio = PyDict_GetItemString(modules, "asyncio.events");
    if (asyncio == nullptr) return false;
    g_asyncio.running_loop = PyObject_GetAttrString(asyncio, "_get_running_loop");
    if (g_asyncio.running_loop == nullptr) return false;
  }
  const Ref loop(PyObject_CallNoArgs(g_asyncio.running_loop));
  return loop && loop.get() != Py_None;
}

record::Lane* new_stack(std::uint64_t parent, PyObject* context) {
  record::Lane* lane = record::take_task_lane(parent);
  if (lane == nullptr) return nullptr;
  auto* stack = new SharedStack{lane, context, record::generation(), 1};
  const bool kept = set_token(stack, parent);
  let_go(stack);
  return kept ? lane : nullptr;
}

}  // namespace

namespace detail {

constinit thread_local PlainContext t_plain;

record::Lane* task_stack(record::ThreadState& thread) noexcept {
  const KeepError keep;  // a scope may close while an exception is being raised
  record::Lane* lane = thread.lane;
  PyObject* current = nullptr;
  const PyThreadState* state = current_thread_state();
  const bool in_loop = inside_event_loop();
  // Entering, leaving or changing a context changes the version.
  if (!in_loop) t_plain = {state->context, state->context_ver};
  if (in_loop && PyContextVar_Get(g_asyncio.variable, nullptr, &current) == 0) {
    const Ref held(current);
    PyObject* context = current_thread_state()->context;
    const auto* token = reinterpret_cast<StackToken*>(current);
    const bool usable = token != nullptr && !record::is_void(token->stack->generation);
    if (usable && token->stack->context == context) {
      lane = token->stack->lane;
    } else {
      const bool known = usable && token->generation == thread.generation;
      lane = new_stack(known ? token->innermost : record::current_parent(*thread.lane), context);
    }
  }
  return lane;
}

void note_task_stack(record::Lane& stack) noexcept {
  const KeepError keep;
  PyObject* current = nullptr;
  if (PyContextVar_Get(g_asyncio.variable, nullptr, &current) == 0 && current != nullptr) {
    const Ref held(current);
    auto* token = reinterpret_cast<StackToken*>(current);
    // A scope closed from another context changes nothing that is inherited from here.
    if (token->stack->lane == &stack && token->stack->context == current_thread_state()->context) {
      set_token(token->stack, record::current_parent(stack));
    }
  }
}

}  // namespace detail

bool add_stacks() {
  if (PyType_Ready(&g_token_type) != 0) return false;
  g_asyncio.variable = PyContextVar_New("sonde.stack", nullptr);
  return g_asyncio.variable != nullptr;
}

}  // namespace sonde::native
