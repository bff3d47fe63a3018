#include "python/native/newest_batch.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace sonde::native {

SONDE_HOT_DATA constinit bool NewestBatches::any_ = false;

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

// Never destroyed: iterators may die after static destructors ran.
std::vector<NewestBatches::Kept>& NewestBatches::kept() noexcept {
  static auto* all = new std::vector<Kept>;
  return *all;
}

// What is dropped dies last, because that may run code that calls this again.
template <typename Goes>
void NewestBatches::drop(Goes goes) noexcept {
  std::vector<Kept> stay, gone;
  for (Kept& each : kept()) (goes(each) ? gone : stay).push_back(std::move(each));
  kept() = std::move(stay);
  any_ = !kept().empty();
}

void NewestBatches::compare(hook::Training& training, PyObject* const* args,
                            Py_ssize_t count) noexcept {
  const auto ours =
      std::ranges::find_if(kept(), [&](const Kept& each) { return training.has(*each.pass); });
  if (ours == kept().end()) return;
  std::vector<PyObject*> fetched, given;
  collect(ours->batch.get(), kDepth, fetched);
  for (Py_ssize_t i = 0; i < count; ++i) collect(args[i], kDepth, given);
  if (std::ranges::find_first_of(given, fetched) == given.end()) return;
  training.use_newest(*ours->pass);
  drop_of(*ours->pass);
}

void NewestBatches::keep(hook::Pass& pass, PyObject* batch) noexcept {
  drop([&](const Kept& each) { return each.pass->seen == pass.seen; });
  kept().push_back({&pass, Ref(Py_NewRef(batch))});
  any_ = true;
}

void NewestBatches::drop_before(const hook::Pass& fetching) noexcept {
  // A pass whose session is over belongs to no training loop.
  drop([&](const Kept& each) {
    return each.pass->seen == fetching.seen || each.pass->seen == nullptr;
  });
}

void NewestBatches::drop_of(const hook::Pass& pass) noexcept {
  drop([&](const Kept& each) { return each.pass == &pass; });
}

}  // namespace sonde::native
