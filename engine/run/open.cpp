#include "engine/run/open.h"

#include <utility>

#include "engine/run/directory_source.h"
#include "engine/run/locate.h"

namespace sonde::run {

std::unique_ptr<Source> open_source(const std::string& path, base::Status& status) {
  Location location;
  status = locate(path, location);
  if (!status.ok()) return nullptr;
  return std::make_unique<DirectorySource>(std::move(location));
}

}  // namespace sonde::run
