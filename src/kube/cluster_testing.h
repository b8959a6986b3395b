// A cluster in memory for the tests of the controller: an API server (fake_store.h), and stand-ins
// for kube-scheduler, kube-controller-manager, kubelets and node agents, each of which does one
// round when it is told to. Only for tests; one thread.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kube/action.h"
#include "kube/api_server.h"
#include "kube/cluster_queue.h"
#include "kube/fake_store.h"

namespace divvy::kube::testing {

// FakeStore as an API server, without threads. Checks what Kubernetes checks of claims.
class OneThreadApi final : public ApiServer {
 public:
  explicit OneThreadApi(Clock& clock) : store_(clock, 1) {}
  Result<boost::json::object> get(const std::string& path) override;
  Result<boost::json::object> create(const std::string& path,
                                     const boost::json::object& object) override;
  Result<boost::json::object> replace(const std::string& path,
                                      const boost::json::object& object) override;
  Result<boost::json::object> patch(const std::string& path, PatchType type,
                                    const boost::json::value& patch) override;
  Status remove(const std::string& path, const boost::json::object& options) override;
  Status watch(const std::string& path, const std::function<bool(WatchEvent)>& take,
               const std::stop_token& stop) override;

  [[nodiscard]] FakeStore& store() { return store_; }
  // Names of pods that a disruption budget keeps.
  std::set<std::string> kept_by_budget;
  // Before 1.36: what a claim says of them is dropped.
  bool knows_binding_conditions = true;
  [[nodiscard]] std::vector<boost::json::object> list(const std::string& collection) const;

 private:
  FakeStore store_;
};

struct TestPod {
  std::string name;
  std::string gpu = "0.5";
  std::string space = "team-a";
  std::vector<std::string> containers = {"main"};
  std::string node = {};   // made with spec.nodeName
  std::string claim = {};  // refers to a claim that somebody wrote, and asks for nothing else
  boost::json::object more = {};               // of its spec
  bool slots = false;                          // it goes by slots
  boost::json::object metadata = {};           // labels, owners, ... besides
  std::optional<PodGang> gang = std::nullopt;  // as the webhook read it
  model::Near near = {};                       // to each other
  std::int32_t priority = 0;
};

class SimulatedCluster {
 public:
  explicit SimulatedCluster(std::size_t nodes = 2, std::uint32_t gpus = 2);

  [[nodiscard]] OneThreadApi& api() { return api_; }
  [[nodiscard]] ManualClock& clock() { return clock_; }
  [[nodiscard]] WallTime now() const { return clock_.wall_now(); }

  // As the webhook leaves it.
  void create_pod(const TestPod& pod);
  // Anything else.
  void create(const std::string& collection, const boost::json::object& object);
  // As people write one.
  void create_claim(const std::string& name, const std::string& gpu,
                    const std::string& space = "team-a");
  void delete_pod(const std::string& name, bool force = false, const std::string& space = "team-a");
  // Its containers have ended: the node lets go, then the phase is told.
  void finish_pod(const std::string& name, const std::string& space = "team-a");
  [[nodiscard]] std::optional<boost::json::object> pod(const std::string& name,
                                                       const std::string& space = "team-a");
  [[nodiscard]] std::optional<boost::json::object> claim(const std::string& pod,
                                                         const std::string& space = "team-a");
  [[nodiscard]] std::string phase(const std::string& name, const std::string& space = "team-a");

  // One round each.
  void schedule();      // kube-scheduler
  void manage();        // garbage collector and claim controller
  void run_kubelets();  // prepare, unprepare, phases
  void report_nodes();  // every node agent writes its GpuNode
  void settle();        // all of them, a few times

  // How many more pods kube-scheduler would put there (their CPUs).
  std::map<std::string, int> room;
  // What it says of pods that fit nowhere, and for how long.
  void set_node(const std::string& name, bool ready, bool cordoned = false,
                boost::json::object labels = {}, boost::json::array taints = {});
  // One that comes later: told with the next report.
  void add_node(const std::string& name, std::uint32_t gpus, boost::json::object labels = {});
  void remove_node(const std::string& name);
  // Told with the next report of its node.
  void fail_gpu(const std::string& node, std::uint32_t index);

  // What each GPU has, of what all claims (and pods by slots) say and of what all ledgers hold:
  // never more than it has.
  [[nodiscard]] std::optional<std::string> overbooked_claims() const;
  [[nodiscard]] std::optional<std::string> overbooked_ledgers() const;
  // Device names that two claims have.
  [[nodiscard]] std::optional<std::string> shared_devices() const;
  [[nodiscard]] std::size_t held() const;
  [[nodiscard]] std::size_t refused_prepares() const { return refused_prepares_; }
  [[nodiscard]] const std::set<std::string>& ran() const { return ran_; }
  [[nodiscard]] const std::vector<std::string>& node_names() const { return node_names_; }

 private:
  struct Held {
    std::string space;
    std::string claim;
    std::string pod_uid;
    std::vector<AllocatedSlice> slices;
  };
  struct Machine {
    agent::MachineState state;
    std::map<std::string, Held> ledger;  // by uid of the claim
    bool changed = true;
  };
  [[nodiscard]] bool fits(const std::string& node) const;
  [[nodiscard]] bool prepare(Machine& machine, const std::string& node,
                             const boost::json::object& pod);
  [[nodiscard]] bool grant(Machine& machine, const std::string& uid, Held held);
  void schedule_pinned(const boost::json::object& pod);
  // Reserved, and not bound before it is told to.
  [[nodiscard]] bool wait_for_word(const boost::json::object& claim, const std::string& path);
  void forget_assumed();
  void unprepare(Machine& machine, const std::string& pod_uid);
  void put_status(const boost::json::object& object, const std::string& path,
                  boost::json::object status);

  mutable ManualClock clock_;
  OneThreadApi api_;
  std::vector<std::string> node_names_;
  std::map<std::string, Machine> machines_;
  std::map<std::string, std::string> assumed_;  // nodes by uid of claims that are reserved there
  std::set<std::string> finished_;              // pods (namespace/name) whose containers have ended
  std::set<std::string> ran_;                   // pods that were Running at some time
  std::size_t refused_prepares_ = 0;
};

// A controller without threads: what it has been told, and what it wants done.
class TestController {
 public:
  TestController(SimulatedCluster& cluster, std::uint64_t seed, ClusterQueue::Options options = {});

  // The next `most` changes of one kind (as ObjectKind) that it has not heard of.
  void hear(std::size_t kind, std::size_t most);
  void hear_all();
  void decide();
  // The first of its actions, or that at this place; with its answer lost, or not done at all.
  enum class Fault {
    kNone,
    kAnswerLost,
    kNotDone,
    kAnswerLate,  // until answer(): what was written may be heard of before
  };
  void act(std::size_t which, Fault fault = Fault::kNone);
  // The answer that is late for the longest time. Nothing where there is none.
  void answer();
  [[nodiscard]] std::size_t actions() const { return actions_.size(); }
  [[nodiscard]] const std::deque<Action>& queued() const { return actions_; }
  // Hears, decides and acts until nothing is left to do.
  void work();
  [[nodiscard]] ClusterQueue& queue() { return *queue_; }
  // What it did, in order.
  std::vector<ActionKind> done;

 private:
  SimulatedCluster& cluster_;
  std::unique_ptr<ClusterQueue> queue_;
  std::array<std::size_t, kObjectKinds> heard_{};
  std::deque<Action> actions_;
  struct Late {
    std::uint64_t number = 0;
    Result<boost::json::object> answer;
  };
  std::deque<Late> late_;
};

}  // namespace divvy::kube::testing
