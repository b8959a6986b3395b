// What can be measured about a binary interface without running it: values, sizes, offsets and the
// shape of signatures, written down as text so that two translation units, which cannot see each
// other's types, can be compared. Used by abi_toolkit_test alone.

#ifndef DIVVY_ABI_ABI_FACTS_H
#define DIVVY_ABI_ABI_FACTS_H

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace divvy::abi {

// One fact: a number, or the shape of a function where `shape` is set.
struct Fact {
  const char* name;
  long long number;
  std::string (*shape)();
};

// Each is filled by its own translation unit from the same lists, so facts of one pair stand in the
// same order. The toolkit's exist only where its headers were found.
std::vector<Fact> our_cuda_facts();
std::vector<Fact> toolkit_cuda_facts();
std::vector<Fact> our_nvml_facts();
std::vector<Fact> toolkit_nvml_facts();

// The functions below have internal linkage on purpose: a type of the same name differs between the
// translation units, and a shared instantiation would compare one side with itself.
namespace {

template <typename T>
concept Complete = requires { sizeof(T); };

// The shape of a type. Names of structs and enumerations differ between the two headers where the
// layout does not, so only handles, which have nothing but a name, are told apart by it.
template <typename T>
std::string shape() {
  if constexpr (std::is_const_v<T>) {
    return "const " + shape<std::remove_const_t<T>>();
  } else if constexpr (std::is_pointer_v<T>) {
    return shape<std::remove_pointer_t<T>>() + "*";
  } else if constexpr (std::is_void_v<T>) {
    return "void";
  } else if constexpr (std::is_function_v<T>) {
    return "function";
  } else if constexpr (!Complete<T>) {
    return __PRETTY_FUNCTION__;
  } else {
    const char* kind = std::is_enum_v<T>             ? "enum"
                       : std::is_floating_point_v<T> ? "float"
                       : std::is_signed_v<T>         ? "int"
                       : std::is_unsigned_v<T>       ? "unsigned"
                                                     : "struct";
    return kind + std::to_string(sizeof(T));
  }
}

// The shape of a function, from its type alone: nobody links the functions themselves.
template <typename Function>
struct Signature;

template <typename Result, typename... Arguments>
struct Signature<Result(Arguments...)> {
  static std::string text() {
    std::string text = shape<Result>() + " (";
    ((text += shape<Arguments>() + ", "), ...);
    return text + ")";
  }
};

}  // namespace

}  // namespace divvy::abi

#endif  // DIVVY_ABI_ABI_FACTS_H
