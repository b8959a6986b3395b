// Why a request does not fit, for people: one line for every node, how often each reason stands in
// the way, and what would make it fit. What is said is worked out, not guessed: each remedy was
// tried on the cluster, which is afterwards as it was. Called by the thread that owns the placer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "place/fit.h"
#include "place/placer.h"
#include "place/request.h"
#include "place/shortfall.h"

namespace divvy::place {

struct NodeReason {
  NodeId node;
  std::string name;
  Refusal refusal = Refusal::kNone;  // the first thing that stands in the way; none: a member fits
  std::uint32_t members_fit = 0;     // of this request as things are, were it alone here
  std::string text;                  // "gpu3 has 8 GiB free of the 10 GiB asked"
  // "gpu0: 0.2 and 8 GiB free", one for each GPU; empty where the GPUs do not matter.
  std::vector<std::string> devices;
  // How much would have to be freed for one member (Shortfall::cost); nothing where that is no
  // help.
  std::optional<std::uint64_t> missing;
};

// From what happens by itself to what somebody has to change.
enum class RemedyKind {
  kFree,     // running work leaves, or holds less
  kRepair,   // a node is opened again, a GPU becomes healthy
  kRequest,  // the request asks for less or tolerates more
};

struct Remedy {
  RemedyKind kind = RemedyKind::kFree;
  std::uint64_t cost = 0;  // to compare those of one kind; see Shortfall::cost
  std::string text;        // "2 GiB are freed on gpu3 of node-a"
};

struct Explanation {
  bool fits = false;
  std::string name;                            // of the request
  std::string asked;                           // "0.3 GPU with 10 GiB"
  std::uint32_t members = 1;                   // wanted
  std::uint32_t least = 1;                     // needed
  std::uint32_t fit_now = 0;                   // of them, as things are
  std::vector<NodeReason> nodes;               // in the order of the cluster
  std::map<Refusal, std::uint32_t> by_reason;  // how many nodes have which
  std::vector<Remedy> remedies;                // the smallest first
  // Set where nothing that happens by itself helps: not even an empty and healthy cluster has it.
  std::string never;  // "no node has 16 GPUs"
};

struct ExplainLimits {
  std::size_t remedies = 3;
};

[[nodiscard]] Explanation explain(Placer& placer, const Request& request,
                                  ExplainLimits limits = {});

enum class Detail {
  kShort,  // summary, counts, the best few nodes, remedies
  kLong,   // every node and its GPUs
};
[[nodiscard]] std::string to_text(const Explanation& explanation, Detail detail = Detail::kShort);
// One line: "37 of 64 members fit; starts if 1 more GPU becomes whole on node-b".
[[nodiscard]] std::string summary(const Explanation& explanation);

}  // namespace divvy::place
