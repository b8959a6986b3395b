// Somebody who asks for slices of their own, to use them in the process that asks or in containers
// that name them. It is a job like any other (jobs::Queue decides), but one that somebody waits
// for: Dispatcher::admit() gives one of these, and `ready` becomes readable when there is an
// answer.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dispatch/machine.h"
#include "jobs/explain.h"
#include "model/job.h"

namespace divvy::dispatch {

struct Admitted {
  model::JobId job;
  MemberSlice slice;
};
// It does not fit now, and whoever asked does not wait. Nothing of it is kept.
struct NotNow {
  jobs::WaitReport why;
};
using AdmissionAnswer = std::variant<Admitted, NotNow>;

class Admission {
 public:
  Admission(MemberUser user, bool waits, UniqueFd ready)
      : user_(std::move(user)), waits_(waits), ready_(std::move(ready)) {}
  [[nodiscard]] int ready() const { return ready_.get(); }

 private:
  friend class Dispatcher;  // and its lock guards what follows
  MemberUser user_;
  bool waits_ = false;
  bool fresh_ = true;  // no pass has looked at it
  UniqueFd ready_;
  model::JobId job_;
  std::optional<MemberSlice> granted_;  // and the job is not in the store yet
  std::optional<Result<AdmissionAnswer>> answer_;
};

}  // namespace divvy::dispatch
