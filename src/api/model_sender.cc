#include "api/model_sender.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/byte_range.h"
#include "api/context.h"
#include "api/error.h"
#include "api/handlers.h"
#include "api/piece_stream.h"

namespace helix::api {
namespace {

struct ModelDownload;

}  // namespace

struct ModelSender::Impl {
    bool push(std::shared_ptr<ModelDownload> download);
    void work();

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<ModelDownload>> queue;
    bool stopping = false;
    std::thread thread;
};

namespace {

struct ModelDownload final : PieceStream {
    ModelDownload(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
                  ModelSender::Impl& sender_impl, const ModelFile& file, ByteRange range)
        : PieceStream(context, exchange), sender(sender_impl), reader(file.open()), left(range) {}

    void answer(int status, net::HttpHeaders headers) {
        head = {status, std::move(headers), left.end - left.first};
    }
    // The sender's thread.
    base::Result<std::string> next_piece() {
        const std::uint64_t bytes = std::min<std::uint64_t>(piece_bytes(), left.end - left.first);
        std::string piece(bytes, '\0');
        TRY_VOID(reader->read(left.first, std::as_writable_bytes(std::span(piece))));
        left.first += bytes;
        return piece;
    }
    bool ask() override;
    ApiError error_of(const base::Error& error) const override { return from_error(error); }

    ModelSender::Impl& sender;
    std::unique_ptr<ModelFile::Reader> reader;
    ByteRange left;
};

bool ModelDownload::ask() {
    return sender.push(std::static_pointer_cast<ModelDownload>(shared_from_this()));
}

}  // namespace

// False if it is too late and nobody will take it.
bool ModelSender::Impl::push(std::shared_ptr<ModelDownload> download) {
    const std::lock_guard lock(mutex);
    if (stopping) return false;
    queue.push_back(std::move(download));
    changed.notify_all();
    return true;
}

void ModelSender::Impl::work() {
    std::unique_lock lock(mutex);
    while (true) {
        changed.wait(lock, [this] { return stopping || !queue.empty(); });
        if (stopping) return queue.clear();
        const auto download = std::move(queue.front());
        queue.pop_front();
        lock.unlock();
        download->give(download->next_piece());
        lock.lock();
    }
}

ModelSender::ModelSender(ApiContext& context) : context_(context), impl_(std::make_unique<Impl>()) {
    impl_->thread = std::thread([impl = impl_.get()] { impl->work(); });
}

ModelSender::~ModelSender() {
    stop();
}

void ModelSender::stop() {
    {
        const std::lock_guard lock(impl_->mutex);
        impl_->stopping = true;
    }
    impl_->changed.notify_all();
    if (impl_->thread.joinable()) impl_->thread.join();
}

void ModelSender::send(const std::shared_ptr<net::HttpExchange>& exchange,
                       const ModelEntry& model) {
    const ModelFile& file = *model.file;
    const std::string etag = '"' + file.hash() + '"';
    const WantedBytes wanted = wanted_bytes(exchange->request(), file.bytes(), etag);
    net::HttpHeaders headers = {{"accept-ranges", "bytes"}, {"etag", etag}};
    if (wanted.outside) {
        net::HttpResponse response =
            error_response(from_status(416, fmt::format("The file has {} bytes.", file.bytes())));
        response.headers.emplace_back("content-range", fmt::format("bytes */{}", file.bytes()));
        return context_.respond(*exchange, response);
    }
    if (wanted.part) {
        headers.emplace_back("content-range", fmt::format("bytes {}-{}/{}", wanted.part->first,
                                                          wanted.part->end - 1, file.bytes()));
    }
    const auto download = std::make_shared<ModelDownload>(
        context_, exchange, *impl_, file, wanted.part.value_or(ByteRange{0, file.bytes()}));
    download->answer(wanted.part ? 206 : 200, std::move(headers));
    if (impl_->push(download)) return;
    context_.respond(*exchange, error_response(unavailable("The server is shutting down.", 5)));
}

namespace handle {

void model_files(ApiContext& context, const Exchange& exchange, Words) {
    nlohmann::json files = nlohmann::json::array();
    for (const ModelEntry& entry : context.models.all()) {
        if (entry.file == nullptr) continue;
        files.push_back({{"name", entry.info.name},
                         {"bytes", entry.file->bytes()},
                         {"hash", entry.file->hash()}});
    }
    context.respond(*exchange, json_response({{"models", std::move(files)}}));
}

void model_file(ApiContext& context, const Exchange& exchange, Words words) {
    constexpr std::string_view kEnding = ".gguf";
    if (!words[0].ends_with(kEnding)) return nothing(context, exchange);
    const std::string name(words[0].substr(0, words[0].size() - kEnding.size()));
    const ModelEntry* entry = name.empty() ? nullptr : context.models.find(name);
    if (entry == nullptr || entry->file == nullptr) return nothing(context, exchange);
    context.sender->send(exchange, *entry);
}

}  // namespace handle
}  // namespace helix::api
