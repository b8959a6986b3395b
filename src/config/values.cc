#include "config/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/capability_names.h"
#include "base/parse_error.h"
#include "base/text.h"

namespace divvy::config {
namespace {

using Kind = YamlNode::Kind;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> kTimeUnits = {{
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
    {"d", 86'400'000'000'000},
}};

constexpr std::string_view kOff = "off";

void refuse(const YamlNode& node, Problems& problems, std::string what) {
  problems.push_back({node.at, std::move(what)});
}

// The word of a node that must be one, or nothing with the problem told.
std::optional<std::string_view> word_of(const YamlNode& node, std::string_view what,
                                        Problems& problems) {
  if (node.kind == Kind::kWord) return node.word;
  const std::string_view found = node.kind == Kind::kNothing ? "nothing"
                                 : node.kind == Kind::kList  ? "a list"
                                                             : "a map";
  refuse(node, problems, fmt::format("this must be {}, not {}", what, found));
  return std::nullopt;
}

template <typename T>
std::optional<T> whole_number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto count = whole_number<std::int64_t>(text.substr(0, digits));
  const auto unit = std::ranges::find(kTimeUnits, trim(text.substr(digits)),
                                      &std::pair<std::string_view, std::int64_t>::first);
  if (!count || unit == kTimeUnits.end()) return std::nullopt;
  if (*count > std::numeric_limits<std::int64_t>::max() / unit->second) return std::nullopt;
  return Duration(*count * unit->second);
}

template <typename T>
void set_within(const YamlNode& node, T found, Limits<T> limits, T& value, Problems& problems) {
  if (found < limits.lowest || found > limits.highest) {
    refuse(node, problems,
           fmt::format("{} is out of range: from {} to {}", quote_typed(node.word),
                       write_value(limits.lowest), write_value(limits.highest)));
    return;
  }
  value = found;
}

// Reads each item with `read_item`; the value changes only when all of them are right.
template <typename T, typename ReadItem>
void read_list(const YamlNode& node, std::string_view example, std::vector<T>& value,
               Problems& problems, const ReadItem& read_item) {
  if (node.kind != Kind::kList) {
    refuse(node, problems, fmt::format("this must be a list, like {}", example));
    return;
  }
  const std::size_t before = problems.size();
  std::vector<T> items(node.items.size());
  for (std::size_t i = 0; i < items.size(); ++i) read_item(node.items[i], items[i]);
  if (problems.size() == before) value = std::move(items);
}

bool is_plain(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
  if (text.empty() || text == "~" || text == "null" || text[0] == '-') return false;
  return text.find_first_not_of(kPlain) == std::string_view::npos;
}

}  // namespace

void read_value(const YamlNode& node, bool& value, Problems& problems) {
  const auto text = word_of(node, "true or false", problems);
  if (!text) return;
  if (!node.quoted && (*text == "true" || *text == "false")) {
    value = *text == "true";
    return;
  }
  const std::string lower = to_lower(*text);
  const bool means_true = lower == "yes" || lower == "on" || lower == "true" || lower == "1";
  const bool means_false = lower == "no" || lower == "off" || lower == "false" || lower == "0";
  std::string what = fmt::format("this must be true or false, not {}", quote_typed(*text));
  if (means_true || means_false) {
    what += fmt::format("; did you mean {}?", means_true ? "true" : "false");
  }
  refuse(node, problems, std::move(what));
}

void read_value(const YamlNode& node, Duration& value, Limits<Duration> limits,
                Problems& problems) {
  const auto text = word_of(node, "a time, like 500ms, 30s, 5m or 1h", problems);
  if (!text) return;
  if (const auto found = parse_duration(*text)) {
    set_within(node, *found, limits, value, problems);
    return;
  }
  std::string what = fmt::format("{} is no time", quote_typed(*text));
  if (whole_number<std::int64_t>(*text)) {
    what = fmt::format("a time needs a unit; did you mean {}s?", *text);
  } else {
    what += "; write it like 500ms, 30s, 5m or 1h";
  }
  refuse(node, problems, std::move(what));
}

void read_value(const YamlNode& node, std::uint32_t& value, Limits<std::uint32_t> limits,
                Problems& problems) {
  const auto text = word_of(node, "a whole number", problems);
  if (!text) return;
  const auto found = whole_number<std::uint32_t>(*text);
  if (!found) {
    refuse(node, problems,
           fmt::format("this must be a whole number from {} to {}, not {}", limits.lowest,
                       limits.highest, quote_typed(*text)));
    return;
  }
  set_within(node, *found, limits, value, problems);
}

void read_value(const YamlNode& node, std::filesystem::path& value, Problems& problems) {
  const auto text = word_of(node, "a folder, like /var/lib/divvy", problems);
  if (!text) return;
  if (!text->starts_with('/')) {
    refuse(node, problems,
           fmt::format("a folder begins with '/', which {} does not", quote_typed(*text)));
    return;
  }
  value = std::filesystem::path(*text).lexically_normal();
  if (!value.has_filename() && value != "/") value = value.parent_path();  // "/run/divvy/"
}

void read_optional_folder(const YamlNode& node, std::filesystem::path& value, Problems& problems) {
  if (node.kind == Kind::kNothing || (node.kind == Kind::kWord && node.word.empty())) {
    value.clear();
    return;
  }
  read_value(node, value, problems);
}

void read_value(const YamlNode& node, std::vector<std::uint32_t>& value,
                Limits<std::uint32_t> limits, Problems& problems) {
  read_list(node, "[13, 31]", value, problems, [&](const YamlNode& item, std::uint32_t& number) {
    read_value(item, number, limits, problems);
  });
}

void read_mode(const YamlNode& node, mode_t& value, Problems& problems) {
  const auto text = word_of(node, "rights in octal, like 0660", problems);
  if (!text) return;
  const auto found = whole_number<std::uint32_t>(*text, 8);
  if (!found || *found > 0777 || text->size() > 4) {
    refuse(node, problems,
           fmt::format("{} are no rights; write them in octal, like 0660", quote_typed(*text)));
    return;
  }
  value = static_cast<mode_t>(*found);
}

void read_name(const YamlNode& node, std::string& value, Problems& problems) {
  if (node.kind == Kind::kNothing) {
    value.clear();
    return;
  }
  const auto text = word_of(node, "a name", problems);
  if (!text) return;
  if (!text->empty() && !is_plain(*text)) {
    refuse(node, problems, fmt::format("{} is no name", quote_typed(*text)));
    return;
  }
  value = *text;
}

void read_address(const YamlNode& node, std::string& value, Problems& problems) {
  // What YAML makes of an empty value is meant as "off" too.
  if (node.kind == Kind::kNothing || (node.kind == Kind::kWord && node.word.empty())) {
    value = kOff;
    return;
  }
  const auto text = word_of(node, "an address, like :9400 or 127.0.0.1:9400", problems);
  if (!text) return;
  if (*text == kOff) {
    value = kOff;
    return;
  }
  const std::size_t colon = text->rfind(':');
  const std::string_view host = text->substr(0, std::min(colon, text->size()));
  if (colon == std::string_view::npos) {
    const bool is_port = whole_number<std::uint16_t>(*text).has_value();
    refuse(node, problems,
           is_port ? fmt::format("an address has a colon before its port; did you mean :{}?", *text)
                   : fmt::format("{} names no port; did you mean {}:9400?", quote_typed(*text),
                                 escape_for_terminal(*text)));
    return;
  }
  if (!whole_number<std::uint16_t>(text->substr(colon + 1))) {
    refuse(node, problems,
           fmt::format("{} is no port; a port is a number up to 65535",
                       quote_typed(text->substr(colon + 1))));
    return;
  }
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  const std::string_view inside = bracketed ? host.substr(1, host.size() - 2) : host;
  if ((!bracketed && host.find(':') != std::string_view::npos) ||
      inside.find_first_of(" []/\t\n") != std::string_view::npos) {
    refuse(node, problems,
           fmt::format("{} is no host; an IPv6 address stands in brackets, like [::1]:9400",
                       quote_typed(host)));
    return;
  }
  value = *text;
}

void read_url(const YamlNode& node, std::string& value, Problems& problems) {
  if (node.kind == Kind::kNothing) {
    value.clear();
    return;
  }
  const auto text = word_of(node, "an address, like https://id.example", problems);
  if (!text) return;
  if (text->empty()) {
    value.clear();
    return;
  }
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  const bool secure = text->starts_with(kHttps);
  const std::string_view host =
      text->substr(std::min(text->size(), secure ? kHttps.size() : kHttp.size()));
  const bool own =
      host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
  if (!secure && !(text->starts_with(kHttp) && own)) {
    refuse(node, problems,
           fmt::format("an address begins with https:// (or http:// and this machine), which {} "
                       "does not",
                       quote_typed(*text)));
    return;
  }
  const bool odd = std::ranges::any_of(*text, [](char c) { return c <= ' ' || c >= 0x7f; });
  if (host.empty() || text->size() > 1000 || odd ||
      text->find_first_of("?#@\"<>\\") != std::string_view::npos) {
    refuse(node, problems, fmt::format("{} is no address here", quote_typed(*text)));
    return;
  }
  value = *text;
}

void read_text(const YamlNode& node, std::string& value, Problems& problems) {
  if (node.kind == Kind::kNothing) {
    value.clear();
    return;
  }
  const auto text = word_of(node, "text", problems);
  if (!text) return;
  const bool odd = std::ranges::any_of(
      *text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (odd || text->size() > 200) {
    refuse(node, problems, "this has to be one line of at most 200 bytes");
    return;
  }
  value = *text;
}

void read_words(const YamlNode& node, std::vector<std::string>& value, Problems& problems) {
  read_list(node, "[--network, none]", value, problems,
            [&](const YamlNode& item, std::string& word) {
              if (const auto text = word_of(item, "a word", problems)) word = *text;
            });
}

void read_capabilities(const YamlNode& node, std::vector<std::string>& value, Problems& problems) {
  read_list(node, "[SYS_ADMIN]", value, problems, [&](const YamlNode& item, std::string& name) {
    const auto text = word_of(item, "the name of a capability, like SYS_ADMIN", problems);
    if (!text) return;
    const std::string_view bare = text->starts_with("CAP_") ? text->substr(4) : *text;
    const auto names = capability_names();
    if (std::ranges::find(names, bare) != names.end()) {
      name = bare;
      return;
    }
    std::string what = fmt::format("there is no capability {}", quote_typed(*text));
    if (const auto meant = did_you_mean(bare, names)) {
      what += fmt::format("; did you mean {}?", *meant);
    }
    refuse(item, problems, std::move(what));
  });
}

std::size_t read_choice(const YamlNode& node, std::span<const std::string_view> names,
                        std::size_t before, Problems& problems) {
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  const auto text = word_of(node, "one of " + list, problems);
  if (!text) return before;
  const auto found = std::ranges::find(names, *text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string what = fmt::format("{} is none of {}", quote_typed(*text), list);
  if (const auto meant = did_you_mean(*text, names))
    what += fmt::format("; did you mean {}?", *meant);
  refuse(node, problems, std::move(what));
  return before;
}

std::string write_value(bool value) { return value ? "true" : "false"; }

std::string write_value(Duration value) {
  // The largest unit that divides it, up to hours: a day is 24h where it is a length.
  for (auto unit = kTimeUnits.rbegin() + 1; unit != kTimeUnits.rend(); ++unit) {
    if (value.count() % unit->second == 0 && value.count() != 0) {
      return fmt::format("{}{}", value.count() / unit->second, unit->first);
    }
  }
  return value.count() == 0 ? "0s" : fmt::format("{}ms", value.count() / 1'000'000);
}

std::string write_value(std::uint32_t value) { return std::to_string(value); }

std::string write_value(const std::string& value) {
  if (is_plain(value)) return value;
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += std::string("\\") + c;
    } else if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string write_value(const std::filesystem::path& value) { return write_value(value.string()); }
std::string write_mode(mode_t value) { return fmt::format("{:04o}", value); }

}  // namespace divvy::config
