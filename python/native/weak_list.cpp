#include "python/native/weak_list.h"

#include <algorithm>
#include <utility>

namespace sonde::native {

Ref WeakList::get(const Entry& entry) noexcept { return weak_target(entry.reference); }

WeakList::Entry* WeakList::note(PyObject* object, PyObject* gone) noexcept {
  const auto known = places_.find(object);
  if (known != places_.end()) {
    Entry& entry = entries_[known->second];
    if (refers_to(entry.reference, object)) return &entry;
  }
  const KeepError keep;
  PyObject* reference = PyWeakref_NewRef(object, gone);  // may run code that calls this
  if (reference == nullptr) return PyErr_Clear(), nullptr;
  if (entries_.size() >= most_) drop_dead();
  places_[object] = entries_.size();
  return &entries_.emplace_back(Entry{.reference = reference, .number = ++made_});
}

void WeakList::drop_dead() noexcept {
  std::vector<Entry> living;
  std::vector<PyObject*> dead;
  places_.clear();
  for (const Entry& entry : entries_) {
    if (const Ref object = get(entry)) {
      places_[object.get()] = living.size();
      living.push_back(entry);
    } else {
      dead.push_back(entry.reference);
    }
  }
  entries_ = std::move(living);
  most_ = std::max<std::size_t>(64, 2 * entries_.size());
  for (PyObject* reference : dead) Py_DECREF(reference);
}

PyObject* WeakList::alive() const {
  Ref list(PyList_New(0));
  for (std::size_t i = 0; list && i < entries_.size(); ++i) {
    const Ref object = get(entries_[i]);
    if (object && PyList_Append(list.get(), object.get()) != 0) return nullptr;
  }
  return list.release();
}

void WeakList::clear() noexcept {
  const std::vector<Entry> old = std::exchange(entries_, {});
  places_.clear();
  for (const Entry& entry : old) Py_DECREF(entry.reference);
}

}  // namespace sonde::native
