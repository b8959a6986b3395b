#include "agent/order_documents.h"

#include <array>
#include <boost/json.hpp>
#include <concepts>
#include <limits>

#include "base/text.h"
#include "model/job_document.h"

namespace divvy::agent {
namespace {

namespace json = boost::json;

template <typename Self, typename Type>
concept Is = std::same_as<std::remove_const_t<Self>, Type>;

// --- What each message consists of ---
//
// describe(visitor, value) calls visitor(name, field) for each field, for writing and for reading.

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
}

// By the place of the type in its variant.
constexpr std::array<std::string_view, std::variant_size_v<Order>> kOrders = {
    "grant",   "release",      "adopt",   "signal",   "reap",      "start", "find",
    "stop",    "forget",       "check",   "activity", "list",      "sizes", "view",
    "why-not", "check-holder", "propose", "change",   "give-back", "cordon"};
constexpr std::array<std::string_view, std::variant_size_v<Answer>> kAnswers = {
    "done",     "granted", "released", "signalled", "found",
    "activity", "listing", "sizes",    "document",  "proposed"};
constexpr std::array<std::string_view, std::variant_size_v<News>> kNews = {
    "member-ended", "holder-gone", "state", "gpu-event", "reachable"};

// --- Writing ---

template <typename Tag, typename Rep>
json::value to_value(StrongId<Tag, Rep> id);
template <typename T>
json::value to_value(const std::optional<T>& value);
template <typename T>
json::value to_value(const std::vector<T>& values);
template <typename T>
json::value to_value(const T& value);

json::value to_value(const std::string& text) { return json::value(text); }
json::value to_value(const model::MemberKey& key) { return json::value(to_string(key)); }
json::value to_value(Bytes bytes) { return bytes.count(); }
json::value to_value(Share share) { return share.thousandths(); }
json::value to_value(WallTime time) { return std::int64_t{time.time_since_epoch().count()}; }
json::value to_value(Duration time) { return std::int64_t{time.count()}; }
json::value to_value(model::Seconds time) { return std::int64_t{time.count()}; }
json::value to_value(const model::GpuUuid& uuid) { return json::value(uuid.str()); }
json::value to_value(const model::Slice& slice) {
  return json::object{{"gpu", slice.gpu().str()},
                      {"memory", slice.memory().count()},
                      {"share", slice.share().thousandths()},
                      {"cap", slice.kind() == model::ShareKind::kCap}};
}
json::value to_value(const model::JobSpec& spec) {
  return json::value(model::write_job_spec(spec));
}
// As part of a job, whose document has it.
json::value to_value(const model::ContainerSpec& container) {
  model::JobSpec spec(*model::Request::parse("1"));
  spec.container = container;
  return to_value(spec);
}
json::value to_value(const Environment& variables) {
  json::object object;
  for (const auto& [name, value] : variables) object[name] = value;
  return object;
}
json::value to_value(const std::map<model::MemberKey, Bytes>& sizes) {
  json::object object;
  for (const auto& [key, size] : sizes) object[to_string(key)] = size.count();
  return object;
}
class Writer {
 public:
  template <typename T>
  void operator()(std::string_view name, const T& field) {
    object[name] = to_value(field);
  }
  json::object object;
};

template <typename Tag, typename Rep>
json::value to_value(StrongId<Tag, Rep> id) {
  return id.value();
}
template <typename T>
json::value to_value(const std::optional<T>& value) {
  return value ? to_value(*value) : json::value(nullptr);
}
template <typename T>
json::value to_value(const std::vector<T>& values) {
  json::array array;
  for (const T& value : values) array.push_back(to_value(value));
  return array;
}
template <typename T>
json::value to_value(const T& value) {
  if constexpr (std::integral<T>) {
    return json::value(value);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<std::int64_t>(value);
  } else {
    Writer writer;
    describe(writer, value);
    return std::move(writer.object);
  }
}

template <typename Variant, std::size_t kSize>
json::object tagged(std::string_view what, const Variant& variant,
                    const std::array<std::string_view, kSize>& names) {
  json::object object;
  object[what] = names[variant.index()];
  object["body"] = std::visit([](const auto& one) { return to_value(one); }, variant);
  return object;
}

// --- Reading ---

template <typename T>
struct Type {};

template <typename T>
Result<T> from_value(const json::value& value, Type<T> type);

Error wrong(std::string_view what) {
  return {ErrorCode::kDataLoss, fmt::format("the message has no right {}", what)};
}

class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}
  template <typename T>
  void operator()(std::string_view name, T& field) {
    if (!status) return;
    const json::value* const value = object_.if_contains(name);
    if (value == nullptr) {
      status = err(wrong(name));
      return;
    }
    auto read = from_value(*value, Type<T>());
    if (read) {
      field = *std::move(read);
    } else {
      status = err(wrong(name));
    }
  }
  Status status;

 private:
  const json::object& object_;
};

Result<std::string> from_value(const json::value& value, Type<std::string> /*type*/) {
  if (!value.is_string()) return err(wrong("text"));
  return std::string(value.as_string());
}
template <std::integral Number>
Result<Number> number_in(const json::value& value) {
  if constexpr (std::same_as<Number, bool>) {
    if (!value.is_bool()) return err(wrong("yes or no"));
    return value.as_bool();
  } else {
    boost::system::error_code code;
    const auto number = value.to_number<Number>(code);
    if (code || value.is_double()) return err(wrong("number"));
    return number;
  }
}
Result<model::MemberKey> from_value(const json::value& value, Type<model::MemberKey> /*type*/) {
  DIVVY_TRY(text, from_value(value, Type<std::string>()));
  return model::parse_member_key(text);
}
Result<Bytes> from_value(const json::value& value, Type<Bytes> /*type*/) {
  DIVVY_TRY(count, number_in<std::uint64_t>(value));
  return Bytes(count);
}
Result<Share> from_value(const json::value& value, Type<Share> /*type*/) {
  DIVVY_TRY(thousandths, number_in<std::uint32_t>(value));
  return Share(thousandths);
}
Result<WallTime> from_value(const json::value& value, Type<WallTime> /*type*/) {
  DIVVY_TRY(count, number_in<std::int64_t>(value));
  return WallTime(Duration(count));
}
Result<Duration> from_value(const json::value& value, Type<Duration> /*type*/) {
  DIVVY_TRY(count, number_in<std::int64_t>(value));
  return Duration(count);
}
Result<model::Seconds> from_value(const json::value& value, Type<model::Seconds> /*type*/) {
  DIVVY_TRY(count, number_in<std::int64_t>(value));
  return model::Seconds(count);
}
Result<model::GpuUuid> from_value(const json::value& value, Type<model::GpuUuid> /*type*/) {
  DIVVY_TRY(text, from_value(value, Type<std::string>()));
  return model::GpuUuid::parse(text);
}
struct SliceFields {
  std::string gpu;
  Bytes memory;
  Share share{0};
  bool cap = false;
};
template <typename V, Is<SliceFields> S>
void describe(V& v, S& s) {
  v("gpu", s.gpu);
  v("memory", s.memory);
  v("share", s.share);
  v("cap", s.cap);
}
Result<model::Slice> from_value(const json::value& value, Type<model::Slice> /*type*/) {
  DIVVY_TRY(fields, from_value(value, Type<SliceFields>()));
  DIVVY_TRY(gpu, model::GpuUuid::parse(fields.gpu));
  return model::Slice::create(std::move(gpu), fields.memory, fields.share,
                              fields.cap ? model::ShareKind::kCap : model::ShareKind::kGuarantee);
}
Result<model::JobSpec> from_value(const json::value& value, Type<model::JobSpec> /*type*/) {
  DIVVY_TRY(text, from_value(value, Type<std::string>()));
  return model::read_job_spec(text);
}
Result<model::ContainerSpec> from_value(const json::value& value,
                                        Type<model::ContainerSpec> /*type*/) {
  DIVVY_TRY(spec, from_value(value, Type<model::JobSpec>()));
  if (!spec.container) return err(wrong("container"));
  return *std::move(spec.container);
}
Result<Environment> from_value(const json::value& value, Type<Environment> /*type*/) {
  if (!value.is_object()) return err(wrong("variables"));
  Environment variables;
  for (const auto& entry : value.as_object()) {
    DIVVY_TRY(text, from_value(entry.value(), Type<std::string>()));
    variables.emplace(entry.key(), std::move(text));
  }
  return variables;
}
Result<std::map<model::MemberKey, Bytes>> from_value(
    const json::value& value, Type<std::map<model::MemberKey, Bytes>> /*type*/) {
  if (!value.is_object()) return err(wrong("sizes"));
  std::map<model::MemberKey, Bytes> sizes;
  for (const auto& entry : value.as_object()) {
    DIVVY_TRY(key, model::parse_member_key(entry.key()));
    DIVVY_TRY(size, from_value(entry.value(), Type<Bytes>()));
    sizes.emplace(key, size);
  }
  return sizes;
}
template <typename Tag, typename Rep>
Result<StrongId<Tag, Rep>> from_value(const json::value& value, Type<StrongId<Tag, Rep>> /*type*/) {
  DIVVY_TRY(number, number_in<Rep>(value));
  return StrongId<Tag, Rep>(number);
}
template <typename T>
Result<std::optional<T>> from_value(const json::value& value, Type<std::optional<T>> /*type*/) {
  if (value.is_null()) return std::optional<T>();
  DIVVY_TRY(some, from_value(value, Type<T>()));
  return std::optional<T>(std::move(some));
}
template <typename T>
Result<std::vector<T>> from_value(const json::value& value, Type<std::vector<T>> /*type*/) {
  if (!value.is_array()) return err(wrong("list"));
  std::vector<T> values;
  for (const json::value& one : value.as_array()) {
    DIVVY_TRY(read, from_value(one, Type<T>()));
    values.push_back(std::move(read));
  }
  return values;
}

// The last of each kind of word; smaller numbers are all used.
constexpr auto kLast(Type<model::Holder> /*type*/) { return model::Holder::kSlice; }
constexpr auto kLast(Type<model::GpuMode> /*type*/) { return model::GpuMode::kMps; }
constexpr auto kLast(Type<model::JobClass> /*type*/) { return model::JobClass::kLatency; }
constexpr auto kLast(Type<model::MemberPhase> /*type*/) { return model::MemberPhase::kLost; }
constexpr auto kLast(Type<View> /*type*/) { return View::kGpus; }
constexpr auto kLast(Type<StreamOrder::Kind> /*type*/) { return StreamOrder::Kind::kPort; }

// To be filled by describe(); what has no default is made of something that it will not keep.
template <typename T>
T empty() {
  if constexpr (std::same_as<T, StartOrder>) {
    return StartOrder({}, model::JobSpec(*model::Request::parse("1")));
  } else if constexpr (std::same_as<T, WhyNotOrder>) {
    return WhyNotOrder(model::JobSpec(*model::Request::parse("1")));
  } else if constexpr (std::same_as<T, MachineGpu>) {
    return MachineGpu{.uuid = *model::GpuUuid::parse("GPU-00000000-0000-0000-0000-000000000000")};
  } else {
    return T{};
  }
}

template <typename T>
Result<T> from_value(const json::value& value, Type<T> type) {
  if constexpr (std::integral<T>) {
    return number_in<T>(value);
  } else if constexpr (std::is_enum_v<T>) {
    DIVVY_TRY(number, number_in<std::uint8_t>(value));
    if (number > static_cast<std::uint8_t>(kLast(type))) return err(wrong("word"));
    return static_cast<T>(number);
  } else {
    if (!value.is_object()) return err(wrong("object"));
    T made = empty<T>();
    Reader reader(value.as_object());
    describe(reader, made);
    if (!reader.status) return err(reader.status.error());
    return made;
  }
}

template <typename Variant, std::size_t kIndex = 0, std::size_t kSize>
Result<Variant> read_tagged(const json::object& object, std::string_view what,
                            const std::array<std::string_view, kSize>& names) {
  if constexpr (kIndex == kSize) {
    return err(wrong(what));
  } else {
    const json::value* const tag = object.if_contains(what);
    if (tag == nullptr || !tag->is_string()) return err(wrong(what));
    if (tag->as_string() != names[kIndex]) {
      return read_tagged<Variant, kIndex + 1>(object, what, names);
    }
    const json::value* const body = object.if_contains("body");
    if (body == nullptr) return err(wrong("body"));
    DIVVY_TRY(read, from_value(*body, Type<std::variant_alternative_t<kIndex, Variant>>()));
    return Variant(std::move(read));
  }
}

constexpr int kCodes = static_cast<int>(ErrorCode::kInternal) + 1;

Result<ErrorCode> read_code(std::string_view text) {
  for (int i = 0; i < kCodes; ++i) {
    if (text == to_string(static_cast<ErrorCode>(i))) return static_cast<ErrorCode>(i);
  }
  return err(wrong("code"));
}

struct ErrorFields {
  std::string code;
  std::string message;
};
template <typename V, Is<ErrorFields> S>
void describe(V& v, S& s) {
  v("code", s.code);
  v("message", s.message);
}

Result<NumberedAnswer> read_answer(const json::object& object, std::uint64_t number) {
  if (const json::value* const error = object.if_contains("error")) {
    DIVVY_TRY(fields, from_value(*error, Type<ErrorFields>()));
    DIVVY_TRY(code, read_code(fields.code));
    return NumberedAnswer{number, err(Error{code, std::move(fields.message)})};
  }
  DIVVY_TRY(answer, read_tagged<Answer>(object, "answer", kAnswers));
  return NumberedAnswer{number, std::move(answer)};
}

json::object write(const Hello& hello) { return {{"hello", to_value(hello)}}; }
json::object write(const Orders& /*orders*/) { return {{"orders", true}}; }
json::object write(const StreamOrder& order) { return {{"stream", to_value(order)}}; }
json::object write(const NumberedOrder& order) {
  json::object object = tagged("order", order.order, kOrders);
  object["number"] = order.number;
  return object;
}
json::object write(const NumberedAnswer& answer) {
  json::object object;
  if (answer.answer) {
    object = tagged("answer", *answer.answer, kAnswers);
  } else {
    object["error"] = to_value(ErrorFields{std::string(to_string(answer.answer.error().code)),
                                           answer.answer.error().message});
  }
  object["number"] = answer.number;
  return object;
}
json::object write(const News& news) { return tagged("news", news, kNews); }

}  // namespace

std::string write_message(const Message& message) {
  return json::serialize(std::visit([](const auto& one) { return write(one); }, message));
}

Result<Message> read_message(std::string_view text) {
  boost::system::error_code code;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), code);
  if (code || !value.is_object()) return err(wrong("form: it is no JSON object"));
  const json::object& object = value.as_object();
  if (const json::value* const hello = object.if_contains("hello")) {
    DIVVY_TRY(read, from_value(*hello, Type<Hello>()));
    return Message(std::move(read));
  }
  if (object.contains("orders")) return Message(Orders{});
  if (const json::value* const stream = object.if_contains("stream")) {
    DIVVY_TRY(read, from_value(*stream, Type<StreamOrder>()));
    return Message(std::move(read));
  }
  if (object.contains("news")) {
    DIVVY_TRY(news, read_tagged<News>(object, "news", kNews));
    return Message(std::move(news));
  }
  const json::value* const number = object.if_contains("number");
  if (number == nullptr) return err(wrong("number"));
  DIVVY_TRY(which, number_in<std::uint64_t>(*number));
  if (object.contains("order")) {
    DIVVY_TRY(order, read_tagged<Order>(object, "order", kOrders));
    return Message(NumberedOrder{which, std::move(order)});
  }
  DIVVY_TRY(answer, read_answer(object, which));
  return Message(std::move(answer));
}

}  // namespace divvy::agent
