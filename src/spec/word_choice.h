#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "base/result.h"

namespace helix::spec {

// What `word` stands for in a list of words. An error names the option and lists them all.
template <typename T>
base::Result<T> choose_word(const char* option, const std::string& word,
                            std::initializer_list<std::pair<const char*, T>> known) {
    std::string words;
    for (const auto& [name, value] : known) {
        if (word == name) return value;
        words += (words.empty() ? "" : ", ") + std::string(name);
    }
    return base::invalid(fmt::format("{}: '{}' is none of {}", option, word, words));
}

}  // namespace helix::spec
