#include "kube/defragmentation.h"

#include "base/units.h"

namespace divvy::kube {
namespace {

std::string gpus_text(std::uint64_t thousandths) {
  std::string text =
      fmt::format("{}.{:03}", thousandths / Share::kWhole, thousandths % Share::kWhole);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// The largest job on one node: so many whole GPUs, or a part of one.
std::uint64_t largest(const jobs::FreeRoom& room) {
  return room.largest_gpus > 0 ? std::uint64_t{room.largest_gpus} * Share::kWhole
                               : room.largest_part;
}

}  // namespace

std::string_view to_string(Defragmentation mode) {
  switch (mode) {
    case Defragmentation::kOff:
      return "off";
    case Defragmentation::kDryRun:
      return "dry-run";
    case Defragmentation::kOn:
      return "on";
  }
  return "";
}

Result<Defragmentation> parse_defragmentation(std::string_view text) {
  for (const Defragmentation mode :
       {Defragmentation::kOff, Defragmentation::kDryRun, Defragmentation::kOn}) {
    if (text == to_string(mode)) return mode;
  }
  return err(ErrorCode::kInvalidArgument, "defragmentation is off, dry-run or on, not \"{}\"",
             text.substr(0, 60));
}

std::string describe(const PlannedMoves& plan) {
  std::string text = fmt::format("it fits on {} if {} pod{} moved: ", plan.node, plan.moves.size(),
                                 plan.moves.size() == 1 ? " is" : "s are");
  for (std::size_t i = 0; i < plan.moves.size(); ++i) {
    const PlannedMoves::Step& step = plan.moves[i];
    text += fmt::format("{}{} from {} to {}", i == 0 ? "" : ", ", step.pod, step.from, step.to);
  }
  return text;
}

std::string describe_gain(const PlannedMoves& plan) {
  return fmt::format(
      "the largest job that fits is then of {} GPU instead of {}, and {} GPU are stranded instead "
      "of {}",
      gpus_text(largest(plan.after)), gpus_text(largest(plan.before)),
      gpus_text(plan.after.stranded), gpus_text(plan.before.stranded));
}

}  // namespace divvy::kube
