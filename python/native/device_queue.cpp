// What a framework without events says of its device: work handed over, work done.
#include "engine/probe/device_queue.h"

#include "engine/base/clock.h"
#include "python/native/hooks.h"

namespace sonde::native {

namespace {

PyObject* queue_watch(PyObject*, PyObject*) {
  probe::queue_watch();
  Py_RETURN_NONE;
}

PyObject* queue_unwatch(PyObject*, PyObject*) {
  probe::queue_unwatch();
  Py_RETURN_NONE;
}

PyObject* queue_submit(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(probe::queue_submit());
}

template <typename Tell>
PyObject* tell(PyObject* piece, Tell tell) {
  const std::uint64_t number = PyLong_AsUnsignedLongLong(piece);
  if (PyErr_Occurred() != nullptr) return nullptr;
  tell(number);
  Py_RETURN_NONE;
}

PyObject* queue_done(PyObject*, PyObject* piece) {
  const std::uint64_t now = base::monotonic_ns();
  return tell(piece, [now](std::uint64_t number) { probe::queue_done(number, now); });
}

PyObject* queue_abandon(PyObject*, PyObject* piece) { return tell(piece, probe::queue_abandon); }

PyMethodDef g_functions[] = {
    {"queue_watch", queue_watch, METH_NOARGS,
     "queue_watch()\n--\n\nFrom here on the work of a device is followed: scopes with gpu=True get "
     "their device time from that."},
    {"queue_unwatch", queue_unwatch, METH_NOARGS, "queue_unwatch()\n--\n\nNo longer."},
    {"queue_submit", queue_submit, METH_NOARGS,
     "queue_submit()\n--\n\nA piece of work was handed to the device; its number."},
    {"queue_done", queue_done, METH_O,
     "queue_done(piece)\n--\n\nThe device has just finished it. On any thread."},
    {"queue_abandon", queue_abandon, METH_O,
     "queue_abandon(piece)\n--\n\nNobody will say when it, or one before it, was finished."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_device_queue(PyObject* module) { return PyModule_AddFunctions(module, g_functions) == 0; }

}  // namespace sonde::native
