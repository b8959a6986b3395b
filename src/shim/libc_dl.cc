#include "shim/libc_dl.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstdint>

#include "shim/same_text.h"

namespace divvy::shim {
namespace {

// What a loaded library's dynamic section says about its symbols.
struct Symbols {
  const ElfW(Sym) * table = nullptr;
  const char* strings = nullptr;
  const ElfW(Half) * versions = nullptr;
  uint32_t count = 0;
};

// The GNU hash table does not say how many symbols there are: the last chain's end does.
uint32_t count_of_gnu_hash(const uint32_t* hash) {
  const uint32_t buckets = hash[0];
  const uint32_t first = hash[1];
  const uint32_t bloom_words = hash[2];
  const uint32_t* bucket =
      hash + 4 + static_cast<size_t>(bloom_words) * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chain = bucket + buckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) {
    if (bucket[i] > last) last = bucket[i];
  }
  if (last < first) return first;
  while ((chain[last - first] & 1U) == 0) ++last;
  return last + 1;
}

Symbols symbols_of(const link_map& library) {
  Symbols symbols;
  for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
    // The linker has made these addresses absolute, except in the kernel's own library.
    ElfW(Addr) address = entry->d_un.d_ptr;
    if (address < library.l_addr) address += library.l_addr;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols.table = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        symbols.strings = reinterpret_cast<const char*>(address);
        break;
      case DT_VERSYM:
        symbols.versions = reinterpret_cast<const ElfW(Half)*>(address);
        break;
      case DT_HASH:
        symbols.count = reinterpret_cast<const uint32_t*>(address)[1];
        break;
      case DT_GNU_HASH:
        if (symbols.count == 0) {
          symbols.count = count_of_gnu_hash(reinterpret_cast<const uint32_t*>(address));
        }
        break;
      default:
        break;
    }
  }
  if (symbols.table == nullptr || symbols.strings == nullptr) symbols.count = 0;
  return symbols;
}

// The function `name` that the library exports; of several versions the default one.
void* function_in(const link_map& library, const Symbols& symbols, const char* name) {
  void* found = nullptr;
  for (uint32_t i = 0; i < symbols.count; ++i) {
    const ElfW(Sym)& symbol = symbols.table[i];
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    if (!same_text(symbols.strings + symbol.st_name, name)) continue;
    found = reinterpret_cast<void*>(library.l_addr + symbol.st_value);
    constexpr ElfW(Half) kHiddenVersion = 0x8000;
    if (symbols.versions == nullptr || (symbols.versions[i] & kHiddenVersion) == 0) break;
  }
  return found;
}

// The libraries of this process in the order in which they are searched: the program tells where
// the linker keeps the list, for debuggers. dl_iterate_phdr would do as well, but sanitizers put
// themselves in front of it and look up the real one with dlsym.
const link_map* first_library() {
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const size_t count = getauxval(AT_PHNUM);
  ElfW(Addr) base = 0;
  const ElfW(Phdr)* dynamic = nullptr;
  for (size_t i = 0; headers != nullptr && i < count; ++i) {
    if (headers[i].p_type == PT_PHDR) {
      base = reinterpret_cast<ElfW(Addr)>(headers) - headers[i].p_vaddr;
    }
    if (headers[i].p_type == PT_DYNAMIC) dynamic = &headers[i];
  }
  if (dynamic == nullptr) return nullptr;
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(base + dynamic->p_vaddr);
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_DEBUG || entry->d_un.d_ptr == 0) continue;
    return reinterpret_cast<const r_debug*>(entry->d_un.d_ptr)->r_map;
  }
  return nullptr;
}

void* no_open(const char*, int) { return nullptr; }
void* no_sym(void*, const char*) { return nullptr; }
void* no_vsym(void*, const char*, const char*) { return nullptr; }

// Keeps what it finds first.
template <typename Function>
void look_for(const char* name, const link_map& library, const Symbols& symbols, Function none,
              Function* found) {
  if (*found != none) return;
  void* function = function_in(library, symbols, name);
  if (function != nullptr) *found = reinterpret_cast<Function>(function);
}

// The shim knows itself in the list by its own dynamic section, which the linker calls _DYNAMIC.
LibcDl search() {
  LibcDl found = {no_open, no_sym, no_vsym};
  const link_map* library = first_library();
  while (library != nullptr && library->l_ld != _DYNAMIC) library = library->l_next;
  for (; library != nullptr; library = library->l_next) {
    if (library->l_ld == _DYNAMIC) continue;
    const Symbols symbols = symbols_of(*library);
    look_for("dlopen", *library, symbols, no_open, &found.open);
    look_for("dlsym", *library, symbols, no_sym, &found.sym);
    look_for("dlvsym", *library, symbols, no_vsym, &found.vsym);
  }
  return found;
}

// Two threads that search at once find the same, so the last store is as good as the first.
LibcDl g_found;
std::atomic<bool> g_searched;

}  // namespace

const LibcDl& libc_dl() {
  if (g_searched.load(std::memory_order_acquire)) return g_found;
  g_found = search();
  g_searched.store(true, std::memory_order_release);
  return g_found;
}

}  // namespace divvy::shim
