#include "shim/visibility.h"

#include <string.h>

namespace divvy::shim {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_space(char c) { return c == ' ' || c == '\t'; }

int by_number(const char* text, size_t length, int count) {
  int number = 0;
  for (size_t i = 0; i < length; ++i) {
    if (!is_digit(text[i])) return -1;
    number = number * 10 + (text[i] - '0');
    if (number >= count) return -1;
  }
  return number;
}

// A UUID may be cut short as long as it means one GPU.
int by_uuid(const wire::ControlPage& page, int count, const char* text, size_t length) {
  int found = -1;
  for (int i = 0; i < count; ++i) {
    char uuid[kUuidTextBytes];
    write_uuid(page.gpu[i].uuid, uuid);
    bool same = length > 4 && length < kUuidTextBytes;
    for (size_t at = 0; same && at < length; ++at) same = lower(text[at]) == lower(uuid[at]);
    if (!same) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

int slice_meant(const wire::ControlPage& page, int count, const char* text, size_t length) {
  if (length == 0) return -1;
  return is_digit(text[0]) ? by_number(text, length, count) : by_uuid(page, count, text, length);
}

}  // namespace

void write_uuid(const uint8_t (&uuid)[16], char (&text)[kUuidTextBytes]) {
  constexpr char kDigits[] = "0123456789abcdef";
  char* to = text;
  for (const char c : {'G', 'P', 'U', '-'}) *to++ = c;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
    *to++ = kDigits[uuid[i] >> 4U];
    *to++ = kDigits[uuid[i] & 15U];
  }
  *to = '\0';
}

void visible_devices(const wire::ControlPage& page, const char* wanted,
                     char (&text)[kVisibleBytes]) {
  const int count =
      static_cast<int>(page.gpu_count < wire::kMaxGpus ? page.gpu_count : wire::kMaxGpus);
  int chosen[wire::kMaxGpus];
  int chosen_count = 0;
  if (wanted == nullptr) {
    for (; chosen_count < count; ++chosen_count) chosen[chosen_count] = chosen_count;
  } else {
    while (chosen_count < wire::kMaxGpus) {
      while (is_space(*wanted)) ++wanted;
      size_t length = strcspn(wanted, ",");
      const size_t whole = length;
      while (length > 0 && is_space(wanted[length - 1])) --length;
      const int slice = slice_meant(page, count, wanted, length);
      bool again = false;
      for (int i = 0; i < chosen_count; ++i) again = again || chosen[i] == slice;
      // CUDA shows no GPU at all when one is named twice.
      if (again) chosen_count = 0;
      if (slice < 0 || again) break;
      chosen[chosen_count++] = slice;
      if (wanted[whole] == '\0') break;
      wanted += whole + 1;
    }
  }
  char* to = text;
  for (int i = 0; i < chosen_count; ++i) {
    char uuid[kUuidTextBytes];
    write_uuid(page.gpu[chosen[i]].uuid, uuid);
    if (i > 0) *to++ = ',';
    memcpy(to, uuid, kUuidTextBytes - 1);
    to += kUuidTextBytes - 1;
  }
  *to = '\0';
}

}  // namespace divvy::shim
