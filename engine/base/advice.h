// The keys of messages that end with advice, and what the advice is where the face has no words of
// its own (Face::advise). A key that a face or a message uses and that is not in this list is found
// by tests/test_advice.py.
#pragma once

#include <string_view>

namespace sonde::base {

struct Advice {
  std::string_view key;
  std::string_view words;  // the end of a sentence; "" where there is nothing to do, or the message
                           // gives the advice itself. A call does not repeat them.
};

inline constexpr Advice kAdvice[] = {
    // -- the session --
    {"started-twice", "end it first to start another"},
    {"joined", "give these to the call that begins the session, or make this call first"},
    {"no-directory", "choose another, by its absolute path"},
    {"no-thread", "allow the process more threads (ulimit -u) or memory (ulimit -v)"},
    {"session-attrs", "give the run shorter ids"},
    {"clock-step", "nothing needs to be done"},
    // -- recording --
    {"spans-dropped", "record less often"},
    {"marks-dropped", "mark less often, or start a session"},
    // -- the journal --
    {"journal", ""},
    {"journal-grow", ""},
    {"journal-gone", "end the session and begin another, which makes a new one"},
    {"journal-lost", ""},
    {"bus-error", ""},
    {"recovery", ""},
    {"recovered", ""},
    {"left-behind", ""},
    // -- the spool and the other sinks --
    {"spool-cap", "raise the cap or move files away"},
    {"spool-write", "free space or make the directory writable"},
    {"snapshots-lost", ""},
    {"records-lost", "free space there, make it writable, or choose another output directory"},
    {"sinks-full", "find out what blocks standard output or the logging handlers"},
    {"sinks-late", "find out what blocks standard output or the logging handlers"},
    {"tick", "please report this"},
    {"last-tick", "run sonde autopsy on the output directory"},
    {"idle", "free some memory"},
    // -- snapshots --
    {"snapshots-dropped", "take them less often"},
    {"blob-nowhere", "give the session an output directory"},
    {"blob-size", "if that is too much, keep the raw tensors of fewer epochs, or statistics only"},
    {"blob-not-copied", "take raw tensors less often, or free memory"},
    {"blob-lost", ""},
    {"no-epoch", "open a scope called 'epoch'"},
    {"no-model", "say which model is trained"},
    // -- hooks --
    {"unseen-loop", "Open a scope called 'epoch' around each epoch"},
};

// "" for a key that is not in the list.
constexpr std::string_view general_advice(std::string_view key) noexcept {
  for (const Advice& each : kAdvice) {
    if (each.key == key) return each.words;
  }
  return {};
}

}  // namespace sonde::base
