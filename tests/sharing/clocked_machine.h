// A machine in simulated time: GPU time passes only when the test says so, and the arbiter looks
// once after every step. The daemon's parts run inside the test, without the arbiter's thread;
// `divvy run`, the shim and the programs are the real ones. Time waits for the programs and for the
// shim in them: it goes on when each has queued what it wanted and sleeps, so how busy the machine
// is does not matter here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sharing/sharing_machine.h"

namespace divvy::testing {

class ClockedMachine : public SharingMachine {
 public:
  explicit ClockedMachine(int gpus);
  ~ClockedMachine() override;

  // Programs that do nothing until they are asked, and those that a test stops: time does not wait
  // for them while they are idle or stopped. They outlive the calls below.
  void watch(const Tenant& tenant) { watched_.push_back(&tenant); }
  // GPU time from now, when it is asked, until it is idle again.
  [[nodiscard]] std::uint64_t time_to_serve(const Tenant& service);

  // Lets so much GPU time pass.
  void advance(std::uint64_t ns);
  // GPU time of each tenant while `ns` pass, in thousandths.
  [[nodiscard]] std::vector<double> shares_while(std::uint64_t ns,
                                                 const std::vector<const Tenant*>& tenants);

 private:
  [[nodiscard]] bool is_at_rest(pid_t pid) const;
  [[nodiscard]] bool is_stopped(pid_t pid) const;
  void step();
  void seen_by_the_arbiter() override;
  void wait_for_programs();
  void wait_for_watchers();
  void move_clock(std::uint64_t ns);

  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::vector<const Tenant*> watched_;
};

}  // namespace divvy::testing
