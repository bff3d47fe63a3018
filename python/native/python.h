// What all files of this folder use of Python. Functions need the GIL unless they say otherwise.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace sonde::native {

// How many keyword arguments of a vectorcall follow the positional ones.
inline Py_ssize_t keyword_count(PyObject* keys) noexcept {
  return keys != nullptr ? PyTuple_GET_SIZE(keys) : 0;
}

// The name of a class without its module.
inline std::string_view class_name(const PyTypeObject* type) noexcept {
  const std::string_view full(type->tp_name);
  return full.substr(full.rfind('.') + 1);
}

// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) noexcept : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* taken = other.release();  // before the other, which may be this one, is overwritten
    Py_XDECREF(std::exchange(object_, taken));
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const noexcept { return object_; }
  PyObject* release() noexcept {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// What a weak reference refers to; empty once that is gone.
inline Ref weak_target(PyObject* reference) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(reference, &object) < 0) PyErr_Clear();
  return Ref(object);
#else
  PyObject* object = PyWeakref_GetObject(reference);
  return Ref(object == nullptr || object == Py_None ? nullptr : Py_NewRef(object));
#endif
}

// Whether a weak reference refers to this object, which is alive.
inline bool refers_to(PyObject* reference, PyObject* object) noexcept {
  return reinterpret_cast<PyWeakReference*>(reference)->wr_object == object;
}

// Puts the current exception aside while code of ours may raise, and restores it.
class KeepError {
 public:
  KeepError() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~KeepError() { PyErr_Restore(type_, value_, traceback_); }
  // Borrowed; nullptr where no exception was set.
  PyObject* type() const noexcept { return type_; }
  PyObject* value() const noexcept { return value_; }
  KeepError(const KeepError&) = delete;
  KeepError& operator=(const KeepError&) = delete;

 private:
  PyObject *type_, *value_, *traceback_;
};

inline PyThreadState* current_thread_state() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_GetUnchecked();
#else
  return _PyThreadState_UncheckedGet();
#endif
}

// Calls `work` on a string's UTF-8, also where it holds lone surrogates. False with an exception
// set.
template <typename Work>
bool with_utf8(PyObject* text, Work work) {
  Py_ssize_t length = 0;
  if (const char* data = PyUnicode_AsUTF8AndSize(text, &length)) {
    work(std::string_view(data, static_cast<std::size_t>(length)));
    return true;
  }
  PyErr_Clear();
  const Ref bytes(PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"));
  if (!bytes) return false;
  work(std::string_view(PyBytes_AS_STRING(bytes.get()),
                        static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()))));
  return true;
}

// A str; nullptr with an exception set. `errors` is as for bytes.decode().
inline PyObject* str_of(std::string_view utf8, const char* errors) noexcept {
  return PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), errors);
}

// An int, or None for the number that stands for none. Empty with an exception set.
inline Ref number_or_none(long long number, long long none) noexcept {
  return Ref(number == none ? Py_NewRef(Py_None) : PyLong_FromLongLong(number));
}

// For tables of methods, where a function has another signature than PyCFunction.
template <typename Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// A type with the fields that all types of this folder have. The caller sets the others and calls
// PyType_Ready.
inline PyTypeObject make_type(const char* name, std::size_t bytes, destructor dealloc,
                              unsigned long flags) noexcept {
  PyTypeObject type = {};
  type.ob_base = PyVarObject{PyObject_HEAD_INIT(nullptr) 0};
  type.tp_name = name;
  type.tp_basicsize = static_cast<Py_ssize_t>(bytes);
  type.tp_dealloc = dealloc;
  type.tp_flags = flags;
  return type;
}

// Warns the user. Never raises, not even under -W error, where warnings become exceptions.
void warn_user(const char* text) noexcept;

}  // namespace sonde::native
