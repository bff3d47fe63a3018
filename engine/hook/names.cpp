#include "engine/hook/names.h"

#include "engine/base/placement.h"
#include "engine/record/names.h"

namespace sonde::hook {

SONDE_HOT_DATA Names g_names;

void intern_names() noexcept {
  if (g_names.epoch != 0) return;
  g_names.epoch = record::intern("epoch");
  g_names.step = record::intern("step");
  g_names.batch = record::intern("batch");
  g_names.validation = record::intern("validation");
  g_names.peek = record::intern("peek");
  g_names.data_load = record::intern("data_load");
  g_names.forward = record::intern("forward");
  g_names.backward = record::intern("backward");
  g_names.optimizer_step = record::intern("optimizer_step");
  g_names.train_mode = record::intern(R"("mode":"train")");
  g_names.eval_mode = record::intern(R"("mode":"eval")");
  g_names.skipped = record::intern(R"("skipped":true)");
}

}  // namespace sonde::hook
