#include "view/draw/terminal.h"

#include <algorithm>
#include <vector>

namespace helix::view {
namespace {

bool starts_character(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

// The characters of text; control characters become '?'.
std::vector<std::string> characters(std::string_view text) {
    std::vector<std::string> out;
    for (const char c : text) {
        if (starts_character(c) || out.empty()) out.emplace_back();
        out.back() += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
    return out;
}

const char* sequence_of(TextStyle style) {
    switch (style) {
        case TextStyle::bold:
            return "\x1b[1m";
        case TextStyle::dim:
            return "\x1b[2m";
        case TextStyle::strip:
            return "\x1b[36m";
        case TextStyle::warning:
            return "\x1b[33m";
        case TextStyle::plain:
            break;
    }
    return "\x1b[0m";
}

}  // namespace

std::size_t text_width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string fitted(std::string_view text, std::size_t columns) {
    const std::vector<std::string> all = characters(text);
    std::string out;
    if (all.size() <= columns) {
        for (const std::string& character : all) out += character;
        return out + std::string(columns - all.size(), ' ');
    }
    const std::size_t tail = columns / 2;
    for (std::size_t c = 0; c + tail + 1 < columns; ++c) out += all[c];
    out += "…";
    for (std::size_t c = all.size() - tail; c < all.size(); ++c) out += all[c];
    return out;
}

std::string wrapped(std::string_view text) {
    std::string out;
    std::size_t used = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t space = std::min(text.find(' ', begin), text.size());
        const std::string_view word = text.substr(begin, space - begin);
        if (used != 0 && used + 1 + text_width(word) > kTerminalColumns) {
            out += "\n  ";
            used = 2;
        } else if (used != 0) {
            out += ' ';
            ++used;
        }
        out += word;
        used += text_width(word);
        begin = space + 1;
    }
    return out;
}

std::string styled(TextStyle style, std::string_view text) {
    return sequence_of(style) + std::string(text) + sequence_of(TextStyle::plain);
}

// Each column is two halves; a half is full if at least half of what it stands for is covered.
std::string range_strip(StripScale scale, std::int32_t begin, std::int32_t end, bool colours) {
    const double per_half = static_cast<double>(scale.length) / (2.0 * scale.columns);
    const auto covered = [&](std::int32_t half) {
        const double from = std::max(half * per_half, static_cast<double>(begin));
        const double to = std::min((half + 1) * per_half, static_cast<double>(end));
        return to - from >= per_half / 2 - 1e-9;
    };
    std::string out;
    bool inside = false;
    for (std::int32_t column = 0; column < scale.columns; ++column) {
        const bool left = covered(2 * column);
        const bool right = covered(2 * column + 1);
        if (colours && (left || right) != inside) {
            inside = !inside;
            out += sequence_of(inside ? TextStyle::strip : TextStyle::plain);
        }
        out += left && right ? "█" : left ? "▌" : right ? "▐" : "·";
    }
    return inside && colours ? out + sequence_of(TextStyle::plain) : out;
}

}  // namespace helix::view
