#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

// How users name a model of a hub: OWNER/REPO[@REVISION][:TAG].

namespace helix::hub {

struct ModelName {
    std::string owner;
    std::string repo;
    std::string revision = "main";  // a branch, a tag of the repository or a commit
    std::string tag;                // "Q4_K_M", or a file's path in the repository; "": the usual

    std::string repository() const { return owner + "/" + repo; }
    // The name again, in its short form.
    std::string text() const;
};

// True for what can be no path of a local model but a hub's name: one slash, or a hub's address
// before it. It says nothing about whether there is such a model.
bool looks_like_model_name(std::string_view text);
// "http://..." or "https://...".
bool is_web_address(std::string_view text);

// Also takes a hub's address before the name (hf.co/..., https://huggingface.co/...) and the
// address of one file there (.../resolve/REVISION/PATH, .../blob/REVISION/PATH). Error invalid says
// what was expected.
base::Result<ModelName> parse_model_name(std::string_view text);

// True for a relative path that stays in its folder: no empty part, no "." or "..", no backslash
// and no control character. What a server names must be one before it becomes a file.
bool is_safe_path(std::string_view path);
// True when text has this many lower-case hexadecimal digits and nothing else.
bool is_hex(std::string_view text, std::size_t digits);

}  // namespace helix::hub
