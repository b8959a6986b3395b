#include "place/defrag.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "place/clearing.h"
#include "place/shortfall.h"

namespace divvy::place {
namespace {

// Domains in which a gang is tried, and sets of members of one size that are tried elsewhere.
constexpr std::size_t kMostDomains = 4;
constexpr std::size_t kMostRelocations = 256;

// A member that may be moved, wherever it is in the trial.
struct Piece {
  HoldingId original;
  HoldingId current;
  Spot from;
  const Request* request = nullptr;
  std::uint64_t job = 0;
  std::optional<Spot> moved_to;
};

std::uint32_t domain_number(const Cluster& cluster, Closeness level, NodeId node) {
  return level == Closeness::kZone   ? cluster.zone(node)
         : level == Closeness::kRack ? cluster.rack(node)
                                     : node.value();
}

// Makes the moves one after the other, in whatever order works, and puts them into it. Between
// mark() and rollback().
bool make_moves(Cluster& cluster, std::vector<Move>& moves) {
  std::vector<Move> made;
  std::vector<Move> left = moves;
  while (!left.empty()) {
    const std::size_t before = left.size();
    std::erase_if(left, [&](const Move& move) {
      const Holding holding = cluster.holding(move.holding);
      const Cluster::Mark mark = cluster.mark();
      cluster.release(move.holding);
      if (!cluster.fits(move.to) || !cluster.state(move.to.node).open) {
        cluster.rollback(mark);
        return false;
      }
      cluster.take(move.to, holding.job, holding.priority, false);
      cluster.keep(mark);
      made.push_back(move);
      return true;
    });
    if (left.size() == before) return false;
  }
  moves = std::move(made);
  return true;
}

class Defrag {
 public:
  Defrag(Placer& placer, const Request& request, const RequestOf& request_of, DefragLimits limits)
      : placer_(placer),
        cluster_(placer.cluster()),
        request_(request),
        limits_(limits),
        ask_(cluster_.ask_of(request)),
        tries_(limits.tries) {
    for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
      for (const HoldingId id : cluster_.on(NodeId(i))) {
        const Holding& holding = cluster_.holding(id);
        if (!holding.preemptible || holding.priority > request.priority) continue;
        const Request* behind = request_of(id);
        if (behind == nullptr) continue;
        piece_of_[id] = pieces_.size();
        pieces_.push_back({id, id, holding.spot, behind, holding.job, std::nullopt});
      }
    }
  }

  std::optional<DefragPlan> find() {
    if (auto spots = placer_.plan(request_); !spots.empty()) {
      return DefragPlan{{}, std::move(spots)};
    }
    std::vector<Domain> domains = domains_of(cluster_, request_);
    const auto missing = [&](const Domain& domain) {
      std::uint32_t fit = 0;
      const Eligible eligible(cluster_, request_);
      for (const NodeId node : domain.nodes) {
        if (fit >= request_.least()) break;
        fit += NodeTrial(cluster_, node, eligible.devices(node)).count(ask_, request_.least());
      }
      return request_.least() - std::min(fit, request_.least());
    };
    std::vector<std::pair<std::uint32_t, std::size_t>> order;
    order.reserve(domains.size());
    for (std::size_t i = 0; i < domains.size(); ++i) order.emplace_back(missing(domains[i]), i);
    std::ranges::sort(order);
    std::optional<DefragPlan> best;
    for (std::size_t i = 0; i < std::min(order.size(), kMostDomains); ++i) {
      auto plan = checked(moves_in(domains[order[i].second]));
      if (plan && (!best || plan->moves.size() < best->moves.size())) best = std::move(plan);
    }
    return best;
  }

 private:
  // Which pieces leave a node, and where they and the member go.
  struct Step {
    std::vector<std::size_t> pieces;
    std::vector<Spot> to;
    Spot member;
  };

  std::vector<Move> moves_in(const Domain& domain);
  std::optional<Step> step_for_one(const Domain& domain, const Eligible& eligible,
                                   std::size_t most);
  std::optional<Step> relocate(const NodeTrial& node, std::vector<std::size_t> pieces,
                               bool member_first);
  std::optional<Spot> elsewhere(const Piece& piece);
  std::optional<DefragPlan> checked(std::vector<Move> moves);
  std::vector<Spot> spots_after(std::vector<Move>& moves);

  [[nodiscard]] std::uint64_t share(std::span<const std::size_t> pieces) const {
    std::uint64_t sum = 0;
    for (const std::size_t i : pieces) sum += pieces_[i].from.share();
    return sum;
  }

  Placer& placer_;
  Cluster& cluster_;
  const Request& request_;
  const DefragLimits limits_;
  const Ask ask_;
  std::uint64_t tries_;
  std::vector<Piece> pieces_;
  std::unordered_map<HoldingId, std::size_t> piece_of_;  // by where it is in the trial
};

// Another spot that the piece may use, its gang still near and spread as it asked.
std::optional<Spot> Defrag::elsewhere(const Piece& piece) {
  Request alone = *piece.request;
  alone.members = 1;
  alone.least_members = 0;
  alone.members_near = {};
  alone.spread.reset();
  const Near& near = piece.request->members_near;
  const auto& spread = piece.request->spread;
  std::vector<NodeId> others;
  if (piece.job != 0 && (near.required || spread)) {
    for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
      for (const HoldingId id : cluster_.on(NodeId(i))) {
        if (cluster_.holding(id).job == piece.job && id != piece.current) {
          others.push_back(NodeId(i));
        }
      }
    }
  }
  std::unordered_map<std::uint32_t, std::uint32_t> together;
  for (const NodeId node : others) {
    if (spread) ++together[domain_number(cluster_, spread->domain, node)];
  }
  if (!others.empty()) {
    const std::vector<std::string> named = std::move(alone.nodes);
    alone.nodes.clear();
    for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
      const NodeId node(i);
      const std::string& name = cluster_.spec(node).name;
      const bool close = !near.required || near.closeness == Closeness::kAnywhere ||
                         domain_number(cluster_, near.closeness, node) ==
                             domain_number(cluster_, near.closeness, others.front());
      const bool apart =
          !spread || together[domain_number(cluster_, spread->domain, node)] < spread->most;
      const bool allowed = named.empty() || std::ranges::find(named, name) != named.end();
      if (close && apart && allowed) alone.nodes.push_back(name);
    }
    if (alone.nodes.empty()) return std::nullopt;
  }
  const std::vector<Spot> spots = placer_.plan(alone);
  if (spots.empty()) return std::nullopt;
  return spots.front();
}

// Takes the pieces off the node and puts the member there and them elsewhere.
std::optional<Defrag::Step> Defrag::relocate(const NodeTrial& node, std::vector<std::size_t> pieces,
                                             bool member_first) {
  std::ranges::sort(pieces, {}, [&](std::size_t i) {
    return std::pair(-std::int64_t{pieces_[i].from.share()}, i);
  });
  Step step;
  const Eligible eligible(cluster_, request_);
  const auto place_member = [&] {
    const auto spot = NodeTrial(cluster_, node.node(), node.devices()).spot(ask_);
    if (!spot) return false;
    step.member = *spot;
    cluster_.take(*spot, 0, 0, false);
    return true;
  };
  const Cluster::Mark mark = cluster_.mark();
  for (const std::size_t i : pieces) cluster_.release(pieces_[i].current);
  bool possible = !member_first || place_member();
  for (const std::size_t i : pieces) {
    if (!possible) break;
    const auto spot = elsewhere(pieces_[i]);
    possible = spot.has_value() && !(*spot == pieces_[i].from);
    if (!possible) break;
    cluster_.take(*spot, pieces_[i].job, 0, false);
    step.pieces.push_back(i);
    step.to.push_back(*spot);
  }
  possible = possible && (member_first || place_member());
  cluster_.rollback(mark);
  if (possible) {
    std::vector<Move> moves;
    for (std::size_t i = 0; i < step.pieces.size(); ++i) {
      const Piece& piece = pieces_[step.pieces[i]];
      moves.push_back({piece.current, piece.from, step.to[i]});
    }
    const Cluster::Mark replay = cluster_.mark();
    possible = make_moves(cluster_, moves);
    cluster_.rollback(replay);
  }
  if (!possible) return std::nullopt;
  return step;
}

// The fewest pieces that have to leave any node so that one member fits there.
std::optional<Defrag::Step> Defrag::step_for_one(const Domain& domain, const Eligible& eligible,
                                                 std::size_t most) {
  struct Place {
    NodeTrial trial;
    std::vector<Leaver> leavers;
    std::size_t fewest;
  };
  std::vector<Place> places;
  for (const NodeId node : domain.nodes) {
    if (!eligible(node)) continue;
    Place place{NodeTrial(cluster_, node, eligible.devices(node)), {}, 0};
    for (const HoldingId id : cluster_.on(node)) {
      const auto piece = piece_of_.find(id);
      if (piece == piece_of_.end() || pieces_[piece->second].moved_to) continue;
      place.leavers.push_back({piece->second, {cluster_.holding(id).spot}});
    }
    if (place.trial.fits(ask_)) return Step{{}, {}, *place.trial.spot(ask_)};
    place.fewest = fewest_leavers(place.trial, ask_, place.leavers);
    if (place.fewest <= std::min(most, place.leavers.size())) places.push_back(std::move(place));
  }
  struct Option {
    std::uint64_t share;
    std::size_t place;
    std::vector<std::size_t> pieces;
  };
  for (std::size_t size = 1; size <= most; ++size) {
    std::vector<Option> options;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place& place = places[i];
      if (place.fewest > size || place.leavers.size() < size) continue;
      const auto consider = [&](std::span<const std::size_t> gone) {
        Option option{0, i, {}};
        for (const std::size_t leaver : gone) option.pieces.push_back(place.leavers[leaver].number);
        option.share = share(option.pieces);
        options.push_back(std::move(option));
      };
      if (!visit_clearings(place.trial, ask_, place.leavers, size, tries_, consider)) {
        // Too many sets: one that is certainly not larger than necessary has to do.
        const auto some = some_clearing(place.trial, ask_, place.leavers);
        if (some.size() == size) consider(some);
      }
    }
    const std::size_t tried = std::min(options.size(), kMostRelocations);
    std::ranges::sort(options, {}, [](const Option& option) {
      return std::tie(option.share, option.place, option.pieces);
    });
    for (std::size_t i = 0; i < tried; ++i) {
      const NodeTrial& node = places[options[i].place].trial;
      if (auto step = relocate(node, options[i].pieces, true)) return step;
      if (auto step = relocate(node, options[i].pieces, false)) return step;
    }
  }
  return std::nullopt;
}

std::vector<Move> Defrag::moves_in(const Domain& domain) {
  const std::vector<Piece> pieces = pieces_;
  const auto piece_of = piece_of_;
  Eligible eligible(cluster_, request_);
  std::vector<Move> moves;
  const Cluster::Mark mark = cluster_.mark();
  for (std::uint32_t placed = 0; placed < request_.least(); ++placed) {
    const auto step = step_for_one(domain, eligible, limits_.moves - moves.size());
    if (!step) {
      moves.clear();
      break;
    }
    for (const std::size_t i : step->pieces) {
      piece_of_.erase(pieces_[i].current);
      cluster_.release(pieces_[i].current);
    }
    for (std::size_t i = 0; i < step->pieces.size(); ++i) {
      Piece& piece = pieces_[step->pieces[i]];
      piece.moved_to = step->to[i];
      piece.current = cluster_.take(step->to[i], piece.job, 0, false);
      moves.push_back({piece.original, piece.from, step->to[i]});
    }
    cluster_.take(step->member, 0, 0, false);
    eligible.place(step->member.node);
  }
  cluster_.rollback(mark);
  pieces_ = pieces;
  piece_of_ = piece_of;
  return moves;
}

std::vector<Spot> Defrag::spots_after(std::vector<Move>& moves) {
  const Cluster::Mark mark = cluster_.mark();
  std::vector<Spot> spots;
  if (make_moves(cluster_, moves)) spots = placer_.plan(request_);
  cluster_.rollback(mark);
  return spots;
}

// Replays the moves, brings them into an order that works, and leaves out those that are not
// needed.
std::optional<DefragPlan> Defrag::checked(std::vector<Move> moves) {
  if (moves.empty()) return std::nullopt;
  DefragPlan plan;
  plan.spots = spots_after(moves);
  if (plan.spots.empty()) return std::nullopt;
  for (std::size_t i = moves.size(); i-- > 0;) {
    std::vector<Move> fewer = moves;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (auto spots = spots_after(fewer); !spots.empty()) {
      moves = std::move(fewer);
      plan.spots = std::move(spots);
    }
  }
  plan.moves = std::move(moves);
  return plan;
}

}  // namespace

std::optional<DefragPlan> plan_defrag(Placer& placer, const Request& request,
                                      const RequestOf& request_of, DefragLimits limits) {
  return Defrag(placer, request, request_of, limits).find();
}

}  // namespace divvy::place
