// The code of fmt, compiled once. Debian ships no archive of it, and compiled into every file that
// formats text (FMT_HEADER_ONLY) it would take two seconds in each.
#include <fmt/format-inl.h>

// fmt declares these templates `extern`, so it expects them in its library.
FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
#if FMT_VERSION >= 100000
template FMT_API void vformat_to(buffer<char>&, string_view, typename vformat_args<>::type,
                                 locale_ref);
#endif
}  // namespace detail
FMT_END_NAMESPACE
