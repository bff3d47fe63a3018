#include "python/native/torch_use.h"

#include <utility>

#include "engine/base/swallowed.h"
#include "python/native/callbacks.h"
#include "python/native/gpu_watch.h"
#include "python/native/module.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

PyObject* on_first_use(PyObject*, PyObject* callback) {
  TorchUse::await(callback == Py_None ? nullptr : callback);
  Py_RETURN_NONE;
}

PyObject* find_functions(PyObject*, PyObject*) {
  if (!attach_torch()) return nullptr;
  begin_gpu_watch();
  Py_RETURN_NONE;
}

PyObject* forget_functions(PyObject*, PyObject*) {
  end_gpu_watch();
  detach_torch();
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"on_first_use", on_first_use, METH_O,
     "on_first_use(callback)\n--\n\n"
     "Calls callback once, when torch's hooks first have something to record; None: never."},
    {"find_functions", find_functions, METH_NOARGS,
     "find_functions()\n--\n\nLooks up what the hooks ask of torch on every step."},
    {"forget_functions", forget_functions, METH_NOARGS,
     "forget_functions()\n--\n\nThe hooks ask torch nothing any more."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

constinit bool TorchUse::awaited_ = false;
constinit PyObject* TorchUse::on_use_ = nullptr;

void TorchUse::await(PyObject* callback) noexcept {
  awaited_ = callback != nullptr;
  Py_XDECREF(std::exchange(on_use_, Py_XNewRef(callback)));
}

void TorchUse::tell() noexcept {
  awaited_ = false;
  const KeepError keep;
  const Ref callback(std::exchange(on_use_, nullptr));
  const Ref done(callback ? PyObject_CallNoArgs(callback.get()) : nullptr);
  if (!done && drop_error()) base::note_swallowed("facts");
}

bool add_torch_use(PyObject* torch) {
  torch_names();  // before any hook needs them
  return PyModule_AddFunctions(torch, g_functions) == 0;
}

}  // namespace sonde::native
