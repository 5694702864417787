#include "hub/download.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file.h"
#include "base/file_lock.h"

namespace helix::hub {
namespace {

namespace fs = std::filesystem;

// A longer rest is asked for in pieces: servers refuse very large answers, and an address that
// expires is then noticed early.
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 30U;
constexpr std::uint64_t kLargestEtag = 1024;
constexpr base::Duration kLookAgain = base::from_ms(500);  // whether another process is done

fs::path part_of(const fs::path& path) {
    return path.string() + ".helix-part";
}

// Beside a part of a file whose hash is not known before: which file it is a part of.
fs::path etag_of(const fs::path& path) {
    return path.string() + ".helix-etag";
}

class Transfer {
  public:
    Transfer(const Download& file, const World& world) : file_(file), world_(world) {}

    base::Result<Downloaded> run();

  private:
    base::Status open();
    base::Status step();
    base::Status act(const Verdict& verdict, const HttpEnd& end);
    base::Status failed(const base::Error& error);
    base::Status start_over();
    void take_head(const HttpHead& head, Verdict& verdict);
    bool take_bytes(std::span<const std::byte> bytes);
    void new_digest();
    base::Result<Downloaded> finish();
    bool whole() const { return size_ && part_->bytes() == *size_; }
    bool hash_is_promised() const { return !file_.sha256.empty() || !file_.git_sha1.empty(); }
    void show() const {
        if (file_.progress) file_.progress(part_->bytes(), size_.value_or(0));
    }

    const Download& file_;
    const World& world_;
    std::unique_ptr<PartFile> part_;
    std::optional<Digest> digest_;
    std::optional<std::uint64_t> size_;
    std::optional<FileAddress> address_;
    std::string etag_;      // of the part, where no hash is promised
    bool resumed_ = false;  // the part has bytes of an earlier run, or of another answer
    bool ended_ = false;    // a body without a known size came to its end
    std::uint64_t received_ = 0;
    std::uint64_t farthest_ = 0;
    int failures_ = 0;
    int waits_ = 0;
    int new_addresses_ = 0;
    base::Duration pause_;
    base::Status disk_ = base::Ok{};
};

void Transfer::new_digest() {
    digest_ = !file_.git_sha1.empty() && file_.sha256.empty() ? Digest::git_blob(*file_.bytes)
                                                              : Digest::sha256();
}

base::Status Transfer::open() {
    CHECK(file_.git_sha1.empty() || file_.bytes);
    size_ = file_.bytes;
    TRY_VOID(make_folder(file_.path.parent_path()));
    TRY(part_, PartFile::open(part_of(file_.path), world_.disk));
    if (!hash_is_promised()) {
        const auto etag = base::read_file(etag_of(file_.path).string(), kLargestEtag);
        if (etag.ok()) etag_ = *etag;
        // Nothing would show that the file has become another one.
        if (!is_strong_etag(etag_)) TRY_VOID(part_->clear());
    }
    if (size_ && part_->bytes() > *size_) TRY_VOID(part_->clear());
    new_digest();
    TRY_VOID(part_->hash_into(*digest_));
    resumed_ = part_->bytes() > 0;
    farthest_ = part_->bytes();
    return base::Ok{};
}

base::Status Transfer::start_over() {
    TRY_VOID(part_->clear());
    new_digest();
    resumed_ = false;
    return base::Ok{};
}

// The head of an answer whose body will be taken, before the body.
void Transfer::take_head(const HttpHead& head, Verdict& verdict) {
    if (verdict.next == Next::start_over) disk_ = start_over();
    if (!file_.bytes) size_ = whole_size(head);
    if (!size_ && !shows_its_end(head)) {
        verdict = {Next::give_up,
                   {},
                   {base::Errc::io,
                    fmt::format("{}: the server does not say how long the file is", file_.what)}};
        return;
    }
    if (!file_.bytes && size_) {
        const auto free = world_.disk.free_bytes(file_.path.parent_path());
        if (free.ok() && *free < *size_ - std::min(*size_, part_->bytes())) {
            verdict = {
                Next::give_up,
                {},
                {base::Errc::io, fmt::format("{}: has {} bytes, and {} are free in {}", file_.what,
                                             *size_, *free, file_.path.parent_path().string())}};
            return;
        }
    }
    if (hash_is_promised() || part_->bytes() > 0) return;
    etag_ = head.header("etag");
    std::ofstream(etag_of(file_.path), std::ios::binary) << etag_;
}

bool Transfer::take_bytes(std::span<const std::byte> bytes) {
    if (!disk_.ok()) return false;
    if (size_ && part_->bytes() + bytes.size() > *size_) {
        disk_ = base::Error{base::Errc::io, fmt::format("{}: the server sends more than the {} "
                                                        "bytes that were promised",
                                                        file_.what, *size_)};
        part_->remove();
        return false;
    }
    const std::uint64_t before = part_->bytes();
    disk_ = part_->add(bytes);
    digest_->add(bytes.first(static_cast<std::size_t>(part_->bytes() - before)));
    received_ += part_->bytes() - before;
    show();
    return disk_.ok();
}

// Counts a try that brought nothing; waits before the next, or gives up.
base::Status Transfer::failed(const base::Error& error) {
    if (part_->bytes() > farthest_) {
        failures_ = 0;
        farthest_ = part_->bytes();
    }
    if (++failures_ >= world_.patience.tries) {
        base::Error last = error;
        if (part_->bytes() > 0) {
            last.message += fmt::format(
                "; given up after {} tries, what has arrived stays: run it again to go on",
                failures_);
        } else {
            last.message += fmt::format("; given up after {} tries", failures_);
        }
        return last;
    }
    if (failures_ > 1) address_.reset();  // another one may be better
    pause_ = failures_ == 1 ? world_.patience.first_pause
                            : std::min(pause_ + pause_, world_.patience.longest_pause);
    world_.pause(pause_, error.message);
    return base::Ok{};
}

base::Status Transfer::act(const Verdict& verdict, const HttpEnd& end) {
    switch (verdict.next) {
        case Next::take:
        case Next::start_over: {
            if (part_->bytes() > farthest_) {
                waits_ = 0;
                new_addresses_ = 0;
            }
            if (end.transfer.ok() && (whole() || !size_)) {
                ended_ = true;
                return base::Ok{};
            }
            if (end.lasting) return end.transfer;
            if (end.transfer.ok() && part_->bytes() > farthest_) {  // a piece of it
                farthest_ = part_->bytes();
                failures_ = 0;
                return base::Ok{};
            }
            return failed(end.transfer.ok()
                              ? base::Error{base::Errc::io, file_.what + ": the answer was empty"}
                              : end.transfer.error());
        }
        case Next::ask_from_0:
            TRY_VOID(start_over());
            return failed(verdict.error);
        case Next::follow: {
            if (++new_addresses_ > world_.patience.waits) return verdict.error;
            TRY(const std::string to,
                follow_address(address_->address, end.head.header("location")));
            const bool stays = same_origin(address_->address, to);
            address_ = FileAddress{to, stays ? address_->token : "", address_->signed_address};
            return base::Ok{};
        }
        case Next::new_address:
            address_.reset();
            if (++new_addresses_ > 2) return failed(verdict.error);
            return base::Ok{};
        case Next::wait:
            if (++waits_ > world_.patience.waits) return verdict.error;
            world_.pause(verdict.pause, verdict.error.message);
            return base::Ok{};
        case Next::try_again:
            return failed(verdict.error);
        case Next::give_up:
            return verdict.error;
    }
    return verdict.error;
}

base::Status Transfer::step() {
    if (!address_) {
        TRY(address_, file_.address());
    }
    // Without a promise only an ETag shows that it is still the same file.
    const bool by_etag = !hash_is_promised() && part_->bytes() > 0;
    if (by_etag && !is_strong_etag(etag_)) TRY_VOID(start_over());
    ByteRequest asked{part_->bytes(), std::nullopt, file_.bytes, address_->signed_address};
    if (size_ && *size_ - asked.offset > kPieceBytes) asked.end = asked.offset + kPieceBytes;
    HttpRequest request{address_->address, false, address_->token, std::nullopt, asked.end, {}};
    if (asked.offset > 0 || asked.end) request.first = asked.offset;
    if (by_etag && asked.offset > 0) request.if_range = etag_;
    Verdict verdict;
    const HttpEnd end = world_.http->send(
        request,
        [&](const HttpHead& head) {
            verdict = judge_bytes(asked, head, address_->address);
            const bool taken = verdict.next == Next::take || verdict.next == Next::start_over;
            if (taken) take_head(head, verdict);
            return taken && verdict.next != Next::give_up && disk_.ok();
        },
        [&](std::span<const std::byte> bytes) { return take_bytes(bytes); });
    TRY_VOID(disk_);
    if (end.head.status == 0) {  // no answer
        if (end.lasting) return end.transfer;
        return failed(end.transfer.ok() ? base::Error{base::Errc::io, "no answer"}
                                        : end.transfer.error());
    }
    return act(verdict, end);
}

base::Result<Downloaded> Transfer::finish() {
    const std::string hash = digest_->hex();
    const std::string& promised = file_.sha256.empty() ? file_.git_sha1 : file_.sha256;
    if (!promised.empty() && hash != promised) {
        part_->remove();
        return base::Error{
            base::Errc::io,
            fmt::format("{}: came with other bytes than promised: its {} is {}, expected {}",
                        file_.what, file_.sha256.empty() ? "git hash" : "SHA-256", hash, promised)};
    }
    TRY_VOID(part_->finish(file_.path));
    std::error_code ignored;
    fs::remove(etag_of(file_.path), ignored);
    return Downloaded{part_->bytes(), received_, hash};
}

base::Result<Downloaded> Transfer::run() {
    TRY_VOID(open());
    show();
    for (bool again = resumed_;; again = false) {
        while (!whole() && !ended_) TRY_VOID(step());
        auto done = finish();
        // What was there from before may be what is wrong: the disk may have lost it in a crash.
        if (done.ok() || !again || done.error().code != base::Errc::io) return done;
        TRY(part_, PartFile::open(part_of(file_.path), world_.disk));
        TRY_VOID(start_over());
        ended_ = false;
        address_.reset();
    }
}

// True when the file is there, as long as it should be.
bool is_there(const Download& file) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(file.path, error);
    return !error && (!file.bytes || bytes == *file.bytes);
}

}  // namespace

std::uint64_t arrived_bytes(const fs::path& path) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(part_of(path), error);
    return error ? 0 : bytes;
}

base::Result<Downloaded> download(const Download& file, const World& world) {
    std::unique_ptr<base::FileLock> lock;
    while (true) {
        TRY(lock, base::FileLock::try_take(file.lock));
        if (lock != nullptr) break;
        if (file.progress) file.progress(arrived_bytes(file.path), file.bytes.value_or(0));
        world.pause(kLookAgain, "another process is pulling " + file.what);
    }
    if (is_there(file)) {
        std::error_code error;
        const std::uint64_t bytes = fs::file_size(file.path, error);
        if (file.progress) file.progress(bytes, bytes);
        return Downloaded{bytes, 0, {}};
    }
    return Transfer(file, world).run();
}

}  // namespace helix::hub
