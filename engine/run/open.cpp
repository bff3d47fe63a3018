#include "engine/run/open.h"

#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/directory_source.h"
#include "engine/run/locate.h"
#include "engine/run/source.h"

namespace sonde::run {

std::unique_ptr<Source> open_source(const std::string& path, base::Status& status) {
  Location location;
  status = locate(path, location);
  if (!status.ok()) return nullptr;
  return std::make_unique<DirectorySource>(std::move(location));
}

}  // namespace sonde::run
