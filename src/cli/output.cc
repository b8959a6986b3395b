#include "cli/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "base/text.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr std::string_view kIndent = "  ";

struct NamedFormat {
  std::string_view name;
  OutputFormat format;
};
constexpr NamedFormat kFormats[] = {
    {"table", OutputFormat::kTable}, {"wide", OutputFormat::kWide}, {"json", OutputFormat::kJson},
    {"yaml", OutputFormat::kYaml},   {"name", OutputFormat::kName}, {"csv", OutputFormat::kCsv},
};

json::value parse(std::string_view document) {
  boost::system::error_code code;
  json::value value = json::parse({document.data(), document.size()}, code);
  DIVVY_CHECK(!code, "a document that Divvy made is not JSON: {}", code.message());
  return value;
}

// In double quotes; this form means the same in JSON and in YAML.
std::string quote(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const CodePoint point = first_code_point(text).value_or(CodePoint{U'\uFFFD', 1});
    const std::string_view bytes = text.substr(0, point.size);
    // A character that escape_for_terminal changes is not safe to show as it is.
    if (point.value == U'"' || point.value == U'\\') {
      result += '\\';
      result += bytes;
    } else if (point.value == U'\n') {
      result += "\\n";
    } else if (point.value == U'\t') {
      result += "\\t";
    } else if (point.value <= 0xFFFF && escape_for_terminal(bytes) != bytes) {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}",
                     static_cast<std::uint32_t>(point.value));
    } else {
      result += bytes;
    }
    text.remove_prefix(point.size);
  }
  return result += '"';
}

std::string scalar(const json::value& value) {
  return value.is_string() ? quote(value.get_string()) : json::serialize(value);
}

void indent(std::string& out, std::size_t depth) {
  for (std::size_t i = 0; i < depth; ++i) out += kIndent;
}

bool is_short_list(const json::value& value) {
  return value.is_array() &&
         std::ranges::none_of(value.get_array(), [](const json::value& element) {
           return element.is_object() || element.is_array();
         });
}

// Lists of plain values stay on one line, so that the rows of a matrix look like rows.
std::string flow_list(const json::array& list) {
  std::string out = "[";
  for (const json::value& element : list) {
    if (out.size() > 1) out += ", ";
    out += scalar(element);
  }
  return out += ']';
}

void write_json(std::string& out, const json::value& value, std::size_t depth) {
  if (is_short_list(value)) {
    out += flow_list(value.get_array());
  } else if (value.is_array()) {
    std::string_view separator = "[\n";
    for (const json::value& element : value.get_array()) {
      out += std::exchange(separator, ",\n");
      indent(out, depth + 1);
      write_json(out, element, depth + 1);
    }
    out += '\n';
    indent(out, depth);
    out += ']';
  } else if (value.is_object() && !value.get_object().empty()) {
    std::string_view separator = "{\n";
    for (const auto& [key, member] : value.get_object()) {
      out += std::exchange(separator, ",\n");
      indent(out, depth + 1);
      out += quote(key) + ": ";
      write_json(out, member, depth + 1);
    }
    out += '\n';
    indent(out, depth);
    out += '}';
  } else {
    out += scalar(value);
  }
}

// May the text stand in YAML without quotes and still be read as this text? Only plain words are
// trusted, because "no", "1e3", "12:30" and many more mean something else.
bool is_plain_yaml(std::string_view text) {
  static constexpr std::string_view kNotText[] = {"true", "false", "null", "yes", "no",
                                                  "on",   "off",   "y",    "n"};
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto inside = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == ' ' || c == '-' || c == '_' || c == '/' ||
           c == '.';
  };
  return !text.empty() && letter(text.front()) && text.back() != ' ' &&
         std::ranges::all_of(text, inside) &&
         std::ranges::find(kNotText, to_lower(text)) == std::end(kNotText);
}

std::string yaml_scalar(const json::value& value) {
  if (value.is_string() && is_plain_yaml(value.get_string())) {
    return std::string(value.get_string());
  }
  return scalar(value);
}

void write_yaml_members(std::string& out, const json::object& object, std::size_t depth,
                        bool first_is_indented);

// What stands after "key:" or "-".
void write_yaml_value(std::string& out, const json::value& value, std::size_t depth) {
  if (value.is_object() && !value.get_object().empty()) {
    out += '\n';
    write_yaml_members(out, value.get_object(), depth, false);
  } else if (value.is_array() && !is_short_list(value)) {
    out += '\n';
    for (const json::value& element : value.get_array()) {
      indent(out, depth);
      out += '-';
      if (element.is_object() && !element.get_object().empty()) {
        out += ' ';
        write_yaml_members(out, element.get_object(), depth + 1, true);
      } else {
        write_yaml_value(out, element, depth + 1);
      }
    }
  } else if (value.is_array()) {
    out += ' ' + flow_list(value.get_array()) + '\n';
  } else {
    out += ' ' + yaml_scalar(value) + '\n';
  }
}

void write_yaml_members(std::string& out, const json::object& object, std::size_t depth,
                        bool first_is_indented) {
  for (const auto& [key, member] : object) {
    if (!std::exchange(first_is_indented, false)) indent(out, depth);
    out += is_plain_yaml(key) ? std::string(key) : quote(key);
    out += ':';
    write_yaml_value(out, member, depth + 1);
  }
}

}  // namespace

std::string_view to_string(OutputFormat format) {
  for (const NamedFormat& known : kFormats) {
    if (known.format == format) return known.name;
  }
  return "?";
}

Result<OutputFormat> parse_output_format(std::string_view text,
                                         std::span<const OutputFormat> allowed) {
  std::vector<std::string_view> names;
  for (const OutputFormat format : allowed) {
    if (to_string(format) == text) return format;
    names.push_back(to_string(format));
  }
  const auto meant = did_you_mean(text, std::span<const std::string_view>(names));
  return err(ErrorCode::kInvalidArgument, "there is no output format \"{}\"{}; -o takes {}",
             escape_for_terminal(text), meant ? fmt::format(" (did you mean {}?)", *meant) : "",
             fmt::join(names, ", "));
}

std::string to_pretty_json(std::string_view document) {
  std::string out;
  write_json(out, parse(document), 0);
  return out += '\n';
}

std::string to_yaml(std::string_view document) {
  const json::value value = parse(document);
  std::string out;
  if (value.is_object() && !value.get_object().empty()) {
    write_yaml_members(out, value.get_object(), 0, false);
    return out;
  }
  write_yaml_value(out, value, 0);
  return out.substr(1);
}

std::string write_document(std::string_view document, OutputFormat format) {
  return format == OutputFormat::kYaml ? to_yaml(document) : to_pretty_json(document);
}

std::string to_valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto point = first_code_point(text);
    result += point ? text.substr(0, point->size) : "\xEF\xBF\xBD";
    text.remove_prefix(point ? point->size : 1);
  }
  return result;
}

}  // namespace divvy::cli
