// The C library's own dlopen, dlsym, dlvsym.
//
// The shim exports dlsym and dlvsym, so it cannot get at the real ones by name. They are found in
// the symbol tables of the libraries that come after the shim, as the dynamic linker itself would
// go on looking. That also spares the shim a reference to a symbol whose version depends on the C
// library it was built with. Any thread; nothing here allocates memory.
#pragma once

namespace divvy::shim {

struct LibcDl {
  void* (*open)(const char* file, int mode);
  void* (*sym)(void* handle, const char* name);
  void* (*vsym)(void* handle, const char* name, const char* version);
};

// The three functions; those that no library has answer null.
const LibcDl& libc_dl();

}  // namespace divvy::shim
