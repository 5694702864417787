#include "spec/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace helix::spec {
namespace {

// The number of letters to insert, drop or change (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
        }
    }
    return row[b.size()];
}

}  // namespace

std::string folded_name(std::string_view name) {
    std::string folded;
    for (const char c : name) {
        if (c == ' ' || c == '-' || c == '_' || c == '.') continue;
        folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return folded;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
    const std::string wanted = folded_name(name).substr(0, 64);
    std::vector<std::pair<std::size_t, std::string>> near;
    for (const std::string& candidate : known) {
        const std::string folded = folded_name(candidate);
        // A name that begins alike is near, however much is missing.
        const bool begins = wanted.size() >= 2 && folded.starts_with(wanted);
        const std::size_t away = begins ? 1 : distance(wanted, folded);
        if (away <= std::max<std::size_t>(1, wanted.size() / 3)) near.emplace_back(away, candidate);
    }
    std::stable_sort(near.begin(), near.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (near.size() > 3) near.resize(3);
    std::string text;
    for (std::size_t i = 0; i < near.size(); ++i) {
        text += i == 0 ? " (did you mean " : i + 1 == near.size() ? " or " : ", ";
        text += "\"" + near[i].second + "\"";
    }
    return near.empty() ? "" : text + "?)";
}

}  // namespace helix::spec
