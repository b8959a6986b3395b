// A job in YAML as the JSON document that the API takes, with the place of every field so that what
// is wrong is told with line and column. Pure, callable from any thread; any bytes are safe to
// pass.
#pragma once

#include <boost/json/fwd.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/yaml_reader.h"

namespace divvy::cli {

class JobFile {
 public:
  // Errors are "FILE:3:5: what", one line for each; `name` is only for them.
  [[nodiscard]] static Result<JobFile> read(std::string_view text, std::string name);
  // Of YAML that was read already.
  [[nodiscard]] static Result<JobFile> make(const config::YamlNode& root, std::string name);
  ~JobFile();
  JobFile(JobFile&&) noexcept;
  JobFile& operator=(JobFile&&) noexcept;

  [[nodiscard]] const boost::json::object& document() const;
  // An error about the document ("container.image: ...") with the place of the field in front,
  // where the file has it.
  [[nodiscard]] Error placed(Error error) const;

 private:
  JobFile();
  std::string name_;
  std::unique_ptr<boost::json::object> document_;
  std::map<std::string, config::Place> places_;  // by path: "container.ports[0].host"
};

}  // namespace divvy::cli
