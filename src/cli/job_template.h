// A job file with gaps: `divvy submit --template NAME --set KEY=VALUE` (docs/job-file.md). Pure
// apart from find_templates(), callable from any thread; any bytes are safe to pass.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/job_file.h"
#include "cli/template_files.h"
#include "config/yaml_reader.h"

namespace divvy::cli {

struct JobTemplate {
  std::string name;
  std::string file;
  std::string summary;
  // By key; nothing: it has to be set.
  std::map<std::string, std::optional<std::string>> values;
  config::YamlNode job;  // a job file in which {KEY} stands for a value
};

// Errors are "FILE:3:5: what", one line for each.
[[nodiscard]] Result<JobTemplate> read_template(std::string_view text, const std::string& name,
                                                const std::string& file);

// All that there are, by name; of several with one name the first. A file that cannot be read is in
// `troubles` instead.
struct JobTemplates {
  std::map<std::string, JobTemplate> by_name;
  std::vector<std::string> troubles;
};
[[nodiscard]] JobTemplates find_templates(const TemplateFolders& folders);
// kInvalidArgument where there is none.
[[nodiscard]] Result<JobTemplate> template_called(const JobTemplates& templates,
                                                  const std::string& name);

// The job with its values, of which `set` ("KEY=VALUE") goes before those of the template. A value
// is put in as it is and not looked at again; where a word is nothing but {KEY}, it may be a
// number.
[[nodiscard]] Result<JobFile> fill_in(const JobTemplate& job_template,
                                      const std::vector<std::string>& set);

}  // namespace divvy::cli
