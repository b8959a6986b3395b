#include "model/json_fields.h"

#include <algorithm>
#include <span>

#include "base/memory_amount.h"
#include "base/text.h"
#include "model/seconds.h"

namespace divvy::model {
namespace {

namespace json = boost::json;

// Far more than a document of ours has; deeper ones are an attack on the stack.
constexpr std::size_t kDeepest = 16;

Result<json::value> parse(std::string_view text, json::storage_ptr memory, bool any_bytes) {
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = kDeepest;
  options.allow_invalid_utf8 = any_bytes;
  json::value value = json::parse(text, code, std::move(memory), options);
  if (code) return err(ErrorCode::kInvalidArgument, "this is not JSON: {}", code.message());
  return value;
}

// What a parser of base or model makes of a text.
template <typename T>
Refusal take_text(std::string_view text, T& into, Result<T> (*parse)(std::string_view)) {
  auto parsed = parse(text);
  if (!parsed) return std::move(parsed).error().message;
  into = *std::move(parsed);
  return {};
}

// Of a text, or of a number in the shortest text that means it, which is what was typed.
template <typename T>
Refusal take_amount(const json::value& value, T& into, Result<T> (*parse)(std::string_view),
                    std::string_view what) {
  if (value.is_string()) return take_text(std::string_view(value.get_string()), into, parse);
  if (value.is_double()) return take_text(fmt::format("{}", value.get_double()), into, parse);
  if (value.is_number()) return take_text(json::serialize(value), into, parse);
  return fmt::format("this has to be {}", what);
}

template <typename Enum>
Refusal take_word(const json::value& value, Enum& into, Result<Enum> (*parse)(std::string_view)) {
  if (!value.is_string()) return "this has to be text";
  return take_text(std::string_view(value.get_string()), into, parse);
}

std::string named(std::string_view name) { return escape_for_terminal(name.substr(0, 100)); }

}  // namespace

Result<json::value> parse_json(std::string_view text, json::storage_ptr memory) {
  return parse(text, std::move(memory), false);
}

Refusal take(const json::value& value, std::string& into) {
  if (!value.is_string()) return "this has to be text";
  into = std::string(std::string_view(value.get_string()));
  return {};
}
Refusal take(const json::value& value, bool& into) {
  if (!value.is_bool()) return "this has to be true or false";
  into = value.get_bool();
  return {};
}
Refusal take(const json::value& value, Bytes& into) {
  return take_amount(value, into, parse_memory, "an amount of memory, like \"10GiB\"");
}
Refusal take(const json::value& value, Share& into) {
  return take_amount(value, into, parse_share, "a number of GPUs, like 0.3");
}
Refusal take(const json::value& value, Seconds& into) {
  if (Refusal refusal = take_amount(value, into, parse_seconds, "a time, like \"30m\""))
    return refusal;
  if (into <= kLongestTime) return {};
  return fmt::format("this is longer than {}", seconds_text(kLongestTime));
}
Refusal take(const json::value& value, Ulimit& into) {
  const bool text = value.is_string() && value.get_string() == "unlimited";
  std::uint64_t limit = Ulimit::kUnlimited;
  if (!text && !(value.is_int64() && value.get_int64() == -1) && take(value, limit)) {
    return "this has to be a whole number or \"unlimited\"";
  }
  into = {limit, limit};
  return {};
}
Refusal take(const json::value& value, JobClass& into) {
  return take_word(value, into, parse_job_class);
}
Refusal take(const json::value& value, Holder& into) {
  return take_word(value, into, parse_holder);
}
Refusal take(const json::value& value, GpuMode& into) {
  return take_word(value, into, parse_gpu_mode);
}
Refusal take(const json::value& value, DependencyKind& into) {
  return take_word(value, into, parse_dependency_kind);
}
Refusal take(const json::value& value, JobEnd& into) {
  return take_word(value, into, parse_job_end);
}
Refusal take(const json::value& value, TopologyPreference& into) {
  return take_word(value, into, parse_topology_preference);
}
Refusal take(const json::value& value, Closeness& into) {
  return take_word(value, into, parse_closeness);
}

JsonFields::JsonFields(const json::value& value, Unread unread, std::string path)
    : object_(value.if_object()), unread_(unread), path_(std::move(path)) {
  if (object_ == nullptr) refuse("", "this has to be an object with named fields");
}

void JsonFields::read(std::string_view name, std::map<std::string, std::string>& into) {
  if (has(name)) into.clear();
  read_map(name, [&](const std::string& key, const json::value& item, const std::string& place) {
    if (item.is_int64() || item.is_uint64()) {
      into[key] = json::serialize(item);  // EPOCHS: 3
    } else if (Refusal refusal = take(item, into[key])) {
      refuse(place, *refusal);
    }
  });
}

void JsonFields::read_list(std::string_view name, const ReadItem& read_item) {
  const json::value* const value = field(name);
  if (value == nullptr) return;
  const json::array* const items = value->if_array();
  if (items == nullptr) return refuse(name, "this has to be a list");
  for (std::size_t i = 0; i < items->size() && !error_; ++i) {
    read_item((*items)[i], fmt::format("{}[{}]", name, i));
  }
}

void JsonFields::read_map(std::string_view name, const ReadEntry& read_entry) {
  const json::value* const value = field(name);
  if (value == nullptr) return;
  const json::object* const entries = value->if_object();
  if (entries == nullptr) return refuse(name, "this has to be an object with named fields");
  for (const auto& entry : *entries) {
    if (error_) return;
    const std::string key(std::string_view(entry.key()));
    read_entry(key, entry.value(), fmt::format("{}.{}", name, named(key)));
  }
}

void JsonFields::inside(std::string_view name, const ReadInside& read_inside) {
  const json::value* const value = field(name);
  if (value != nullptr) inside(*value, std::string(name), read_inside);
}

void JsonFields::inside(const json::value& value, const std::string& place,
                        const ReadInside& read_inside) {
  if (error_) return;
  JsonFields fields(value, unread_, path_of(place));
  if (!fields.error_) read_inside(fields);
  if (Status read = fields.finish(); !read) error_ = std::move(read).error();
}

std::string_view JsonFields::only() {
  if (!error_ && (object_->size() != 1 || object_->begin()->value().is_null())) {
    refuse("", "this has to be an object with one field");
  }
  return error_ ? std::string_view() : std::string_view(object_->begin()->key());
}

bool JsonFields::has(std::string_view name) const {
  if (error_ || object_ == nullptr) return false;
  const json::value* const value = object_->if_contains(name);
  return value != nullptr && !value->is_null();
}

void JsonFields::refuse(std::string_view place, std::string_view what) {
  if (error_) return;
  const std::string path = path_of(place);
  error_ = Error{ErrorCode::kInvalidArgument,
                 path.empty() ? std::string(what) : fmt::format("{}: {}", path, what)};
}

Status JsonFields::finish() const {
  if (error_) return err(*error_);
  if (unread_ == Unread::kLeft) return {};
  for (const auto& entry : *object_) {
    const std::string_view name = entry.key();
    if (std::ranges::find(known_, name) != known_.end()) continue;
    const auto meant = did_you_mean(name, std::span<const std::string_view>(known_));
    return err(ErrorCode::kInvalidArgument, "{}: there is no such field{}", path_of(named(name)),
               meant ? fmt::format("; did you mean {}?", path_of(*meant)) : "");
  }
  return {};
}

const json::value* JsonFields::field(std::string_view name) {
  known_.push_back(name);
  return has(name) ? object_->if_contains(name) : nullptr;
}

std::string JsonFields::path_of(std::string_view place) const {
  if (path_.empty() || place.empty()) return path_ + std::string(place);
  return path_ + "." + std::string(place);
}

Status read_own_json(std::string_view of, std::string_view text, Unread unread,
                     const JsonFields::ReadInside& read) {
  const auto document = parse(text, {}, true);
  Status status;
  if (document) {
    JsonFields fields(*document, unread);
    read(fields);
    status = fields.finish();
  } else {
    status = err(document.error());
  }
  if (!status) return err(ErrorCode::kDataLoss, "{}: {}", of, status.error().message);
  return {};
}

json::object slice_object(const Slice& slice, std::string_view capped) {
  return {{"gpu", slice.gpu().str()},
          {"memory", slice.memory().count()},
          {"share", slice.share().thousandths()},
          {capped, slice.kind() == ShareKind::kCap}};
}

Result<Slice> read_slice(const json::value& value, std::string_view capped) {
  JsonFields fields(value);
  std::string gpu;
  std::uint64_t memory = 0;
  std::uint32_t share = 0;
  bool cap = false;
  fields.need("gpu", gpu);
  fields.need("memory", memory);
  fields.need("share", share);
  fields.need(capped, cap);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_TRY(uuid, GpuUuid::parse(gpu));
  return Slice::create(std::move(uuid), Bytes(memory), Share(share),
                       cap ? ShareKind::kCap : ShareKind::kGuarantee);
}

}  // namespace divvy::model
