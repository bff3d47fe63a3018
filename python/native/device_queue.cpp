// For frameworks whose devices have no events: their hooks say when work was handed over and done.
#include <cstdint>

#include "engine/probe/device_queue.h"

#include "engine/base/clock.h"
#include "python/native/module.h"

namespace sonde::native {

namespace {

PyObject* watch_queue(PyObject*, PyObject*) {
  probe::queue_watch();
  Py_RETURN_NONE;
}

PyObject* unwatch_queue(PyObject*, PyObject*) {
  probe::queue_unwatch();
  Py_RETURN_NONE;
}

PyObject* begin_work(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(probe::queue_submit());
}

template <typename Tell>
PyObject* tell(PyObject* piece, Tell tell) {
  const std::uint64_t number = PyLong_AsUnsignedLongLong(piece);
  if (PyErr_Occurred() != nullptr) return nullptr;
  tell(number);
  Py_RETURN_NONE;
}

PyObject* end_work(PyObject*, PyObject* piece) {
  const std::uint64_t now = base::monotonic_ns();
  return tell(piece, [now](std::uint64_t number) { probe::queue_done(number, now); });
}

PyObject* abandon_work(PyObject*, PyObject* piece) { return tell(piece, probe::queue_abandon); }

PyMethodDef g_functions[] = {
    {"watch_queue", watch_queue, METH_NOARGS,
     "watch_queue()\n--\n\nFrom here on the work of a device is followed: scopes with gpu=True get "
     "their device time from that."},
    {"unwatch_queue", unwatch_queue, METH_NOARGS,
     "unwatch_queue()\n--\n\nEnds what watch_queue() began."},
    {"begin_work", begin_work, METH_NOARGS,
     "begin_work()\n--\n\nA piece of work was handed to the device; returns its number."},
    {"end_work", end_work, METH_O,
     "end_work(piece)\n--\n\nThe device has just finished this piece. May be called on any "
     "thread."},
    {"abandon_work", abandon_work, METH_O,
     "abandon_work(piece)\n--\n\nIt will never be known when this piece, or one before it, was "
     "finished."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_device_queue(PyObject* device) { return PyModule_AddFunctions(device, g_functions) == 0; }

}  // namespace sonde::native
