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
  bool sharded = false;  // by FSDP: the object holds only a part of the parameter
};

// Appends the parameters of `source`: a torch module (each parameter once) or a list of pairs
// (name, tensor). False with an exception set.
bool list_parameters(const std::string& prefix, PyObject* source, std::vector<Parameter>& out);

// Replaces parameters by their gradients. Keeps only those in `only` (nullptr: all), without those
// whose names are in the set `skip` and those that have no gradient. Never raises.
void keep_gradients(std::vector<Parameter>& all, const std::unordered_set<const PyObject*>* only,
                    PyObject* skip);

// Every torch module of the process, as a list; nullptr with an exception set. Runs no code of the
// program. Takes some milliseconds.
PyObject* living_modules();

}  // namespace sonde::native
