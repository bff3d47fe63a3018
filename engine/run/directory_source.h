// A run in an output directory: spool files, and the journals of processes that run or died.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/run/locate.h"
#include "engine/run/source.h"
#include "engine/spool/reader.h"

namespace sonde::run {

class DirectorySource : public Source {
 public:
  // A location that locate() has found.
  explicit DirectorySource(Location location) : location_(std::move(location)) {}

  const std::string& name() const override {
    return is_whole_run() ? location_.output_dir : location_.called;
  }
  const std::string& called() const override { return location_.called; }
  bool is_whole_run() const override { return !location_.output_dir.empty(); }
  base::Status refresh() override { return run::refresh(location_); }
  std::span<const std::string> processes() const override { return location_.journals; }
  base::Status inspect(const std::string& process, Process& out) override;
  std::span<const std::string> batches() const override { return location_.files; }
  base::Status read(const std::string& batch, Detail detail, model::Batch& out) override {
    return reader_.read(batch, out, detail);
  }
  // According to the name of the file.
  std::int64_t sealed_ns(const std::string& batch) const override;
  model::Recovery recover() override;

 private:
  Location location_;
  spool::FileReader reader_;
};

}  // namespace sonde::run
