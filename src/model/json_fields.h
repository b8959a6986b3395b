// Reading a JSON object field by field, with one sentence about the first thing that is wrong and
// the place where it is: "container.ports[0].host: this has to be a whole number from 0 to 65535".
// For what people write (jobs, bodies of requests) and for what Divvy wrote itself (the ledger, the
// store, the folders of members). Any bytes are safe to pass, and nothing throws. One thread.
// Included by .cc files alone, those that know the JSON library.
#pragma once

#include <boost/json.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "model/job_spec.h"
#include "model/slice.h"

namespace divvy::model {

// kInvalidArgument with why it is none; deeper than any document of ours is refused, too.
[[nodiscard]] Result<boost::json::value> parse_json(std::string_view text,
                                                    boost::json::storage_ptr memory = {});

// Fields that nobody reads.
enum class Unread {
  kRefused,  // with the field that was probably meant
  kLeft,     // to the version of Divvy that wrote them
};

// What is wrong with a value ("this has to be text"); nothing where it was taken.
using Refusal = std::optional<std::string>;

[[nodiscard]] Refusal take(const boost::json::value& value, std::string& into);
[[nodiscard]] Refusal take(const boost::json::value& value, bool& into);
// Amounts as people write them: 1073741824 or "1GiB", 0.3 or "0.3" GPUs, 5400 or "1h30m".
[[nodiscard]] Refusal take(const boost::json::value& value, Bytes& into);
[[nodiscard]] Refusal take(const boost::json::value& value, Share& into);
[[nodiscard]] Refusal take(const boost::json::value& value, Seconds& into);
// 64, "unlimited" or, as ulimit and podman know it, -1.
[[nodiscard]] Refusal take(const boost::json::value& value, Ulimit& into);
[[nodiscard]] Refusal take(const boost::json::value& value, JobClass& into);
[[nodiscard]] Refusal take(const boost::json::value& value, Holder& into);
[[nodiscard]] Refusal take(const boost::json::value& value, GpuMode& into);
[[nodiscard]] Refusal take(const boost::json::value& value, DependencyKind& into);
[[nodiscard]] Refusal take(const boost::json::value& value, JobEnd& into);
[[nodiscard]] Refusal take(const boost::json::value& value, TopologyPreference& into);
[[nodiscard]] Refusal take(const boost::json::value& value, Closeness& into);

template <std::integral Number>
[[nodiscard]] Refusal take(const boost::json::value& value, Number& into) {
  boost::system::error_code code;
  const auto number = value.to_number<Number>(code);
  if (code) {
    return fmt::format("this has to be a whole number from {} to {}",
                       std::numeric_limits<Number>::min(), std::numeric_limits<Number>::max());
  }
  into = number;
  return {};
}

template <typename Tag, typename Rep>
[[nodiscard]] Refusal take(const boost::json::value& value, StrongId<Tag, Rep>& into) {
  Rep number = 0;
  Refusal refusal = take(value, number);
  into = StrongId<Tag, Rep>(number);
  return refusal;
}

// An object whose fields are read one after the other; null is as good as absent. The first thing
// that is wrong stays, and what comes after it reads nothing.
class JsonFields {
 public:
  // The value outlives this; `path` is its place in the document.
  explicit JsonFields(const boost::json::value& value, Unread unread = Unread::kRefused,
                      std::string path = "");

  // What is absent leaves `into` as it is.
  template <typename T>
  void read(std::string_view name, T& into) {
    const boost::json::value* value = field(name);
    if (value == nullptr) return;
    if (Refusal refusal = take(*value, into)) refuse(name, *refusal);
  }
  template <typename T>
  void read(std::string_view name, std::optional<T>& into) {
    T found{};
    read(name, found);
    if (has(name)) into = std::move(found);
  }
  // Lists and maps are read item by item, each with a place of its own.
  template <typename T>
  void read(std::string_view name, std::vector<T>& into) {
    if (has(name)) into.clear();
    read_list(name, [&](const boost::json::value& item, const std::string& place) {
      if (Refusal refusal = take(item, into.emplace_back())) refuse(place, *refusal);
    });
  }
  void read(std::string_view name, std::map<std::string, std::string>& into);

  // Refused where it is absent.
  template <typename T>
  void need(std::string_view name, T& into) {
    if (!has(name)) refuse(name, "it is missing");
    read(name, into);
  }

  // A text that `parse` understands, std::string_view -> Result<T>.
  template <typename Parse>
  auto parsed(std::string_view name, const Parse& parse) {
    std::optional<typename decltype(parse(name))::value_type> found;
    std::optional<std::string> text;
    read(name, text);
    if (!text) return found;
    if (auto result = parse(std::string_view(*text))) {
      found = *std::move(result);
    } else {
      refuse(name, result.error().message);
    }
    return found;
  }

  using ReadItem = std::function<void(const boost::json::value& item, const std::string& place)>;
  using ReadEntry = std::function<void(const std::string& key, const boost::json::value& item,
                                       const std::string& place)>;
  using ReadInside = std::function<void(JsonFields& inside)>;

  void read_list(std::string_view name, const ReadItem& read_item);
  void read_map(std::string_view name, const ReadEntry& read_entry);
  // An object in this one.
  void inside(std::string_view name, const ReadInside& read_inside);
  void inside(const boost::json::value& value, const std::string& place,
              const ReadInside& read_inside);

  // The name of its field where there is to be one; otherwise refused.
  [[nodiscard]] std::string_view only();
  // It is there, and not null.
  [[nodiscard]] bool has(std::string_view name) const;
  void refuse(std::string_view place, std::string_view what);
  // What was wrong, once everything has been read.
  [[nodiscard]] Status finish() const;

 private:
  const boost::json::value* field(std::string_view name);
  [[nodiscard]] std::string path_of(std::string_view place) const;

  const boost::json::object* object_ = nullptr;
  Unread unread_;
  std::string path_;
  std::vector<std::string_view> known_;
  std::optional<Error> error_;
};

// The object in a text that Divvy wrote, in which what a user typed is kept as it was typed, UTF-8
// or not. What is wrong is kDataLoss behind `of`, the name of the document.
[[nodiscard]] Status read_own_json(std::string_view of, std::string_view text, Unread unread,
                                   const JsonFields::ReadInside& read);

// A slice as the ledger, the store and the messages of agents have it: bytes and thousandths as
// numbers. `capped` is what the field that says so is called there.
[[nodiscard]] boost::json::object slice_object(const Slice& slice, std::string_view capped = "cap");
[[nodiscard]] Result<Slice> read_slice(const boost::json::value& value,
                                       std::string_view capped = "cap");

}  // namespace divvy::model
