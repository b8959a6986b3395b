// What each message between the control side and an agent consists of: describe(visitor, value)
// calls visitor(name, field) for each field, for writing and for reading. Included by
// order_documents.cc alone.
#pragma once

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>
#include <variant>

#include "agent/order_documents.h"

namespace divvy::agent {

template <typename Self, typename Type>
concept Is = std::same_as<std::remove_const_t<Self>, Type>;

template <typename V, Is<Done> S>
void describe(V& /*v*/, S& /*s*/) {}
template <typename V, Is<Orders> S>
void describe(V& /*v*/, S& /*s*/) {}
template <typename V, Is<ReapOrder> S>
void describe(V& /*v*/, S& /*s*/) {}
template <typename V, Is<ActivityOrder> S>
void describe(V& /*v*/, S& /*s*/) {}
template <typename V, Is<ListOrder> S>
void describe(V& /*v*/, S& /*s*/) {}
template <typename V, Is<OutputSizesOrder> S>
void describe(V& /*v*/, S& /*s*/) {}

template <typename V, Is<Hello> S>
void describe(V& v, S& s) {
  v("protocol", s.protocol);
  v("node", s.node);
  v("version", s.version);
}
template <typename V, Is<UserName> S>
void describe(V& v, S& s) {
  v("name", s.name);
  v("uid", s.uid);
  v("known", s.is_known);
}
template <typename V, Is<LocalCaller> S>
void describe(V& v, S& s) {
  v("pid", s.pid);
  v("uid", s.uid);
  v("gid", s.gid);
}
template <typename V, Is<Granted> S>
void describe(V& v, S& s) {
  v("environment", s.environment);
  v("devices", s.cdi_devices);
  v("tenant", s.tenant);
  v("document", s.document);
}
template <typename V, Is<GrantOrder> S>
void describe(V& v, S& s) {
  v("key", s.key);
  v("holder", s.holder);
  v("slices", s.slices);
  v("mode", s.mode);
  v("class", s.job_class);
  v("name", s.name);
  v("command", s.command);
  v("user", s.user);
  v("caller", s.caller);
}
template <typename V, Is<Released> S>
void describe(V& v, S& s) {
  v("memoryPeak", s.memory_peak);
}
template <typename V, Is<ReleaseOrder> S>
void describe(V& v, S& s) {
  v("key", s.key);
}
template <typename V, Is<AdoptOrder> S>
void describe(V& v, S& s) {
  v("tenant", s.tenant);
  v("key", s.key);
}
template <typename V, Is<Signalled> S>
void describe(V& v, S& s) {
  v("holds", s.holds);
}
template <typename V, Is<SignalOrder> S>
void describe(V& v, S& s) {
  v("key", s.key);
  v("signal", s.signal);
}
template <typename V, Is<model::ArrayTask> S>
void describe(V& v, S& s) {
  v("array", s.array);
  v("index", s.index);
  v("atOnce", s.at_once);
}
template <typename V, Is<StartOrder> S>
void describe(V& v, S& s) {
  v("key", s.key);
  v("spec", s.spec);
  v("user", s.user);
  v("task", s.task);
  v("hosts", s.hosts);
  v("slice", s.slice);
  v("secrets", s.secrets);
}
template <typename V, Is<model::MemberUse> S>
void describe(V& v, S& s) {
  v("cpu", s.cpu);
  v("ramPeak", s.ram_peak);
  v("gpuMemoryPeak", s.gpu_memory_peak);
}
template <typename V, Is<model::MemberEnd> S>
void describe(V& v, S& s) {
  v("at", s.at);
  v("exitCode", s.exit_code);
  v("signal", s.signal);
  v("reason", s.reason);
  v("use", s.use);
}
template <typename V, Is<model::MemberReport> S>
void describe(V& v, S& s) {
  v("key", s.key);
  v("phase", s.phase);
  v("end", s.end);
  v("pid", s.pid);
  v("begun", s.begun);
  v("without", s.without);
}
template <typename V, Is<Found> S>
void describe(V& v, S& s) {
  v("report", s.report);
}
template <typename V, Is<FindOrder> S>
void describe(V& v, S& s) {
  v("key", s.key);
}
template <typename V, Is<StopOrder> S>
void describe(V& v, S& s) {
  v("key", s.key);
  v("grace", s.grace);
}
template <typename V, Is<ForgetOrder> S>
void describe(V& v, S& s) {
  v("key", s.key);
}
template <typename V, Is<CheckOrder> S>
void describe(V& v, S& s) {
  v("user", s.user);
  v("container", s.container);
  v("mode", s.mode);
  v("ulimits", s.ulimits);
}
template <typename V, Is<model::Ulimit> S>
void describe(V& v, S& s) {
  v("soft", s.soft);
  v("hard", s.hard);
}
template <typename V, Is<MachineGpu> S>
void describe(V& v, S& s) {
  v("uuid", s.uuid);
  v("index", s.index);
  v("model", s.model);
  v("memory", s.memory);
  v("resting", s.resting);
  v("lost", s.lost);
  v("nvlink", s.nvlink_island);
  v("pcie", s.pcie_switch);
  v("numa", s.numa_node);
}
template <typename V, Is<MachineState> S>
void describe(V& v, S& s) {
  v("node", s.node);
  v("address", s.address);
  v("cpuMilli", s.cpu_milli);
  v("ram", s.ram);
  v("smallestSlice", s.smallest_slice);
  v("gpus", s.gpus);
}
template <typename V, Is<MemberActivity> S>
void describe(V& v, S& s) {
  v("key", s.key);
  v("used", s.used);
}
template <typename V, Is<Activity> S>
void describe(V& v, S& s) {
  v("members", s.members);
}
template <typename V, Is<HeldSlices> S>
void describe(V& v, S& s) {
  v("key", s.key);
  v("holder", s.holder);
  v("tenant", s.tenant);
  v("name", s.name);
  v("command", s.command);
  v("user", s.user);
  v("since", s.since);
  v("slices", s.slices);
  v("class", s.job_class);
}
template <typename V, Is<Listing> S>
void describe(V& v, S& s) {
  v("state", s.state);
  v("members", s.members);
  v("held", s.held);
}
template <typename V, Is<OutputSizes> S>
void describe(V& v, S& s) {
  v("members", s.members);
}
template <typename V, Is<Document> S>
void describe(V& v, S& s) {
  v("json", s.json);
}
template <typename V, Is<ViewOrder> S>
void describe(V& v, S& s) {
  v("view", s.view);
  v("name", s.name);
}
template <typename V, Is<WhyNotOrder> S>
void describe(V& v, S& s) {
  v("spec", s.spec);
}
template <typename V, Is<CheckHolderOrder> S>
void describe(V& v, S& s) {
  v("name", s.name);
  v("devices", s.devices);
}
template <typename V, Is<SliceChange> S>
void describe(V& v, S& s) {
  v("share", s.share);
  v("memory", s.memory);
  v("capped", s.capped);
  v("class", s.job_class);
}
template <typename V, Is<Proposed> S>
void describe(V& v, S& s) {
  v("tenant", s.tenant);
  v("key", s.key);
  v("before", s.before);
  v("after", s.after);
}
template <typename V, Is<ProposeOrder> S>
void describe(V& v, S& s) {
  v("tenant", s.tenant);
  v("change", s.change);
  v("caller", s.caller);
}
template <typename V, Is<ChangeOrder> S>
void describe(V& v, S& s) {
  v("tenant", s.tenant);
  v("slices", s.slices);
  v("class", s.job_class);
}
template <typename V, Is<GiveBackOrder> S>
void describe(V& v, S& s) {
  v("tenant", s.tenant);
  v("heldOnly", s.held_only);
  v("caller", s.caller);
}
template <typename V, Is<CordonOrder> S>
void describe(V& v, S& s) {
  v("gpu", s.gpu);
  v("cordoned", s.cordoned);
  v("reason", s.reason);
  v("drain", s.drain);
  v("endAfter", s.end_after_seconds);
}
template <typename V, Is<MemberEnded> S>
void describe(V& v, S& s) {
  v("report", s.report);
}
template <typename V, Is<HolderGone> S>
void describe(V& v, S& s) {
  v("key", s.key);
}
template <typename V, Is<StateChanged> S>
void describe(V& v, S& s) {
  v("state", s.state);
}
template <typename V, Is<GpuEvent> S>
void describe(V& v, S& s) {
  v("number", s.number);
  v("at", s.at);
  v("kind", s.kind);
  v("gpu", s.gpu);
  v("uuid", s.uuid);
  v("tenant", s.tenant);
  v("state", s.state);
  v("reason", s.reason);
}
template <typename V, Is<Reachable> S>
void describe(V& v, S& s) {
  v("yes", s.yes);
}
template <typename V, Is<StreamOrder> S>
void describe(V& v, S& s) {
  v("kind", s.kind);
  v("key", s.key);
  v("command", s.command);
  v("environment", s.environment);
  v("path", s.path);
  v("terminal", s.terminal);
  v("rows", s.rows);
  v("columns", s.columns);
  v("port", s.port);
  v("tail", s.tail);
  v("since", s.since);
  v("follow", s.follow);
  v("channel", s.channel);
  v("keep", s.keep);
}

// As parts of messages: what cannot be made before all of its fields are read.
struct ErrorFields {
  std::string code;
  std::string message;
};
template <typename V, Is<ErrorFields> S>
void describe(V& v, S& s) {
  v("code", s.code);
  v("message", s.message);
}

// By the place of the type in its variant.
inline constexpr std::array<std::string_view, std::variant_size_v<Order>> kOrders = {
    "grant",   "release",      "adopt",   "signal",   "reap",      "start", "find",
    "stop",    "forget",       "check",   "activity", "list",      "sizes", "view",
    "why-not", "check-holder", "propose", "change",   "give-back", "cordon"};
inline constexpr std::array<std::string_view, std::variant_size_v<Answer>> kAnswers = {
    "done",     "granted", "released", "signalled", "found",
    "activity", "listing", "sizes",    "document",  "proposed"};
inline constexpr std::array<std::string_view, std::variant_size_v<News>> kNews = {
    "member-ended", "holder-gone", "state", "gpu-event", "reachable"};

}  // namespace divvy::agent
