// What a run found, as an ordered tree of named values, written as JSON or as lines of text. The
// main thread owns and fills it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gpuload/stats.h"

namespace divvy::gpuload {

class Report {
 public:
  Report() = default;
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void set(std::string_view key, bool value) { put(key, value); }
  void set(std::string_view key, int value) { put(key, int64_t{value}); }
  void set(std::string_view key, unsigned value) { put(key, uint64_t{value}); }
  void set(std::string_view key, int64_t value) { put(key, value); }
  void set(std::string_view key, uint64_t value) { put(key, value); }
  void set(std::string_view key, double value) { put(key, value); }
  void set(std::string_view key, std::string value) { put(key, std::move(value)); }
  void set(std::string_view key, const char* value) { put(key, std::string(value)); }
  // A list of numbers, with three decimals.
  void set(std::string_view key, std::vector<double> values) { put(key, std::move(values)); }
  // An object with count, mean, min, p50, p90, p99 and max.
  void set(std::string_view key, const Summary& summary);

  // A nested object; the same one when asked for again.
  Report& object(std::string_view key);
  // A new object at the end of the list `key`.
  Report& append(std::string_view key);

  // Both end with a line end.
  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;

 private:
  using Child = std::unique_ptr<Report>;
  using Children = std::vector<Child>;
  using Value = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<double>,
                             Child, Children>;

  void put(std::string_view key, Value value);
  Value* find(std::string_view key);
  static std::string scalar(const Value& value);
  void write_json(std::string& out, int depth) const;
  void write_text(std::string& out, int depth) const;

  std::vector<std::pair<std::string, Value>> fields_;
};

}  // namespace divvy::gpuload
