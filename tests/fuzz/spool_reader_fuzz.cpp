// Any bytes given to the spool reader: it may refuse them, it may not crash, and what it accepts
// has to be usable by everything that works on a batch.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/analysis/summary.h"
#include "engine/codec/reader.h"
#include "engine/model/tree.h"

using namespace sonde;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static codec::Reader reader;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  model::Batch batch;
  const bool accepted = reader.read_text(text, "it", batch).ok();
  if (!accepted && !batch.empty()) std::abort();
  for (const model::Span& span : batch.spans) {
    if (span.first_mark_id + std::size_t{span.mark_id_count} > batch.mark_ids.size()) std::abort();
  }
  const model::Tree tree = model::build_tree(batch.spans);
  if (tree.roots.size() + tree.children.size() != batch.spans.size()) std::abort();

  for (const model::Snapshot& snapshot : batch.snapshots) {
    if (snapshot.first_edge + std::size_t{snapshot.edge_count} > batch.edges.size()) std::abort();
    if (snapshot.first_bin + std::size_t{snapshot.bin_count} > batch.bins.size()) std::abort();
  }
  // Spans are passed over here, not walked, so damage inside them may count for more or for less.
  const bool tensors = reader.read_text(text, "it", batch, codec::Detail::kTensors).ok();
  if (!tensors && !batch.empty()) std::abort();
  if (batch.tensors.size() != batch.snapshots.size()) std::abort();
  // The short way looks at less, so it may accept more, never less.
  if (!reader.read_text(text, "it", batch, codec::Detail::kTimings).ok()) {
    if (accepted) std::abort();
    return 0;
  }
  analysis::Summarizer summarizer;
  summarizer.add(batch.spans);
  if (summarizer.finish().spans != batch.spans.size()) std::abort();
  return 0;
}
