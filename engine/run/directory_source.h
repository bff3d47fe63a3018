// A run in an output directory: spool files, and the journals of processes that run or died.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "engine/run/locate.h"
#include "engine/run/source.h"
#include "engine/spool/reader.h"

namespace sonde::run {

class DirectorySource : public Source {
 public:
  // A place that locate() has found.
  explicit DirectorySource(Place place) : place_(std::move(place)) {}

  const std::string& name() const override { return place_.output_dir; }
  base::Status refresh() override { return run::refresh(place_); }
  std::span<const std::string> processes() const override { return place_.journals; }
  base::Status inspect(const std::string& process, Process& out) override;
  std::span<const std::string> batches() const override { return place_.files; }
  base::Status read(const std::string& batch, Detail detail, model::Batch& out) override {
    return reader_.read(batch, out, detail);
  }
  // As the name of the file tells.
  std::int64_t sealed_ns(const std::string& batch) const override;
  Recovery recover() override { return recover_directory(place_.output_dir); }

 private:
  Place place_;
  spool::FileReader reader_;
};

}  // namespace sonde::run
