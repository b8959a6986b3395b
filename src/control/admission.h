// Somebody who asks for slices of their own, to use them in the process that asks or in containers
// that name them. It is a job like any other (jobs::Queue decides), but one that somebody waits
// for: Dispatcher::admit() gives one of these, and `ready` becomes readable when there is an
// answer.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "agent/orders.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "jobs/explain.h"
#include "model/job.h"

namespace divvy::control {

struct Admitted {
  model::JobId job;
  agent::Granted slice;
};
// It does not fit now, and whoever asked does not wait. Nothing of it is kept.
struct NotNow {
  jobs::WaitReport why;
};
using AdmissionAnswer = std::variant<Admitted, NotNow>;

class Admission {
 public:
  Admission(std::string name, agent::LocalCaller caller, bool waits, UniqueFd ready)
      : name_(std::move(name)), caller_(caller), waits_(waits), ready_(std::move(ready)) {}
  [[nodiscard]] int ready() const { return ready_.get(); }

 private:
  friend class Dispatcher;  // and its lock guards what follows
  std::string name_;        // that the caller gave; empty: after the command
  agent::LocalCaller caller_;
  bool waits_ = false;
  bool fresh_ = true;  // no pass has looked at it since the machines were asked who has ended
  enum class Reap { kNone, kAsked, kDone };
  Reap reap_ = Reap::kNone;
  UniqueFd ready_;
  model::JobId job_;
  std::optional<agent::Granted> granted_;  // and the job is not in the store yet
  std::optional<Result<AdmissionAnswer>> answer_;
};

}  // namespace divvy::control
