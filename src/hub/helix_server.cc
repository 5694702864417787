#include "hub/helix_server.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hub/file_choice.h"
#include "hub/http_rules.h"
#include "hub/model_name.h"
#include "hub/small_answer.h"

namespace helix::hub {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::size_t kHashDigits = 32;

// "http://den:8080" and "llama" of "http://den:8080/llama".
struct Named {
    std::string server;
    std::string model;
};

Named parts_of(std::string_view text) {
    const std::size_t host = text.find("://") + 3;
    const std::size_t slash = std::min(text.find('/', host), text.size());
    std::string_view model = text.substr(slash);
    while (model.starts_with('/')) model.remove_prefix(1);
    while (model.ends_with('/')) model.remove_suffix(1);
    return {std::string(text.substr(0, slash)), std::string(model)};
}

// A name may have characters that are none for a file, and end as one part of several does.
std::string file_name_of(const std::string& model) {
    std::string name = model + std::string(kEnding);
    if (const FilePart part = file_part(name); part.count > 1) {
        name = part.stem + std::string(kEnding);
    }
    for (char& c : name) {
        const bool plain = c > ' ' && c < 0x7f && c != '/' && c != '\\' && c != ':';
        if (!plain) c = '-';
    }
    while (name.starts_with('.')) name.erase(0, 1);
    return name == kEnding.substr(1) ? "model.gguf" : name;
}

base::Result<SmallAnswer> ask_for_offers(const World& world, const std::string& address,
                                         std::string& key) {
    TRY(SmallAnswer answer, ask_small(world, address, "", false));
    const bool refused = answer.head.status == 401 || answer.head.status == 403;
    if (!refused || key.empty()) {
        if (!refused) key.clear();
        return answer;
    }
    return ask_small(world, address, key, false);
}

base::Error refusal(const std::string& address, int status, bool had_key) {
    if (status == 401 || status == 403) {
        return {base::Errc::denied,
                fmt::format("{}: the server {}; give one that may chat with --api-key or in "
                            "HELIX_API_KEY",
                            address, had_key ? "refuses the key" : "asks for a key")};
    }
    return {base::Errc::invalid,
            fmt::format("{}: answers {}; expected the address of a .gguf file, or of another Helix",
                        address, status)};
}

}  // namespace

bool looks_like_helix_address(std::string_view text) {
    if (!is_web_address(text) || looks_like_model_name(text)) return false;
    return !text.substr(0, text.find_first_of("?#")).ends_with(kEnding);
}

base::Result<std::vector<OfferedModel>> read_offers(const std::string& json,
                                                    const std::string& where) {
    const base::Error useless{base::Errc::io, where + ": is no list of models"};
    const auto answer = nlohmann::json::parse(json, nullptr, false);
    if (!answer.is_object() || !answer.contains("models") || !answer["models"].is_array()) {
        return useless;
    }
    std::vector<OfferedModel> offers;
    for (const auto& entry : answer["models"]) {
        if (!entry.is_object()) return useless;
        const auto name = entry.find("name");
        const auto bytes = entry.find("bytes");
        const auto hash = entry.find("hash");
        const bool whole = name != entry.end() && name->is_string() && bytes != entry.end() &&
                           bytes->is_number_unsigned() && hash != entry.end() && hash->is_string();
        if (!whole) return useless;
        OfferedModel offer{name->get<std::string>(), bytes->get<std::uint64_t>(),
                           hash->get<std::string>()};
        if (offer.name.empty() || !is_hex(offer.hash, kHashDigits)) return useless;
        offers.push_back(std::move(offer));
    }
    return offers;
}

base::Result<HelixModel> find_on_helix(const World& world, const std::string& text,
                                       const std::string& key) {
    const Named named = parts_of(text);
    const std::string list = named.server + "/helix/models";
    HelixModel found;
    found.key = key;
    TRY(const SmallAnswer answer, ask_for_offers(world, list, found.key));
    if (answer.head.status != 200) {
        return refusal(shown_address(text), answer.head.status, !key.empty());
    }
    TRY(const std::vector<OfferedModel> offers, read_offers(answer.body, shown_address(list)));
    std::string names;
    for (const OfferedModel& offer : offers) {
        const bool meant = offer.name == named.model ||
                           escaped_path(offer.name, true) == named.model ||
                           (named.model.empty() && offers.size() == 1);
        names += "\n  " + named.server + "/" + offer.name;
        if (!meant) continue;
        found.model = offer;
        found.address = fmt::format("{}/{}{}?hash={}", list, escaped_path(offer.name, true),
                                    kEnding, offer.hash);
        found.file_name = file_name_of(offer.name);
        return found;
    }
    if (offers.empty()) {
        return base::Error{base::Errc::not_found,
                           shown_address(text) + ": serves no model that has weights"};
    }
    return base::Error{
        base::Errc::not_found,
        fmt::format("{}: {}; it has{}", shown_address(text),
                    named.model.empty() ? "name one of its models" : "has no model of this name",
                    names)};
}

}  // namespace helix::hub
