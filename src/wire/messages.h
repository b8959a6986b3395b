// What a tenant's process and the daemon say to each other on the tenant's Unix socket
// (SOCK_SEQPACKET: one message is one packet). The path is in the environment variable
// DIVVY_SOCKET; which tenant speaks is told by which socket it came through.
//
//   process -> daemon   Hello      with the lanes page, and after a restart of the daemon with the
//                                  account page it already has
//   daemon -> process   Welcome    with the control page and the account page, or a refusal
//   process -> daemon   Measure    how much does the driver hold for me on this GPU?
//   daemon -> process   Measured
//   process -> daemon   Doorbell   I have begun a batch while you slept; no answer
//
// The daemon tells a process's death by its pidfd (a forked child may hold the socket open).
// Everything is checked by who receives it: length, kind, version, ranges, seals of descriptors.
#pragma once

#include <cstdint>

#include "wire/pages.h"

namespace divvy::wire {

// Of the messages. A daemon speaks all of them from the oldest to its own, a library too: it begins
// with its own and, told that the daemon does not know it, goes on with the daemon's. So either of
// them may be upgraded first. What a version added:
//   1  everything
//   2  Hello::release
constexpr uint32_t kWireVersion = 2;
constexpr uint32_t kOldestWireVersion = 1;

constexpr char kSocketVariable[] = "DIVVY_SOCKET";
// Seconds that a program which starts waits for a daemon that is away, from 1 to 600. Anything else
// counts as if it were not set: five.
constexpr char kSocketWaitVariable[] = "DIVVY_SOCKET_WAIT";

enum class Kind : uint32_t {
  kHello = 1,
  kWelcome = 2,
  kMeasure = 3,
  kMeasured = 4,
  kDoorbell = 5,
};

struct Header {
  uint32_t kind;   // Kind
  uint32_t bytes;  // of the whole message
};

// Descriptors: [lanes page] or [lanes page, account page].
struct Hello {
  Header header;
  uint32_t version;     // the one that the shim wants to speak
  int32_t pid;          // in the process's own namespace; for messages only
  uint32_t slot;        // after a restart: the slot it has in the account page it sends along
  uint32_t generation;  // and that slot's generation; 0 the first time
  char program[32];
  char release[16];  // of the shim, "0.1.0"; since version 2
};
constexpr uint32_t kHelloBytesOfVersion1 = 56;
static_assert(offsetof(Hello, release) == kHelloBytesOfVersion1);

// How long a Hello of a version is, from the oldest to ours.
constexpr uint32_t hello_bytes(uint32_t version) {
  return version == 1 ? kHelloBytesOfVersion1 : static_cast<uint32_t>(sizeof(Hello));
}

enum class Refusal : uint32_t {
  kNone = 0,
  kVersion = 1,  // the daemon cannot speak with this shim
  kTooManyProcesses = 2,
  kMalformed = 3,
  kTenantEnded = 4,
};

// Descriptors, unless refused: [control page, account page].
struct Welcome {
  Header header;
  uint32_t version;  // the one that is spoken from here on; in a refusal, the daemon's newest
  uint32_t refusal;  // Refusal
  uint32_t slot;     // of the account page
  uint32_t generation;
  char reason[160];  // one sentence for people, when refused
};

struct Measure {
  Header header;
  uint32_t gpu;  // index into ControlPage::gpu
  uint32_t serial;
};

struct Measured {
  Header header;
  uint32_t gpu;
  uint32_t serial;  // of the question
  uint32_t known;   // 0: the driver does not tell
  uint32_t reserved;
  uint64_t bytes;  // everything the driver holds for this process on that GPU
};

struct Doorbell {
  Header header;
};

}  // namespace divvy::wire
