// random: a lot decides.
//
// Assumptions: none. It is there to show what the others are worth.
// Algorithm: of all nodes on which the member fits, each is as likely as any other; a part goes to
//   any GPU that has room for it, whole GPUs are those with the lowest numbers.
// Factors: the seed.
#include <bit>

#include "place/lots.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(std::uint64_t seed) : lots_(seed) {}

  [[nodiscard]] Choice choose(const NodeView& node, const Ask& ask) override {
    Choice choice = tightest(node, ask);
    if (choice.part_device < 0) return choice;
    unsigned room = part_devices(node, ask) & devices_to_use(node, ask) & ~unsigned{choice.whole};
    const auto count = static_cast<std::uint32_t>(std::popcount(room));
    for (std::uint32_t skip = lots_.below(count); skip > 0; --skip) room &= room - 1;
    choice.part_device = static_cast<std::int16_t>(std::countr_zero(room));
    return choice;
  }

  [[nodiscard]] float score(const NodeView&, const Ask&, const Choice&) override { return 0; }

  [[nodiscard]] bool compares() const override { return true; }
  void compare(const Ask&, std::span<Candidate> candidates) override {
    if (candidates.empty()) return;
    candidates[lots_.below(static_cast<std::uint32_t>(candidates.size()))].score = 100;
  }

 private:
  Lots lots_;
};

}  // namespace

std::unique_ptr<Policy> make_random(std::uint64_t seed) {
  return std::make_unique<RandomPolicy>(seed);
}

}  // namespace divvy::place
