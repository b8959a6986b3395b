// dlsym and dlvsym, as the program and its libraries see them.
//
// A question for a function that we hook is answered with our own, when and only when the real
// answer is the driver's. Everything else goes on to the C library by a jump and not by a call: for
// RTLD_NEXT and RTLD_DEFAULT it looks at the return address to tell who asks, and must see the
// program's.
#include <dlfcn.h>

#include <cstdint>

#include "shim/export.h"
#include "shim/libc_dl.h"
#include "shim/resolve.h"

extern "C" {

// Where the jumps go. Set by every call of the two functions below before it returns.
__attribute__((visibility("hidden"), used)) void* divvy_real_dlsym;
__attribute__((visibility("hidden"), used)) void* divvy_real_dlvsym;

// What the question is to be answered with. Null: jump on to the C library. kNothing: answer null.
__attribute__((visibility("hidden"), used)) void* divvy_answer_dlsym(void* handle,
                                                                     const char* name);
__attribute__((visibility("hidden"), used)) void* divvy_answer_dlvsym(void* handle,
                                                                      const char* name,
                                                                      const char* version);
}

namespace {

using divvy::shim::libc_dl;
using divvy::shim::LibcDl;

constexpr uintptr_t kNothing = 1;

// Swaps the C library's answer. The whole program's scope begins with the shim itself, so there it
// is the libraries behind the shim that tell whether the driver is loaded at all.
void* swap(const LibcDl& dl, const char* name, void* found) {
  void* const wrapper = divvy::shim::wrapper_of(name);
  if (found == wrapper) {
    found = dl.sym(RTLD_NEXT, name);
    if (found == nullptr) return reinterpret_cast<void*>(kNothing);
  }
  return divvy::shim::swap_symbol(name, found) == wrapper ? wrapper : nullptr;
}

}  // namespace

void* divvy_answer_dlsym(void* handle, const char* name) {
  const LibcDl& dl = libc_dl();
  divvy_real_dlsym = reinterpret_cast<void*>(dl.sym);
  if (name == nullptr || divvy::shim::wrapper_of(name) == nullptr) return nullptr;
  return swap(dl, name, dl.sym(handle, name));
}

void* divvy_answer_dlvsym(void* handle, const char* name, const char* version) {
  const LibcDl& dl = libc_dl();
  divvy_real_dlvsym = reinterpret_cast<void*>(dl.vsym);
  if (name == nullptr || divvy::shim::wrapper_of(name) == nullptr) return nullptr;
  return swap(dl, name, dl.vsym(handle, name, version));
}

#if defined(__x86_64__)
// Keeps the arguments over the call, then either returns its answer or jumps on.
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call divvy_answer_dlsym
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  cmpq $1, %rax
  ja 1f
  je 2f
  jmp *divvy_real_dlsym(%rip)
2:
  xorl %eax, %eax
1:
  ret
  .cfi_endproc
  .size dlsym, . - dlsym

  .globl dlvsym
  .type dlvsym, @function
dlvsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  call divvy_answer_dlvsym
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  cmpq $1, %rax
  ja 1f
  je 2f
  jmp *divvy_real_dlvsym(%rip)
2:
  xorl %eax, %eax
1:
  ret
  .cfi_endproc
  .size dlvsym, . - dlvsym
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl dlsym
  .type dlsym, %function
dlsym:
  .cfi_startproc
  stp x29, x30, [sp, #-48]!
  .cfi_def_cfa_offset 48
  .cfi_offset x29, -48
  .cfi_offset x30, -40
  mov x29, sp
  stp x0, x1, [sp, #16]
  bl divvy_answer_dlsym
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #48
  .cfi_def_cfa_offset 0
  cbnz x16, 1f
  adrp x16, divvy_real_dlsym
  ldr x16, [x16, :lo12:divvy_real_dlsym]
  br x16
1:
  cmp x16, #1
  csel x0, xzr, x16, eq
  ret
  .cfi_endproc
  .size dlsym, . - dlsym

  .globl dlvsym
  .type dlvsym, %function
dlvsym:
  .cfi_startproc
  stp x29, x30, [sp, #-48]!
  .cfi_def_cfa_offset 48
  .cfi_offset x29, -48
  .cfi_offset x30, -40
  mov x29, sp
  stp x0, x1, [sp, #16]
  str x2, [sp, #32]
  bl divvy_answer_dlvsym
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldr x2, [sp, #32]
  ldp x29, x30, [sp], #48
  .cfi_def_cfa_offset 0
  cbnz x16, 1f
  adrp x16, divvy_real_dlvsym
  ldr x16, [x16, :lo12:divvy_real_dlvsym]
  br x16
1:
  cmp x16, #1
  csel x0, xzr, x16, eq
  ret
  .cfi_endproc
  .size dlvsym, . - dlvsym
)");
#else
#error "dlsym has to be entered by a jump; write it for this processor"
#endif
