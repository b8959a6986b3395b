#include "sim/scenario_expect.h"

#include <array>

#include "base/parse_error.h"
#include "base/text.h"

namespace divvy::sim {
namespace {

constexpr std::array<std::string_view, 17> kVerbs{
    "on",       "members",   "starts",    "runs",     "waits",    "done",
    "failed",   "cancelled", "suspended", "stopping", "preempts", "started",
    "reserved", "moved",     "near",      "together", "spread"};

// Of those that need no other word.
constexpr std::array<std::pair<std::string_view, Expected>, 7> kStates{
    {{"runs", Expected::kRuns},
     {"done", Expected::kDone},
     {"failed", Expected::kFailed},
     {"cancelled", Expected::kCancelled},
     {"suspended", Expected::kSuspended},
     {"stopping", Expected::kStopping},
     {"moved", Expected::kMoved}}};

Status read_on(ScenarioLine& line, const ScenarioNames& names, Expect& expect) {
  expect.what = Expected::kOn;
  do {
    DIVVY_TRY(node, names.node(line));
    expect.names.push_back(node);
  } while (line.more() && line.peek() != "gpu");
  if (!line.skip("gpu")) return {};
  if (expect.names.size() != 1) {
    return line.wrong("GPUs are expected on {} nodes; name one node", expect.names.size());
  }
  DIVVY_TRY(typed, line.word("the numbers of the GPUs"));
  for (const std::string_view item : split(typed, ',')) {
    DIVVY_TRY(gpu, line.whole_number(item, 0, place::kMaxDevices - 1));
    expect.gpus.push_back(static_cast<std::uint32_t>(gpu));
  }
  return {};
}

// "free 4", "held 2.5 on node-a"
Result<Expect> read_amount(ScenarioLine& line, const ScenarioNames& names, Expect expect,
                           Expected what) {
  expect.what = what;
  DIVVY_TRY(typed, line.word("how many GPUs"));
  DIVVY_TRY(amount, line.share(typed));
  expect.amount = amount;
  if (line.skip("on")) {
    DIVVY_TRY(node, names.node(line));
    expect.names.push_back(node);
  }
  return expect;
}

// "queue research holds 4", "queue research borrows 2", "queue research waits 1"
Result<Expect> read_of_queue(ScenarioLine& line, const ScenarioNames& names, Expect expect) {
  DIVVY_TRY(queue, names.queue(line));
  expect.names = {queue};
  DIVVY_TRY(verb, line.word("what is expected"));
  if (verb == "waits") {
    expect.what = Expected::kQueueWaits;
    DIVVY_TRY(typed, line.word("how many jobs"));
    DIVVY_TRY(number, line.whole_number(typed, 0, 1'000'000));
    expect.number = number;
    return expect;
  }
  if (verb != "holds" && verb != "borrows") {
    return line.wrong("{} cannot be expected of a queue; it can be holds, borrows or waits",
                      quote_typed(verb));
  }
  expect.what = verb == "holds" ? Expected::kQueueHolds : Expected::kQueueBorrows;
  DIVVY_TRY(typed, line.word("how many GPUs"));
  DIVVY_TRY(amount, line.share(typed));
  expect.amount = amount;
  return expect;
}

// "user ada holds 2"
Result<Expect> read_of_user(ScenarioLine& line, Expect expect) {
  DIVVY_TRY(user, line.word("the name of the user"));
  expect.names = {user};
  if (!line.skip("holds")) return line.wrong("write: expect user {} holds 2", quote_typed(user));
  expect.what = Expected::kUserHolds;
  DIVVY_TRY(typed, line.word("how many GPUs"));
  DIVVY_TRY(amount, line.share(typed));
  expect.amount = amount;
  return expect;
}

Result<Expect> read_of_job(ScenarioLine& line, const ScenarioNames& names, Expect expect) {
  DIVVY_TRY(verb, line.word("what is expected"));
  const auto level = [&](Expected what) -> Result<Expect> {
    expect.what = what;
    DIVVY_TRY(typed, line.word("how near"));
    DIVVY_TRY(value, line.closeness(typed));
    const bool inside = model::inside_a_node(value);
    if (value == model::Closeness::kAnywhere || inside != (what == Expected::kNear)) {
      return line.wrong("{} does not go with {}; write {}", verb, quote_typed(typed),
                        what == Expected::kNear ? "numa, pcie or nvlink" : "node, rack or zone");
    }
    expect.level = value;
    return expect;
  };
  if (verb == "on") {
    DIVVY_RETURN_IF_ERROR(read_on(line, names, expect));
    return expect;
  }
  if (verb == "members" || verb == "starts") {
    expect.what = verb == "members" ? Expected::kMembers : Expected::kStarts;
    DIVVY_TRY(typed, line.word("how many"));
    DIVVY_TRY(number, line.whole_number(typed, 0, 1'000'000));
    expect.number = number;
    return expect;
  }
  for (const auto& [word, what] : kStates) {
    if (verb != word) continue;
    expect.what = what;
    return expect;
  }
  if (verb == "waits") {
    expect.what = Expected::kWaits;
    if (line.more()) expect.text = *line.word("");
    return expect;
  }
  if (verb == "preempts") {
    expect.what = Expected::kPreempts;
    if (line.skip("nobody")) return expect;
    do {
      DIVVY_TRY(job, names.job(line));
      expect.names.push_back(job);
    } while (line.more());
    return expect;
  }
  if (verb == "started" || verb == "reserved") {
    expect.what = verb == "started" ? Expected::kStartedAt : Expected::kReserved;
    expect.number = -1;
    if (!line.more() && verb == "reserved") return expect;
    DIVVY_TRY(typed, line.word("the time"));
    DIVVY_TRY(time, line.time(typed));
    expect.number = time;
    return expect;
  }
  if (verb == "near") return level(Expected::kNear);
  if (verb == "together") return level(Expected::kTogether);
  if (verb == "spread") return level(Expected::kSpread);
  const auto meant = did_you_mean(verb, kVerbs);
  return line.wrong("{} cannot be expected of a job{}", quote_typed(verb),
                    meant ? fmt::format("; did you mean {}?", *meant)
                          : fmt::format("; it can be {}", fmt::join(kVerbs, ", ")));
}

}  // namespace

Result<Expect> read_expect(ScenarioLine& line, const ScenarioNames& names) {
  Expect expect;
  expect.source = line.rest();
  const bool amount = line.peek() == "free" || line.peek() == "held";
  if (amount && !names.is_job(line.peek())) {
    const bool free = line.skip("free");
    if (!free) line.skip("held");
    return read_amount(line, names, std::move(expect), free ? Expected::kFree : Expected::kHeld);
  }
  if (!names.is_job(line.peek())) {
    if (line.skip("queue")) return read_of_queue(line, names, std::move(expect));
    if (line.skip("user")) return read_of_user(line, std::move(expect));
  }
  DIVVY_TRY(job, names.job(line));
  expect.job = job;
  return read_of_job(line, names, std::move(expect));
}

}  // namespace divvy::sim
