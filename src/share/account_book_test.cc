#include "share/account_book.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>

namespace divvy::share {
namespace {

AccountBook book() {
  auto made = AccountBook::create();
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return *std::move(made);
}

TEST(AccountBook, GivesSlotsThatCountNothing) {
  AccountBook accounts = book();
  const Seat first = accounts.take(10).value();
  EXPECT_EQ(first, (Seat{0, 1}));
  (*accounts.mapping())->slot[0].gpu[2].used = 500;
  EXPECT_EQ(accounts.counted(first, 2).used, Bytes(500));
  EXPECT_EQ((*accounts.mapping())->slot_high.load(), 1U);
  accounts.give_up(first);
  EXPECT_EQ((*accounts.mapping())->slot[0].gpu[2].used.load(), 0U);
  EXPECT_EQ((*accounts.mapping())->slot[0].generation.load(), 2U);
  EXPECT_EQ(accounts.counted(first, 2).used, Bytes(0));
  EXPECT_EQ(accounts.take(11).value(), (Seat{0, 3}));
}

TEST(AccountBook, RunsOutOfSlotsAndGetsThemBack) {
  AccountBook accounts = book();
  std::vector<Seat> seats;
  for (int i = 0; i < wire::kMaxProcesses; ++i) seats.push_back(accounts.take(i + 1).value());
  EXPECT_FALSE(accounts.take(999).has_value());
  accounts.give_up(seats[100]);
  EXPECT_EQ(accounts.take(999)->slot, 100U);
}

TEST(AccountBook, DoesNotTrustThePage) {
  AccountBook accounts = book();
  const Seat seat = accounts.take(10).value();
  std::memset(static_cast<void*>(accounts.mapping()->get()), 0xff, sizeof(wire::AccountPage));
  EXPECT_TRUE(accounts.is_taken(seat));
  EXPECT_LT(accounts.counted(seat, 0).used, tib(4096));
  EXPECT_EQ(accounts.take(11).value(), (Seat{1, 1}));
  accounts.give_up(seat);
  EXPECT_EQ((*accounts.mapping())->slot[0].generation.load(), 2U);
}

TEST(AccountBook, ReadsWhoSitsWhereFromAnAdoptedPage) {
  AccountBook before = book();
  const Seat seat = before.take(77).value();
  (*before.mapping())->slot[seat.slot].gpu[0].used = 42;
  auto page = map_account_page(UniqueFd(::dup(before.mapping()->fd())));
  ASSERT_TRUE(page.has_value()) << page.error().message;
  const AccountBook after = AccountBook::adopt(*std::move(page));
  ASSERT_EQ(after.claims().size(), 1U);
  EXPECT_EQ(after.claims()[0].seat, seat);
  EXPECT_EQ(after.claims()[0].pid, 77);
  EXPECT_EQ(after.counted(seat, 0).used, Bytes(42));
}

TEST(Pages, RefusesPagesThatCouldBeCutShort) {
  for (const int seals : {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW}) {
    UniqueFd fd(::memfd_create("page", MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(fd.get(), wire::kAccountBytes), 0);
    ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    EXPECT_FALSE(map_account_page(std::move(fd)).has_value());
  }
  EXPECT_FALSE(map_account_page(UniqueFd(::open("/dev/null", O_RDWR))).has_value());
  EXPECT_FALSE(map_account_page(UniqueFd(::open("/etc/passwd", O_RDONLY))).has_value());
  EXPECT_FALSE(map_account_page(UniqueFd()).has_value());
  // One kind for the other.
  auto account = create_account_page();
  EXPECT_FALSE(map_lanes_page(UniqueFd(::dup(account->fd()))).has_value());
}

TEST(Pages, LetsNobodyElseWriteAControlPage) {
  int seen = -1;
  auto page = create_control_page([&seen](int fd) {
    seen = fd;
    // Before it is sealed the keeper can still map it.
    void* writable =
        ::mmap(nullptr, wire::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT_NE(writable, MAP_FAILED);
    ::munmap(writable, wire::kControlBytes);
  });
  ASSERT_TRUE(page.has_value()) << page.error().message;
  EXPECT_EQ(seen, page->fd());
  EXPECT_EQ(::mmap(nullptr, wire::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, page->fd(), 0),
            MAP_FAILED);
  EXPECT_LT(::pwrite(page->fd(), "x", 1, 0), 0);
  (*page)->gpu[0].gate = 1;
  void* read = ::mmap(nullptr, wire::kControlBytes, PROT_READ, MAP_SHARED, page->fd(), 0);
  ASSERT_NE(read, MAP_FAILED);
  EXPECT_EQ(static_cast<wire::ControlPage*>(read)->gpu[0].gate.load(), 1U);
  ::munmap(read, wire::kControlBytes);
}

}  // namespace
}  // namespace divvy::share
