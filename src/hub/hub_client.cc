#include "hub/hub_client.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hub/http_rules.h"

namespace helix::hub {
namespace {

using Json = nlohmann::json;

constexpr int kMostPages = 1000;
constexpr int kMostRedirects = 10;

base::Error bad_list(const std::string& where, const std::string& what) {
    return {base::Errc::io, fmt::format("{}: {}", shown_address(where), what)};
}

std::string text_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::uint64_t> number_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<std::uint64_t>();
}

}  // namespace

base::Result<std::vector<RemoteFile>> read_file_list(const std::string& json,
                                                     const std::string& where) {
    const Json list = Json::parse(json, nullptr, false);
    if (!list.is_array()) return bad_list(where, "is no list of files");
    std::vector<RemoteFile> files;
    for (const Json& entry : list) {
        if (!entry.is_object()) return bad_list(where, "is no list of files");
        if (text_of(entry, "type") != "file") continue;
        RemoteFile file;
        file.path = text_of(entry, "path");
        if (!is_safe_path(file.path)) {
            return bad_list(
                where, fmt::format("names the file '{}', which would leave its folder", file.path));
        }
        const auto lfs = entry.find("lfs");
        file.large = lfs != entry.end() && lfs->is_object();
        const auto bytes = number_of(file.large ? *lfs : entry, "size");
        file.etag = text_of(file.large ? *lfs : entry, "oid");
        if (!bytes || !is_hex(file.etag, file.large ? 64 : 40)) {
            return bad_list(where, fmt::format("says no size and hash of {}", file.path));
        }
        file.bytes = *bytes;
        files.push_back(std::move(file));
    }
    return files;
}

std::string HubClient::token_for(const std::string& address) const {
    return same_origin(address, settings_.endpoint) ? settings_.token : "";
}

base::Result<SmallAnswer> HubClient::send(const std::string& address, bool head_only) {
    return ask_small(world_, address, token_for(address), head_only);
}

// Follows redirects; with head_only those that stay at the hub, since the others say where the
// bytes are.
base::Result<SmallAnswer> HubClient::ask(std::string address, const std::string& what,
                                         bool head_only) {
    HttpHead first;  // what the hub says of a file stands in its first answer
    for (int hop = 0; hop <= kMostRedirects; ++hop) {
        TRY(SmallAnswer answer, send(address, head_only));
        const Next next = judge_small(answer.head, address).next;
        for (const char* name : {"x-linked-etag", "x-linked-size"}) {
            const std::string value = first.header(name);
            if (!value.empty()) answer.head.headers[name] = value;
        }
        if (next == Next::take) return answer;
        if (next != Next::follow) {
            return hub_refusal(answer.head, settings_.endpoint, what, !settings_.token.empty());
        }
        TRY(address, follow_address(address, answer.head.header("location")));
        if (head_only && !same_origin(address, settings_.endpoint)) {
            answer.address = address;
            return answer;
        }
        first = answer.head;
    }
    return bad_list(address, fmt::format("more than {} redirects", kMostRedirects));
}

base::Result<std::string> HubClient::commit_of(const ModelName& name) {
    const std::string address = fmt::format("{}/api/models/{}/revision/{}", settings_.endpoint,
                                            name.repository(), escaped_path(name.revision, false));
    const std::string what =
        name.revision == "main" ? name.repository() : name.repository() + "@" + name.revision;
    TRY(const SmallAnswer answer, ask(address, what, false));
    const Json about = Json::parse(answer.body, nullptr, false);
    const std::string commit = about.is_object() ? text_of(about, "sha") : "";
    if (!is_hex(commit, 40)) return bad_list(address, "names no commit");
    return commit;
}

base::Result<std::vector<RemoteFile>> HubClient::files_of(const ModelName& name,
                                                          const std::string& commit) {
    std::vector<RemoteFile> files;
    std::string address = fmt::format("{}/api/models/{}/tree/{}?recursive=true", settings_.endpoint,
                                      name.repository(), commit);
    for (int page = 0; page < kMostPages; ++page) {
        TRY(const SmallAnswer answer, ask(address, name.repository(), false));
        TRY(const std::vector<RemoteFile> more, read_file_list(answer.body, address));
        files.insert(files.end(), more.begin(), more.end());
        const std::string next = next_page(answer.head.header("link"));
        if (next.empty()) return files;
        TRY(address, follow_address(answer.address, next));
    }
    return bad_list(address, fmt::format("more than {} pages of files", kMostPages));
}

base::Result<FileAddress> HubClient::address_of(const ModelName& name, const std::string& commit,
                                                const RemoteFile& file) {
    const std::string address =
        fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, name.repository(), commit,
                    escaped_path(file.path, true));
    const std::string what = name.repository() + "/" + file.path;
    TRY(const SmallAnswer answer, ask(address, what, true));
    std::string etag = answer.head.header("x-linked-etag");
    if (etag.empty() && answer.head.status == 200) etag = answer.head.header("etag");
    etag = plain_etag(etag);
    // Other kinds of ETags say nothing about the content.
    if ((is_hex(etag, 40) || is_hex(etag, 64)) && etag.size() == file.etag.size() &&
        etag != file.etag) {
        return base::Error{base::Errc::io,
                           fmt::format("{}: is another file than the hub's list says: {}, not {}",
                                       what, etag, file.etag)};
    }
    const std::string size = answer.head.header("x-linked-size");
    if (!size.empty() && size != std::to_string(file.bytes)) {
        return base::Error{base::Errc::io, fmt::format("{}: has {} bytes, and {} by the hub's list",
                                                       what, size, file.bytes)};
    }
    const bool elsewhere = !same_origin(answer.address, settings_.endpoint);
    return FileAddress{answer.address, token_for(answer.address), elsewhere};
}

}  // namespace helix::hub
