#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

// Leveled log lines on standard error: time, level, text. The level comes from --log-level or
// HELIX_LOG, the form from --log-format or HELIX_LOG_FORMAT.
//     LOG_INFO("worker {} joined with {} cores", name, cores);

namespace helix::base {

enum class LogLevel { debug, info, warn, error, off };

// text: for people. json: for machines, an object on each line:
//     {"time":"2026-11-26T18:04:41.123Z","level":"info","text":"worker den joined"}
enum class LogFormat { text, json };

void set_log_level(LogLevel level);
// Before other threads log.
void set_log_format(LogFormat format);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);
// Parses "debug" ... "off"; false when the word is unknown.
bool parse_log_level(std::string_view word, LogLevel& level);
// Parses "text" and "json" likewise.
bool parse_log_format(std::string_view word, LogFormat& format);

}  // namespace helix::base

#define HELIX_LOG(level, ...)                                         \
    do {                                                              \
        if (::helix::base::log_enabled(level))                        \
            ::helix::base::log_line(level, fmt::format(__VA_ARGS__)); \
    } while (false)
#define LOG_DEBUG(...) HELIX_LOG(::helix::base::LogLevel::debug, __VA_ARGS__)
#define LOG_INFO(...) HELIX_LOG(::helix::base::LogLevel::info, __VA_ARGS__)
#define LOG_WARN(...) HELIX_LOG(::helix::base::LogLevel::warn, __VA_ARGS__)
#define LOG_ERROR(...) HELIX_LOG(::helix::base::LogLevel::error, __VA_ARGS__)
