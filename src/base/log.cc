#include "base/log.h"

#include "base/escape.h"

#include <memory>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace helix::base {
namespace {

spdlog::logger& logger() {
    static const std::shared_ptr<spdlog::logger> instance = [] {
        auto made = std::make_shared<spdlog::logger>(
            "helix", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made->set_pattern("%H:%M:%S.%e %^%-5l%$ %v");
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

}  // namespace

void set_log_level(LogLevel level) {
    logger().set_level(to_spdlog(level));
}

bool log_enabled(LogLevel level) {
    return logger().should_log(to_spdlog(level));
}

void log_line(LogLevel level, std::string_view text) {
    // The text may hold what strangers sent, so it is escaped: one line stays one line.
    logger().log(to_spdlog(level), escaped(text));
}

bool parse_log_level(std::string_view word, LogLevel& level) {
    constexpr std::pair<std::string_view, LogLevel> kWords[] = {{"debug", LogLevel::debug},
                                                                {"info", LogLevel::info},
                                                                {"warn", LogLevel::warn},
                                                                {"error", LogLevel::error},
                                                                {"off", LogLevel::off}};
    for (const auto& [name, value] : kWords) {
        if (name != word) continue;
        level = value;
        return true;
    }
    return false;
}

}  // namespace helix::base
