#include "cli/answer.h"

#include <boost/json.hpp>

#include "base/text.h"

namespace divvy::cli {

namespace json = boost::json;

Error not_understood(std::string_view why) {
  return {
      ErrorCode::kInternal,
      fmt::format("divvyd's answer was not understood ({}); are divvy and divvyd of one version?",
                  why)};
}

Result<Answer> Answer::parse(const std::string& text) {
  boost::system::error_code code;
  json::value value = json::parse(text, code);
  if (code) {
    return err(not_understood(code.message()));
  }
  Answer answer;
  answer.document_ = std::make_shared<const json::value>(std::move(value));
  answer.value_ = answer.document_.get();
  return answer;
}

Answer Answer::operator[](std::string_view name) const {
  Answer field;
  if (value_ == nullptr || !value_->is_object()) return field;
  field.document_ = document_;
  field.value_ = value_->get_object().if_contains(name);
  return field;
}

std::vector<Answer> Answer::items() const {
  std::vector<Answer> list;
  if (value_ == nullptr || !value_->is_array()) return list;
  for (const json::value& item : value_->get_array()) {
    Answer& answer = list.emplace_back();
    answer.document_ = document_;
    answer.value_ = &item;
  }
  return list;
}

std::vector<std::string> Answer::names() const {
  std::vector<std::string> list;
  if (value_ == nullptr || !value_->is_object()) return list;
  for (const auto& field : value_->get_object()) list.emplace_back(field.key());
  return list;
}

bool Answer::empty() const { return value_ == nullptr || value_->is_null(); }

std::string Answer::text() const { return escape_for_terminal(raw()); }

std::string Answer::raw() const {
  if (empty()) return {};
  return value_->is_string() ? std::string(value_->get_string()) : json::serialize(*value_);
}

std::optional<std::int64_t> Answer::number() const {
  if (value_ == nullptr || !value_->is_number()) return std::nullopt;
  boost::system::error_code code;
  const auto number = value_->to_number<std::int64_t>(code);
  return code ? std::nullopt : std::optional(number);
}

bool Answer::flag() const { return value_ != nullptr && value_->is_bool() && value_->get_bool(); }

std::string Answer::json() const { return value_ == nullptr ? "null" : json::serialize(*value_); }

}  // namespace divvy::cli
