#include "kube/watch_lines.h"

#include <boost/json.hpp>

#include "base/text.h"
#include "kube/api_error.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 128;

}  // namespace

Result<json::object> parse_document(std::string_view text) {
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::value value = json::parse(text, code, {}, options);
  if (code) return err(ErrorCode::kDataLoss, "this is no JSON: {}", code.message());
  if (!value.is_object()) return err(ErrorCode::kDataLoss, "this is no JSON object");
  return std::move(value.as_object());
}

Status WatchLines::read(std::string_view piece, const std::function<bool(WatchEvent)>& take) {
  while (wanted_ && !piece.empty()) {
    const std::size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    if (begun_.size() + part.size() > kMaxLine) {
      return err(ErrorCode::kDataLoss, "an event of the watch is longer than {} bytes", kMaxLine);
    }
    if (end == std::string_view::npos) {
      begun_ += part;
      return {};
    }
    piece.remove_prefix(end + 1);
    if (begun_.empty()) {
      DIVVY_RETURN_IF_ERROR(read_line(part, take));
      continue;
    }
    begun_ += part;
    const std::string line = std::exchange(begun_, {});
    DIVVY_RETURN_IF_ERROR(read_line(line, take));
  }
  return {};
}

Status WatchLines::read_line(std::string_view line, const std::function<bool(WatchEvent)>& take) {
  if (trim(line).empty()) return {};
  DIVVY_TRY(document, with_context(parse_document(line), "an event of the watch"));
  const std::string type(text_at(document, "type"));
  json::value* object = document.if_contains("object");
  if (object == nullptr || !object->is_object()) {
    return err(ErrorCode::kDataLoss, "an event of the watch has no object");
  }
  if (type == "ERROR") {
    const json::value* code = object->as_object().if_contains("code");
    const int status =
        code != nullptr && code->is_int64() && code->get_int64() >= 0 && code->get_int64() < 1000
            ? static_cast<int>(code->get_int64())
            : 500;
    return err(error_of_answer(status, json::serialize(*object), "watch"));
  }
  WatchEvent event;
  if (type == "ADDED") {
    event.kind = WatchEvent::Kind::kAdded;
  } else if (type == "MODIFIED") {
    event.kind = WatchEvent::Kind::kModified;
  } else if (type == "DELETED") {
    event.kind = WatchEvent::Kind::kDeleted;
  } else if (type == "BOOKMARK") {
    event.kind = WatchEvent::Kind::kBookmark;
  } else {
    return err(ErrorCode::kDataLoss, "an event of the watch has the type '{}'",
               escape_for_terminal(type.substr(0, 40)));
  }
  event.object = std::move(object->as_object());
  wanted_ = take(std::move(event));
  return {};
}

}  // namespace divvy::kube
