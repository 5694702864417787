#include "hub/http.h"

#include <curl/curl.h>

#include <cctype>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"

namespace helix::hub {
namespace {

void start_library() {
    static std::once_flag once;
    std::call_once(once, [] { CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); });
}

// Curl's options are variadic, so their types are checked here.
void set_text(CURL* curl, CURLoption option, const char* text) {
    CHECK(curl_easy_setopt(curl, option, text) == CURLE_OK);
}
void set_number(CURL* curl, CURLoption option, long value) {
    CHECK(curl_easy_setopt(curl, option, value) == CURLE_OK);
}

// One exchange under way.
struct Exchange {
    const Http::OnHead* on_head = nullptr;
    const Http::OnBody* on_body = nullptr;
    HttpHead head;
    bool judged = false;
    bool wanted = false;   // the body, as the head says
    bool stopped = false;  // by us
    std::chrono::milliseconds stall{};
    curl_off_t moved = -1;  // bytes in all when the last ones came
    std::chrono::steady_clock::time_point moved_at{};
    bool stalled = false;

    void judge() {
        if (judged) return;
        judged = true;
        wanted = (*on_head)(head);
    }
};

std::size_t take_header(char* data, std::size_t one, std::size_t count, void* user) {
    auto& exchange = *static_cast<Exchange*>(user);
    std::string_view line(data, one * count);
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // also after 1xx: what counts is the last one
        exchange.head = {};
        exchange.head.version = line.starts_with("HTTP/1") ? 1 : 2;
        const std::size_t blank = line.find(' ');
        if (blank != std::string_view::npos) {
            exchange.head.status = std::atoi(std::string(line.substr(blank + 1, 3)).c_str());
        }
        return one * count;
    }
    // The end of the head, but for one that only announces another one.
    if (line.empty() && exchange.head.status >= 200) exchange.judge();
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || exchange.judged) return one * count;
    std::string name(line.substr(0, colon));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) {
        value.remove_prefix(1);
    }
    exchange.head.headers[name] = value;
    return one * count;
}

std::size_t take_body(char* data, std::size_t one, std::size_t count, void* user) {
    auto& exchange = *static_cast<Exchange*>(user);
    exchange.judge();
    const auto bytes = std::as_bytes(std::span<const char>(data, one * count));
    if (!exchange.wanted || !(*exchange.on_body)(bytes)) {
        exchange.stopped = true;
        return 0;
    }
    return bytes.size();
}

// Called about once a second, and whenever something moves; 1 breaks the transfer off.
int watch(void* user, curl_off_t, curl_off_t received, curl_off_t, curl_off_t) {
    auto& exchange = *static_cast<Exchange*>(user);
    const auto now = std::chrono::steady_clock::now();
    if (received != exchange.moved) {
        exchange.moved = received;
        exchange.moved_at = now;
    }
    exchange.stalled = now - exchange.moved_at > exchange.stall;
    return exchange.stalled ? 1 : 0;
}

bool is_lasting(CURLcode code) {
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT ||
           code == CURLE_SSL_CERTPROBLEM;
}

}  // namespace

struct Http::Impl {
    HttpPatience patience;
    CURL* curl = nullptr;
    std::string trusted;  // a file of certificates; "": the system's

    void fill(const HttpRequest& request, Exchange& exchange, curl_slist*& headers) const;
};

Http::Http(HttpPatience patience) : impl_(std::make_unique<Impl>()) {
    start_library();
    impl_->patience = patience;
    impl_->curl = curl_easy_init();
    CHECK(impl_->curl != nullptr);
    if (const char* file = std::getenv("SSL_CERT_FILE")) impl_->trusted = file;
}

Http::~Http() {
    curl_easy_cleanup(impl_->curl);
}

void Http::Impl::fill(const HttpRequest& request, Exchange& exchange, curl_slist*& headers) const {
    curl_easy_reset(curl);  // connections stay
    set_text(curl, CURLOPT_URL, request.address.c_str());
    set_text(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    set_text(curl, CURLOPT_USERAGENT, "helix/0.1.0");
    // We ask for the bytes as they are; named all the same, so that what comes packed is unpacked.
    set_text(curl, CURLOPT_ACCEPT_ENCODING, "identity");
    set_number(curl, CURLOPT_NOSIGNAL, 1);
    set_number(curl, CURLOPT_FOLLOWLOCATION, 0);
    set_number(curl, CURLOPT_NOBODY, request.head_only ? 1 : 0);
    set_number(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(patience.connect.count()));
    set_number(curl, CURLOPT_NOPROGRESS, 0);
    if (!trusted.empty()) set_text(curl, CURLOPT_CAINFO, trusted.c_str());
    if (!request.token.empty()) {
        headers = curl_slist_append(headers, ("Authorization: Bearer " + request.token).c_str());
    }
    if (request.first) {
        const std::string last = request.end ? fmt::format("{}", *request.end - 1) : "";
        headers = curl_slist_append(
            headers, fmt::format("Range: bytes={}-{}", *request.first, last).c_str());
    }
    if (!request.if_range.empty()) {
        headers = curl_slist_append(headers, ("If-Range: " + request.if_range).c_str());
    }
    CHECK(curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK);
    CHECK(curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &take_header) == CURLE_OK);
    CHECK(curl_easy_setopt(curl, CURLOPT_HEADERDATA, static_cast<void*>(&exchange)) == CURLE_OK);
    CHECK(curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take_body) == CURLE_OK);
    CHECK(curl_easy_setopt(curl, CURLOPT_WRITEDATA, static_cast<void*>(&exchange)) == CURLE_OK);
    CHECK(curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &watch) == CURLE_OK);
    CHECK(curl_easy_setopt(curl, CURLOPT_XFERINFODATA, static_cast<void*>(&exchange)) == CURLE_OK);
}

HttpEnd Http::send(const HttpRequest& request, const OnHead& on_head, const OnBody& on_body) {
    Exchange exchange;
    exchange.on_head = &on_head;
    exchange.on_body = &on_body;
    exchange.stall = impl_->patience.stall;
    curl_slist* headers = nullptr;
    impl_->fill(request, exchange, headers);
    std::string said(CURL_ERROR_SIZE, '\0');
    CHECK(curl_easy_setopt(impl_->curl, CURLOPT_ERRORBUFFER, said.data()) == CURLE_OK);
    const CURLcode code = curl_easy_perform(impl_->curl);
    CHECK(curl_easy_setopt(impl_->curl, CURLOPT_ERRORBUFFER, nullptr) == CURLE_OK);
    curl_slist_free_all(headers);
    HttpEnd end;
    if (exchange.judged) end.head = std::move(exchange.head);
    if (code == CURLE_OK || exchange.stopped) return end;
    end.lasting = is_lasting(code);
    said.resize(said.find('\0'));
    if (exchange.stalled) {
        said = fmt::format("nothing came for {} s", impl_->patience.stall.count());
    }
    end.transfer =
        base::Error{base::Errc::unavailable,
                    fmt::format("{}: {}", shown_address(request.address),
                                said.empty() ? std::string(curl_easy_strerror(code)) : said)};
    return end;
}

}  // namespace helix::hub
