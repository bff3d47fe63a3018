#include "engine/spool/recovery.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/base/status.h"
#include "engine/codec/encode.h"
#include "engine/journal/destination.h"
#include "engine/journal/inspect.h"
#include "engine/journal/recover.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/spool/directory.h"

namespace sonde::spool {

namespace {

// The spool as the destination of a journal's batches. Nothing is evicted: the next session that
// writes there keeps to the cap.
class SpoolDestination : public journal::Destination {
 public:
  explicit SpoolDestination(const std::string& output_dir)
      : directory_(output_dir, ~std::uint64_t{0}) {}

  std::string_view name() const noexcept override { return "the spool"; }
  bool contains(std::int64_t created_ns, const base::Id& batch_id) const override {
    return directory_.contains(created_ns, batch_id);
  }
  base::Status write(const model::Batch& batch) override {
    json_.clear();
    codec::encode_batch(json_, batch);
    base::Status status = directory_.write(batch.created_ns, batch.batch_id, json_.view());
    if (status.ok()) files_.push_back(batch_file_name(batch.created_ns, batch.batch_id));
    return status;
  }
  std::vector<std::string> take_files() { return std::move(files_); }

 private:
  Directory directory_;
  base::JsonWriter json_;
  std::vector<std::string> files_;
};

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

base::Status inspect_journal(const std::string& path, model::Process& out) {
  return journal::inspect(path, SpoolDestination(folder_of(folder_of(path))), out);
}

model::Recovery recover_directory(const std::string& output_dir, const std::string& own) {
  SpoolDestination spool(output_dir);
  const std::string live = base::join_path(output_dir, journal::kLiveFolder);
  model::Recovery result = journal::recover(live, own, spool);
  result.files = spool.take_files();
  return result;
}

}  // namespace sonde::spool
