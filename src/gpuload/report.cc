#include "gpuload/report.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>

namespace divvy::gpuload {
namespace {

std::string json_text(std::string_view text) {
  return boost::json::serialize(boost::json::string(text));
}

// Boost.JSON writes 0.5 as 5E-1, which is right but not for people.
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  if (std::abs(value) >= 1000) return fmt::format("{:.1f}", value);
  return fmt::format("{:.6g}", std::abs(value) < 1e-12 ? 0.0 : value);
}

std::string indent(int depth) { return std::string(static_cast<size_t>(depth) * 2, ' '); }

}  // namespace

void Report::set(std::string_view key, const Summary& summary) {
  Report& child = object(key);
  child.set("count", summary.count);
  child.set("mean", summary.mean);
  child.set("min", summary.min);
  child.set("p50", summary.p50);
  child.set("p90", summary.p90);
  child.set("p99", summary.p99);
  child.set("max", summary.max);
}

Report::Value* Report::find(std::string_view key) {
  for (auto& [name, value] : fields_) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Report::put(std::string_view key, Value value) {
  if (Value* old = find(key)) {
    *old = std::move(value);
  } else {
    fields_.emplace_back(std::string(key), std::move(value));
  }
}

Report& Report::object(std::string_view key) {
  if (Value* old = find(key)) {
    if (Child* child = std::get_if<Child>(old)) return **child;
  }
  put(key, std::make_unique<Report>());
  return **std::get_if<Child>(find(key));
}

Report& Report::append(std::string_view key) {
  Value* old = find(key);
  if (old == nullptr || !std::holds_alternative<Children>(*old)) {
    put(key, Children());
    old = find(key);
  }
  Children& list = std::get<Children>(*old);
  list.push_back(std::make_unique<Report>());
  return *list.back();
}

std::string Report::scalar(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* natural = std::get_if<uint64_t>(&value)) return fmt::format("{}", *natural);
  if (const auto* real = std::get_if<double>(&value)) return number(*real);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    return fmt::format("[{:.3f}]", fmt::join(*list, ", "));
  }
  return {};
}

void Report::write_json(std::string& out, int depth) const {
  if (fields_.empty()) {
    out += "{}";
    return;
  }
  out += "{\n";
  for (size_t i = 0; i < fields_.size(); ++i) {
    const auto& [key, value] = fields_[i];
    out += indent(depth + 1) + json_text(key) + ": ";
    if (const Child* child = std::get_if<Child>(&value)) {
      (*child)->write_json(out, depth + 1);
    } else if (const Children* list = std::get_if<Children>(&value)) {
      out += "[";
      for (size_t j = 0; j < list->size(); ++j) {
        out += (j == 0 ? "\n" : ",\n") + indent(depth + 2);
        (*list)[j]->write_json(out, depth + 2);
      }
      out += "\n" + indent(depth + 1) + "]";
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      out += json_text(*text);
    } else {
      out += scalar(value);
    }
    out += i + 1 < fields_.size() ? ",\n" : "\n";
  }
  out += indent(depth) + "}";
}

void Report::write_text(std::string& out, int depth) const {
  for (const auto& [key, value] : fields_) {
    out += indent(depth) + key + ":";
    if (const Child* child = std::get_if<Child>(&value)) {
      out += "\n";
      (*child)->write_text(out, depth + 1);
    } else if (const Children* list = std::get_if<Children>(&value)) {
      out += "\n";
      for (const Child& item : *list) {
        item->write_text(out, depth + 1);
        if (&item != &list->back()) out += "\n";
      }
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      out += " " + *text + "\n";
    } else {
      out += " " + scalar(value) + "\n";
    }
  }
}

std::string Report::json() const {
  std::string out;
  write_json(out, 0);
  return out + "\n";
}

std::string Report::text() const {
  std::string out;
  write_text(out, 0);
  return out;
}

}  // namespace divvy::gpuload
