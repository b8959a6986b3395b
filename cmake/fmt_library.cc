// The part of fmt that is not templates, compiled once for all programs: Debian ships it only as a
// shared object, and header-only it costs every source a second and a half of the compiler's time.
#include <fmt/format-inl.h>

#include <locale>

namespace fmt {
inline namespace v9 {
namespace detail {

// What the headers declare and expect somebody to instantiate.
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float value) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double value) noexcept;
template locale_ref::locale_ref(const std::locale& locale);
template std::locale locale_ref::get<std::locale>() const;
template thousands_sep_result<char> thousands_sep_impl(locale_ref locale);
template char decimal_point_impl(locale_ref locale);
template void buffer<char>::append(const char* begin, const char* end);
template void vformat_to(buffer<char>& out, string_view format, format_args arguments,
                         locale_ref locale);

}  // namespace detail
}  // namespace v9
}  // namespace fmt
