// Attributes of the spans of optimizers: the name of the class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/placement.h"
#include "python/native/python.h"

namespace sonde::native {

// One per process. Needs the GIL.
class OptimizerClasses {
 public:
  // Interned attributes for optimizers of this class; 0: too many classes are known. Hot.
  static std::uint32_t attrs_of(PyTypeObject* type) noexcept {
    for (const Known& known : known_) {
      if (known.type == type) return known.attrs;
    }
    return learn(type);
  }

 private:
  // Classes are few and live long: they are kept.
  static constexpr std::size_t kMost = 256;
  struct Known {
    PyTypeObject* type;
    std::uint32_t attrs;
  };
  SONDE_COLD static std::uint32_t learn(PyTypeObject* type) noexcept;

  static std::vector<Known> known_;
};

}  // namespace sonde::native
