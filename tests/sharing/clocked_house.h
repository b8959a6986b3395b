// A house in simulated time: GPU time passes only when the test says so, and the arbiter looks once
// after every step. The daemon's parts run inside the test, without the arbiter's thread; `divvy
// run`, the shim and the programs are the real ones. Time waits for the programs and for the shim
// in them: it goes on when each has queued what it wanted and sleeps, so how busy the machine is
// does not matter here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sharing/house.h"

namespace divvy::testing {

class ClockedHouse : public House {
 public:
  explicit ClockedHouse(int gpus);
  ~ClockedHouse() override;

  // Lets so much GPU time pass.
  void advance(std::uint64_t ns);
  // GPU time of each tenant while `ns` pass, in thousandths.
  [[nodiscard]] std::vector<double> shares_while(std::uint64_t ns,
                                                 const std::vector<const Tenant*>& tenants);

 private:
  void seen_by_the_arbiter() override;
  void wait_for_programs();
  void wait_for_watchers();
  void move_clock(std::uint64_t ns);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace divvy::testing
