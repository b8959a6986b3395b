// The control group of one member: limits for CPU, memory and processes, a way to hold and to kill
// everything in it, and the word on whether its memory ran out. Where groups cannot be made the
// member runs without, and this says what is missing and why.
//
// Made and used by a shepherd; ended by whoever finds what a lost shepherd left. One thread at a
// time.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "model/job_spec.h"
#include "sys/cgroup_tree.h"

namespace divvy::run {

// Where the group of a member will be: one folder in version 2, one for each controller in
// version 1.
struct CgroupPlan {
  bool unified = false;
  std::vector<std::filesystem::path> folders;
  // One sentence for each thing that will not be limited; also when nobody asked for it.
  std::vector<std::string> without;
};

// Makes the parents, not the group itself, so that its folders can be written down before there is
// something in them. `name` is one that nobody else on this machine uses.
[[nodiscard]] CgroupPlan plan_cgroup(const sys::CgroupTree& tree, const std::string& name);

class Cgroup {
 public:
  Cgroup() = default;  // None: everything does nothing.
  // Makes it with these limits. What was asked and is not held is added to `without`.
  [[nodiscard]] static Cgroup make(const CgroupPlan& plan, const model::MemberLimits& limits,
                                   std::string& without);
  // One that was made before, as the folders were written down. Those that are gone do not matter.
  [[nodiscard]] static Cgroup adopt(const std::vector<std::string>& folders);

  [[nodiscard]] bool exists() const;
  // The files into which a process writes "0" to enter.
  [[nodiscard]] std::vector<std::string> procs_files() const;
  // Everybody in it and below.
  [[nodiscard]] std::vector<pid_t> processes() const;
  void signal(int number) const;
  [[nodiscard]] Status freeze(bool frozen) const;
  // Sends SIGKILL to everybody, in a way that nobody escapes by multiplying. Says whether there was
  // anybody: call it again until there is not.
  [[nodiscard]] bool kill() const;
  // How many processes the kernel has killed because the memory ran out.
  [[nodiscard]] std::uint64_t out_of_memory() const;
  // CPU time and memory that were used in it since it was made, as far as its controllers tell.
  [[nodiscard]] model::MemberUse use() const;
  // Of an empty one; false when it cannot be removed yet.
  [[nodiscard]] bool remove() const;

 private:
  std::vector<std::filesystem::path> folders_;
};

}  // namespace divvy::run
