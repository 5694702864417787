#include "base/log.h"

#include "base/escape.h"

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

namespace helix::base {
namespace {

std::atomic<LogFormat> g_format = LogFormat::text;

constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"debug", LogLevel::debug},
                                                             {"info", LogLevel::info},
                                                             {"warn", LogLevel::warn},
                                                             {"error", LogLevel::error},
                                                             {"off", LogLevel::off}};

constexpr const char* kTextPattern = "%H:%M:%S.%e %^%-5l%$ %v";

spdlog::logger& logger() {
    static const std::shared_ptr<spdlog::logger> instance = [] {
        auto made = std::make_shared<spdlog::logger>(
            "helix", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made->set_pattern(kTextPattern);
        made->set_level(spdlog::level::info);
        return made;
    }();
    return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::debug:
            return spdlog::level::debug;
        case LogLevel::info:
            return spdlog::level::info;
        case LogLevel::warn:
            return spdlog::level::warn;
        case LogLevel::error:
            return spdlog::level::err;
        case LogLevel::off:
            return spdlog::level::off;
    }
    return spdlog::level::info;
}

std::string_view word_of(LogLevel level) {
    for (const auto& [word, value] : kLevels) {
        if (value == level) return word;
    }
    return "";
}

std::string json_line(LogLevel level, std::string_view text) {
    using std::chrono::milliseconds;
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const auto ms = std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    std::array<char, 32> date{};
    std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    nlohmann::ordered_json line;
    line["time"] = fmt::format("{}.{:03}Z", date.data(), ms);
    line["level"] = word_of(level);
    line["text"] = text;
    // What strangers sent may be no UTF-8.
    return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

void set_log_format(LogFormat format) {
    g_format = format;
    logger().set_pattern(format == LogFormat::json ? "%v" : kTextPattern);
}

void set_log_level(LogLevel level) {
    logger().set_level(to_spdlog(level));
}

bool log_enabled(LogLevel level) {
    return logger().should_log(to_spdlog(level));
}

void log_line(LogLevel level, std::string_view text) {
    // The text may hold what strangers sent, so it is escaped: one line stays one line.
    logger().log(to_spdlog(level),
                 g_format == LogFormat::json ? json_line(level, text) : escaped(text));
}

bool parse_log_level(std::string_view word, LogLevel& level) {
    for (const auto& [name, value] : kLevels) {
        if (name != word) continue;
        level = value;
        return true;
    }
    return false;
}

bool parse_log_format(std::string_view word, LogFormat& format) {
    if (word != "text" && word != "json") return false;
    format = word == "json" ? LogFormat::json : LogFormat::text;
    return true;
}

}  // namespace helix::base
