// The runtime of this machine: members as plain processes or in podman's containers, each with a
// shepherd of its own. One per daemon, in a folder that no other daemon uses; callable from any
// thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "run/member_folder.h"
#include "run/runtime.h"

namespace divvy::run {

class MachineRuntime final : public Runtime {
 public:
  struct Options {
    std::filesystem::path members;  // made where it is not there
    // The program and arguments that are a shepherd when the folder follows.
    std::vector<std::string> shepherd = {"/proc/self/exe", "--shepherd"};
    // The same for one that removes a lost member's container (run/shepherd.h).
    std::vector<std::string> remover = {"/proc/self/exe", "--remove-container"};
    PodmanSettings podman;
    bool control_groups = true;
    std::chrono::seconds patience{30};  // for a shepherd that does not say that it is ready
  };
  // `clock` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<MachineRuntime>> create(Options options,
                                                                      const Clock& clock);
  ~MachineRuntime() override;

  [[nodiscard]] Status start(const MemberStart& member) override;
  [[nodiscard]] Result<std::vector<MemberReport>> find() override;
  [[nodiscard]] Result<MemberReport> find(const MemberKey& key) override;
  [[nodiscard]] Status stop(const MemberKey& key, std::chrono::seconds grace) override;
  [[nodiscard]] int watch_fd() const override { return epoll_.get(); }
  [[nodiscard]] std::vector<MemberReport> changes() override;
  [[nodiscard]] Result<std::map<MemberKey, Bytes>> log_sizes() override;
  [[nodiscard]] Status forget(const MemberKey& key) override;

  // For readers of its output (run/log_reader.h) and callers of its shepherd
  // (run/shepherd_client.h).
  [[nodiscard]] std::filesystem::path folder_of(const MemberKey& key) const;

 private:
  MachineRuntime(Options options, const Clock& clock)
      : options_(std::move(options)), clock_(clock) {}
  [[nodiscard]] Status start_shepherd(const MemberFolder& folder,
                                      const std::map<std::string, std::string>& secrets);
  // What its folder says. With its lock when nobody looks after it and it has no last word.
  struct Look {
    MemberReport report;
    UniqueFd lock;
  };
  [[nodiscard]] Look look(const MemberFolder& folder);
  // Ends it first where it is lost. Not of one that is being started.
  [[nodiscard]] MemberReport report(const MemberFolder& folder);
  [[nodiscard]] MemberReport end_if_lost(const MemberFolder& folder);
  // The same without waiting: a lost one lives until the reaper has ended it.
  [[nodiscard]] MemberReport report_now(const MemberFolder& folder);
  void reap();
  void watch(const MemberReport& report, const MemberFolder& folder);
  void look_again_in(std::chrono::milliseconds time);
  [[nodiscard]] bool is_starting(const MemberKey& key);

  Options options_;
  const Clock& clock_;
  UniqueFd epoll_;  // readable when one of the shepherds is gone, or when it is time to look again
  UniqueFd timer_;

  std::mutex mutex_;  // of what follows; not held while something is waited for
  std::condition_variable lost_changed_;
  std::set<MemberKey> lost_;    // for the reaper, a thread that ends what lost shepherds left
  std::set<MemberKey> ending_;  // of which report() or the reaper is looking just now
  bool stopping_ = false;
  std::set<MemberKey> starting_;
  std::map<MemberKey, UniqueFd>
      watched_;         // a descriptor of the shepherd; none: it was gone already
  std::thread reaper_;  // made with the first one that is lost
};

}  // namespace divvy::run
