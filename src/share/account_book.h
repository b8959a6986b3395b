// Which process of a tenant sits in which slot of its account page, as the daemon knows it.
//
// The page itself is written by the tenant too, so this book and not the page says who sits where;
// only after a restart of the daemon is the page read for that. Slots are never moved. Used by one
// thread at a time; mapping() may be read by others as long as they hold it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "share/pages.h"

namespace divvy::share {

struct Seat {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  friend bool operator==(const Seat&, const Seat&) = default;
};

// Memory of one process or of a whole tenant on one slice, as its processes counted it.
struct CountedMemory {
  Bytes used;  // With what is being asked for
  Bytes peak;  // The largest that one process had
  std::uint64_t refused = 0;
};

class AccountBook {
 public:
  [[nodiscard]] static Result<AccountBook> create();

  // A page that outlived the last daemon. Its seats are taken as it says; the caller gives up those
  // whose process is gone.
  struct Claim {
    Seat seat;
    pid_t pid = 0;
  };
  [[nodiscard]] static AccountBook adopt(AccountMapping page);
  [[nodiscard]] std::vector<Claim> claims() const;

  // Nothing when all are taken. The cells of the slot are zero.
  [[nodiscard]] std::optional<Seat> take(pid_t pid);
  [[nodiscard]] bool is_taken(Seat seat) const;
  // From now on the slot counts nothing.
  void give_up(Seat seat);

  [[nodiscard]] CountedMemory counted(Seat seat, int slice) const;

  [[nodiscard]] const std::shared_ptr<AccountMapping>& mapping() const { return page_; }

 private:
  explicit AccountBook(AccountMapping page)
      : page_(std::make_shared<AccountMapping>(std::move(page))) {}

  std::shared_ptr<AccountMapping> page_;
  std::array<std::uint32_t, wire::kMaxProcesses> generations_{};  // Odd: taken
};

// What a process counts on one slice; any contents of the page are safe.
[[nodiscard]] CountedMemory read_cell(const wire::AccountCell& cell);

}  // namespace divvy::share
