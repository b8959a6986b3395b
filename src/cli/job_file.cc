#include "cli/job_file.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>

#include "base/text.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;
using config::Place;
using config::YamlNode;

// Fields whose words are text whatever they look like: `command: [sleep, 60]`, `DEBUG: true`.
bool is_text(std::string_view path) {
  constexpr std::array<std::string_view, 9> kText{
      "name",   "queue",  "command", "environment",          "working_directory",
      "labels", "models", "devices", "container.entry_point"};
  return std::ranges::any_of(kText, [&](std::string_view field) {
    return path == field || (path.starts_with(field) && path.size() > field.size() &&
                             (path[field.size()] == '.' || path[field.size()] == '['));
  });
}

json::value word_value(const YamlNode& node, std::string_view path) {
  if (!node.quoted && !is_text(path)) {
    if (node.word == "true") return true;
    if (node.word == "false") return false;
    std::int64_t number = 0;
    const char* end = node.word.data() + node.word.size();
    const auto read = std::from_chars(node.word.data(), end, number);
    if (read.ec == std::errc() && read.ptr == end) return number;
  }
  return json::string(node.word);
}

json::value to_json(const YamlNode& node, const std::string& path,
                    std::map<std::string, Place>& places) {
  places[path] = node.at;
  switch (node.kind) {
    case YamlNode::Kind::kNothing:
      return nullptr;
    case YamlNode::Kind::kWord:
      return word_value(node, path);
    case YamlNode::Kind::kList: {
      json::array list;
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        list.push_back(to_json(node.items[i], fmt::format("{}[{}]", path, i), places));
      }
      return list;
    }
    case YamlNode::Kind::kMap:
      break;
  }
  json::object object;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& key = node.keys[i].text;
    const std::string below = path.empty() ? key : fmt::format("{}.{}", path, key);
    object[key] = to_json(node.items[i], below, places);
    // About a field it is best to point at its name.
    places[below] = node.keys[i].at;
  }
  return object;
}

std::string placed_line(const std::string& file, const Place& at, std::string_view what) {
  if (at.line == 0) return fmt::format("{}: {}", file, what);
  return fmt::format("{}:{}:{}: {}", file, at.line, at.column, what);
}

}  // namespace

JobFile::JobFile() : document_(std::make_unique<json::object>()) {}
JobFile::~JobFile() = default;
JobFile::JobFile(JobFile&&) noexcept = default;
JobFile& JobFile::operator=(JobFile&&) noexcept = default;

Result<JobFile> JobFile::read(std::string_view text, std::string name) {
  const config::YamlDocument yaml = config::read_yaml(text);
  if (!yaml.problems.empty()) {
    std::string lines;
    for (const config::Problem& problem : yaml.problems) {
      lines += (lines.empty() ? "" : "\n") + placed_line(name, problem.at, problem.what);
    }
    return err(ErrorCode::kInvalidArgument, "{}", lines);
  }
  return make(yaml.root, std::move(name));
}

Result<JobFile> JobFile::make(const YamlNode& root, std::string name) {
  if (root.kind != YamlNode::Kind::kMap) {
    return err(ErrorCode::kInvalidArgument, "{}",
               placed_line(name, root.at,
                           "a job file has fields, like gpu: 0.3 and command: [python, train.py]"));
  }
  JobFile file;
  file.name_ = std::move(name);
  *file.document_ = to_json(root, "", file.places_).as_object();
  return file;
}

const json::object& JobFile::document() const { return *document_; }

Error JobFile::placed(Error error) const {
  // "container.ports[0].host: this has to be ...": the longest beginning that the file has.
  std::string path = error.message.substr(0, error.message.find(": "));
  if (path.size() == error.message.size()) return error;
  while (!path.empty()) {
    if (const auto found = places_.find(path); found != places_.end()) {
      error.message = placed_line(name_, found->second, error.message);
      return error;
    }
    const std::size_t cut = path.find_last_of(".[");
    path.resize(cut == std::string::npos ? 0 : cut);
  }
  error.message = name_ + ": " + error.message;
  return error;
}

}  // namespace divvy::cli
