#include "engine/cli/locate.h"

#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/cli/output.h"
#include "engine/spool/journal.h"
#include "engine/spool/reader.h"

namespace sonde::cli {

namespace {

bool is_directory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool holds_run(const std::string& directory) {
  return is_directory(base::join_path(directory, spool::kSpoolFolder)) ||
         is_directory(base::join_path(directory, spool::kLiveFolder));
}

std::string output_dir_of(const std::string& directory) {
  if (holds_run(directory)) return directory;
  std::string usual = base::join_path(directory, ".cirron");
  if (holds_run(usual)) return usual;
  const std::string absolute = base::absolute_path(directory);
  const std::size_t slash = absolute.rfind('/');
  const std::string name = absolute.substr(slash + 1);
  if (name == spool::kSpoolFolder || name == spool::kLiveFolder)
    return absolute.substr(0, slash == 0 ? 1 : slash);
  return directory;  // a folder with spool files of some other name
}

}  // namespace

base::Status locate(const std::string& path, Place& out) {
  out = {};
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

bool locate_or_complain(const std::string& path, Place& out) {
  const base::Status status = locate(path, out);
  if (!status.ok())
    complain(status.text() +
             "; name the output directory of a run (by default .cirron) or its spool");
  return status.ok();
}

bool locate_with_records(const std::string& path, Place& out) {
  if (!locate_or_complain(path, out)) return false;
  if (!out.files.empty() || !out.journals.empty()) return true;
  complain(path +
           " holds no spool file and no journal; name the output directory of a run (by default "
           ".cirron)");
  return false;
}

base::Status refresh(Place& place) {
  if (place.output_dir.empty()) return {};
  if (base::Status status = spool::find_spool_files(place.output_dir, place.files); !status.ok())
    return status;
  const std::string live = base::join_path(place.output_dir, spool::kLiveFolder);
  if (base::Status status = base::list_directory(live, spool::kJournalSuffix, place.journals);
      !status.ok())
    return status;
  for (std::string& journal : place.journals) journal = base::join_path(live, journal);
  return {};
}

}  // namespace sonde::cli
