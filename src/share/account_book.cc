#include "share/account_book.h"

#include <algorithm>

namespace divvy::share {
namespace {

// More than any GPU has; keeps sums of what tenants write from overflowing.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;

void clear(wire::AccountSlot& slot) {
  for (wire::AccountCell& cell : slot.gpu) {
    cell.used.store(0, std::memory_order_relaxed);
    cell.pending.store(0, std::memory_order_relaxed);
    cell.peak.store(0, std::memory_order_relaxed);
    cell.refused.store(0, std::memory_order_relaxed);
  }
}

}  // namespace

CountedMemory read_cell(const wire::AccountCell& cell) {
  const auto read = [](const std::atomic<std::uint64_t>& value) {
    return std::min(value.load(std::memory_order_relaxed), kMostBytes);
  };
  return {Bytes(read(cell.used) + read(cell.pending)), Bytes(read(cell.peak)), read(cell.refused)};
}

Result<AccountBook> AccountBook::create() {
  DIVVY_TRY(page, create_account_page());
  return AccountBook(std::move(page));
}

AccountBook AccountBook::adopt(AccountMapping page) {
  AccountBook book(std::move(page));
  for (std::size_t i = 0; i < book.generations_.size(); ++i) {
    book.generations_[i] = (*book.page_)->slot[i].generation.load(std::memory_order_acquire);
  }
  return book;
}

std::vector<AccountBook::Claim> AccountBook::claims() const {
  std::vector<Claim> result;
  for (std::uint32_t i = 0; i < generations_.size(); ++i) {
    if (generations_[i] % 2 == 0) continue;
    const pid_t pid = (*page_)->slot[i].pid.load(std::memory_order_relaxed);
    result.push_back({{i, generations_[i]}, pid});
  }
  return result;
}

std::optional<Seat> AccountBook::take(pid_t pid) {
  for (std::uint32_t i = 0; i < generations_.size(); ++i) {
    if (generations_[i] % 2 != 0) continue;
    wire::AccountSlot& slot = (*page_)->slot[i];
    clear(slot);
    slot.pid.store(pid, std::memory_order_relaxed);
    slot.generation.store(++generations_[i], std::memory_order_release);
    // Whoever reserves sums up the slots below this mark, so it has to cover the new one before its
    // process counts anything. The tenant can write the mark; only it would suffer.
    std::atomic<std::uint32_t>& high = (*page_)->slot_high;
    if (high.load(std::memory_order_relaxed) <= i) high.store(i + 1, std::memory_order_release);
    return Seat{i, generations_[i]};
  }
  return std::nullopt;
}

bool AccountBook::is_taken(Seat seat) const {
  return seat.slot < generations_.size() && seat.generation % 2 != 0 &&
         generations_[seat.slot] == seat.generation;
}

void AccountBook::give_up(Seat seat) {
  if (!is_taken(seat)) return;
  wire::AccountSlot& slot = (*page_)->slot[seat.slot];
  clear(slot);
  slot.pid.store(0, std::memory_order_relaxed);
  slot.generation.store(++generations_[seat.slot], std::memory_order_release);
}

CountedMemory AccountBook::counted(Seat seat, int slice) const {
  if (!is_taken(seat)) return {};
  return read_cell((*page_)->slot[seat.slot].gpu[slice]);
}

}  // namespace divvy::share
