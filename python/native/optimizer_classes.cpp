#include "python/native/optimizer_classes.h"

#include <cstdint>
#include <vector>

#include "engine/base/attr_names.h"
#include "engine/base/json_writer.h"
#include "engine/record/names.h"

namespace sonde::native {

SONDE_HOT_DATA std::vector<OptimizerClasses::Known> OptimizerClasses::known_;

std::uint32_t OptimizerClasses::learn(PyTypeObject* type) noexcept {
  if (known_.size() == kMost) return 0;
  base::JsonWriter members;
  members.string(base::kOptimizerAttr);
  members.raw(':');
  members.string(class_name(type));
  Py_INCREF(type);
  known_.push_back({type, record::intern(members.view())});
  return known_.back().attrs;
}

}  // namespace sonde::native
