// One line of a scenario, cut into words and options. Only the readers of scenarios include it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/where.h"
#include "place/reserve.h"

namespace divvy::sim {

class ScenarioLine {
 public:
  // Spaces separate words, "double quotes" keep them together, # begins a comment. name=value is an
  // option. Refused: quotes that do not end, control characters, bytes that are not UTF-8, an
  // option that is there twice.
  [[nodiscard]] static Result<ScenarioLine> cut(std::string_view text, std::string file,
                                                std::size_t number);

  [[nodiscard]] bool empty() const { return words_.empty() && options_.empty(); }
  [[nodiscard]] std::size_t number() const { return number_; }

  // "FILE:LINE: <what is wrong>"
  template <typename... Args>
  [[nodiscard]] tl::unexpected<Error> wrong(fmt::format_string<Args...> format,
                                            Args&&... args) const {
    return err(ErrorCode::kInvalidArgument, "{}:{}: {}", file_, number_,
               fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] tl::unexpected<Error> wrong(const Error& error) const;

  // --- Words, from left to right ---

  [[nodiscard]] bool more() const { return next_ < words_.size(); }
  [[nodiscard]] std::string_view peek() const {
    return more() ? std::string_view(words_[next_]) : "";
  }
  // `what` says what is missing where no word is left.
  [[nodiscard]] Result<std::string> word(std::string_view what);
  bool skip(std::string_view word);
  // The words that are left, as they would be written.
  [[nodiscard]] std::string rest() const;
  // "90", "90s", "15m", "2h" or "1d", in seconds.
  [[nodiscard]] Result<place::Instant> time(std::string_view text) const;
  [[nodiscard]] Result<std::int64_t> whole_number(std::string_view text, std::int64_t least,
                                                  std::int64_t most) const;
  [[nodiscard]] Result<Share> share(std::string_view text) const;
  [[nodiscard]] Result<model::Closeness> closeness(std::string_view text) const;

  // --- Options, in any order ---

  [[nodiscard]] std::optional<std::string> option(std::string_view name);
  [[nodiscard]] Result<std::optional<std::int64_t>> number_option(std::string_view name,
                                                                  std::int64_t least,
                                                                  std::int64_t most);
  [[nodiscard]] Result<std::optional<Bytes>> bytes_option(std::string_view name);
  // "4" or "0.5" CPUs, in thousandths.
  [[nodiscard]] Result<std::optional<std::uint64_t>> cpu_option(std::string_view name);
  [[nodiscard]] Result<std::optional<Share>> share_option(std::string_view name);
  [[nodiscard]] Result<std::optional<place::Instant>> time_option(std::string_view name);
  [[nodiscard]] Result<std::optional<bool>> yes_or_no(std::string_view name);
  [[nodiscard]] std::vector<std::string> list_option(std::string_view name);
  // "pool=train,disk=ssd"
  [[nodiscard]] Result<std::map<std::string, std::string>> label_option(std::string_view name);

  // Nothing is left over.
  [[nodiscard]] Status finish() const;

 private:
  struct Option {
    std::string name;
    std::string value;
    bool used = false;
  };

  std::string file_;
  std::size_t number_ = 0;
  std::vector<std::string> words_;
  std::vector<Option> options_;
  std::vector<std::string> asked_for_;  // options that were looked for, for "did you mean"
  std::size_t next_ = 0;
};

}  // namespace divvy::sim
