#include "check.h"

#include <unistd.h>

#include "runner.h"

namespace divvy::conformance {

Driver cu;
Nvml nvml;
void* libcuda = nullptr;

namespace {

std::string number(uint64_t value) { return std::to_string(value); }

// Statements travel as lines of tab-separated fields.
std::string flat(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '\t' || c == '\n' ? ' ' : c;
  return result;
}

std::string named(CUresult code) {
  const char* name = nullptr;
  if (cu.cuGetErrorName != nullptr && cu.cuGetErrorName(code, &name) == CUDA_SUCCESS &&
      name != nullptr) {
    return number(code) + " " + name;
  }
  return number(code);
}

}  // namespace

void Check::line(char kind, std::string_view name, std::string_view expected,
                 std::string_view got) {
  std::string text(1, kind);
  text += '\t' + flat(name) + '\t' + flat(expected) + '\t' + flat(got) + '\n';
  const char* next = text.data();
  size_t left = text.size();
  while (left > 0) {
    const ssize_t written = write(fd_, next, left);
    if (written <= 0) return;
    next += written;
    left -= static_cast<size_t>(written);
  }
}

bool Check::code(std::string_view what, CUresult got, CUresult expected) {
  line(got == expected ? 'o' : 'f', what, named(expected), named(got));
  return got == expected;
}

bool Check::nvml_code(std::string_view what, nvmlReturn_t got, nvmlReturn_t expected) {
  line(got == expected ? 'o' : 'f', what, "nvml " + number(expected), "nvml " + number(got));
  return got == expected;
}

bool Check::is_true(std::string_view what, bool condition) {
  line(condition ? 'o' : 'f', what, "true", condition ? "true" : "false");
  return condition;
}

bool Check::equal(std::string_view what, uint64_t got, uint64_t expected) {
  line(got == expected ? 'o' : 'f', what, number(expected), number(got));
  return got == expected;
}

bool Check::equal(std::string_view what, std::string_view got, std::string_view expected) {
  line(got == expected ? 'o' : 'f', what, expected, got);
  return got == expected;
}

void Check::recorded(std::string_view key, CUresult got) { line('r', key, "", number(got)); }
void Check::recorded(std::string_view key, nvmlReturn_t got) { line('r', key, "", number(got)); }
void Check::recorded(std::string_view key, uint64_t got) { line('r', key, "", number(got)); }
void Check::recorded(std::string_view key, std::string_view got) { line('r', key, "", got); }
void Check::note(std::string_view key, uint64_t value) { line('n', key, "", number(value)); }
void Check::note(std::string_view key, std::string_view value) { line('n', key, "", value); }
void Check::skip(std::string_view why) { line('s', "skipped", "", why); }

CaseRegistration::CaseRegistration(const char* name, CaseFunction run) {
  all_cases().push_back({name, run});
}

}  // namespace divvy::conformance
