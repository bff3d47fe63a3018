// Blobs, from memory to the file; a test that makes a thread runs in a child process.
#include "engine/snapshot/blob.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "engine/base/log.h"
#include "engine/snapshot/blob_copy.h"
#include "engine/snapshot/blob_file.h"
#include "tests/engine/support/child.h"
#include "tests/engine/support/refuse.h"
#include "tests/engine/support/temp_dir.h"

namespace sonde::snapshot {
namespace {

using testing::Child;
using testing::in_child;
using testing::TempDir;

constexpr base::Id kSpan{1, 2};
const std::string kFolder = "00000000000000010000000000000002";

std::vector<std::string>& spoken() {
  static auto* all = new std::vector<std::string>;
  return *all;
}

void listen() {
  spoken().clear();
  base::reset_log();
  base::set_log_handler(
      [](base::LogLevel, std::string_view, std::string_view text) { spoken().emplace_back(text); });
}

bool said(std::string_view part) {
  return std::any_of(spoken().begin(), spoken().end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As many bytes as asked for, in pieces, with a pause after each.
class Endless : public BlobSource {
 public:
  explicit Endless(std::int64_t bytes, int pause_us = 0)
      : tensors_{{"w", "U8", {bytes}}}, left_(bytes), pause_us_(pause_us) {}
  std::span<const SafeTensor> tensors() const noexcept override { return tensors_; }
  base::Status next(std::span<const std::byte>& piece) noexcept override {
    if (pause_us_ != 0) ::usleep(static_cast<useconds_t>(pause_us_));
    piece = {data_.data(), std::min<std::size_t>(data_.size(), static_cast<std::size_t>(left_))};
    left_ -= static_cast<std::int64_t>(piece.size());
    return {};
  }

 private:
  std::vector<SafeTensor> tensors_;
  std::vector<std::byte> data_ = std::vector<std::byte>(1 << 20, std::byte{7});
  std::int64_t left_;
  int pause_us_;
};

std::unique_ptr<BlobSource> copy_of(const std::vector<float>& values, const std::string& name) {
  const std::int64_t size = static_cast<std::int64_t>(values.size());
  const Tensor tensor{values.data(), Element::kFloat32, 1, &size, nullptr};
  return BlobCopy::take({}, {{name, "F32", {size}}}, {&tensor, 1});
}

// Waits until it is done with, and completes a capture with it.
Capture settled(std::unique_ptr<Pending> blob) {
  Capture capture;
  for (int i = 0; i < 90'000 && !blob->ready(); ++i) ::usleep(1000);
  EXPECT_TRUE(blob->ready());
  blob->complete(capture, false);
  return capture;
}

TEST(BlobCopy, EveryLayoutBecomesContiguous) {
  std::mt19937 random(4);
  std::vector<std::int64_t> memory(4096);
  std::iota(memory.begin(), memory.end(), 0);
  for (int round = 0; round < 500; ++round) {
    const std::uint32_t rank = random() % 5;
    std::vector<std::int64_t> sizes(rank), strides(rank), order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::int64_t stride = 1;
    for (const std::int64_t d : order) {
      const auto at = static_cast<std::size_t>(d);
      sizes[at] = static_cast<std::int64_t>(random() % 5) - (random() % 16 != 0 ? -1 : 0);
      sizes[at] = std::max<std::int64_t>(sizes[at], 0);
      strides[at] = random() % 8 == 0 ? 0 : stride;
      stride *= std::max<std::int64_t>(sizes[at], 1) + (random() % 4 == 0 ? 1 : 0);
    }
    std::vector<std::int64_t> expected;
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t rest = n, at = 0;
      for (std::uint32_t d = rank; d-- > 0; rest /= sizes[d]) at += rest % sizes[d] * strides[d];
      expected.push_back(memory[static_cast<std::size_t>(at)]);
    }
    const Tensor tensor{memory.data(), Element::kInt64, rank, sizes.data(), strides.data()};
    std::vector<std::int64_t> got(expected.size() + 1, -1);
    std::byte* end = copy_elements(tensor, reinterpret_cast<std::byte*>(got.data()));
    EXPECT_EQ(end, reinterpret_cast<std::byte*>(got.data() + expected.size()));
    EXPECT_EQ(got.back(), -1);
    got.pop_back();
    ASSERT_EQ(got, expected) << "round " << round;
  }
}

TEST(BlobCopy, TensorsLieOneBehindTheOther) {
  std::vector<std::uint32_t> memory(2 << 20);
  std::iota(memory.begin(), memory.end(), 0u);
  const std::int64_t sizes[] = {1 << 10, 1 << 10}, strides[] = {1, 1 << 10};
  const std::vector<Tensor> tensors = {
      {memory.data(), Element::kUInt32, 2, sizes, strides},
      {memory.data() + (1 << 20), Element::kUInt32, 2, sizes, nullptr}};
  const SafeTensor described{"w", "U32", {sizes[0], sizes[1]}};
  const auto copy = BlobCopy::take({}, {described, described}, tensors);
  std::string all;
  for (std::span<const std::byte> piece; copy->next(piece).ok() && !piece.empty();)
    all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  ASSERT_EQ(all.size(), std::size_t{8} << 20);
  std::uint32_t second = 0;
  std::memcpy(&second, all.data() + 4, sizeof second);
  EXPECT_EQ(second, 1u << 10) << "the first one is transposed";
  EXPECT_EQ(std::memcmp(all.data() + (4 << 20), memory.data() + (1 << 20), 4 << 20), 0);
}

TEST(BlobCopy, ForkedChildDoesNotHoldIt) {
  const std::vector<float> values(1 << 20, 1.0f);
  const auto copy = copy_of(values, "w");
  std::span<const std::byte> piece;
  ASSERT_TRUE(copy->next(piece).ok());
  Child child([&](const Child::Say&) {
    ::signal(SIGSEGV, SIG_DFL);  // the sanitizers' handler would print
    // Nothing is there, or, where a sanitizer has put its own into the gap, something else.
    if (std::memcmp(piece.data(), values.data(), piece.size()) != 0) ::_exit(1);
  });
  const int status = child.wait();
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the pages are there";
}

TEST(BlobWriter, FileHasTheHeadAndTheBytes) {
  const TempDir dir;
  in_child([&] {
    std::atomic<int> woken{0};
    BlobWriter writer(dir / "with space", {}, [&] { woken.fetch_add(1); });
    const std::vector<float> values = {1.5f, -2.0f, 0.0f};
    const Capture done = settled(writer.write(kSpan, Kind::kGradients, copy_of(values, "w")));
    const std::string path = dir / "with space/" + kFolder + "/gradients.safetensors";
    std::string uri = "file://" + path;
    uri.replace(uri.find(' '), 1, "%20");
    EXPECT_EQ(done.blob_uri, uri);
    std::string expected = safetensors_head(std::vector<SafeTensor>{{"w", "F32", {3}}});
    expected.append(reinterpret_cast<const char*>(values.data()), 12);
    EXPECT_EQ(contents(path), expected);
    EXPECT_EQ(writer.written(), 1u);
    writer.stop();
    EXPECT_EQ(woken.load(), 1);
    EXPECT_EQ(testing::files_in(dir / "with space", ".tmp").size(), 0u);
  });
}

TEST(BlobWriter, SecondOneOfASpanHasANameOfItsOwn) {
  const TempDir dir;
  in_child([&] {
    BlobWriter writer(dir.path(), {}, nullptr);
    const auto first = settled(writer.write(kSpan, Kind::kWeights, copy_of({1}, "a")));
    const auto second = settled(writer.write(kSpan, Kind::kWeights, copy_of({1, 2}, "b")));
    EXPECT_TRUE(first.blob_uri.ends_with("/weights.safetensors"));
    EXPECT_TRUE(second.blob_uri.ends_with("/weights-2.safetensors"));
    EXPECT_LT(contents(dir / kFolder + "/weights.safetensors").size(),
              contents(dir / kFolder + "/weights-2.safetensors").size());
  });
}

TEST(BlobWriter, MuchIsSaidWithBytesAndParameters) {
  const TempDir dir;
  in_child([&] {
    listen();
    BlobWriter writer(dir.path(), {}, nullptr);
    writer.hurry();
    for (std::uint64_t span = 0; span < 2; ++span)
      settled(writer.write({3, span}, Kind::kWeights, std::make_unique<Endless>(60'000'000)));
    EXPECT_TRUE(spoken().empty()) << "each span for itself";
    for (std::uint64_t span = 0; span < 2; ++span) {
      auto weights = writer.write({4, span}, Kind::kWeights, std::make_unique<Endless>(60'000'000));
      auto gradients =
          writer.write({4, span}, Kind::kGradients, std::make_unique<Endless>(40'000'000));
      settled(std::move(weights));
      settled(std::move(gradients));
    }
    ASSERT_EQ(spoken().size(), 1u);
    EXPECT_TRUE(said("one snapshot takes 100,000,000 bytes (60,000,000 parameters)"))
        << spoken()[0];
  });
}

TEST(BlobWriter, BeyondTheBoundNothingIsCopied) {
  const TempDir dir;
  in_child([&] {
    listen();
    BlobWriter writer(dir.path(), {.max_waiting_bytes = 1000}, nullptr);
    {
      const BlobRoom room = writer.reserve(600);
      EXPECT_TRUE(room);
      EXPECT_FALSE(writer.reserve(401));
      EXPECT_FALSE(writer.reserve(1001));
      EXPECT_TRUE(writer.reserve(400));
    }
    EXPECT_TRUE(writer.reserve(1000)) << "what goes away gives its room back";
    ASSERT_EQ(spoken().size(), 1u);
    EXPECT_TRUE(said("600 bytes already wait to be written, and the limit is 1,000"))
        << spoken()[0];
    BlobWriter huge(dir.path(), {.max_waiting_bytes = ~std::uint64_t{0}}, nullptr);
    EXPECT_FALSE(huge.reserve(std::uint64_t{1} << 46)) << "no machine has that much free";
  });
}

void expect_lost(BlobWriter& writer, std::unique_ptr<Pending> blob, std::string_view why) {
  const Capture done = settled(std::move(blob));
  EXPECT_EQ(done.blob_uri, "");
  EXPECT_EQ(writer.lost(), 1u);
  EXPECT_EQ(writer.written(), 0u);
  EXPECT_TRUE(said(why)) << (spoken().empty() ? "" : spoken()[0]);
  EXPECT_TRUE(said("statistics are kept"));
}

TEST(BlobWriter, FullDiskIsNotFilled) {
  TempDir dir;
  if (!dir.mount_small(96 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    listen();
    BlobWriter writer(dir.path(), {}, nullptr);
    expect_lost(writer, writer.write(kSpan, Kind::kWeights, std::make_unique<Endless>(40 << 20)),
                "No space left on device");
    EXPECT_FALSE(std::filesystem::exists(dir / kFolder));
    const auto small = settled(writer.write(kSpan, Kind::kWeights, copy_of({1}, "w")));
    EXPECT_NE(small.blob_uri, "") << "the next one may fit";
  });
}

// Another program fills the disk while the file is being written.
TEST(BlobWriter, DiskThatFillsUpMeanwhile) {
  TempDir dir;
  if (!dir.mount_small(128 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    listen();
    BlobWriter writer(dir.path(), {}, nullptr);
    auto blob = writer.write(kSpan, Kind::kWeights, std::make_unique<Endless>(60 << 20, 5'000));
    ::usleep(50'000);
    const int other = ::open((dir / "other").c_str(), O_WRONLY | O_CREAT, 0666);
    ASSERT_EQ(::posix_fallocate(other, 0, 100 << 20), 0);
    expect_lost(writer, std::move(blob), "No space left on device");
    EXPECT_FALSE(std::filesystem::exists(dir / kFolder));
    struct stat info;
    EXPECT_EQ(::fstat(other, &info), 0);
    EXPECT_EQ(::posix_fallocate(other, 0, 120 << 20), 0) << "what it had is free again";
  });
}

TEST(BlobWriter, FileSizeLimit) {
  const TempDir dir;
  in_child([&] {
    listen();
    const rlimit limit{1 << 20, 1 << 20};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    BlobWriter writer(dir.path(), {}, nullptr);
    expect_lost(writer, writer.write(kSpan, Kind::kWeights, std::make_unique<Endless>(8 << 20)),
                "File too large");
    EXPECT_FALSE(std::filesystem::exists(dir / kFolder));
  });
}

TEST(BlobWriter, UnusableDirectory) {
  const TempDir dir;
  std::ofstream(dir / "file") << "in the way";
  in_child([&] {
    listen();
    BlobWriter writer(dir / "file", {}, nullptr);
    expect_lost(writer, writer.write(kSpan, Kind::kWeights, copy_of({1}, "w")), "cannot");
  });
}

TEST(BlobWriter, ReadOnlyFileSystem) {
  TempDir dir;
  if (!dir.mount_small(1 << 20) || !dir.remount_read_only())
    GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    listen();
    BlobWriter writer(dir / "snapshots", {}, nullptr);
    expect_lost(writer, writer.write(kSpan, Kind::kWeights, copy_of({1}, "w")),
                "Read-only file system");
  });
}

TEST(BlobWriter, GivenUpOneLeavesNothing) {
  const TempDir dir;
  in_child([&] {
    listen();
    BlobWriter writer(dir.path(), {}, nullptr);
    auto blob = writer.write(kSpan, Kind::kWeights, std::make_unique<Endless>(1 << 30, 20'000));
    auto behind = writer.write(kSpan, Kind::kGradients, copy_of({1}, "w"));
    ::usleep(100'000);
    Capture capture;
    blob->complete(capture, true);
    EXPECT_EQ(capture.blob_uri, "");
    EXPECT_TRUE(said("the session ended before"));
    EXPECT_NE(settled(std::move(behind)).blob_uri, "") << "the next one has its turn";
    writer.stop();
    EXPECT_EQ(testing::files_in(dir / kFolder).size(), 1u);
  });
}

TEST(BlobWriter, OneThatNobodyCompletesIsCounted) {
  const TempDir dir;
  in_child([&] {
    BlobWriter writer(dir.path(), {}, nullptr);
    writer.write(kSpan, Kind::kWeights, std::make_unique<Endless>(1 << 30, 20'000));
    EXPECT_EQ(writer.lost(), 1u);
    settled(writer.write(kSpan, Kind::kWeights, copy_of({1}, "w")));
    EXPECT_EQ(writer.lost(), 1u);
    EXPECT_EQ(writer.written(), 1u);
  });
}

TEST(BlobWriter, StopDoesNotWaitForASlowDisk) {
  const TempDir dir;
  in_child([&] {
    listen();
    const auto start = std::chrono::steady_clock::now();
    std::unique_ptr<Pending> blob;
    {
      BlobWriter writer(dir.path(), {}, nullptr);
      blob = writer.write(kSpan, Kind::kWeights, std::make_unique<Endless>(1 << 30, 30'000'000));
      ::usleep(20'000);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    Capture capture;
    blob->complete(capture, true);
    ASSERT_EQ(spoken().size(), 1u);
    EXPECT_TRUE(spoken()[0].starts_with("the session ended before")) << spoken()[0];
  });
}

TEST(BlobWriter, WhatComesAfterStopIsGivenUp) {
  const TempDir dir;
  in_child([&] {
    listen();
    BlobWriter writer(dir.path(), {}, nullptr);
    writer.stop();
    const Capture late = settled(writer.write(kSpan, Kind::kWeights, copy_of({1}, "w")));
    EXPECT_EQ(late.blob_uri, "");
    EXPECT_EQ(writer.lost(), 1u);
    ASSERT_EQ(spoken().size(), 1u);
    EXPECT_TRUE(spoken()[0].starts_with("the session ended before")) << spoken()[0];
  });
}

// A full or broken disk may take a write and refuse it later, on its way out.
void expect_lost_where(unsigned call, int error) {
  const TempDir dir;
  in_child([&] {
    if (!testing::refuse(call, error)) GTEST_SKIP() << "cannot filter calls here";
    listen();
    BlobWriter writer(dir.path(), {}, nullptr);
    expect_lost(writer, writer.write(kSpan, Kind::kWeights, std::make_unique<Endless>(4 << 20)),
                std::strerror(error));
    EXPECT_FALSE(std::filesystem::exists(dir / kFolder)) << "a broken file has a name";
  });
}

TEST(BlobWriter, WhatTheDiskRefusesLaterIsLost) {
  for (const unsigned call : {SYS_sync_file_range, SYS_fdatasync})
    for (const int error : {EIO, ENOSPC, EDQUOT}) expect_lost_where(call, error);
}

TEST(BlobWriter, WhereNothingCanBeSyncedItIsWrittenAllTheSame) {
  const TempDir dir;
  in_child([&] {
    for (const unsigned call : {SYS_sync_file_range, SYS_fdatasync})
      if (!testing::refuse(call, ENOSYS)) GTEST_SKIP() << "cannot filter calls here";
    BlobWriter writer(dir.path(), {}, nullptr);
    EXPECT_NE(settled(writer.write(kSpan, Kind::kWeights, copy_of({1}, "w"))).blob_uri, "");
  });
}

TEST(BlobWriter, WithoutAThreadItIsLost) {
  const TempDir dir;
  in_child([&] {
    listen();
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    BlobWriter writer(dir.path(), {}, nullptr);
    expect_lost(writer, writer.write(kSpan, Kind::kWeights, copy_of({1}, "w")),
                "cannot start a thread");
    settled(writer.write(kSpan, Kind::kWeights, copy_of({1}, "w")));
    EXPECT_EQ(writer.lost(), 2u);
    const auto start = std::chrono::steady_clock::now();
    writer.stop();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1))
        << "no one to wait for";
  });
}

TEST(BlobWriter, KilledProcessLeavesNoHalfFile) {
  for (int round = 0; round < 10; ++round) {
    const TempDir dir;
    Child child([&](const Child::Say& say) {
      BlobWriter writer(dir.path(), {}, nullptr);
      std::vector<std::unique_ptr<Pending>> all;
      for (std::uint64_t i = 0; i < 200; ++i)
        all.push_back(writer.write({1, i}, Kind::kWeights, std::make_unique<Endless>(1 << 20)));
      while (!all[0]->ready()) ::usleep(100);
      say();
      testing::sleep_for_ever();
    });
    ASSERT_TRUE(child.heard());
    ::usleep(static_cast<useconds_t>(round) * 3'000);
    child.kill_and_wait();
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
      if (entry.is_directory()) continue;
      ++found;
      EXPECT_EQ(entry.path().extension(), ".safetensors");
      const std::string head = safetensors_head(std::vector<SafeTensor>{{"w", "U8", {1 << 20}}});
      EXPECT_EQ(entry.file_size(), head.size() + (1 << 20)) << entry.path();
    }
    EXPECT_GT(found, 0u);
  }
}

TEST(BlobFile, OldLeftoversAreRemovedAndLiveOnesAreNot) {
  const TempDir dir;
  for (const char* name : {"old.tmp", "young.tmp", "locked.tmp"}) std::ofstream(dir / name) << "x";
  const utimbuf past{1'000'000, 1'000'000};
  ::utime((dir / "old.tmp").c_str(), &past);
  ::utime((dir / "locked.tmp").c_str(), &past);
  const base::Fd owner(::open((dir / "locked.tmp").c_str(), O_RDONLY));
  ASSERT_EQ(::flock(owner.get(), LOCK_EX), 0);
  BlobFile::clean(dir.path());
  EXPECT_EQ(testing::files_in(dir.path(), ".tmp"),
            (std::vector<std::string>{dir / "locked.tmp", dir / "young.tmp"}));
}

// No /proc, so that a file without a name could not be given one.
bool hide_proc() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/proc", "tmpfs", 0, nullptr) == 0;
}

TEST(BlobFile, WhereFilesNeedANameTheyHaveATemporaryOne) {
  const TempDir dir;
  in_child([&] {
    if (!hide_proc()) GTEST_SKIP() << "cannot mount here";
    std::string path;
    for (const char* expected : {"weights.safetensors", "weights-2.safetensors"}) {
      BlobFile file;
      ASSERT_TRUE(file.open(dir.path(), 3).ok());
      ASSERT_EQ(testing::files_in(dir.path(), ".tmp").size(), 1u);
      ASSERT_TRUE(file.append(std::as_bytes(std::span("abc", 3))).ok());
      ASSERT_TRUE(file.publish("span", "weights", path).ok());
      EXPECT_EQ(path, dir / "span/" + expected);
      EXPECT_EQ(contents(path), "abc");
    }
    {
      BlobFile dropped;
      ASSERT_TRUE(dropped.open(dir.path(), 3).ok());
    }
    EXPECT_TRUE(testing::files_in(dir.path(), ".tmp").empty());
  });
}

TEST(FileUri, OnlyPlainLettersStayAsTheyAre) {
  EXPECT_EQ(file_uri("/a-b_c.d~/\xC3\xA9 %#?"), "file:///a-b_c.d~/%C3%A9%20%25%23%3F");
}

}  // namespace
}  // namespace sonde::snapshot
