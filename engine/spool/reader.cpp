#include "engine/spool/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/file.h"
#include "engine/spool/batch_parser.h"
#include "engine/spool/journal.h"
#include "engine/spool/json_text.h"

namespace sonde::spool {

namespace {

// Text with the blank padding that the parser wants. Grows and is kept: a summary reads thousands
// of files of about the same size.
class PaddedText {
 public:
  char* prepare(std::size_t size) {
    if (size + BatchParser::kPadding > capacity_) {
      capacity_ = size + size / 4 + BatchParser::kPadding;
      data_ = std::make_unique_for_overwrite<char[]>(capacity_);
    }
    return data_.get();
  }
  std::string_view seal(std::size_t size) {
    std::memset(data_.get() + size, ' ', BatchParser::kPadding);
    return {data_.get(), size};
  }

 private:
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
};

base::Status load(const std::string& path, PaddedText& buffer, std::string_view& text) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info) != 0) return base::Status::from_errno("cannot open " + path);
  if (!S_ISREG(info.st_mode)) return {EINVAL, path + " is no file"};
  const auto size = static_cast<std::size_t>(info.st_size);
  char* data = buffer.prepare(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd.get(), data + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::Status::from_errno("cannot read " + path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text = buffer.seal(done);
  return {};
}

}  // namespace

struct Reader::Parser {
  BatchParser json;
  PaddedText file;
  PaddedText copy;

  base::Status parse(std::string_view text, const std::string& name, Detail detail,
                     model::Batch& out) {
    Fault fault = json.parse(text, detail, out);
    std::string legal;
    if (fault.error == EINVAL && quote_non_finite(text, legal)) {
      out.clear();
      fault = json.parse(padded(legal), detail, out);
    }
    if (fault.error == 0) return {};
    out.clear();
    return {fault.error, name + " is no spool file that can be read (" + fault.reason + ")"};
  }

  std::string_view padded(std::string_view text) {
    std::memcpy(copy.prepare(text.size()), text.data(), text.size());
    return copy.seal(text.size());
  }
};

Reader::Reader() : parser_(std::make_unique<Parser>()) {}
Reader::~Reader() = default;

base::Status Reader::read_file(const std::string& path, model::Batch& out, Detail detail) {
  out.clear();
  std::string_view text;
  base::Status status = load(path, parser_->file, text);
  return status.ok() ? parser_->parse(text, path, detail, out) : status;
}

base::Status Reader::read_text(std::string_view json, model::Batch& out, Detail detail) {
  out.clear();
  return parser_->parse(parser_->padded(json), "the text", detail, out);
}

namespace {

bool is_directory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

base::Status find_spool_files(const std::string& path, std::vector<std::string>& files) {
  files.clear();
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return base::Status::from_errno("cannot read " + path);
  if (!S_ISDIR(info.st_mode)) {
    files.push_back(path);
    return {};
  }
  const std::string inside = base::join_path(path, kSpoolFolder);
  const std::string directory = is_directory(inside) ? inside : path;
  base::Status status = base::list_directory(directory, ".json", files);
  for (std::string& file : files) file = base::join_path(directory, file);
  return status;
}

}  // namespace sonde::spool
