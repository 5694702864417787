#include "text/spaces.h"

#include <algorithm>

namespace helix::text {

std::size_t spaced_word_length(std::string_view text) {
    std::size_t at = 0;
    while (text.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
    return std::min(text.find(kSpaceMark, at), text.size());
}

std::string without_space_marks(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        const bool space = text.substr(i).starts_with(kSpaceMark);
        out.push_back(space ? ' ' : text[i]);
        i += space ? kSpaceMark.size() : 1;
    }
    return out;
}

}  // namespace helix::text
