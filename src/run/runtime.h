// The seam between the queue of a machine and what runs there: members are started, found again
// after the daemon was away, told to end, and forgotten. The daemon has one Runtime and calls it
// from any thread; no call waits for a member's work, only for its start or for a disk. Calls that
// name a member may also wait for what is left of it to die, and for podman; those for all members
// never do.
//
// A member outlives the daemon: it belongs to a shepherd (run/shepherd.h), a process of its own.
// What is known about it is in its folder, so a Runtime holds nothing that a new one could not read
// there.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/job.h"
#include "model/job_spec.h"
#include "model/member_report.h"
#include "run/member_key.h"

namespace divvy::run {

// Everything about a member that is decided before it starts.
struct MemberStart {
  MemberKey key;
  std::vector<std::string> command;
  // All of it: nothing of the daemon's own is added (run/launch_environment.h makes it).
  std::map<std::string, std::string> environment;
  // Variables besides, which are in no file: the shepherd is told of them by a descriptor.
  std::map<std::string, std::string> secrets;
  std::string working_directory;  // absolute; empty: "/", or what the image says
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // beside gid
  model::MemberLimits limits;
  std::optional<model::ContainerSpec> container;
  std::vector<std::string> cdi_devices;  // "divvy.dev/slice=job-7.1.0"; containers only
  // Between the wish that it ends and SIGKILL, when whoever wishes says nothing.
  std::chrono::seconds grace{30};
  bool keep_input = false;      // whoever attaches may write to it; otherwise it reads /dev/null
  Bytes log_part = mib(16);     // a file of its output is this long
  std::uint32_t log_parts = 4;  // and so many are kept
  friend bool operator==(const MemberStart&, const MemberStart&) = default;
};

using model::MemberPhase;
using model::MemberReport;

class Runtime {
 public:
  virtual ~Runtime() = default;

  // Returns when a shepherd looks after the member; the command may then run or have ended. One
  // that cannot be executed is a member that ended with 126 or 127. kAlreadyExists: this member of
  // this attempt was started before, by whomever: never twice. After any other error nothing runs
  // and nothing will.
  [[nodiscard]] virtual Status start(const MemberStart& member) = 0;

  // Every member that has a folder here, in order. One whose shepherd is gone lives until what is
  // left of it has been ended, which changes() tells.
  [[nodiscard]] virtual Result<std::vector<MemberReport>> find() = 0;
  // The same of one, but whoever is lost is ended before this returns, so that no process of theirs
  // is left when the caller reads of it. kNotFound: it has no folder.
  [[nodiscard]] virtual Result<MemberReport> find(const MemberKey& key) = 0;

  // SIGTERM now, SIGKILL after `grace`; the shepherd counts, also when the daemon is gone. Returns
  // when the shepherd knows. A second call can only shorten the time. Of a member that has ended:
  // success.
  [[nodiscard]] virtual Status stop(const MemberKey& key, std::chrono::seconds grace) = 0;

  // Readable when a member that was living when it was last reported is not any more; then
  // changes() says which. Always the same descriptor.
  [[nodiscard]] virtual int watch_fd() const = 0;
  [[nodiscard]] virtual std::vector<MemberReport> changes() = 0;

  // How much output is kept of each member that has a folder here.
  [[nodiscard]] virtual Result<std::map<MemberKey, Bytes>> log_sizes() = 0;
  // Removes the folder, with its output, of a member that has ended. kFailedPrecondition: it lives.
  [[nodiscard]] virtual Status forget(const MemberKey& key) = 0;
};

}  // namespace divvy::run
