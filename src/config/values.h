// How the value of one setting is read from a file and written into one. An overload for each type
// that a field of DaemonConfig may have: read_value() sets the field or adds problems, each at its
// place; write_value() gives text that reads back as the same value. Pure, callable from any
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/daemon_config.h"
#include "config/yaml_reader.h"

namespace divvy::config {

using Problems = std::vector<Problem>;

// Durations and numbers have limits; so that both ends are in the message, they are read with them.
template <typename T>
struct Limits {
  T lowest;
  T highest;
};

void read_value(const YamlNode& node, bool& value, Problems& problems);
void read_value(const YamlNode& node, Duration& value, Limits<Duration> limits, Problems& problems);
void read_value(const YamlNode& node, std::uint32_t& value, Limits<std::uint32_t> limits,
                Problems& problems);
void read_value(const YamlNode& node, std::filesystem::path& value, Problems& problems);
// The same, or nothing.
void read_optional_folder(const YamlNode& node, std::filesystem::path& value, Problems& problems);
void read_value(const YamlNode& node, std::vector<std::uint32_t>& value,
                Limits<std::uint32_t> limits, Problems& problems);
// Rights of a file in octal: 0660.
void read_mode(const YamlNode& node, mode_t& value, Problems& problems);
// A word of letters, digits, '_', '-' and '.', or nothing.
void read_name(const YamlNode& node, std::string& value, Problems& problems);
// HOST:PORT, :PORT or [IPV6]:PORT; "off" for nothing.
void read_address(const YamlNode& node, std::string& value, Problems& problems);
// "https://id.example/realms/lab", or http:// to this machine alone, or nothing. No '?' and no '#'.
void read_url(const YamlNode& node, std::string& value, Problems& problems);
// Some letters for people, or nothing.
void read_text(const YamlNode& node, std::string& value, Problems& problems);
// Words of a command line.
void read_words(const YamlNode& node, std::vector<std::string>& value, Problems& problems);
// Names of Linux capabilities, with or without CAP_ before them; kept without.
void read_capabilities(const YamlNode& node, std::vector<std::string>& value, Problems& problems);

// The one of `names` that was written, by its place in the list.
[[nodiscard]] std::size_t read_choice(const YamlNode& node, std::span<const std::string_view> names,
                                      std::size_t before, Problems& problems);

[[nodiscard]] std::string write_value(bool value);
[[nodiscard]] std::string write_value(Duration value);
[[nodiscard]] std::string write_value(std::uint32_t value);
[[nodiscard]] std::string write_value(const std::string& value);
[[nodiscard]] std::string write_value(const std::filesystem::path& value);
[[nodiscard]] std::string write_mode(mode_t value);

template <typename T>
[[nodiscard]] std::string write_value(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + write_value(value);
  return text + "]";
}

}  // namespace divvy::config
