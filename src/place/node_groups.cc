#include "place/node_groups.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace divvy::place {
namespace {

std::uint64_t scramble(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace

NodeGroups::NodeGroups(const Cluster& cluster, std::vector<std::int64_t> cpu_steps)
    : cluster_(cluster), cpu_steps_(std::move(cpu_steps)), log_(kLogSize) {
  if (!cpu_steps_.empty() && cpu_steps_.front() > 0) cpu_steps_.insert(cpu_steps_.begin(), 0);
}

void NodeGroups::catch_up() {
  const std::size_t known = links_.size();
  if (known != cluster_.size()) links_.resize(cluster_.size());
  if (each_alone() && size() != cluster_.size()) resize(cluster_.size());
  if (seen_ < cluster_.log_begin()) {
    for (std::uint32_t node = 0; node < cluster_.size(); ++node) look_at(NodeId(node));
  } else {
    for (; seen_ != cluster_.log_end(); ++seen_) {
      const NodeId node = cluster_.logged(seen_);
      if (cluster_.last_logged(node) == seen_) look_at(node);
    }
  }
  seen_ = cluster_.log_end();
}

void NodeGroups::resize(std::size_t groups) {
  states_.resize(groups);
  notes_.resize(groups);
  heads_.resize(groups);
  summaries_.resize(groups);
  last_logged_.resize(groups);
}

void NodeGroups::look_at(NodeId node) {
  if (links_[node.value()].group != kEnd) detach(node.value());
  attach(node.value());
}

void NodeGroups::attach(std::uint32_t node) {
  const NodeState& state = cluster_.state(NodeId(node));
  GroupId id = node;
  if (each_alone()) {
    states_[id] = state;
    touch(id, state.cpu_free);
  } else {
    const std::size_t step = step_of(state.cpu_free);
    const std::uint64_t key = key_of(state, step);
    const auto [found, is_new] = by_key_.try_emplace(key, 0);
    if (is_new) {
      if (free_.empty()) {
        found->second = static_cast<GroupId>(size());
        resize(size() + 1);
      } else {
        found->second = free_.back();
        free_.pop_back();
      }
      heads_[found->second].key = key;
      states_[found->second] = state;
      states_[found->second].cpu_free = cpu_steps_[step];
      touch(found->second, step + 1 < cpu_steps_.size() ? cpu_steps_[step + 1] - 1
                                                        : std::numeric_limits<std::int64_t>::max());
    }
    id = found->second;
  }
  Head& group = heads_[id];
  Link& link = links_[node];
  link = {id, kEnd, group.first};
  if (group.first != kEnd) links_[group.first].previous = node;
  group.first = node;
  ++group.count;
}

void NodeGroups::detach(std::uint32_t node) {
  const Link link = links_[node];
  Head& group = heads_[link.group];
  if (link.previous == kEnd) {
    group.first = link.next;
  } else {
    links_[link.previous].next = link.next;
  }
  if (link.next != kEnd) links_[link.next].previous = link.previous;
  links_[node] = {};
  if (--group.count != 0 || each_alone()) return;
  by_key_.erase(group.key);
  free_.push_back(link.group);
  touch(link.group, -1);
}

void NodeGroups::touch(GroupId id, std::int64_t cpu_most) {
  const NodeState& state = states_[id];
  summaries_[id] = {cpu_most, state.most_free, state.shape,
                    static_cast<std::uint8_t>(state.whole_count), cpu_most >= 0 && state.open};
  notes_[id] = std::numeric_limits<float>::quiet_NaN();
  last_logged_[id] = static_cast<std::uint32_t>(log_end_);
  log_[log_end_ & (kLogSize - 1)] = id;
  ++log_end_;
}

std::span<GroupId> NodeGroups::changed_since(std::uint64_t entry) {
  if (changed_.size() < log_end_ - entry) changed_.resize(log_end_ - entry);
  std::size_t count = 0;
  for (; entry != log_end_; ++entry) {
    const GroupId group = log_[entry & (kLogSize - 1)];
    // Without a branch: which entries are the last of their group cannot be foreseen.
    changed_[count] = group;
    count += last_logged_[group] == static_cast<std::uint32_t>(entry) ? 1 : 0;
  }
  return {changed_.data(), count};
}

std::size_t NodeGroups::step_of(std::int64_t cpu) const {
  const auto above = std::ranges::upper_bound(cpu_steps_, std::max<std::int64_t>(cpu, 0));
  return static_cast<std::size_t>(above - cpu_steps_.begin()) - 1;
}

// The same whatever the order of the GPUs, unless it matters which of them are near each other. Two
// states with one key would be taken for each other; with 64 bits that does not happen, and if it
// did the node is looked at before it is taken.
std::uint64_t NodeGroups::key_of(const NodeState& state, std::size_t step) const {
  std::uint64_t key = scramble(std::uint64_t{state.shape} << 32 | step << 1 | (state.open ? 1 : 0));
  const NodeShape& shape = cluster_.shapes()[state.shape];
  for (std::size_t i = 0; i < shape.devices; ++i) {
    const std::uint64_t usable = state.usable >> i & 1;
    const std::uint64_t left = state.share_free[i] | usable << 16 |
                               std::uint64_t{shape.model[i]} << 20 |
                               (shape.links.matter() ? std::uint64_t{i} << 32 : 0);
    key += scramble(left ^ state.memory_free[i] * 0xff51afd7ed558ccd);
  }
  return key;
}

}  // namespace divvy::place
