// What is bound with nanobind: everything that is not called in a loop.
#pragma once

#include <nanobind/nanobind.h>

namespace sonde::native {

void add_blobs(nanobind::module_& module);
void add_measuring(nanobind::module_& module);
void add_session(nanobind::module_& module);
void add_snapshots(nanobind::module_& module);
void add_trace(nanobind::module_& module);

}  // namespace sonde::native
