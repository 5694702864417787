#pragma once

#include <charconv>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "hub/digest.h"
#include "hub/fake_server.h"

// A hub with one repository: a server with lists and heads, and another one, to which it sends on
// for the bytes of large files, by addresses that are signed and may expire.

namespace helix::hub {

inline std::string sha256_of(const std::string& text) {
    Digest digest = Digest::sha256();
    digest.add(std::as_bytes(std::span(text)));
    return digest.hex();
}
inline std::string git_hash_of(const std::string& text) {
    Digest digest = Digest::git_blob(text.size());
    digest.add(std::as_bytes(std::span(text)));
    return digest.hex();
}

// Bytes that no compression and no repetition make alike.
inline std::string noise(std::size_t bytes, std::uint32_t seed) {
    std::string text = "GGUF";
    while (text.size() < bytes) {
        seed = seed * 1664525U + 1013904223U;
        text.push_back(static_cast<char>(seed >> 24U));
    }
    return text;
}

// The bytes that a request asks for, as a good server gives them.
inline FakeReply serve_bytes(const FakeRequest& request, const std::string& content,
                             const std::string& etag) {
    FakeReply reply;
    if (!etag.empty()) reply.headers.emplace_back("ETag", "\"" + etag + "\"");
    const std::string range = request.header("range");
    const std::string still = request.header("if-range");
    if (!range.starts_with("bytes=") || (!still.empty() && still != "\"" + etag + "\"")) {
        reply.body = content;
        return reply;
    }
    std::size_t first = 0;
    std::size_t last = content.size() - 1;
    const char* end = range.data() + range.size();
    const auto read = std::from_chars(range.data() + 6, end, first);
    if (read.ptr + 1 < end) std::from_chars(read.ptr + 1, end, last);
    last = std::min(last, content.size() - 1);
    if (first > last) {
        reply.status = 416;
        reply.headers.emplace_back("Content-Range", "bytes */" + std::to_string(content.size()));
        return reply;
    }
    reply.status = 206;
    reply.headers.emplace_back("Content-Range", "bytes " + std::to_string(first) + "-" +
                                                    std::to_string(last) + "/" +
                                                    std::to_string(content.size()));
    reply.body = content.substr(first, last - first + 1);
    return reply;
}

class FakeHub {
  public:
    // What a test puts in the place of the usual answer; nullopt: the usual one.
    using Hook = std::function<std::optional<FakeReply>(const FakeRequest&, const FakeReply&)>;

    explicit FakeHub(const std::string& certificate = {}, const std::string& key = {})
        : bytes_(
              [this](const FakeRequest& request) {
                  const std::lock_guard lock(mutex_);
                  return hooked(request, serve_blob(request), at_bytes);
              },
              certificate, key),
          hub_(
              [this](const FakeRequest& request) {
                  const std::lock_guard lock(mutex_);
                  return hooked(request, serve_hub(request), at_hub);
              },
              certificate, key) {}

    std::string repository = "den/Tiny-GGUF";
    std::string commit = std::string(39, '0') + "1";
    std::map<std::string, std::string> large;  // path and content
    std::map<std::string, std::string> small;
    std::size_t page = 1000;        // files of a page of the list
    std::string token;              // that is asked for; "": none
    std::set<std::string> expired;  // signatures
    Hook at_hub, at_bytes;

    std::string endpoint() const { return hub_.origin(); }
    FakeServer& hub() { return hub_; }
    FakeServer& bytes() { return bytes_; }

  private:
    static FakeReply hooked(const FakeRequest& request, FakeReply usual, const Hook& hook) {
        if (hook) {
            if (auto other = hook(request, usual)) return *other;
        }
        return usual;
    }

    static FakeReply refuse(int status, const std::string& code) {
        return {status, {{"X-Error-Code", code}, {"X-Error-Message", "no"}}, "{}"};
    }

    std::string list_entry(const std::string& path, const std::string& content,
                           bool is_large) const {
        std::string entry = R"({"type":"file","path":")" + path + R"(","oid":")" +
                            git_hash_of(content) + R"(","size":)" + std::to_string(content.size());
        if (is_large) {
            entry += R"(,"lfs":{"oid":")" + sha256_of(content) + R"(","size":)" +
                     std::to_string(content.size()) + R"(,"pointerSize":134})";
        }
        return entry + "}";
    }

    FakeReply list(const FakeRequest& request) {
        std::vector<std::string> entries = {R"({"type":"directory","path":"more","oid":"x"})"};
        for (const auto& [path, content] : small)
            entries.push_back(list_entry(path, content, false));
        for (const auto& [path, content] : large)
            entries.push_back(list_entry(path, content, true));
        std::size_t first = 0;
        if (const std::size_t at = request.query.find("cursor="); at != std::string::npos) {
            first = std::stoul(request.query.substr(at + 7));
        }
        FakeReply reply;
        reply.body = "[";
        for (std::size_t i = first; i < std::min(first + page, entries.size()); ++i) {
            reply.body += (i > first ? "," : "") + entries[i];
        }
        reply.body += "]";
        if (first + page < entries.size()) {
            reply.headers.emplace_back("Link",
                                       "<" + endpoint() + request.path + "?recursive=true&cursor=" +
                                           std::to_string(first + page) + ">; rel=\"next\"");
        }
        return reply;
    }

    FakeReply serve_hub(const FakeRequest& request) {
        if (!token.empty() && request.header("authorization") != "Bearer " + token) {
            return refuse(401, "RepoNotFound");
        }
        const std::string api = "/api/models/" + repository;
        const std::string resolve = "/" + repository + "/resolve/" + commit + "/";
        if (request.path == api + "/revision/main") {
            FakeReply reply;
            reply.body = R"({"id":")" + repository + R"(","sha":")" + commit + R"("})";
            return reply;
        }
        if (request.path == api + "/tree/" + commit) return list(request);
        if (request.path.starts_with(api)) return refuse(404, "RevisionNotFound");
        if (!request.path.starts_with(resolve)) return refuse(404, "RepoNotFound");
        const std::string path = request.path.substr(resolve.size());
        if (const auto found = small.find(path); found != small.end()) {
            return serve_bytes(request, found->second, git_hash_of(found->second));
        }
        const auto found = large.find(path);
        if (found == large.end()) return refuse(404, "EntryNotFound");
        const std::string hash = sha256_of(found->second);
        blobs_["/" + hash] = found->second;
        FakeReply reply;
        reply.status = 302;
        reply.headers = {{"Location", bytes_.origin() + "/" + hash + "?Signature=s" +
                                          std::to_string(++signatures_)},
                         {"X-Repo-Commit", commit},
                         {"X-Linked-Etag", "\"" + hash + "\""},
                         {"X-Linked-Size", std::to_string(found->second.size())}};
        return reply;
    }

    FakeReply serve_blob(const FakeRequest& request) {
        const auto found = blobs_.find(request.path);
        if (found == blobs_.end()) return refuse(404, "");
        if (expired.count(request.query.substr(request.query.find('=') + 1)) != 0) {
            return {403, {}, "<Error>expired</Error>"};
        }
        return serve_bytes(request, found->second, "");
    }

    std::mutex mutex_;
    std::map<std::string, std::string> blobs_;
    int signatures_ = 0;
    FakeServer bytes_;
    FakeServer hub_;
};

}  // namespace helix::hub
