// Comparing names without the C library.
//
// dlsym is called before anything else has run: a sanitizer looks up with it the functions it puts
// itself in front of, strcmp among them, which until then leads nowhere.
#pragma once

namespace divvy::shim {

inline bool same_text(const char* a, const char* b) {
  for (; *a == *b; ++a, ++b) {
    if (*a == '\0') return true;
  }
  return false;
}

inline bool begins_with(const char* text, const char* start) {
  for (; *start != '\0'; ++text, ++start) {
    if (*text != *start) return false;
  }
  return true;
}

}  // namespace divvy::shim
