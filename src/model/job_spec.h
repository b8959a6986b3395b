// What somebody submits: a command, what it needs and how it is to be treated. A plain value; the
// command line, the job file and the API all end in one of these, and the store keeps it as it was.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "model/gpu_mode.h"
#include "model/notify.h"
#include "model/request.h"
#include "model/where.h"

namespace divvy::model {

using JobId = StrongId<struct JobIdTag, std::uint64_t>;
using Seconds = std::chrono::seconds;

// Latency comes before batch where both want the GPU.
enum class JobClass { kBatch, kLatency };
[[nodiscard]] std::string_view to_string(JobClass job_class);
[[nodiscard]] Result<JobClass> parse_job_class(std::string_view text);

// What uses the slices of a job.
enum class Holder {
  kMembers,  // processes and containers that Divvy starts and ends
  kProcess,  // the process that asked for them, and its children (`divvy run`)
  kSlice,    // nobody at first: containers get them by the job's name (`divvy slice create`)
  kPods,     // pods of a cluster, a member each: ended by eviction, and made anew by their owner
};
[[nodiscard]] std::string_view to_string(Holder holder);
[[nodiscard]] Result<Holder> parse_holder(std::string_view text);

// A soft and a hard limit, as setrlimit knows them.
struct Ulimit {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
  friend bool operator==(const Ulimit&, const Ulimit&) = default;
};

// What one member gets of everything that is no GPU; nothing: no limit.
struct MemberLimits {
  std::optional<std::uint64_t> cpu_milli;
  std::optional<Bytes> ram;
  std::optional<std::uint32_t> pids;
  std::optional<Bytes> shm;               // of /dev/shm, in containers
  std::map<std::string, Ulimit> ulimits;  // "nofile", as ulimit(1) and podman call them
  friend bool operator==(const MemberLimits&, const MemberLimits&) = default;
};

struct Mount {
  std::string source;
  std::string target;
  bool read_only = false;
  friend bool operator==(const Mount&, const Mount&) = default;
};

struct PublishedPort {
  std::uint16_t host = 0;
  std::uint16_t container = 0;
  friend bool operator==(const PublishedPort&, const PublishedPort&) = default;
};

// Without it the command is a plain process of the machine.
struct ContainerSpec {
  std::string image;
  std::vector<Mount> mounts;
  std::vector<PublishedPort> ports;
  std::optional<std::vector<std::string>> entry_point;  // instead of the image's
  friend bool operator==(const ContainerSpec&, const ContainerSpec&) = default;
};

// Several jobs at once that differ in DIVVY_ARRAY_INDEX.
struct ArraySpec {
  static constexpr std::uint32_t kMaxTasks = 10'000;

  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t step = 1;
  std::uint32_t at_once = 0;  // 0: as many as fit
  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;

  [[nodiscard]] std::uint32_t tasks() const { return (last - first) / step + 1; }
};

enum class DependencyKind {
  kSucceeded,  // It starts when the other has succeeded, and is cancelled when that cannot be.
  kFailed,     // when the other has failed
  kEnded,      // when the other has ended, however
};
[[nodiscard]] std::string_view to_string(DependencyKind kind);
[[nodiscard]] Result<DependencyKind> parse_dependency_kind(std::string_view text);

struct Dependency {
  JobId job;
  DependencyKind kind = DependencyKind::kSucceeded;
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

// The pause doubles from one retry to the next, up to the longest.
struct RetryPolicy {
  std::uint32_t most = 0;
  Seconds pause{10};
  Seconds longest_pause{600};
  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

struct JobSpec {
  static constexpr std::int32_t kHighestPriority = 1000;
  static constexpr std::size_t kMostSecrets = 32;

  explicit JobSpec(Request request_) : request(std::move(request_)) {}

  std::string name;               // model/name.h; empty: one is made from the command
  std::string queue = "default";  // "research/vision": queues are a tree
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  // Variables that hold a secret of the owner, by its name: the value is in no description of a
  // job.
  std::map<std::string, std::string> secrets;
  std::string working_directory;  // absolute; empty: the home of the user
  bool keep_input = false;        // whoever attaches may write to it; otherwise it reads nothing
  std::optional<ContainerSpec> container;
  Request request;                  // for one member, with gang_size members
  std::uint32_t least_members = 0;  // 0: all of the gang. Fewer is an elastic job
  // Only these: indices, UUIDs or beginnings of UUIDs, or the node and the index ("node-a/3").
  std::vector<std::string> devices;
  Where where;  // which nodes will do, and how close to each other
  JobClass job_class = JobClass::kBatch;
  MemberLimits limits;
  std::int32_t priority = 0;  // -1000 to 1000; a higher one goes first
  bool preemptible = true;
  Seconds grace{30};       // between being told to end and being killed
  Seconds minimum_run{0};  // before it may be preempted
  std::optional<Seconds> time_limit;
  std::optional<Seconds> expected;  // how long it will take, as its owner guesses
  std::optional<ArraySpec> array;
  std::vector<Dependency> after;
  RetryPolicy retry;
  std::map<std::string, std::string> labels;
  Holder holder = Holder::kMembers;
  std::optional<GpuMode> mode;   // nothing: as the machine is set up
  std::optional<Notify> notify;  // who is told of its end, beside its owner
  // Waits also for GPUs that are not there; otherwise what cannot ever start is refused.
  bool hold_for_capacity = false;

  [[nodiscard]] std::uint32_t members() const { return request.gang_size(); }
  // Whether Divvy may end it for somebody else, so that it starts again later.
  [[nodiscard]] bool may_make_way() const {
    return preemptible && (holder == Holder::kMembers || holder == Holder::kPods);
  }
  [[nodiscard]] std::uint32_t least() const {
    return least_members == 0 ? members() : least_members;
  }
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// One sentence about the first thing that is wrong, beginning with the field ("array.step: ...").
// `JobSpec` fields carry the names of the job file.
[[nodiscard]] Status check(const JobSpec& spec);

[[nodiscard]] Status check_priority(std::int32_t priority);

// "default", "research/vision": names joined by slashes, at most eight deep.
[[nodiscard]] Status check_queue_path(std::string_view path);

}  // namespace divvy::model
