#pragma once

#include <atomic>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>

// What a client of a stream sees.

namespace helix::cluster {

struct Stream {
    std::string text;
    std::atomic<int> events{0};
    std::thread thread;
};

inline int count(const std::string& text, const std::string& word) {
    int found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        ++found;
    return found;
}

// The text of the stream's choices, put together.
inline std::string streamed_text(const std::string& stream) {
    static const std::regex kText(R"("text":\s*("(?:[^"\\]|\\.)*"))");
    std::string text;
    for (std::sregex_iterator it(stream.begin(), stream.end(), kText), end; it != end; ++it) {
        text += nlohmann::json::parse((*it)[1].str()).get<std::string>();
    }
    return text;
}

}  // namespace helix::cluster
