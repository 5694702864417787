#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/download.h"

// Another Helix, from which models can be pulled: what it says about those that it serves.

namespace helix::hub {

// How users name a model of another Helix: http(s)://HOST[:PORT][/MODEL]. True for any web address
// that does not lead to a .gguf file; it says nothing about who answers there.
bool looks_like_helix_address(std::string_view text);

struct OfferedModel {
    std::string name;
    std::uint64_t bytes = 0;
    std::string hash;  // of its content: 32 hexadecimal digits
    bool operator==(const OfferedModel&) const = default;
};

// What its /helix/models answers. Error io, naming where: it is no such list.
base::Result<std::vector<OfferedModel>> read_offers(const std::string& json,
                                                    const std::string& where);

// A model on another Helix, found.
struct HelixModel {
    OfferedModel model;
    std::string address;    // of its file; another content has another address
    std::string file_name;  // safe
    std::string key;        // to send; "": none is asked for
};
// Asks the server, without the key where that does. Errors name what it offers when it has several
// models and text names none of them, or say that it asks for a key, or is no Helix.
base::Result<HelixModel> find_on_helix(const World& world, const std::string& text,
                                       const std::string& key);

}  // namespace helix::hub
