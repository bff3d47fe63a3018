#include "python/native/newest_batch.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace sonde::native {

namespace detail {
SONDE_HOT_DATA constinit NewestBatch g_newest;
}  // namespace detail

namespace {

// What is beyond these limits is not looked at.
constexpr std::size_t kMostParts = 64;
constexpr int kDepth = 2;

// Numbers, texts and types may be shared by unrelated containers, so they prove nothing.
bool tells_apart(PyObject* object) {
  return object != Py_None && !PyLong_Check(object) && !PyFloat_Check(object) &&
         !PyUnicode_Check(object) && !PyBytes_Check(object) && !PyType_Check(object);
}

// Lists the object and what is in it. Borrowed references: no code of the program runs meanwhile.
void collect(PyObject* object, int depth, std::vector<PyObject*>& parts) {
  if (parts.size() == kMostParts) return;
  const bool is_sequence = PyTuple_Check(object) || PyList_Check(object);
  const bool is_empty = is_sequence && PySequence_Fast_GET_SIZE(object) == 0;
  if (tells_apart(object) && !is_empty) parts.push_back(object);
  if (depth == 0) return;
  if (is_sequence) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      collect(PySequence_Fast_GET_ITEM(object, i), depth - 1, parts);
  } else if (PyDict_Check(object)) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(object, &at, &key, &value)) collect(value, depth - 1, parts);
  }
}

}  // namespace

void detail::compare_with_newest(hook::Training& training, PyObject* const* args,
                                 Py_ssize_t count) noexcept {
  std::vector<PyObject*> fetched, given;
  collect(g_newest.batch, kDepth, fetched);
  for (Py_ssize_t i = 0; i < count; ++i) collect(args[i], kDepth, given);
  if (std::ranges::find_first_of(given, fetched) == given.end()) return;
  training.use_newest(*g_newest.pass);
  drop_newest_batch();
}

void keep_newest_batch(hook::Pass& pass, PyObject* batch) noexcept {
  detail::g_newest.pass = &pass;
  Py_XDECREF(std::exchange(detail::g_newest.batch, Py_NewRef(batch)));
}

void drop_newest_batch() noexcept { Py_CLEAR(detail::g_newest.batch); }

}  // namespace sonde::native
