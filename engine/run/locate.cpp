#include "engine/run/locate.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/file.h"
#include "engine/journal/file.h"
#include "engine/journal/inspect.h"
#include "engine/spool/directory.h"
#include "engine/spool/reader.h"

namespace sonde::run {

namespace {

constexpr std::int64_t kNoRun = -1;

// When an entry was last added to or removed from a folder; kNoRun if it is not a folder.
std::int64_t changed_ns(const std::string& folder) {
  struct stat info;
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return kNoRun;
  const std::int64_t ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
  return std::max<std::int64_t>(ns, 0);
}

// When the run in an output directory last wrote something; kNoRun if there is none.
std::int64_t run_changed_ns(const std::string& directory) {
  return std::max(changed_ns(base::join_path(directory, spool::kSpoolFolder)),
                  changed_ns(base::join_path(directory, journal::kLiveFolder)));
}

// Of the runs looked at so far, the one that wrote last.
struct Newest {
  std::string directory;
  std::int64_t ns = kNoRun;

  // Looks at the folders in `directory`, hidden or not.
  void look_in(const std::string& directory, const std::vector<std::string>& names);
};

void Newest::look_in(const std::string& in, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string folder = in == "." ? name : base::join_path(in, name);
    const std::int64_t changed = run_changed_ns(folder);
    if (changed > ns) {
      directory = std::move(folder);
      ns = changed;
    }
  }
}

// The folder in `directory` that holds the newest run. If none does, the folders inside them are
// searched: some APIs use one folder per session. "" if there is no run at all.
std::string newest_run_in(const std::string& directory) {
  constexpr std::size_t kMostInside = 4096;  // a folder with more entries is a data set
  std::vector<std::string> names, inside;
  if (!base::list_directory(directory, "", names).ok()) return {};
  // A spool may hold a hundred thousand files, and they are no folders.
  std::erase_if(names, [](const std::string& name) { return name.ends_with(".json"); });
  Newest newest;
  newest.look_in(directory, names);
  if (newest.ns != kNoRun) return newest.directory;
  for (const std::string& name : names) {
    const std::string folder = directory == "." ? name : base::join_path(directory, name);
    if (changed_ns(folder) == kNoRun || !base::list_directory(folder, "", inside).ok()) continue;
    if (inside.size() <= kMostInside) newest.look_in(folder, inside);
  }
  return newest.directory;
}

std::string output_dir_of(const std::string& directory) {
  if (run_changed_ns(directory) != kNoRun) return directory;
  if (std::string inside = newest_run_in(directory); !inside.empty()) return inside;
  const std::string absolute = base::absolute_path(directory);
  const std::size_t slash = absolute.rfind('/');
  const std::string_view name = std::string_view(absolute).substr(slash + 1);
  if (name == spool::kSpoolFolder || name == journal::kLiveFolder)
    return absolute.substr(0, slash == 0 ? 1 : slash);
  return directory;  // a folder with spool files of some other name
}

base::Status locate_newest(Location& out) {
  out.output_dir = run_changed_ns(".") != kNoRun ? "." : newest_run_in(".");
  if (out.output_dir.empty()) return {ENOENT, "no run in the working directory"};
  out.called = out.output_dir;
  return refresh(out);
}

}  // namespace

base::Status locate(const std::string& path, Location& out) {
  out = {};
  if (path.empty()) return locate_newest(out);
  out.called = path;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return base::Status::from_errno("cannot read " + path);
  if (!S_ISDIR(info.st_mode)) {
    out.files.push_back(path);
    return {};
  }
  std::string plain = path;
  while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  out.output_dir = output_dir_of(plain);
  return refresh(out);
}

base::Status refresh(Location& location) {
  if (location.output_dir.empty()) return {};
  if (base::Status status = spool::find_files(location.output_dir, location.files); !status.ok())
    return status;
  const std::string live = base::join_path(location.output_dir, journal::kLiveFolder);
  if (base::Status status = base::list_directory(live, journal::kJournalSuffix, location.journals);
      !status.ok())
    return status;
  for (std::string& journal : location.journals) journal = base::join_path(live, journal);
  return {};
}

}  // namespace sonde::run
