// Looking into documents that others wrote: what is missing or of another type is nothing, an empty
// text, an empty list. Pure; nothing here throws.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace divvy::kube {

// The value at this path of names; null where there is none.
[[nodiscard]] inline const boost::json::value* find_value(
    const boost::json::object& object, std::initializer_list<std::string_view> path) {
  const boost::json::object* here = &object;
  const boost::json::value* found = nullptr;
  for (const std::string_view name : path) {
    if (here == nullptr) return nullptr;
    found = here->if_contains(name);
    if (found == nullptr) return nullptr;
    here = found->if_object();
  }
  return found;
}

[[nodiscard]] inline std::string_view text_at(const boost::json::object& object,
                                              std::initializer_list<std::string_view> path) {
  const boost::json::value* const value = find_value(object, path);
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

[[nodiscard]] inline bool true_at(const boost::json::object& object,
                                  std::initializer_list<std::string_view> path) {
  const boost::json::value* const value = find_value(object, path);
  return value != nullptr && value->is_bool() && value->get_bool();
}

[[nodiscard]] inline std::optional<std::uint64_t> number_at(
    const boost::json::object& object, std::initializer_list<std::string_view> path) {
  const boost::json::value* const value = find_value(object, path);
  if (value == nullptr) return std::nullopt;
  if (value->is_uint64()) return value->get_uint64();
  if (value->is_int64() && value->get_int64() >= 0) {
    return static_cast<std::uint64_t>(value->get_int64());
  }
  return std::nullopt;
}

[[nodiscard]] inline const boost::json::object& object_at(
    const boost::json::object& object, std::initializer_list<std::string_view> path) {
  static const boost::json::object kNone;
  const boost::json::value* const value = find_value(object, path);
  const boost::json::object* const found = value == nullptr ? nullptr : value->if_object();
  return found == nullptr ? kNone : *found;
}

[[nodiscard]] inline const boost::json::array& array_at(
    const boost::json::object& object, std::initializer_list<std::string_view> path) {
  static const boost::json::array kNone;
  const boost::json::value* const value = find_value(object, path);
  const boost::json::array* const found = value == nullptr ? nullptr : value->if_array();
  return found == nullptr ? kNone : *found;
}

}  // namespace divvy::kube
