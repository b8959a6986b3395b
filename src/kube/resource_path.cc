#include "kube/resource_path.h"

#include <charconv>
#include <vector>

#include "base/text.h"

namespace divvy::kube {
namespace {

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

std::string percent_encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (is_unreserved(c)) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

Result<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded += text[at] == '+' ? ' ' : text[at];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(at + 1, 2);
    const auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || code != std::errc() || end != digits.data() + 2) {
      return err(ErrorCode::kInvalidArgument, "'{}' has a % that no two hex digits follow", text);
    }
    decoded += static_cast<char>(value);
    at += 2;
  }
  return decoded;
}

std::string with_parameter(std::string_view path, std::string_view key, std::string_view value) {
  const char joint = path.find('?') == std::string_view::npos ? '?' : '&';
  return fmt::format("{}{}{}={}", path, joint, key, percent_encode(value));
}

std::string_view ResourcePath::parameter(std::string_view key) const {
  const auto found = query.find(key);
  return found == query.end() ? std::string_view() : std::string_view(found->second);
}

Result<ResourcePath> ResourcePath::parse(std::string_view text) {
  const auto refuse = [text] {
    return err(ErrorCode::kInvalidArgument, "'{}' is no path of a Kubernetes resource", text);
  };
  ResourcePath path;
  const std::size_t question = text.find('?');
  if (question != std::string_view::npos) {
    for (const std::string_view pair : split(text.substr(question + 1), '&')) {
      if (pair.empty()) continue;
      const std::size_t middle = std::min(pair.find('='), pair.size());
      DIVVY_TRY(key, percent_decode(pair.substr(0, middle)));
      DIVVY_TRY(value, percent_decode(pair.substr(std::min(middle + 1, pair.size()))));
      path.query[key] = value;
    }
  }
  const std::string_view whole = text.substr(0, question);
  if (!whole.starts_with('/')) return refuse();
  std::vector<std::string> parts;
  for (const std::string_view part : split(whole.substr(1), '/')) {
    DIVVY_TRY(decoded, percent_decode(part));
    if (decoded.empty()) return refuse();
    parts.push_back(std::move(decoded));
  }
  std::size_t at = parts.front() == "api" ? 2 : 3;
  if ((parts.front() != "api" && parts.front() != "apis") || parts.size() <= at) return refuse();
  for (std::size_t i = 0; i < at; ++i) path.group_version += "/" + parts[i];
  // A namespace is an object of its own, and what others are in.
  const bool inside = parts[at] == "namespaces" && parts.size() > at + 2 &&
                      parts[at + 2] != "status" && parts[at + 2] != "finalize";
  if (inside) {
    path.space = parts[at + 1];
    at += 2;
  }
  path.resource = parts[at++];
  if (at < parts.size()) path.name = parts[at++];
  if (at < parts.size()) path.subresource = parts[at++];
  if (at < parts.size()) return refuse();
  return path;
}

}  // namespace divvy::kube
