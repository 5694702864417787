#include "hub/model_name.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace helix::hub {
namespace {

constexpr std::size_t kLongestPart = 96;
constexpr std::size_t kLongestPath = 1024;

constexpr std::string_view kHubAddresses[] = {"https://huggingface.co/", "https://hf.co/",
                                              "huggingface.co/", "hf.co/"};

// What comes after a hub's address; text itself when it has none.
std::string_view without_address(std::string_view text) {
    for (const std::string_view address : kHubAddresses) {
        if (text.starts_with(address)) return text.substr(address.size());
    }
    return text;
}

bool is_name_part(std::string_view part) {
    if (part.empty() || part.size() > kLongestPart) return false;
    if (part.front() == '.' || part.front() == '-') return false;
    return std::all_of(part.begin(), part.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
    });
}

bool ends_like_a_file(std::string_view part) {
    return part.ends_with(".gguf") || part.ends_with(".json") || part.ends_with(".safetensors");
}

base::Error no_name(std::string_view text, std::string_view why) {
    return base::invalid(
        fmt::format("'{}' is no name of a model in a hub: {}; expected OWNER/REPO, "
                    "OWNER/REPO:TAG or OWNER/REPO@REVISION:TAG",
                    text, why));
}

// Takes "/resolve/REVISION/PATH" or "/blob/REVISION/PATH" off the end, into name.
void take_file_address(std::string_view& rest, ModelName& name) {
    for (const std::string_view word : {"/resolve/", "/blob/"}) {
        const std::size_t at = rest.find(word);
        if (at == std::string_view::npos) continue;
        std::string_view path = rest.substr(at + word.size());
        const std::size_t slash = path.find('/');
        if (slash == std::string_view::npos) continue;
        name.revision = path.substr(0, slash);
        path = path.substr(slash + 1);
        name.tag = path.substr(0, path.find('?'));
        rest = rest.substr(0, at);
        return;
    }
}

}  // namespace

std::string ModelName::text() const {
    std::string out = repository();
    if (revision != "main") out += "@" + revision;
    if (!tag.empty()) out += ":" + tag;
    return out;
}

bool is_web_address(std::string_view text) {
    return text.starts_with("http://") || text.starts_with("https://");
}

bool looks_like_model_name(std::string_view text) {
    const std::string_view rest = without_address(text);
    if (rest.size() != text.size()) return true;
    const std::string_view before = rest.substr(0, rest.find_first_of("@:"));
    const std::size_t slash = before.find('/');
    if (slash == std::string_view::npos) return false;
    return is_name_part(before.substr(0, slash)) && is_name_part(before.substr(slash + 1)) &&
           !(before.size() == rest.size() && ends_like_a_file(before));
}

base::Result<ModelName> parse_model_name(std::string_view text) {
    std::string_view rest = without_address(text);
    ModelName name;
    if (rest.size() != text.size()) take_file_address(rest, name);
    if (const std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
        name.tag = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
        if (name.tag.empty()) return no_name(text, "nothing comes after the colon");
    }
    if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
        name.revision = rest.substr(at + 1);
        rest = rest.substr(0, at);
    }
    if (rest.ends_with('/')) rest.remove_suffix(1);
    const std::size_t slash = rest.find('/');
    if (slash == std::string_view::npos) return no_name(text, "it has no slash");
    name.owner = rest.substr(0, slash);
    name.repo = rest.substr(slash + 1);
    if (!is_name_part(name.owner) || !is_name_part(name.repo)) {
        return no_name(text, "owner and repository are letters, digits, '.', '_' and '-'");
    }
    if (!is_safe_path(name.revision)) return no_name(text, "the revision is no name");
    if (!name.tag.empty() && !is_safe_path(name.tag)) return no_name(text, "the tag is no name");
    return name;
}

bool is_safe_path(std::string_view path) {
    if (path.empty() || path.size() > kLongestPath) return false;
    for (const char byte : path) {
        const auto c = static_cast<unsigned char>(byte);
        if (c < 0x20 || c == 0x7f || c == '\\') return false;
    }
    std::size_t begin = 0;
    while (begin <= path.size()) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view part = path.substr(begin, end - begin);
        if (part.empty() || part == "." || part == "..") return false;
        begin = end + 1;
    }
    return true;
}

bool is_hex(std::string_view text, std::size_t digits) {
    return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

}  // namespace helix::hub
