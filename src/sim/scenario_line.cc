#include "sim/scenario_line.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/parse_error.h"
#include "base/text.h"

namespace divvy::sim {
namespace {

// As long as a job may take (model/job_spec.h), and small enough that sums of a few fit.
constexpr place::Instant kLongest = place::Instant{3660} * 24 * 3600;

bool all_text(std::string_view text) {
  while (!text.empty()) {
    const auto point = first_code_point(text);
    if (!point || (point->value < ' ' && point->value != '\t') || point->value == 0x7f) {
      return false;
    }
    text.remove_prefix(point->size);
  }
  return true;
}

}  // namespace

Result<ScenarioLine> ScenarioLine::cut(std::string_view text, std::string file,
                                       std::size_t number) {
  ScenarioLine line;
  line.file_ = std::move(file);
  line.number_ = number;
  if (!all_text(text)) {
    return line.wrong("the line has bytes that are no text; write it in UTF-8");
  }
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ' || text[at] == '\t') {
      ++at;
      continue;
    }
    if (text[at] == '#') break;
    std::string word;
    std::optional<std::size_t> equals;
    const bool quoted = text[at] == '"';
    while (at < text.size() && text[at] != ' ' && text[at] != '\t') {
      if (text[at] != '"') {
        if (text[at] == '=' && !quoted && !equals) equals = word.size();
        word += text[at++];
        continue;
      }
      const std::size_t end = text.find('"', at + 1);
      if (end == std::string_view::npos) {
        return line.wrong("a quote begins and does not end; close it with \"");
      }
      word += text.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    if (!equals) {
      line.words_.push_back(std::move(word));
      continue;
    }
    const std::string name = word.substr(0, *equals);
    if (std::ranges::find(line.options_, name, &Option::name) != line.options_.end()) {
      return line.wrong("{} is given twice; give it once", quote_typed(name));
    }
    line.options_.push_back({name, word.substr(*equals + 1)});
  }
  return line;
}

// What the parsers of base say, in one line and without the caret.
tl::unexpected<Error> ScenarioLine::wrong(const Error& error) const {
  const auto lines = split(error.message, '\n');
  if (lines.size() < 3) return wrong("{}", lines.front());
  return wrong("{}; {}", lines.front(), lines.back());
}

Result<std::string> ScenarioLine::word(std::string_view what) {
  if (!more()) return wrong("{} is missing at the end of the line", what);
  return words_[next_++];
}

bool ScenarioLine::skip(std::string_view wanted) {
  if (peek() != wanted || !more()) return false;
  ++next_;
  return true;
}

std::string ScenarioLine::rest() const {
  std::string text;
  for (std::size_t i = next_; i < words_.size(); ++i) {
    if (i != next_) text += ' ';
    const bool quoted = words_[i].empty() || words_[i].find_first_of(" \t#=") != std::string::npos;
    text += quoted ? '"' + words_[i] + '"' : words_[i];
  }
  return text;
}

Result<std::int64_t> ScenarioLine::whole_number(std::string_view text, std::int64_t least,
                                                std::int64_t most) const {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    return wrong("{} is no whole number from {} to {}", quote_typed(text), least, most);
  }
  return value;
}

Result<place::Instant> ScenarioLine::time(std::string_view text) const {
  std::int64_t unit = 1;
  std::string_view digits = text;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 's':
        unit = 1;
        break;
      case 'm':
        unit = 60;
        break;
      case 'h':
        unit = 3'600;
        break;
      case 'd':
        unit = 86'400;
        break;
      default:
        unit = 0;
    }
  }
  if (unit == 0) {
    unit = 1;
  } else {
    digits.remove_suffix(std::min<std::size_t>(1, digits.size()));
  }
  const auto value = whole_number(digits, 0, kLongest / unit);
  if (!value) {
    return wrong("{} is no time; write it like 90, 90s, 15m, 2h or 1d, up to 3660d",
                 quote_typed(text));
  }
  return *value * unit;
}

Result<Share> ScenarioLine::share(std::string_view text) const {
  const auto value = parse_share(text);
  if (!value) return wrong(value.error());
  return *value;
}

Result<model::Closeness> ScenarioLine::closeness(std::string_view text) const {
  const auto value = model::parse_closeness(text);
  if (!value) return wrong(value.error());
  return *value;
}

std::optional<std::string> ScenarioLine::option(std::string_view name) {
  asked_for_.emplace_back(name);
  const auto found = std::ranges::find(options_, name, &Option::name);
  if (found == options_.end()) return std::nullopt;
  found->used = true;
  return found->value;
}

Result<std::optional<std::int64_t>> ScenarioLine::number_option(std::string_view name,
                                                                std::int64_t least,
                                                                std::int64_t most) {
  const auto text = option(name);
  if (!text) return std::optional<std::int64_t>();
  DIVVY_TRY(value, whole_number(*text, least, most));
  return std::optional(value);
}

Result<std::optional<Bytes>> ScenarioLine::bytes_option(std::string_view name) {
  const auto text = option(name);
  if (!text) return std::optional<Bytes>();
  const auto value = parse_bytes(*text);
  if (!value) return wrong(value.error());
  return std::optional(*value);
}

Result<std::optional<std::uint64_t>> ScenarioLine::cpu_option(std::string_view name) {
  const auto text = option(name);
  if (!text) return std::optional<std::uint64_t>();
  const auto value = parse_share(*text);
  if (!value) {
    return wrong("{} is no number of CPUs; write it like 4, 0.5 or 500m", quote_typed(*text));
  }
  return std::optional<std::uint64_t>(value->thousandths());
}

Result<std::optional<Share>> ScenarioLine::share_option(std::string_view name) {
  const auto text = option(name);
  if (!text) return std::optional<Share>();
  DIVVY_TRY(value, share(*text));
  return std::optional(value);
}

Result<std::optional<place::Instant>> ScenarioLine::time_option(std::string_view name) {
  const auto text = option(name);
  if (!text) return std::optional<place::Instant>();
  DIVVY_TRY(value, time(*text));
  return std::optional(value);
}

Result<std::optional<bool>> ScenarioLine::yes_or_no(std::string_view name) {
  const auto text = option(name);
  if (!text) return std::optional<bool>();
  if (*text == "yes") return std::optional(true);
  if (*text == "no") return std::optional(false);
  return wrong("{} is {}; write {}=yes or {}=no", name, quote_typed(*text), name, name);
}

std::vector<std::string> ScenarioLine::list_option(std::string_view name) {
  std::vector<std::string> items;
  const auto text = option(name);
  if (!text) return items;
  for (const std::string_view item : split(*text, ',')) {
    if (!trim(item).empty()) items.emplace_back(trim(item));
  }
  return items;
}

Result<std::map<std::string, std::string>> ScenarioLine::label_option(std::string_view name) {
  std::map<std::string, std::string> labels;
  for (const std::string& item : list_option(name)) {
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return wrong("{} is no label; write it like labels=pool=train", quote_typed(item));
    }
    labels[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return labels;
}

Status ScenarioLine::finish() const {
  if (more()) return wrong("{} is too much here; leave it out", quote_typed(words_[next_]));
  for (const Option& option : options_) {
    if (option.used) continue;
    const auto meant = did_you_mean(option.name, asked_for_);
    if (meant) {
      return wrong("{} is no option here; did you mean {}?", quote_typed(option.name), *meant);
    }
    if (asked_for_.empty()) {
      return wrong("{} is no option here; the line takes none", quote_typed(option.name));
    }
    return wrong("{} is no option here; there are {}", quote_typed(option.name),
                 fmt::join(asked_for_, ", "));
  }
  return {};
}

}  // namespace divvy::sim
