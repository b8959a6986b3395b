// What the control side says to a machine and hears from it: plain values that could be sent over a
// wire, and are where the agent is another process (order_documents.h). An order names the member
// of the attempt that it is about, so it can be given again after a crash or a lost answer, and is
// carried out once. `Answer` is what comes back, or an Error; kUnavailable: the machine did not
// answer, and the order may have been carried out or not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "model/gpu_mode.h"
#include "model/gpu_uuid.h"
#include "model/job.h"
#include "model/member_report.h"
#include "model/tenant.h"

namespace divvy::agent {

using Environment = std::map<std::string, std::string>;

struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};

// As whom something is done on the machine, which knows its users by name or number.
struct UserName {
  std::string name;
  std::optional<std::uint32_t> uid = std::nullopt;  // an operator said which user of the machine
  // An operator has added them: an agent that can become nobody else runs their work as its own
  // user.
  bool is_known = false;
  friend bool operator==(const UserName&, const UserName&) = default;
};

// Somebody at this machine's own socket, as its kernel vouches.
struct LocalCaller {
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  friend bool operator==(const LocalCaller&, const LocalCaller&) = default;
};

// --- Slices ---

// What a member needs to use its slices: one or the other, by its runtime.
struct Granted {
  Environment environment = {};               // of a process
  std::vector<std::string> cdi_devices = {};  // of a container
  model::TenantId tenant = {};                // as the machine knows it
  std::string document = {};  // what was granted, as the API shows it; of a member none
  friend bool operator==(const Granted&, const Granted&) = default;
};

// Exactly these slices. They are the member's own, and on the disk, when it is answered.
// kResourceExhausted: somebody else has them. Of Holder::kSlice that holds exactly these already:
// the same answer again.
struct GrantOrder {
  using Answer = Granted;
  model::MemberKey key;
  model::Holder holder = model::Holder::kMembers;
  std::vector<model::Slice> slices = {};
  model::GpuMode mode = model::GpuMode::kTimeslice;
  model::JobClass job_class = model::JobClass::kBatch;
  std::string name = {};     // of holders; empty: after the command
  std::string command = {};  // for people
  UserName user = {};        // of Holder::kMembers
  LocalCaller caller = {};   // of the others; of Holder::kProcess it is the first process
  friend bool operator==(const GrantOrder&, const GrantOrder&) = default;
};

struct Released {
  // The most GPU memory that it had on one of its GPUs; nothing: nobody knows.
  std::optional<Bytes> memory_peak = std::nullopt;
  friend bool operator==(const Released&, const Released&) = default;
};

// Of a member that has ended, with all of its processes. Of one that holds nothing: success.
// kFailedPrecondition: an end of theirs was not seen yet; later.
struct ReleaseOrder {
  using Answer = Released;
  model::MemberKey key;
  friend bool operator==(const ReleaseOrder&, const ReleaseOrder&) = default;
};

// Slices that were granted before everybody was a job become those of this member.
struct AdoptOrder {
  using Answer = Done;
  model::TenantId tenant = {};
  model::MemberKey key;
  friend bool operator==(const AdoptOrder&, const AdoptOrder&) = default;
};

struct Signalled {
  bool holds = false;  // HolderGone tells when it has let go; false: it holds nothing
  friend bool operator==(const Signalled&, const Signalled&) = default;
};

// To the processes of a holder that was not started by us; a slice that nobody uses is released.
struct SignalOrder {
  using Answer = Signalled;
  model::MemberKey key;
  std::int32_t signal = 0;
  friend bool operator==(const SignalOrder&, const SignalOrder&) = default;
};

// Holders that ended a moment ago have been told of (HolderGone) when it is answered.
struct ReapOrder {
  using Answer = Done;
  friend bool operator==(const ReapOrder&, const ReapOrder&) = default;
};

// --- Members ---

// kAlreadyExists: this member of this attempt was started before, by whomever: never twice. After
// any other error but kUnavailable nothing runs and nothing will.
struct StartOrder {
  using Answer = Done;
  StartOrder(model::MemberKey key_, model::JobSpec spec_) : key(key_), spec(std::move(spec_)) {}
  model::MemberKey key;
  model::JobSpec spec;
  UserName user = {};
  std::optional<model::ArrayTask> task = std::nullopt;
  std::vector<std::string> hosts = {};  // where each member of the attempt is reached, by rank
  Granted slice = {};
  Environment secrets = {};  // what the variables of spec.secrets hold; written down nowhere
  friend bool operator==(const StartOrder&, const StartOrder&) = default;
};

struct Found {
  std::optional<model::MemberReport> report = std::nullopt;  // nothing: it was never started
  friend bool operator==(const Found&, const Found&) = default;
};

// Whoever is lost has been ended when it is answered.
struct FindOrder {
  using Answer = Found;
  model::MemberKey key;
  friend bool operator==(const FindOrder&, const FindOrder&) = default;
};

// SIGTERM now, SIGKILL after the grace, whoever lives by then. A second one can only shorten it. Of
// a member that has ended: success.
struct StopOrder {
  using Answer = Done;
  model::MemberKey key;
  model::Seconds grace{0};
  friend bool operator==(const StopOrder&, const StopOrder&) = default;
};

// Its output is removed. Of one that is not there: success. kFailedPrecondition: it lives.
struct ForgetOrder {
  using Answer = Done;
  model::MemberKey key;
  friend bool operator==(const ForgetOrder&, const ForgetOrder&) = default;
};

// Whether the machine can run work of this person, in this mode, with these ulimits, and such a
// container; if not, why and what to do.
struct CheckOrder {
  using Answer = Done;
  UserName user = {};
  std::optional<model::ContainerSpec> container = std::nullopt;
  model::GpuMode mode = model::GpuMode::kTimeslice;
  std::map<std::string, model::Ulimit> ulimits = {};
  friend bool operator==(const CheckOrder&, const CheckOrder&) = default;
};

// --- The machine as it is ---

struct MachineGpu {
  model::GpuUuid uuid;
  std::uint32_t index = 0;
  std::string model = {};
  Bytes memory = {};         // that programs can use
  std::string resting = {};  // why it gets no new work; empty when it does
  bool lost = false;         // and whoever is on it has to leave
  // GPUs with the same number are close in that way; nothing: nobody knows.
  std::optional<std::uint32_t> nvlink_island = std::nullopt;
  std::optional<std::uint32_t> pcie_switch = std::nullopt;
  std::optional<std::uint32_t> numa_node = std::nullopt;
  friend bool operator==(const MachineGpu&, const MachineGpu&) = default;
};

struct MachineState {
  std::string node = {};     // its name
  std::string address = {};  // where members on other machines reach its members
  std::uint64_t cpu_milli = 0;
  Bytes ram = {};
  Bytes smallest_slice = {};  // no member gets less memory on a GPU
  std::vector<MachineGpu> gpus = {};
  friend bool operator==(const MachineState&, const MachineState&) = default;
};

struct MemberActivity {
  model::MemberKey key;
  std::uint64_t used = 0;  // thousandths of a GPU in the last second, over all of its slices
  friend bool operator==(const MemberActivity&, const MemberActivity&) = default;
};

struct Activity {
  std::vector<MemberActivity> members = {};
  friend bool operator==(const Activity&, const Activity&) = default;
};

struct ActivityOrder {
  using Answer = Activity;
  friend bool operator==(const ActivityOrder&, const ActivityOrder&) = default;
};

// Slices that somebody holds.
struct HeldSlices {
  model::MemberKey key;  // job 0: granted before everybody was a job
  model::Holder holder = model::Holder::kMembers;
  model::TenantId tenant = {};
  std::string name = {};
  std::string command = {};
  std::string user = {};
  WallTime since = {};
  std::vector<model::Slice> slices = {};
  model::JobClass job_class = model::JobClass::kBatch;
  friend bool operator==(const HeldSlices&, const HeldSlices&) = default;
};

// Everything that is there: for whoever was away, or is new.
struct Listing {
  MachineState state = {};
  std::vector<model::MemberReport> members = {};
  std::vector<HeldSlices> held = {};
  friend bool operator==(const Listing&, const Listing&) = default;
};

struct ListOrder {
  using Answer = Listing;
  friend bool operator==(const ListOrder&, const ListOrder&) = default;
};

struct OutputSizes {
  std::map<model::MemberKey, Bytes> members = {};
  friend bool operator==(const OutputSizes&, const OutputSizes&) = default;
};

struct OutputSizesOrder {
  using Answer = OutputSizes;
  friend bool operator==(const OutputSizesOrder&, const OutputSizesOrder&) = default;
};

// --- For people ---

// Documents as the API shows them, of this machine. `name` says of which one, where there are many.
enum class View : std::uint8_t {
  kNode,     // the machine and its GPUs
  kTenants,  // an array: who holds slices
  kTenant,   // one of them, by number or name
  kSlices,   // an array: the slices that are held by a name
  kSlice,    // one of them, by number or name
  kGpus,     // health, cordon and readings of the GPUs
};

struct Document {
  std::string json;
  friend bool operator==(const Document&, const Document&) = default;
};

struct ViewOrder {
  using Answer = Document;
  View view = View::kNode;
  std::string name = {};
  friend bool operator==(const ViewOrder&, const ViewOrder&) = default;
};

// What is in the way of a request that found no place, GPU by GPU (a problem document); or that
// nothing is. kNotFound, kInvalidArgument: a device that was named is not there.
struct WhyNotOrder {
  using Answer = Document;
  explicit WhyNotOrder(model::JobSpec spec_) : spec(std::move(spec_)) {}
  model::JobSpec spec;  // its request, devices and mode
  friend bool operator==(const WhyNotOrder&, const WhyNotOrder&) = default;
};

// Whether slices of somebody's own may be called so, and the devices exist that it names.
struct CheckHolderOrder {
  using Answer = Done;
  std::string name = {};
  std::vector<std::string> devices = {};
  friend bool operator==(const CheckHolderOrder&, const CheckHolderOrder&) = default;
};

struct SliceChange {
  std::optional<Share> share = std::nullopt;
  std::optional<Bytes> memory = std::nullopt;
  std::optional<bool> capped = std::nullopt;
  std::optional<model::JobClass> job_class = std::nullopt;
  friend bool operator==(const SliceChange&, const SliceChange&) = default;
};

struct Proposed {
  model::TenantId tenant = {};
  model::MemberKey key;
  std::vector<model::Slice> before = {};
  std::vector<model::Slice> after = {};
  friend bool operator==(const Proposed&, const Proposed&) = default;
};

// What the slices of a tenant (by number or name) would be, if this caller may change them so;
// nothing is changed.
struct ProposeOrder {
  using Answer = Proposed;
  std::string tenant = {};
  SliceChange change = {};
  LocalCaller caller = {};
  friend bool operator==(const ProposeOrder&, const ProposeOrder&) = default;
};

struct ChangeOrder {
  using Answer = Done;
  model::TenantId tenant = {};
  std::vector<model::Slice> slices = {};
  std::optional<model::JobClass> job_class = std::nullopt;
  friend bool operator==(const ChangeOrder&, const ChangeOrder&) = default;
};

// Slices that a caller gives back. Refused while processes use the GPU.
struct GiveBackOrder {
  using Answer = Done;
  std::string tenant = {};  // by number or name
  bool held_only = false;   // only where they are held by a name
  LocalCaller caller = {};
  friend bool operator==(const GiveBackOrder&, const GiveBackOrder&) = default;
};

// An operator takes a GPU (by index or UUID) out of use, or puts it back.
struct CordonOrder {
  using Answer = Done;
  std::string gpu = {};
  bool cordoned = true;
  std::string reason = {};
  bool drain = false;
  std::optional<std::uint64_t> end_after_seconds = std::nullopt;
  friend bool operator==(const CordonOrder&, const CordonOrder&) = default;
};

using Order = std::variant<GrantOrder, ReleaseOrder, AdoptOrder, SignalOrder, ReapOrder, StartOrder,
                           FindOrder, StopOrder, ForgetOrder, CheckOrder, ActivityOrder, ListOrder,
                           OutputSizesOrder, ViewOrder, WhyNotOrder, CheckHolderOrder, ProposeOrder,
                           ChangeOrder, GiveBackOrder, CordonOrder>;
using Answer = std::variant<Done, Granted, Released, Signalled, Found, Activity, Listing,
                            OutputSizes, Document, Proposed>;

// --- What a machine tells without being asked ---

struct MemberEnded {
  model::MemberReport report;
  friend bool operator==(const MemberEnded&, const MemberEnded&) = default;
};
// Somebody whom we did not start has let go of its slices.
struct HolderGone {
  model::MemberKey key;
  friend bool operator==(const HolderGone&, const HolderGone&) = default;
};
struct StateChanged {
  MachineState state;
  friend bool operator==(const StateChanged&, const StateChanged&) = default;
};
// What happened to a GPU, or to a tenant because of it.
struct GpuEvent {
  std::uint64_t number = 0;  // on this machine, since its agent started
  WallTime at = {};
  std::string kind = {};
  std::optional<std::uint32_t> gpu = std::nullopt;
  std::string uuid = {};
  std::string tenant = {};
  std::string state = {};
  std::string reason = {};
  friend bool operator==(const GpuEvent&, const GpuEvent&) = default;
};
// The agent can be reached, or not any more. After it was away, what it told meanwhile is lost:
// ListOrder says what there is.
struct Reachable {
  bool yes = true;
  friend bool operator==(const Reachable&, const Reachable&) = default;
};
using News = std::variant<MemberEnded, HolderGone, StateChanged, GpuEvent, Reachable>;

// --- Streams ---

// A connection to something inside a member, of the frames of sys/frames.h in both directions.
struct StreamOrder {
  enum class Kind : std::uint8_t {
    kOutput,  // what it has written, and writes from now on
    kExec,    // another command beside it
    kAttach,  // its own input and output
    kCopyIn,  // a tar stream into a folder of it
    kCopyOut,
    kPort,  // a TCP port on which it listens
    kJoin,  // a channel that was opened before
  };
  Kind kind = Kind::kOutput;
  model::MemberKey key;
  std::vector<std::string> command = {};             // of kExec
  Environment environment = {};                      // of kExec
  std::string path = {};                             // working folder of kExec; of copies
  bool terminal = false;                             // of kExec
  std::uint16_t rows = 24;                           // of the terminal
  std::uint16_t columns = 80;                        // of the terminal
  std::uint16_t port = 0;                            // of kPort
  std::optional<std::uint64_t> tail = std::nullopt;  // of kOutput: so many lines
  std::optional<WallTime> since = std::nullopt;      // of kOutput
  bool follow = false;                               // of kOutput: until the member has ended
  // Not empty: what is said goes through a channel of this name (agent/relay.h), which is opened
  // or, by kJoin, carried over this stream.
  std::string channel = {};
  // Of a channel that is opened: how long it is kept without anybody who carries it.
  Duration keep = std::chrono::minutes(10);
  friend bool operator==(const StreamOrder&, const StreamOrder&) = default;
};

}  // namespace divvy::agent
