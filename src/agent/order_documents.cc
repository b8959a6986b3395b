#include "agent/order_documents.h"

#include <concepts>

#include "agent/order_fields.h"
#include "model/job_document.h"
#include "model/json_fields.h"

namespace divvy::agent {
namespace {

namespace json = boost::json;

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
json::value to_value(const model::Slice& slice) { return model::slice_object(slice); }
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
json::value to_value(const std::map<std::string, model::Ulimit>& limits) {
  json::object object;
  for (const auto& [name, limit] : limits) object[name] = to_value(limit);
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

Error wrong(std::string_view what) { return {ErrorCode::kDataLoss, std::string(what)}; }

class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}
  template <typename T>
  void operator()(std::string_view name, T& field) {
    if (!status) return;
    const json::value* const value = object_.if_contains(name);
    auto read =
        value == nullptr ? Result<T>(err(wrong("it is missing"))) : from_value(*value, Type<T>());
    if (read) {
      field = *std::move(read);
    } else {
      status = err(with_context(std::move(read).error(), name));
    }
  }
  Status status;

 private:
  const json::object& object_;
};

template <typename T>
Result<T> taken(const json::value& value) {
  T into{};
  if (const model::Refusal refusal = model::take(value, into)) return err(wrong(*refusal));
  return into;
}
Result<std::string> from_value(const json::value& value, Type<std::string> /*type*/) {
  return taken<std::string>(value);
}
Result<model::MemberKey> from_value(const json::value& value, Type<model::MemberKey> /*type*/) {
  DIVVY_TRY(text, from_value(value, Type<std::string>()));
  return model::parse_member_key(text);
}
Result<Bytes> from_value(const json::value& value, Type<Bytes> /*type*/) {
  DIVVY_TRY(count, taken<std::uint64_t>(value));
  return Bytes(count);
}
Result<Share> from_value(const json::value& value, Type<Share> /*type*/) {
  DIVVY_TRY(thousandths, taken<std::uint32_t>(value));
  return Share(thousandths);
}
Result<WallTime> from_value(const json::value& value, Type<WallTime> /*type*/) {
  DIVVY_TRY(count, taken<std::int64_t>(value));
  return WallTime(Duration(count));
}
Result<Duration> from_value(const json::value& value, Type<Duration> /*type*/) {
  DIVVY_TRY(count, taken<std::int64_t>(value));
  return Duration(count);
}
Result<model::Seconds> from_value(const json::value& value, Type<model::Seconds> /*type*/) {
  DIVVY_TRY(count, taken<std::int64_t>(value));
  return model::Seconds(count);
}
Result<model::GpuUuid> from_value(const json::value& value, Type<model::GpuUuid> /*type*/) {
  DIVVY_TRY(text, from_value(value, Type<std::string>()));
  return model::GpuUuid::parse(text);
}
Result<model::Slice> from_value(const json::value& value, Type<model::Slice> /*type*/) {
  return model::read_slice(value);
}
Result<model::JobSpec> from_value(const json::value& value, Type<model::JobSpec> /*type*/) {
  DIVVY_TRY(text, from_value(value, Type<std::string>()));
  return model::read_job_spec(text);
}
Result<model::ContainerSpec> from_value(const json::value& value,
                                        Type<model::ContainerSpec> /*type*/) {
  DIVVY_TRY(spec, from_value(value, Type<model::JobSpec>()));
  if (!spec.container) return err(wrong("there is no container in it"));
  return *std::move(spec.container);
}
Result<Environment> from_value(const json::value& value, Type<Environment> /*type*/) {
  if (!value.is_object()) return err(wrong("this has to be an object with named fields"));
  Environment variables;
  for (const auto& entry : value.as_object()) {
    DIVVY_TRY(text, from_value(entry.value(), Type<std::string>()));
    variables.emplace(entry.key(), std::move(text));
  }
  return variables;
}
Result<std::map<std::string, model::Ulimit>> from_value(
    const json::value& value, Type<std::map<std::string, model::Ulimit>> /*type*/) {
  if (!value.is_object()) return err(wrong("this has to be an object with named fields"));
  std::map<std::string, model::Ulimit> limits;
  for (const auto& entry : value.as_object()) {
    DIVVY_TRY(limit, from_value(entry.value(), Type<model::Ulimit>()));
    limits.emplace(entry.key(), limit);
  }
  return limits;
}
Result<std::map<model::MemberKey, Bytes>> from_value(
    const json::value& value, Type<std::map<model::MemberKey, Bytes>> /*type*/) {
  if (!value.is_object()) return err(wrong("this has to be an object with named fields"));
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
  DIVVY_TRY(number, taken<Rep>(value));
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
  if (!value.is_array()) return err(wrong("this has to be a list"));
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
constexpr auto kLast(Type<StreamOrder::Kind> /*type*/) { return StreamOrder::Kind::kJoin; }

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
    return taken<T>(value);
  } else if constexpr (std::is_enum_v<T>) {
    DIVVY_TRY(number, taken<std::uint8_t>(value));
    if (number > static_cast<std::uint8_t>(kLast(type)))
      return err(wrong("this version does not know this word"));
    return static_cast<T>(number);
  } else {
    if (!value.is_object()) return err(wrong("this has to be an object with named fields"));
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
    return err(with_context(wrong("this version does not know this word"), what));
  } else {
    const json::value* const tag = object.if_contains(what);
    if (tag == nullptr || !tag->is_string()) {
      return err(with_context(wrong("this has to be text"), what));
    }
    if (tag->as_string() != names[kIndex]) {
      return read_tagged<Variant, kIndex + 1>(object, what, names);
    }
    const json::value* const body = object.if_contains("body");
    if (body == nullptr) return err(wrong("body: it is missing"));
    DIVVY_TRY(read, from_value(*body, Type<std::variant_alternative_t<kIndex, Variant>>()));
    return Variant(std::move(read));
  }
}

constexpr int kCodes = static_cast<int>(ErrorCode::kInternal) + 1;

Result<ErrorCode> read_code(std::string_view text) {
  for (int i = 0; i < kCodes; ++i) {
    if (text == to_string(static_cast<ErrorCode>(i))) return static_cast<ErrorCode>(i);
  }
  return err(wrong("code: this version does not know this word"));
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
  if (code || !value.is_object()) return err(wrong("this is no JSON object"));
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
  if (number == nullptr) return err(wrong("number: it is missing"));
  DIVVY_TRY(which, taken<std::uint64_t>(*number));
  if (object.contains("order")) {
    DIVVY_TRY(order, read_tagged<Order>(object, "order", kOrders));
    return Message(NumberedOrder{which, std::move(order)});
  }
  DIVVY_TRY(answer, read_answer(object, which));
  return Message(std::move(answer));
}

}  // namespace divvy::agent
