// Something that was asked for and is not there, with what is there instead.
#pragma once

#include <string>
#include <vector>

namespace sonde::model {

struct Missing {
  enum class What {
    kRun,
    kRank,
    kName,       // of spans
    kEpoch,      // nothing was captured of it
    kTensor,     // no name matches the pattern
    kGradients,  // there are only weights
    kWeights,    // there are only gradients
    kCaptures,   // nothing was captured at all
  };
  What what = What::kName;
  std::string wanted;
  std::vector<std::string> there;  // sorted; numbers by value
};

}  // namespace sonde::model
