#include "engine/session/sinks.h"

#include <exception>
#include <string>

#include "engine/base/log.h"
#include "engine/base/swallowed.h"
#include "engine/session/event_stream_sink.h"
#include "engine/session/line_sink.h"

namespace sonde::session {

namespace {

// Whatever a sink does, the next one has its turn.
template <typename Work>
bool guarded(Sink& sink, Work work) noexcept {
  try {
    return work();
  } catch (const std::exception& error) {
    say_sink_failed(sink.name(), error.what());
  } catch (...) {
    say_sink_failed(sink.name(), "unknown error");
  }
  return false;
}

void hand(Sink& sink, const OutgoingBatch& batch) noexcept {
  guarded(sink, [&] {
    sink.accept(batch);
    return true;
  });
}

}  // namespace

void say_sink_failed(std::string_view name, std::string_view what) noexcept {
  try {
    const std::string place = std::string(name) + " sink";
    base::note_swallowed(place);
    base::log_once(base::LogLevel::kWarning, "flush", place,
                   "the " + std::string(name) + " sink failed (" + std::string(what) +
                       "); it is called again with the next batch");
  } catch (...) {
    // No memory for the message.
  }
}

Sinks::Sinks(Shared& shared, const Options& options) : memory_(shared) {
  if (options.spool && !options.output_dir.empty()) {
    spool_ = std::make_unique<SpoolSink>(options.output_dir, options.spool_max_bytes);
    needs_ = spool_->needs();
  }
  if (options.on_batch) others_.push_back(std::make_shared<EventStreamSink>(options.on_batch));
  if (!options.lines.empty())
    others_.push_back(std::make_shared<LineSink>(options.lines, options.face.prefix()));
  others_.insert(others_.end(), options.more_sinks.begin(), options.more_sinks.end());
  for (const auto& sink : others_) {
    const Sink::Needs needs = sink->needs();
    needs_.snapshots = needs_.snapshots || needs.snapshots;
    needs_.context = needs_.context || needs.context;
  }
}

void Sinks::accept(const OutgoingBatch& batch) {
  if (spool_) {
    hand(*spool_, batch);
  } else {
    commit(batch.moved);
  }
  hand(memory_, batch);
  for (const auto& sink : others_) hand(*sink, batch);
}

void Sinks::remember(const OutgoingBatch& batch) {
  skip(batch.moved);
  if (!batch.records.empty()) hand(memory_, batch);
}

void Sinks::skip(const Moved& moved) {
  if (spool_) {
    spool_->skip(moved);
  } else {
    commit(moved);
  }
}

bool Sinks::flush(std::uint64_t deadline_ns, bool last) noexcept {
  const bool durable =
      !spool_ || guarded(*spool_, [&] { return spool_->flush(deadline_ns, last); });
  for (const auto& sink : others_) guarded(*sink, [&] { return sink->flush(deadline_ns, last); });
  return durable;
}

}  // namespace sonde::session
