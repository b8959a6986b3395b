#include "agent/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace divvy::agent {
namespace {

TEST(Workers, ABlockedKindDelaysNoOther) {
  std::promise<void> go;
  const std::shared_future<void> gate(go.get_future());
  std::promise<void> ended;
  std::promise<void> started;
  Workers workers({1, 1, 1, 1});
  workers.add(Work::kEnd, [&] {
    ended.set_value();
    gate.wait();
  });
  ended.get_future().wait();
  workers.add(Work::kStart, [&] { started.set_value(); });
  started.get_future().wait();
  go.set_value();
}

TEST(Workers, EveryTaskOfABurstRuns) {
  constexpr int kTasks = 200;
  std::array<std::atomic<int>, 4> done{};
  std::promise<void> all;
  std::atomic<int> left = 4 * kTasks;
  Workers workers({1, 2, 3, 4});
  for (int i = 0; i < kTasks; ++i) {
    for (std::size_t kind = 0; kind < done.size(); ++kind) {
      workers.add(static_cast<Work>(kind), [&, kind] {
        ++done[kind];
        if (--left == 0) all.set_value();
      });
    }
  }
  all.get_future().wait();
  for (const std::atomic<int>& ran : done) EXPECT_EQ(ran, kTasks);
}

TEST(Workers, DropsWhatWaitsWhenItEnds) {
  std::promise<void> go;
  const std::shared_future<void> gate(go.get_future());
  std::promise<void> running;
  std::atomic<int> done = 0;
  {
    Workers workers({1, 0, 0, 0});
    workers.add(Work::kStart, [&] {
      running.set_value();
      gate.wait();
      ++done;
    });
    running.get_future().wait();
    for (int i = 0; i < 10; ++i) workers.add(Work::kGrant, [&] { ++done; });
    go.set_value();
  }
  EXPECT_EQ(done, 1) << "nobody works at grants here";
}

}  // namespace
}  // namespace divvy::agent
