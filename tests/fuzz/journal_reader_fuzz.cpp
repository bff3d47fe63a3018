// Any bytes given to the journal reader, and to the recovery that writes into the file it reads:
// they may find nothing, they may not crash or hang, and the file ends up recovered or refused.
//
// A journal is a megabyte and more of mostly zeros, too much for a fuzzer to move about. An input
// is therefore a list of patches over a journal that was recorded when the target started:
//
//   u8 0xFF: the bytes that follow are the whole file
//   otherwise, over and over: u16 slot (see kSlots), u8 offset in its 64 bytes, u8 length, bytes
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "engine/record/journal.h"
#include "engine/record/mark.h"
#include "engine/record/scope.h"
#include "engine/spool/reader.h"
#include "engine/spool/recovery.h"

using namespace sonde;

namespace {

constexpr std::size_t kBlocks = 5;
constexpr std::size_t kJournalBytes = record::kBlocksOffset + kBlocks * record::kBlockBytes;

void record_sample(std::int64_t spans) {
  record::ThreadState& thread = *record::this_thread();
  const std::uint32_t name = record::intern("work"), attrs = record::intern(R"("fixed":1)");
  const auto open = [&](const record::ScopeStart& start) {
    return record::open_scope(thread, *thread.lane, start);
  };
  const auto close = [&](const record::ScopeHandle& scope) {
    record::close_scope(thread, scope, {}, base::monotonic_ns());
  };
  for (std::int64_t i = 0; i < spans; ++i) {
    const record::ScopeHandle scope = open({.name = name, .index = i, .flags = record::kHasIndex});
    record::write_mark(thread, *thread.lane, {.name = name, .real = 0.5});
    close(scope);
  }
  close(open({.static_attrs = attrs, .name_text = "inline name", .attrs = R"("a":1)"}));
  record::write_mark(
      thread, *thread.lane,
      {.type = record::MarkType::kString, .name = name, .text = "text", .attrs = R"("a":1)"});
  open({.name = name, .attrs = R"("open":true)"});
  open({.name = name, .flags = record::kHasDataLoad, .aux = 5});
}

// The file of a journal like any other, cut behind the blocks it uses.
std::string make_journal(const std::string& path) {
  record::open_gate();
  record::close_gate();
  record::Journal& journal = record::Journal::instance();
  journal.begin_session({});
  if (!journal.attach_file(path).ok()) std::abort();
  record::open_gate();
  record_sample(5);
  std::thread([] { record_sample(260); }).join();  // another lane, and beyond one block of its ring
  const auto* memory = reinterpret_cast<const char*>(journal.memory());
  std::string bytes(memory, kJournalBytes);
  record::close_gate();
  journal.detach_file(true);
  return bytes;
}

struct Place {
  std::string directory = "/dev/shm/journal_reader_fuzz." + std::to_string(::getpid());
  std::string journal = directory + "/live/x.journal";
  std::string sample;
  Place() {
    std::filesystem::create_directories(directory + "/live");
    sample = make_journal(directory + "/live/sample.journal");
  }
  ~Place() { std::filesystem::remove_all(directory); }
};

// The parts of a journal that hold something: the header, the first names, the blocks.
constexpr std::size_t kHeaderSlots = record::kHeaderBytes / 64, kNameSlots = 16;
constexpr std::size_t kSlots = kHeaderSlots + kNameSlots + kBlocks * record::kBlockBytes / 64;

std::size_t place_of(std::size_t slot) {
  const std::size_t before_blocks = kHeaderSlots + kNameSlots;
  return slot < before_blocks ? slot * 64 : record::kBlocksOffset + (slot - before_blocks) * 64;
}

void apply_patches(std::string& bytes, const std::uint8_t* data, std::size_t size) {
  while (size >= 4) {
    const std::size_t slot = (data[0] | std::size_t{data[1]} << 8) % kSlots;
    const std::size_t position = place_of(slot) + data[2] % 64;
    const std::size_t length = std::min<std::size_t>(data[3], size - 4);
    if (position + length <= bytes.size()) std::memcpy(bytes.data() + position, data + 4, length);
    data += 4 + length;
    size -= 4 + length;
  }
}

constexpr char kZeros[4096] = {};

// Leaves out the pages of zeros, which are nearly all.
void write_file(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes.size())) != 0) std::abort();
  for (std::size_t at = 0; at < bytes.size(); at += 4096) {
    const std::string_view page = bytes.substr(at, 4096);
    if (std::memcmp(page.data(), kZeros, page.size()) == 0) continue;
    if (::pwrite(fd, page.data(), page.size(), static_cast<off_t>(at)) < 0) std::abort();
  }
  ::close(fd);
}

void touch(const model::Batch& batch) {
  std::size_t sum = 0;
  for (const model::Span& span : batch.spans) {
    if (span.first_mark_id + std::size_t{span.mark_id_count} > batch.mark_ids.size()) std::abort();
    for (const char c : span.name) sum += static_cast<unsigned char>(c);
    for (const char c : span.attrs) sum += static_cast<unsigned char>(c);
  }
  for (const model::Mark& mark : batch.marks) {
    for (const char c : mark.name) sum += static_cast<unsigned char>(c);
    for (const char c : mark.text) sum += static_cast<unsigned char>(c);
    for (const char c : mark.attrs) sum += static_cast<unsigned char>(c);
  }
  asm volatile("" : : "r"(sum));  // was read, as far as the compiler knows
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Place place;
  static std::string bytes;  // kept: a fresh megabyte per run would cost more than reading it
  if (size == 0) return 0;
  if (data[0] == 0xFF) {
    bytes.assign(reinterpret_cast<const char*>(data + 1), size - 1);
  } else {
    bytes = place.sample;
    apply_patches(bytes, data, size);
  }
  write_file(place.journal, bytes);
  model::Process report;
  if (spool::inspect_journal(place.journal, report).ok()) {
    touch(report.records);
    for (const model::OpenScope& open : report.state.open) touch({.spans = {open.span}});
  }
  const model::Recovery recovery = spool::recover_directory(place.directory);
  const bool left = ::unlink(place.journal.c_str()) == 0;
  if (recovery.journals != (left ? 0 : 1)) std::abort();
  for (const std::string& file : recovery.files)
    ::unlink((place.directory + "/spool/" + file).c_str());
  return 0;
}
