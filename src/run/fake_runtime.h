// A runtime without processes, for tests of whoever drives one: members live until the test ends
// them. Callable from any thread.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "base/unique_fd.h"
#include "run/runtime.h"

namespace divvy::run {

class FakeRuntime final : public Runtime {
 public:
  FakeRuntime();

  [[nodiscard]] Status start(const MemberStart& member) override;
  [[nodiscard]] Result<std::vector<MemberReport>> find() override;
  [[nodiscard]] Result<MemberReport> find(const MemberKey& key) override;
  [[nodiscard]] Status stop(const MemberKey& key, std::chrono::seconds grace) override;
  [[nodiscard]] Status freeze(const MemberKey& key, bool frozen) override;
  [[nodiscard]] int watch_fd() const override { return event_.get(); }
  [[nodiscard]] std::vector<MemberReport> changes() override;
  [[nodiscard]] Status forget(const MemberKey& key) override;

  // --- For the test ---
  void end(const MemberKey& key, model::MemberEnd end, MemberPhase phase = MemberPhase::kEnded);
  // The next start fails like this.
  void fail_next_start(Error error);
  [[nodiscard]] std::vector<MemberStart> started() const;
  // The grace with which it was last told to end, if it was.
  [[nodiscard]] std::optional<std::chrono::seconds> stopped(const MemberKey& key) const;

 private:
  mutable std::mutex mutex_;
  UniqueFd event_;
  std::map<MemberKey, MemberReport> members_;
  std::vector<MemberStart> started_;
  std::map<MemberKey, std::chrono::seconds> stopped_;
  std::set<MemberKey> changed_;
  std::optional<Error> next_failure_;
};

}  // namespace divvy::run
