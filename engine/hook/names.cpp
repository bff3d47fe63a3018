#include "engine/hook/names.h"

#include "engine/base/attr_names.h"
#include "engine/base/level_names.h"
#include "engine/base/placement.h"
#include "engine/record/names.h"

namespace sonde::hook {

SONDE_HOT_DATA Names g_names;

void intern_names() noexcept {
  if (g_names.epoch != 0) return;
  g_names.epoch = record::intern(base::kEpoch);
  g_names.step = record::intern(base::kStep);
  g_names.batch = record::intern(base::kBatch);
  g_names.validation = record::intern(base::kValidation);
  g_names.peek = record::intern("peek");
  g_names.data_load = record::intern(base::kDataLoad);
  g_names.forward = record::intern(base::kForward);
  g_names.backward = record::intern(base::kBackward);
  g_names.optimizer_step = record::intern(base::kOptimizerStep);
  g_names.train_mode = record::intern(base::kTrainModeMember);
  g_names.eval_mode = record::intern(base::kEvalModeMember);
  g_names.skipped = record::intern(base::kSkippedMember);
}

}  // namespace sonde::hook
