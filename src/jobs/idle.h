// Which jobs hold a GPU and do not use it, and what follows: a warning, the time that is left, the
// end. A value without clock; jobs::Queue owns it and is told by the daemon when a job was seen at
// work.
#pragma once

#include <map>
#include <optional>

#include "base/clock.h"
#include "jobs/settings.h"
#include "model/job_spec.h"

namespace divvy::jobs {

class IdleWatch {
 public:
  struct Verdict {
    bool warn = false;  // now, for the first time since it was last at work
    bool end = false;
    std::optional<Seconds> left;  // until it is ended; nothing: it need not fear that
  };

  // A job that began counts as at work.
  void begin(model::JobId job, WallTime now);
  // It was at work at that moment.
  void used(model::JobId job, WallTime at);
  void finish(model::JobId job) { jobs_.erase(job); }

  // Remembers that it warned.
  [[nodiscard]] Verdict look(model::JobId job, const IdlePolicy& policy, WallTime now);
  // The time that is left, from the warning on; for those who show it.
  [[nodiscard]] std::optional<Seconds> left(model::JobId job, const IdlePolicy& policy,
                                            WallTime now) const;
  // When to look again.
  [[nodiscard]] std::optional<WallTime> next(model::JobId job, const IdlePolicy& policy) const;

 private:
  struct State {
    WallTime used;
    bool warned = false;
  };

  std::map<model::JobId, State> jobs_;
};

}  // namespace divvy::jobs
