// The journal: what lies where in the memory-mapped file of one process. Other processes read all
// of it (the live view, the autopsy, the next run), even if the owner died at any instruction.
// docs/formats/journal.md draws it. A change of the layout needs another kJournalVersion.
//
//   offset 0        Header   one page: identity, clock anchor, session span, drain commit
//   kNamesOffset    names    u32 length + bytes, 8-byte aligned; a name's id is its offset / 8
//   kBlocksOffset   blocks   32 KiB each: either four lanes or a piece of a lane's ring
//
// A *lane* is a stack of open scopes. The lane of a thread also owns a ring of closed records, a
// chain of blocks of 64-byte slots; `head` counts slots ever published and is stored last, so a
// record is there in full or not at all. Lanes of asyncio tasks have no ring: their records go into
// the ring of the thread that runs them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/base/clock.h"
#include "engine/base/id.h"

namespace sonde::record {

inline constexpr char kJournalMagic[8] = {'S', 'O', 'N', 'D', 'E', 'J', 'N', 'L'};
inline constexpr std::uint32_t kJournalVersion = 1;
inline constexpr std::uint32_t kMaxDepth = 64;
inline constexpr std::size_t kSlotBytes = 64;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kNamesOffset = kHeaderBytes;
inline constexpr std::size_t kNamesBytes = std::size_t{1} << 20;
inline constexpr std::size_t kBlocksOffset = kNamesOffset + kNamesBytes;
inline constexpr std::size_t kBlockBytes = 32 * 1024;
inline constexpr std::uint32_t kSlotsPerBlock =
    kBlockBytes / kSlotBytes - 1;                           // the first slot is the block's header
inline constexpr std::size_t kMaxPayloadBytes = 16 * 1024;  // text that follows one record
inline constexpr std::size_t kMaxNameBytes =
    kMaxPayloadBytes / 4;  // of a name that is not interned

// A sequence number names a span or mark inside a session: lane number above, count below. 0 is
// none.
inline constexpr unsigned kSequenceBits = 40;

inline constexpr std::uint32_t kMaxLanes = 4096;  // threads and tasks with scopes at one time

// Position in a ring, with the lane it belongs to: what a closing scope leaves in its slot.
constexpr std::uint64_t pack_position(std::uint32_t lane, std::uint64_t position) noexcept {
  return (std::uint64_t{lane} << kSequenceBits) |
         (position & ((std::uint64_t{1} << kSequenceBits) - 1));
}

// Stands in OpenScope::closing instead of a position when there was no room for the record: the
// scope is over, and only a counter says so.
inline constexpr std::uint64_t kNoRecord = ~std::uint64_t{0};

enum class RecordKind : std::uint8_t { kNone = 0, kSpan = 1, kMark = 2, kThread = 3 };

// What ended a span, where the code that opened it did not.
enum class ClosedBy : std::uint8_t {
  kSelf = 0,
  kParent = 1,
  kShutdown = 2,
  kThreadExit = 3,
  kDeath = 4,
  kGarbage = 5
};

enum SpanFlags : std::uint8_t {
  kHasIndex = 1,
  kHasDataLoad = 2,      // aux is the attribute data_load_ns
  kSlotClosed = 4,       // open slots only: closed by another thread, the owner has yet to pop it
  kOwnsEpochs = 8,       // open slots only: the program opens the epochs inside, not the hooks
  kOwnsSteps = 16,       // the same for steps
  kHasGpu = 32,          // aux: event at the start below, event at the end above (0: none)
  kOwnsValidation = 64,  // the same for validations
  kIsFetch = 128,        // a fetch that a hook saw: its duration is its attribute data_load_ns
};

// Is the place of a closed span in the tree certain? Only the drain thread of the same process
// asks; all other readers take the record as it is.
enum class Certainty : std::uint8_t { kCertain = 0, kProvisional = 1, kChanging = 2 };

enum class MarkType : std::uint8_t { kFloat, kInt, kString, kBool, kBigInt };

// A scope that is open. Written before the lane's depth says that it is there.
struct OpenScope {
  std::uint64_t sequence;
  std::uint64_t parent;    // sequence, 0: none
  std::uint64_t start_ns;  // monotonic
  std::int64_t index;
  std::uint64_t
      closing;  // pack_position of the ring slot after the record that closes it; 0: still open
  std::uint64_t aux;
  std::uint32_t name;          // id in the names; 0: the name is text in the lane's arena
  std::uint32_t static_attrs;  // id in the names of a JSON fragment; 0: none
  std::uint16_t text_offset;   // in the lane's arena: name_length bytes, then attrs_length bytes
  std::uint16_t name_length;
  std::uint16_t attrs_length;
  std::atomic<std::uint8_t> flags;
  std::uint8_t kept;  // 1: if it is not closed through its handle, its end is noted (ends.h)
};
static_assert(sizeof(OpenScope) == kSlotBytes);

// A closed span in the ring, followed by ceil((name_length + attrs_length) / 64) slots of text.
struct SpanRecord {
  RecordKind kind;
  ClosedBy closed_by;
  std::uint8_t flags;
  Certainty certainty;
  std::uint32_t name;
  std::uint64_t sequence;
  std::uint64_t parent;
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  std::int64_t index;
  std::uint64_t aux;
  std::uint32_t static_attrs;
  std::uint16_t name_length;
  std::uint16_t attrs_length;
};
static_assert(sizeof(SpanRecord) == kSlotBytes && std::is_trivially_copyable_v<SpanRecord>);

// A value, followed by slots of text: name, then the string value, then attributes.
struct MarkRecord {
  RecordKind kind;
  MarkType type;
  std::uint8_t summary;
  std::uint8_t on_open_scope;  // 0: no scope was open, and the session does not list its marks
  std::uint32_t name;
  std::uint64_t sequence;
  std::uint64_t span;  // sequence of its span, 0: none
  std::uint64_t ts_ns;
  union {
    double real;
    std::int64_t integer;
  } value;
  std::uint32_t static_attrs;
  std::uint16_t name_length;
  std::uint16_t attrs_length;
  std::uint16_t text_length;
  std::uint8_t reserved[14];
};
static_assert(sizeof(MarkRecord) == kSlotBytes && std::is_trivially_copyable_v<MarkRecord>);

// From here on the records of this ring were written by another thread: lanes are used again.
struct ThreadRecord {
  RecordKind kind;
  std::uint8_t reserved[7];
  std::uint64_t thread_id;  // pthread_self, Python's ident
  std::uint64_t os_thread_id;
  std::uint8_t unused[40];
};
static_assert(sizeof(ThreadRecord) == kSlotBytes && std::is_trivially_copyable_v<ThreadRecord>);

enum class BlockType : std::uint32_t { kFree = 0, kLanes = 1, kRing = 2 };

struct BlockHeader {
  std::atomic<BlockType> type;
  std::atomic<std::uint32_t> next;  // block that continues the ring; 0: none yet
  std::uint64_t base;               // ring position of the first slot
  std::uint64_t end;                // ring position after the last; valid once next is set
  std::uint8_t reserved[40];
};
static_assert(sizeof(BlockHeader) == kSlotBytes);

enum class LaneState : std::uint32_t { kFree = 0, kThread = 1, kTask = 2 };

// How far a ring has been moved to the spool.
struct RingTail {
  std::uint64_t position;
  std::uint64_t thread_id;  // whose records follow
  std::uint32_t block;      // 0: the lane's first
  std::uint32_t reserved;
};
static_assert(sizeof(RingTail) == 24);

inline constexpr std::size_t kLaneBytes =
    (kBlockBytes - 4 * kSlotBytes) / 4;  // 8128: four lanes and a block header
inline constexpr std::size_t kLaneArenaBytes = kLaneBytes - 3 * kSlotBytes - kMaxDepth * kSlotBytes;

struct Lane {
  // Written by the owner on every record.
  std::atomic<std::uint64_t> head;  // slots published
  std::uint64_t next_sequence;
  std::atomic<std::uint32_t> depth;
  std::uint32_t arena_used;
  std::uint32_t block;       // being written; 0: none
  std::uint32_t block_used;  // slots used in it
  std::uint32_t number;
  std::uint32_t reserved0;
  std::uint64_t tenancy;  // how often it was taken; another number means another thread or task
  std::atomic<std::uint64_t> lost_spans;  // dropped because there was no room
  std::atomic<std::uint64_t> lost_marks;
  // Written by the drain thread.
  RingTail tail;          // what is in the spool
  RingTail pending_tail;  // what will be once the batch named in the header is there
  std::uint64_t reserved1[2];
  // Changes rarely.
  std::atomic<LaneState> state;
  std::atomic<std::uint32_t> first_block;
  std::uint64_t thread_id;
  std::uint64_t os_thread_id;
  std::uint64_t inherited_parent;         // task lanes: scope that was open where the task was made
  std::atomic<std::uint64_t> lost_depth;  // scopes beyond kMaxDepth
  // Sequence of the session that scope belongs to. Only the process itself reads it. Not a
  // generation: on an empty stack the sequence of the present session is needed in any case, so
  // comparing it costs no further load.
  std::uint64_t inherited_session;
  std::uint64_t reserved2[2];

  OpenScope stack[kMaxDepth];
  char arena[kLaneArenaBytes];  // text of the open scopes, used as a stack
};
static_assert(sizeof(Lane) == kLaneBytes);
static_assert(offsetof(Lane, tail) == kSlotBytes && offsetof(Lane, state) == 2 * kSlotBytes);
static_assert(offsetof(Lane, stack) == 3 * kSlotBytes);

inline constexpr std::size_t kSessionTextBytes = 2048;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t pid;
  std::int32_t rank;
  std::int32_t local_rank;
  std::int32_t world_size;
  base::Id key;  // ids are make_id(key, sequence)
  base::ClockAnchor anchor;
  char host[64];

  std::atomic<std::uint64_t> names_used;   // bytes
  std::atomic<std::uint32_t> block_count;  // blocks that are backed by this file
  std::uint32_t clean;                     // 1: shut down properly, everything is in the spool
  std::atomic<std::uint64_t> alive_ns;     // monotonic; written by the drain thread at every tick
  std::uint64_t lost_records;              // dropped since the session began, as last summed up

  // The batch whose file is being written: if that file is there, pending tails are the true ones.
  std::atomic<std::uint64_t> pending;  // 0: nothing under way; else see engine/journal/commit.h
  base::Id pending_id;
  std::int64_t pending_created_ns;

  OpenScope session;  // sequence 0: none
  std::uint64_t session_thread_id;
  char session_text[kSessionTextBytes];  // its attributes, JSON members

  // 1: the session came to its end, whether or not everything is in the spool. It stands last, so
  // that a reader of an older version finds all other fields where they were.
  std::uint32_t ended;
  std::uint32_t reserved;
};
static_assert(sizeof(Header) <= kHeaderBytes);
static_assert(std::is_standard_layout_v<Header> && std::is_standard_layout_v<Lane>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::uint32_t text_slots(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + kSlotBytes - 1) / kSlotBytes);
}

}  // namespace sonde::record
