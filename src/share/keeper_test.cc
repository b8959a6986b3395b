#include "share/keeper.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "share/pages.h"

namespace divvy::share {
namespace {

// Far beyond what a healthy run needs, so that a failure is no hang.
template <typename Condition>
bool eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::sched_yield();
  }
  return true;
}

void close_gates(wire::ControlPage& page) {
  page.gpu[0].mode.store(1);
  page.gpu[0].gate.store(0);
  page.any_gated.store(1);
}

bool is_open(const wire::ControlPage& page) {
  return page.gpu[0].mode.load() == 0 && page.gpu[0].gate.load() == 1 && page.any_gated.load() == 0;
}

TEST(Keeper, OpensTheGatesWhenTheDaemonIsKilled) {
  // A page that is given to the running keeper before it is sealed.
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const UniqueFd unsealed(::memfd_create("page", 0));
  ASSERT_EQ(::ftruncate(unsealed.get(), wire::kControlBytes), 0);
  auto* mapped = static_cast<wire::ControlPage*>(
      ::mmap(nullptr, wire::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, unsealed.get(), 0));
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    auto keeper = Keeper::create();
    if (!keeper || !keeper->add(1, unsealed.get())) ::_exit(1);
    close_gates(*mapped);
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(is_open(*mapped));
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return is_open(*mapped); }));
  ::munmap(mapped, wire::kControlBytes);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(Keeper, PagesSurviveAKilledKeeper) {
  auto page = create_control_page({});
  ASSERT_TRUE(page.has_value()) << page.error().message;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    auto keeper = Keeper::create();
    if (!keeper) ::_exit(1);
    keeper->know(1, page->get());
    const pid_t first = keeper->pid();
    ::kill(first, SIGKILL);
    while (keeper->pid() == first) {
      if (!keeper->revive()) ::_exit(2);
    }
    close_gates(**page);
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return is_open(**page); }));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(Keeper, LeavesPagesAloneThatWereTakenFromIt) {
  const UniqueFd fd(::memfd_create("page", 0));
  ASSERT_EQ(::ftruncate(fd.get(), wire::kControlBytes), 0);
  auto* page = static_cast<wire::ControlPage*>(
      ::mmap(nullptr, wire::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
  {
    auto keeper = Keeper::create();
    ASSERT_TRUE(keeper.has_value());
    ASSERT_TRUE(keeper->add(1, fd.get()));
    keeper->remove(1);
    close_gates(*page);
  }  // Waits for the other process.
  EXPECT_FALSE(is_open(*page));
  ::munmap(page, wire::kControlBytes);
}

}  // namespace
}  // namespace divvy::share
