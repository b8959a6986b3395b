// How a member's programs are called: as plain processes of the machine, or through podman. What
// the shepherd starts, to begin, to signal, to enter and to clean up. Used by a shepherd, in its
// only thread, and by whoever ends what a lost one left.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/child.h"
#include "run/member_documents.h"
#include "run/member_folder.h"
#include "run/shepherd_messages.h"

namespace divvy::run {

class MemberProgram {
 public:
  virtual ~MemberProgram() = default;

  // Before any of the others, once: what its programs need to run at all.
  [[nodiscard]] virtual Status prepare() { return {}; }

  // The member's command. The streams and the control group are the caller's.
  [[nodiscard]] virtual Result<ChildPlan> start() const = 0;
  [[nodiscard]] virtual ChildPlan exec(const ExecRequest& request) const = 0;
  [[nodiscard]] virtual ChildPlan copy(const CopyRequest& request) const = 0;

  // It passes SIGTERM on to those that it stands for; otherwise all get it.
  [[nodiscard]] virtual bool passes_signals_on() const = 0;
  // What lets a member go on that its user has stopped; nothing: its control group or a signal
  // does.
  [[nodiscard]] virtual std::optional<ChildPlan> thaw() const = 0;

  // Prints "true" when its memory ran out; nothing: the control group knows.
  [[nodiscard]] virtual std::optional<ChildPlan> ask_out_of_memory() const = 0;
  // Leaves nothing of it, also when it runs; nothing: there is nothing but processes.
  [[nodiscard]] virtual std::optional<ChildPlan> remove() const = 0;

  // What the control group has to hold; the rest is held elsewhere.
  [[nodiscard]] virtual model::MemberLimits group_limits() const = 0;
};

// As the orders say. `folder` outlives it.
[[nodiscard]] std::unique_ptr<MemberProgram> make_program(const Orders& orders,
                                                          const MemberFolder& folder);

// A name for the member that no other daemon on this machine gives to one of its own.
[[nodiscard]] std::string unique_name(const MemberFolder& folder);
// What every process of a member has in its environment, by which those are found that a lost
// shepherd left where there are no control groups.
inline constexpr const char* kMemberVariable = "DIVVY_MEMBER";

}  // namespace divvy::run
