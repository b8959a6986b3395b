#include "simgpu/ptx.h"

#include <string.h>

#include <algorithm>
#include <charconv>

#include "simgpu/wide.h"

namespace divvy::simgpu {
namespace {

constexpr size_t kMaxText = 64u << 20;
constexpr size_t kMaxKernels = 65536;
constexpr uint32_t kMaxParamBytes = 32764;  // what hardware takes since Volta

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%';
}

// Words of PTX, one after the other: names, directives with their dots, and single punctuation.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::string_view next() {
    skip();
    if (at_ >= text_.size()) return {};
    const size_t start = at_++;
    if (is_word(text_[start]) || text_[start] == '.') {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    }
    return text_.substr(start, at_ - start);
  }

 private:
  void skip() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.substr(at_, 2) == "/*") {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Bytes of a PTX type such as .u64; 0 for what is none.
uint32_t type_size(std::string_view type) {
  if (type.size() < 3 || type[0] != '.') return 0;
  const auto bits = number(type.substr(2));
  if (!bits || std::string_view("usbf").find(type[1]) == std::string_view::npos) return 0;
  return *bits == 8 || *bits == 16 || *bits == 32 || *bits == 64 || *bits == 128
             ? static_cast<uint32_t>(*bits / 8)
             : 0;
}

// A variable after its state space: [.align N] .type name [ '[' count ']' ].
struct Variable {
  std::string name;
  uint64_t size = 0;
  uint32_t align = 1;
};

Variable read_variable(Scanner& scanner, std::string_view& token) {
  Variable variable;
  uint32_t element = 0;
  while (!token.empty() && token[0] == '.') {
    if (token == ".align") {
      variable.align =
          static_cast<uint32_t>(std::clamp<uint64_t>(number(scanner.next()).value_or(1), 1, 128));
    } else if (const uint32_t size = type_size(token); size != 0) {
      element = size;
    }
    token = scanner.next();
  }
  variable.name = std::string(token);
  variable.size = element;
  variable.align = std::max(variable.align, element == 0 ? 1 : std::min(element, 16u));
  token = scanner.next();
  while (token == "[") {
    const auto count = number(scanner.next());
    variable.size *= std::min<uint64_t>(count.value_or(1), uint64_t{1} << 40);
    scanner.next();  // ]
    token = scanner.next();
  }
  return variable;
}

void read_params(Scanner& scanner, PtxKernel& kernel) {
  uint32_t offset = 0;
  for (std::string_view token = scanner.next(); !token.empty() && token != ")";) {
    if (token != ".param") {
      token = scanner.next();
      continue;
    }
    token = scanner.next();
    const Variable variable = read_variable(scanner, token);
    if (variable.size == 0 || variable.size > kMaxParamBytes) continue;
    offset = (offset + variable.align - 1) / variable.align * variable.align;
    if (offset + variable.size > kMaxParamBytes) continue;
    kernel.params.push_back({offset, static_cast<uint32_t>(variable.size)});
    offset += static_cast<uint32_t>(variable.size);
  }
  kernel.param_bytes = offset;
}

// Reads a kernel's body only for its static shared memory.
void read_body(Scanner& scanner, PtxKernel& kernel) {
  int depth = 1;
  std::string_view before = "{";
  for (std::string_view token = scanner.next(); !token.empty();) {
    if (token == "{") ++depth;
    if (token == "}" && --depth == 0) return;
    // A declaration begins a statement; elsewhere the word is part of an instruction's name.
    const bool begins = before == "{" || before == "}" || before == ";" || before == ":";
    before = token;
    if (token == ".shared" && begins) {
      token = scanner.next();
      const Variable variable = read_variable(scanner, token);
      kernel.static_shared =
          static_cast<uint32_t>(std::min<uint64_t>(kernel.static_shared + variable.size, 1u << 20));
      before = token;
      continue;
    }
    token = scanner.next();
  }
}

std::optional<PtxExpression> parse_expression(std::string_view text) {
  PtxExpression expression;
  bool divide = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("*/"), text.size());
    const std::string_view word = text.substr(0, end);
    PtxTerm term;
    term.divide = divide;
    if (word == "threads") {
      term.kind = PtxTerm::kThreads;
    } else if (word == "blocks") {
      term.kind = PtxTerm::kBlocks;
    } else if (word.rfind("param", 0) == 0) {
      const auto index = number(word.substr(5));
      if (!index || *index > 4096) return std::nullopt;
      term.kind = PtxTerm::kParam;
      term.value = *index;
    } else {
      const auto value = number(word);
      if (!value) return std::nullopt;
      term.value = *value;
    }
    expression.push_back(term);
    if (end == text.size()) return expression;
    divide = text[end] == '/';
    text.remove_prefix(end + 1);
  }
  return std::nullopt;  // nothing, or an operator at the end
}

std::vector<PtxExpression> parse_list(std::string_view text, size_t count) {
  std::vector<PtxExpression> list;
  while (list.size() < count) {
    const size_t comma = std::min(text.find(','), text.size());
    auto expression = parse_expression(text.substr(0, comma));
    if (!expression) return {};
    list.push_back(*expression);
    if (comma == text.size()) break;
    text.remove_prefix(comma + 1);
  }
  return list.size() == count ? list : std::vector<PtxExpression>{};
}

// The //@simgpu comments, by kernel name.
std::map<std::string, PtxCost, std::less<>> read_costs(std::string_view text) {
  std::map<std::string, PtxCost, std::less<>> costs;
  constexpr std::string_view kMark = "//@simgpu ";
  for (size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at)) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at + kMark.size(), end - at - kMark.size());
    at = end;
    std::string kernel;
    PtxCost cost;
    while (!line.empty()) {
      const size_t start = line.find_first_not_of(" \t\r");
      if (start == std::string_view::npos) break;
      line.remove_prefix(start);
      const size_t stop = std::min(line.find_first_of(" \t\r"), line.size());
      const std::string_view word = line.substr(0, stop);
      line.remove_prefix(stop);
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos) {
        if (kernel.empty()) kernel = std::string(word);
        continue;
      }
      const std::string_view key = word.substr(0, equals);
      const std::string_view value = word.substr(equals + 1);
      if (key == "ns") cost.ns = parse_expression(value);
      if (key == "bytes") cost.bytes = parse_expression(value);
      if (key == "fill32") cost.fill32 = parse_list(value, 3);
      if (key == "copy") cost.copy = parse_list(value, 3);
    }
    if (!kernel.empty() && costs.size() < kMaxKernels) costs[kernel] = std::move(cost);
  }
  return costs;
}

}  // namespace

std::optional<PtxModule> parse_ptx(std::string_view text) {
  text = text.substr(0, kMaxText);
  Scanner scanner(text);
  bool versioned = false;
  PtxModule module;
  const auto costs = read_costs(text);
  for (std::string_view token = scanner.next(); !token.empty();) {
    if (token == ".version") {
      versioned = true;
      const unsigned major = static_cast<unsigned>(number(scanner.next()).value_or(0));
      const std::string_view minor = scanner.next();  // with its dot
      module.version = std::min(major, 1000U) * 10 +
                       static_cast<unsigned>(
                           number(minor.substr(std::min<size_t>(1, minor.size()))).value_or(0));
      token = scanner.next();
    } else if (token == ".target") {
      token = scanner.next();
      if (token.rfind("sm_", 0) == 0) {
        module.target = static_cast<unsigned>(number(token.substr(3, 3)).value_or(0));
      }
    } else if (token == ".entry" && module.kernels.size() < kMaxKernels) {
      PtxKernel kernel;
      kernel.name = std::string(scanner.next());
      token = scanner.next();
      if (token == "(") {
        read_params(scanner, kernel);
        token = scanner.next();
      }
      // Performance directives (.maxntid and so on) may stand before the body.
      while (!token.empty() && token != "{" && token != ";") token = scanner.next();
      if (token == "{") read_body(scanner, kernel);
      token = scanner.next();
      if (const auto cost = costs.find(kernel.name); cost != costs.end()) {
        kernel.cost = cost->second;
      }
      module.kernels.push_back(std::move(kernel));
    } else if (token == ".global" || token == ".const") {
      token = scanner.next();
      const Variable variable = read_variable(scanner, token);
      if (!variable.name.empty() && variable.size > 0 && module.globals.size() < kMaxKernels) {
        module.globals[variable.name] = variable.size;
      }
    } else {
      token = scanner.next();
    }
  }
  if (!versioned) return std::nullopt;
  return module;
}

uint64_t evaluate(const PtxExpression& expression, const PtxKernel& kernel,
                  const PtxLaunch& launch) {
  Wide result = 1;
  for (const PtxTerm& term : expression) {
    uint64_t value = term.value;
    if (term.kind == PtxTerm::kThreads) value = launch.threads;
    if (term.kind == PtxTerm::kBlocks) value = launch.blocks;
    if (term.kind == PtxTerm::kParam) {
      value = 0;
      if (term.value < kernel.params.size() && launch.params != nullptr) {
        const PtxParam& param = kernel.params[term.value];
        memcpy(&value, launch.params + param.offset, std::min<size_t>(param.size, sizeof(value)));
      }
    }
    if (!term.divide) {
      result *= value;
    } else if (value != 0) {
      result /= value;
    }
    // Longer than any simulation: keeps the next product inside 128 bits.
    result = std::min<Wide>(result, uint64_t{1} << 62);
  }
  return static_cast<uint64_t>(result);
}

}  // namespace divvy::simgpu
