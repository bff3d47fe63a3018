// Captures that were taken one after another, as one.
#include "engine/snapshot/join.h"

#include <cstring>

#include <gtest/gtest.h>

namespace sonde::snapshot {
namespace {

Capture capture_of(std::vector<std::string> names, std::string attrs) {
  Capture capture;
  auto catalogue = std::make_shared<Catalogue>();
  for (std::string& name : names) catalogue->push_back({std::move(name), "float32", {1}, ""});
  capture.catalogue = std::move(catalogue);
  capture.statistics.resize(names.size());
  capture.attrs = std::move(attrs);
  capture.kind = Kind::kGradients;
  return capture;
}

Statistics with_count(std::uint64_t count) {
  Statistics all;
  all.count = count;
  return all;
}

std::vector<Capture> list(Capture a, Capture b) {
  std::vector<Capture> all;
  all.push_back(std::move(a));
  all.push_back(std::move(b));
  return all;
}

TEST(Join, RecordsKeepTheirOrderAndTheirAttributes) {
  Capture a = capture_of({"a", "b"}, R"("taken":"x")");
  a.statistics[1] = with_count(7);
  a.in_blob = {true, false};
  Capture b = capture_of({"c"}, "");
  b.ts_ns = 9;
  const Capture whole = join(list(std::move(a), std::move(b)));
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ((*whole.catalogue)[0].name, "a");
  EXPECT_EQ((*whole.catalogue)[1].attrs, R"("taken":"x")");
  EXPECT_EQ((*whole.catalogue)[2].attrs, "");
  EXPECT_EQ(whole.attrs, "");
  EXPECT_FALSE(whole.statistics[0]);
  EXPECT_EQ(whole.statistics[1]->count, 7u);
  EXPECT_EQ(whole.in_blob, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(whole.kind, Kind::kGradients);
  EXPECT_EQ(whole.ts_ns, 9);
  EXPECT_EQ(whole.pending, nullptr);
}

TEST(Join, EntriesKeepAttributesOfTheirOwn) {
  Capture a = capture_of({"a"}, R"("y":2)");
  auto catalogue = std::make_shared<Catalogue>(*a.catalogue);
  (*catalogue)[0].attrs = R"("x":1)";
  a.catalogue = catalogue;
  const Capture whole = join(list(std::move(a), capture_of({"b"}, "")));
  EXPECT_EQ((*whole.catalogue)[0].attrs, R"("x":1,"y":2)");
}

class Later : public Pending {
 public:
  explicit Later(const bool& ready) : ready_(ready) {}
  bool ready() noexcept override { return ready_; }
  void complete(Capture& capture, bool give_up) noexcept override {
    if (!give_up) capture.statistics.assign(capture.size(), with_count(42));
  }

 private:
  const bool& ready_;
};

TEST(Join, StatisticsToComeAreWaitedForTogether) {
  for (const bool give_up : {false, true}) {
    bool first = false, second = true;
    Capture a = capture_of({"a", "b"}, ""), b = capture_of({"c"}, ""), c = capture_of({"d"}, "");
    a.pending = std::make_unique<Later>(first);
    b.statistics[0] = with_count(5);
    c.pending = std::make_unique<Later>(second);
    auto parts = list(std::move(a), std::move(b));
    parts.push_back(std::move(c));
    Capture whole = join(std::move(parts));
    ASSERT_NE(whole.pending, nullptr);
    EXPECT_FALSE(whole.pending->ready());
    first = true;
    EXPECT_TRUE(whole.pending->ready());
    whole.pending->complete(whole, give_up);
    EXPECT_EQ(whole.statistics[1].has_value(), !give_up);
    EXPECT_EQ(whole.statistics[2]->count, 5u);
    EXPECT_EQ(whole.statistics[3].has_value(), !give_up);
    EXPECT_EQ(whole.statistics[3].value_or(Statistics{}).count, give_up ? 0u : 42u);
  }
}

// Hands its bytes over in pieces of three.
class Bytes : public BlobSource {
 public:
  Bytes(std::vector<SafeTensor> tensors, std::string bytes)
      : tensors_(std::move(tensors)), bytes_(std::move(bytes)) {}
  std::span<const SafeTensor> tensors() const noexcept override { return tensors_; }
  base::Status next(std::span<const std::byte>& piece) noexcept override {
    const std::size_t size = std::min<std::size_t>(3, bytes_.size() - at_);
    piece = std::as_bytes(std::span(bytes_).subspan(at_, size));
    at_ += size;
    return {};
  }

 private:
  std::vector<SafeTensor> tensors_;
  std::string bytes_;
  std::size_t at_ = 0;
};

std::string drain(BlobSource& source) {
  std::string all;
  while (true) {
    std::span<const std::byte> piece;
    if (!source.next(piece).ok()) return all + "!";
    if (piece.empty()) return all;
    all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
}

TEST(Join, BytesFollowTheWidthOfTheirElements) {
  std::vector<std::unique_ptr<BlobSource>> parts;
  parts.push_back(std::make_unique<Bytes>(
      std::vector<SafeTensor>{{"a", "F32", {2}}, {"b", "U8", {3}}}, "aaaaAAAAbcd"));
  parts.push_back(nullptr);
  parts.push_back(std::make_unique<Bytes>(
      std::vector<SafeTensor>{{"c", "F32", {1}}, {"d", "BF16", {1}}, {"e", "U8", {0}}}, "ccccdd"));
  const auto whole = join(std::move(parts));
  ASSERT_EQ(whole->tensors().size(), 5u);
  std::string names;
  for (const SafeTensor& tensor : whole->tensors()) names += tensor.name;
  EXPECT_EQ(names, "acdbe");
  EXPECT_EQ(drain(*whole), "aaaaAAAAccccddbcd");
}

TEST(Join, PartThatEndsEarlyIsAFailure) {
  std::vector<std::unique_ptr<BlobSource>> parts;
  parts.push_back(std::make_unique<Bytes>(std::vector<SafeTensor>{{"a", "F32", {2}}}, "aaaa"));
  parts.push_back(std::make_unique<Bytes>(std::vector<SafeTensor>{{"b", "U8", {1}}}, "b"));
  EXPECT_EQ(drain(*join(std::move(parts))), "aaaa!");
}

TEST(Join, NothingIsNothing) {
  EXPECT_EQ(join(std::vector<std::unique_ptr<BlobSource>>{}), nullptr);
  std::vector<std::unique_ptr<BlobSource>> empty;
  empty.push_back(nullptr);
  EXPECT_EQ(join(std::move(empty)), nullptr);
}

}  // namespace
}  // namespace sonde::snapshot
