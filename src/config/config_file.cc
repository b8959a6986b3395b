#include "config/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "base/parse_error.h"
#include "base/text.h"
#include "config/schema.h"

namespace divvy::config {
namespace {

using Kind = YamlNode::Kind;

// The settings with this name in other sections, for those who forgot where it belongs.
std::optional<std::string> elsewhere(std::string_view key) {
  for (const Setting& setting : settings()) {
    if (setting.key == key) return setting.path();
  }
  return std::nullopt;
}

template <typename Names>
std::string unknown(std::string_view what, std::string_view key, const Names& known) {
  std::string text = fmt::format("there is no {} {}", what, quote_typed(key));
  if (const auto meant = did_you_mean(key, std::span<const std::string_view>(known))) {
    return text + fmt::format("; did you mean {}?", *meant);
  }
  if (const auto meant = elsewhere(key)) return text + fmt::format("; did you mean {}?", *meant);
  return text + fmt::format("; the known ones are {}", fmt::join(known, ", "));
}

class Reader {
 public:
  explicit Reader(const DaemonConfig& defaults) { result_.config = defaults; }

  ReadConfig read(std::string_view text) && {
    YamlDocument document = read_yaml(text);
    result_.problems = std::move(document.problems);
    read_root(document.root);
    check_together();
    std::ranges::sort(result_.problems);
    return std::move(result_);
  }

 private:
  void problem(Place at, std::string what) { result_.problems.push_back({at, std::move(what)}); }

  void read_root(const YamlNode& root) {
    if (root.kind == Kind::kNothing) return;
    if (root.kind != Kind::kMap) {
      problem(root.at, "the file must have sections, like 'log:' with 'level: info' under it");
      return;
    }
    std::vector<std::string_view> known;
    known.reserve(sections().size());
    for (const Section& section : sections()) known.push_back(section.name);
    for (std::size_t i = 0; i < root.keys.size(); ++i) {
      const YamlKey& key = root.keys[i];
      if (std::ranges::find(known, key.text) == known.end()) {
        problem(key.at, unknown("section", key.text, known));
      } else {
        read_section(key, root.items[i]);
      }
    }
  }

  void read_section(const YamlKey& section, const YamlNode& node) {
    if (node.kind == Kind::kNothing) return;  // All of its settings are commented out.
    if (node.kind != Kind::kMap) {
      problem(node.at, fmt::format("{} must have 'key: value' lines under it", section.text));
      return;
    }
    const auto table = settings_of(section.text);
    std::vector<std::string_view> known;
    known.reserve(table.size());
    for (const Setting* setting : table) known.push_back(setting->key);
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const YamlKey& key = node.keys[i];
      const auto found = std::ranges::find(known, key.text);
      if (found == known.end()) {
        problem(key.at,
                unknown(fmt::format("setting in {} called", section.text), key.text, known));
        continue;
      }
      const Setting& setting = *table[static_cast<std::size_t>(found - known.begin())];
      read_setting(setting, node.items[i]);
    }
  }

  void read_setting(const Setting& setting, const YamlNode& node) {
    Problems found;
    setting.read(node, result_.config, found);
    places_[setting.path()] = node.at;
    for (Problem& one : found) problem(one.at, setting.path() + ": " + one.what);
  }

  // What is wrong only beside another setting.
  void check_together() {
    const HealthConfig& health = result_.config.health;
    if (health.longest_quarantine < health.quarantine_time) {
      problem(
          place_of({"health.longest_quarantine", "health.quarantine_time"}),
          fmt::format("health.longest_quarantine ({}) is shorter than health.quarantine_time "
                      "({}), with which it begins",
                      write_value(health.longest_quarantine), write_value(health.quarantine_time)));
    }
    if (result_.config.folders.run == result_.config.folders.state) {
      problem(place_of({"folders.state", "folders.run"}),
              "folders.run and folders.state must be two folders");
    }
  }

  Place place_of(std::initializer_list<const char*> paths) const {
    for (const char* path : paths) {
      if (const auto found = places_.find(path); found != places_.end()) return found->second;
    }
    return {};
  }

  ReadConfig result_;
  std::map<std::string, Place, std::less<>> places_;
};

Result<std::string> read_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status{};
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    const int reason = errno;
    if (fd >= 0) ::close(fd);
    return err(reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
               "the configuration {} cannot be opened: {}", path.string(), std::strerror(reason));
  }
  std::string text;
  ssize_t got = S_ISDIR(status.st_mode) ? -1 : 1;
  if (got < 0) errno = EISDIR;
  // A little more than is read as YAML, which then says that it is too large.
  while (got > 0 && text.size() <= kMaxYamlBytes) {
    char buffer[16384];
    got = ::read(fd, buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno == EINTR) got = 1;
  }
  const int reason = errno;
  ::close(fd);
  if (got < 0) {
    return err(ErrorCode::kIo, "the configuration {} cannot be read: {}", path.string(),
               std::strerror(reason));
  }
  return text;
}

// As comment lines of at most 100 characters.
std::string comment(std::string_view text, std::string_view indent) {
  std::string result;
  std::string line;
  for (const std::string_view word : split(text, ' ')) {
    if (!line.empty() && indent.size() + 2 + line.size() + 1 + word.size() > 100) {
      result += fmt::format("{}# {}\n", indent, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return result + fmt::format("{}# {}\n", indent, line);
}

}  // namespace

ReadConfig read_config(std::string_view text, const DaemonConfig& defaults) {
  return Reader(defaults).read(text);
}

std::string problem_line(const std::filesystem::path& file, const Problem& problem) {
  if (problem.at.line == 0) return fmt::format("{}: {}", file.string(), problem.what);
  return fmt::format("{}:{}:{}: {}", file.string(), problem.at.line, problem.at.column,
                     problem.what);
}

Result<DaemonConfig> load_config(const std::filesystem::path& file, const DaemonConfig& defaults) {
  DIVVY_TRY(text, read_file(file));
  ReadConfig read = read_config(text, defaults);
  if (read.problems.empty()) return std::move(read.config);
  std::string lines;
  for (const Problem& problem : read.problems) {
    lines += (lines.empty() ? "" : "\n") + problem_line(file, problem);
  }
  return err(ErrorCode::kInvalidArgument, "{}", lines);
}

Status set_by_text(DaemonConfig& config, std::string_view text) {
  const std::size_t middle = text.find('=');
  if (middle == std::string_view::npos) {
    return err(ErrorCode::kInvalidArgument, "{} is no setting; write SECTION.NAME=VALUE",
               quote_typed(text));
  }
  const std::string_view path = text.substr(0, middle);
  std::vector<std::string> known;
  for (const Setting& setting : settings()) {
    known.push_back(setting.path());
    if (known.back() != path) continue;
    const YamlDocument value = read_yaml(text.substr(middle + 1));
    Problems problems = value.problems;
    if (problems.empty()) setting.read(value.root, config, problems);
    if (problems.empty()) return {};
    return err(ErrorCode::kInvalidArgument, "{}: {}", path, problems.front().what);
  }
  std::string advice = "`divvyd --print-config` lists them";
  if (const auto meant = did_you_mean(path, std::span<const std::string>(known))) {
    advice = fmt::format("did you mean {}?", *meant);
  }
  return err(ErrorCode::kInvalidArgument, "there is no setting {}; {}", quote_typed(path), advice);
}

std::string write_config(const DaemonConfig& config) {
  std::string text =
      "# Settings of divvyd. What is not named here has the value shown. After a change:\n"
      "#   divvyd --check-config FILE     finds what is wrong, with line and column\n"
      "#   systemctl reload divvyd        (SIGHUP) takes over what can change while it runs\n";
  for (const Section& section : sections()) {
    text += "\n" + comment(section.meaning, "") + fmt::format("{}:\n", section.name);
    for (const Setting* setting : settings_of(section.name)) {
      text += comment(fmt::format("{} ({}{})", setting->meaning, setting->kind,
                                  setting->reloadable ? "" : "; needs a restart"),
                      "  ");
      text += fmt::format("  {}: {}\n", setting->key, setting->write(config));
    }
  }
  return text;
}

std::string configuration_page() {
  std::string text = R"(# The configuration of divvyd

Made from the table in `src/config/schema.cc` by `divvyd --print-config-page`; a test compares. `divvyd` reads the file that `--config` names,
or `/etc/divvy/divvyd.yaml` where root runs it and the file exists. What the file does not name has its default. Options on the command line
go before the environment (`DIVVY_RUN_DIR`, `DIVVY_STATE_DIR`), and that before the file.

```
divvyd --check-config /etc/divvy/divvyd.yaml   # every problem in one run: file:line:column: what is wrong; exit status 0 or 2
divvyd --print-config                          # the settings that hold, as a file with comments
systemctl reload divvyd                        # or SIGHUP: reads the file again
```
A reload with a file that is wrong changes nothing and logs every problem. A setting that needs a restart keeps its value until then, and the log
names it ("folders.run needs a restart"). The file is YAML without anchors, aliases and tags; a key that is there twice is an error.

Times are written with a unit (`500ms`, `30s`, `5m`, `1h`, `30d`). A daemon that is not root's has its folders under
`$XDG_RUNTIME_DIR` and `~/.local/state` and mode 0600 for its socket, unless told otherwise.
)";
  const DaemonConfig defaults;
  for (const Section& section : sections()) {
    text += fmt::format(
        "\n## {}\n{}\n\n| setting | default | may be | changes | meaning |\n"
        "|---|---|---|---|---|\n",
        section.name, section.meaning);
    for (const Setting* setting : settings_of(section.name)) {
      text +=
          fmt::format("| `{}` | `{}` | {} | {} | {} |\n", setting->path(), setting->write(defaults),
                      setting->kind, setting->reloadable ? "reload" : "restart", setting->meaning);
    }
  }
  return text;
}

}  // namespace divvy::config
