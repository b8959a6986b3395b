#include "cli/job_template.h"

#include <algorithm>

#include "base/text.h"
#include "model/name.h"

namespace divvy::cli {
namespace {

using config::YamlNode;
using Values = std::map<std::string, std::string>;

std::string shown(std::string_view text) { return escape_for_terminal(text.substr(0, 60)); }

// Collects what is wrong, each with its place.
class Reader {
 public:
  explicit Reader(JobTemplate& into) : into_(into) {}

  void read(const YamlNode& root) {
    if (root.kind != YamlNode::Kind::kMap) {
      return trouble(root.at, "a template has the fields summary, values and job");
    }
    for (std::size_t i = 0; i < root.keys.size(); ++i) read_field(root.keys[i], root.items[i]);
    if (into_.job.kind != YamlNode::Kind::kMap && troubles_.empty()) {
      trouble(root.at, "the field job is missing: a job file, in which {KEY} stands for a value");
    }
  }
  void trouble(const config::Place& at, std::string_view what) {
    if (!troubles_.empty()) troubles_ += '\n';
    troubles_ += at.line == 0 ? fmt::format("{}: {}", into_.file, what)
                              : fmt::format("{}:{}:{}: {}", into_.file, at.line, at.column, what);
  }
  [[nodiscard]] const std::string& troubles() const { return troubles_; }

 private:
  void read_field(const config::YamlKey& key, const YamlNode& value) {
    if (key.text == "summary") {
      if (value.kind != YamlNode::Kind::kWord) {
        return trouble(value.at, "summary: this has to be a text");
      }
      into_.summary = value.word;
    } else if (key.text == "values") {
      read_values(value);
    } else if (key.text == "job") {
      if (value.kind != YamlNode::Kind::kMap) {
        return trouble(value.at, "job: this has the fields of a job file, like gpu: 0.3");
      }
      into_.job = value;
    } else {
      const auto meant =
          did_you_mean(key.text, std::vector<std::string_view>{"summary", "values", "job"});
      trouble(key.at, fmt::format("a template has no field {}{}", shown(key.text),
                                  meant ? fmt::format("; did you mean {}?", *meant) : ""));
    }
  }

  void read_values(const YamlNode& value) {
    if (value.kind == YamlNode::Kind::kNothing) return;
    if (value.kind != YamlNode::Kind::kMap) {
      return trouble(value.at, "values: this has keys and texts, like epochs: 3");
    }
    for (std::size_t i = 0; i < value.keys.size(); ++i) {
      const config::YamlKey& key = value.keys[i];
      const YamlNode& item = value.items[i];
      if (const Status good = model::check_name("value", key.text); !good) {
        trouble(key.at, good.error().message);
      } else if (item.kind == YamlNode::Kind::kWord) {
        into_.values[key.text] = item.word;
      } else if (item.kind == YamlNode::Kind::kNothing) {
        into_.values[key.text] = std::nullopt;
      } else {
        trouble(item.at, fmt::format("values.{}: this has to be a text", shown(key.text)));
      }
    }
  }

  JobTemplate& into_;
  std::string troubles_;
};

// In one pass: what is in a value stays as it is. Braces around what is no key stay, too; --sweep
// and programs have their own.
std::string filled(std::string_view text, const Values& values) {
  std::string made;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    made += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open);
    const std::size_t close = text.find('}');
    const auto value = close == std::string_view::npos
                           ? values.end()
                           : values.find(std::string(text.substr(1, close - 1)));
    if (value == values.end()) {
      made += '{';
      text.remove_prefix(1);
    } else {
      made += value->second;
      text.remove_prefix(close + 1);
    }
  }
  return made;
}

void fill(YamlNode& node, const Values& values) {
  if (node.kind == YamlNode::Kind::kWord) {
    // "{KEY}" has to be quoted, because YAML takes braces for a map; what comes in its place was
    // not.
    const bool is_key = node.word.size() > 2 && node.word.front() == '{' &&
                        node.word.back() == '}' &&
                        values.contains(node.word.substr(1, node.word.size() - 2));
    if (is_key) node.quoted = false;
    node.word = filled(node.word, values);
  }
  for (YamlNode& item : node.items) fill(item, values);
}

std::string keys_text(const JobTemplate& job_template) {
  std::vector<std::string_view> keys;
  keys.reserve(job_template.values.size());
  for (const auto& [key, value] : job_template.values) keys.push_back(key);
  return keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "));
}

Result<Values> values_of(const JobTemplate& job_template, const std::vector<std::string>& set) {
  Values values;
  for (const auto& [key, value] : job_template.values) {
    if (value) values[key] = *value;
  }
  for (const std::string& pair : set) {
    const std::size_t equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    if (equals == std::string::npos || key.empty()) {
      return err(ErrorCode::kInvalidArgument, "--set: \"{}\" is not KEY=VALUE", shown(pair));
    }
    if (!job_template.values.contains(key)) {
      return err(ErrorCode::kInvalidArgument, "--set: the template {} has no value {}; it has {}",
                 job_template.name, shown(key), keys_text(job_template));
    }
    values[key] = pair.substr(equals + 1);
  }
  for (const auto& [key, value] : job_template.values) {
    if (values.contains(key)) continue;
    return err(ErrorCode::kInvalidArgument, "the template {0} needs a value: --set {1}=...",
               job_template.name, key);
  }
  return values;
}

}  // namespace

Result<JobTemplate> read_template(std::string_view text, const std::string& name,
                                  const std::string& file) {
  JobTemplate made;
  made.name = name;
  made.file = file;
  Reader reader(made);
  if (const Status good = model::check_name("template", name); !good) {
    reader.trouble({}, good.error().message);
  }
  const config::YamlDocument yaml = config::read_yaml(text);
  for (const config::Problem& problem : yaml.problems) reader.trouble(problem.at, problem.what);
  if (yaml.problems.empty()) reader.read(yaml.root);
  if (!reader.troubles().empty()) return err(ErrorCode::kInvalidArgument, "{}", reader.troubles());
  return made;
}

JobTemplates find_templates(const TemplateFolders& folders) {
  TemplateFiles files = read_template_files(folders);
  JobTemplates templates;
  templates.troubles = std::move(files.troubles);
  for (const TemplateFile& file : files.files) {
    auto made = read_template(file.text, file.name, file.path);
    if (made) {
      templates.by_name.emplace(file.name, *std::move(made));
    } else {
      templates.troubles.push_back(made.error().message);
    }
  }
  return templates;
}

Result<JobTemplate> template_called(const JobTemplates& templates, const std::string& name) {
  const auto found = templates.by_name.find(name);
  if (found != templates.by_name.end()) return found->second;
  std::vector<std::string_view> known;
  known.reserve(templates.by_name.size());
  for (const auto& [each, made] : templates.by_name) known.push_back(each);
  const auto meant = did_you_mean(name, known);
  return err(ErrorCode::kInvalidArgument,
             "there is no template {}{}; `divvy templates` shows those there are", shown(name),
             meant ? fmt::format("; did you mean {}?", *meant) : "");
}

Result<JobFile> fill_in(const JobTemplate& job_template, const std::vector<std::string>& set) {
  DIVVY_TRY(values, values_of(job_template, set));
  YamlNode job = job_template.job;
  fill(job, values);
  return JobFile::make(job, job_template.file);
}

}  // namespace divvy::cli
