// A source that is neither a directory nor a journal, as a server will be.
#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/json_writer.h"
#include "engine/codec/encode.h"
#include "engine/codec/reader.h"
#include "engine/run/source.h"

namespace sonde::testing {

inline std::string json_of(const model::Batch& batch) {
  base::JsonWriter json;
  codec::encode_batch(json, batch);
  return std::string(json.view());
}

class MemorySource : public run::Source {
 public:
  // Filled anew each time it is inspected.
  using Make = std::function<void(run::Process&)>;

  void store(const std::string& key, std::string json, std::int64_t sealed_ns) {
    batch_keys_.push_back(key);
    batches_[key] = {std::move(json), sealed_ns};
  }
  // The same, but listed by the next refresh() only.
  void store_unlisted(const std::string& key, std::string json, std::int64_t sealed_ns) {
    unlisted_.push_back(key);
    batches_[key] = {std::move(json), sealed_ns};
  }
  // It was evicted after it was listed.
  void evict(const std::string& key) { batches_.erase(key); }
  void start(const std::string& key, Make make) {
    process_keys_.push_back(key);
    processes_[key] = std::move(make);
  }
  void vanish(const std::string& process) {
    std::erase(process_keys_, process);
    processes_.erase(process);
  }

  const std::string& name() const override { return name_; }
  base::Status refresh() override {
    batch_keys_.insert(batch_keys_.end(), unlisted_.begin(), unlisted_.end());
    unlisted_.clear();
    return refresh_fails;
  }
  std::span<const std::string> processes() const override { return process_keys_; }
  base::Status inspect(const std::string& process, run::Process& out) override {
    ++inspects;
    out = {};
    processes_.at(process)(out);
    return {};
  }
  std::span<const std::string> batches() const override { return batch_keys_; }
  base::Status read(const std::string& batch, run::Detail detail, model::Batch& out) override {
    ++reads;
    if (failing == batch) return {EIO, "cannot read " + batch};
    if (!batches_.contains(batch)) return {ENOENT, "cannot read " + batch};
    return reader_.read_text(batches_.at(batch).json, batch, out, detail);
  }
  std::int64_t sealed_ns(const std::string& batch) const override {
    return batches_.at(batch).sealed_ns;
  }

  int reads = 0;
  int inspects = 0;
  std::string failing;         // a batch that cannot be read now
  base::Status refresh_fails;  // what refresh() says

 private:
  struct Stored {
    std::string json;
    std::int64_t sealed_ns = std::numeric_limits<std::int64_t>::max();
  };
  std::string name_ = "memory";
  std::vector<std::string> batch_keys_, unlisted_, process_keys_;
  std::map<std::string, Stored> batches_;
  std::map<std::string, Make> processes_;
  codec::Reader reader_;
};

}  // namespace sonde::testing
