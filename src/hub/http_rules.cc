#include "hub/http_rules.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>

#include <fmt/format.h>

#include "base/check.h"

namespace helix::hub {
namespace {

constexpr std::int64_t kLongestPause_s = 600;

std::optional<std::uint64_t> whole_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
        text.remove_prefix(1);
    }
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
        text.remove_suffix(1);
    }
    return text;
}

// An address taken apart by the library that will connect to it, so that both read it alike.
class Address {
  public:
    explicit Address(const std::string& text) : handle_(curl_url(), curl_url_cleanup) {
        CHECK(handle_ != nullptr);
        good_ = set(CURLUPART_URL, text);
    }
    bool good() const { return good_; }
    bool set(CURLUPart part, const std::string& text) {
        return curl_url_set(handle_.get(), part, text.c_str(), 0) == CURLUE_OK;
    }
    void clear(CURLUPart part) { (void)curl_url_set(handle_.get(), part, nullptr, 0); }
    std::string get(CURLUPart part, unsigned flags = 0) const {
        char* text = nullptr;
        if (curl_url_get(handle_.get(), part, &text, flags) != CURLUE_OK) return {};
        std::string out(text);
        curl_free(text);
        return out;
    }
    std::string scheme() const { return get(CURLUPART_SCHEME); }
    bool for_the_web() const {
        return good_ && (scheme() == "https" || scheme() == "http") && !host().empty();
    }
    std::string host() const {
        std::string host = get(CURLUPART_HOST);
        for (char& c : host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        return host;
    }
    std::string port() const { return get(CURLUPART_PORT, CURLU_DEFAULT_PORT); }

  private:
    std::unique_ptr<CURLU, void (*)(CURLU*)> handle_;
    bool good_ = false;
};

Verdict give_up(base::Error error) {
    return {Next::give_up, {}, std::move(error)};
}

base::Error answered(const std::string& address, const HttpHead& head) {
    const std::string said = head.header("x-error-message");
    return {base::Errc::unavailable,
            fmt::format("{}: answered with status {}{}{}", shown_address(address), head.status,
                        said.empty() ? "" : ": ", said)};
}

// The range of an answer 206 that is not what was asked for; "" when it is.
std::string wrong_range(const ByteRequest& request, const HttpHead& head) {
    const std::string text = head.header("content-range");
    const auto range = parse_content_range(text);
    if (!range) return fmt::format("its Content-Range is '{}'", text);
    if (range->first != request.offset || (request.end && range->last >= *request.end)) {
        return fmt::format("it sent the range '{}' when asked for bytes from {} on", text,
                           request.offset);
    }
    if (request.size && range->total && *range->total != *request.size) {
        return fmt::format("it says that the file has {} bytes, {} were promised", *range->total,
                           *request.size);
    }
    return {};
}

bool is_coded(const HttpHead& head) {
    const std::string coding = head.header("content-encoding");
    return !coding.empty() && coding != "identity";
}

}  // namespace

std::string HttpHead::header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
    constexpr std::string_view kUnit = "bytes ";
    if (!text.starts_with(kUnit)) return std::nullopt;
    text.remove_prefix(kUnit.size());
    const std::size_t dash = text.find('-');
    const std::size_t slash = text.find('/');
    if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) {
        return std::nullopt;
    }
    const auto first = whole_number(trimmed(text.substr(0, dash)));
    const auto last = whole_number(trimmed(text.substr(dash + 1, slash - dash - 1)));
    const std::string_view total = trimmed(text.substr(slash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    ContentRange range{*first, *last, std::nullopt};
    if (total == "*") return range;
    range.total = whole_number(total);
    if (!range.total || *range.total <= *last) return std::nullopt;
    return range;
}

std::optional<base::Duration> asked_pause(const HttpHead& head) {
    std::optional<std::uint64_t> pause_s = whole_number(trimmed(head.header("retry-after")));
    const std::string limit = head.header("ratelimit");
    for (std::size_t at = limit.find(";t="); !pause_s && at != std::string::npos;) {
        const std::size_t begin = at + 3;
        pause_s = whole_number(limit.substr(begin, limit.find_first_of(";,", begin) - begin));
        if (pause_s) *pause_s += 1;
        at = limit.find(";t=", begin);
    }
    if (!pause_s) return std::nullopt;
    return base::from_seconds(
        static_cast<double>(std::min<std::uint64_t>(*pause_s, kLongestPause_s)));
}

std::string next_page(std::string_view link) {
    while (!link.empty()) {
        const std::size_t open = link.find('<');
        const std::size_t close = link.find('>', open);
        if (open == std::string_view::npos || close == std::string_view::npos) return {};
        // Addresses may have commas, so an entry ends at the next '<'.
        const std::string_view rest = link.substr(close + 1);
        const std::string_view about = rest.substr(0, rest.find('<'));
        if (about.find("rel=\"next\"") != std::string_view::npos ||
            about.find("rel=next") != std::string_view::npos) {
            return std::string(link.substr(open + 1, close - open - 1));
        }
        link = rest;
    }
    return {};
}

std::string plain_etag(std::string_view etag) {
    etag = trimmed(etag);
    if (etag.starts_with("W/")) etag.remove_prefix(2);
    if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
        etag = etag.substr(1, etag.size() - 2);
    }
    return std::string(etag);
}

bool is_strong_etag(std::string_view etag) {
    etag = trimmed(etag);
    return etag.size() > 2 && etag.front() == '"' && etag.back() == '"';
}

base::Result<std::string> follow_address(const std::string& from, const std::string& to) {
    Address address(from);
    const bool was_safe = address.scheme() == "https";
    if (to.empty() || !address.set(CURLUPART_URL, to) || !address.for_the_web()) {
        return base::invalid(fmt::format("{}: sends on to '{}', which is no address of the web",
                                         shown_address(from), shown_address(to)));
    }
    if (was_safe && address.scheme() != "https") {
        return base::invalid(fmt::format("{}: sends on to {}, which is not encrypted",
                                         shown_address(from), shown_address(to)));
    }
    return address.get(CURLUPART_URL);
}

bool same_origin(const std::string& a, const std::string& b) {
    const Address left(a);
    const Address right(b);
    return left.for_the_web() && right.for_the_web() && left.scheme() == right.scheme() &&
           left.host() == right.host() && left.port() == right.port();
}

bool keeps_secrets(const std::string& text) {
    const Address address(text);
    if (!address.for_the_web()) return false;
    const std::string host = address.host();
    return address.scheme() == "https" || host == "localhost" || host == "[::1]" ||
           host.starts_with("127.");
}

std::string shown_address(const std::string& text) {
    Address address(text);
    if (!address.good()) return text.substr(0, text.find_first_of("?#"));
    for (const CURLUPart part :
         {CURLUPART_QUERY, CURLUPART_FRAGMENT, CURLUPART_USER, CURLUPART_PASSWORD}) {
        address.clear(part);
    }
    return address.get(CURLUPART_URL);
}

std::string escaped_path(std::string_view text, bool keep_slashes) {
    std::string out;
    for (const char byte : text) {
        const auto c = static_cast<unsigned char>(byte);
        const bool plain = std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~' ||
                           (c == '/' && keep_slashes);
        out += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
    }
    return out;
}

Verdict judge_small(const HttpHead& head, const std::string& address) {
    const int status = head.status;
    if (status >= 200 && status < 300) return {Next::take, {}, {}};
    const base::Error error = answered(address, head);
    if (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) {
        return {Next::follow, {}, error};
    }
    if (status == 429 || (status == 503 && asked_pause(head))) {
        return {Next::wait, asked_pause(head).value_or(base::from_seconds(30)), error};
    }
    if (status == 408 || status >= 500) return {Next::try_again, {}, error};
    return give_up(error);
}

Verdict judge_bytes(const ByteRequest& request, const HttpHead& head, const std::string& address) {
    if (head.status == 206) {
        if (is_coded(head)) return {Next::ask_from_0, {}, answered(address, head)};
        const std::string wrong = wrong_range(request, head);
        if (wrong.empty()) return {Next::take, {}, {}};
        return {Next::ask_from_0,
                {},
                {base::Errc::io, fmt::format("{}: {}", shown_address(address), wrong)}};
    }
    if (head.status == 200) {
        const auto length = whole_number(head.header("content-length"));
        if (request.size && length && !is_coded(head) && *length != *request.size) {
            return give_up(
                {base::Errc::io, fmt::format("{}: sends {} bytes, {} were promised",
                                             shown_address(address), *length, *request.size)});
        }
        return {request.offset == 0 ? Next::take : Next::start_over, {}, {}};
    }
    // A range that the file does not have. What is there may be wrong, but it is never whole: then
    // nothing would have been asked for.
    if (head.status == 416) return {Next::ask_from_0, {}, answered(address, head)};
    if (head.status == 403 && request.signed_address) {
        return {Next::new_address, {}, answered(address, head)};
    }
    const Verdict verdict = judge_small(head, address);
    if (verdict.next == Next::take) return give_up(answered(address, head));
    return verdict;
}

bool shows_its_end(const HttpHead& head) {
    return head.version >= 2 || !head.header("content-length").empty() ||
           head.header("transfer-encoding").find("chunked") != std::string::npos;
}

std::optional<std::uint64_t> whole_size(const HttpHead& head) {
    if (is_coded(head)) return std::nullopt;
    if (head.status == 206) {
        const auto range = parse_content_range(head.header("content-range"));
        return range ? range->total : std::nullopt;
    }
    return whole_number(head.header("content-length"));
}

base::Error hub_refusal(const HttpHead& head, const std::string& endpoint, const std::string& what,
                        bool has_token) {
    const std::string code = head.header("x-error-code");
    const std::string said = head.header("x-error-message");
    const std::string token =
        has_token ? "or the token may not see it"
                  : "or it needs a token (HF_TOKEN, or --token-file) of somebody who may see it";
    if (said.find("Access to this resource is disabled") != std::string::npos) {
        return {base::Errc::denied, fmt::format("{}: the hub has taken it down", what)};
    }
    if (code == "GatedRepo") {
        return {base::Errc::denied,
                fmt::format("{}: is gated: accept its terms at {}/{}{}", what, endpoint, what,
                            has_token ? " with the account of the token, or wait to be let in"
                                      : ", then give a token (HF_TOKEN, or --token-file)")};
    }
    if (code == "RevisionNotFound") {
        return {base::Errc::not_found, fmt::format("{}: there is no such revision", what)};
    }
    if (code == "EntryNotFound") {
        return {base::Errc::not_found, fmt::format("{}: there is no such file", what)};
    }
    if (code == "RepoNotFound" || head.status == 401 || head.status == 404) {
        return {base::Errc::not_found,
                fmt::format("{}: {} has no such model, {}", what, endpoint, token)};
    }
    return {head.status == 403 ? base::Errc::denied : base::Errc::unavailable,
            fmt::format("{}: {} answered with status {}{}{}", what, endpoint, head.status,
                        said.empty() ? "" : ": ", said)};
}

}  // namespace helix::hub
