#include "net/http_date.h"

#include <array>
#include <chrono>

#include <fmt/format.h>

namespace helix::net {

std::string format_http_date(std::int64_t unix_s) {
    static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::chrono::sys_seconds time{std::chrono::seconds(unix_s)};
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(time - day);
    return fmt::format(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[std::chrono::weekday(day).c_encoding()],
        static_cast<unsigned>(date.day()), kMonths[static_cast<unsigned>(date.month()) - 1],
        static_cast<int>(date.year()), clock.hours().count(), clock.minutes().count(),
        clock.seconds().count());
}

std::string_view HttpDate::at(std::int64_t unix_s) {
    if (unix_s != unix_s_) text_ = format_http_date(unix_s);
    unix_s_ = unix_s;
    return text_;
}

}  // namespace helix::net
