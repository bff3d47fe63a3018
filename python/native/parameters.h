// The parameters of a model by name, as named_parameters() gives them, without its cost.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "python/native/python.h"

namespace sonde::native {

struct Parameter {
  std::string name;
  Ref tensor;
  bool sharded = false;  // by FSDP: what lies here is a part of it
};

// Appends those of `source`: a torch module, each parameter once, or a list of pairs (name,
// tensor). False with an exception set.
bool list_parameters(const std::string& prefix, PyObject* source, std::vector<Parameter>& out);

// Puts the gradients in the place of their parameters. Only of those in `only` (nullptr: of all),
// without those whose names are in the set `skip`, and without those that have no gradient. Never
// raises.
void keep_gradients(std::vector<Parameter>& all, const std::unordered_set<const PyObject*>* only,
                    PyObject* skip);

// Every torch module of the process, as a list; nullptr with an exception set. Runs no code of the
// program's. Takes some milliseconds.
PyObject* living_modules();

}  // namespace sonde::native
