// An API server in memory, for tests: resource versions, uids and conflicts, status apart from the
// rest, finalizers and graceful deletion of pods, patches, selectors, paging, watches with
// bookmarks and 410, failures on demand. Any resource exists; nothing is validated but what
// fake_store.cc has. Every function may be called from any thread.
//
//   FakeApi api;
//   api.put("/api/v1/nodes", {{"metadata", {{"name", "gpu-1"}}}, {"status", {...}}});
//   api.fail_next("PATCH", {ErrorCode::kUnavailable, "gone"});
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "kube/api_server.h"
#include "kube/fake_store.h"

namespace divvy::kube {

class FakeApi final : public ApiServer {
 public:
  // `clock` only gives the times in the objects, and outlives it.
  explicit FakeApi(Clock& clock, std::uint32_t seed = 1);
  // With a clock of its own.
  FakeApi();
  ~FakeApi() override;

  using ApiServer::watch;
  [[nodiscard]] Result<boost::json::object> get(const std::string& path) override;
  [[nodiscard]] Result<boost::json::object> create(const std::string& path,
                                                   const boost::json::object& object) override;
  [[nodiscard]] Result<boost::json::object> replace(const std::string& path,
                                                    const boost::json::object& object) override;
  [[nodiscard]] Result<boost::json::object> patch(const std::string& path, PatchType type,
                                                  const boost::json::value& patch) override;
  [[nodiscard]] Status remove(const std::string& path, const boost::json::object& options) override;
  [[nodiscard]] Status watch(const std::string& path, const std::function<bool(WatchEvent)>& take,
                             const std::stop_token& stop) override;
  // What put_text() said, and with follow=true what it adds, until end_text().
  [[nodiscard]] Status read_text(const std::string& path,
                                 const std::function<bool(std::string_view)>& take,
                                 const std::stop_token& stop) override;

  // As whoever plays the pod says.
  using Connect = std::function<Result<std::unique_ptr<PodConnection>>(
      const std::string& path, const std::string& protocols)>;
  void set_connect(Connect connect);
  [[nodiscard]] Result<std::unique_ptr<PodConnection>> connect(
      const std::string& path, const std::string& protocols) override;

  // Adds to what read_text() answers for this path, whatever is in its query.
  void put_text(const std::string& path, std::string_view text);
  // Whoever follows it has all of it.
  void end_text(const std::string& path);

  // As if somebody else had written it, status and all, whatever was there before. `collection` is
  // its path; the namespace is in the path or in the object. What it is then.
  boost::json::object put(const std::string& collection, boost::json::object object);
  // What the garbage collector of a cluster does, once.
  void collect_garbage();

  // Called before every request with its verb ("GET", "POST", "PUT", "PATCH", "DELETE", "WATCH")
  // and path: an error is its answer, and nothing is done. Not called at the same time twice.
  using Fault =
      std::function<std::optional<Error>(const std::string& verb, const std::string& path)>;
  void set_fault(Fault fault);
  // The next request of this verb fails so; several calls, several requests.
  void fail_next(const std::string& verb, Error error);
  // The next write of this verb is done, and its answer lost (kUnavailable).
  void lose_next_answer(const std::string& verb);

  // Stops and starts: while it is away everything is kUnavailable, and watches end with that.
  void set_away(bool away);
  // Ends the watches that run, and texts that are followed, as servers and proxies do now and then.
  void end_watches();
  // What a compaction does: watches and pages of before end with kOutOfRange.
  void expire();
  // Every watch that asked for bookmarks gets one.
  void send_bookmarks();

  // "PATCH /api/v1/...", in their order, without failed ones.
  [[nodiscard]] std::vector<std::string> requests() const;
  [[nodiscard]] std::size_t running_watches() const;
  // Returns when so many watches run.
  void await_watches(std::size_t count);

 private:
  struct Snapshot {
    std::vector<FakeStore::Object> objects;
    std::uint64_t revision = 0;
  };
  class Follower;

  // Under the lock: what stands against the request, if anything.
  [[nodiscard]] Status admit(const std::string& verb, const std::string& path);
  template <typename Write>
  Result<boost::json::object> write(const std::string& verb, const std::string& path,
                                    const Write& change);
  [[nodiscard]] Result<boost::json::object> list(const ResourcePath& path);

  SystemClock own_clock_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  FakeStore store_;
  Fault fault_;
  Connect connect_;
  std::map<std::string, std::deque<Error>> failures_;  // By verb
  std::map<std::string, std::size_t> lost_answers_;    // By verb
  std::map<std::string, Snapshot> snapshots_;          // By continue token
  std::size_t last_token_ = 0;
  std::vector<std::string> requests_;
  struct Text {
    std::string text;
    bool ended = false;
  };
  std::map<std::string, Text> texts_;  // By path
  std::size_t watches_ = 0;
  std::size_t ends_ = 0;       // How often end_watches() was called
  std::size_t bookmarks_ = 0;  // How often send_bookmarks() was called
  std::size_t expiries_ = 0;
  bool away_ = false;
};

}  // namespace divvy::kube
