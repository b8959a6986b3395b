// The small test frame of driver_conformance. A case is a function that talks to the driver and
// says what it saw. Every case runs in a process of its own, forked before any driver was loaded,
// so that a crash or an error that sticks to a context spoils nothing else. A case is written for
// one thread and may start others.
//
// Three kinds of statement:
//   ok/code/equal    what the documentation promises; anything else is a failure everywhere
//   recorded         what the documentation leaves open; compared with expected.txt, which holds
//   what a
//                    real driver answered
//   note             seen and written down, never compared
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "abi/cuda.h"
#include "abi/nvml.h"

namespace divvy::conformance {

// The driver, by exported symbol. A symbol that is missing answers kMissingSymbol instead of
// crashing.
struct Driver {
#define DIVVY_CU(symbol, base, since, stream_kind, arguments) symbol##_fn symbol = nullptr;
#include "abi/cuda_functions.inc"
};
struct Nvml {
#define DIVVY_NVML(symbol, arguments) symbol##_fn symbol = nullptr;
#include "abi/nvml_functions.inc"
  nvmlErrorString_fn nvmlErrorString = nullptr;
};
constexpr unsigned kMissingSymbol = 9999;

// Filled in the process of a case before it runs. `libcuda` is the handle of the library.
extern Driver cu;
extern Nvml nvml;
extern void* libcuda;

class Check {
 public:
  // Writes every statement as a line to `fd`, which the parent reads.
  explicit Check(int fd) : fd_(fd) {}

  bool ok(std::string_view what, CUresult got) { return code(what, got, CUDA_SUCCESS); }
  bool code(std::string_view what, CUresult got, CUresult expected);
  bool nvml_code(std::string_view what, nvmlReturn_t got, nvmlReturn_t expected);
  bool is_true(std::string_view what, bool condition);
  bool equal(std::string_view what, uint64_t got, uint64_t expected);
  bool equal(std::string_view what, std::string_view got, std::string_view expected);

  void recorded(std::string_view key, CUresult got);
  void recorded(std::string_view key, nvmlReturn_t got);
  void recorded(std::string_view key, uint64_t got);
  void recorded(std::string_view key, std::string_view got);

  void note(std::string_view key, uint64_t value);
  void note(std::string_view key, std::string_view value);

  // This machine cannot show what the case is about.
  void skip(std::string_view why);

 private:
  void line(char kind, std::string_view name, std::string_view expected, std::string_view got);
  int fd_;
};

using CaseFunction = void (*)(Check&);
struct CaseRegistration {
  CaseRegistration(const char* name, CaseFunction run);
};

}  // namespace divvy::conformance

// CASE(streams, query_of_an_idle_stream) { ... `t` is the Check ... }
#define CASE(theme, name)                                                            \
  static void case_##theme##_##name(::divvy::conformance::Check& t);                 \
  static const ::divvy::conformance::CaseRegistration registration_##theme##_##name( \
      #theme "." #name, case_##theme##_##name);                                      \
  static void case_##theme##_##name([[maybe_unused]] ::divvy::conformance::Check& t)

// OK(call): must succeed, or the case ends here. CODE(expected, call): must answer this; goes on.
#define OK(...)                                     \
  do {                                              \
    if (!t.ok(#__VA_ARGS__, (__VA_ARGS__))) return; \
  } while (false)
#define CODE(expected, ...) t.code(#__VA_ARGS__, (__VA_ARGS__), expected)
#define NVML_OK(...)                                                     \
  do {                                                                   \
    if (!t.nvml_code(#__VA_ARGS__, (__VA_ARGS__), NVML_SUCCESS)) return; \
  } while (false)
#define NVML_CODE(expected, ...) t.nvml_code(#__VA_ARGS__, (__VA_ARGS__), expected)
#define TRUE_(...) t.is_true(#__VA_ARGS__, (__VA_ARGS__))
#define EQUAL(expected, ...) t.equal(#__VA_ARGS__, (__VA_ARGS__), (expected))
