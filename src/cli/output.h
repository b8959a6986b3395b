// The forms in which a command can give its answer to another program. Documents travel as JSON
// text, as they come from the API, so that every command writes JSON and YAML in the same way.
// Pure, callable from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::cli {

enum class OutputFormat { kTable, kWide, kJson, kYaml, kName, kCsv };
// Those of commands that list things.
inline constexpr OutputFormat kListFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                                OutputFormat::kJson,  OutputFormat::kYaml,
                                                OutputFormat::kName,  OutputFormat::kCsv};

// Reads the value of -o; only the `allowed` formats are accepted and named in the message.
[[nodiscard]] Result<OutputFormat> parse_output_format(std::string_view text,
                                                       std::span<const OutputFormat> allowed);
[[nodiscard]] std::string_view to_string(OutputFormat format);

// A document (JSON text that Divvy made) in one of the two document formats, ending with a line
// end. Characters that could deceive a reader at a terminal are written as escapes.
[[nodiscard]] std::string to_pretty_json(std::string_view document);
[[nodiscard]] std::string to_yaml(std::string_view document);
// `format` is kJson or kYaml.
[[nodiscard]] std::string write_document(std::string_view document, OutputFormat format);

// With every byte that is not part of valid UTF-8 replaced, because JSON cannot carry it.
[[nodiscard]] std::string to_valid_utf8(std::string_view text);

}  // namespace divvy::cli
